/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a loader, and ends it while other threads still use it. */
#include "loader/loader_private.h"

#include "util/at_fork.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/settings.h"
#include "util/thread.h"
#include "window/store.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the open loaders ------------------------------------------------------------------------- */

/* The list of open loaders. With it, threads need not agree on when a loader is closed: a call that
 * comes too late finds it gone. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct lmdbio_loader *open_list;
static _Atomic unsigned open_process; /* fork_generation of the process that last opened a loader */

/* A child does not have the parent's loaders, and another thread of the parent may have held
 * open_lock. */
static void fork_in_child(void)
{
	pthread_mutex_init(&open_lock, NULL);
	open_list = NULL;
}

/* Not with the first loader, which a thread may open while another thread forks. */
__attribute__((constructor)) static void fork_begin(void)
{
	static const struct fork_steps steps = {.child = fork_in_child};

	at_fork(FORK_LOADERS, &steps);
}

void loader_enlist(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&open_lock);
	loader->live = open_list;
	open_list = loader;
	open_process = fork_generation;
	pthread_mutex_unlock(&open_lock);
}

/* Returns the loader's link in the list, or the list's end. Under open_lock. */
static struct lmdbio_loader **open_find(const struct lmdbio_loader *loader)
{
	struct lmdbio_loader **link = &open_list;

	while (*link && *link != loader)
		link = &(*link)->live;
	return link;
}

bool loader_delist(struct lmdbio_loader *loader)
{
	struct lmdbio_loader **link;
	bool there;

	pthread_mutex_lock(&open_lock);
	link = open_find(loader);
	there = *link != NULL;
	if (there)
		*link = loader->live;
	pthread_mutex_unlock(&open_lock);
	return there;
}

struct lmdbio_loader *loader_enter(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&open_lock);
	loader = *open_find(loader);
	if (loader) {
		pthread_mutex_lock(&loader->lock);
		loader->references++;
		pthread_mutex_unlock(&loader->lock);
	}
	pthread_mutex_unlock(&open_lock);
	return loader;
}

void loader_leave(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader_release(loader);
}

int loader_gone(void)
{
	return open_process != fork_generation ? ECHILD : ECANCELED;
}

enum {
	READERS = 16,
	DEPTH_FIRST = 4,
	RUN_BYTES = 1 << 20,
	TRANSIT_LEAST = 8 << 20, /* bytes of arena that reads pass through */
	TRANSIT = 2 << 20,       /* of these bytes for each read, so that none is evicted unused */
	READ_LEAST = 128 << 10,  /* bytes of neighbours that come with one read */
	READ_MOST = 4 << 20,
	READ_SHARE = 4,          /* 1 / this of memory is for all readers' buffers */
	ORDER_BYTES = 256 << 20, /* of records, for each default of an order */
	LOCK_MODE = 0664,        /* of a lock file that is not there yet, as LMDB's tools make it */
};

/* An options struct of an older program is shorter; what it lacks is zero. */
static int options_take(struct lmdbio_loader_options *to, const struct lmdbio_loader_options *from)
{
	size_t size;

	if (!from || from->size < offsetof(struct lmdbio_loader_options, ranks))
		return EINVAL;
	size = from->size < sizeof(*to) ? from->size : sizeof(*to);
	memset(to, 0, sizeof(*to));
	memcpy(to, from, size);
	if (!to->ranks)
		to->ranks = 1;
	return to->batch && to->rank < to->ranks && to->order <= LMDBIO_ORDER_OPPORTUNISTIC &&
			       to->tail <= LMDBIO_TAIL_WRAP
		       ? 0
		       : EINVAL;
}

/* A mistyped directory is refused even if the data is small and no record would be kept there: the
 * larger data set needs it. A job goes on without the disk of a node that lacks the directory, and
 * says so where it opens the disk tier. Returns 0 or an errno. */
static int stage_dir_judge(const char *directory)
{
	struct stat st;
	int rc;

	if (!directory)
		return 0;
	rc = stat(directory, &st) ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
	if (rc)
		log_line("stage_dir %s: %s: make the directory, or open the loader without "
			 "stage_dir",
			 directory, strerror(rc));
	return rc;
}

