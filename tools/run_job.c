/* What only this file knows: how a program becomes one rank of a job whose MPI it never sees. */
#include "config.h"
#include "launcher.h"
#include "run_job.h"

#include "mpi/mpi_module.h"
#include "tool_place.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_OURS = 2, EXIT_SIGNAL = 128, NAME = 512 };

struct program {
	pid_t pid;
	int pipe;    /* what the program waits for: the node's name, or the end */
	int signals; /* signalfd */
	bool over;
	int status;
};

/* Signals that somebody sends to the job and means the program. Those of the terminal's job control
 * that nobody blocks (SIGTTIN, SIGTTOU) stop both processes as they are. */
static const int passed[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
			     SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGALRM};

static void signals_block(sigset_t *set, sigset_t *before)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
		sigaddset(set, passed[i]);
	sigprocmask(SIG_BLOCK, set, before);
}

/* --- the program ----------------------------------------------------------------------------- */

static void program_wait(int from, const sigset_t *mask, int (*start)(void *), void *context)
{
	char node[NAME] = "";
	size_t length = 0;
	ssize_t n;

	while ((n = read(from, node + length, sizeof(node) - 1 - length)) > 0 ||
	       (n < 0 && errno == EINTR))
		length += n > 0 ? (size_t)n : 0;
	close(from);
	if (!length)
		_exit(EXIT_OURS);
	launcher_forget();
	if (*node && setenv("LMDBIO_NODE", node, 1))
		_exit(EXIT_OURS);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(start(context));
}

/* This process has the streams only so that the program can: who writes to the program's input must
 * see it end. */
static void streams_leave(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (nothing < 0)
		return;
	fflush(stdout);
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	if (nothing > STDERR_FILENO)
		close(nothing);
}

static int program_fork(struct program *program, int (*start)(void *), void *context)
{
	sigset_t set, before;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	signals_block(&set, &before);
	program->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	program->pid = program->signals < 0 ? -1 : fork();
	if (program->pid < 0) {
		int rc = errno;

		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	if (!program->pid) {
		close(ends[1]);
		program_wait(ends[0], &before, start, context);
	}
	close(ends[0]);
	program->pipe = ends[1];
	streams_leave();
	return 0;
}

/* Tells the program to begin on that node, or (NULL) not at all. */
static void program_release(struct program *program, const char *node)
{
	if (node)
		(void)!write(program->pipe, node, strlen(node) + 1);
	close(program->pipe);
}

static void program_look(struct program *program)
{
	int status;
	pid_t pid;

	do {
		pid = waitpid(program->pid, &status, WNOHANG);
	} while (pid < 0 && errno == EINTR);
	if (!pid)
		return;
	program->over = true;
	program->status = pid < 0             ? EXIT_OURS
			  : WIFEXITED(status) ? WEXITSTATUS(status)
					      : EXIT_SIGNAL + WTERMSIG(status);
}

/* What the terminal has sent reached the program too, which is of the same process group. */
static void signal_pass(struct program *program, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	sigset_t stop;

	if (info->ssi_code <= 0)
		kill(program->pid, number);
	if (number != SIGTSTP)
		return;
	/* Who waits for this process sees the job stop; where nobody does, in an orphaned process
	 * group, the kernel stops neither it nor the program. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	raise(SIGTSTP);
	sigprocmask(SIG_BLOCK, &stop, NULL);
}

/* struct mpi_work's look: whether the program is over. */
static bool program_is_over(void *context)
{
	struct program *program = context;
	struct signalfd_siginfo info;

	while (read(program->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo != SIGCHLD && !program->over)
			signal_pass(program, &info);
	if (!program->over)
		program_look(program);
	return program->over;
}

/* --- the job --------------------------------------------------------------------------------- */

int run_job(int (*start)(void *context), void *context)
{
	struct program program = {.status = EXIT_OURS};
	const struct mpi_module *module;
	struct mpi_work work = {.look = program_is_over, .context = &program};
	struct mpi_place at;
	int rc = program_fork(&program, start, context);

	if (rc) {
		fprintf(stderr, "lmdbio-run: %s\n", strerror(rc));
		return EXIT_OURS;
	}
	module = tool_place_module("lmdbio-run");
	rc = module ? module->begin(false, &at) : 0;
	if (!module || rc) {
		if (rc)
			fprintf(stderr, "lmdbio-run: MPI does not start: %s\n", strerror(rc));
		program_release(&program, NULL);
		return EXIT_OURS;
	}
	work.fd = program.signals;
	rc = module->serve_begin(&work);
	if (rc && rc != EADDRINUSE) /* the programs read for themselves then */
		fprintf(stderr, "lmdbio-run: the node is not served: %s\n", strerror(rc));
	program_release(&program, work.node ? work.node : "");
	module->serve(&work);
	module->end();
	return program.status;
}
