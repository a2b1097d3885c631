/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads lists: the names of sources, and lines of "path label" of Caffe's lists and label files. */
#ifndef LMDBIO_TOOLS_IMPORT_LABELS_H
#define LMDBIO_TOOLS_IMPORT_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads the next line of the list `name` into *line and *room, as getline(3) does. *more: false at the list's end.
 * Returns 0, or an exit status, and the person has been told. */
int list_next(FILE *list, const char *name, char **line, size_t *room, bool *more);

/* Cuts a line at its last space or tab: `line` becomes the path, and the label is returned; NULL
 * when the line has no label. Line ends go from the end of it. */
char *label_split(char *line);

/* A label as the number that Caffe wants; false when it is none, or out of 32 bits. */
bool label_number(const char *label, int32_t *number);

/* A label file in memory, for finding a label by its path. */
struct labels;

/* Returns 0, or an exit status, and the person has been told. *labels is NULL then. */
int labels_open(struct labels **labels, const char *path);

/* The label of `path`, NULL when there is none. Lives as long as the labels. */
const char *labels_find(struct labels *labels, const char *path);

/* How many of them were not asked for. */
size_t labels_unused(const struct labels *labels);

void labels_close(struct labels *labels); /* NULL does nothing */

#endif
