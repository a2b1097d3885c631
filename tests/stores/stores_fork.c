/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a reader and its forked child do not disturb each other while an arena is in use,
 * whichever of them evicts, goes on or dies.
 *
 * Each round runs below a process of its own, with an alarm against deadlocks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUND_SECONDS = 300 };

struct expected {
	const char *path;
	uint64_t records, hash;
};

/* What a parent has read before it forks, with the pointers that it got. */
struct half {
	struct stores_db db;
	struct stores_sum sum;
	MDB_val *pairs;
	uint64_t *hashes;
	uint64_t kept;
};

static int fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %d %s\n", what, rc, mdb_strerror(rc));
	return 1;
}

static int read_half(struct half *half, const struct expected *expected, uint64_t records)
{
	MDB_cursor_op op = MDB_FIRST;
	int rc;

	memset(half, 0, sizeof(*half));
	half->pairs = calloc(2 * records + 2, sizeof(*half->pairs));
	half->hashes = calloc(records + 1, sizeof(*half->hashes));
	rc = half->pairs && half->hashes
		     ? stores_open(&half->db, expected->path, MDB_NORDAHEAD | MDB_NOTLS)
		     : ENOMEM;
	if (!rc)
		rc = stores_begin(&half->db);
	for (; !rc && half->kept < records; half->kept++, op = MDB_NEXT) {
		MDB_val *pair = &half->pairs[2 * half->kept];

		rc = mdb_cursor_get(half->db.cursor, &pair[0], &pair[1], op);
		if (rc)
			break;
		half->hashes[half->kept] = stores_hash(&pair[0], &pair[1]);
		stores_take(&half->sum, &pair[0], &pair[1]);
	}
	return rc ? fail("the first half", rc) : 0;
}

static int read_rest(struct half *half, const struct expected *expected, const char *who)
{
	const struct stores_walk walk = {0};
	int rc = stores_scan(&half->db, &walk, true, &half->sum);

	if (rc)
		return fail(who, rc);
	if (half->sum.hash != expected->hash || half->sum.records != expected->records)
		return fail(who, MDB_CORRUPTED);
	return 0;
}

static int read_whole(struct half *half, const struct expected *expected, const char *who)
{
	struct stores_db db = {.env = half->db.env};
	const struct stores_walk walk = {0};
	struct stores_sum sum = {0};
	int rc = stores_begin(&db);

	if (!rc)
		rc = stores_scan(&db, &walk, false, &sum);
	stores_end(&db);
	if (!rc && (sum.hash != expected->hash || sum.records != expected->records))
		rc = MDB_CORRUPTED;
	return rc ? fail(who, rc) : 0;
}

static int read_kept(const struct half *half, const char *who)
{
	for (uint64_t i = 0; i < half->kept; i++)
		if (stores_hash(&half->pairs[2 * i], &half->pairs[2 * i + 1]) != half->hashes[i])
			return fail(who, MDB_CORRUPTED);
	return 0;
}

/* Tells another process this one's id, and thereby that it has come this far. */
static void say(int fd)
{
	pid_t self = getpid();

	if (write(fd, &self, sizeof(self)) != sizeof(self))
		_exit(fail("write", errno));
}

static pid_t hear(int fd)
{
	pid_t other;

	if (read(fd, &other, sizeof(other)) != sizeof(other))
		_exit(fail("read", errno));
	return other;
}

static int end_of(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		return fail("waitpid", errno);
	if (WIFSIGNALED(status)) {
		fprintf(stderr, "the child died: %s\n", strsignal(WTERMSIG(status)));
		return 1;
	}
	return WEXITSTATUS(status);
}

static pid_t fork_child(void)
{
	pid_t child = fork();

	if (child < 0)
		exit(fail("fork", errno));
	if (child == 0)
		alarm(ROUND_SECONDS); /* an alarm is not inherited */
	return child;
}

/* Parent and child go on at the same time, the child with the transaction that it has inherited. */
static int both_finish_the_same_transaction(const struct expected *expected, uint64_t records)
{
	struct half half;
	pid_t child;

	if (read_half(&half, expected, records))
		return 1;
	child = fork_child();
	if (child == 0)
		_exit(read_rest(&half, expected, "child") || read_kept(&half, "child, kept"));
	return read_rest(&half, expected, "parent") | read_kept(&half, "parent, kept") |
	       end_of(child);
}

static int child_begins_a_transaction(const struct expected *expected, uint64_t records)
{
	struct half half;
	pid_t child;

	if (read_half(&half, expected, records))
		return 1;
	child = fork_child();
	if (child == 0)
		_exit(read_whole(&half, expected, "child, new transaction") ||
		      read_rest(&half, expected, "child, old transaction"));
	return read_rest(&half, expected, "parent") | end_of(child);
}

