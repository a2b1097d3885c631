/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the commands end, without a signal, on any damaged file, and that
 * lmdbio-check finds what any reader stumbles over.
 *
 * Each damaged file is read completely by a fresh process on the original and by one on lmdbio. A
 * file that either of them cannot read to its end (an error, a signal, no end) must be reported as
 * damaged. Other data without an error cannot be held against the check: LMDB has no checksums.
 */
#include "damage.h"
#include "db_make.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BASES = 8, CPU_SECONDS = 20, SHOWN = 20, READER_ERROR = 3 };

/* Every kind of page and of node, small enough for thousands of readings. */
static const char *const base_words[BASES] = {
	"plain,mixed,keys60",
	"named,dupsort,dups400,keys40,rounds2",
	"named,dupfixed,dups600,keys30,page1024,rounds1",
	"integerdup8,dupfixed,dups900,keys30,rounds2",
	"integerkey8,mixed,keys80,page512,rounds2",
	"named,reversekey,longest,keys120,page512",
	"huge,keys3,rounds1,page16384",
	"named,dupsort,reversedup,dups700,keys20,page2048,rounds3",
};

struct programs {
	const char *tools, *reader, *library;
};

enum { ENDS = 3 }; /* of lmdbio-check: intact, damaged, unchecked */
enum verdict { READ_WHOLE, READ_OTHER, READ_ERROR, READ_BROKEN, VERDICTS };

static const char *const verdict_names[VERDICTS] = {"same data", "other data", "an error",
						    "a signal, no end"};

/* Runs a program to its end and keeps the beginning of what it prints. Returns its wait status. */
static int run(char *const *arguments, const char *library, char *output, size_t room)
{
	struct rlimit none = {0, 0}, cpu = {CPU_SECONDS, CPU_SECONDS};
	char spill[4096];
	size_t used = 0;
	int ends[2], status;
	ssize_t got;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) || (child = fork()) < 0) {
		perror("check_damage");
		exit(2);
	}
	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		setrlimit(RLIMIT_CPU, &cpu);
		dup2(ends[1], STDOUT_FILENO);
		/* the original's assertions are expected */
		dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		if (library)
			setenv("LD_LIBRARY_PATH", library, 1);
		execv(arguments[0], arguments);
		_exit(126);
	}
	close(ends[1]);
	while ((got = read(ends[0], spill, sizeof(spill))) > 0) {
		size_t take = used + (size_t)got < room ? (size_t)got : room - 1 - used;

		memcpy(output + used, spill, take);
		used += take;
	}
	output[used] = 0;
	close(ends[0]);
	waitpid(child, &status, 0);
	return status;
}

static enum verdict read_whole(const struct programs *programs, const char *library,
			       const char *directory, const char *expected, char *output,
			       size_t room)
{
	char limit[] = "--limit=2000000", lock[] = "--no-lock", path[1100], reader[1100];
	char *arguments[] = {reader, limit, lock, path, NULL};
	int status;

	snprintf(reader, sizeof(reader), "%s", programs->reader);
	snprintf(path, sizeof(path), "%s", directory);
	status = run(arguments, library, output, room);
	if (WIFEXITED(status) && WEXITSTATUS(status) == READER_ERROR)
		return READ_ERROR;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return READ_BROKEN;
	return strcmp(output, expected) ? READ_OTHER : READ_WHOLE;
}

/* Runs one of ours; `option` may be NULL. */
static int run_tool(const struct programs *programs, const char *name, const char *option,
		    const char *directory, char *output, size_t room)
{
	char lock[] = "--no-lock", path[1100], tool[1100], extra[40];
	char *arguments[] = {tool, lock, path, option ? extra : NULL, NULL};

	snprintf(tool, sizeof(tool), "%s/%s", programs->tools, name);
	snprintf(path, sizeof(path), "%s", directory);
	snprintf(extra, sizeof(extra), "%s", option ? option : "");
	return run(arguments, NULL, output, room);
}

static int check(const struct programs *programs, const char *directory, char *output, size_t room)
{
	return run_tool(programs, "lmdbio-check", NULL, directory, output, room);
}

/* Whether those that only read end as they should: with all or with an error. */
static bool others_end(const struct programs *programs, const char *directory)
{
	static const char *const runs[][2] = {{"lmdbio-dump", NULL},
					      {"lmdbio-dump", "-a"},
					      {"lmdbio-stat", "--all-info"},
					      {"lmdbio-stat", "-fff"},
					      {"lmdbio-check", "--json"}};
	char output[600];
	bool well = true;

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		int status = run_tool(programs, runs[i][0], runs[i][1], directory, output,
				      sizeof(output));

		if (WIFEXITED(status) && WEXITSTATUS(status) <= 2)
			continue;
		printf("%s %s ended with %#x\n", runs[i][0], runs[i][1] ? runs[i][1] : "", status);
		well = false;
	}
	return well;
}

