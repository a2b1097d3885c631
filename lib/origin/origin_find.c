/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the original LMDB of a caller by the address of its code.
 *
 * The dynamic loader binds a module that carries LMDB with visible names to us, because a preloaded
 * library comes first. This file asks for what the loader would have bound, in the loader's own
 * order: the module and the libraries that it needs, then the libraries after us in the global
 * scope. A program's own handle searches from the beginning of the global scope, where we stand, so
 * it is of no use here. "We" are this core and the libraries with the exported names (struct
 * origin_front). If the loader would have bound the module to one of these, the original is that
 * library's, even if another front received the call.
 *
 * An original that is not built in calls its own public functions through the loader as well, so
 * such calls are frequent. The list of sites answers them without a lock and without asking the
 * loader. For callers of the built-in original a thread keeps its last answer until the loader
 * loads or unloads a module.
 */
#include "origin/origin_find.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Earlier versions lack mdb_txn_id(). Versions from VERSION_END on are LMDB's development branches,
 * with another lock file. */
#define VERSION_FIRST ORIGIN_VERSION(0, 9, 17)
#define VERSION_END   ORIGIN_VERSION(0, 9, 70)

/* The loaded segment of a module whose original is not built in. Sites are pushed in front and
 * never removed. */
struct site {
	const char *start, *end;
	const struct origin *origin;
	struct site *next;
};

static struct site *_Atomic sites;

/* The module that contains an address, as the loader describes it. */
struct module {
	const char *start, *end; /* the segment with the address */
	uintptr_t base;
	const ElfW(Dyn) * dynamic;
	/* The loader's, valid while the module is loaded, or a copy; "": the program. */
	const char *name;
};

/* Counts the modules that the loader has loaded and unloaded. */
struct changes {
	unsigned long long loads, unloads;
};

/* The segment of this thread's last caller without an original of its own. */
static _Thread_local struct {
	const char *start, *end;
	struct changes changes;
	const struct origin *origin; /* NULL: the original of the called library */
} last;

/* The original that this thread is inside of, in a function that may end in a jump, or NULL. */
static _Thread_local const struct origin *entered;
static _Thread_local unsigned entered_depth;

static struct origin_front *_Atomic fronts;

struct module_search {
	const char *address;
	struct module *module; /* NULL: only `last` is compared */
	char *name;            /* PATH_MAX bytes for a copy of the module's, or NULL */
	struct changes changes;
	bool found, is_last;
};

static const char *segment_with(const struct dl_phdr_info *info, const char *address,
				const char **end)
{
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		const char *start = (const char *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);

		if (segment->p_type == PT_LOAD && address >= start &&
		    address < start + segment->p_memsz) {
			*end = start + segment->p_memsz;
			return start;
		}
	}
	return NULL;
}

static int module_visit(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module_search *search = context;
	const char *start, *end;

	(void)size;
	search->changes = (struct changes){info->dlpi_adds, info->dlpi_subs};
	if (!search->module) {
		search->is_last = search->address >= last.start && search->address < last.end &&
				  search->changes.loads == last.changes.loads &&
				  search->changes.unloads == last.changes.unloads;
		return 1;
	}
	start = segment_with(info, search->address, &end);
	if (!start)
		return 0;
	search->found = true;
	search->module->start = start;
	search->module->end = end;
	search->module->base = info->dlpi_addr;
	search->module->dynamic = NULL;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			search->module->dynamic =
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	search->module->name = info->dlpi_name;
	if (search->name) {
		snprintf(search->name, PATH_MAX, "%s", info->dlpi_name);
		search->module->name = search->name;
	}
	return 1;
}

static bool module_find(const void *address, struct module *module, struct changes *changes)
{
	struct module_search search = {.address = address, .module = module};

	dl_iterate_phdr(module_visit, &search);
	if (changes)
		*changes = search.changes;
	return search.found;
}

/* The same for a module that another thread may unload, and the loader's name with it. */
static bool module_find_copied(const void *address, struct module *module, char name[PATH_MAX])
{
	struct module_search search = {.address = address, .module = module, .name = name};

	dl_iterate_phdr(module_visit, &search);
	return search.found;
}

static bool is_last(const void *address)
{
	struct module_search search = {.address = address};

	if (last.end)
		dl_iterate_phdr(module_visit, &search);
	return search.is_last;
}

/* Finds the program's dynamic section, which dlinfo() returns for no handle. */
static int program_visit(struct dl_phdr_info *info, size_t size, void *context)
{
	struct module *program = context;

	(void)size;
	program->base = info->dlpi_addr;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			program->dynamic =
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first one is the program */
}

/* Returns the front for a library that the program was linked with, or NULL. That front's original
 * comes before any LMDB that another of the program's libraries brings. */
