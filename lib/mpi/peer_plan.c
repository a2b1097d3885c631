/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how large a unit is, for how many epochs a job plans, how much room nodes have in memory
 * and on their disks, and which rank of a node keeps what the plan gives to the node.
 *
 * A unit is a few requests' worth of neighbouring records: its home reads it at once, and stays its
 * home. Each rank plans further copies anew when its loader goes beyond the planned epochs, alike
 * and without a word to other ranks. Units that no plan has here any more stay until their room is
 * wanted. Then the unit that this node reads last goes first (Belady). On a disk nothing goes, as
 * its file only grows: the first plan gives its room away for good. */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	UNIT_BYTES = 256 << 10,
	LOAD_BYTES = 1 << 20, /* bytes of units that are read together */
	UNIT_PIECES = 8,      /* at its ends a unit shares pieces with its neighbours */
	UNITS_LEAST = 8,      /* a node has no fewer units, if it can be helped */
	LEAF_UNITS = 128,     /* a rank has no fewer units of what it has numbered: where its part
				 ends, another rank has read half of a unit */
	EPOCHS_MOST = 8,
	EPOCHS_LEAST = 2,
	READS_MOST = 20000000, /* records times epochs, more or less */
	READERS_MEMORY = 64 << 20,
	THREADS_MOST = 4,
};

/* Tells all ranks every node's room, by place. It is the least that the node's ranks know of; they
 * may name different directories or none. */
static int rooms_share(const struct mpi_job *place, const uint64_t *room, uint64_t *rooms)
{
	int n = place->place.nodes * PLACES;
	uint64_t *own = rooms + place->place.node * PLACES;

	for (int i = 0; i < n; i++)
		rooms[i] = INT64_MAX;
	for (int i = 0; i < PLACES; i++)
		own[i] = room[i] < INT64_MAX / 2 ? room[i] : INT64_MAX / 2;
	own[PLACE_DISK] -= own[PLACE_DISK] / PEER_SPARE;
	/* Signed, as in mpi_agree(). */
	return mpi_error_code(
		mpi_allreduce(MPI_IN_PLACE, rooms, n, MPI_INT64_T, MPI_MIN, place->all));
}

static uint32_t holder_rank(const struct stage_peers *peers, uint32_t node, uint64_t unit)
{
	uint64_t count = (uint64_t)(peers->first[node + 1] - peers->first[node]);

	return (uint32_t)peers->ranks[peers->first[node] + (int)(unit % count)];
}

/* What plans after the first one are made of. */
struct peer_again {
	struct placement_spec spec;
	struct stage_peers peers;
	struct peer_held held;
	uint16_t *homes; /* unit -> the place of its home */
	int node;
};

static void copies_take(struct peer_job *job, const struct placement *plan,
			const struct stage_peers *peers, uint64_t unit)
{
	struct placement_holder holders[1 + PEER_COPIES];
	unsigned n = placement_holders(plan, unit, holders, 1 + PEER_COPIES);
	uint8_t role = ROLE_NONE;

	for (unsigned i = 0; i < PEER_COPIES; i++) {
		uint32_t rank = PEER_NOBODY;

		/* A unit without a home found no room on any rank. */
		if (i + 1 < n && job->plan.homes[unit] != PEER_NOBODY)
			rank = holder_rank(peers, holders[i + 1].node, unit);
		job->plan.copies[unit * PEER_COPIES + i] = rank;
		if (rank == PEER_NOBODY)
			continue;
		job->peers[rank].has_copies = true;
		if (rank != (uint32_t)job->rank)
			continue;
		role = ROLE_COPY;
		if (holders[i + 1].tier == PLACE_DISK)
			peer_store_place_on_disk(&job->store, unit);
	}
	if (job->plan.homes[unit] != (uint32_t)job->rank)
		job->store.at[unit].role = role;
}

