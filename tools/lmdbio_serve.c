/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how a server is started that keeps data sets in the memory of nodes, how
 * it is asked and how it is ended. */
#include "config.h"
#include "mpi/mpi_module.h"
#include "node/node_socket.h"
#include "tool_place.h"

#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_OURS = 2, STOP_PATIENCE = 60000 /* ms */ };
enum { KEY_STATUS = 0x200, KEY_STOP, KEY_MEMORY, KEY_IO, KEY_NODE, KEY_STAGED };

struct options {
	bool status, stop;
	char **paths;
};

/* libc looks for this by name, so it must not be hidden as our symbols are by default. */
__attribute__((visibility("default"))) const char *argp_program_version =
	"lmdbio-serve (lmdbio) " PACKAGE_VERSION;

static const struct argp_option argp_options[] = {
	{"status", KEY_STATUS, NULL, 0, "print what the server of this node holds", 0},
	{"stop", KEY_STOP, NULL, 0, "end the servers of all nodes of its job", 0},
	{NULL, 0, NULL, 0, "Settings, as the variables of the same names in lmdbio(7):", 1},
	{"io", KEY_IO, "HOW", 0, "how storage is read: auto, pread or direct", 1},
	{"memory", KEY_MEMORY, "SIZE", 0, "the budget of each node", 1},
	{"node", KEY_NODE, "NAME", 0, "a name for the node", 1},
	{"staged", KEY_STAGED, "DIR", 0,
	 "where lmdbio-stage --tier=ssd has put parts of data sets, %n in it being the node's "
	 "number",
	 1},
	{0},
};

static error_t option_parse(int key, char *argument, struct argp_state *state)
{
	struct options *options = state->input;

	switch (key) {
	case KEY_STATUS:
		options->status = true;
		return 0;
	case KEY_STOP:
		options->stop = true;
		return 0;
	case KEY_IO:
		return setenv("LMDBIO_IO", argument, 1) ? errno : 0;
	case KEY_MEMORY:
		return setenv("LMDBIO_MEMORY", argument, 1) ? errno : 0;
	case KEY_NODE:
		return setenv("LMDBIO_NODE", argument, 1) ? errno : 0;
	case KEY_STAGED:
		return setenv("LMDBIO_STAGED", argument, 1) ? errno : 0;
	case ARGP_KEY_ARGS:
		if (options->status || options->stop)
			argp_error(state, "--status and --stop take no paths");
		options->paths = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = argp_options,
	.parser = option_parse,
	.args_doc = "[PATH...]\n--status\n--stop",
	.doc = "Keep data sets in the memory of nodes, for programs that read them through lmdbio. "
	       "Started by mpiexec or srun, once on each node.\v"
	       "Exit status: 0; 1 when there is no server to ask or to stop; 2 otherwise.",
};

/* --- a server that is there ------------------------------------------------------------------- */

static int server_reach(enum node_word word)
{
	struct node_message message = {.version = NODE_VERSION, .word = word};
	int fd = node_connect(getenv("LMDBIO_NODE"));

	if (fd < 0 || node_send(fd, &message, sizeof(message), -1)) {
		fprintf(stderr, "lmdbio-serve: no server on this node%s%s\n",
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
		return EXIT_FAILURE;
	n = wait_readable(fd) ? recv(fd, text, sizeof(text), 0) : -1;
	close(fd);
	if (n <= 0) {
		fputs("lmdbio-serve: the server does not answer\n", stderr);
		return EXIT_FAILURE;
	}
	fwrite(text, 1, (size_t)n, stdout);
	return fflush(stdout) ? EXIT_OURS : 0;
}

/* Returns when the server has given up its door. */
static int server_stop(void)
{
	int fd = server_reach(NODE_STOP), passed;
	struct node_answer answer = {.error = EPROTO};
	char end;

	if (fd < 0)
		return EXIT_FAILURE;
	if (wait_readable(fd) && node_receive(fd, &answer, sizeof(answer), &passed) && !answer.error &&
	    wait_readable(fd) && recv(fd, &end, 1, 0) <= 0)
		answer.error = 0;
	else
		answer.error = EPROTO;
	close(fd);
	if (answer.error)
		fputs("lmdbio-serve: the server does not end\n", stderr);
	return answer.error ? EXIT_FAILURE : 0;
}

/* --- being one -------------------------------------------------------------------------------- */

struct serving {
	int signals;
	bool over;
};

static bool is_told_to_end(void *context)
{
	struct serving *serving = context;
	struct signalfd_siginfo info;

	while (read(serving->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
		serving->over = true;
	return serving->over;
}

static int signals_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int serve(const struct options *options)
{
	struct serving serving = {.signals = signals_open()};
	const struct mpi_module *module = tool_place_module("lmdbio-serve");
	struct mpi_work work = {.look = is_told_to_end,
				.context = &serving,
				.fd = serving.signals,
				.together = true,
				.paths = (const char *const *)options->paths};
	struct mpi_place at;
	int rc;

	if (!module)
		return EXIT_OURS;
	rc = module->begin(false, &at);
	if (rc) {
		fprintf(stderr, "lmdbio-serve: MPI does not start: %s\n", strerror(rc));
		return EXIT_OURS;
	}
	(void)tool_place_staged(&at);
	serving.over = at.node_rank > 0; /* one a node is enough */
	rc = module->serve_begin(&work);
	if (rc) {
		fprintf(stderr, "lmdbio-serve: %s\n",
			rc == EADDRINUSE ? "this node has a server already" : strerror(rc));
		serving.over = true;
	}
	module->serve(&work);
	module->end();
	return rc ? EXIT_OURS : 0;
}

int main(int argc, char **argv)
{
	struct options options = {0};

	argp_err_exit_status = EXIT_OURS;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options))
		return EXIT_OURS;
	if (options.status)
		return status_print();
	return options.stop ? server_stop() : serve(&options);
}