/* Sets how large the database is, as far as its record tells, and whether samples are copied. A
 * database that fits into the node's memory is not copied. */
static void sizes_set(struct lmdbio_loader *loader)
{
	const struct tree_record *record = &loader->data.tree.record;
	const struct snapshot *snapshot = &loader->data.txn->snapshot;
	uint64_t budget = memory_budget(settings_get()), all = snapshot->view.limit, most;
	uint64_t pages = record->branch_pages + record->leaf_pages + record->overflow_pages;

	/* Trees of duplicates are in no record. */
	if (record->flags & MDB_DUPSORT || pages > all)
		pages = all;
	loader->data.bytes = pages << snapshot->view.page_shift;
	loader->data.whole = pages >= all / 2;
	loader->data.leaves_first = record->overflow_pages != 0;
	/* The arena's budget is the node's; the page cache takes what is free. */
	most = snapshot->view.store ? budget - budget / 8 : budget * 2;
	loader->memory.most = loader->options.memory ? loader->options.memory : budget - budget / 4;
	if (loader->job.sharers && !loader->options.memory)
		loader->memory.most = budget / 8 / loader->job.sharers;
	if (loader->options.memory && loader->options.memory < most)
		most = loader->options.memory;
	/* A file without a store is small. */
	loader->memory.copies =
		loader->data.env->stored && (loader->job.sharers || loader->data.bytes > most);
}

/* Copies take memory that the arena of the loader's own environment need not have: one budget for
 * both. Returns false if a page that was read has made the arena, which a transaction still uses. */
static bool arena_limit(struct lmdbio_loader *loader)
{
	uint64_t budget = memory_budget(settings_get()), left = budget / 8;
	unsigned __int128 spent;

	if (!loader->data.own_env || !loader->memory.copies)
		return true;
	/* Each sharer has its own part of the arena for reads to pass through. Otherwise chunks
	 * that one sharer has shown, and does not look at any more, would take the room of
	 * another. */
	if (loader->job.sharers)
		left /= loader->job.sharers;
	else if (loader->memory.most < budget - left)
		left = budget - loader->memory.most;
	if (left < TRANSIT_LEAST)
		left = TRANSIT_LEAST;
	if (!store_limit(&loader->data.env->store, left))
		return false;
	/* The program may have named any number of bytes for its batches. */
	spent = ((unsigned __int128)loader->memory.most + left) * loader->job.sharers;
	loader->job.keep_room =
		loader->job.sharers && spent < budget ? budget - (uint64_t)spent : 0;
	return true;
}

/* Returns the bytes that a rank may keep of the pages that it numbers. They go page by page as
 * their records are taken, but pages of duplicates all at once. So there are two copies of these
 * for a time. */
static uint64_t shelf_bytes(const struct lmdbio_loader *loader)
{
	uint64_t room = loader->job.keep_room / loader->job.sharers;

	return loader->data.tree.record.flags & MDB_DUPSORT ? room / 2 : room;
}

static int database_find(struct lmdbio_loader *loader, const char *text, MDB_val *name)
{
	int rc = txn_begin(loader->data.env, NULL, MDB_RDONLY, &loader->data.txn);

	if (!rc)
		rc = dbi_find(loader->data.txn, text, &loader->data.tree, name);
	if (!rc)
		sizes_set(loader);
	return rc;
}

/* Opens a transaction and the database in it, and limits the arena. The search for a name reads
 * pages, and so makes the arena before the size of the database is known. That arena is given up,
 * and the search is repeated in another arena. */
static int database_open(struct lmdbio_loader *loader, const char *text, MDB_val *name)
{
	int rc = database_find(loader, text, name);

	if (rc || arena_limit(loader))
		return rc;
	txn_abort(loader->data.txn);
	loader->data.txn = NULL;
	(void)arena_limit(loader);
	return database_find(loader, text, name);
}