/* Takes what the plan says, without the homes. */
static void places_take(struct peer_job *job, const struct placement *plan,
			const struct stage_peers *peers, bool copies)
{
	for (uint64_t unit = 0; unit < job->store.units; unit++) {
		for (unsigned i = 0; i < PEER_COPIES; i++)
			job->plan.copies[unit * PEER_COPIES + i] = PEER_NOBODY;
		if (job->plan.homes[unit] == (uint32_t)job->rank) {
			job->store.at[unit].role = ROLE_HOME;
			job->fills.count++;
		}
		if (copies)
			copies_take(job, plan, peers, unit);
	}
}

struct wanted {
	uint64_t time, unit;
};

static int compare_times(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	return (x->time > y->time) - (x->time < y->time);
}

/* Sorts the units with their home here by their first use. */
static int own_sort(struct peer_job *job, const struct placement *plan)
{
	struct wanted *wanted = calloc(job->fills.count + 1, sizeof(*wanted));
	uint64_t n = 0;

	job->fills.own = calloc(job->fills.count + 1, sizeof(*job->fills.own));
	if (!wanted || !job->fills.own) {
		free(wanted);
		return ENOMEM;
	}
	for (uint64_t unit = 0; unit < job->store.units; unit++)
		if (job->plan.homes[unit] == (uint32_t)job->rank)
			wanted[n++] = (struct wanted){
				placement_next(plan, unit, PLACEMENT_NOBODY, 0), unit};
	qsort(wanted, n, sizeof(*wanted), compare_times);
	for (uint64_t i = 0; i < n; i++)
		job->fills.own[i] = wanted[i].unit;
	free(wanted);
	return 0;
}

static int places_make(struct peer_job *job, const struct mpi_job *place, struct peer_again *again,
		       struct placement_spec *spec)
{
	uint64_t units, room = spec->room[place->place.node * PLACES + PLACE_MEMORY] /
			       (uint64_t)place->place.node_ranks;
	struct placement *plan = NULL;
	int rc = placement_make(&plan, spec);

	if (!rc)
		rc = peer_store_open_units(&job->store, spec->order.spec.records,
					   spec->unit_records);
	units = job->store.units;
	job->plan.homes = malloc(units * sizeof(*job->plan.homes) + 1);
	job->plan.copies = calloc(units * PEER_COPIES + 1, sizeof(*job->plan.copies));
	again->homes = malloc(units * sizeof(*again->homes) + 1);
	if (!rc && (!job->plan.homes || !job->plan.copies || !again->homes))
		rc = ENOMEM;
	if (!rc)
		rc = peer_homes_take(job, plan, spec, &again->peers, &again->held, again->homes);
	if (!rc) {
		job->store.limit = room + peer_slack(room, spec);
		places_take(job, plan, &again->peers, spec->epochs > 1);
		job->fills.at_once = LOAD_BYTES / spec->unit_bytes;
		job->fills.in_order = spec->order.spec.policy == ORDER_SEQUENTIAL;
		rc = own_sort(job, plan);
	}
	placement_free(plan);
	return rc;
}

static struct peer_planned records_planned(const struct peer_job *job)
{
	struct peer_planned planned = {0};

	for (uint64_t unit = 0; unit < job->store.units; unit++) {
		uint64_t n = peer_store_unit_count(&job->store, unit);

		if (job->plan.homes[unit] == PEER_NOBODY)
			continue;
		planned.records += n;
		planned.on_disk += job->plan.again->homes[unit] % PLACES == PLACE_DISK ? n : 0;
	}
	return planned;
}

