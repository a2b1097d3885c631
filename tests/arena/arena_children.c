/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts and watches the child processes of the arena's tests, and gives them shared memory. */
#include "arena_children.h"

#include "arena/arena_private.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static const char *fatal_step;
static unsigned fatal_passes;
static int fatal_signal;
static unsigned failures; /* of children that the test waited for one by one */

void child_check(bool is_true, const char *text, const char *file, int line)
{
	if (is_true)
		return;
	fprintf(stderr, "%s:%d: process %d: not so: %s\n", file, line, (int)getpid(), text);
	_exit(1);
}

struct control *child_control(void)
{
	static struct control *control;

	if (!control)
		control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (control == MAP_FAILED)
		err(1, "mmap");
	memset(control, 0, sizeof(*control));
	return control;
}

pid_t child_start_in_child(struct control *control, child_work *work, unsigned number)
{
	pid_t pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		work(control, number);
		_exit(0);
	}
	return pid;
}

pid_t child_start(struct control *control, child_work *work, unsigned number)
{
	pid_t parent = getpid(), pid = fork();

	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		work(control, number);
		_exit(0);
	}
	return pid;
}

static child_work *parent_work;

static void be_parent(struct control *control, unsigned number)
{
	arena_keeper_watch();
	parent_work(control, number);
}

int child_run_parent(struct control *control, child_work *work, unsigned number)
{
	parent_work = work;
	return child_wait(child_start(control, be_parent, number));
}

static int result_of(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	return WEXITSTATUS(status) ? 256 + WEXITSTATUS(status) : 0;
}

int child_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			err(1, "waitpid");
	return result_of(status);
}

void child_wait_stopped(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WUNTRACED) < 0 || !WIFSTOPPED(status))
		errx(1, "process %d did not stop", (int)pid);
}

bool child_has_ended(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, WNOHANG) <= 0)
		return false;
	if (result_of(status) != SIGKILL) {
		fprintf(stderr, "process %d: %d, not killed as it should be\n", (int)pid,
			result_of(status));
		failures++;
	}
	return true;
}

void child_kill(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGKILL);
	failures += child_wait(pid) != SIGKILL;
}

unsigned child_failures(void)
{
	unsigned failed = failures;
	int status;

	for (;;) {
		if (waitpid(-1, &status, 0) >= 0)
			failed += result_of(status) != 0;
		else if (errno == ECHILD)
			break;
	}
	failures = 0;
	return failed;
}

bool child_reap(void)
{
	int status;

	while (waitpid(-1, &status, WNOHANG) > 0)
		failures += result_of(status) != 0;
	return failures > 0;
}

bool child_be_nobody(void)
{
	enum { NOBODY = 65534 };

	if (geteuid())
		return false;
	check(!setresgid(NOBODY, NOBODY, NOBODY) && !setresuid(NOBODY, NOBODY, NOBODY));
	check(!prctl(PR_SET_DUMPABLE, 1)); /* otherwise /proc/self belongs to root */
	return true;
}

void child_barrier(struct control *control, unsigned count)
{
	unsigned round = atomic_load(&control->passed);

	if (atomic_fetch_add(&control->waiting, 1) + 1 == count) {
		atomic_store(&control->waiting, 0);
		atomic_fetch_add(&control->passed, 1);
		return;
	}
	while (atomic_load(&control->passed) == round)
		sched_yield();
}

struct arena *child_open(const struct dataset *dataset, uint64_t budget_chunks)
{
	struct arena_options options = {
		.budget = budget_chunks * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;
	int rc = arena_open(&arena, &dataset->identity, &options, &why);

	if (rc || why)
		fprintf(stderr, "arena_open: %s, %s\n", strerror(rc), why ? why : "shared");
	check(!rc && !why);
	return arena;
}

struct arena *child_key(const struct dataset *dataset, uint64_t budget_chunks)
{
	struct arena *arena = child_open(dataset, budget_chunks), *key = malloc(sizeof(*key));

	if (!key)
		err(1, "malloc");
	*key = *arena;
	arena_close(arena);
	return key;
}

void child_meet(struct control *control, unsigned number, unsigned together,
		const struct dataset *dataset, uint64_t budget_chunks)
{
	struct arena *arena;

	child_barrier(control, together);
	arena = child_open(dataset, budget_chunks);
	control->inodes[number] = arena_inode(arena);
	child_barrier(control, together);
	check(arena_members(arena) == together);
	child_barrier(control, together);
	arena_close(arena);
}

void child_reader(struct reader *reader, struct arena *arena, const struct dataset *dataset,
		  struct control *control)
{
	reader_begin(reader, arena, dataset);
	reader->reads = &control->reads;
	reader->direct = &control->direct;
	reader->wrong = &control->wrong;
}

static void signal_at_step(const char *step)
{
	if (strcmp(step, fatal_step))
		return;
	if (fatal_passes-- == 0) {
		step_taken = NULL;
		kill(getpid(), fatal_signal);
	}
}

void child_die_at(const char *step, unsigned passes)
{
	fatal_step = step;
	fatal_passes = passes;
	fatal_signal = SIGKILL;
	step_taken = signal_at_step;
}

void child_stop_at(const char *step)
{
	child_die_at(step, 0);
	fatal_signal = SIGSTOP;
}

static void yield_at_step(const char *step)
{
	static _Thread_local unsigned random;

	random = random * 1103515245 + 12345 + (unsigned char)*step;
	if (random >> 16 & 3)
		return;
	sched_yield();
}

void child_yield_at_steps(void)
{
	step_taken = yield_at_step;
}

bool arena_pinned_by(const struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_of(arena, chunk);

	return group && atomic_load(&group->pins[arena->row][chunk % ARENA_GROUP / 64]) >> chunk % 64 & 1;
}
