/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts a server that keeps data sets in the memory of nodes, queries the server and ends it. */
#include "container/container.h"
#include "env/staged.h"
#include "launcher.h"
#include "mpi/mpi_module.h"
#include "node/node_socket.h"
#include "run_signals.h"
#include "tool_common.h"
#include "tool_env.h"
#include "tool_place.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STOP_PATIENCE = 60000 /* ms */ };
enum {
	OPTION_STATUS = TOOL_LONG_ONLY,
	OPTION_STOP,
	OPTION_IO,
	OPTION_MEMORY,
	OPTION_NODE,
	OPTION_STAGED
};

struct serve_options {
	bool status, stop;
	char **paths;
};

static const struct tool_option serve_options[] = {
	{OPTION_STATUS, "status", NULL,
	 "print a table of the data sets that the server of this node has"},
	{OPTION_STOP, "stop", NULL,
	 "end the servers of all nodes of the job of this node's server, and wait for it"},
	{OPTION_IO, "io", "auto|pread|direct", "how storage is read"},
	{OPTION_MEMORY, "memory", "SIZE", "the budget of each node"},
	{OPTION_NODE, "node", "NAME", "a name for the node"},
	{OPTION_STAGED, "staged", "DIR",
	 "where lmdbio-stage --tier=ssd has put parts of data sets, %n in it being the node's "
	 "number"},
	{0},
};

static const struct tool serve_tool = {
	.name = "lmdbio-serve",
	.synopsis = "[OPTION]... [PATH]...\n[--node=NAME] --status\n[--node=NAME] --stop",
	.purpose = "Keep data sets in the memory of nodes, for programs that read them through "
		   "lmdbio. Started by mpiexec or srun, once on each node. Without a PATH it keeps "
		   "what programs read.",
	.options = serve_options,
	.closing = "--io, --memory, --node and --staged are the variables of the same names in "
		   "lmdbio(7).\nExit status: 0 the server ended as it was told to; 1 there "
		   "is no server to ask or to stop; 2 the server could not be started, or wrong "
		   "usage.",
};

static bool setting_take(int key)
{
	static const struct {
		const char *option, *variable;
	} settings[] = {{"--io", "LMDBIO_IO"},
			{"--memory", "LMDBIO_MEMORY"},
			{"--node", "LMDBIO_NODE"},
			{"--staged", "LMDBIO_STAGED"}};
	unsigned i = (unsigned)(key - OPTION_IO);

	return tool_setting_take(&serve_tool, settings[i].option, settings[i].variable, optarg);
}

