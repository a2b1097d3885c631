/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the counters of all processes of this user on this node.
 *
 * A table is found among the descriptors of a process that has it. A program that has closed the
 * descriptor is missed unless another process has the same table.
 */
#include "util/stats_private.h"

#include "util/kernel_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TABLES = 4096 };

struct table_search {
	struct stats_process *rows;
	size_t most, n;
	uint64_t *seen; /* inodes of tables; all memfds are of one file system */
	size_t seen_count;
	unsigned others;
};

/* Adds what the kernel has read for a living process until now. The map of the slot is
 * read-only. */
static void kernel_add(const struct stats_slot *slot, struct stats_process *row)
{
	uint64_t since = slot->kernel_since, bytes;

	if (since && disk_reads((pid_t)stats_owner_pid(row->owner), &bytes) && bytes + 1 > since &&
	    bytes + 1 - since > row->counters[STATS_STORAGE_BYTES])
		row->counters[STATS_STORAGE_BYTES] = bytes + 1 - since;
}

static void process_read(const struct stats_slot *slot, struct stats_process *row)
{
	*row = (struct stats_process){
		.owner = slot->owner,
		.kind = slot->kind,
		.opened_ns = slot->opened_ns,
		.seen_ns = slot->seen_ns,
		.ended_ns = slot->ended_ns,
		.budget = slot->budget,
		.environments = slot->environments,
		.queue = slot->queue,
		.waiters = slot->waiters,
	};
	row->lives = !row->ended_ns && stats_owner_lives(row->owner);
	memcpy(row->program, slot->program, sizeof(row->program) - 1);
	for (unsigned i = 0; i < STATS_COUNT; i++)
		row->counters[i] = stats_slot_value(slot, i);
	if (row->lives)
		kernel_add(slot, row);
}

static void table_read(const struct stats_table *table, struct table_search *search)
{
	unsigned n = stats_table_given(table);

	for (unsigned i = 0; i < n; i++) {
		if (!table->slots[i].opened_ns)
			continue;
		if (search->n < search->most)
			process_read(&table->slots[i], &search->rows[search->n]);
		search->n++;
	}
}

/* Whether this table was not seen before. */
static bool is_new(struct table_search *search, uint64_t inode)
{
	for (size_t i = 0; i < search->seen_count; i++)
		if (search->seen[i] == inode)
			return false;
	if (search->seen_count == TABLES)
		return false;
	search->seen[search->seen_count++] = inode;
	return true;
}

static void descriptor_look(struct table_search *search, int directory, const char *name)
{
	struct stats_table table;
	struct stat st;
	int rc;

	if (!stats_link_is_memfd(directory, name) || fstatat(directory, name, &st, 0) ||
	    !is_new(search, st.st_ino))
		return;
	rc = stats_table_open(&table, directory, name, false);
	search->others += rc == EPROTO;
	if (rc)
		return;
	table_read(&table, search);
	stats_table_close(&table);
}

static void descriptors_look(struct table_search *search, long pid)
{
	struct dirent *entry;
	DIR *directory;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/fd", pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			descriptor_look(search, dirfd(directory), entry->d_name);
	closedir(directory);
}

size_t stats_node_read(struct stats_process *rows, size_t most, unsigned *others)
{
	struct table_search search = {.rows = rows, .most = most};
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	struct stat st;

	search.seen = malloc(TABLES * sizeof(*search.seen));
	while (directory && search.seen && (entry = readdir(directory)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
		    !fstatat(dirfd(directory), entry->d_name, &st, 0) && st.st_uid == geteuid())
			descriptors_look(&search, atol(entry->d_name));
	if (directory)
		closedir(directory);
	free(search.seen);
	*others = search.others;
	return search.n;
}
