/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the peers' tier share.
 *
 * The ranks of a job that read one data set by its batch loader keep its records for each other.
 * All have the same plan (loader/placement.h): each run of neighbouring records, a unit, has a home
 * at one rank of one node, and perhaps copies at other ranks, in memory or on the node's local
 * disk. Its home reads a unit from storage, once; all other ranks ask. The way of a record: a
 * reader of the loader asks the tier for some records -> records that are kept here are shown as
 * they are -> units that have their home here and were not read yet are read -> for the rest a
 * question goes to the rank that will answer first -> the service thread there answers out of its
 * memory, or has another thread read the disk and answers then -> the bytes come straight into the
 * memory that the sample will have.
 *
 * One thread of each rank, the service, makes all calls of MPI, and never waits for a disk. It goes
 * on after the loader has been closed, for ranks that still read, until all ranks have closed their
 * loaders. The threads that read the disk go on as long. */
#ifndef LMDBIO_MPI_PEER_PRIVATE_H
#define LMDBIO_MPI_PEER_PRIVATE_H

#include "loader/batch_loader.h"
#include "loader/placement.h"
#include "mpi/answer_pace.h"
#include "mpi/exchange_wire.h"
#include "mpi/mpi_index.h"
#include "mpi/mpi_job.h"
#include "mpi/stage_exchange.h"
#include "util/thread.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
	PEER_ASKS = TIER_FETCHES, /* records in a question */
	PEER_COPIES = 2,          /* further holders of a unit that a rank remembers */
	PEER_FILLERS = 4,         /* threads that read units */
	PEER_DISKS = 4,           /* threads that read the disk for other ranks */
	PEER_RECORD_SPENT = 48,   /* bytes of memory that a kept record takes beside its own */
	PEER_SPARE = 16,          /* records differ in size: 1 / this of the room more in memory,
				     and less on a disk, which takes no more than it has */
};

#define PEER_NOBODY UINT32_MAX

/* --- what this rank keeps: peer_store.c ------------------------------------------------------- */

enum peer_place { PLACE_MEMORY, PLACE_DISK, PLACES }; /* the plan's tiers */
enum peer_role { ROLE_NONE, ROLE_COPY, ROLE_HOME };
enum peer_state { UNIT_EMPTY, UNIT_LOADING, UNIT_READY };

struct peer_kept {
	_Atomic(uint8_t *) memory; /* value, then key; NULL: not here */
	uint32_t data, key;        /* bytes */
};

struct peer_unit {
	_Atomic(struct peer_kept *) records; /* NULL: no record was ever kept */
	_Atomic uint8_t state;               /* enum peer_state, of a home's units */
	_Atomic uint8_t role;                /* enum peer_role; ROLE_HOME is for good */
	bool on_disk;                        /* its place is the disk for good; peers ignore it */
	_Atomic uint32_t kept;               /* records; those in memory under the store's lock */
};

struct peer_store {
	uint64_t records, unit_records, units;
	uint64_t limit, used; /* bytes; used: under the peer_store lock */
	pthread_mutex_t lock;
	struct peer_unit *at;
	uint64_t *ready; /* loader_ready.h's bits: units of which every record is here */
	/* The loader's disk tier, called by its own library's code; NULL: there is none. Other
	 * processes of the node may also have put records into its file. */
	const struct tier_ops *disk;
	void *disk_state;
	/* Under the peer_store lock: */
	uint64_t *stale; /* units that no plan has here any more; the first to go comes first */
	uint64_t stale_count, stale_next;
};

int peer_store_open_units(struct peer_store *store, uint64_t records, uint64_t unit_records);
void peer_store_close_units(struct peer_store *store);
/* Whether a record is in memory; in memory or on the disk. */
bool peer_store_holds(const struct peer_store *store, uint64_t record);
bool peer_store_has(const struct peer_store *store, uint64_t record);
/* Takes a record that is in memory: shows where it stands if its unit's home is here; else copies
 * it, because the unit may go. Returns 0; ENOENT; ENOMEM. Any thread. */
int peer_store_take(struct peer_store *store, uint64_t record, struct tier_record *found);
/* Takes a record that is on the disk, always as a copy. Returns 0; ENOENT; ENOMEM; the disk's
 * error. Any thread that may wait for the disk. */
