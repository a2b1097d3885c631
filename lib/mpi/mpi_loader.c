/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens one loader on each rank together. The ranks agree wherever a failed rank would make other
 * ranks wait.
 *
 * The core makes the loader itself, and calls functions of this file before the loader's threads
 * begin. */
#include "config.h"
#include "mpi/peer_private.h"

#include "env/env.h"
#include "env/packed.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_index.h"
#include "mpi/mpi_job.h"
#include "mpi/mpi_same.h"
#include "mpi/mpi_wait.h"
#include "origin/origin_find.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <lmdbio_mpi.h>
#include <stdlib.h>
#include <string.h>

enum { RESIDENT_SPARE = 16 }; /* 1 / this of the room is left unplanned */

struct opening {
	struct mpi_job place;
	const char *path;
	struct lmdbio_loader_options options;
	uint64_t piece;         /* bytes that a container decompresses as one; 0: no container */
	bool agreed;            /* on an error, after which this rank asks no other rank */
	const char *why_not;    /* why nodes keep no records for each other; NULL: they do */
	struct index_kept kept; /* what the numbering of the records has read */
	bool duplicates;        /* a key may have many values */
	struct peer_job *job;
};

static int agree(struct opening *opening, int rc)
{
	if (!opening->agreed)
		rc = mpi_agree(opening->place.all, rc, NULL);
	opening->agreed |= rc != 0;
	return rc;
}

/* Returns 0 if all ranks have the same bytes in `mine`, else `otherwise`. */
static int same_on_all(struct opening *opening, const void *mine, size_t size, int otherwise)
{
	return agree(opening, mpi_same(opening->place.all, mine, size, otherwise));
}

/* Tells the loader how many bytes the ranks of the node have put on its disk together. */
static int lent_tell(const struct opening *opening, struct lmdbio_loader *loader)
{
	uint64_t mine = shelf_file_used(opening->kept.shelf), all = mine;
	int rc = MPI_SUCCESS;

	if (opening->place.node != MPI_COMM_NULL)
		rc = mpi_allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, opening->place.node);
	loader_lends(loader, all);
	return mpi_error_code(rc);
}

/* The hook after the database is opened and before its records are numbered. All ranks check that
 * they look at the same data, and read its leaves once for the whole job. */
static int number(void *context, struct lmdbio_loader *loader, MDB_txn *txn, struct tree *tree)
{
	struct opening *opening = context;
	struct loader_sizes sizes = loader_sizes(loader);
	struct record_index *index = NULL;
	int packed = txn->env->packed != NULL, any = 0, rc;

	if (packed)
		opening->piece = txn->env->packed->store.piece;
	rc = mpi_same_data(opening->place.all, txn, tree);
	opening->agreed |= rc != 0;
	if (!rc)
		rc = agree(opening, mpi_error_code(mpi_allreduce(&packed, &any, 1, MPI_INT, MPI_MAX,
								 opening->place.all)));
	/* A container has an index of its own. */
	if (rc || any || opening->place.place.ranks == 1)
		return rc;
	opening->duplicates = tree->record.flags & MDB_DUPSORT;
	opening->kept.shelf = loader_shelf(loader);
	opening->kept.room = sizes.room / (uint64_t)opening->place.place.node_ranks +
			     shelf_file_room(opening->kept.shelf);
	opening->kept.needed = sizes.bytes + tree->record.entries * PEER_RECORD_SPENT;
	rc = mpi_index_build(opening->place.all, &txn->snapshot, tree,
			     opening->why_not ? NULL : &opening->kept, &index);
	opening->agreed |= rc != 0;
	if (!rc)
		rc = agree(opening, lent_tell(opening, loader));
	if (!rc)
		rc = records_put(txn, tree, index);
	if (rc)
		index_free(index);
	return rc == EEXIST ? 0 : rc;
}

static void tell_plan(const struct opening *opening, const struct peer_planned *planned,
		      uint64_t records)
{
	if (!settings_get()->verbose || opening->place.place.rank)
		return;
	if (opening->why_not)
		log_line("%s: nodes keep no records for each other: %s", opening->path,
			 opening->why_not);
	else
		log_line("%s: %d nodes keep %llu of %llu records for each other, %llu of them on "
			 "disk",
			 opening->path, opening->place.place.nodes,
			 (unsigned long long)planned->records, (unsigned long long)records,
			 (unsigned long long)planned->on_disk);
}

