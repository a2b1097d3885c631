/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides whether a program will use a preloaded lmdbio. */
#ifndef LMDBIO_TOOLS_PRELOAD_CHECK_H
#define LMDBIO_TOOLS_PRELOAD_CHECK_H

enum preload_verdict {
	PRELOAD_WORKS = 0, /* the exit codes of lmdbio-run --check */
	PRELOAD_FAILS = 1,
	PRELOAD_UNKNOWN = 2,
};

/* Looks at the files alone. Does not run the program, only the dynamic loader, to list libraries.
 * `program` is a path with a slash, `library` the absolute path of the drop-in, `preload` the whole
 * value of LD_PRELOAD for the program. Prints one line with the reason on standard output. */
enum preload_verdict preload_check(const char *program, const char *library, const char *preload);

/* Runs the program (the environment is ready, LD_PRELOAD included). Reads from the dynamic loader's
 * own trace, children included, which library mdb_env_open was bound to. */
enum preload_verdict preload_check_run(const char *program, char *const *arguments,
				       const char *library);

#endif
