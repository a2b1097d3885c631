/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the dynamic loader how it binds a program. */
#ifndef LMDBIO_TOOLS_LOADER_TRACE_H
#define LMDBIO_TOOLS_LOADER_TRACE_H

#include <limits.h>
#include <stdbool.h>

typedef void loader_file(const char *path, void *context);

/* The library that `symbol` was bound to, as a trace shows. */
struct loader_bindings {
	const char *symbol, *library; /* input: is this name bound to this file? */
	bool to_library;
	char caller[PATH_MAX];    /* the file that was bound first, to the library if any was */
	char elsewhere[PATH_MAX]; /* another file that the symbol was bound to */
};

/* Returns this program's own dynamic loader. The tools never start another one. */
const char *loader_path(void);

/* Lists the libraries of `program` under LD_PRELOAD=`preload` without running it. Returns 0, an
 * errno, or -1 if the loader refuses the file. */
int loader_list(const char *program, const char *preload, loader_file *found, loader_file *missing,
		void *context);

/* The directory in which traces are written: TMPDIR, else /tmp. */
const char *loader_traces_directory(void);

/* Runs `program` with the loader's trace on, waits, and reads the trace of it and its children.
 * Passes signals on to the program. Returns 0 or an errno, however the program itself ended. */
int loader_run(const char *program, char *const *arguments, struct loader_bindings *bindings,
	       loader_file *loaded, void *context);

#endif
