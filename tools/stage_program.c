/* SPDX-License-Identifier: OLDAP-2.8 */
/* Forks the child that waits to become the program, and tells it the variable for its start. */
#include "config.h"
#include "launcher.h"
#include "program_start.h"
#include "run_signals.h"
#include "stage_program.h"
#include "tool_common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes `set` the signals to pass on to the program, and SIGCHLD. The terminal's stops reach this
 * process directly. */
static void signals_fill(sigset_t *set)
{
	run_signals_passed(set);
	sigaddset(set, SIGCONT);
	sigaddset(set, SIGCHLD);
}

int stage_program_become(void *arguments)
{
	return program_become("lmdbio-stage", arguments);
}

/* Gives the caught signals back to the program. Until its exec they would go to this command's
 * handlers, and be lost. */
static void signals_give_back(const sigset_t *signals)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	struct sigaction now;

	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigismember(signals, number) > 0 && !sigaction(number, NULL, &now) &&
		    now.sa_handler != SIG_IGN)
			sigaction(number, &usual, NULL);
	run_signals_give_back();
}

/* Waits in the child, with the signals blocked. "NAME=VALUE" and end of file mean "begin"; end of
 * file alone means "do not". */
static void child(int from, char **arguments, const sigset_t *signals)
{
	static char told[PATH_MAX + 64];
	const char *value;
	size_t length = 0;
	ssize_t n;

	while (length < sizeof(told) - 1 &&
	       ((n = read(from, told + length, sizeof(told) - 1 - length)) > 0 ||
		(n < 0 && errno == EINTR)))
		length += n > 0 ? (size_t)n : 0;
	if (!length)
		_exit(TOOL_FAILED);
	launcher_forget();
	signals_give_back(signals);
	value = strchr(told, '=');
	if (!value || (value[1] && putenv(told)))
		_exit(TOOL_FAILED);
	_exit(stage_program_become(arguments));
}

int stage_program_fork(struct stage_program *program, char **arguments)
{
	sigset_t signals, before;
	int ends[2];

	signals_fill(&signals);
	run_signals_witness(&signals); /* first: the program waits for the end of the pipe */
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	sigprocmask(SIG_BLOCK, &signals, &before);
	program->pid = fork();
	if (!program->pid) {
		close(ends[1]);
		child(ends[0], arguments, &signals);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	close(ends[0]);
	program->pipe = ends[1];
	return program->pid < 0 ? errno : 0;
}

int stage_program_run(struct stage_program *program, const char *variable, const char *value)
{
	int status = TOOL_FAILED, caught;
	sigset_t signals;

	signals_fill(&signals);
	caught = run_signals_catch(&signals);
	if (caught < 0 || tool_signal) { /* came after the ranks had agreed that there was none */
		stage_program_drop(program);
		return tool_signal ? tool_signal_status() : TOOL_FAILED;
	}
	/* If the child is gone already, run_signals_step() below returns its status. */
	(void)dprintf(program->pipe, "%s=%s", variable, value);
	close(program->pipe);
	while (!run_signals_step(caught, program->pid, &status))
		run_signals_wait(caught, -1);
	run_signals_leave();
	return status;
}

void stage_program_drop(struct stage_program *program)
{
	if (!program->pid)
		return;
	close(program->pipe);
	(void)waitpid(program->pid, NULL, 0);
	run_signals_leave();
}
