/* SPDX-License-Identifier: OLDAP-2.8 */
/* Data sets of a soak: one that is written, two that are replaced by others. */
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	COMMIT_PERMILLE = 150, /* of looks */
	PHASE = 64,            /* looks with commits, then as many without: arenas are made anew */
	REPLACE_LOOKS = 100,
	KILL_PERMILLE = 4,
	COLD_LOOKS = 20, /* looks after which the page cache gives up what no process has mapped */
};

static void path_of(const struct soak *soak, const char *name, char path[SOAK_PATH])
{
	snprintf(path, SOAK_PATH, "%s/%s", soak->scratch, name);
}

/* soak_writer on a directory of the scratch; to and from: its standard input and output, or -1. */
static pid_t run_writer(struct soak *soak, const char *name, uint64_t generation, int to, int from)
{
	char program[SOAK_PATH], path[SOAK_PATH], records[16], seed[32], number[32];
	pid_t pid;

	snprintf(program, sizeof(program), "%s/soak_writer", soak->programs);
	path_of(soak, name, path);
	snprintf(records, sizeof(records), "%u", soak->options.records);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)soak->options.seed);
	snprintf(number, sizeof(number), "%llu", (unsigned long long)generation);
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	if (to >= 0)
		dup2(to, STDIN_FILENO);
	if (from >= 0)
		dup2(from, STDOUT_FILENO);
	execl(program, program, path, records, seed, number, (char *)NULL);
	_exit(127);
}

static pid_t run_convert(struct soak *soak)
{
	char program[SOAK_PATH], from[SOAK_PATH], to[SOAK_PATH];
	pid_t pid;

	snprintf(program, sizeof(program), "%s/../../tools/lmdbio-convert", soak->programs);
	path_of(soak, "new", from);
	path_of(soak, "new-packed", to);
	fflush(NULL);
	pid = fork();
	if (pid)
		return pid;
	execl(program, program, "-q", from, to, (char *)NULL);
	_exit(127);
}

static bool start_writer(struct soak *soak)
{
	int there[2], back[2];

	if (pipe2(there, O_CLOEXEC))
		return false;
	if (pipe2(back, O_CLOEXEC)) {
		close(there[0]);
		close(there[1]);
		return false;
	}
	soak->writer = run_writer(soak, "live", 0, there[0], back[1]);
	close(there[0]);
	close(back[1]);
	soak->to_writer = there[1];
	soak->from_writer = back[0];
	soak->writer_asked = true; /* it says that it is ready */
	return soak->writer > 0;
}

static void close_writer(struct soak *soak)
{
	close(soak->to_writer);
	close(soak->from_writer);
	soak->writer = 0;
}

/* The new data sets take their names. Readers see one or the other of each. */
static void rename_new(struct soak *soak)
{
	static const struct {
		const char *from, *to;
		enum soak_kind kind;
	} sets[] = {
		{"new/data.mdb", "plain/data.mdb", SOAK_PLAIN},
		{"new-packed/data.mdb.zst", "packed/data.mdb.zst", SOAK_PACKED},
	};

	for (unsigned i = 0; i < 2; i++) {
		char from[SOAK_PATH], to[SOAK_PATH];

		path_of(soak, sets[i].from, from);
		path_of(soak, sets[i].to, to);
		soak->board->coming[sets[i].kind] = soak->made;
		if (rename(from, to))
			soak_fail(soak, "%s: %s", from, strerror(errno));
		soak->board->come[sets[i].kind] = soak->made;
	}
	soak->counts.replaced++;
}

static void make_next(struct soak *soak)
{
	soak->packing = false;
	soak->maker = run_writer(soak, "new", ++soak->made, -1, -1);
}

/* A step of making has ended well; the next follows. Returns whether there is one. */
static bool make_on(struct soak *soak)
{
	if (soak->packing) {
		rename_new(soak);
		soak->maker = 0;
		return false;
	}
	soak->packing = true;
	soak->maker = run_convert(soak);
	return true;
}

bool soak_sets_make(struct soak *soak)
{
	static const char *const folders[] = {"live", "plain",      "packed",
					      "new",  "new-packed", "tmp"};
	char path[SOAK_PATH], byte;
	int status;

	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		path_of(soak, folders[i], path);
		if (mkdir(path, 0700))
			return false;
	}
	make_next(soak);
	do {
		if (waitpid(soak->maker, &status, 0) != soak->maker || status)
			return false;
	} while (make_on(soak));
	soak->counts.replaced = 0;
	return start_writer(soak) && read(soak->from_writer, &byte, 1) == 1;
}

/* What no process has mapped is read from storage again. */
static void cool(struct soak *soak)
{
	static const char *const files[] = {"live/data.mdb", "plain/data.mdb",
					    "packed/data.mdb.zst"};

	for (unsigned i = 0; i < 3; i++) {
		char path[SOAK_PATH];
		int fd;

		path_of(soak, files[i], path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		(void)fdatasync(fd);
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
		close(fd);
	}
}

static void hear_writer(struct soak *soak)
{
	char text[64];
	ssize_t got;

	if (!soak->writer_asked)
		return;
	(void)fcntl(soak->from_writer, F_SETFL, O_NONBLOCK);
	got = read(soak->from_writer, text, sizeof(text));
	if (got > 0 && text[got - 1] == '\n') {
		soak->writer_asked = false;
		soak->counts.commits += text[0] <= '9'; /* a number, not "ready" */
	}
}

void soak_sets_step(struct soak *soak)
{
	uint64_t look = soak->counts.looks;

	if (!soak->writer && !start_writer(soak))
		soak_fail(soak, "no writer: %s", strerror(errno));
	hear_writer(soak);
	if (look / PHASE % 2 == 0 && !soak->writer_asked &&
	    random_below(&soak->random, 1000) < COMMIT_PERMILLE)
		soak->writer_asked = write(soak->to_writer, "\n", 1) == 1;
	if (random_below(&soak->random, 1000) < KILL_PERMILLE) {
		kill(soak->writer, SIGKILL);
		waitpid(soak->writer, NULL, 0);
		close_writer(soak);
		soak->counts.writers_killed++;
	}
	if (!soak->maker && look % REPLACE_LOOKS == REPLACE_LOOKS / 2)
		make_next(soak);
	if (look % COLD_LOOKS == 0)
		cool(soak);
}

bool soak_sets_ended(struct soak *soak, pid_t pid, int status)
{
	if (pid == soak->writer) {
		soak_fail(soak, "the writer ended with status %#x", (unsigned)status);
		close_writer(soak);
		return true;
	}
	if (pid != soak->maker)
		return false;
	soak->maker = 0;
	if (status)
		soak_fail(soak, "no new data set: status %#x", (unsigned)status);
	else
		(void)make_on(soak);
	return true;
}

void soak_sets_end(struct soak *soak)
{
	int status;

	if (soak->maker)
		waitpid(soak->maker, &status, 0);
	soak->maker = 0;
	if (!soak->writer)
		return;
	close(soak->to_writer);
	if (waitpid(soak->writer, &status, 0) != soak->writer || status)
		soak_fail(soak, "the writer ended with status %#x", (unsigned)status);
	close(soak->from_writer);
	soak->writer = 0;
}
