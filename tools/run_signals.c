/* SPDX-License-Identifier: OLDAP-2.8 */
/* Passes signals on, and stops and continues with a program. */
#include "config.h"
#include "run_signals.h"

#include "run_witness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* Not those of faults, which mean the process that has them, nor SIGPIPE and SIGXFSZ, which a write
 * of this process may raise. */
void run_signals_passed(sigset_t *set)
{
	static const int passed[] = {SIGHUP,  SIGINT,  SIGQUIT,   SIGTERM, SIGUSR1,
				     SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGWINCH,
				     SIGURG,  SIGIO,   SIGPWR,    SIGABRT, SIGXCPU};
	struct sigaction now;

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaddset(set, passed[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		if (!sigaction(number, NULL, &now) && now.sa_handler == SIG_DFL)
			sigaddset(set, number);
}

static struct {
	sigset_t blocked;
	struct sigaction child; /* of SIGCHLD */
} before;

/* Saves the signal state. A process that inherited SIGCHLD as ignored or blocked does not learn of
 * a child's end. */
static void before_keep(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_UNBLOCK, &child, &before.blocked);
	sigaction(SIGCHLD, &usual, &before.child);
}

void run_signals_give_back(void)
{
	sigaction(SIGCHLD, &before.child, NULL);
	sigprocmask(SIG_SETMASK, &before.blocked, NULL);
}

int run_signals_take(void)
{
	sigset_t set;

	before_keep();
	run_signals_passed(&set);
	/* The terminal's SIGTTIN and SIGTTOU, which no program blocks, stop both processes without
	 * help. */
	sigaddset(&set, SIGTSTP);
	sigaddset(&set, SIGCONT);
	run_witness_begin(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void run_signals_leave(void)
{
	run_witness_end();
}

void run_signals_witness(const sigset_t *set)
{
	before_keep();
	run_witness_begin(set);
}

static int caught[2] = {-1, -1}; /* a pipe of struct signalfd_siginfo */

static void signal_write(int number, siginfo_t *info, void *context)
{
	struct signalfd_siginfo told = {.ssi_signo = (uint32_t)number,
					.ssi_code = info->si_code,
					.ssi_ptr = (uintptr_t)info->si_ptr};
	int error = errno;

	(void)context;
	(void)!write(caught[1], &told, sizeof(told));
	errno = error;
}

int run_signals_catch(const sigset_t *set)
{
	struct sigaction action = {.sa_sigaction = signal_write, .sa_flags = SA_SIGINFO | SA_RESTART},
			 now;

	if (pipe2(caught, O_CLOEXEC | O_NONBLOCK))
		return -1;
	for (int number = 1; number <= SIGRTMAX; number++)
		if (sigismember(set, number) > 0 && !sigaction(number, NULL, &now) &&
		    now.sa_handler != SIG_IGN)
			sigaction(number, &action, NULL);
	return caught[0];
}

/* Returns whether this process alone got the signal, if there is no witness. The terminal's signals
 * reached the program too, except a hangup: only the leader of its session gets that. */
static bool is_ours_alone(const struct signalfd_siginfo *info)
{
	bool there, all = run_witness_has((int)info->ssi_signo, &there);

	if (there)
		return !all;
	return info->ssi_code <= 0 || (info->ssi_signo == SIGHUP && getsid(0) == getpid());
}

/* Returns whether a later signal is pending that revokes this one: in the kernel, a stop signal
 * discards a pending SIGCONT, and the reverse. It has then discarded the witness's as well, if a
 * busy machine kept the witness from reporting it. */
static bool is_revoked(int number)
{
	sigset_t pending;

	sigpending(&pending);
	return (number == SIGCONT && sigismember(&pending, SIGTSTP)) ||
	       (number == SIGTSTP && sigismember(&pending, SIGCONT));
}

void run_signal_pass(pid_t program, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;

	union sigval value = {.sival_ptr = (void *)(uintptr_t)info->ssi_ptr};

	if ((!is_ours_alone(info) && getpgid(program) == getpgrp()) || is_revoked(number))
		return;
	if (info->ssi_code == SI_QUEUE)
		sigqueue(program, number, value);
	else
		kill(program, number);
}

void run_signals_each(int signals, void (*take)(void *context, const struct signalfd_siginfo *info),
		      void *context)
{
	struct signalfd_siginfo info;

	run_witness_hear();
	while (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		take(context, &info);
		if (info.ssi_signo == SIGCONT)
			run_witness_continue();
	}
	run_witness_settle();
}

void run_signals_wait(int signals, int ms)
{
	struct pollfd ready[] = {{.fd = signals, .events = POLLIN},
				 {.fd = run_witness_words(), .events = POLLIN}};

	(void)poll(ready, sizeof(ready) / sizeof(*ready), ms);
}

static void signal_take(void *program, const struct signalfd_siginfo *info)
{
	if (info->ssi_signo != SIGCHLD)
		run_signal_pass(*(pid_t *)program, info);
}

bool run_signals_step(int signals, pid_t program, int *ended)
{
	int status;
	pid_t pid;

	run_signals_each(signals, signal_take, &program);
	while ((pid = waitpid(program, &status, WNOHANG | WUNTRACED)) > 0) {
		if (WIFSTOPPED(status)) {
			if (WSTOPSIG(status) == SIGTSTP)
				run_signal_stop();
			continue;
		}
		*ended = run_signal_status(status);
		return true;
	}
	return pid < 0 && errno == ECHILD;
}

/* Stops this process. The shell, which waits for it, must see the job stop, and not before the
 * program has: the program could still read what is typed for the shell. If the program ignores the
 * signal or ends by it, nothing stops. In an orphaned process group the kernel stops neither of the
 * two. */
void run_signal_stop(void)
{
	sigset_t stop;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	/* Raised before it is unblocked, so that it merges with the terminal's, which may be
	 * pending: otherwise this process would stop once more after the shell has continued the
	 * job. */
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

int run_signal_status(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
}
