/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the habit tests' data, rooms and child processes are made. */
#include "habit_data.h"

#include "origin/origin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char room[PATH_MAX / 2];

const char *room_make(void)
{
	const char *temporary = getenv("TMPDIR");

	snprintf(room, sizeof(room), "%s/lmdbio-habit.XXXXXX", temporary ? temporary : "/tmp");
	return mkdtemp(room) && !chmod(room, 0755) ? room : NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void room_remove(void)
{
	if (*room)
		nftw(room, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	*room = 0;
}

int room_begin(void **state)
{
	(void)state;
	return room_make() ? 0 : -1;
}

int room_end(void **state)
{
	(void)state;
	room_remove();
	return 0;
}

const char *room_path(const char *name)
{
	static char paths[8][PATH_MAX];
	static unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, PATH_MAX, "%s/%s", room, name);
	return path;
}

static size_t record_size(unsigned i, unsigned version)
{
	return 4 + (i * 337 + version * 59) % 11000;
}

static unsigned char record_byte(unsigned i, unsigned version, size_t at)
{
	return (unsigned char)(i * 31 + version * 7 + at * 13 + (at >> 8));
}

static void record_make(unsigned i, unsigned version, char *key, unsigned char *bytes)
{
	snprintf(key, 16, "%08u_k", i);
	for (size_t at = 0; at < record_size(i, version); at++)
		bytes[at] = record_byte(i, version, at);
}

bool data_is_record(unsigned i, unsigned version, const MDB_val *key, const MDB_val *data)
{
	char expected[16];
	const unsigned char *bytes = data->mv_data;

	snprintf(expected, sizeof(expected), "%08u_k", i);
	if (key->mv_size != strlen(expected) || memcmp(key->mv_data, expected, key->mv_size) ||
	    data->mv_size != record_size(i, version))
		return false;
	for (size_t at = 0; at < data->mv_size; at++)
		if (bytes[at] != record_byte(i, version, at))
			return false;
	return true;
}

static int records_put(MDB_env *env, unsigned version)
{
	static unsigned char bytes[12000];
	char text[16];
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi);
	for (unsigned i = 0; i < DATA_RECORDS && !rc; i++) {
		MDB_val key = {10, text};
		MDB_val data = {record_size(i, version), bytes};

		record_make(i, version, text, bytes);
		rc = lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0);
	}
	if (!rc)
		return lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_txn_abort(txn);
	return rc;
}

struct writing {
	const char *path;
	unsigned first, count;
};

static int records_write(void *context)
{
	const struct writing *writing = context;
	MDB_env *env;
	int dead;
	int rc = lmdbio_orig_mdb_env_create(&env);

	if (rc)
		return rc;
	rc = lmdbio_orig_mdb_env_set_mapsize(env, 1 << 28);
	if (!rc)
		rc = lmdbio_orig_mdb_env_open(env, writing->path, MDB_NOSYNC, 0644);
	if (!rc)
		rc = lmdbio_orig_mdb_reader_check(env, &dead);
	for (unsigned i = 0; i < writing->count && !rc; i++)
		rc = records_put(env, writing->first + i);
	lmdbio_orig_mdb_env_close(env);
	return rc;
}

const char *data_make(const char *name)
{
	struct writing writing = {room_path(name), 0, 1};

	if (mkdir(writing.path, 0755) || child_run(records_write, &writing))
		return NULL;
	return writing.path;
}

int data_rewrite(const char *path, int rounds)
{
	struct writing writing = {path, 1, (unsigned)rounds};

	return child_run(records_write, &writing);
}

int data_check(MDB_txn *txn, unsigned version)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_dbi dbi;
	unsigned i = 0;
	int rc = mdb_dbi_open(txn, NULL, 0, &dbi);

	if (!rc)
		rc = mdb_cursor_open(txn, dbi, &cursor);
	if (rc)
		return rc;
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		if (!data_is_record(i++, version, &key, &data))
			break;
	mdb_cursor_close(cursor);
	if (rc == MDB_NOTFOUND)
		return i == DATA_RECORDS ? 0 : 1;
	return rc ? rc : 1;
}

int data_check_env(MDB_env *env, unsigned version)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = data_check(txn, version);
	mdb_txn_abort(txn);
	return rc;
}

struct file_state file_look(const char *path)
{
	struct file_state state = {0};
	unsigned char block[4096];
	struct stat status;
	FILE *file = fopen(path, "rbe");
	size_t n;

	if (!file || fstat(fileno(file), &status)) {
		state.sum = 1;
	} else {
		state.size = (uint64_t)status.st_size;
		state.mode = status.st_mode;
		state.seconds = status.st_mtim.tv_sec;
		state.nanoseconds = status.st_mtim.tv_nsec;
		while ((n = fread(block, 1, sizeof(block), file)))
			for (size_t i = 0; i < n; i++)
				state.sum = state.sum * UINT64_C(1099511628211) + block[i];
	}
	if (file)
		fclose(file);
	return state;
}

struct child child_start(int (*body)(void *context), void *context)
{
	struct child child = {-1, -1};
	int ends[2], result;

	fflush(NULL);
	if (pipe(ends))
		return child;
	child.pid = fork();
	if (!child.pid) {
		close(ends[0]);
		result = body(context);
		_exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
	}
	close(ends[1]);
	child.result = ends[0];
	return child;
}

int child_result(struct child *child)
{
	int result = 999, status = 0;
	bool told = read(child->result, &result, sizeof(result)) == sizeof(result);

	close(child->result);
	while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFSIGNALED(status))
		return 1000 + WTERMSIG(status);
	return told && !status ? result : 999;
}

int child_run(int (*body)(void *context), void *context)
{
	struct child child = child_start(body, context);

	return child.pid < 0 ? 998 : child_result(&child);
}

int rerun_with_store(const char *store, const char *path, const char *more)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		if (!setenv("LMDBIO_STORE", store, 1))
			execl("/proc/self/exe", "habit", path, more, NULL);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static int reader_line(const char *message, void *context)
{
	/* A heading ("    pid ..."), or "(no active readers)", or one line for each slot. */
	if (strspn(message, " ") < strlen(message) && message[strspn(message, " ")] >= '0' &&
	    message[strspn(message, " ")] <= '9')
		++*(int *)context;
	return 0;
}

int readers_count(MDB_env *env)
{
	int count = 0;

	return mdb_reader_list(env, reader_line, &count) < 0 ? -1 : count;
}

unsigned directory_count(const char *path)
{
	DIR *stream = opendir(path);
	unsigned count = 0;

	if (!stream)
		return 0;
	while (readdir(stream))
		count++;
	closedir(stream);
	return count;
}
