/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the child processes of the arena's tests, and the memory that they share. */
#ifndef LMDBIO_TESTS_ARENA_CHILDREN_H
#define LMDBIO_TESTS_ARENA_CHILDREN_H

#include "arena_support.h"

#include <sched.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

enum { CHILDREN = 64 };

/* Memory that the test and its children share. */
struct control {
	_Atomic uint64_t reads, direct, wrong, uses, slowest;
	_Atomic unsigned arrived, stop;
	_Atomic unsigned waiting, passed; /* child_barrier() */
	uint64_t inodes[CHILDREN];
	pid_t pids[CHILDREN];
};

typedef void child_work(struct control *control, unsigned number);

/* In a child: ends the child with a failure if the condition is false. */
#define check(condition) child_check(condition, #condition, __FILE__, __LINE__)
void child_check(bool is_true, const char *text, const char *file, int line);

struct control *child_control(void); /* zeroed; one for the whole program */

/* Starts a child that does `work` and exits with 0; it is killed when the test program ends. */
pid_t child_start(struct control *control, child_work *work, unsigned number);
/* The same, called from a child; the new child outlives its parent. */
pid_t child_start_in_child(struct control *control, child_work *work, unsigned number);

/* Runs a child that does `work` as the parent of workers whose bytes stay, until it ends. Returns
 * what child_wait() does. */
int child_run_parent(struct control *control, child_work *work, unsigned number);

int child_wait(pid_t pid);          /* 0, a signal's number, or 256 + exit code */
void child_wait_stopped(pid_t pid);
bool child_has_ended(pid_t pid); /* true: killed, as intended; any other end counts as failed */
void child_kill(pid_t pid);
unsigned child_failures(void); /* waits for all remaining children */
bool child_reap(void);         /* returns whether a child has failed so far */

/* Becomes a user without privileges; returns whether the process had privileges before. */
bool child_be_nobody(void);

void child_barrier(struct control *control, unsigned count);
struct arena *child_open(const struct dataset *dataset, uint64_t budget_chunks);
/* Returns an arena to which no process is attached, for the names of its key; malloc'ed. */
struct arena *child_key(const struct dataset *dataset, uint64_t budget_chunks);
/* Opens the arena as one of `together` processes at the same time, and asserts that all have the
 * same arena. Puts its inode into `inodes`. */
void child_meet(struct control *control, unsigned number, unsigned together,
		const struct dataset *dataset, uint64_t budget_chunks);
void child_reader(struct reader *reader, struct arena *arena, const struct dataset *dataset,
		  struct control *control);

/* Makes this process kill itself (child_stop_at(): stop itself) at that step, after passing it
 * `passes` times. */
void child_die_at(const char *step, unsigned passes);
void child_stop_at(const char *step);
/* Makes this process yield at about every fourth step, so that processes meet in the middle of
 * their work. */
void child_yield_at_steps(void);

bool arena_pinned_by(const struct arena *arena, uint64_t chunk); /* by this attachment */

#endif
