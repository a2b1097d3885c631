/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds what is measured of a user's data set: the plan, its rows, and what came of them. */
#ifndef LMDBIO_TOOLS_GIVEN_BENCH_H
#define LMDBIO_TOOLS_GIVEN_BENCH_H

#include "given_set.h"

#include "bench_run.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include <stdbool.h>
#include <stdint.h>

enum { ROWS_MAX = 64, PAIRS_LIMIT = 99, PROCESS_COUNTS = 8, NOTES_MAX = 16, NOTE_ROOM = 256 };
enum { ROW_TITLE = 96, WARM_REPEATS = 1000 };
enum { GIVEN_TOUCH = 64 }; /* each so many-th byte of a value is read */

struct given_options {
	uint64_t bytes;   /* of values in a run, at most */
	uint64_t seconds; /* about, in all */
	uint64_t pairs, seed;
	unsigned processes[PROCESS_COUNTS]; /* up to the first 0 */
	const char *only;                   /* rows with this in their title, or NULL */
	bool drop_caches;
};

struct given_row {
	enum bench_work work; /* WORK_PART or WORK_GIVEN */
	bool cold;
	bool nordahead;
	bool hints; /* batches announced by lmdbio_prefetch_keys(), one ahead */
	unsigned processes;
	/* What came of it: */
	unsigned pairs;                                   /* 0: nothing */
	struct bench_result runs[LIBRARIES][PAIRS_LIMIT]; /* `asked`: bytes asked of storage */
};

struct given_machine {
	double direct, memory; /* bytes a second; 0: not measured */
	uint64_t direct_bytes; /* read for it */
	long processors;
};

struct given_bench {
	const struct tool *tool;
	struct given_options options;
	struct given_set sets[LIBRARIES]; /* the same one twice, but with --raw */
	bool compared;                    /* the original reads, too: what lmdbio has, or --raw */
	struct bench_result original;     /* its library and version */
	bool built_in;                    /* it is the one that lmdbio holds */
	char drop_in[PATH_MAX];
	int keys;
	uint64_t n_keys;
	double cold_seconds, warm_seconds; /* of a run at most */
	struct given_machine machine;
	struct given_row *rows;
	unsigned n_rows;
	bool differ; /* the two libraries have not read the same */
	unsigned n_notes;
	char notes[NOTES_MAX][NOTE_ROOM]; /* sentences for the user */
};

/* given_plan.c: makes the rows that the options ask for. Returns 0 or TOOL_FAILED, and the user has
 * been told. */
int given_plan(struct given_bench *bench);
/* "cold, shuffled mdb_get, MDB_NORDAHEAD, hints, 4 processes". */
void given_title(const struct given_row *row, char title[ROW_TITLE]);
/* The plan as one line, without the end of the line. */
void given_plan_text(const struct given_bench *bench, char *text, size_t size);

/* given_measure.c: measures all rows, and how fast the machine is. Returns 0, EINTR, or an errno
 * and the user has been told. */
int given_measure(struct given_bench *bench);
/* Asks the kernel to forget the pages of a set's file; a note says where that could not be done. */
void given_make_cold(struct given_bench *bench, const struct given_set *set);
/* The setting with which a worker shares memory with no process of the node but this run's, because
 * others may have the data set there. */
const char *given_own_node(void);

/* Says something once, for the user to read behind the table. */
void given_note(struct given_bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* given_figures.c: numbers out of the runs. Of run `i`, or the median of all for -1. */
double given_rate(const struct given_row *row, enum library library, int i);
double given_bytes_rate(const struct given_row *row, enum library library, int i);
double given_field(const struct given_row *row, enum library library, size_t offset);
#define GIVEN(row, library, member) given_field(row, library, offsetof(struct bench_result, member))
double given_processor_seconds(const struct given_row *row, enum library library);

struct given_ratio {
	double median, least, greatest; /* lmdbio's rate over the original's, of the pairs */
	bool sure;                      /* there are pairs enough for ... */
	double low, high;               /* ... an interval that holds the median by 95 % */
};
struct given_ratio given_ratio(const struct given_row *row);
/* "1.17 x (1.10 to 1.25)", with the interval in front of the pairs' ends if there is one. */
enum { RATIO_TEXT = 80 };
void given_ratio_text(const struct given_ratio *ratio, char text[RATIO_TEXT]);

/* The result as one sentence in plain words. */
void given_verdict(const struct given_bench *bench, char *text, size_t size);

/* The reports. */
void given_table(const struct given_bench *bench, FILE *out);
int given_json(const struct given_bench *bench, FILE *out);
/* Parts of them: the libraries, with an empty line behind; the notes, with one in front. */
void given_table_libraries(const struct given_bench *bench, FILE *out);
void given_table_notes(const struct given_bench *bench, FILE *out);
struct json_t; /* of jansson */
/* Writes an object with the notes in it, and frees it. Returns 0 or EIO. */
int given_json_end(struct json_t *json, const struct given_bench *bench, FILE *out);
void given_html(const struct given_bench *bench, FILE *out);

#endif
