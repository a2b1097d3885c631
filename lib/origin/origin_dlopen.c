/* SPDX-License-Identifier: OLDAP-2.8 */
/* Calls the built-in original in a shared library, where its archive cannot be linked in.
 *
 * Three traps, each of them met: the path may lead to lmdbio itself, installed over the original.
 * An original linked without -Bsymbolic finds our exports for its internal calls, unless it is
 * bound deeply. A missing name would be noticed only at the call.
 */
#include "origin/origin.h"

#include "config.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static struct origin_functions functions;

static char problem[256] = "the original LMDB has not been loaded";

static bool is_symbolic(void *handle)
{
	struct link_map *map;

	if (dlinfo(handle, RTLD_DI_LINKMAP, &map))
		return false;
	for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_SYMBOLIC ||
		    (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_SYMBOLIC))
			return true;
	return false;
}

/* Returns whether the opened library is lmdbio's, by a function that only lmdbio has. */
static bool is_ourselves(void *handle)
{
	return !dlsym(handle, "mdb_env_open") || dlsym(handle, "lmdbio_version");
}

static __attribute__((constructor)) void origin_load(void)
{
	void *handle = dlopen(ORIGIN_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		snprintf(problem, sizeof(problem), "the original LMDB cannot be loaded: %s",
			 dlerror());
		return;
	}
	if (is_ourselves(handle)) {
		snprintf(problem, sizeof(problem), "%s is lmdbio itself, not the original LMDB",
			 ORIGIN_LIBRARY);
		dlclose(handle);
		return;
	}
	if (!is_symbolic(handle)) {
		dlclose(handle);
		handle = dlopen(ORIGIN_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
		if (!handle) {
			snprintf(problem, sizeof(problem), "%s cannot be bound: %s",
				 ORIGIN_LIBRARY, dlerror());
			return;
		}
	}
	for (size_t i = 0; i < origin_names_count; i++) {
		void *symbol = dlsym(handle, origin_names[i].name);

		if (!symbol) {
			snprintf(problem, sizeof(problem), "%s has no %s", ORIGIN_LIBRARY,
				 origin_names[i].name);
			return;
		}
		memcpy((char *)&functions + origin_names[i].offset, &symbol, sizeof(symbol));
	}
	problem[0] = 0;
}

int origin_check(const char **why)
{
	*why = problem;
	return *problem ? ELIBACC : 0;
}

const char *origin_place(void)
{
	return ORIGIN_LIBRARY;
}

/* Before a call can reach one of these without a function behind it, origin_check() has failed. The
 * exceptions need no environment and return nothing. */
#define F(result, name, parameters, arguments)                                                     \
	result lmdbio_orig_##name parameters                                                       \
	{                                                                                          \
		static result nothing;                                                             \
		return functions.name ? functions.name arguments : nothing;                        \
	}
#define P(name, parameters, arguments)                                                             \
	void lmdbio_orig_##name parameters                                                         \
	{                                                                                          \
		if (functions.name)                                                                \
			functions.name arguments;                                                  \
	}
#include "origin/origin_functions.def"
#undef F
#undef P
