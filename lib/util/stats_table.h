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

/* The owner word of a process; 0: there is no such process. Without /proc the start time is 0.
 * Threads: any; a forked child of threads may call it, too. */
uint64_t stats_owner_of(pid_t pid);

/* Whether that very process lives. Threads: any. */
bool stats_owner_lives(uint64_t owner);

/* A table of this process's own. Returns 0 or an errno. To be closed. */
int stats_table_make(struct stats_table *table);

/* How another process of this user joins it: "PID/FD/INODE", in LMDBIO_STATS_AT. */
enum { STATS_WHERE = 64 };
void stats_table_where(const struct stats_table *table, char where[STATS_WHERE]);

/* Joins the table of a process that lives. Returns 0; ENOENT: it is not there, or another user's;
 * EPROTO: another version's; or another errno. To be closed. */
int stats_table_join(struct stats_table *table, const char *where);

/* Unmaps it and closes the descriptor if it still is the table's. */
void stats_table_close(struct stats_table *table);

/* A slot for the process `owner`, with nothing in it but that word, base[] and the past: of the first
 * STATS_KEPT processes one each, then a dead one's if one is found. NULL: all belong to processes that
 * live. */
struct stats_slot *stats_table_take(struct stats_table *table, uint64_t owner);

/* Adds up all processes of a table, the dead ones with the living; or one slot's process alone. */
void stats_sum_table(const struct stats_table *table, struct stats_sum *sum);
void stats_sum_slot(const struct stats_slot *slot, bool lives, struct stats_sum *sum);

/* Notes for each process of the table that lives that it does, and what the kernel has read for it:
 * for those that will be killed. */
void stats_table_look(const struct stats_table *table);

/* What a process is, as of now. */
struct stats_process {
	uint64_t owner, kind;
	uint64_t opened_ns, seen_ns, ended_ns;
	uint64_t budget, environments, queue, waiters;
	bool lives;
	char program[STATS_PROGRAM];
	uint64_t counters[STATS_COUNT]; /* the process's own, from 0 */
};

/* The processes of this user on this node that have opened an environment, in no order: those that
 * live, and the dead of tables that a living process has. Processes of another version of lmdbio
 * are counted in *others and left out. Returns how many there are; the first `most` are in rows. It
 * reads /proc each time: a few milliseconds. Threads: any. */
size_t stats_node_read(struct stats_process *rows, size_t most, unsigned *others);

#endif
