/* What only this file knows: how large a unit is, for how many epochs a job plans, and which rank
 * of a node keeps what the plan gives to the node.
 *
 * A unit is a few requests' worth of neighbouring records: its home reads it at once. Epochs beyond
 * the planned ones find every record where it is; only how often that is the reader's own node is
 * then chance.
 */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi/mpi_agree.h"
#include "mpi/mpi_error.h"
#include "mpi/stage_exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	UNIT_BYTES = 256 << 10,
	UNIT_PIECES = 8, /* at its ends a unit shares pieces with its neighbours */
	UNITS_LEAST = 8, /* a node has no fewer, if it can be helped */
	EPOCHS_MOST = 8,
	EPOCHS_LEAST = 2,
	READS_MOST = 20000000, /* records times epochs, more or less */
	READERS_MEMORY = 64 << 20,
	THREADS_MOST = 4,
	RECORD_SPENT = 48, /* bytes of memory beside a record's own */
	SPARE = 16,        /* records are not all of one size: this part of the room more */
};

/* Every node's room: the least that its ranks know of. */
static int rooms_share(const struct mpi_job *place, uint64_t room, uint64_t *rooms)
{
	int nodes = place->place.nodes;
	int64_t *least = malloc(2 * (size_t)nodes * sizeof(*least));
	int rc = mpi_agree(place->all, least ? 0 : ENOMEM, NULL);

	if (rc) {
		free(least);
		return rc;
	}
	for (int node = 0; node < nodes; node++)
		least[node] = INT64_MAX;
	least[place->place.node] = (int64_t)room;
	rc = mpi_error_code(
		MPI_Allreduce(least, least + nodes, nodes, MPI_INT64_T, MPI_MIN, place->all));
	for (int node = 0; node < nodes; node++)
		rooms[node] = (uint64_t)least[nodes + node];
	free(least);
	return rc;
}

static uint32_t holder_rank(const struct stage_peers *peers, uint32_t node, uint64_t unit)
{
	uint64_t count = (uint64_t)(peers->first[node + 1] - peers->first[node]);

	return (uint32_t)peers->ranks[peers->first[node] + (int)(unit % count)];
}

