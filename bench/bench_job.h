/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the job of a worker process, and its result. */
#ifndef BENCH_JOB_H
#define BENCH_JOB_H

#include "bench_fields.h"

/* To add a workload: add a name here and in bench_job.c, a function and a row in bench_workloads.c,
 * and, if a figure is asked of it, a row in a suite (bench_suites.c). */
enum bench_work {
	WORK_SCAN,     /* MDB_FIRST, MDB_NEXT */
	WORK_BACKWARD, /* MDB_LAST, MDB_PREV */
	WORK_STRIDE,   /* `step` times MDB_NEXT for each used record, from record `first` on */
	WORK_KEYS,     /* as WORK_SCAN, but only the keys are read */
	WORK_GET,      /* mdb_get of records in a random order, none twice: of the first `count` of
			  that order each `step`-th, from number `first` on */
	WORK_LOOKUP,   /* mdb_get of each `step`-th record in order, from record `first` on */
	WORK_BEGIN,    /* WORK_GET, each in a transaction of its own */
	WORK_BATCH, /* WORK_GET by mini-batches of `batch`, each announced if `announce` is set */
	WORK_KEEP,  /* as WORK_SCAN; all pointers are kept and read again at the end */
	WORK_OPEN,  /* `count` times: open, one mdb_get, close */
	WORK_LOAD,  /* start of a program that does nothing: run by the driver, not by a worker */
	/* Not for users of bench_figures: */
	WORK_MAKE,  /* writes the data set */
	WORK_PART,  /* as WORK_SCAN, up to `count` records */
	WORK_GIVEN, /* mdb_get of each `step`-th key of `keys`, from key `first` on; if `announce`
		       is set, by batches of `batch`, each announced before the one in front is read
		     */
	WORK_TRAIN, /* trains like an accelerator: number `first` of `step` (bench_train.c) */
	WORK_TELL,  /* no reading: which library it is, and its version */
	WORKS,
};

struct bench_job {
	uint64_t work; /* enum bench_work */
	const char *path;
	const char *suffix; /* of every key, after its eight digits */
	uint64_t records;   /* in the data set */
	uint64_t value_size;
	uint64_t count;
	uint64_t batch;
	uint64_t announce;
	uint64_t step, first;
	uint64_t touch; /* each touch-th byte of a used value is read, from its first on; 0: none */
	uint64_t hash;  /* every byte is read instead */
	uint64_t nordahead; /* open with MDB_NORDAHEAD */
	uint64_t passes;    /* untimed passes before, in the same process and transaction */
	uint64_t repeat;    /* further runs of the timed part, each with its own opening */
	uint64_t seed;
	uint64_t busy;  /* further processes that use a processor each, during the timed part */
	uint64_t nice;  /* the worker's niceness, during the timed part */
	uint64_t flags; /* further flags of mdb_env_open() */
	const char *database; /* a named database; NULL or "": the main one */
	uint64_t keys;        /* WORK_GIVEN: the descriptor of a key list (bench_keys.h) */
	uint64_t deadline;    /* nanoseconds after which WORK_PART and _GIVEN stop; 0: never */
	/* For WORK_TRAIN, whose batches have `batch` of the keys in an order that follows from
	 * `seed`: */
	uint64_t readers; /* threads, each of which reads every readers-th batch */
	uint64_t compute; /* nanoseconds that computing with a batch takes */
	uint64_t meeting; /* the descriptor of the memory where accelerators meet (bench_steps.h) */
};

/* Measured from before mdb_env_create() to after mdb_env_close(). The time stops while an
 * environment is closed: what a scan has mapped is unmapped then, or when the program ends, and a
 * reader waits for neither. With untimed passes only the reading after them counts, without
 * opening. */
struct bench_result {
	uint64_t begin, end;   /* CLOCK_MONOTONIC, nanoseconds */
	uint64_t closing;      /* nanoseconds; 0 for WORK_OPEN, where closing belongs to the work */
	uint64_t user, system; /* microseconds */
	uint64_t major, minor; /* page faults */
	uint64_t switches;     /* context switches of both kinds */
	uint64_t rss;          /* the process's peak, KiB */
	uint64_t
		own; /* memory that is no file's page, KiB: at the end; of WORK_KEEP, the largest */
	uint64_t records;         /* used records */
	uint64_t bytes;		  /* of the used values */
	uint64_t sum;             /* over the bytes that were read of them */
	uint64_t requests, asked; /* by the file system's counters, from the driver */
	uint64_t missing;         /* keys that were not in the database */
	uint64_t stopped;         /* processes stopped by the deadline */
	/* For a stopped process, what it read in the first quarter of its time, and when that
	 * ended: */
	uint64_t settled, early_records, early_bytes;
	uint64_t fetched;         /* bytes that the kernel counts as read from storage */
	uint64_t lmdbio_requests, lmdbio_bytes; /* lmdbio's requests to storage */
	/* For WORK_TRAIN: */
	uint64_t steps;                 /* after the readers' first ones */
	uint64_t waited;                /* nanoseconds of waiting for their batches */
	/* When the last step before these ended, and the last of these; CLOCK_MONOTONIC,
	 * nanoseconds: */
	uint64_t first_step, last_step;
	const char *library;            /* the file in which mdb_env_open was found */
	const char *version;            /* of LMDB, in words */
};

extern const char *const bench_work_names[WORKS];
extern const struct field bench_job_fields[];
extern const size_t bench_job_n;
extern const struct field bench_result_fields[];
extern const size_t bench_result_n;

/* Returns the workload of this name; WORKS: none. */
enum bench_work bench_work_find(const char *name);

#endif