/* Opens the environment, a transaction and the database in it. */
static int place_open(struct lmdbio_loader *loader, const struct loader_place *place,
		      const struct loader_hooks *hooks)
{
	MDB_val name;
	int rc = 0;

	loader->data.env = place->env;
	loader->data.own_env = !place->env;
	if (loader->data.own_env) {
		rc = env_create(&loader->data.env);
		if (!rc && hooks && hooks->node && !(loader->data.env->node = strdup(hooks->node)))
			rc = ENOMEM;
		if (!rc) {
			loader->data.env->alone = loader->job.sharers != 0;
			loader->data.env->plans = true;
			rc = env_open(loader->data.env, place->path,
				      place->flags | MDB_RDONLY | MDB_NOTLS, LOCK_MODE);
		}
		if (rc)
			return rc;
	}
	if (loader->data.env->mode != ENV_OWN)
		return ENOTSUP;
	if (loader->data.env->stored)
		store_guess(&loader->data.env->store, GUESS_NOTHING);
	rc = database_open(loader, place->name, &name);
	if (rc)
		return rc;
	if (loader->job.sharers)
		rc = shelf_open(&loader->data.shelf, &loader->data.txn->snapshot.view,
				shelf_bytes(loader));
	if (!rc && loader->job.sharers)
		loader_shelf_extend(loader);
	if (!rc && hooks && hooks->number)
		rc = hooks->number(hooks->context, loader, loader->data.txn, &loader->data.tree);
	return rc ? rc
		  : records_take_tree(loader->data.txn, &loader->data.tree,
				      place->name ? &name : NULL, &loader->data.index);
}

/* Returns how much of the loader's memory residents have: a half, or more if more records are asked
 * for; an eighth is always the batches'. */
static uint64_t keep_bytes(const struct lmdbio_loader *loader)
{
	uint64_t records = index_records(loader->data.index), wanted = loader->options.resident;
	uint64_t half = loader->memory.most / 2,
		 most = loader->memory.most - loader->memory.most / 8;

	wanted = (wanted < records ? wanted : records) * record_bytes(loader);
	return wanted <= half ? half : wanted < most ? wanted : most;
}

/* Returns the bytes of the records that are shuffled together. Free memory differs between ranks,
 * machines and runs, and the order must not. So only the memory that the options name counts. */
static uint64_t buffer_bytes(const struct lmdbio_loader *loader)
{
	if (!loader->options.memory)
		return ORDER_BYTES;
	/* If nodes keep records for each other, residents are not in the batches' memory. */
	if (loader->options.order == LMDBIO_ORDER_OPPORTUNISTIC && !loader->job.keep_room)
		return loader->memory.most - keep_bytes(loader);
	return loader->memory.most / 2;
}

/* Returns the default of `resident`. Ranks that do not agree on it must each find the same. */
static uint64_t residents_of(const struct lmdbio_loader *loader, bool agree)
{
	uint64_t memory = loader->options.memory, each = record_bytes(loader);
	bool fits = !loader->memory.copies;

	if (!agree && loader->options.ranks > 1) {
		if (!memory)
			return ORDER_BYTES / each;
		fits = loader->data.bytes <= memory;
	}
	return fits ? index_records(loader->data.index) : keep_bytes(loader) / each;
}

/* `agree`: a hook has all ranks take one spec. */
static void spec_set(const struct lmdbio_loader *loader, struct order_spec *spec, bool agree)
{
	const struct lmdbio_loader_options *options = &loader->options;
	uint64_t each = record_bytes(loader), buffer;

	*spec = (struct order_spec){
		.seed = options->seed,
		.records = index_records(loader->data.index),
		.batch = options->batch,
		.policy = (enum order_policy)options->order,
		.tail = (enum order_tail)options->tail,
		.shares = options->shares,
		.block = options->block,
		.buffer = options->buffer,
		.resident = options->resident,
	};
	if (spec->policy < ORDER_BLOCK)
		return;
	if (!spec->block)
		spec->block = (uint32_t)(RUN_BYTES / each + 1);
	buffer = buffer_bytes(loader) / each / spec->block;
	if (!spec->buffer)
		spec->buffer = buffer > UINT32_MAX ? UINT32_MAX : buffer ? (uint32_t)buffer : 1;
	if (spec->policy == ORDER_OPPORTUNISTIC && !spec->resident)
		spec->resident = residents_of(loader, agree);
}

