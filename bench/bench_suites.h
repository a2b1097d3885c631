/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lists the figures that are asked of lmdbio, and decides whether they are met. */
#ifndef BENCH_SUITES_H
#define BENCH_SUITES_H

#include "bench_measure.h"

enum { FIGURES_MAX = 5 };

enum figure_kind {
	FIGURE_NONE,
	FIGURE_RATE,           /* records a second, over the original's */
	FIGURE_TIME,           /* seconds, over the original's */
	FIGURE_REQUESTS,       /* for each MiB of the file */
	FIGURE_BYTES,          /* read, over the file's */
	FIGURE_CEILING,        /* seconds, over slowfs's bandwidth's or the O_DIRECT reader's */
	FIGURE_DIRECT,         /* MiB a second, over the O_DIRECT reader's */
	FIGURE_FIO,            /* MiB a second, over fio's */
	FIGURE_ONE,            /* seconds, over one process's scan */
	FIGURE_REQUESTS_VALUE, /* for each value */
	FIGURE_BYTES_VALUE,    /* read, over the values' */
	FIGURE_MAJOR,          /* major page faults of all processes */
	FIGURE_OWN,            /* MiB of memory that belongs to no file */
	FIGURE_START,          /* milliseconds more than without lmdbio */
	FIGURE_CPU,            /* processor time of all processes, over the original's */
	FIGURE_KINDS,
};

struct figure {
	enum figure_kind kind;
	double asked;
};

struct suite_row {
	struct bench_case what;
	struct figure figures[FIGURES_MAX]; /* up to the first FIGURE_NONE */
	int one; /* FIGURE_ONE: the row of the same suite that it is compared with */
};

struct suite {
	const char *name;
	const char *about;
	const struct suite_row *rows;
	size_t n;
};

/* What a figure is computed from. */
struct figure_input {
	const struct measured *m;
	const struct measured *one; /* FIGURE_ONE: the other row's; NULL: that row was left out */
	unsigned bandwidth;	    /* of slowfs, MiB a second; 0: no limit */
};

const struct suite *suite_find(const char *name);

const char *figure_name(enum figure_kind kind);
bool figure_is_minimum(enum figure_kind kind);

/* Returns the figure of one pair; NaN: it cannot be computed. */
double figure_value(enum figure_kind kind, const struct figure_input *input, int run);

/* What the pairs of a row show of a figure. */
struct figure_measured {
	double median;          /* of the pairs; NaN: it cannot be computed */
	double least, greatest; /* of a pair */
	bool sure;              /* the true median lies between `low` and `high`, by 95 %: */
	double low, high;
};

void figure_measure(enum figure_kind kind, const struct figure_input *input,
		    struct figure_measured *measured);

/* "yes" if the whole interval meets the figure, "NO" if none of it does; "open" if the interval
 * contains the figure, or if there are too few pairs for an interval: more pairs decide. */
const char *figure_verdict(const struct figure *figure, const struct figure_measured *measured);

/* Returns the reason why a figure is NaN. */
const char *figure_why_not(enum figure_kind kind);

#endif
