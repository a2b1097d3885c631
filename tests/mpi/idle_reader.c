/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a little of a data set, then waits, and tells what the service of its node costs meanwhile. */
#include <errno.h>
#include <lmdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 20, SETTLE_MS = 300, WINDOW_MS = 4000 };

/* Microseconds that a process has had of processors; -1: it is gone. The kernel's exact account:
 * its ticks are charged to the process that a busy machine happens to interrupt. */
static long processor_us(pid_t pid)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &used))
		return -1;
	return used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

/* The server beside this program: a child of the same lmdbio-run. 0: there is none. */
static pid_t server_find(void)
{
	char path[64], name[32];
	FILE *children, *comm;
	int pid, found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)getppid(), (int)getppid());
	children = fopen(path, "re");
	while (children && !found && fscanf(children, "%d", &pid) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		comm = fopen(path, "re");
		if (comm && fgets(name, sizeof(name), comm) && !strcmp(name, "lmdbio-server\n"))
			found = pid;
		if (comm)
			fclose(comm);
	}
	if (children)
		fclose(children);
	return found;
}

static long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000 + now.tv_nsec / 1000;
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

/* Waits for bytes in a pipe that no process writes to. */
static void wait_for(int fd, int ms)
{
	struct pollfd never = {.fd = fd, .events = POLLIN};

	(void)poll(&never, 1, ms);
}

/* Tells the processor time of the server and of this process in a window in which this one has
 * nothing to do, and 2 % of the window, in microseconds. */
int main(int argc, char **argv)
{
	MDB_env *env = NULL;
	long served, self, began;
	pid_t server;
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
	began = now_us();
	server = server_find();
	served = server ? processor_us(server) : -1;
	self = processor_us(getpid());
	wait_for(ends[0], WINDOW_MS);
	printf("%ld %ld %ld\n", processor_us(server) - served, processor_us(getpid()) - self,
	       (now_us() - began) * 2 / 100);
	mdb_env_close(env);
	return served < 0 || self < 0;
}
