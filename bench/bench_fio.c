/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds fio's arguments and parses its answer.
 *
 * The terse answer of version 3 is one line of fields with semicolons between them; the first nine
 * are version, program, job, group, error, KiB read, KiB a second, reads a second and milliseconds.
 * All other output stands on other lines.
 */
#include "bench_fio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REQUEST_KIB = 1024 };

/* The better engine first. A container may forbid it. */
static const char *const engines[] = {"--ioengine=io_uring", "--ioengine=libaio"};

struct answer {
	uint64_t kib, milliseconds;
};

/* fio takes a ':' for the end of a file's name, so it runs in the file's directory. Standard output
 * goes to `out`; with `quiet` the complaints are dropped. */
static int fio_start(const char *path, const char *engine, int out, bool quiet, pid_t *pid)
{
	char directory[PATH_MAX], name[PATH_MAX], filename[PATH_MAX + 16];
	const char *arguments[] = {"fio",
				   "--name=read",
				   "--rw=read",
				   "--bs=1M",
				   "--iodepth=16",
				   "--direct=1",
				   "--numjobs=1",
				   "--readonly",
				   engine,
				   filename,
				   "--output-format=terse",
				   "--terse-version=3",
				   NULL};
	posix_spawn_file_actions_t actions;
	int rc;

	snprintf(directory, sizeof(directory), "%s", path);
	snprintf(name, sizeof(name), "%s", path);
	snprintf(filename, sizeof(filename), "--filename=%s", basename(name));
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	if (quiet)
		posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addchdir_np(&actions, dirname(directory));
	rc = posix_spawnp(pid, arguments[0], &actions, NULL, (char **)(uintptr_t)arguments,
			  environ);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

static bool parse(const char *line, struct answer *answer)
{
	unsigned error;

	return sscanf(line, "3;fio-%*[^;];read;%*u;%u;%" SCNu64 ";%*u;%*[^;];%" SCNu64 ";", &error,
		      &answer->kib, &answer->milliseconds) == 3 &&
	       error == 0;
}

static int fio_run(const char *path, const char *engine, bool quiet, struct answer *answer)
{
	int ends[2], status, rc;
	bool answered = false;
	char *line = NULL;
	size_t room = 0;
	FILE *said;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC))
		return errno;
	rc = fio_start(path, engine, ends[1], quiet, &pid);
	close(ends[1]);
	said = fdopen(ends[0], "r");
	if (!said)
		close(ends[0]);
	while (said && getline(&line, &room, said) >= 0)
		answered = answered || parse(line, answer);
	free(line);
	if (said)
		fclose(said);
	if (rc)
		return rc;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return answered && status == 0 ? 0 : EIO;
}

int fio_read(const char *path, uint64_t size, double *seconds)
{
	enum { LAST = sizeof(engines) / sizeof(engines[0]) - 1 };
	struct answer answer = {0};
	int rc = EIO;

	for (int i = 0; i <= LAST && rc == EIO; i++)
		rc = fio_run(path, engines[i], i < LAST, &answer);
	/* fio reads whole requests, so the end of the file may be left over. */
	if (!rc && (answer.kib < size / 1024 / REQUEST_KIB * REQUEST_KIB || !answer.kib))
		rc = EIO;
	if (rc && rc != ENOENT)
		fprintf(stderr, "bench_figures: fio cannot read %s by direct reads: %s\n", path,
			strerror(rc));
	if (rc)
		return rc;
	/* fio reports whole milliseconds, and no read takes less than one. */
	*seconds = (double)(answer.milliseconds ? answer.milliseconds : 1) / 1e3 *
		   ((double)size / 1024 / (double)answer.kib);
	return 0;
}