static bool write_file(const char *path, const struct damaged *damaged)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool done = fd >= 0 && write(fd, damaged->bytes, damaged->size) == (ssize_t)damaged->size;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Makes a sound file, which both libraries and the check must find so. */
static bool make_base(const struct programs *programs, unsigned which, const char *directory,
		      struct damage_base *base, char *expected, size_t room)
{
	static struct db_plan plan;
	char path[1100], output[4096];
	const char *bad;
	int rc;

	db_plan_make(&plan, 3, which);
	rc = db_plan_restrict(&plan, base_words[which], &bad);
	snprintf(path, sizeof(path), "%s/data.mdb", directory);
	if (!rc)
		rc = db_make(&plan, directory);
	if (!rc)
		rc = damage_base_load(base, path);
	if (rc) {
		printf("FAILED: base file %u: %d\n", which, rc);
		return false;
	}
	read_whole(programs, NULL, directory, "", expected, room);
	rc = read_whole(programs, programs->library, directory, expected, output, sizeof(output)) ==
		     READ_WHOLE &&
	     check(programs, directory, output, sizeof(output)) == 0 && !strstr(output, "warning");
	unlink(path);
	if (!rc)
		printf("FAILED: base file %u is not sound: %s", which, output);
	return rc;
}

/* Of a file without a meta page the check says that it is none, and readers say so too. */
static bool is_fitting(enum verdict worst, int check_end)
{
	return check_end == 1 || (check_end == 0 && worst < READ_ERROR) ||
	       (check_end == 2 && worst == READ_ERROR);
}

/* Damages one base `files` times. Returns how often the check was wrong. */
static unsigned long harm_base(const struct programs *programs, const struct damage_base *base,
			       unsigned which, unsigned long files, const char *directory,
			       const char *expected, unsigned long counts[VERDICTS][ENDS])
{
	struct damaged damaged = {.bytes = malloc(base->size)};
	char path[1100], output[600], found[600];
	unsigned long wrong = 0;

	snprintf(path, sizeof(path), "%s/data.mdb", directory);
	for (unsigned long n = 0; damaged.bytes && n < files; n++) {
		enum verdict ours, theirs, worst;
		int status;

		damage_make(base, which + 11, n, &damaged);
		if (!write_file(path, &damaged))
			exit(2);
		ours = read_whole(programs, programs->library, directory, expected, output,
				  sizeof(output));
		theirs = read_whole(programs, NULL, directory, expected, output, sizeof(output));
		worst = ours > theirs ? ours : theirs;
		status = check(programs, directory, found, sizeof(found));
		if (WIFEXITED(status) && WEXITSTATUS(status) < ENDS)
			counts[worst][WEXITSTATUS(status)]++;
		if (others_end(programs, directory) && WIFEXITED(status) &&
		    is_fitting(worst, WEXITSTATUS(status)))
			continue;
		wrong++;
		if (wrong <= SHOWN)
			printf("base %u file %lu (%s: %s): readers met %s, %scheck ended with %#x: "
			       "%s\n",
			       which, n, damage_kind_name(damaged.kind), damaged.what,
			       verdict_names[worst], output, status, found);
	}
	unlink(path);
	free(damaged.bytes);
	return wrong;
}

static void print_counts(unsigned long counts[VERDICTS][ENDS])
{
	printf("%-24s %14s %14s %14s\n", "readers met", "check: intact", "damaged", "unchecked");
	for (int i = 0; i < VERDICTS; i++)
		printf("%-24s %14lu %14lu %14lu\n", verdict_names[i], counts[i][0], counts[i][1],
		       counts[i][2]);
}

int main(int argc, char **argv)
{
	unsigned long counts[VERDICTS][ENDS] = {{0}}, wrong = 0;
	struct programs programs;
	char expected[4096];
	struct damage_base base;

	if (argc != 6) {
		fprintf(stderr, "usage: check_damage TOOLS-DIRECTORY DB_READ LIBRARY-DIRECTORY "
				"EMPTY-DIRECTORY FILES-PER-BASE\n");
		return 2;
	}
	programs = (struct programs){argv[1], argv[2], argv[3]};
	for (unsigned i = 0; i < BASES; i++) {
		if (!make_base(&programs, i, argv[4], &base, expected, sizeof(expected)))
			return 1;
		wrong += harm_base(&programs, &base, i, strtoul(argv[5], NULL, 10), argv[4],
				   expected, counts);
		damage_base_free(&base);
	}
	print_counts(counts);
	if (!counts[READ_WHOLE][0] || !counts[READ_ERROR][1])
		printf("FAILED: the files are no mixture\n");
	return wrong || !counts[READ_WHOLE][0] || !counts[READ_ERROR][1];
}
