/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what the service of a node costs while its program computes, or waits.
 */
#include <errno.h>
#include <lmdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 20, SETTLE_MS = 300, WINDOW_MS = 4000 };

/* Hundredths of a second, or what the kernel counts in, that a process has had of processors. */
static long ticks_of(pid_t pid)
{
	char path[64], line[1024] = "";
	unsigned long user = 0, kernel = 0;
	FILE *file;
	char *end;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	(void)!fgets(line, sizeof(line), file);
	fclose(file);
	end = strrchr(line, ')'); /* a name may hold anything */
	if (!end || sscanf(end, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
			   &kernel) != 2)
		return -1;
	return (long)(user + kernel);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int read_a_little(MDB_env *env)
{
	MDB_cursor *cursor = NULL;
	MDB_val key, value;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = mdb_cursor_open(txn, dbi, &cursor);
	for (int n = 0; n < RECORDS && !rc; n++)
		rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	if (cursor)
		mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	return rc;
}

/* Waits for bytes in a pipe that nobody writes to. */
static void wait_for(int fd, int ms)
{
	struct pollfd never = {.fd = fd, .events = POLLIN};

	(void)poll(&never, 1, ms);
}

/* Tells the ticks of the parent and of this process in a window in which this one has nothing to
 * do, and how many there are in 2 % of it. */
int main(int argc, char **argv)
{
	MDB_env *env = NULL;
	long parent, self, began;
	int ends[2], rc;

	if (argc != 2 || pipe(ends))
		return 2;
	rc = mdb_env_create(&env);
	if (!rc)
		rc = mdb_env_open(env, argv[1], MDB_RDONLY | MDB_NOLOCK, 0);
	if (!rc)
		rc = read_a_little(env);
	if (rc) {
		fprintf(stderr, "%s: %s\n", argv[1], mdb_strerror(rc));
		return 1;
	}
	wait_for(ends[0], SETTLE_MS);
	began = now_ms();
	parent = ticks_of(getppid());
	self = ticks_of(getpid());
	wait_for(ends[0], WINDOW_MS);
	printf("%ld %ld %ld\n", ticks_of(getppid()) - parent, ticks_of(getpid()) - self,
	       (now_ms() - began) * sysconf(_SC_CLK_TCK) * 2 / 100 / 1000);
	mdb_env_close(env);
	return parent < 0 || self < 0;
}
