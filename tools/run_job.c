/* What only this file knows: how a program becomes one rank of a job whose MPI it never sees. */
#include "config.h"
#include "launcher.h"
#include "run_job.h"

#include "tool_place.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_OURS = 2, EXIT_SIGNAL = 128, TOLD = 512 + PATH_MAX };

struct program {
	pid_t pid; /* 0: there is none */
	int pipe;  /* what the program waits for: what its node has in its variables, or the end */
	int signals; /* signalfd */
	bool begun;  /* it has been told; until then signals are for us */
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

/* The node's name and its LMDBIO_STAGED, each with its final 0: begin; the end alone: do not. */
static void program_wait(int from, const sigset_t *mask, const struct run_job *job)
{
	static char told[TOLD];
	const char *staged;
	size_t length = 0;
	ssize_t n;

	while ((n = read(from, told + length, sizeof(told) - 1 - length)) > 0 ||
	       (n < 0 && errno == EINTR))
		length += n > 0 ? (size_t)n : 0;
	close(from);
	if (!length)
		_exit(EXIT_OURS);
	launcher_forget();
	staged = told + strlen(told) + 1;
	if ((*told && setenv("LMDBIO_NODE", told, 1)) ||
	    (*staged && setenv("LMDBIO_STAGED", staged, 1)))
		_exit(EXIT_OURS);
	sigprocmask(SIG_SETMASK, mask, NULL);
	_exit(job->start(job->context));
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

static int program_fork(struct program *program, const struct run_job *job)
{
	sigset_t set, before;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	signals_block(&set, &before);
	program->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	program->pipe = ends[1];
	program->pid = program->signals < 0 ? -1 : job->start ? fork() : 0;
	if (program->pid < 0) {
		int rc = errno;

		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	if (!program->pid && job->start) {
		close(ends[1]);
		program_wait(ends[0], &before, job);
	}
	close(ends[0]);
	return 0;
}

/* Tells the program to begin, or (no node) that it will not. */
static void program_release(struct program *program, const char *node, const char *staged)
{
	struct iovec told[] = {{.iov_base = (void *)(uintptr_t)node},
			       {.iov_base = (void *)(uintptr_t)staged}};

	program->begun = node != NULL;
	if (program->begun && program->pid) {
		streams_leave();
		told[0].iov_len = strlen(node) + 1;
		told[1].iov_len = strlen(staged) + 1;
		(void)!writev(program->pipe, told, 2);
	}
	close(program->pipe);
	if (!program->begun && program->pid)
		(void)waitpid(program->pid, NULL, 0);
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

/* Before the program has begun: its process has them all blocked, so the kernel keeps for it what
 * it is sent. */
static void signal_keep(struct program *program, int number)
{
	if (number == SIGINT || number == SIGTERM || number == SIGHUP) {
		program->over = true;
		program->status = EXIT_SIGNAL + number;
	} else if (program->pid && (number == SIGUSR1 || number == SIGUSR2 || number == SIGALRM)) {
		kill(program->pid, number);
	}
}

/* What the terminal has sent reached the program too, which is of the same process group; but that
 * there is no terminal any more, the leader of its session alone is told. */
static bool is_ours_alone(const struct signalfd_siginfo *info)
{
	return info->ssi_code <= 0 || (info->ssi_signo == SIGHUP && getsid(0) == getpid());
}

static void signal_pass(struct program *program, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;
	sigset_t stop;

	if (!program->begun) {
		signal_keep(program, number);
		return;
	}
	if (!program->pid) { /* nobody is there to take it */
		program->over |= number == SIGINT || number == SIGTERM || number == SIGHUP;
		return;
	}
	if (is_ours_alone(info))
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
	if (!program->over && program->pid)
		program_look(program);
	return program->over;
}

/* --- the job --------------------------------------------------------------------------------- */

/* What all ranks do before a program begins: they bring what it must find. Returns whether that is
 * there, the same on all. */
static bool job_stage(const struct run_job *job, const struct mpi_module *module,
		      const struct mpi_work *work, const struct mpi_place *at)
{
	struct lmdbio_stage_report report = {.size = sizeof(report)};
	int rc = module->serve_fill(work, &report);

	job->tell(rc,
		  rc == EADDRINUSE ? "a node has a server already"
		  : rc == ENOSPC   ? "No space left in a node's memory budget"
				   : module->error_text(rc),
		  at, &report);
	return !rc;
}

int run_job(const struct run_job *job)
{
	struct program program = {.status = EXIT_OURS};
	const struct mpi_module *module;
	struct mpi_work work = {.look = program_is_over,
				.context = &program,
				.together = !job->start,
				.paths = job->paths,
				.fills = job->paths != NULL};
	const char *staged;
	struct mpi_place at;
	int rc = program_fork(&program, job);

	if (rc) {
		fprintf(stderr, "%s: %s\n", job->tool, strerror(rc));
		return EXIT_OURS;
	}
	module = tool_place_module(job->tool);
	rc = module ? module->begin(false, &at) : 0;
	if (!module || rc) {
		if (rc)
			fprintf(stderr, "%s: MPI does not start: %s\n", job->tool, strerror(rc));
		program_release(&program, NULL, NULL);
		return EXIT_OURS;
	}
	work.fd = program.signals;
	staged = tool_place_staged(&at);
	rc = module->serve_begin(&work);
	if (rc && rc != EADDRINUSE && !job->paths) /* the programs read for themselves then */
		fprintf(stderr, "%s: the node is not served: %s\n", job->tool, strerror(rc));
	if (!job->paths || job_stage(job, module, &work, &at)) {
		program_release(&program, work.node ? work.node : "", staged);
		program.over = !job->start && at.node_rank > 0; /* one a node is enough */
		program.status = job->start ? program.status : 0;
	} else {
		program_release(&program, NULL, NULL);
		program.over = true;
	}
	module->serve(&work);
	module->end();
	return program.status;
}