int peer_store_read(struct peer_store *store, uint64_t record, struct tier_record *found);
/* Keeps a copy of a record that has a place here and is not here yet. If memory has no room, units
 * that no plan has here go. Returns the bytes kept. Any thread; it may wait for the disk. */
uint64_t peer_store_keep(struct peer_store *store, uint64_t record, const MDB_val *key,
			 const MDB_val *data);
/* Makes the disk a unit's place, before threads use the unit. */
void peer_store_place_on_disk(struct peer_store *store, uint64_t unit);
/* Returns false if the unit's place is a disk that takes no more. */
bool peer_store_takes(const struct peer_store *store, uint64_t unit);
/* Returns how many records a unit has; the last unit may have fewer. */
uint64_t peer_store_unit_count(const struct peer_store *store, uint64_t unit);

/* Sets the units that may go when room is wanted, in place of the list before: n units, malloc'ed,
 * which the store then owns. */
void peer_store_let_go(struct peer_store *store, uint64_t *units, uint64_t n);

static inline uint64_t peer_store_unit(const struct peer_store *store, uint64_t record)
{
	return record / store->unit_records;
}

/* --- the messages ----------------------------------------------------------------------------- */

/* A question for n records; n 0: for the bits of peer_store.ready. */
struct peer_talk {
	uint64_t n;
	uint64_t records[PEER_ASKS];
};

/* An answer of records. Its body: values and keys of the records without an error, behind each
 * other. */
struct peer_told {
	uint64_t load;
	struct {
		int32_t error;
		uint32_t data, key; /* bytes */
	} each[PEER_ASKS];
};

static inline size_t talk_length(uint64_t n)
{
	return offsetof(struct peer_talk, records) + n * sizeof(uint64_t);
}

static inline size_t told_length(uint64_t n)
{
	return offsetof(struct peer_told, each) + n * sizeof(((struct peer_told *)0)->each[0]);
}

/* The number by which both ranks know what the body is. */
static inline uint64_t talk_sum(struct peer_talk *talk)
{
	struct exchange_run run = {(uint8_t *)talk->records, talk->n * sizeof(uint64_t)};

	return exchange_sum(&run, 1, 0);
}

struct peer_ask {
	struct exchange_question question; /* must be first */
	struct peer_ask *next;             /* before the question is asked */
	uint32_t to;
	struct peer_wait *wait; /* NULL: no reader waits for the answer any more */
	struct tier_fetch *each[PEER_ASKS];
	uint8_t *memory[PEER_ASKS];
	struct peer_talk talk; /* n 0: a question for bits */
	struct peer_told told;
	uint64_t *bits;
};

/* --- the job -------------------------------------------------------------------------------- */

/* Another rank, as this rank sees it. */
struct peer {
	_Atomic bool silent; /* has owed an answer for too long, and is not asked before it comes */
	_Atomic uint64_t rests_until; /* ns: not asked before then, because its answers are late */
	_Atomic unsigned queued;   /* questions that wait for it */
	_Atomic unsigned load;     /* questions that waited there, as it last said */
	_Atomic uint64_t pace;     /* nanoseconds that a question takes, moving average */
	_Atomic(uint64_t *) ready; /* units that were whole there, as it last said; or NULL */
	_Atomic bool has_copies;   /* of units whose home is elsewhere */
	uint64_t ready_at;         /* ns: when its bits were last asked for; the service's */
};

/* A reader that waits for answers. */
struct peer_wait {
	pthread_cond_t done;
	unsigned left; /* questions; under the job lock */
};

/* Neighbouring units that a thread reads, or is about to read. */
struct peer_load {
	struct peer_load *next;
	uint64_t unit, end;
	uint64_t place;    /* in peer_fills.own, from where they may have to be read again */
	_Atomic int haste; /* enum run_haste; changed under the job lock */
};

struct peer_urgent;

/* What is still to be read of the units whose home is here. Under the job lock. */
struct peer_fills {
	struct crew crew;
	pthread_cond_t filled; /* readers wait here for a unit that a filler reads */
	bool begun;            /* a first record was asked for: fillers fill */
	bool cancelled; /* the loader reads no more: it is closed, perhaps with a batch out */
	struct peer_urgent *urgent, **urgent_last; /* units that a reader waits for */
	struct peer_load *loads;                   /* units in the state UNIT_LOADING */
	uint64_t *own;                             /* all units with home here, by first use */
	uint64_t count, next;
	uint64_t at_once; /* neighbours that one request reads */
	bool in_order;    /* neighbours are wanted soon after each other */
};

