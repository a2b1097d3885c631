/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a program sees when one call of the C library, at one place of lmdbio, fails: right bytes or the code of
 * the fault; and right bytes from everything that it opens afterwards, with no descriptor lost.
 *
 * A program's life is opened environments of each store, scans, random lookups, hints, a forked child, a container and
 * a loader. Each is a child process. Every place that makes such a call in it fails: once, and for ever. Without
 * TESTS_LONG some places are passed over. */
#include "config.h"
#include "library_calls.h"

#include "container_write.h"
#include "env_fixture.h"

#include "util/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <lmdbio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 600, VALUE = 2500, LOOKS = 20, BATCH = 20, SECONDS = 60, SHORT = 7 };
enum { FINE = 0, UNMET = 3, WRONG_BYTES = 10, WRONG_CODE, MISSING, NOT_AGAIN, DESCRIPTORS };

static struct place place;
static char container[300];
static int nowhere; /* /dev/null */
static bool strict; /* no call fails now */

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)(i * 7 + 1), VALUE);
	memcpy(bytes, &i, sizeof(i));
	return VALUE;
}

static void end(int how, const char *what, int rc)
{
	printf("%s: %d (%s)\n", what, rc, mdb_strerror(rc));
	fflush(stdout);
	_exit(strict && how != DESCRIPTORS ? NOT_AGAIN : how);
}

/* Whether a call has done what it is to do; else its code is one of the fault's. */
static bool is_done(const char *what, int rc)
{
	static const int codes[] = {EIO, ENOMEM, EMFILE, EAGAIN, ENOSPC, EADDRINUSE};

	if (!rc)
		return true;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (rc == codes[i] && !strict)
			return false;
	end(WRONG_CODE, what, rc);
	return false;
}

static void judge(const MDB_val *key, const MDB_val *data, uint64_t i)
{
	uint8_t value[VALUE];
	char name[9];

	snprintf(name, sizeof(name), "%08u", (unsigned)i);
	value_make(value, i);
	if ((key && (key->mv_size != 8 || memcmp(key->mv_data, name, 8))) || data->mv_size != VALUE ||
	    memcmp(data->mv_data, value, VALUE))
		end(WRONG_BYTES, "bytes", (int)i);
}

static void look_up(MDB_txn *txn, MDB_dbi dbi, uint64_t i)
{
	char name[9];
	MDB_val key = {8, name}, data;

	snprintf(name, sizeof(name), "%08u", (unsigned)i);
	if (is_done("mdb_get", mdb_get(txn, dbi, &key, &data)))
		judge(NULL, &data, i);
	if (is_done("lmdbio_get_record", lmdbio_get_record(txn, dbi, i, &key, &data)))
		judge(&key, &data, i);
}

static void scan(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	uint64_t n = 0;
	int rc;

	if (!is_done("mdb_cursor_open", mdb_cursor_open(txn, dbi, &cursor)))
		return;
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		judge(&key, &data, n++);
	mdb_cursor_close(cursor);
	if (rc == MDB_NOTFOUND && n != RECORDS)
		end(MISSING, "records", (int)n);
	if (rc != MDB_NOTFOUND)
		(void)is_done("mdb_cursor_get", rc);
}

static void hint(MDB_txn *txn, MDB_dbi dbi)
{
	char names[LOOKS][9];
	MDB_val keys[LOOKS];

	for (unsigned i = 0; i < LOOKS; i++) {
		snprintf(names[i], sizeof(names[i]), "%08u", i * 29);
		keys[i] = (MDB_val){8, names[i]};
	}
	(void)is_done("lmdbio_prefetch_keys", lmdbio_prefetch_keys(txn, dbi, keys, LOOKS));
	(void)is_done("lmdbio_prefetch_range", lmdbio_prefetch_range(txn, dbi, &keys[1], &keys[3]));
}

