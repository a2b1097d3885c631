/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a program as one rank of a job whose MPI the program never sees. This process is the one
 * that the launcher waits for, between the program and the server. */
#include "config.h"
#include "launcher.h"
#include "run_count.h"
#include "run_job.h"
#include "run_server.h"
#include "run_signals.h"
#include "run_witness.h"
#include "tool_common.h"

#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TOLD = 512 + PATH_MAX };

/* Milliseconds after all programs are over, or after this one is over if MPI has not begun. Then
 * this process kills a server that has not ended MPI with the others, and tells the launcher of an
 * end in its place. No process is in a barrier of MPI's any more. */
enum { END_PATIENCE = 3000, LEAVE_PATIENCE = 4000 };

struct program {
	pid_t pid;   /* 0: no program */
	int talk;    /* socket: the program waits on it for its node's variables, or end of file */
	int signals; /* signalfd */
	bool begun;  /* the program was told to begin; until then signals are for this process */
	bool over;
	int status;
};

/* --- the program ----------------------------------------------------------------------------- */

/* Waits in the program's process. The node's name and its LMDBIO_STAGED, each with its final 0,
 * mean "begin"; end of file alone means "do not". */
static void program_wait(int from, const struct run_job *job)
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
		_exit(TOOL_FAILED);
	launcher_forget();
	staged = told + strlen(told) + 1;
	if ((*told && setenv("LMDBIO_NODE", told, 1)) ||
	    (*staged && setenv("LMDBIO_STAGED", staged, 1)))
		_exit(TOOL_FAILED);
	run_signals_give_back();
	_exit(job->start(job->context));
}

