/* SPDX-License-Identifier: OLDAP-2.8 */
/* Does what several threads may do with one index of a job's records, and with what a job holds, over simulated MPI. */
#include "config.h"
#include "pairs.h"

#include "mpi_simulated.h"
#include "simulated_turns.h"

#include <errno.h>
#include <lmdbio_mpi.h>
#include <stdlib.h>

/* The calls that ranks make together take a rank's turn. */
static void of_one_rank(struct actor *actor, void (*run)(void *actor, int rank))
{
	sim_begin(1);
	if (!sim_run(1, run, actor))
		actor_wrong(actor, "a job of one rank", 0);
	sim_end();
}

static void rank_indexes(void *context, int rank)
{
	struct actor *actor = context;

	actor_has(actor, "lmdbio_mpi_index_open",
		  lmdbio_mpi_index_open(sim_comm(rank), actor->shared->path, "records",
					(struct lmdbio_mpi_index **)&actor->own),
		  0);
}

static void shared_index(struct actor *actor)
{
	if (actor->shared->index)
		return;
	of_one_rank(actor, rank_indexes);
	actor->shared->index = actor->own;
}

static void finds(struct actor *actor)
{
	const struct lmdbio_mpi_index *index = actor->shared->index;
	struct lmdbio_record_place place = {.size = sizeof(place)};

	actor_has(actor, "lmdbio_mpi_index_records", (long)lmdbio_mpi_index_records(index),
		  PAIR_RECORDS);
	actor_has(actor, "lmdbio_mpi_index_snapshot", lmdbio_mpi_index_snapshot(index) != 0, 1);
	actor_has(actor, "lmdbio_mpi_index_find",
		  lmdbio_mpi_index_find(index, actor_random(actor, PAIR_RECORDS), &place), 0);
	actor_has(actor, "page", place.page >= 2, 1);
	actor_has(actor, "lmdbio_mpi_index_find of none",
		  lmdbio_mpi_index_find(index, PAIR_RECORDS, &place), MDB_NOTFOUND);
}

static void own_index(struct actor *actor)
{
	of_one_rank(actor, rank_indexes);
}

static void closes_index(struct actor *actor)
{
	lmdbio_mpi_index_close(actor->own);
	actor->own = NULL;
}

static void rank_stages(void *context, int rank)
{
	struct actor *actor = context;
	struct lmdbio_stage_hold *hold = NULL;
	struct lmdbio_stage_options options = {.size = sizeof(options),
					       .target = LMDBIO_STAGE_MEMORY,
					       .memory = 64 << 20,
					       .hold = &hold};

	actor_has(actor, "lmdbio_mpi_stage",
		  lmdbio_mpi_stage(sim_comm(rank), actor->shared->another, &options), 0);
	actor->own = hold;
}

static void own_hold(struct actor *actor)
{
	of_one_rank(actor, rank_stages);
}

static void releases(struct actor *actor)
{
	lmdbio_mpi_stage_release(actor->own);
	actor->own = NULL;
}

void pair_index_end(struct lmdbio_mpi_index *index)
{
	lmdbio_mpi_index_close(index);
}

const struct action pair_index_actions[] = {
	{.functions = "lmdbio_mpi_index_records lmdbio_mpi_index_snapshot lmdbio_mpi_index_find",
	 .prepare = shared_index,
	 .run = finds},
	{.functions = "lmdbio_mpi_index_close",
	 .prepare = own_index,
	 .run = closes_index,
	 .slow = true},
	{.functions = "lmdbio_mpi_stage_release",
	 .prepare = own_hold,
	 .run = releases,
	 .slow = true},
	{0},
};