/* What the plan says, as ranks. */
static void places_take(struct peer_job *job, const struct plan *plan,
			const struct stage_peers *peers, bool copies)
{
	struct plan_holder holders[1 + PEER_COPIES];

	for (uint64_t unit = 0; unit < job->store.units; unit++) {
		unsigned n = copies ? plan_holders(plan, unit, holders, 1 + PEER_COPIES)
				    : plan_home(plan, unit, holders);
		uint32_t *further = job->copies + unit * PEER_COPIES, rank;

		job->homes[unit] = PEER_NOBODY;
		memset(further, 0xff, PEER_COPIES * sizeof(*further));
		/* Where there is no home there was room for nobody. */
		for (unsigned i = 0; i < n && i < 1 + PEER_COPIES; i++) {
			rank = holder_rank(peers, holders[i].node, unit);
			if (i)
				further[i - 1] = rank;
			else
				job->homes[unit] = rank;
			job->peers[rank].has_copies |= i > 0;
			if (rank == (uint32_t)job->rank)
				job->store.at[unit].role = i ? ROLE_COPY : ROLE_HOME;
		}
		job->own_count += job->homes[unit] == (uint32_t)job->rank;
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

/* Homes here, by when somebody wants them first. */
static int own_sort(struct peer_job *job, const struct plan *plan)
{
	struct wanted *wanted = calloc(job->own_count + 1, sizeof(*wanted));
	uint64_t n = 0;

	job->own = calloc(job->own_count + 1, sizeof(*job->own));
	if (!wanted || !job->own) {
		free(wanted);
		return ENOMEM;
	}
	for (uint64_t unit = 0; unit < job->store.units; unit++)
		if (job->homes[unit] == (uint32_t)job->rank)
			wanted[n++] = (struct wanted){plan_next(plan, unit, PLAN_NOBODY, 0), unit};
	qsort(wanted, n, sizeof(*wanted), compare_times);
	for (uint64_t i = 0; i < n; i++)
		job->own[i] = wanted[i].unit;
	free(wanted);
	return 0;
}

static int places_make(struct peer_job *job, const struct mpi_job *place,
		       const struct stage_peers *peers, struct plan_spec *spec)
{
	uint64_t units, room = spec->room[place->place.node] / (uint64_t)place->place.node_ranks;
	uint32_t *nodes = malloc((size_t)job->ranks * sizeof(*nodes));
	struct plan *plan = NULL;
	int rc = nodes ? 0 : ENOMEM;

	for (int node = 0; nodes && node < place->place.nodes; node++)
		for (int i = peers->first[node]; i < peers->first[node + 1]; i++)
			nodes[peers->ranks[i]] = (uint32_t)node;
	spec->node_of_rank = nodes;
	if (!rc)
		rc = plan_make(&plan, spec);
	if (!rc)
		rc = store_open_units(&job->store, spec->order.spec.records, spec->unit_records);
	units = job->store.units;
	job->homes = malloc(units * sizeof(*job->homes) + 1);
	job->copies = malloc(units * PEER_COPIES * sizeof(*job->copies) + 1);
	if (!rc && (!job->homes || !job->copies))
		rc = ENOMEM;
	if (!rc) {
		job->store.limit = room + room / SPARE + 2 * spec->unit_bytes;
		places_take(job, plan, peers, spec->epochs > 1);
		rc = own_sort(job, plan);
	}
	plan_free(plan);
	free(nodes);
	return rc;
}

static uint64_t records_planned(const struct peer_job *job)
{
	uint64_t planned = 0;

	for (uint64_t unit = 0; unit < job->store.units; unit++)
		planned += job->homes[unit] == PEER_NOBODY ? 0
			   : unit + 1 < job->store.units
				   ? job->store.unit_records
				   : job->store.records - unit * job->store.unit_records;
	return planned;
}

/* How many records are a unit, and how many epochs are looked at then. */
static void units_size(struct plan_spec *plan, uint64_t records, const uint64_t *sizes)
{
	uint64_t each = sizes[0] / records + 1 + RECORD_SPENT, wanted = sizes[1] * UNIT_PIECES;
	uint64_t most = sizes[0] / plan->nodes / UNITS_LEAST, epochs;

	wanted = wanted > most ? most : wanted;
	wanted = wanted > UNIT_BYTES ? wanted : UNIT_BYTES;
	plan->unit_records = wanted < each ? 1
			     : wanted / each > PLAN_READS_MOST / EPOCHS_LEAST
				     ? PLAN_READS_MOST / EPOCHS_LEAST
				     : (uint32_t)(wanted / each);
	plan->unit_bytes = each * plan->unit_records;
	epochs = READS_MOST / records;
	if (epochs > PLAN_READS_MOST / plan->unit_records)
		epochs = PLAN_READS_MOST / plan->unit_records;
	plan->epochs = epochs > EPOCHS_MOST ? EPOCHS_MOST : epochs ? (uint32_t)epochs : 1;
}

int peer_plan(struct peer_job *job, const struct mpi_job *place, const struct order_spec *spec,
	      const struct peer_size *size, uint64_t *planned)
{
	uint64_t *rooms = malloc((size_t)place->place.nodes * sizeof(*rooms)), all = 0;
	uint64_t sizes[2] = {size->bytes, size->piece};
	long processors = sysconf(_SC_NPROCESSORS_ONLN) / place->place.node_ranks;
	struct stage_peers peers = {0};
	struct plan_spec plan = {
		.ranks = (uint32_t)job->ranks,
		.nodes = (uint32_t)place->place.nodes,
		.tiers = 1,
		.room = rooms,
		.readers_memory = READERS_MEMORY,
		.threads = processors < 1              ? 1
			   : processors > THREADS_MOST ? THREADS_MOST
						       : (unsigned)processors,
	};
	int rc = mpi_agree(place->all, rooms ? order_init(&plan.order, spec) : ENOMEM, NULL);

	*planned = 0;
	if (!rc)
		rc = stage_peers_find(&peers, place);
	if (!rc)
		rc = rooms_share(place, size->room, rooms);
	/* Of one rank, for all must plan alike. */
	if (!rc)
		rc = mpi_error_code(MPI_Bcast(sizes, 2, MPI_UINT64_T, 0, place->all));
	for (int node = 0; !rc && node < place->place.nodes; node++)
		all += rooms[node];
	if (!rc && all && spec->records) {
		units_size(&plan, spec->records, sizes);
		rc = places_make(job, place, &peers, &plan);
		if (!rc)
			*planned = records_planned(job);
	}
	rc = mpi_agree(place->all, rc, NULL);
	stage_peers_free(&peers);
	free(rooms);
	return rc;
}