static void fork_read(MDB_env *env)
{
	int status;
	pid_t child = fork();
	MDB_txn *txn;
	MDB_dbi dbi;

	if (child < 0)
		end(MISSING, "fork", errno);
	if (!child) {
		if (is_done("a child's mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) &&
		    is_done("a child's mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
			look_up(txn, dbi, 77);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AGAIN);
}

static void copy(MDB_env *env)
{
	(void)is_done("mdb_env_copyfd2", mdb_env_copyfd2(env, nowhere, 0));
	(void)is_done("mdb_env_copyfd2 of what is used", mdb_env_copyfd2(env, nowhere, MDB_CP_COMPACT));
}

static void read_environment(const char *store, const char *path, unsigned flags)
{
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	settings->store = store;
	if (!is_done("mdb_env_create", mdb_env_create(&env)))
		return;
	if (is_done("mdb_env_open", mdb_env_open(env, path, MDB_RDONLY | MDB_NOTLS | flags, 0600)) &&
	    is_done("mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))) {
		if (is_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi))) {
			hint(txn, dbi);
			for (uint64_t i = 0; i < LOOKS; i++)
				look_up(txn, dbi, i * 29);
			scan(txn, dbi);
		}
		mdb_txn_abort(txn);
		copy(env);
		fork_read(env);
	}
	mdb_env_close(env);
}

static void load(void)
{
	struct lmdbio_loader_options options = {.size = sizeof(options), .batch = BATCH, .order = LMDBIO_ORDER_SHUFFLE};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	unsigned char state[LMDBIO_LOADER_STATE];
	unsigned n = 0;
	int rc;

	if (!is_done("lmdbio_loader_open", lmdbio_loader_open(&loader, place.directory, 0, NULL, &options)))
		return;
	rc = lmdbio_loader_epoch(loader, 1);
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++)
			judge(&batch->samples[i].key, &batch->samples[i].data, batch->samples[i].record);
		n += (unsigned)batch->count;
		lmdbio_batch_done(batch);
		if (n == RECORDS / 2 && is_done("lmdbio_loader_save", lmdbio_loader_save(loader, state)))
			(void)is_done("lmdbio_loader_restore", lmdbio_loader_restore(loader, state));
	}
	if (rc != MDB_NOTFOUND)
		(void)is_done("lmdbio_loader_next", rc);
	else if (n != RECORDS)
		end(MISSING, "records of an epoch", (int)n);
	lmdbio_loader_close(loader);
}

static void live(void)
{
	read_environment("cache", place.directory, 0);
	read_environment("arena", place.directory, 0);
	read_environment("auto", container, MDB_NOSUBDIR);
	load();
}

static unsigned descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned n = 0;

	while (directory && readdir(directory))
		n++;
	closedir(directory);
	return n;
}

/* In a child. What a process keeps all its life is made by the first life that is good. */
static void lives(const struct call_place *at, unsigned n, bool on)
{
	unsigned before, after;
	bool fired;

	(void)alarm(SECONDS);
	if (at)
		calls_arm(at->at, n, on);
	live();
	live(); /* shared memory is made when reads have shown that it is worth it */
	fired = at && calls_disarm();
	strict = true;
	before = descriptors();
	live();
	after = descriptors();
	live();
	if (descriptors() > after || (after > before && !fired))
		end(DESCRIPTORS, "descriptors", (int)(descriptors() - after));
	_exit(fired || !at ? FINE : UNMET);
}

static int lives_of(const struct call_place *at, unsigned n, bool on)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child < 0)
		abort();
	if (!child) {
		strict = !at;
		calls_record(!at);
		lives(at, n, on);
	}
	if (waitpid(child, &status, 0) != child)
		abort();
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void container_make(void)
{
	struct container_write_options options = {.page_size = 4096, .chunk_size = 64 << 10, .level = 1};
	struct container_writer *writer;
	int from = open(place.data, O_RDONLY | O_CLOEXEC), to;
	uint8_t *bytes;

	snprintf(container, sizeof(container), "%s/packed.zst", place.directory);
	to = open(container, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	options.size = (uint64_t)lseek(from, 0, SEEK_END);
	bytes = calloc(1, options.size);
	if (!bytes || pread(from, bytes, options.size, 0) != (ssize_t)options.size ||
	    container_write_open(&writer, to, &options) || container_write_bytes(writer, bytes, options.size) ||
	    container_write_finish(writer))
		abort();
	container_write_close(writer);
	free(bytes);
	close(from);
	close(to);
}

/* For library_calls_test.sh: into the file that it names. */
static void tell(const struct call_place *at, bool on)
{
	const char *path = getenv("LIBRARY_CALLS_FAILED");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "%lx %s %s\n", (unsigned long)at->at, at->name, on ? "ever" : "once");
	fclose(file);
}

int main(void)
{
	unsigned runs = 0, bad = 0, places = 0;
	bool all = getenv("TESTS_LONG"), broken;
	const struct call_place *at;

	calls_begin();
	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	container_make();
	broken = lives_of(NULL, 0, false) != FINE;
	if (broken)
		printf("a life without a failure is not fine\n");
	for (unsigned i = 0; !broken && (at = calls_place(i)); i += all ? 1 : SHORT) {
		places++;
		for (unsigned on = 0; on < 2; on++) {
			unsigned fine = runs;
			int rc = FINE;

			for (unsigned n = 1; n <= (on ? 1u : 2u) && n <= at->calls && (rc == FINE || rc == UNMET); n++) {
				rc = lives_of(at, n, on);
				runs += rc == FINE;
			}
			if (runs > fine)
				tell(at, on);
			if (rc == UNMET && runs == fine && all)
				printf("# %s at %lx is not called then\n", at->name, (unsigned long)at->at);
			if (rc == FINE || rc == UNMET)
				continue;
			printf("%s at %lx fails%s: it ends with %d\n", at->name, (unsigned long)at->at,
			       on ? " for ever" : "", rc);
			bad++;
		}
	}
	printf("%u places, %u failures\n", places, runs);
	unlink(container);
	place_remove(&place);
	return bad || broken ? 1 : 0;
}
