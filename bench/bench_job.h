/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what one worker process does, and what it tells afterwards. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "bench_fields.h"

/* Adding a workload takes: a name here and in bench_job.c, a function and a row in
 * bench_workloads.c, a row in a suite (bench_suites.c) if a figure is asked of it. */
enum bench_work {
	WORK_SCAN,     /* MDB_FIRST, MDB_NEXT */
	WORK_BACKWARD, /* MDB_LAST, MDB_PREV */
	WORK_STRIDE,   /* `step` times MDB_NEXT for each record used, from record `first` on */
	WORK_KEYS,     /* as WORK_SCAN, and only the keys are looked at */
	WORK_GET,      /* mdb_get of records in a random order, none twice: of the first `count` of
			  that order each `step`-th, from number `first` on */
	WORK_LOOKUP,   /* mdb_get of each `step`-th record in order, from record `first` on */
	WORK_BEGIN,    /* WORK_GET, each in a transaction of its own */
	WORK_BATCH, /* WORK_GET by mini-batches of `batch`, each announced if `announce` is set */
	WORK_KEEP,  /* as WORK_SCAN; every pointer is kept and all are read again at the end */
	WORK_OPEN,  /* `count` times: open, one mdb_get, close */
	WORK_LOAD,  /* start of a program that does nothing: the driver's own, no worker's */
	/* Not for a user of bench_figures to name: */
	WORK_MAKE,  /* writes the data set */
	WORK_PART,  /* as WORK_SCAN, up to `count` records */
	WORK_GIVEN, /* mdb_get of each `step`-th key of `keys`, from key `first` on; if `announce`
		       is set, by batches of `batch`, each announced before the one in front is read
		     */
	WORK_TRAIN, /* as an accelerator that trains: number `first` of `step` (bench_train.c) */
	WORK_TELL,  /* nothing: which library it is, and of which version */
	WORKS,
};

struct bench_job {
	uint64_t work; /* enum bench_work */
	const char *path;
	const char *suffix; /* of every key, behind its eight digits */
	uint64_t records;   /* in the data set */
	uint64_t value_size;
	uint64_t count;
	uint64_t batch;
	uint64_t announce;
	uint64_t step, first;
	uint64_t touch; /* each touch-th byte of a used value is read, from its first on; 0: none */
	uint64_t hash;	/* every byte instead */
	uint64_t nordahead; /* open with MDB_NORDAHEAD */
	uint64_t passes;    /* untimed ones first, in the same process and transaction */
	uint64_t repeat;    /* how often the timed part is done again, opening included */
	uint64_t seed;
	uint64_t busy; /* processes beside it that use a processor each, while it is timed */
	uint64_t nice; /* of the worker, while it is timed */
	uint64_t flags;       /* more of mdb_env_open()'s */
	const char *database; /* a named one; NULL or "": the main one */
	uint64_t keys;        /* WORK_GIVEN: the descriptor of a key list (bench_keys.h) */
	uint64_t deadline;    /* nanoseconds after which WORK_PART and _GIVEN stop; 0: never */
	/* Of WORK_TRAIN, whose batches are `batch` of the keys in an order that follows from `seed`: */
	uint64_t readers; /* threads, each of which reads every readers-th batch */
	uint64_t compute; /* nanoseconds that computing with a batch takes */
	uint64_t meeting; /* the descriptor where accelerators meet (bench_steps.h) */
};

/* From before mdb_env_create() to after mdb_env_close(), but that the time does not go on while an
 * environment is closed: what a scan has mapped is unmapped then, or when the program ends, and who
 * reads waits for neither. With untimed passes only what follows them, without opening. */
struct bench_result {
	uint64_t begin, end;   /* CLOCK_MONOTONIC, nanoseconds */
	uint64_t closing;      /* nanoseconds, of WORK_OPEN none: there it belongs to the work */
	uint64_t user, system; /* microseconds */
	uint64_t major, minor; /* page faults */
	uint64_t switches;     /* context switches of both kinds */
	uint64_t rss;	       /* the process's largest, KiB */
	uint64_t
		own; /* memory that is no file's page, KiB: at the end; of WORK_KEEP, the largest */
	uint64_t records;	  /* used */
	uint64_t bytes;		  /* of the used values */
	uint64_t sum;		  /* over what was read of them */
	uint64_t requests, asked; /* the driver's, from the file system's counters: number, bytes */
	uint64_t missing;         /* keys that were not in the database */
	uint64_t stopped;         /* processes that the deadline has stopped */
	/* Of a stopped one, what was read in the first quarter of its time, and when that ended: */
	uint64_t settled, early_records, early_bytes;
	uint64_t fetched;         /* bytes that the kernel counts as read from storage */
	uint64_t lmdbio_requests, lmdbio_bytes; /* that lmdbio asked of storage */
	/* Of WORK_TRAIN: */
	uint64_t steps;                 /* behind the first one */
	uint64_t waited;                /* nanoseconds for their batches */
	uint64_t first_step, last_step; /* CLOCK_MONOTONIC, nanoseconds: when they ended */
	const char *library;                    /* where mdb_env_open was found */
	const char *version;                    /* of the LMDB, in words */
};

extern const char *const bench_work_names[WORKS];
extern const struct field bench_job_fields[];
extern const size_t bench_job_n;
extern const struct field bench_result_fields[];
extern const size_t bench_result_n;

/* Which workload has this name; WORKS: none. */
enum bench_work bench_work_find(const char *name);

#endif
