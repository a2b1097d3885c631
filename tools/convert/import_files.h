/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the files that records name, several at once. */
#ifndef LMDBIO_TOOLS_IMPORT_FILES_H
#define LMDBIO_TOOLS_IMPORT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One file to be read into memory. */
struct import_file {
	char *path;     /* NULL: nothing to read */
	void *value;    /* malloc()ed by the reading; NULL if that failed */
	size_t size;    /* bytes of the value */
	bool too_large; /* more than the limit, and not read */
	bool outside;   /* outside the allowed directory, and not read */
	bool sizeless;  /* its size is said to be 0, but it has content, and was not read */
	int error;      /* 0 or the errno of the reading */
};

/* Limits on the files to read. */
struct import_allowed {
	uint64_t size;      /* bytes of a file, at most */
	const char *inside; /* the directory, without links in its name; NULL: anywhere */
};

/* Reads all files with at most `threads` threads. Sets the results in each. */
void import_files_read(struct import_file *const *files, size_t count, unsigned threads,
		       const struct import_allowed *allowed);

#endif
