/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what calls on handles say that are older than what they lead to, and environments that others make or change.
 * The answers are those of LMDB 0.9.24.
 */
#include "config.h"
#include "habit_data.h"

#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static MDB_env *env_opened(const char *path, unsigned flags, MDB_dbi dbs)
{
	MDB_env *env;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, dbs), 0);
	assert_int_equal(mdb_env_open(env, path, flags, 0664), 0);
	return env;
}

static MDB_txn *txn_begun(MDB_env *env)
{
	MDB_txn *txn;

	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	return txn;
}

/* What another process does to the named database "d", with the original alone. */
struct change {
	const char *path;
	unsigned records; /* put */
	size_t size;      /* of a record's data */
	bool drops;
	size_t mapsize;
};

static int change_make(void *context)
{
	const struct change *change = context;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	void *bytes = calloc(1, change->size + 1);
	int rc = lmdbio_orig_mdb_env_create(&env);

	lmdbio_orig_mdb_env_set_maxdbs(env, 4);
	if (change->mapsize)
		lmdbio_orig_mdb_env_set_mapsize(env, change->mapsize);
	rc = lmdbio_orig_mdb_env_open(env, change->path, 0, 0664);
	if (!rc)
		rc = lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn);
	if (!rc)
		rc = lmdbio_orig_mdb_dbi_open(txn, "d", MDB_CREATE, &dbi);
	for (unsigned i = 0; i < change->records && !rc; i++) {
		MDB_val key = {sizeof(i), &i}, data = {change->size, bytes};

		rc = lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0);
	}
	if (!rc && change->drops)
		rc = lmdbio_orig_mdb_drop(txn, dbi, 1);
	if (!rc)
		rc = lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_env_close(env);
	free(bytes);
	return rc;
}