/* Plans, and makes what the plan needs. `disk`: the loader's, or NULL. The code is agreed; after an
 * error there is no job. */
static int job_make(struct opening *opening, struct lmdbio_loader *loader,
		    const struct order_spec *spec, const struct tier *disk,
		    struct peer_planned *planned)
{
	struct peer_job *job = job_new(opening->path);
	bool serves = false;
	int rc = agree(opening, job ? 0 : ENOMEM);

	/* The job has a communicator of its own: the services end by a collective call, at any
	 * time. */
	if (!rc)
		rc = agree(opening, mpi_error_code(job_join(job, opening->place.all)));

	if (!rc) {
		struct loader_sizes sizes = loader_sizes(loader);
		struct peer_size size = {.bytes = sizes.bytes,
					 .leaves = sizes.leaf_bytes,
					 .piece = opening->piece,
					 .room = {sizes.room}};

		job->loader = loader;
		if (disk) {
			job->store.disk = disk->ops;
			job->store.disk_state = disk->state;
			size.room[PLACE_DISK] = disk->ops->space(disk->state).room;
		}
		rc = peer_plan(job, &opening->place, spec, &size, &opening->kept, planned);
		opening->agreed |= rc != 0;
	}
	index_kept_free(&opening->kept);
	if (!rc && planned->records) {
		fill_from_shelf(job);
		/* With duplicates the shelf could not go page by page, and is as much memory
		 * again. */
		if (opening->duplicates)
			loader_shelf_close(loader);
		rc = fillers_start(job);
		if (!rc)
			rc = disks_start(job);
		if (!rc)
			rc = service_start(job);
		serves = !rc;
		rc = agree(opening, rc);
	}
	if (!rc && planned->records) {
		opening->job = job;
		return 0;
	}
	if (serves)
		service_cancel(job);
	if (job) {
		fillers_stop(job);
		crew_stop(&job->disks.crew);
		if (job->comm != MPI_COMM_NULL)
			MPI_Comm_free(&job->comm);
	}
	job_free(job);
	return rc;
}

/* Sets how many records stay in memory if the program has not: as many as all nodes have room for,
 * together. A part of the room is left, because units do not fill a node to the last byte. */
static int residents_share(struct opening *opening, const struct lmdbio_loader *loader,
			   struct order_spec *spec)
{
	struct loader_sizes sizes = loader_sizes(loader);
	uint64_t room = sizes.room / (uint64_t)opening->place.place.node_ranks, all = 0;
	uint64_t each = sizes.bytes / (spec->records + 1) + 1 + PEER_RECORD_SPENT;
	int rc;

	if (spec->policy != ORDER_OPPORTUNISTIC || opening->options.resident || opening->why_not)
		return 0;
	rc = mpi_error_code(
		mpi_allreduce(&room, &all, 1, MPI_UINT64_T, MPI_SUM, opening->place.all));
	all -= all / RESIDENT_SPARE;
	if (all)
		spec->resident = all / each < spec->records ? all / each : spec->records;
	return rc;
}

/* Returns the loader's local disk, or NULL. */
static struct tier *disk_of(struct tiers *tiers)
{
	for (unsigned i = 0; i < tiers->count; i++)
		if (tiers->tier[i].ops->space)
			return &tiers->tier[i];
	return NULL;
}

/* The hook before the loader's threads begin. */
static int prepare(void *context, struct lmdbio_loader *loader, struct tiers *tiers,
		   struct order_spec *spec)
{
	struct opening *opening = context;
	struct peer_planned planned = {0};
	struct tier *disk = disk_of(tiers);
	int rc = agree(opening, 0);

	if (!rc)
		rc = agree(opening, residents_share(opening, loader, spec));
	/* Nodes have different memory, so the order of rank 0 counts. */
	if (!rc)
		rc = agree(opening, mpi_error_code(mpi_bcast(spec, sizeof(*spec), MPI_BYTE, 0,
							     opening->place.all)));
	if (!rc && !opening->why_not) {
		rc = job_make(opening, loader, spec, disk, &planned);
		if (!rc && !planned.records)
			opening->why_not = "there is no room for them, or hardly any data";
	}
	if (!rc)
		tell_plan(opening, &planned, spec->records);
	if (!rc && !opening->job)
		loader_shelf_close(loader);
	if (rc || !opening->job)
		return rc;
	/* From now on the disk takes the records that the plan places there. It stays open as long
	 * as peers ask for them. */
	if (disk)
		opening->job->disks.owned = disk->lent = true;
	service_go(opening->job);
	tiers->planned = planned.records;
	(void)tier_add(tiers, &peer_tier_own, opening->job, SOURCE_MEMORY);
	(void)tier_add(tiers, &peer_tier_others, opening->job, SOURCE_PEER);
	return 0;
}

