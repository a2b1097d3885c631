/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the launcher by the variables and descriptors that it hands on. */
#include "config.h"
#include "launcher.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

enum { START_PATIENCE = 100 /* ms: how long the launcher may take to start the other processes */ };

/* Returns whether a variable connects this process to its launcher. The rank and the number of
 * ranks stay: many programs divide their work by them. */
static bool is_of_launcher(const char *entry)
{
	static const char *const doors[] = {
		"PMI_FD=",     "PMI_PORT=",      "PMI_ID=",          "PMI_SPAWNED=",
		"PMI2_",       "PMIX_",          "HYDI_CONTROL_FD=", "SLURM_PMI_FD=",
		"SLURM_PMIX",  "SLURM_PMI2_",
	};

	for (size_t i = 0; i < sizeof(doors) / sizeof(*doors); i++)
		if (!strncmp(entry, doors[i], strlen(doors[i])))
			return true;
	return false;
}

void launcher_forget(void)
{
	static const char *const descriptors[] = {"PMI_FD", "HYDI_CONTROL_FD"};
	char **kept = environ;

	for (size_t i = 0; i < sizeof(descriptors) / sizeof(*descriptors); i++) {
		const char *number = getenv(descriptors[i]);

		if (number && atoi(number) > STDERR_FILENO)
			close(atoi(number));
	}
	for (char **entry = environ; *entry; entry++)
		if (!is_of_launcher(*entry))
			*kept++ = *entry;
	*kept = NULL;
}

int launcher_descriptor(void)
{
	const char *number = getenv("PMI_FD");
	int fd = number ? atoi(number) : -1;

	return fd > STDERR_FILENO ? fd : -1;
}

static bool line_write(const char *line)
{
	ssize_t n;

	do {
		n = send(launcher_descriptor(), line, strlen(line), MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n == (ssize_t)strlen(line);
}

/* Reads the launcher's next answer; each line arrives whole. */
static bool line_read(char *line, size_t size)
{
	ssize_t n;

	do {
		n = recv(launcher_descriptor(), line, size - 1, 0);
	} while (n < 0 && errno == EINTR);
	line[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* If all processes of a job end while MPICH's launcher (4.0) still starts some of them, the
 * launcher fails an assertion of its own. */
void launcher_greet(void)
{
	struct pollfd ready = {.fd = launcher_descriptor(), .events = POLLIN};
	char line[1024];

	/* A process must read the launcher's answer. */
	if (line_write("cmd=init pmi_version=1 pmi_subversion=1\n") &&
	    line_read(line, sizeof(line)))
		(void)poll(&ready, 1, START_PATIENCE);
}

bool launcher_meet(void)
{
	return line_write("cmd=barrier_in\n");
}

bool launcher_has_met(void)
{
	char line[1024];

	return !line_read(line, sizeof(line)) || strstr(line, "cmd=barrier_out");
}

void launcher_leave(void)
{
	char line[1024];

	if (!line_write("cmd=finalize\n"))
		return;
	/* Answers to the MPI process that has ended may come first. */
	while (line_read(line, sizeof(line)) && !strstr(line, "cmd=finalize_ack"))
		;
}