static void database_when_dropped_then_a_renewed_transaction_tells_what_it_was(void **state)
{
	struct change change = {.path = data_make("data"), .records = 500};
	MDB_env *env;
	MDB_txn *txn;
	MDB_stat stat;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(child_run(change_make, &change), 0);
	env = env_opened(change.path, MDB_RDONLY, 4);
	txn = txn_begun(env);
	assert_int_equal(mdb_dbi_open(txn, "d", 0, &dbi), 0);
	assert_int_equal(mdb_stat(txn, dbi, &stat), 0);
	assert_int_equal(stat.ms_entries, 500);
	assert_int_equal(mdb_txn_commit(txn), 0);
	txn = txn_begun(env);
	assert_int_equal(mdb_stat(txn, dbi, &stat), 0);
	mdb_txn_reset(txn);
	change = (struct change){.path = change.path, .drops = true};
	assert_int_equal(child_run(change_make, &change), 0);
	assert_int_equal(mdb_txn_renew(txn), 0);
	assert_int_equal(mdb_stat(txn, dbi, &stat), 0);
	assert_int_equal(stat.ms_entries, 500);
	mdb_txn_abort(txn);
	txn = txn_begun(env);
	assert_int_equal(mdb_stat(txn, dbi, &stat), 0);
	assert_int_equal(stat.ms_entries, 0);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void handle_when_closed_then_its_database_is_not_found(void **state)
{
	struct change change = {.path = data_make("data"), .records = 10};
	char letter = 'k';
	MDB_val key = {1, &letter}, data;
	MDB_cursor *cursor;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(child_run(change_make, &change), 0);
	env = env_opened(change.path, MDB_RDONLY, 4);
	txn = txn_begun(env);
	assert_int_equal(mdb_dbi_open(txn, "d", 0, &dbi), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	txn = txn_begun(env);
	mdb_dbi_close(env, dbi);
	assert_int_equal(mdb_get(txn, dbi, &key, &data), MDB_NOTFOUND);
	assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
	assert_int_equal(mdb_cursor_get(cursor, &key, &data, MDB_FIRST), MDB_NOTFOUND);
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

static void renewal_when_the_file_has_outgrown_the_map_then_the_new_id_is_told(void **state)
{
	struct change change = {.path = data_make("data")};
	MDB_envinfo info;
	MDB_env *env;
	MDB_txn *txn;
	size_t before;

	(void)state;
	assert_non_null(change.path);
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, change.path, MDB_RDONLY, 0), 0);
	txn = txn_begun(env);
	before = mdb_txn_id(txn);
	mdb_txn_reset(txn);
	assert_int_equal(mdb_env_info(env, &info), 0);
	change.mapsize = 4 * info.me_mapsize;
	change.size = 1 << 20;
	change.records = (unsigned)(info.me_mapsize / change.size) + 1;
	assert_int_equal(child_run(change_make, &change), 0);
	assert_int_equal(mdb_txn_renew(txn), MDB_MAP_RESIZED);
	assert_int_equal(mdb_txn_id(txn), before + 1);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* A sanitizer's calloc(3) touches memory of its own, in the original's transactions too. */
#ifdef __SANITIZE_ADDRESS__
enum { MOST_FAULTS = 20000 };
#elif defined(__SANITIZE_THREAD__)
enum { MOST_FAULTS = 120000 };
#else
enum { MOST_FAULTS = 1000 };
#endif

static uint64_t faults_so_far(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
	return (uint64_t)usage.ru_minflt;
}

static void transaction_when_many_databases_are_allowed_then_touches_those_in_use(void **state)
{
	MDB_env *env = env_opened(data_make("data"), MDB_RDONLY, 1 << 20);
	uint64_t before;

	(void)state;
	mdb_txn_abort(txn_begun(env));
	before = faults_so_far();
	for (unsigned i = 0; i < 3; i++)
		mdb_txn_abort(txn_begun(env));
	assert_in_range(faults_so_far() - before, 0, MOST_FAULTS);
	mdb_env_close(env);
}

/* How a program closes its environment before it ends a transaction of it. */
struct outlived {
	const char *path;
	unsigned flags;
	unsigned txn_flags;
	bool resets, commits;
};

/* In a process of its own: the original's transaction stays allocated. */
static int transaction_outlives(void *context)
{
	const struct outlived *outlived = context;
	MDB_env *env = env_opened(outlived->path, outlived->flags, 4);
	MDB_cursor *cursor;
	MDB_txn *txn, *spare;
	MDB_dbi dbi;
	int rc = 0;

	if (mdb_txn_begin(env, NULL, outlived->txn_flags, &txn) || mdb_dbi_open(txn, NULL, 0, &dbi))
		return 1;
	if (mdb_cursor_open(txn, dbi, &cursor))
		return 2;
	if (outlived->flags & MDB_NOTLS) {
		spare = txn_begun(env);
		mdb_txn_abort(spare);
	}
	if (outlived->resets)
		mdb_txn_reset(txn);
	mdb_env_close(env);
	mdb_txn_reset(txn);
	if (mdb_txn_renew(txn) != EINVAL)
		return 3;
	if (outlived->txn_flags & MDB_RDONLY)
		mdb_cursor_close(cursor);
	if (outlived->commits)
		rc = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	return rc;
}

/* With LMDB this works if the transaction was reset, though lmdb.h forbids it. */
static void transaction_when_its_environment_is_closed_first_then_can_be_ended(void **state)
{
	static const unsigned flags[] = {MDB_RDONLY, MDB_RDONLY | MDB_NOTLS,
					 MDB_RDONLY | MDB_NOLOCK, 0, MDB_NOTLS};
	const char *path = data_make("data");

	(void)state;
	for (unsigned i = 0; i < 4 * sizeof(flags) / sizeof(flags[0]); i++) {
		struct outlived outlived = {.path = path,
					    .flags = flags[i / 4],
					    .txn_flags = MDB_RDONLY,
					    .resets = i & 1,
					    .commits = i & 2};

		assert_int_equal(child_run(transaction_outlives, &outlived), 0);
		outlived.txn_flags = 0;
		if (!(outlived.flags & (MDB_RDONLY | MDB_NOTLS)))
			assert_int_equal(child_run(transaction_outlives, &outlived),
					 outlived.commits ? EINVAL : 0);
	}
}

/* A transaction that reads in a writable environment is the original's, and a cursor may outlive it. */
static void cursor_when_its_transaction_has_ended_then_tells_which_it_was(void **state)
{
	MDB_env *env = env_opened(data_make("data"), 0, 4);
	MDB_txn *txn = txn_begun(env);
	MDB_cursor *cursor;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
	mdb_txn_abort(txn);
	assert_ptr_equal(mdb_cursor_txn(cursor), txn);
	mdb_cursor_close(cursor);
	mdb_env_close(env);
}

static int child_reads(void *context)
{
	return data_check_env(context, 0);
}

static int slot_line(const char *line, void *context)
{
	bool *found = context;
	char mine[16];

	/* Whose transaction has ended has a dash. */
	snprintf(mine, sizeof(mine), "%10d ", (int)getpid());
	if (!strncmp(line, mine, strlen(mine)) && !strchr(line, '-'))
		*found = true;
	return 0;
}

/* Under locks with a reader slot of the child's own, which keeps its snapshot whatever its parent does. */
static int child_reads_under_its_name(MDB_env *env)
{
	MDB_txn *txn;
	bool found;
	unsigned flags;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc || (rc = mdb_env_get_flags(env, &flags)))
		return rc;
	found = flags & MDB_NOLOCK;
	if (mdb_reader_list(env, slot_line, &found) < 0 || !found)
		return 2;
	mdb_txn_abort(txn);
	return child_reads(env);
}

static int child_loses_its_rights_and_reads(void *context)
{
	if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 3;
	return child_reads_under_its_name(context);
}

static int child_changes_its_root_and_reads(void *context)
{
	return chroot(room_path("data")) || chdir("/") ? 3 : child_reads_under_its_name(context);
}

static int child_moves_the_data_and_reads(void *context)
{
	if (rename(room_path("data"), room_path("moved")))
		return 3;
	return child_reads_under_its_name(context);
}

/* With and without locks. An original that is held by dlopen() opens the lock file by its path alone. */
static const unsigned lockings[] = {
	MDB_NOLOCK | MDB_NOTLS,
#ifndef ORIGIN_LIBRARY
	MDB_NOTLS,
	0,
#endif
};

/* As a daemon does that opens its files before it gives up its privileges. */
static void child_when_it_could_not_open_the_file_then_reads_all_the_same(void **state)
{
	const char *path = data_make("data");
	MDB_env *env;

	(void)state;
	if (geteuid())
		skip(); /* chroot(2) and setresuid(2) are root's */
	assert_int_equal(chmod(path, 0700), 0);
	for (size_t i = 0; i < sizeof(lockings) / sizeof(lockings[0]); i++) {
		env = env_opened(path, MDB_RDONLY | lockings[i], 0);
		assert_int_equal(child_run(child_loses_its_rights_and_reads, env), 0);
		assert_int_equal(child_run(child_changes_its_root_and_reads, env), 0);
		assert_int_equal(data_check_env(env, 0), 0);
		mdb_env_close(env);
	}
}

static void child_when_the_directory_is_moved_then_reads(void **state)
{
	MDB_env *env;

	(void)state;
	for (size_t i = 0; i < sizeof(lockings) / sizeof(lockings[0]); i++) {
		env = env_opened(data_make("data"), MDB_RDONLY | lockings[i], 0);
		assert_int_equal(child_run(child_moves_the_data_and_reads, env), 0);
		assert_int_equal(data_check_env(env, 0), 0);
		mdb_env_close(env);
		room_remove();
		assert_non_null(room_make());
	}
}

static int child_asks_for_the_path(void *context)
{
	const char *path = NULL;
	int rc = child_reads(context);

	if (!rc)
		rc = mdb_env_get_path(context, &path);
	return rc ? rc : strcmp(path, "data") != 0;
}

static void child_when_the_path_is_relative_then_is_told_what_the_parent_gave(void **state)
{
	int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MDB_env *env;

	(void)state;
	assert_true(here >= 0);
	assert_non_null(data_make("data"));
	assert_int_equal(chdir(room_path("")), 0);
	env = env_opened("data", MDB_RDONLY, 0);
	assert_int_equal(fchdir(here), 0);
	close(here);
	assert_int_equal(child_run(child_asks_for_the_path, env), 0);
	mdb_env_close(env);
}

static void child_when_the_map_has_a_fixed_address_then_reads(void **state)
{
	const uint64_t address = UINT64_C(0x7e9000000000), at = 24; /* in a meta page */
	const char *path = data_make("data");
	char name[256];
	MDB_env *env;
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "%s/data.mdb", path);
	fd = open(name, O_WRONLY | O_CLOEXEC);
	for (int page = 0; page < 2; page++)
		assert_int_equal(pwrite(fd, &address, sizeof(address),
					page * sysconf(_SC_PAGESIZE) + (off_t)at),
				 sizeof(address));
	assert_int_equal(close(fd), 0);
	env = env_opened(path, MDB_RDONLY | MDB_FIXEDMAP, 0);
	assert_int_equal(child_run(child_reads, env), 0);
	mdb_env_close(env);
}