static const struct origin_front *front_of_program(void)
{
	struct module program = {.dynamic = NULL};
	const char *strings = NULL;

	dl_iterate_phdr(program_visit, &program);
	for (const ElfW(Dyn) *entry = program.dynamic; entry && entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_STRTAB)
			/* On some machines the loader leaves the address as it is in the file. */
			strings = (const char *)(entry->d_un.d_ptr < program.base
							 ? program.base + entry->d_un.d_ptr
							 : entry->d_un.d_ptr);
	for (const ElfW(Dyn) *entry = program.dynamic; strings && entry->d_tag != DT_NULL; entry++) {
		const struct origin_front *front =
			atomic_load_explicit(&fronts, memory_order_acquire);

		while (front && (entry->d_tag != DT_NEEDED ||
				 strcmp(strings + entry->d_un.d_val, front->soname)))
			front = front->other;
		if (front)
			return front;
	}
	return NULL;
}

static void *module_open(const struct module *module)
{
	return dlopen(*module->name ? module->name : NULL, RTLD_LAZY | RTLD_NOLOAD);
}

static bool is_in(const struct module *module, const void *address)
{
	struct module other;

	return address && module_find(address, &other, NULL) && other.base == module->base;
}

static const struct origin_front *front_of(const struct module *module)
{
	const struct origin_front *front = atomic_load_explicit(&fronts, memory_order_acquire);

	while (front && !is_in(module, (const void *)(uintptr_t)front->next))
		front = front->other;
	return front;
}

/* Returns whether a module is the core or a library that depends on it. */
static bool is_us(const struct module *module)
{
	return is_in(module, (const void *)(uintptr_t)origin_of) || front_of(module);
}

static bool is_in_us(const void *address)
{
	struct module module;

	return address && module_find(address, &module, NULL) && is_us(&module);
}

/* Finds a name after us in the global scope, for a caller in that scope. Where the core is part of
 * the program, no library comes after it. */
static const void *target_next(const char *name)
{
	struct origin_front *front = atomic_load_explicit(&fronts, memory_order_acquire);
	const void *target = NULL;

	for (; front && !target; front = front->other) {
		target = front->next(name);
		if (is_in_us(target))
			target = NULL;
	}
	return target;
}

static const struct origin *front_origin(const struct origin_front *front)
{
	return front->origin ? front->origin() : origin_built_in();
}

static const char *place_name(const struct module *module)
{
	char path[PATH_MAX];
	ssize_t length;

	if (*module->name)
		return strdup(module->name);
	length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = 0;
	return strdup(path);
}

static void *symbol_of(void *handle, const char *name, const struct module *module)
{
	void *symbol = dlsym(handle, name);

	return is_in(module, symbol) ? symbol : NULL;
}

/* lmdbio calls none of these through the table, and a module that carries LMDB 1.0 may lack them:
 * it may not compile module.c, or the linker may drop that file. */
static bool later_is_optional(const char *name)
{
	return !strncmp(name, "mdb_mid", 7) || !strncmp(name, "mdb_mod", 7);
}

static void later_read(struct origin *origin, void *handle, const struct module *module)
{
	struct origin_later_functions *later = calloc(1, sizeof(*later));

	for (size_t i = 0; later && i < later_names_count; i++) {
		void *symbol = symbol_of(handle, later_names[i].name, module);

		if (!symbol && !later_is_optional(later_names[i].name)) {
			free(later);
			return;
		}
		memcpy((char *)later + later_names[i].offset, &symbol, sizeof(symbol));
	}
	origin->later = later;
}

/* Makes the table of the LMDB in a module. Returns NULL if the module has no original, or if
 * memory is short. */
static struct origin *origin_read(void *handle, const struct module *module)
{
	const struct origin *built_in = origin_built_in();
	int major = 0, minor = 0, patch = 0;
	struct origin *origin;
	bool whole = false;

	/* Another copy of lmdbio would read for itself what we read. */
	if (symbol_of(handle, "lmdbio_version", module) ||
	    !symbol_of(handle, "mdb_version", module))
		return NULL;
	origin = calloc(1, sizeof(*origin));
	if (!origin)
		return NULL;
	for (size_t i = 0; i < origin_names_count; i++) {
		const struct origin_name *name = &origin_names[i];
		void *symbol = symbol_of(handle, name->name, module);
		const void *other = (const char *)&built_in->call + name->offset;

		/* Nothing would serve a missing name without us, either. The lists of page numbers
		 * are no part of LMDB's interface. */
		if (!symbol && strncmp(name->name, "mdb_mid", 7))
			whole = true;
		memcpy((char *)&origin->call + name->offset, symbol ? (void *)&symbol : other,
		       sizeof(symbol));
	}
	origin->call.mdb_version(&major, &minor, &patch);
	origin->version = ORIGIN_VERSION(major, minor, patch);
	origin->whole = whole || origin->version < VERSION_FIRST || origin->version >= VERSION_END;
	if (origin->version >= VERSION_END)
		later_read(origin, handle, module);
	*(void **)&origin->copy3 = symbol_of(handle, "mdb_env_copy3", module);
	*(void **)&origin->copyfd3 = symbol_of(handle, "mdb_env_copyfd3", module);
	origin->where = place_name(module);
	origin->told = calloc(1, sizeof(*origin->told));
	if (origin->where && origin->told)
		return origin;
	free((char *)(uintptr_t)origin->where);
	free((void *)(uintptr_t)origin->later);
	free(origin->told);
	free(origin);
	return NULL;
}

