/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes, joins and reads tables of counters (stats_layout.h).
 *
 * Only memory of this user is joined or read: a table is a memfd that belongs to this user, is open
 * to no other (mode 0600, which counts when it is opened by way of /proc), cannot change its length
 * (sealed), and has the version and the sizes of this build.
 */
#ifndef LMDBIO_UTIL_STATS_TABLE_H
#define LMDBIO_UTIL_STATS_TABLE_H

#include "util/stats_layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct stats_table {
	struct stats_head *head; /* NULL: there is none */
	struct stats_slot *slots;
	int fd; /* the program may close it and open another file by its number */
	uint64_t device, inode;
};

/* Returns the owner word of a process; 0: there is no such process. Without /proc the start time is
 * 0. Threads: any; a forked child of threads may call it, too. */
uint64_t stats_owner_of(pid_t pid);

/* Whether the process of an owner word lives. Threads: any. */
bool stats_owner_lives(uint64_t owner);

/* Makes a table of this process's own. Returns 0 or an errno. To be closed. */
int stats_table_make(struct stats_table *table);

/* Writes where another process of this user finds the table: "PID/FD/INODE", in LMDBIO_STATS_AT. */
enum { STATS_WHERE = 64 };
void stats_table_where(const struct stats_table *table, char where[STATS_WHERE]);

/* Joins the table of a living process. Returns 0; ENOENT: there is no table, or it is another
 * user's; EPROTO: it is of another version; or another errno. To be closed. */
int stats_table_join(struct stats_table *table, const char *where);

/* Unmaps a table and closes its descriptor if that still is the table's. */
void stats_table_close(struct stats_table *table);

/* Takes a slot for the process `owner`, empty but for that word, base[] and the past. The first
 * STATS_KEPT processes get a new slot each, later ones a dead process's slot if one is found.
 * Returns NULL if all slots belong to living processes. */
struct stats_slot *stats_table_take(struct stats_table *table, uint64_t owner);

/* Adds up all processes of a table, the dead ones with the living; or one slot's process alone. */
void stats_sum_table(const struct stats_table *table, struct stats_sum *sum);
void stats_sum_slot(const struct stats_slot *slot, bool lives, struct stats_sum *sum);

/* Records for each living process of the table that it lives, and what the kernel has read for it,
 * in case the process is killed. */
void stats_table_look(const struct stats_table *table);

/* The state of a process now. */
struct stats_process {
	uint64_t owner, kind;
	uint64_t opened_ns, seen_ns, ended_ns;
	uint64_t budget, environments, queue, waiters;
	bool lives;
	char program[STATS_PROGRAM];
	uint64_t counters[STATS_COUNT]; /* the process's own, from 0 */
};

/* Lists the processes of this user on this node that have opened an environment, in no order:
 * living ones, and dead ones of tables that a living process has. Processes of another version of
 * lmdbio are counted in *others and left out. Returns how many there are; the first `most` are in
 * rows. Reads /proc each time: a few milliseconds. Threads: any. */
size_t stats_node_read(struct stats_process *rows, size_t most, unsigned *others);

#endif
