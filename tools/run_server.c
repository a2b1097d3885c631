/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the process that serves a rank's node. */
#include "config.h"
#include "run_server.h"

#include "program_start.h"
#include "tool_common.h"
#include "tool_place.h"

#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

struct serving {
	int talk;
	bool over, may_leave;
};

/* Takes a word from the socket. Returns whether there was one. `flags` 0: waits for it. */
static bool word_take(struct serving *serving, int flags)
{
	char word;
	ssize_t n;

	do {
		n = recv(serving->talk, &word, 1, flags);
	} while (n < 0 && errno == EINTR);
	serving->over |= n == 0 || (n == 1 && word == RUN_OVER);
	serving->may_leave |= n == 0 || (n == 1 && word == RUN_LEAVE);
	return n == 1;
}

/* Implements struct mpi_work's look. */
static bool work_is_over(void *context)
{
	struct serving *serving = context;

	while (word_take(serving, MSG_DONTWAIT))
		;
	return serving->over;
}

/* Brings the data that programs must find, in all ranks before a program begins. */
static void news_of_fill(struct run_news *news, const struct mpi_module *module,
			 const struct mpi_work *work)
{
	news->rc = module->serve_fill(work, &news->report);
	snprintf(news->text, sizeof(news->text), "%s",
		 news->rc == EADDRINUSE ? "a node has a server already, yours or another user's: "
					  "LMDBIO_NODE gives this job's another name"
		 : news->rc == ENOSPC   ? "No space left in a node's memory budget"
					: lmdbio_orig_mdb_strerror(news->rc));
}

/* Leaves after a failure of MPI, while other servers may wait for this one. As when the server is
 * killed, the launcher tells the ranks when all programs are over, and the parents of the servers
 * end them then (run_job.c). Without a launcher that can do this, ends the job. */
static void server_leave(const struct run_job *job, const struct mpi_module *module,
			 const struct run_news *news)
{
	if (!job->start || !news->pmi1)
		tool_place_break(module, job->tool);
	fprintf(stderr,
		"%s: MPI fails: the server of this rank ends, and the program goes on without it\n",
		job->tool);
	_exit(RUN_SERVER_ALONE); /* without MPI's exit handlers */
}

/* Serves between begin and end of MPI. */
static void server_work(const struct run_job *job, const struct mpi_module *module,
			struct serving *serving, struct run_news *news)
{
	struct mpi_work work = {.look = work_is_over,
				.context = serving,
				.fd = serving->talk,
				.together = !job->start,
				.paths = job->paths,
				.fills = job->paths != NULL};
	const char *staged = tool_place_staged(&news->place);
	int rc;

	snprintf(news->staged, sizeof(news->staged), "%s", *staged ? program_path(staged) : "");
	rc = module->serve_begin(&work);
	if (rc && rc != EADDRINUSE && !job->paths) /* the programs read for themselves then */
		fprintf(stderr, "%s: the node is not served: %s\n", job->tool, strerror(rc));
	if (job->paths)
		news_of_fill(news, module, &work);
	if (news->rc == ECONNABORTED)
		tool_place_break(module, job->tool);
	snprintf(news->node, sizeof(news->node), "%s", work.node ? work.node : "");
	news->pmi1 = module->is_pmi1();
	if (send(serving->talk, news, sizeof(*news), MSG_NOSIGNAL) != (ssize_t)sizeof(*news) ||
	    news->rc)
		serving->over = serving->may_leave = true;
	if (!news->rc && job->start)
		run_streams_leave();
	if (!job->start && news->place.node_rank > 0) /* one server a node is enough */
		serving->over = true;
	if (module->serve(&work))
		server_leave(job, module, news);
	while (!serving->may_leave)
		(void)word_take(serving, 0);
}

static int server_main(const struct run_job *job, int talk)
{
	static struct run_news news = {.report = {.size = sizeof(news.report)}};
	const struct mpi_module *module = tool_place_begin(job->tool, &news.place);
	struct serving serving = {.talk = talk};

	if (!module)
		return TOOL_FAILED;
	(void)send(talk, &news.place, sizeof(news.place), MSG_NOSIGNAL);
	tool_place_tasks(job->tool, &news.place);
	server_work(job, module, &serving, &news);
	if (module->end() == ECONNABORTED)
		server_leave(job, module, &news);
	return news.rc ? TOOL_FAILED : 0;
}

int run_server(const struct run_job *job, pid_t parent, int talk)
{
	(void)prctl(PR_SET_NAME, "lmdbio-server");
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		return TOOL_FAILED;
	return server_main(job, talk);
}

void run_streams_leave(void)
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