struct creation {
	const char *from; /* a data set that is whole */
	char path[256];
	int locked[2]; /* a pipe: the creator has the lock */
};

static int file_put(const char *to, const char *from)
{
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CLOEXEC);
	char bytes[4096];
	ssize_t n = in < 0 || out < 0 ? -1 : 0;

	while (n >= 0 && (n = read(in, bytes, sizeof(bytes))) > 0)
		if (write(out, bytes, (size_t)n) != n)
			n = -1;
	close(in);
	/* Not closed: that would release the lock. */
	return n ? 1 : 0;
}

/* Whether a process waits for a lock of this one's. */
static bool is_awaited(void)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], mine[32];
	bool held = false, awaited = false;

	if (!locks)
		return true;
	snprintf(mine, sizeof(mine), " %d ", (int)getpid());
	while (!awaited && fgets(line, sizeof(line), locks)) {
		if (strstr(line, "->"))
			awaited = held;
		else
			held = strstr(line, mine);
	}
	fclose(locks);
	return awaited;
}

/* As the original does when there is none yet: it has the lock file for itself until the data file is made. */
static int creator(void *context)
{
	const struct creation *creation = context;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char data[300], locks[300], from[300];
	int fd;

	/* A test that fails does not wait for its child. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return 4;
	snprintf(data, sizeof(data), "%s/data.mdb", creation->path);
	snprintf(locks, sizeof(locks), "%s/lock.mdb", creation->path);
	fd = open(locks, O_RDWR | O_CREAT | O_CLOEXEC, 0664);
	if (fd < 0 || fcntl(fd, F_SETLK, &lock) ||
	    close(open(data, O_RDWR | O_CREAT | O_CLOEXEC, 0664)) ||
	    write(creation->locked[1], "", 1) != 1)
		return 1;
	while (!is_awaited())
		usleep(1000);
	snprintf(from, sizeof(from), "%s/lock.mdb", creation->from);
	if (file_put(locks, from))
		return 2;
	snprintf(from, sizeof(from), "%s/data.mdb", creation->from);
	return file_put(data, from) ? 3 : 0;
}

static void environment_when_another_process_makes_it_then_open_waits(void **state)
{
	struct creation creation = {.from = data_make("whole")};
	struct child child;
	MDB_env *env;
	char byte;

	(void)state;
	assert_non_null(creation.from);
	snprintf(creation.path, sizeof(creation.path), "%s", room_path("made"));
	assert_int_equal(mkdir(creation.path, 0755), 0);
	assert_int_equal(pipe(creation.locked), 0);
	/* So that it has a lock file that others have used. */
	mdb_env_close(env_opened(creation.from, MDB_RDONLY, 0));
	child = child_start(creator, &creation);
	assert_int_equal(read(creation.locked[0], &byte, 1), 1);
	env = env_opened(creation.path, MDB_RDONLY, 0);
	assert_int_equal(child_result(&child), 0);
	assert_int_equal(data_check_env(env, 0), 0);
	mdb_env_close(env);
	close(creation.locked[0]);
	close(creation.locked[1]);
}