/* Decides how many records a unit has, and how many epochs the plan looks at. */
static void units_size(struct placement_spec *plan, uint64_t records, const uint64_t *sizes)
{
	uint64_t each = sizes[0] / records + 1 + PEER_RECORD_SPENT, wanted = sizes[1] * UNIT_PIECES;
	uint64_t most = sizes[0] / plan->nodes / UNITS_LEAST, epochs, leaves = sizes[2];

	wanted = wanted > most ? most : wanted;
	wanted = wanted > UNIT_BYTES ? wanted : UNIT_BYTES;
	/* The numbering has read the leaves, so that their values need no large requests any
	 * more. */
	most = leaves ? (uint64_t)((unsigned __int128)sizes[0] * sizes[0] / leaves) / plan->ranks /
				LEAF_UNITS
		      : wanted;
	wanted = wanted < most ? wanted : most;
	plan->unit_records = wanted < each ? 1
			     : wanted / each > PLACEMENT_READS_MOST / EPOCHS_LEAST
				     ? PLACEMENT_READS_MOST / EPOCHS_LEAST
				     : (uint32_t)(wanted / each);
	plan->unit_bytes = each * plan->unit_records;
	epochs = READS_MOST / records;
	if (epochs > PLACEMENT_READS_MOST / plan->unit_records)
		epochs = PLACEMENT_READS_MOST / plan->unit_records;
	plan->epochs = epochs > EPOCHS_MOST ? EPOCHS_MOST : epochs ? (uint32_t)epochs : 1;
}

/* Returns the node of each rank, or NULL without memory. */
static uint32_t *nodes_of_ranks(const struct mpi_job *place, const struct stage_peers *peers)
{
	uint32_t *nodes = malloc((size_t)place->place.ranks * sizeof(*nodes));

	for (int node = 0; nodes && node < place->place.nodes; node++)
		for (int i = peers->first[node]; i < peers->first[node + 1]; i++)
			nodes[peers->ranks[i]] = (uint32_t)node;
	return nodes;
}

/* Makes the first plan. The code is agreed. */
static int placement_first(struct peer_job *job, const struct mpi_job *place,
			   struct peer_again *again, struct placement_spec *plan,
			   const uint64_t *sizes, const struct index_kept *kept)
{
	int rc;

	units_size(plan, plan->order.spec.records, sizes);
	rc = peer_held_find(&again->held, place, kept, plan);
	if (rc)
		return rc;
	plan->bytes_of = again->held.bytes ? peer_held_bytes : NULL;
	plan->context = again->held.bytes;
	plan->held = again->held.nodes;
	rc = places_make(job, place, again, plan);
	plan->held = NULL;
	return mpi_agree(place->all, rc, NULL);
}

int peer_plan(struct peer_job *job, const struct mpi_job *place, const struct order_spec *spec,
	      const struct peer_size *size, const struct index_kept *kept,
	      struct peer_planned *planned)
{
	uint64_t *rooms = malloc((size_t)place->place.nodes * PLACES * sizeof(*rooms)), all = 0;
	uint64_t sizes[] = {size->bytes, size->piece, kept->firsts ? size->leaves : 0};
	long processors = sysconf(_SC_NPROCESSORS_ONLN) / place->place.node_ranks;
	struct peer_again *again = calloc(1, sizeof(*again));
	struct placement_spec plan = {
		.ranks = (uint32_t)job->ranks,
		.nodes = (uint32_t)place->place.nodes,
		.tiers = PLACES,
		.room = rooms,
		.readers_memory = READERS_MEMORY,
		.threads = processors < 1              ? 1
			   : processors > THREADS_MOST ? THREADS_MOST
						       : (unsigned)processors,
	};
	int rc = mpi_agree(place->all, rooms && again ? order_init(&plan.order, spec) : ENOMEM,
			   NULL);

	*planned = (struct peer_planned){0};
	if (!rc)
		rc = stage_peers_find(&again->peers, place);
	if (!rc)
		rc = rooms_share(place, size->room, rooms);
	/* Rank 0's sizes count, because all ranks must plan alike. */
	if (!rc)
		rc = mpi_error_code(mpi_bcast(sizes, 3, MPI_UINT64_T, 0, place->all));
	for (int i = 0; !rc && i < place->place.nodes * PLACES; i++)
		all |= rooms[i];
	if (!rc && !(plan.node_of_rank = nodes_of_ranks(place, &again->peers)))
		rc = ENOMEM;
	rc = mpi_agree(place->all, rc, NULL);
	if (!rc && all && spec->records)
		rc = placement_first(job, place, again, &plan, sizes, kept);
	if (again) {
		again->spec = plan;
		again->node = place->place.node;
		job->plan.again = again;
	} else {
		free(rooms);
	}
	if (!rc)
		*planned = records_planned(job);
	return rc;
}