/* The disk is open when `prepare` is called, which may make a plan for it. */
static int tiers_set(struct lmdbio_loader *loader, const struct loader_hooks *hooks)
{
	struct order_spec spec;
	struct tier_setup setup = {
		.order = &loader->order,
		.identity = loader->data.txn->identity,
		.root = loader->data.tree.record.root,
		.records = index_records(loader->data.index),
		.keep = loader->memory.copies && !loader->job.keep_room ? keep_bytes(loader) : 0,
		.directory = loader->memory.copies ? loader->options.stage_dir : NULL,
		.limit = loader->options.stage_size,
		.lent = loader->job.lent,
		/* A job's plan does not know the records in an old file. */
		.fresh = loader->job.sharers != 0,
	};
	int rc = tier_open(&loader->tiers, &tier_disk, SOURCE_DISK, &setup);

	spec_set(loader, &spec, hooks && hooks->prepare);
	if (!rc && hooks && hooks->prepare)
		rc = hooks->prepare(hooks->context, loader, &loader->tiers, &spec);
	if (!rc)
		rc = order_init(&loader->order, &spec);
	if (rc)
		return rc;
	/* Batches do not have the memory of residents. */
	if (spec.policy == ORDER_OPPORTUNISTIC && loader->memory.copies)
		loader->memory.most -= setup.keep;
	return tier_open(&loader->tiers, &tier_kept, SOURCE_MEMORY, &setup);
}

/* Divides the memory between copies and the outputs of decoders. Two rounds are planned at a time:
 * both have their outputs, and one has its copies. */
static void outputs_set(struct lmdbio_loader *loader)
{
	uint64_t all = loader->memory.most, each = record_bytes(loader);
	unsigned __int128 output = decoded_bytes(loader, 1);

	loader->memory.outputs = UINT64_MAX;
	if (!output)
		return;
	if (loader->memory.copies) {
		loader->memory.most =
			(uint64_t)((unsigned __int128)all * each / (each + 2 * output));
		all -= loader->memory.most;
	}
	loader->memory.outputs = (uint64_t)(all / output);
}

static void locks_make(struct lmdbio_loader *loader)
{
	pthread_mutex_init(&loader->lock, NULL);
	pthread_mutex_init(&loader->memory.blocks.lock, NULL);
	clock_condition(&loader->ready);
	clock_condition(&loader->turn);
	clock_condition(&loader->still);
	crew_init(&loader->planner, &planner_work, loader, &loader->lock);
	crew_init(&loader->readers, &reader_work, loader, &loader->lock);
	crew_init(&loader->decoders, &decoder_work, loader, &loader->lock);
	loader->ahead.last = &loader->ahead.first;
	loader->reads.last = &loader->reads.first;
}

/* Whether values need not pass through the arena. Values with checksums are verified in the
 * window. */
static bool reads_past(const struct lmdbio_loader *loader)
{
	const struct store *store = loader->data.txn->snapshot.view.runs;

	return loader->memory.copies && loader->data.leaves_first && store && store_reads(store) &&
	       !loader->data.env->sums;
}

/* Returns how much one read may bring. Past the arena, each reader needs a buffer for it. */
static uint64_t read_most(const struct lmdbio_loader *loader, unsigned readers)
{
	uint64_t most = loader->reads.past ? loader->memory.most / READ_SHARE / readers : READ_MOST;

	if (most < READ_LEAST)
		most = READ_LEAST;
	return most < READ_MOST ? most : READ_MOST;
}

static int threads_start(struct lmdbio_loader *loader)
{
	unsigned readers = loader->options.threads ? loader->options.threads : READERS, decoders;
	uint64_t transit = store_limited(&loader->data.env->store);
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int rc;

	/* Half of the arena is for the runs that tiers read. */
	if (loader->job.sharers)
		transit /= 2;
	loader->reads.runs_most = depth_fit(transit, TRANSIT, 1, UINT_MAX);
	if (loader->memory.copies && transit && readers > loader->reads.runs_most &&
	    !loader->reads.past)
		readers = loader->reads.runs_most;
	decoders = loader->options.decode_threads ? loader->options.decode_threads
		   : processors > 0               ? (unsigned)processors
						  : 1;
	if (!loader->options.decode)
		decoders = 0;
	if (readers > LOADER_THREADS)
		readers = LOADER_THREADS;
	if (decoders > LOADER_THREADS)
		decoders = LOADER_THREADS;
	loader->reads.most = read_most(loader, readers);
	loader->reads.depth.now = loader->options.threads ? readers : DEPTH_FIRST;
	/* The number of readers bounds them, and is set before they look. */
	pthread_mutex_lock(&loader->lock);
	rc = crew_start(&loader->planner, 1);
	if (!rc)
		rc = crew_start(&loader->readers, readers);
	if (!rc)
		rc = crew_start(&loader->decoders, decoders);
	pthread_mutex_unlock(&loader->lock);
	return rc;
}