/* Far behind the file's end. */
static struct flock far_lock(void)
{
	return (struct flock){
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)1 << 40, .l_len = 1};
}

static int child_finds_the_lock(void *context)
{
	struct flock lock = far_lock();

	return fcntl(*(const int *)context, F_GETLK, &lock) || lock.l_type == F_UNLCK;
}

/* With MDB_NOLOCK a program keeps writers out by locks of its own, on the data file for instance. The kernel takes those
 * of fcntl(2) away when any descriptor of the file is closed. */
static void lock_of_the_program_when_it_reads_then_stays(void **state)
{
	enum { MANY = 510 /* from 500 on it is looked whether there are enough descriptors */ };
	const char *path = data_make("data");
	int numbers[MANY], used = 0;
	char name[256];

	(void)state;
	snprintf(name, sizeof(name), "%s/data.mdb", path);
	for (int many = 0; many < 2; many++) {
		struct flock lock = far_lock();
		int fd = open(name, O_RDWR | O_CLOEXEC);
		MDB_env *env;

		assert_int_equal(fsync(fd), 0);
		assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
		assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
		while (many && used < MANY)
			numbers[used++] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		env = env_opened(path, MDB_RDONLY | MDB_NOLOCK | MDB_NORDAHEAD, 0);
		assert_int_equal(child_run(child_finds_the_lock, &fd), 0);
		assert_int_equal(data_check_env(env, 0), 0);
		assert_int_equal(child_run(child_finds_the_lock, &fd), 0);
		mdb_env_close(env);
		close(fd);
	}
	while (used)
		close(numbers[--used]);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, room_begin, room_end)
	static const struct CMUnitTest tests[] = {
		CASE(database_when_dropped_then_a_renewed_transaction_tells_what_it_was),
		CASE(handle_when_closed_then_its_database_is_not_found),
		CASE(renewal_when_the_file_has_outgrown_the_map_then_the_new_id_is_told),
		CASE(transaction_when_many_databases_are_allowed_then_touches_those_in_use),
		CASE(transaction_when_its_environment_is_closed_first_then_can_be_ended),
		CASE(cursor_when_its_transaction_has_ended_then_tells_which_it_was),
		CASE(child_when_it_could_not_open_the_file_then_reads_all_the_same),
		CASE(child_when_the_directory_is_moved_then_reads),
		CASE(child_when_the_path_is_relative_then_is_told_what_the_parent_gave),
		CASE(child_when_the_map_has_a_fixed_address_then_reads),
		CASE(environment_when_another_process_makes_it_then_open_waits),
		CASE(lock_of_the_program_when_it_reads_then_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