void peer_plan_free(struct peer_job *job)
{
	struct peer_again *again = job->plan.again;

	if (!again)
		return;
	stage_peers_free(&again->peers);
	peer_held_free(&again->held);
	free(again->homes);
	free((void *)again->spec.room);
	free((void *)again->spec.node_of_rank);
	free(again);
	job->plan.again = NULL;
}

/* --- later epochs ----------------------------------------------------------------------------- */

/* A plan for one epoch has no copies. */
bool peer_plan_is_old(const struct peer_job *job)
{
	uint64_t epochs = job->plan.again ? job->plan.again->spec.epochs : 0;

	return epochs > 1 && !job->plan.under_way && !job->closed && !job->fills.crew.stopping &&
	       job->plan.epoch / epochs * epochs != job->plan.first;
}

/* Lists the units that were here and that the plan no longer has here, last read first. Without
 * memory for the list it is empty: then nothing more is kept. A thread that has looked at a unit's
 * role before may still keep a first record of it; the next plan lists such a unit. */
static void stale_find(struct peer_job *job, const struct placement *plan)
{
	struct peer_store *store = &job->store;
	struct wanted *wanted;
	uint64_t *stale, n = 0, most = 0;

	for (uint64_t unit = 0; unit < store->units; unit++)
		most += store->at[unit].role == ROLE_NONE && store->at[unit].records;
	wanted = calloc(most + 1, sizeof(*wanted));
	stale = calloc(most + 1, sizeof(*stale));
	for (uint64_t unit = 0; wanted && stale && unit < store->units && n < most; unit++)
		if (store->at[unit].role == ROLE_NONE && store->at[unit].records) {
			wanted[n].time = placement_next(plan, unit, (uint16_t)job->plan.again->node, 0);
			wanted[n++].unit = unit;
		}
	if (wanted && stale)
		qsort(wanted, n, sizeof(*wanted), compare_times);
	for (uint64_t i = 0; i < n; i++)
		stale[i] = wanted[n - 1 - i].unit;
	free(wanted);
	peer_store_let_go(store, stale, n);
}

/* Returns the nodes' room in memory, and none on disk; NULL without memory. */
static uint64_t *rooms_of_memory(const struct placement_spec *spec)
{
	uint64_t *rooms = calloc((size_t)spec->nodes * PLACES, sizeof(*rooms));

	for (size_t node = 0; rooms && node < spec->nodes; node++)
		rooms[node * PLACES + PLACE_MEMORY] = spec->room[node * PLACES + PLACE_MEMORY];
	return rooms;
}

void peer_plan_again(struct peer_job *job)
{
	struct placement_spec spec = job->plan.again->spec;
	uint64_t *rooms;
	struct placement *plan = NULL;

	spec.first_epoch = job->plan.epoch / spec.epochs * spec.epochs;
	job->plan.under_way = true;
	pthread_mutex_unlock(&job->lock);
	spec.homes = job->plan.again->homes;
	spec.room = rooms = rooms_of_memory(&spec);
	if (rooms && !placement_make(&plan, &spec)) {
		for (uint64_t unit = 0; unit < job->store.units; unit++)
			copies_take(job, plan, &job->plan.again->peers, unit);
		stale_find(job, plan);
		job->counts.plans++;
	}
	placement_free(plan);
	free(rooms);
	pthread_mutex_lock(&job->lock);
	/* Without memory for a plan, the older plan goes on. */
	job->plan.first = spec.first_epoch;
	job->plan.under_way = false;
}