void loader_free(struct lmdbio_loader *loader)
{
	tiers_close(&loader->tiers);
	loader_shelf_close(loader);
	if (loader->data.index)
		records_give(loader->data.env, loader->data.index);
	if (loader->data.txn)
		txn_abort(loader->data.txn);
	if (loader->data.own_env)
		env_close(loader->data.env);
	sample_memory_end(loader);
	pthread_mutex_destroy(&loader->lock);
	pthread_cond_destroy(&loader->ready);
	pthread_cond_destroy(&loader->turn);
	pthread_cond_destroy(&loader->still);
	free(loader);
}

/* Ends the threads, and lets go of the handle's reference. */
static void loader_end(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader->closing = true;
	pieces_drop(loader);
	pthread_cond_broadcast(&loader->ready);
	pthread_cond_broadcast(&loader->turn);
	pthread_cond_broadcast(&loader->still);
	pthread_mutex_unlock(&loader->lock);
	crew_stop(&loader->planner);
	crew_stop(&loader->readers);
	crew_stop(&loader->decoders);
	pthread_mutex_lock(&loader->lock);
	batches_drop(loader);
	loader_release(loader);
}

int loader_open(struct lmdbio_loader **ret, const struct loader_place *place,
		const struct lmdbio_loader_options *options, const struct loader_hooks *hooks)
{
	struct lmdbio_loader *loader;
	struct lmdbio_loader_options taken;
	int rc = options_take(&taken, options);

	*ret = NULL;
	if (!rc && !(hooks && hooks->sharers))
		rc = stage_dir_judge(taken.stage_dir);
	if (rc)
		return rc;
	loader = calloc(1, sizeof(*loader));
	if (!loader)
		return ENOMEM;
	loader->options = taken;
	loader->job.sharers = hooks ? hooks->sharers : 0;
	loader->references = 1;
	loader->processes = fork_generation;
	locks_make(loader);
	tiers_init(&loader->tiers);
	rc = place_open(loader, place, hooks);
	if (!rc) {
		loader->reads.past = reads_past(loader);
		rc = tiers_set(loader, hooks);
	}
	if (!rc)
		outputs_set(loader);
	/* Copied with the options; nothing needs it after the opening. */
	loader->options.stage_dir = NULL;
	if (!rc)
		rc = threads_start(loader);
	if (rc) {
		loader_end(loader);
		return rc;
	}
	loader_enlist(loader);
	*ret = loader;
	return 0;
}

void loader_close(struct lmdbio_loader *loader)
{
	/* A forked child has only the loader's memory, which may be in the middle of any change. */
	if (loader && loader_delist(loader))
		loader_end(loader);
}

const struct order *loader_order(const struct lmdbio_loader *loader)
{
	return &loader->order;
}

struct loader_sizes loader_sizes(const struct lmdbio_loader *loader)
{
	const struct tree_record *record = &loader->data.tree.record;
	uint64_t leaves = record->leaf_pages << loader->data.txn->snapshot.view.page_shift;

	return (struct loader_sizes){
		.room = loader->job.keep_room,
		.bytes = loader->data.bytes,
		/* Duplicates are in leaf pages only, but these are not in the record. */
		.leaf_bytes = record->flags & MDB_DUPSORT ? loader->data.bytes : leaves,
	};
}

uint64_t loader_records(struct lmdbio_loader *loader)
{
	uint64_t records;

	if (!(loader = loader_enter(loader)))
		return 0;
	records = index_records(loader->data.index);
	loader_leave(loader);
	return records;
}

uint64_t loader_batches(struct lmdbio_loader *loader)
{
	uint64_t batches;

	if (!(loader = loader_enter(loader)))
		return 0;
	pthread_mutex_lock(&loader->lock);
	batches = order_batches(&loader->order);
	loader_release(loader);
	return batches;
}
