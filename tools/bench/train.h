/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds how many emulated accelerators a node feeds, by the rules of MLPerf Storage. */
#ifndef LMDBIO_TOOLS_TRAIN_H
#define LMDBIO_TOOLS_TRAIN_H

#include "given_bench.h"

/* An accelerator takes a batch, computes for a fixed time, and waits for the others. */
struct train_model {
	const char *name;
	uint64_t record_size; /* bytes, on average */
	uint64_t batch;       /* records */
	uint64_t readers;     /* threads of an accelerator */
	double wanted;        /* least utilisation */
	uint64_t a100, h100;  /* microseconds of computing for a batch */
};

/* train_figures.c: pure functions. Returns the model with a name, or NULL. */
const struct train_model *train_model_find(const char *name);

/* Returns the part of a run's time in which its accelerators computed, by the rules: steps times
 * the time of computing over the whole time, without the first step. 0 if no other step has
 * ended. */
double train_utilisation(const struct bench_result *run, uint64_t compute, unsigned accelerators);

/* Returns how many accelerators storage would feed at the utilisation `wanted`, if `accelerators`
 * have `utilisation` and storage gives no more. */
double train_fed(unsigned accelerators, double utilisation, double wanted);

/* A search for the largest number of fed accelerators, in few runs. */
struct train_search {
	unsigned most;           /* no larger number is tried */
	unsigned passed, failed; /* the largest fed number, the least one not fed; 0: none */
	double guess;            /* from the last run that failed */
};

/* Returns the number of accelerators for the next run; 0: the search is over, and `passed` is the
 * answer. */
unsigned train_search_next(struct train_search *search);
void train_search_take(struct train_search *search, unsigned accelerators, double utilisation,
		       double wanted);

enum { TRAIN_RUNS_MAX = 24, TRAIN_WAYS_MAX = 5, TRAIN_TITLE = 48 };

/* A way of reading, and its results. */
struct train_way {
	enum library library;
	bool nordahead, hints;
	struct train_search search;
	unsigned runs;
	struct train_run {
		unsigned accelerators;
		double utilisation;
		struct bench_result result;
	} run[TRAIN_RUNS_MAX];
};

struct train {
	struct given_bench *bench;
	const struct train_model *model;
	uint64_t batch, readers, compute; /* as the model or the user says; compute: nanoseconds */
	uint64_t memory;  /* bytes for all readers together; 0: all of the machine's */
	uint64_t machine; /* bytes: the machine's memory */
	char group[PATH_MAX]; /* the control group that limits them; "": none */
	double run_seconds;
	unsigned n_ways;
	struct train_way ways[TRAIN_WAYS_MAX];
};

/* Writes a title as "lmdbio, NORDAHEAD, hints". */
void train_title(const struct train_way *way, char title[TRAIN_TITLE]);

/* Returns the run with this number of accelerators, or NULL. */
const struct train_run *train_run_of(const struct train_way *way, unsigned accelerators);

/* train_group.c: makes a control group with a limit of `memory` bytes, below this process's group.
 * Returns 0, or an errno if none can be made here. */
int train_group_make(uint64_t memory, char group[PATH_MAX]);
/* Removes the group after its last process has ended. */
void train_group_remove(const char *group);

/* train_run.c: measures what the options request. Returns 0, EINTR, or an errno after a message. */
int train_measure(struct train *train);

/* train_report.c: prints the result as one sentence, a table, or a JSON object. */
void train_verdict(const struct train *train, char *text, size_t size);
void train_table(const struct train *train, FILE *out);
int train_json(const struct train *train, FILE *out);

#endif
