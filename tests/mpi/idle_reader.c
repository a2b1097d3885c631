/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a little of a data set, then waits, and reports the processor time of the job's servers
 * meanwhile. */
#include <errno.h>
#include <lmdb.h>
#include <poll.h>
#include <stdbool.h>
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

static pid_t parent_of(pid_t pid)
{
	char path[64];
	FILE *file;
	int parent = 0;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%*d (%*[^)]) %*c %d", &parent) != 1)
		parent = 0;
	if (file)
		fclose(file);
	return parent;
}

static bool is_server(pid_t pid)
{
	char path[64], name[32] = "";
	FILE *comm;

	snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
	comm = fopen(path, "re");
	if (comm && !fgets(name, sizeof(name), comm))
		name[0] = 0;
	if (comm)
		fclose(comm);
	return !strcmp(name, "lmdbio-server\n");
}

static FILE *children_of(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	return fopen(path, "re");
}

/* Returns the processor time of all servers of the job. They are children of the lmdbio-run
 * processes, which are children of the launcher, as this program's own parent is. *servers: their
 * number. */
static long servers_us(int *servers)
{
	FILE *runs = children_of(parent_of(getppid())), *children;
	long sum = 0, used;
	int run, pid;

	*servers = 0;
	while (runs && fscanf(runs, "%d", &run) == 1) {
		children = children_of(run);
		while (children && fscanf(children, "%d", &pid) == 1) {
			used = is_server(pid) ? processor_us(pid) : -1;
			if (used < 0)
				continue;
			++*servers;
			sum += used;
		}
		if (children)
			fclose(children);
	}
	if (runs)
		fclose(runs);
	return sum;
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

/* Waits for bytes in a pipe to which no process writes. */
static void wait_for(int fd, int ms)
{
	struct pollfd never = {.fd = fd, .events = POLLIN};

	(void)poll(&never, 1, ms);
}

/* Reports the processor time of the job's servers and of this process, in microseconds, during a
 * window in which this process is idle; 1 % of the window; and the number of servers. With "once"
 * the program ends after it has read. */
int main(int argc, char **argv)
{
	MDB_env *env = NULL;
	int ends[2], rc, before, servers;
	long served, self, began;

	if (argc < 2 || argc > 3 || pipe(ends))
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
	if (argc == 3) {
		mdb_env_close(env);
		return 0;
	}
	wait_for(ends[0], SETTLE_MS);
	began = now_us();
	served = servers_us(&before);
	self = processor_us(getpid());
	wait_for(ends[0], WINDOW_MS);
	served = servers_us(&servers) - served;
	printf("%ld %ld %ld %d\n", served, processor_us(getpid()) - self,
	       (now_us() - began) / 100, servers);
	mdb_env_close(env);
	return !servers || servers != before;
}
