/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts and ends the processes that compete with a measured one for the processors. */
#include "bench_busy.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void busy_loop(pid_t parent)
{
	volatile uint64_t n = 0;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(1);
	for (;;)
		n++;
}

int busy_start(struct busy *busy, unsigned n)
{
	pid_t parent = getpid();

	fflush(NULL);
	for (busy->n = 0; busy->n < n && busy->n < BUSY_MAX; busy->n++) {
		pid_t pid = fork();

		if (pid == 0)
			busy_loop(parent);
		if (pid < 0)
			return errno;
		busy->pids[busy->n] = pid;
	}
	return 0;
}

void busy_stop(struct busy *busy)
{
	for (unsigned i = 0; i < busy->n; i++)
		kill(busy->pids[i], SIGKILL);
	for (unsigned i = 0; i < busy->n; i++)
		while (waitpid(busy->pids[i], NULL, 0) < 0 && errno == EINTR)
			;
	busy->n = 0;
}
