/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that closes descriptors which it did not open, as daemons
 * do, and whose next files get their numbers: not a byte of those may be handed out. */
#include "habit_data.h"

#include <fcntl.h>
#include <limits.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* What a daemon closes; and all that there may be. */
enum { SOME = 64, ALL = 4096, EARLY = 10 };

struct way {
	const char *store, *io, *memory;
};

static const struct way ways[] = {
	{"arena", "direct", "64M"}, {"arena", "direct", "1M"},  {"arena", "pread", "64M"},
	{"cache", "pread", "64M"},  {"cache", "direct", "64M"}, {"auto", "auto", "64M"},
};

/* In memory that the processes share: pipes would be closed with the rest. */
static struct shared {
	sem_t read, seen;
	char path[PATH_MAX], foreign[PATH_MAX];
	int end, code, after;
	bool late; /* nothing was read before */
} * shared;

static bool shared_map(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*shared)))
		return false;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return shared != MAP_FAILED;
}

static int room_setup(void **state)
{
	static const uint8_t other[4096] = {0xa5, 0x5a};
	const char *path;
	struct stat st;
	int fd;

	(void)state;
	if (!room_make() || !shared_map(room_path("shared")) || !(path = data_make("data")))
		return -1;
	snprintf(shared->path, PATH_MAX, "%s", path);
	snprintf(shared->foreign, PATH_MAX, "%s", room_path("foreign"));
	fd = open(room_path("data/data.mdb"), O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		return -1;
	close(fd);
	fd = open(shared->foreign, O_WRONLY | O_CREAT, 0644);
	for (off_t at = 0; fd >= 0 && at < st.st_size; at += (off_t)sizeof(other))
		if (write(fd, other, sizeof(other)) != sizeof(other))
			return -1;
	return fd < 0 ? -1 : close(fd);
}

static int room_teardown(void **state)
{
	(void)state;
	room_remove();
	munmap(shared, sizeof(*shared));
	return 0;
}

/* Not for ever: the other one may have died. */
static int sem_wait_long(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 300;
	return sem_timedwait(sem, &until);
}

/* Every number from 3 on is another file's afterwards. */
static void take_places(void)
{
	int fd = open(shared->foreign, O_RDONLY);

	for (int place = 3; place < shared->end; place++)
		if (place != fd)
			(void)dup2(fd, place);
}

/* Its cursor stays open, as does what is read ahead of it. */
static int read_early(MDB_txn *txn, MDB_cursor **cursor)
{
	MDB_val key, data;
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

	if (!rc)
		rc = mdb_cursor_open(txn, dbi, cursor);
	for (unsigned i = 0; i < EARLY && !rc; i++) {
		rc = mdb_cursor_get(*cursor, &key, &data, MDB_NEXT);
		if (!rc && !data_is_record(i, 0, &key, &data))
			rc = 1;
	}
	return rc;
}

/* A worker of a program that has closed what it was to have. */
static int check_forked(MDB_env *env)
{
	int status, pid = fork();

	if (!pid)
		_exit(data_check_env(env, 0) ? 1 : 0);
	return waitpid(pid, &status, 0) == pid ? status : -1;
}

/* The first call that fails is told as its number and its code. */
static int read_on(MDB_env *env)
{
	MDB_cursor *early = NULL;
	MDB_txn *txn;
	int rc = mdb_env_open(env, shared->path, MDB_RDONLY | MDB_NOTLS, 0);

	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc && !shared->late)
		rc = read_early(txn, &early);
	if (rc)
		return rc + 1000000;
	take_places();
	rc = data_check(txn, 0);
	mdb_cursor_close(early);
	mdb_txn_abort(txn);
	if (rc)
		return rc + 2000000;
	rc = data_check_env(env, 0);
	if (rc)
		return rc + 3000000;
	rc = check_forked(env);
	return rc ? rc + 4000000 : 0;
}

/* What it has put into the node's memory stays there until another one has seen it. */
static int read_first(void)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = read_on(env);
	sem_post(&shared->read);
	(void)sem_wait_long(&shared->seen);
	mdb_env_close(env);
	return rc;
}

static int read_after(void)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = mdb_env_open(env, shared->path, MDB_RDONLY | MDB_NOTLS, 0);
	if (!rc)
		rc = data_check_env(env, 0);
	mdb_env_close(env);
	return rc;
}

/* A program of its own: the library reads its settings once. */
static int program_run(char **words)
{
	alarm(300);
	if (!shared_map(words[1]))
		return 1;
	if (strcmp(words[0], "first"))
		shared->after = read_after();
	else
		shared->code = read_first();
	return 0;
}

static int program_start(const char *which)
{
	int pid = fork();

	if (!pid) {
		execl("/proc/self/exe", "taken_places_test", which, room_path("shared"), NULL);
		_exit(127);
	}
	return pid;
}

static void settings_put(const struct way *way)
{
	static unsigned times;
	char node[64];

	snprintf(node, sizeof(node), "taken-places-%d-%u", (int)getpid(), times++);
	setenv("LMDBIO_NODE", node, 1);
	setenv("LMDBIO_STORE", way->store, 1);
	setenv("LMDBIO_IO", way->io, 1);
	setenv("LMDBIO_MEMORY", way->memory, 1);
}

static bool both_read(const struct way *way, int end, bool late)
{
	int first, second, status[2] = {-1, -1};

	settings_put(way);
	shared->end = end;
	shared->late = late;
	shared->code = shared->after = -1;
	assert_int_equal(sem_init(&shared->read, 1, 0), 0);
	assert_int_equal(sem_init(&shared->seen, 1, 0), 0);
	first = program_start("first");
	assert_int_equal(sem_wait_long(&shared->read), 0);
	second = program_start("second");
	assert_int_equal(waitpid(second, &status[1], 0), second);
	sem_post(&shared->seen);
	assert_int_equal(waitpid(first, &status[0], 0), first);
	if (!shared->code && !shared->after && !status[0] && !status[1])
		return true;
	print_message("%s, %s, %s, descriptors up to %d, %s: %d (%d), and %d (%d) after it\n",
		      way->store, way->io, way->memory, end, late ? "late" : "early", shared->code,
		      status[0], shared->after, status[1]);
	return false;
}

static void all_ways_read(int end)
{
	unsigned failed = 0;

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		for (int late = 0; late < 2; late++)
			failed += !both_read(&ways[i], end, late);
	assert_int_equal(failed, 0);
}

static void low_numbers_taken_then_all_is_read(void **state)
{
	(void)state;
	all_ways_read(SOME);
}

static void all_numbers_taken_then_all_is_read(void **state)
{
	(void)state;
	all_ways_read(ALL);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(low_numbers_taken_then_all_is_read, room_setup,
						room_teardown),
		cmocka_unit_test_setup_teardown(all_numbers_taken_then_all_is_read, room_setup,
						room_teardown),
	};

	if (argc == 3)
		return program_run(argv + 1);
	alarm(1200);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