static int program_fork(struct program *program, const struct run_job *job)
{
	int ends[2];

	program->signals = run_signals_take();
	/* Not a pipe: writing to a pipe of a killed child raises SIGPIPE. */
	if (program->signals < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return errno;
	program->talk = ends[1];
	program->pid = job->start ? fork() : 0;
	if (program->pid < 0) {
		int rc = errno;

		close(ends[0]);
		close(ends[1]);
		return rc;
	}
	if (!program->pid && job->start) {
		close(ends[1]);
		program_wait(ends[0], job);
	}
	close(ends[0]);
	return 0;
}

/* Tells the program to begin, or (no node) that it will not begin. */
static void program_release(struct program *program, const char *node, const char *staged)
{
	struct iovec told[] = {{.iov_base = (void *)(uintptr_t)node},
			       {.iov_base = (void *)(uintptr_t)staged}};
	struct msghdr message = {.msg_iov = told, .msg_iovlen = 2};

	program->begun = node != NULL;
	if (program->begun && program->pid) {
		run_streams_leave();
		told[0].iov_len = strlen(node) + 1;
		told[1].iov_len = strlen(staged) + 1;
		(void)sendmsg(program->talk, &message, MSG_NOSIGNAL);
	}
	close(program->talk);
	if (!program->begun && program->pid)
		(void)waitpid(program->pid, NULL, 0);
}

static void program_end(struct program *program, int status)
{
	program->over = true;
	program->status = run_signal_status(status);
}

/* Whether a signal ends a job that has no program yet, or none at all. */
static bool is_ending(int number)
{
	return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGABRT ||
	       number == SIGXCPU;
}

/* Takes a signal before the program has begun. The program's process has all signals blocked, so
 * the kernel keeps them for it. */
static void signal_keep(struct program *program, int number)
{
	struct sigaction action;

	if (!sigaction(number, NULL, &action) && action.sa_handler == SIG_IGN)
		return; /* as under nohup */
	if (is_ending(number)) {
		program->over = true;
		program->status = EXIT_SIGNAL + number;
	} else if (program->pid && number != SIGQUIT && number != SIGWINCH && number != SIGTSTP) {
		kill(program->pid, number); /* SIGCONT too: its process may be stopped */
	}
}

static void signal_pass(struct program *program, const struct signalfd_siginfo *info)
{
	int number = (int)info->ssi_signo;

	if (!program->begun) {
		signal_keep(program, number);
		return;
	}
	if (!program->pid) { /* no process can take it */
		program->over |= is_ending(number);
		return;
	}
	run_signal_pass(program->pid, info);
}

/* --- the rank -------------------------------------------------------------------------------- */

/* How far the ranks have agreed that all programs are over. */
enum meeting {
	MEETING_NONE, /* not begun, or the servers tell the ranks */
	MEETING_COMING,
	MEETING_WAITING, /* this rank's program is over */
	MEETING_MET,
};

struct rank {
	const struct run_job *job;
	struct program program;
	pid_t server;
	int talk;          /* socket to the server; -1: the server says nothing more */
	bool server_over;  /* the server has ended */
	int server_status; /* its status, as from waitpid() */
	bool told_over;
	enum meeting meeting;
	uint64_t ended_at; /* ns: when all programs, or this one before MPI began, were over; 0:
			      not yet */
	int ranks;         /* of the job, once MPI has begun; until then 0 */
};

static void server_tell(struct rank *rank, enum run_word word)
{
	char byte = (char)word;

	if (rank->talk >= 0)
		(void)send(rank->talk, &byte, 1, MSG_NOSIGNAL);
}

/* Takes the server's news of how the start went. */
static void start_take(struct rank *rank, const struct run_news *news)
{
	const struct run_job *job = rank->job;

	if (job->paths)
		job->tell(news->rc, news->text, &news->place, &news->report);
	if (news->rc)
		return;
	if (job->start && news->pmi1 && launcher_descriptor() >= 0)
		rank->meeting = MEETING_COMING;
	else
		server_tell(rank, RUN_LEAVE);
	if (!job->start)
		rank->program.status = 0;
	if (!rank->program.over) /* a signal may have ended it before it began */
		program_release(&rank->program, news->node, news->staged);
}

static void news_take(struct rank *rank)
{
	static union {
		struct mpi_place place;
		struct run_news news;
	} heard;
	ssize_t n;

	do {
		n = recv(rank->talk, &heard, sizeof(heard), MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n == 0) { /* the server ends */
		close(rank->talk);
		rank->talk = -1;
	}
	if (n == (ssize_t)sizeof(heard.news))
		start_take(rank, &heard.news);
	if (n != (ssize_t)sizeof(heard.place))
		return;
	rank->ranks = heard.place.ranks;
	rank->ended_at = 0; /* an interrupted start ends in order */
}

/* Returns the milliseconds left until `after` past the end (ended_at), or -1 if no end is known. */
static int patience_left(const struct rank *rank, int after)
{
	enum { MS_NS = 1000000 };
	uint64_t gone = (clock_now() - rank->ended_at) / MS_NS;

	if (!rank->ended_at)
		return -1;
	return gone < (uint64_t)after ? after - (int)gone : 0;
}

/* Takes the children that have ended or stopped. */
static void children_take(struct rank *rank)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0 || (pid < 0 && errno == EINTR)) {
		if (pid > 0 && WIFSTOPPED(status)) {
			if (pid == rank->program.pid && WSTOPSIG(status) == SIGTSTP)
				run_signal_stop();
			continue;
		}
		if (pid == rank->program.pid && pid && !rank->program.over)
			program_end(&rank->program, status);
		if (pid != rank->server)
			continue;
		rank->server_over = true;
		rank->server_status = status;
		if (WIFSIGNALED(status) && rank->program.begun && patience_left(rank, END_PATIENCE))
			fprintf(stderr, "%s: the server of this rank has ended by signal %d%s\n",
				rank->job->tool, WTERMSIG(status),
				rank->program.over ? "" : "; the program goes on without it");
	}
	if (pid < 0) /* ECHILD: another wait has taken them */
		rank->server_over = rank->program.over = true;
}

static void signal_take(void *context, const struct signalfd_siginfo *info)
{
	struct rank *rank = context;

	/* The group was stopped, and perhaps this process alone was continued. */
	if (info->ssi_signo == SIGCONT && rank->server > 0 && !rank->server_over)
		kill(rank->server, SIGCONT);
	if (info->ssi_signo == SIGCHLD)
		children_take(rank);
	else if (!rank->program.over)
		signal_pass(&rank->program, info);
}

/* Acts on the program's end, once it is known how the start went. */
static void end_step(struct rank *rank)
{
	if (rank->program.over && !rank->told_over) {
		rank->told_over = true;
		server_tell(rank, RUN_OVER);
	}
	if (rank->program.over && rank->meeting == MEETING_COMING)
		rank->meeting = launcher_meet() ? MEETING_WAITING : MEETING_MET;
	if (rank->meeting == MEETING_MET && !rank->ended_at) {
		rank->ended_at = clock_now();
		server_tell(rank, RUN_LEAVE);
	}
	/* A signal ended the program while the server waits for other ranks in MPI_Init, where it
	 * does not read its socket. */
	if (rank->program.over && !rank->ranks && !rank->ended_at)
		rank->ended_at = clock_now();
}

