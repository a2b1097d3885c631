/* SPDX-License-Identifier: OLDAP-2.8 */
/* Defines the built-in original: its table, and what its archive needs to run inside this
 * library. */
#include "origin/origin.h"

#include "config.h"

#include <pthread.h>
#include <stdio.h>

static _Atomic bool built_in_told;

static struct origin built_in = {
	.told = &built_in_told,
	.call =
		{
#define F(result, name, parameters, arguments) .name = lmdbio_orig_##name,
#define P(name, parameters, arguments)	       .name = lmdbio_orig_##name,
#include "origin/origin_functions.def"
#undef F
#undef P
		},
};

const struct origin_name origin_names[] = {
#define F(result, name, parameters, arguments) {#name, offsetof(struct origin_functions, name)},
#define P(name, parameters, arguments)         {#name, offsetof(struct origin_functions, name)},
#include "origin/origin_functions.def"
#undef F
#undef P
};

const struct origin_name later_names[] = {
#define F(result, name, parameters, arguments)                                                     \
	{#name, offsetof(struct origin_later_functions, name)},
#define P(name, parameters, arguments) {#name, offsetof(struct origin_later_functions, name)},
#include "origin/later_functions.def"
#undef F
#undef P
};

const size_t later_names_count = sizeof(later_names) / sizeof(later_names[0]);

const size_t origin_names_count = sizeof(origin_names) / sizeof(origin_names[0]);

static void built_in_prepare(void)
{
	int major = 0, minor = 0, patch = 0;

	lmdbio_orig_mdb_version(&major, &minor, &patch);
	built_in.version = ORIGIN_VERSION(major, minor, patch);
	built_in.where = origin_place();
}

const struct origin *origin_built_in(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, built_in_prepare);
	return &built_in;
}

#ifndef ORIGIN_LIBRARY

/* The original's archive cannot reach libc's stderr from inside a shared library, so its reference
 * is renamed to this. The original writes its message before a failed assertion there. */
extern FILE *lmdbio_orig_stderr;
__attribute__((visibility("hidden"))) FILE *lmdbio_orig_stderr;

static __attribute__((constructor)) void origin_prepare(void)
{
	lmdbio_orig_stderr = stderr;
}

int origin_check(const char **why)
{
	*why = NULL;
	return 0;
}

const char *origin_place(void)
{
	return "built in";
}

#endif
