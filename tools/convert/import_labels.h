/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads lists: the names of sources, and lines of "path label" of Caffe's lists and label files. */
#ifndef LMDBIO_TOOLS_IMPORT_LABELS_H
#define LMDBIO_TOOLS_IMPORT_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Reads the next line of the list `name` into *line and *room, as getline(3) does. *more: false at
 * the list's end. Returns 0, or an exit status after a message. */
int list_next(FILE *list, const char *name, char **line, size_t *room, bool *more);

/* Cuts a line at its last space or tab. `line` becomes the path. Returns the label, without line
 * ends, or NULL if the line has none. */
char *label_split(char *line);

/* Parses a label as a number for Caffe. Returns false if it is no number, or exceeds 32 bits. */
bool label_number(const char *label, int32_t *number);

/* A label file in memory, for finding a label by its path. */
struct labels;

/* Returns 0, or an exit status after a message, and then *labels is NULL. */
int labels_open(struct labels **labels, const char *path);

/* Returns the label of `path`, or NULL. Lives as long as the labels. */
const char *labels_find(struct labels *labels, const char *path);

/* Returns how many labels were never requested. */
size_t labels_unused(const struct labels *labels);

void labels_close(struct labels *labels); /* NULL does nothing */

#endif