static void rank_step(struct rank *rank)
{
	enum { SIGNALS, WITNESS, TALK, LAUNCHER };
	struct pollfd ready[] = {
		[SIGNALS] = {.fd = rank->program.signals, .events = POLLIN},
		[WITNESS] = {.fd = run_witness_words(), .events = POLLIN},
		[TALK] = {.fd = rank->talk, .events = POLLIN},
		[LAUNCHER] = {.fd = rank->meeting == MEETING_WAITING ? launcher_descriptor() : -1,
			      .events = POLLIN},
	};
	int patience = patience_left(rank, END_PATIENCE);

	if (!patience && !rank->server_over)
		kill(rank->server, SIGKILL);
	if (rank->job->count) {
		run_count_look(rank->job->count);
		if (patience < 0 || patience > RUN_COUNT_LOOK)
			patience = RUN_COUNT_LOOK;
	}
	if (poll(ready, sizeof(ready) / sizeof(*ready), patience ? patience : -1) < 0)
		return;
	if (ready[TALK].revents)
		news_take(rank);
	if (ready[LAUNCHER].revents && launcher_has_met())
		rank->meeting = MEETING_MET;
	if (ready[SIGNALS].revents || ready[WITNESS].revents)
		run_signals_each(rank->program.signals, signal_take, rank);
	end_step(rank);
}

/* Returns whether this rank has nothing to wait for. A program without news by now gets none. */
static bool rank_is_over(const struct rank *rank)
{
	const struct program *program = &rank->program;

	return rank->server_over && rank->talk < 0 &&
	       (program->over || !program->begun || !program->pid) &&
	       (rank->meeting == MEETING_NONE || rank->meeting == MEETING_MET);
}

static int server_fork(struct rank *rank)
{
	pid_t mine = getpid();
	int ends[2];

	fflush(NULL);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return errno;
	rank->server = fork();
	if (!rank->server) {
		close(ends[0]);
		close(rank->program.talk);
		close(rank->program.signals);
		exit(run_server(rank->job, mine, ends[1]));
	}
	close(ends[1]);
	rank->talk = ends[0];
	return rank->server < 0 ? errno : 0;
}

/* Returns whether the server could tell neither the launcher nor the other ranks of its end. */
static bool server_is_lost(const struct rank *rank)
{
	int status = rank->server_status;

	return WIFSIGNALED(status) ||
	       (WIFEXITED(status) && WEXITSTATUS(status) == RUN_SERVER_ALONE);
}

/* Ends the rank without its server, which is lost. */
static void end_without_server(struct rank *rank)
{
	if (!rank->ranks) { /* the server was killed before MPI had begun */
		launcher_greet();
	} else if (rank->meeting == MEETING_MET) {
		(void)poll(NULL, 0, patience_left(rank, LEAVE_PATIENCE));
		launcher_leave();
	} else if (rank->ranks > 1 && !rank->program.status) { /* the other servers wait for this
								  one */
		rank->program.status = TOOL_FAILED;
	}
}

/* Reports that the server, which would begin MPI, does not start. The greeted launcher ends the
 * job. */
static void start_fail(const struct run_job *job, int rc)
{
	fprintf(stderr, "%s: %s\n", job->tool, strerror(rc));
	launcher_greet();
}

int run_job(const struct run_job *job)
{
	struct rank rank = {.job = job, .program = {.status = TOOL_FAILED}, .talk = -1};
	int rc = program_fork(&rank.program, job);

	if (rc) {
		start_fail(job, rc);
		return TOOL_FAILED;
	}
	rc = server_fork(&rank);
	if (rc)
		start_fail(job, rc);
	while (!rc && !rank_is_over(&rank))
		rank_step(&rank);
	if (!rank.program.begun)
		program_release(&rank.program, NULL, NULL);
	run_signals_leave();
	if (job->count)
		run_count_end(job->count, rank.program.pid);
	if (!rc && server_is_lost(&rank))
		end_without_server(&rank);
	return rank.program.status;
}
