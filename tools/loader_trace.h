/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the dynamic loader what it does. */
#ifndef LMDBIO_TOOLS_LOADER_TRACE_H
#define LMDBIO_TOOLS_LOADER_TRACE_H

#include <limits.h>
#include <stdbool.h>

typedef void loader_file(const char *path, void *context);

/* Which library `symbol` was bound to, as seen in a trace. */
struct loader_bindings {
	const char *symbol, *library; /* asked: this name, bound to this file? */
	bool to_library;
	char caller[PATH_MAX]; /* the file whose reference was bound first, to the library if any */
	char elsewhere[PATH_MAX]; /* another file that it was bound to */
};

/* This program's own dynamic loader; the only one that is ever started. */
const char *loader_path(void);

/* Lists the libraries of `program` under LD_PRELOAD=`preload` without running it. 0, an errno, or
 * -1 when the loader refuses the file. */
int loader_list(const char *program, const char *preload, loader_file *found, loader_file *missing,
		void *context);

/* Runs `program` with the loader's trace on, waits, and reads the trace of it and its children.
 * 0 or an errno; how the program itself ended does not matter. */
int loader_run(const char *program, char *const *arguments, struct loader_bindings *bindings,
	       loader_file *loaded, void *context);

#endif