/* Judges a data file's meta pages, or a container's header and end. Returns 0, or a code. */
static int content_judge(const char *path)
{
	struct io file = {0}, data = {0};
	char *name = tool_data_name(path);
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	struct staged_original original;
	int rc = !name ? ENOMEM : fd < 0 ? errno : staged_identify(fd, &original);

	free(name);
	if (!rc && !original.page_size) {
		rc = io_open_file(&file, "pread", fd);
		if (!rc)
			rc = io_open_container(&data, &file, NULL);
		io_close(&data);
		io_close(&file);
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Ends the command before MPI starts if it cannot serve one of the paths. */
static int paths_judge(char **paths)
{
	int status = 0, rc;

	for (; *paths; paths++) {
		char *line;

		rc = tool_env_judge(*paths, 0);
		if (!rc)
			rc = content_judge(*paths);
		if (!rc)
			continue;
		line = tool_env_explain(*paths, 0, rc);
		tool_complain(&serve_tool, "%s", line ? line : *paths);
		free(line);
		status = TOOL_FAILED;
	}
	return status;
}

static int parse(struct serve_options *options, int argc, char **argv)
{
	int key;

	while ((key = tool_option_next(&serve_tool, argc, argv)) != -1) {
		switch (key) {
		case OPTION_STATUS:
			options->status = true;
			break;
		case OPTION_STOP:
			options->stop = true;
			break;
		case '?':
			return tool_usage_hint(&serve_tool);
		default:
			if (!setting_take(key))
				return TOOL_FAILED;
		}
	}
	options->paths = argv + optind;
	if (options->status && options->stop)
		return tool_usage_error(&serve_tool, "--status and --stop exclude each other");
	if ((options->status || options->stop) && *options->paths)
		return tool_usage_error(&serve_tool, "--status and --stop take no paths");
	return paths_judge(options->paths);
}

/* --- a running server ------------------------------------------------------------------------ */

static int server_reach(enum node_word word)
{
	struct node_message message = {.version = NODE_VERSION, .word = word};
	int fd = node_connect(getenv("LMDBIO_NODE"));

	if (fd < 0 || node_send(fd, &message, sizeof(message), -1)) {
		tool_complain(
			&serve_tool,
			"no server of yours on this node%s%s; mpiexec lmdbio-serve starts one",
			getenv("LMDBIO_NODE") ? " of the name " : "",
			getenv("LMDBIO_NODE") ? getenv("LMDBIO_NODE") : "");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	return fd;
}

static bool wait_readable(int fd)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n;

	do {
		n = poll(&ready, 1, STOP_PATIENCE);
	} while (n < 0 && errno == EINTR);
	return n == 1;
}

static int status_print(void)
{
	static char text[NODE_TEXT];
	int fd = server_reach(NODE_STATUS);
	ssize_t n;

	if (fd < 0)
		return TOOL_PROBLEM;
	n = wait_readable(fd) ? recv(fd, text, sizeof(text), 0) : -1;
	close(fd);
	if (n <= 0) {
		tool_complain(&serve_tool, "this node's server does not answer: --stop ends it");
		return TOOL_PROBLEM;
	}
	fwrite(text, 1, (size_t)n, stdout);
	return tool_output_end(&serve_tool, TOOL_OK);
}

/* Returns after the server has closed its socket. */
static int server_stop(void)
{
	int fd = server_reach(NODE_STOP), passed;
	struct node_answer answer = {.error = EPROTO};
	char end;

	if (fd < 0)
		return TOOL_PROBLEM;
	if (wait_readable(fd) && node_receive(fd, &answer, sizeof(answer), &passed) && !answer.error &&
	    wait_readable(fd) && recv(fd, &end, 1, 0) <= 0)
		answer.error = 0;
	else
		answer.error = EPROTO;
	close(fd);
	if (answer.error)
		tool_complain(&serve_tool, "this node's server does not end: kill its process");
	return answer.error ? TOOL_PROBLEM : 0;
}

/* --- this process as the server -------------------------------------------------------------- */

struct service {
	int signals;
	bool over;
};

static bool is_told_to_end(void *context)
{
	struct service *serving = context;
	struct signalfd_siginfo info;

	while (read(serving->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		serving->over = true;
	return serving->over;
}

/* Says that another process has the name of the node's server, and what the user can do. */
static void tell_taken(const char *node)
{
	static const char other_name[] =
		"--node=NAME gives it another, which programs need in LMDBIO_NODE";
	pid_t process;
	uid_t user;
	int rc = node_holder(node, &user, &process);

	if (!rc && user == geteuid())
		tool_complain(&serve_tool,
			      "this node has a server already (process %d): --status shows it, "
			      "--stop ends it",
			      (int)process);
	else if (!rc)
		tool_complain(&serve_tool,
			      "user %u (process %d) has taken the name of this node's server: %s",
			      (unsigned)user, (int)process, other_name);
	else
		tool_complain(&serve_tool,
			      "another program has taken the name of this node's server: %s",
			      other_name);
}

static int serve(const struct serve_options *options)
{
	struct service serving = {0};
	struct mpi_place at;
	sigset_t end;
	const struct mpi_module *module = tool_place_begin(serve_tool.name, &at);
	struct mpi_work work = {.look = is_told_to_end,
				.context = &serving,
				.together = true,
				.paths = (const char *const *)options->paths};
	int rc;

	if (!module)
		return TOOL_FAILED;
	/* Not caught earlier: a signal must end the process while MPI waits for other ranks to
	 * begin. */
	sigemptyset(&end);
	sigaddset(&end, SIGINT);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGHUP);
	serving.signals = work.fd = run_signals_catch(&end);
	tool_place_tasks(serve_tool.name, &at);
	(void)tool_place_staged(&at);
	for (char **path = options->paths; !at.rank && *path; path++)
		tool_store_tell(&serve_tool, *path, "what the server keeps");
	serving.over = at.node_rank > 0; /* one server a node is enough */
	rc = module->serve_begin(&work);
	if (rc && rc == EADDRINUSE && !at.node_rank)
		tell_taken(work.node);
	else if (rc && !at.node_rank)
		tool_complain(&serve_tool, "%s", strerror(rc));
	if (!rc && !at.rank && !*options->paths)
		tool_complain(&serve_tool, "no PATH is given: it serves what your programs read "
					   "through lmdbio here, until lmdbio-serve --stop ends it");
	serving.over |= rc != 0;
	if (module->serve(&work))
		tool_place_break(module, serve_tool.name);
	(void)tool_place_end(module, serve_tool.name);
	return rc ? TOOL_FAILED : 0;
}

int main(int argc, char **argv)
{
	struct serve_options options = {0};
	int status = parse(&options, argc, argv);

	if (status) {
		launcher_greet(); /* the other ranks would wait for this one */
		return status;
	}
	if (options.status)
		return status_print();
	return options.stop ? server_stop() : serve(&options);
}
