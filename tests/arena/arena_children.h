/* SPDX-License-Identifier: OLDAP-2.8 */
/* The child processes of the arena's tests and what they share. */
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

/* In a child: ends it with failure. */
#define check(condition) child_check(condition, #condition, __FILE__, __LINE__)
void child_check(bool is_true, const char *text, const char *file, int line);

struct control *child_control(void); /* zeroed; one for the whole program */

/* A child that does `work` and ends with 0; it is killed when the test program ends. */
pid_t child_start(struct control *control, child_work *work, unsigned number);
/* The same from within a child; it outlives that child. */
pid_t child_start_in_child(struct control *control, child_work *work, unsigned number);

/* A child that does `work` as the parent of workers whose bytes stay, and has ended; as child_wait(). */
int child_run_parent(struct control *control, child_work *work, unsigned number);

int child_wait(pid_t pid);          /* 0, a signal's number, or 256 + exit code */
void child_wait_stopped(pid_t pid);
bool child_has_ended(pid_t pid);    /* killed, as it should; another end counts as failed */
void child_kill(pid_t pid);
unsigned child_failures(void);      /* waits for all that are left */
bool child_reap(void);              /* whether one has failed by now */

/* Becomes a user without privileges; whether it was not one. */
bool child_be_nobody(void);

void child_barrier(struct control *control, unsigned count);
struct arena *child_open(const struct dataset *dataset, uint64_t budget_chunks);
/* An arena that no process is attached to, for the names of its key; malloc'ed. */
struct arena *child_key(const struct dataset *dataset, uint64_t budget_chunks);
/* Opens at the same time as so many others, all of which are to be in one arena; its number is left
 * in the inodes. */
void child_meet(struct control *control, unsigned number, unsigned together,
		const struct dataset *dataset, uint64_t budget_chunks);
void child_reader(struct reader *reader, struct arena *arena, const struct dataset *dataset,
		  struct control *control);

/* From now on this process kills (stops) itself at that step, after passing it so many times. */
void child_die_at(const char *step, unsigned passes);
void child_stop_at(const char *step);
/* At every fourth step or so it lets others run, so that they meet in the middle of things. */
void child_yield_at_steps(void);

bool arena_pinned_by(const struct arena *arena, uint64_t chunk); /* this attachment */

#endif