struct peer_answer;
struct peer_again;

/* Says which rank keeps which unit. */
struct peer_places {
	uint32_t *homes;          /* unit -> rank, or PEER_NOBODY */
	_Atomic uint32_t *copies; /* unit * PEER_COPIES -> further ranks, or PEER_NOBODY */
	struct peer_again *again; /* what later plans are made of; NULL: there are no later plans */
	_Atomic uint64_t epoch;   /* that the loader asks for */
	uint64_t first;           /* epoch of the plan; under the job lock */
	bool under_way;           /* a later plan is being made; under the job lock */
};

/* The threads that read the disk for other ranks. */
struct peer_disks {
	struct crew crew;
	struct peer_answer *first, **last; /* that no thread reads yet; under the job lock */
	bool owned;                        /* this job closes the disk; else it is the loader's */
};

struct peer_counts {
	uint64_t answered, copies;   /* bytes sent; those of further copies among them */
	uint64_t received, given_up; /* bytes received; questions asked in vain */
	uint64_t naps;               /* of the service */
	uint64_t owed;               /* asked in vain of a rank that still said that it owes */
	_Atomic uint64_t plans;      /* made after the first one */
};

struct peer_job {
	struct peer_job *next; /* in the list of jobs that serve */
	struct lmdbio_loader *loader;
	MPI_Comm comm; /* MPI_COMM_NULL when the service has ended well */
	MPI_Session session;
	int rank, ranks;
	char *name; /* of the data set, for messages */
	struct peer_store store;
	struct peer_places plan;
	struct peer *peers;
	_Atomic bool over;   /* no peer is asked any more */
	_Atomic bool failed; /* a question to a peer was lost */
	_Atomic unsigned late; /* questions that are open and late */

	pthread_mutex_t lock;                      /* the job lock: of all below */
	pthread_cond_t wake;                       /* wakes the service */
	struct peer_ask *asked;                    /* questions on their way to the service */
	struct peer_fills fills;
	struct peer_disks disks;
	bool news;   /* for the service, since it last slept */
	bool closed; /* the loader is gone */
	bool gone;   /* the service is gone */
	enum { SERVICE_WAITS, SERVICE_GOES, SERVICE_CANCELLED } go;
	pthread_t service;

	/* Of the service's thread: */
	bool finalizing; /* the program ends MPI, or exits; under the job lock */
	struct wire wire;
	struct answer_pace pace;
	struct peer_answer *answers; /* answers that wait for a unit */
	struct peer_counts counts;
};

/* peer_held.c */
struct peer_held {
	uint64_t *bytes; /* unit -> bytes that it takes; all three are NULL: not known */
	uint32_t *ranks; /* unit -> rank that has it since its numbering, or PEER_NOBODY */
	uint16_t *nodes; /* unit -> that rank's node, or PLACEMENT_NOBODY */
};
/* Finds what ranks hold because they have numbered it. `spec` has its order, unit_records and
 * node_of_rank. `held` is empty; the caller frees it by peer_held_free() in any case. Collective
 * over place->all; returns the same code on all ranks. */
int peer_held_find(struct peer_held *held, const struct mpi_job *place,
		   const struct index_kept *kept, const struct placement_spec *spec);
void peer_held_free(struct peer_held *held);
/* placement_spec.bytes_of, for held->bytes. */
uint64_t peer_held_bytes(const void *bytes, uint64_t unit);
/* Bytes that a rank may keep in memory beyond its share of the node's room. */
static inline uint64_t peer_slack(uint64_t share, const struct placement_spec *spec)
{
	return share / PEER_SPARE + 2 * spec->unit_bytes;
}
/* Sets job->plan.homes. A unit's home is the rank that has the unit, as far as that rank has room,
 * else the rank of the plan's node that has most room left. Sets homes[unit] to node * PLACES +
 * place, or PLACEMENT_NOBODY, and marks the units on this rank's disk. Returns 0 or ENOMEM. */
int peer_homes_take(struct peer_job *job, const struct placement *plan,
		    const struct placement_spec *spec, const struct stage_peers *peers,
		    const struct peer_held *held, uint16_t *homes);

/* peer_plan.c: which rank keeps what. `bytes`: of the database; `leaves`: of its leaf pages;
 * `piece`: what storage gives at once, at least (0: any page); `room`: of this rank's node, by
 * place. Collective over place->all; returns the same code on all ranks. */
