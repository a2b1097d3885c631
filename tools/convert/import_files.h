/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how the files that records name are read, several at a time. */
#ifndef LMDBIO_TOOLS_IMPORT_FILES_H
#define LMDBIO_TOOLS_IMPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One file to be read into memory. */
struct import_file {
	char *path;     /* NULL: nothing to read */
	void *value;    /* malloc()ed by the reading; not NULL when it went well */
	size_t size;    /* bytes of the value */
	bool too_large; /* more than IMPORT_VALUE_MOST, and not read */
	int error;      /* 0 or the errno of the reading */
};

/* Reads all of them with at most `threads` threads. What came of each stands in it. */
void import_files_read(struct import_file *const *files, size_t count, unsigned threads);

#endif