static const struct site *site_with(const char *address)
{
	const struct site *site = atomic_load_explicit(&sites, memory_order_acquire);

	while (site && (address < site->start || address >= site->end))
		site = site->next;
	return site;
}

static const struct origin *site_push(const struct module *module, const struct origin *origin)
{
	struct site *site = malloc(sizeof(*site));

	if (!site)
		return origin_built_in();
	*site = (struct site){module->start, module->end, origin,
			      atomic_load_explicit(&sites, memory_order_relaxed)};
	while (!atomic_compare_exchange_weak_explicit(&sites, &site->next, site,
						      memory_order_release, memory_order_relaxed))
		;
	return origin;
}

/* Two threads may both make a table; either table serves. */
const struct origin *origin_at(const void *target)
{
	const struct site *known = site_with(target);
	struct module module;
	char name[PATH_MAX];
	struct origin *origin;
	void *handle;

	if (known)
		return known->origin;
	if (!module_find_copied(target, &module, name) || !(handle = module_open(&module)))
		return origin_built_in();
	origin = origin_read(handle, &module);
	if (!origin) {
		dlclose(handle);
		return origin_built_in();
	}
	return site_push(&module, origin);
}

/* Finds the original that the loader would bind the caller's mdb_env_create to without us. Returns
 * NULL if the loader finds none, or if memory is short. */
static const struct origin *target_origin(void *handle, const struct module *caller)
{
	static const char name[] = "mdb_env_create";
	const void *target = dlsym(handle, name);
	const struct origin_front *front = NULL;
	struct module module;

	if (target && !is_in_us(target))
		return origin_at(target);
	if (!target || !*caller->name)
		front = front_of_program();
	else if (module_find(target, &module, NULL))
		front = front_of(&module);
	if (front)
		return front_origin(front);
	if (target && *caller->name)
		return NULL;
	target = target_next(name);
	return target ? origin_at(target) : NULL;
}

static const struct origin *origin_search(const struct origin_front *called, const void *address)
{
	const struct origin *origin, *standard = called ? front_origin(called) : origin_built_in();
	struct module caller;
	struct changes changes;
	void *handle;

	if (!module_find(address, &caller, &changes))
		return standard;
	if (is_us(&caller))
		return entered ? entered : standard;
	handle = module_open(&caller);
	origin = handle ? target_origin(handle, &caller) : NULL;
	if (!origin || origin == origin_built_in() || origin->for_later) {
		last.start = caller.start;
		last.end = caller.end;
		last.changes = changes;
		last.origin = origin;
		if (handle)
			dlclose(handle);
	} else if (!site_with(address)) {
		site_push(&caller, origin); /* the handle stays open and keeps the caller loaded */
	}
	return origin ? origin : standard;
}

void origin_front_come(struct origin_front *front)
{
	front->other = atomic_load_explicit(&fronts, memory_order_relaxed);
	atomic_store_explicit(&fronts, front, memory_order_release);
}

void origin_front_go(struct origin_front *front)
{
	struct origin_front *before = atomic_load_explicit(&fronts, memory_order_relaxed);

	if (before == front) {
		atomic_store_explicit(&fronts, front->other, memory_order_release);
		return;
	}
	while (before && before->other != front)
		before = before->other;
	if (before)
		before->other = front->other;
}

bool origin_has_front(void)
{
	return atomic_load_explicit(&fronts, memory_order_acquire) != NULL;
}

const struct origin *origin_enter(const struct origin *origin)
{
	entered = origin;
	entered_depth++;
	return origin;
}

int origin_leave(int rc)
{
	if (--entered_depth == 0)
		entered = NULL;
	return rc;
}

const struct origin *origin_of_call(const struct origin_front *called, const void *caller)
{
	const struct site *site = site_with(caller);

	if (site)
		return site->origin;
	if (!is_last(caller))
		return origin_search(called, caller);
	return last.origin ? last.origin : called ? front_origin(called) : origin_built_in();
}

const struct origin *origin_of(const void *caller)
{
	return origin_of_call(NULL, caller);
}