struct peer_size {
	uint64_t bytes, leaves, piece, room[PLACES];
};
/* What a plan gives. */
struct peer_planned {
	uint64_t records; /* records that have a home; 0: there is no room anywhere, and no plan */
	uint64_t on_disk; /* those of them on disk */
};
int peer_plan(struct peer_job *job, const struct mpi_job *place, const struct order_spec *spec,
	      const struct peer_size *size, const struct index_kept *kept,
	      struct peer_planned *planned);
/* Whether the loader's epoch is beyond the planned epochs. Under the job lock. */
bool peer_plan_is_old(const struct peer_job *job);
/* Plans for the loader's epoch and those after it. No home moves, further copies do. No rank waits
 * for another: until all ranks have planned, some ask where a copy was, and then its home. Under
 * the job lock, which it releases meanwhile. */
void peer_plan_again(struct peer_job *job);
void peer_plan_free(struct peer_job *job);

/* peer_fill.c */
/* Takes what the numbering has kept of the units whose home is here, before the fillers start. */
void fill_from_shelf(struct peer_job *job);
extern const struct crew_work filler_work;
int fillers_start(struct peer_job *job);
/* Begins to fill, after a first record was asked for. Under the job lock. */
void fill_begin(struct peer_job *job);
/* Ends and joins the fillers; the loader is being closed. */
void fillers_stop(struct peer_job *job);
/* Whether empty units can be read, now or later. Under the job lock. */
bool fills_read(const struct peer_job *job);
/* Has a unit read whose home is here, because a reader waits for it. Under the job lock. Returns
 * false if it cannot be read. */
bool fill_urgently(struct peer_job *job, uint64_t unit);
/* Hurries a unit in the state UNIT_LOADING, because a reader waits for it. Under the job lock. */
void fill_hurry(struct peer_job *job, uint64_t unit);
/* Returns when a unit whose home is here has been read, by the calling thread or another. */
void fill_now(struct peer_job *job, uint64_t unit);

/* peer_tier.c */
extern const struct tier_ops peer_tier_own, peer_tier_others;
/* Returns the rank that will answer first, of the ranks that have a unit or can read it; or
 * PEER_NOBODY. Ranks that see the same do not all choose the same rank. */
uint32_t peer_choose(const struct peer_job *job, uint64_t unit);

/* peer_service.c: makes the service, which begins when all ranks have one: service_go(). Then the
 * service owns the job. It ends when all ranks have closed their loaders or have ended without
 * that. Returns 0 or an errno. */
int service_start(struct peer_job *job);
void service_go(struct peer_job *job);
/* Has the service look around. Under the job lock. */
void service_wake(struct peer_job *job);
/* Ends a service that has not begun. */
void service_cancel(struct peer_job *job);
/* Makes a job without tiers, service and communicator. */
struct peer_job *job_new(const char *name);
/* Gives the job a communicator of its own. Collective over comm. Returns an MPI code. */
int job_join(struct peer_job *job, MPI_Comm comm);
void job_free(struct peer_job *job);

/* peer_ask.c: questions of this rank's. */
struct peer_ask *ask_new(struct peer_job *job, uint32_t to, struct peer_wait *wait);
void ask_add(struct peer_ask *ask, struct tier_fetch *fetch);
/* Hands a list of questions to the service. Under the job lock. */
void asks_put(struct peer_job *job, struct peer_ask *asks);
/* Asks the questions that were handed over. */
void asks_step(struct peer_job *job, uint64_t now);
/* Lets readers go on if their answers are late. Returns whether there were any. */
bool asks_late(struct peer_job *job, uint64_t now);
/* Gives all questions up. */
void asks_drop(struct peer_job *job);
/* The functions by which a job's ranks ask and answer; their owner is the job. */
extern const struct wire_payload peer_payload;

/* peer_answer.c: other ranks' questions. disks_start() returns 0 or an errno. */
extern const struct crew_work disk_work;
int disks_start(struct peer_job *job);
bool answers_step(struct peer_job *job);
/* Gives all answers up; no rank waits for one any more. */
void answers_drop(struct peer_job *job);
/* Of peer_payload. */
void answer_asked(void *owner, int from, uint64_t number, const void *text, size_t length);
void answer_sent(void *owner, void *item);

#endif
