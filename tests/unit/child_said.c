/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a function in a child process and returns the child's standard error to its parent. */
#include "child_said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

void child_run(void (*body)(void), char *said, size_t size)
{
	int ends[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		body();
		exit(0);
	}
	close(ends[1]);
	while (used + 1 < size && (n = read(ends[0], said + used, size - used - 1)) > 0)
		used += (size_t)n;
	said[used] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int child_environment_clear(void **state)
{
	extern char **environ;
	char name[64];
	size_t i = 0;

	(void)state;
	while (environ[i]) {
		if (!strncmp(environ[i], "LMDBIO_", 7) &&
		    sscanf(environ[i], "%63[^=]", name) == 1 && !unsetenv(name))
			i = 0;
		else
			i++;
	}
	return 0;
}

unsigned child_lines(const char *text)
{
	unsigned n = 0;

	while ((text = strchr(text, '\n'))) {
		text++;
		n++;
	}
	return n;
}