/* The child reads by its old pointers after the parent has read everything else. */
static int pointers_outlive_what_the_parent_does(const struct expected *expected, uint64_t records)
{
	struct half half;
	int ends[2], rc;
	pid_t child;

	if (pipe(ends) || read_half(&half, expected, records))
		return 1;
	child = fork_child();
	if (child == 0) {
		hear(ends[0]);
		_exit(read_kept(&half, "child, kept"));
	}
	rc = read_rest(&half, expected, "parent") | read_whole(&half, expected, "parent again");
	stores_close(&half.db);
	say(ends[1]);
	return rc | end_of(child);
}

static int child_dies(const struct expected *expected, uint64_t records)
{
	struct half half;
	int ends[2], rc;
	pid_t child;

	if (pipe(ends) || read_half(&half, expected, records))
		return 1;
	child = fork_child();
	if (child == 0) {
		say(ends[1]);
		for (;;)
			if (read_whole(&half, expected, "child"))
				_exit(1);
	}
	hear(ends[0]);
	rc = read_whole(&half, expected, "parent beside a child");
	kill(child, SIGKILL);
	rc |= read_rest(&half, expected, "parent") | read_whole(&half, expected, "parent alone");
	waitpid(child, NULL, 0);
	return rc;
}

/* The forking process is killed; its child, then an orphan of this process, goes on. */
static int parent_dies(const struct expected *expected, uint64_t records)
{
	int ready[2], dead[2];
	struct half half;
	pid_t parent, child;

	if (pipe(ready) || pipe(dead) || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
		return fail("pipe", errno);
	parent = fork_child();
	if (parent == 0) {
		if (read_half(&half, expected, records))
			_exit(1);
		child = fork_child();
		if (child == 0) {
			int rc = read_whole(&half, expected, "child beside its parent");

			say(ready[1]);
			hear(dead[0]);
			_exit(rc || read_rest(&half, expected, "orphan") ||
			      read_kept(&half, "orphan, kept") ||
			      read_whole(&half, expected, "orphan, new transaction"));
		}
		for (;;)
			if (read_whole(&half, expected, "parent"))
				_exit(1);
	}
	child = hear(ready[0]);
	kill(parent, SIGKILL);
	if (waitpid(parent, NULL, 0) != parent)
		return fail("waitpid", errno);
	say(dead[1]);
	return end_of(child);
}

/* Workers that live for an epoch, as PyTorch's do, below a program that itself reads nothing. */
static int children_come_and_go(const struct expected *expected, uint64_t records)
{
	struct half half;
	int rc = 0;

	(void)records;
	if (read_half(&half, expected, 0))
		return 1;
	for (int epoch = 0; epoch < 3 && !rc; epoch++) {
		pid_t child = fork_child();

		if (child == 0)
			_exit(read_whole(&half, expected, "worker"));
		rc = end_of(child);
	}
	stores_close(&half.db);
	return rc;
}

static const struct {
	const char *name;
	int (*run)(const struct expected *expected, uint64_t records);
} rounds[] = {
	{"both_finish_the_same_transaction", both_finish_the_same_transaction},
	{"child_begins_a_transaction", child_begins_a_transaction},
	{"pointers_outlive_what_the_parent_does", pointers_outlive_what_the_parent_does},
	{"child_dies", child_dies},
	{"parent_dies", parent_dies},
	{"children_come_and_go", children_come_and_go},
};

int main(int argc, char **argv)
{
	struct expected expected;
	unsigned failures = 0;
	uint64_t times;

	if (argc < 5 || argc > 6) {
		fprintf(stderr, "usage: stores_fork DIRECTORY RECORDS HASH TIMES [ROUND]\n");
		return 2;
	}
	expected =
		(struct expected){argv[1], strtoull(argv[2], NULL, 0), strtoull(argv[3], NULL, 16)};
	times = strtoull(argv[4], NULL, 0);
	for (uint64_t i = 0; i < times; i++)
		for (size_t r = 0; r < sizeof(rounds) / sizeof(rounds[0]); r++) {
			/* From almost nothing read to almost everything, at other points each
			 * time. */
			uint64_t records = expected.records * (1 + 2 * i) / (2 * times);
			pid_t child;

			if (argc == 6 && strcmp(rounds[r].name, argv[5]))
				continue;
			fflush(stdout);
			child = fork();
			if (child == 0) {
				alarm(ROUND_SECONDS);
				_exit(rounds[r].run(&expected, i ? records : i));
			}
			if (child > 0 && end_of(child) == 0)
				continue;
			failures++;
			printf("NOT OK %s after %llu records\n", rounds[r].name,
			       (unsigned long long)records);
		}
	printf("%u rounds wrong\n", failures);
	return failures != 0;
}
