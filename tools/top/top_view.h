/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lays out a sample of the node as lines of text. */
#ifndef LMDBIO_TOOLS_TOP_VIEW_H
#define LMDBIO_TOOLS_TOP_VIEW_H

#include "top_sample.h"

/* The columns by which the table can be sorted. */
enum top_sort {
	TOP_BY_STORAGE,
	TOP_BY_VALUES,
	TOP_BY_REQUESTS,
	TOP_BY_QUEUE,
	TOP_BY_WAIT,
	TOP_BY_PID,
	TOP_BY_PROGRAM,
	TOP_SORTS
};

/* Returns the column's name as the user writes it, in lower case. */
const char *top_sort_name(enum top_sort sort);

enum {
	TOP_WIDTH = 80, /* a line and the final 0 fit */
	TOP_HEAD = 6,   /* lines above the table: the last one is empty */
};

/* Sorts the rows: the largest first, but process numbers and programs from the least on. */
void top_sort(struct top_sample *sample, enum top_sort sort);

/* Writes line `i` of the head; `every` is the time between two samples, in seconds. Returns
 * `line`. */
const char *top_head(const struct top_sample *sample, double every, unsigned i,
		     char line[TOP_WIDTH]);

/* Write the names of the table's columns, and a row. */
const char *top_title(char line[TOP_WIDTH]);
const char *top_line(const struct top_row *row, char line[TOP_WIDTH]);

#endif
