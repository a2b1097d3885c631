/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs one case on both libraries in turn and takes medians. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "bench_place.h"
#include "bench_run.h"

enum { PAIRS_MAX = 99, MEDIANS = -1, TITLE_ROOM = 128 };

struct bench_case {
	const char *set;
	enum bench_work work;
	enum state state;
	bool slow; /* on slowfs */
	unsigned processes;
	unsigned busy; /* further processes that use a processor each */
	unsigned nice; /* niceness of the readers */
	bool nordahead;
	bool hash;
	bool fio; /* fio reads the file as well */
	unsigned touch;
	uint64_t count;	      /* 0: the set's own */
	const char *variable; /* set for lmdbio, "NAME=value", or NULL */
};

struct measured {
	const struct bench_case *what;
	struct data data;
	unsigned pairs;
	struct bench_result runs[LIBRARIES][PAIRS_MAX];
	double direct[PAIRS_MAX]; /* seconds of the O_DIRECT reader beside each cold pair, else 0 */
	double fio[PAIRS_MAX];    /* and of fio, if it was asked for and exists */
	uint64_t instructions[LIBRARIES];
};

/* Describes the case in words. */
void case_title(const struct bench_case *what, char title[TITLE_ROOM]);

/* Runs a case: one run on each library, `pairs` times: A B, B A, A B ... Each run is a fresh
 * process (or several). Both libraries must have seen the same bytes. The readers without LMDB run
 * in between, after the first pair, before the second, and so on. m->data has been made. Returns 0,
 * an errno, or EIO after a line on standard error. */
int measure_case(struct measured *m, const struct bench_case *what, struct place *place,
		 unsigned pairs, uint64_t seed);

/* Counts instructions of one run on each library instead. */
int measure_instructions(struct measured *m, const struct bench_case *what, struct place *place,
			 uint64_t seed);

/* Return a value of pair `run`, or with MEDIANS the median. */
double measured_seconds(const struct measured *m, enum library library, int run);
double measured_direct(const struct measured *m, int run);
double measured_fio(const struct measured *m, int run);
double measured_field(const struct measured *m, enum library library, int run, size_t offset);
#define MEASURED(m, library, run, member)                                                          \
	measured_field(m, library, run, offsetof(struct bench_result, member))

#endif
