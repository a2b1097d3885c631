/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs workers that a program starts and that read a data set to its end, and finds the files that
 * the program gets by that. */
#include "arena_workers.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

struct dataset worker_data;

struct arena_options worker_options(bool share)
{
	return (struct arena_options){
		.budget = WORKER_BUDGET * ARENA_CHUNK, .share = share, .node = test_node()};
}

void worker_read_all(struct control *control, struct arena *arena)
{
	struct reader reader;

	child_reader(&reader, arena, &worker_data, control);
	reader.patience = 20000; /* ms; no reader goes on without the arena */
	for (uint64_t chunk = 0; chunk < WORKER_CHUNKS; chunk++)
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	reader_end(&reader);
}

void worker_run(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&worker_data, WORKER_BUDGET);

	control->inodes[number] = arena_inode(arena);
	worker_read_all(control, arena);
	if (number % 2)
		kill(getpid(), SIGKILL);
	arena_close(arena);
}

void worker_run_once(struct control *control, unsigned number)
{
	check(child_wait(child_start(control, worker_run, number)) == (number % 2 ? SIGKILL : 0));
}

uint64_t worker_reads(struct control *control)
{
	uint64_t before = atomic_load(&control->reads);

	worker_run_once(control, 0);
	return atomic_load(&control->reads) - before;
}

unsigned worker_sockets(int *fds, uint64_t *inodes, unsigned most)
{
	unsigned count = 0;
	struct stat st;

	for (int fd = 3; fd < WORKER_DESCRIPTORS && count < most; fd++)
		if (!fstat(fd, &st) && S_ISSOCK(st.st_mode)) {
			fds[count] = fd;
			inodes[count++] = st.st_ino;
		}
	return count;
}

void worker_come_and_go(struct control *control, unsigned number)
{
	(void)number;
	for (unsigned epoch = 0; epoch < 3; epoch++) {
		pid_t one = child_start(control, worker_run, 2 * epoch);
		pid_t two = child_start(control, worker_run, 2 * epoch + 1);

		check(!child_wait(one) && child_wait(two) == SIGKILL);
		check(!holders_left(control->inodes[0])); /* no process has the arena now */
		check(control->inodes[2 * epoch] == control->inodes[0]);
		check(control->inodes[2 * epoch + 1] == control->inodes[0]);
	}
}

void worker_do_nothing(struct control *control, unsigned number)
{
	(void)control;
	(void)number;
}

int worker_next_file(void **state)
{
	(void)state;
	worker_data.identity.snapshot += 2;
	return 0;
}
