/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out from Linux how much memory a process may use.
 *
 *   /proc/meminfo           MemAvailable (Linux 3.14), MemTotal; KiB
 *   memory.max, memory.high           control groups, version 2: bytes or "max"
 *   memory.limit_in_bytes             version 1: bytes, about 2^63 for none
 *   memory.current, memory.usage_in_bytes      the group's memory, page cache included
 *   memory.stat             its parts; the kernel takes back those of files alone
 */
#include "util/memory.h"

#include "util/clock.h"
#include "util/group.h"
#include "util/log.h"
#include "util/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* No machine has so much memory; version 1's number for no limit is a page less than 2^63. */
static const uint64_t NO_LIMIT = 1ull << 60;

enum { MIB = 1 << 20, DEFAULT_PART = 4, DEFAULT_LEAST = 16 * MIB, KEPT_NS = 100000000 };

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the number in a file; UINT64_MAX for "max" and for a missing file. */
static uint64_t limit_read(const char *root, const char *directory, const char *name)
{
	FILE *file = group_file(root, directory, name);
	char line[64], *end;
	unsigned long long value = UINT64_MAX;

	if (!file)
		return UINT64_MAX;
	if (fgets(line, sizeof(line), file) && *line >= '0' && *line <= '9') {
		errno = 0;
		value = strtoull(line, &end, 10);
		if (errno || (*end && *end != '\n'))
			value = UINT64_MAX;
	}
	fclose(file);
	return value;
}

/* Returns the memory available now, in bytes; if that is unknown, all memory. */
static uint64_t machine_memory(const char *root)
{
	FILE *file = group_file(root, "/proc", "meminfo");
	uint64_t total = 0, available = 0, value;
	char line[256], name[32];
	long pages;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31[^:]: %" SCNu64 " kB", name, &value) != 2)
			continue;
		if (!strcmp(name, "MemTotal"))
			total = value * 1024;
		else if (!strcmp(name, "MemAvailable"))
			available = value * 1024;
	}
	if (file)
		fclose(file);
	if (available || total)
		return available ? available : total;
	pages = sysconf(_SC_PHYS_PAGES);
	return pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : UINT64_MAX;
}

/* Whether the kernel reclaims that memory when it is needed; shared memory is no file. */
static bool is_reclaimed(const char *name, bool v2)
{
	static const char *const names[2][3] = {
		{"total_inactive_file", "total_active_file", ""},
		{"inactive_file", "active_file", "slab_reclaimable"},
	};

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[v2][i]))
			return true;
	return false;
}

/* Returns the bytes that a group has and the kernel cannot reclaim. */
static uint64_t group_used(const char *root, const char *directory, bool v2)
{
	uint64_t used =
		limit_read(root, directory, v2 ? "memory.current" : "memory.usage_in_bytes");
	FILE *file = group_file(root, directory, "memory.stat");
	uint64_t value, back = 0;
	char name[64];

	while (file && fscanf(file, "%63s %" SCNu64, name, &value) == 2)
		if (is_reclaimed(name, v2))
			back += value;
	if (file)
		fclose(file);
	return used == UINT64_MAX || back > used ? 0 : used - back;
}

/* Returns how many bytes are left of a group's limit. */
static uint64_t group_memory(const char *root, const char *directory, bool v2)
{
	uint64_t limit = limit_read(root, directory, v2 ? "memory.max" : "memory.limit_in_bytes");
	uint64_t used;

	if (v2)
		limit = smaller(limit, limit_read(root, directory, "memory.high"));
	if (limit >= NO_LIMIT)
		return UINT64_MAX; /* without adding up the group's memory, which takes 50 us */
	used = group_used(root, directory, v2);
	return limit > used ? limit - used : 0;
}

static uint64_t memory_find(const char *root)
{
	return smaller(machine_memory(root), group_limit(root, "memory", group_memory));
}

/* Keeps the result for 0.1 s. The kernel writes a dozen files for it, which takes 150 us where much
 * is mounted: too much for each environment that a program opens one after another. */
uint64_t memory_allowed(const char *root)
{
	static _Atomic uint64_t kept, kept_until;
	uint64_t now = clock_now(), allowed;

	if (*root)
		return memory_find(root);
	if (now < atomic_load(&kept_until))
		return atomic_load(&kept);
	allowed = memory_find(root);
	atomic_store(&kept, allowed);
	atomic_store(&kept_until, now + KEPT_NS);
	return allowed;
}

uint64_t memory_budget_of(uint64_t allowed, const struct settings *settings, bool *cut)
{
	const struct settings_memory *memory = &settings->memory;
	bool asked = memory->bytes || memory->percent;
	uint64_t most = allowed / 4 * 3, budget;

	if (memory->percent)
		budget = allowed / 100 * memory->percent;
	else if (memory->bytes)
		budget = memory->bytes;
	else
		budget = allowed / DEFAULT_PART;
	if (!asked && budget < DEFAULT_LEAST)
		budget = DEFAULT_LEAST;
	*cut = asked && budget > most;
	budget = smaller(budget, most);
	return budget < SETTINGS_MEMORY_LEAST ? SETTINGS_MEMORY_LEAST : budget;
}

uint64_t memory_budget(const struct settings *settings)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	uint64_t allowed = memory_allowed("");
	bool cut;
	uint64_t budget = memory_budget_of(allowed, settings, &cut);

	if (cut && !atomic_flag_test_and_set(&said))
		log_line("LMDBIO_MEMORY: more than three quarters of the %" PRIu64 " MiB that are "
			 "allowed here, %" PRIu64 " MiB are used",
			 allowed / MIB, budget / MIB);
	stats_budget(budget);
	return budget;
}