/* An options struct of an older program is shorter; what it lacks is zero. */
static int options_take(struct lmdbio_loader_options *to, const struct lmdbio_loader_options *from)
{
	if (!from || from->size < offsetof(struct lmdbio_loader_options, ranks))
		return EINVAL;
	memcpy(to, from, from->size < sizeof(*to) ? from->size : sizeof(*to));
	to->size = sizeof(*to);
	return 0;
}

/* Checks that all ranks have the same options for the order. */
static int same_order(struct opening *opening)
{
	const struct lmdbio_loader_options *options = &opening->options;
	uint64_t numbers[] = {options->seed,   options->batch, options->order,  options->tail,
			      options->shares, options->block, options->buffer, options->resident};

	return same_on_all(opening, numbers, sizeof(numbers), EINVAL);
}

/* Sets why_not if nodes cannot keep records for each other. It is the same on all ranks. */
static int can_keep(struct opening *opening)
{
	int mine = MPI_THREAD_SINGLE, least = MPI_THREAD_SINGLE, rc;

	MPI_Query_thread(&mine);
	rc = mpi_error_code(mpi_allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, opening->place.all));
	if (opening->place.place.nodes < 2)
		opening->why_not = "there is one node";
	else if (least < MPI_THREAD_MULTIPLE)
		opening->why_not = "the program has not asked for MPI_THREAD_MULTIPLE";
	return agree(opening, rc);
}

/* The program calls the loader through the drop-in library, which must use this core. */
static int front_find(void)
{
	if (origin_has_front())
		return 0;
	log_line("lmdbio_mpi_loader_open: the program has no liblmdb.so.0 of "
		 "lmdbio " PACKAGE_VERSION);
	return ENOTSUP;
}

static int loader_make(struct opening *opening, struct lmdbio_loader **loader, unsigned flags,
		       const char *name)
{
	char node[MPI_NODE_NAME];
	struct loader_place place = {.path = opening->path, .flags = flags, .name = name};
	struct loader_hooks hooks = {
		.number = number, .prepare = prepare, .context = opening, .node = node};
	int rc = same_order(opening);

	mpi_node_name(&opening->place, node);
	if (!rc)
		rc = can_keep(opening);
	if (rc)
		return rc;
	opening->options.ranks = (uint32_t)opening->place.place.ranks;
	opening->options.rank = (uint32_t)opening->place.place.rank;
	hooks.sharers = opening->why_not ? 0 : (unsigned)opening->place.place.node_ranks;
	rc = loader_open(loader, &place, &opening->options, &hooks);
	index_kept_free(&opening->kept);
	rc = agree(opening, rc);
	if (rc && *loader) {
		loader_close(*loader);
		*loader = NULL;
	}
	return rc;
}

__attribute__((visibility("default"))) int
lmdbio_mpi_loader_open(MPI_Comm comm, struct lmdbio_loader **ret, const char *path, unsigned flags,
		       const char *name, const struct lmdbio_loader_options *options)
{
	struct opening opening = {.path = path};
	struct lmdbio_loader *loader = NULL;
	MPI_Comm own = MPI_COMM_NULL;
	int rc;

	if (ret)
		*ret = NULL;
	if (mpi_comm_dup(comm, &own) != MPI_SUCCESS)
		return EIO;
	opening.place =
		(struct mpi_job){.all = own, .node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL};
	rc = ret && path ? options_take(&opening.options, options) : EINVAL;
	if (!rc)
		rc = front_find();
	rc = agree(&opening, rc);
	if (!rc)
		rc = agree(&opening, mpi_error_code(mpi_job_place(&opening.place, own)));
	if (!rc)
		rc = loader_make(&opening, &loader, flags, name);
	(void)mpi_job_leave(&opening.place);
	MPI_Comm_free(&own);
	if (!rc)
		*ret = loader;
	return rc;
}
