/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares a measurement of a user's data set: the plan, its rows, and their results. */
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
enum { GIVEN_TOUCH = 64 }; /* every 64th byte of a value is read */

struct given_options {
	uint64_t bytes;   /* of values in a run, at most */
	uint64_t seconds; /* of all runs, roughly */
	uint64_t pairs, seed;
	unsigned processes[PROCESS_COUNTS]; /* ends at the first 0 */
	const char *only;                   /* rows with this in their title; NULL: all */
	bool drop_caches;
};

struct given_row {
	enum bench_work work; /* WORK_PART or WORK_GIVEN */
	bool cold;
	bool nordahead;
	bool hints; /* batches announced by lmdbio_prefetch_keys(), one ahead */
	unsigned processes;
	/* Results: */
	unsigned pairs;                                   /* 0: no result */
	struct bench_result runs[LIBRARIES][PAIRS_LIMIT]; /* `asked`: bytes asked of storage */
};

struct given_machine {
	double direct, memory; /* bytes a second; 0: not measured */
	uint64_t direct_bytes; /* bytes read to measure `direct` */
	long processors;
};

struct given_bench {
	const struct tool *tool;
	struct given_options options;
	struct given_set sets[LIBRARIES]; /* the same one twice, except with --raw */
	bool compared; /* the original runs, too: it can read the file, or --raw */
	struct bench_result original;     /* its library and version */
	bool built_in;                    /* the original is the one inside lmdbio */
	char drop_in[PATH_MAX];
	int keys;
	uint64_t n_keys;
	double cold_seconds, warm_seconds; /* of a run, at most */
	struct given_machine machine;
	struct given_row *rows;
	unsigned n_rows;
	bool differ; /* the two libraries have read different data */
	unsigned n_notes;
	char notes[NOTES_MAX][NOTE_ROOM]; /* sentences for the user */
};

/* given_plan.c: makes the rows for the options. Returns 0, or TOOL_FAILED after a message. */
int given_plan(struct given_bench *bench);
/* Writes "cold, shuffled mdb_get, MDB_NORDAHEAD, hints, 4 processes". */
void given_title(const struct given_row *row, char title[ROW_TITLE]);
/* Writes the plan as one line, without the end of the line. */
void given_plan_text(const struct given_bench *bench, char *text, size_t size);

/* given_measure.c: measures all rows, and the machine's speed. Returns 0, EINTR, or an errno after
 * a message. */
int given_measure(struct given_bench *bench);
/* Asks the kernel to forget the pages of a set's file. A note reports a failure. */
void given_make_cold(struct given_bench *bench, const struct given_set *set);
/* Returns the setting with which a worker shares memory only with processes of this run: other
 * processes of the node may have the data set there. */
const char *given_own_node(void);

/* Adds a note, once, for the user to read behind the table. */
void given_note(struct given_bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* given_figures.c: return a figure of run `i`, or the median of all runs for -1. */
double given_rate(const struct given_row *row, enum library library, int i);
double given_bytes_rate(const struct given_row *row, enum library library, int i);
double given_field(const struct given_row *row, enum library library, size_t offset);
#define GIVEN(row, library, member) given_field(row, library, offsetof(struct bench_result, member))
double given_processor_seconds(const struct given_row *row, enum library library);

struct given_ratio {
	double median, least, greatest; /* lmdbio's rate over the original's, over the pairs */
	bool sure;                      /* there are enough pairs for ... */
	double low, high;               /* ... a 95 % interval of the median */
};
struct given_ratio given_ratio(const struct given_row *row);
/* Writes "1.17 x (1.10 to 1.25)": the pairs' ends, with the interval in front if there is one. */
enum { RATIO_TEXT = 80 };
void given_ratio_text(const struct given_ratio *ratio, char text[RATIO_TEXT]);

/* Writes the result as one sentence in plain words. */
void given_verdict(const struct given_bench *bench, char *text, size_t size);

/* Print the reports. */
void given_table(const struct given_bench *bench, FILE *out);
int given_json(const struct given_bench *bench, FILE *out);
/* Print parts of them: the libraries, then an empty line; an empty line, then the notes. */
void given_table_libraries(const struct given_bench *bench, FILE *out);
void given_table_notes(const struct given_bench *bench, FILE *out);
struct json_t; /* of jansson */
/* Writes an object with the notes in it, and frees it. Returns 0 or EIO. */
int given_json_end(struct json_t *json, const struct given_bench *bench, FILE *out);
void given_html(const struct given_bench *bench, FILE *out);

#endif
