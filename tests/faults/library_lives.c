/* SPDX-License-Identifier: OLDAP-2.8 */
/* What programs do with lmdbio, a life each, and what they may see when one of its calls fails: right bytes, or the code
 * of the fault. */
#include "config.h"
#include "library_lives.h"

#include "container_write.h"
#include "env_fixture.h"
#include "later_make.h"

#include "env/staged.h"
#include "util/checksums.h"
#include "util/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 600, VALUE = 2500, LOOKS = 20, BATCH = 20 };

struct lives_data lives_data;
static struct place place;

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)(i * 7 + 1), VALUE);
	memcpy(bytes, &i, sizeof(i));
	return VALUE;
}

/* Whether a call has done what it is to do; else its code is one of the fault's. */
bool lives_done(const char *what, int rc)
{
	static const int codes[] = {EIO, ENOMEM, EMFILE, EAGAIN, ENOSPC, EFBIG, EADDRINUSE};

	if (!rc)
		return true;
	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (rc == codes[i] && !lives_strict) {
			lives_failed = true;
			return false;
		}
	lives_end(WRONG_CODE, what, rc);
	return false;
}

static void judge(const MDB_val *key, const MDB_val *data, uint64_t i)
{
	uint8_t value[VALUE];
	char name[9];

	snprintf(name, sizeof(name), "%08u", (unsigned)i);
	value_make(value, i);
	if ((key && (key->mv_size != 8 || memcmp(key->mv_data, name, 8))) ||
	    data->mv_size != VALUE || memcmp(data->mv_data, value, VALUE))
		lives_end(WRONG_BYTES, "bytes", (int)i);
}

void lives_look_up(MDB_txn *txn, MDB_dbi dbi, uint64_t i)
{
	char name[9];
	MDB_val key = {8, name}, data;

	snprintf(name, sizeof(name), "%08u", (unsigned)i);
	if (lives_done("mdb_get", mdb_get(txn, dbi, &key, &data)))
		judge(NULL, &data, i);
	if (lives_done("lmdbio_get_record", lmdbio_get_record(txn, dbi, i, &key, &data)))
		judge(&key, &data, i);
}

void lives_scan_all(MDB_txn *txn, MDB_dbi dbi, lives_judge *judge_record, uint64_t records)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	uint64_t n = 0;
	int rc;

	if (!lives_done("mdb_cursor_open", mdb_cursor_open(txn, dbi, &cursor)))
		return;
	while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
		judge_record(&key, &data, n++);
	mdb_cursor_close(cursor);
	if (rc == MDB_NOTFOUND && n != records)
		lives_end(MISSING, "records", (int)n);
	if (rc != MDB_NOTFOUND)
		(void)lives_done("mdb_cursor_get", rc);
}

void lives_scan(MDB_txn *txn, MDB_dbi dbi)
{
	lives_scan_all(txn, dbi, judge, RECORDS);
}

static void hint(MDB_txn *txn, MDB_dbi dbi)
{
	char names[LOOKS][9];
	MDB_val keys[LOOKS];

	for (unsigned i = 0; i < LOOKS; i++) {
		snprintf(names[i], sizeof(names[i]), "%08u", i * 29);
		keys[i] = (MDB_val){8, names[i]};
	}
	(void)lives_done("lmdbio_prefetch_keys", lmdbio_prefetch_keys(txn, dbi, keys, LOOKS));
	(void)lives_done("lmdbio_prefetch_range",
			 lmdbio_prefetch_range(txn, dbi, &keys[1], &keys[3]));
}

static void fork_read(MDB_env *env)
{
	int status;
	pid_t child = fork();
	MDB_txn *txn;
	MDB_dbi dbi;

	if (child < 0) {
		(void)lives_done("fork", errno);
		return;
	}
	if (!child) {
		if (lives_done("a child's mdb_txn_begin",
			       mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) &&
		    lives_done("a child's mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
			lives_look_up(txn, dbi, 77);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (status)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AGAIN);
}

static void copy(MDB_env *env)
{
	(void)lives_done("mdb_env_copyfd2", mdb_env_copyfd2(env, lives_data.nowhere, 0));
	(void)lives_done("mdb_env_copyfd2 of what is used",
			 mdb_env_copyfd2(env, lives_data.nowhere, MDB_CP_COMPACT));
}

struct settings *lives_settings(void)
{
	return (struct settings *)(uintptr_t)settings_get();
}

void lives_read(const char *store, const char *path, unsigned flags)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	lives_settings()->store = store;
	if (!lives_done("mdb_env_create", mdb_env_create(&env)))
		return;
	if (lives_done("mdb_env_open", mdb_env_open(env, path, MDB_RDONLY | flags, 0600)) &&
	    lives_done("mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))) {
		if (lives_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi))) {
			hint(txn, dbi);
			for (uint64_t i = 0; i < LOOKS; i++)
				lives_look_up(txn, dbi, i * 29);
			lives_scan(txn, dbi);
		}
		mdb_txn_abort(txn);
		copy(env);
		fork_read(env);
	}
	mdb_env_close(env);
}

void lives_load(const struct lmdbio_loader_options *options)
{
	struct lmdbio_quality quality = {.size = sizeof(quality)};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	unsigned char state[LMDBIO_LOADER_STATE];
	unsigned n = 0;
	int rc;

	if (!lives_done("lmdbio_loader_open",
			lmdbio_loader_open(&loader, lives_data.directory, 0, NULL, options)))
		return;
	rc = lmdbio_loader_epoch(loader, 1);
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++)
			judge(&batch->samples[i].key, &batch->samples[i].data,
			      batch->samples[i].record);
		n += (unsigned)batch->count;
		lmdbio_batch_done(batch);
		if (n == RECORDS / 2 &&
		    lives_done("lmdbio_loader_save", lmdbio_loader_save(loader, state)))
			(void)lives_done("lmdbio_loader_restore",
					 lmdbio_loader_restore(loader, state));
	}
	if (rc != MDB_NOTFOUND)
		(void)lives_done("lmdbio_loader_next", rc);
	else if (n != RECORDS)
		lives_end(MISSING, "records of an epoch", (int)n);
	if (lives_done("lmdbio_loader_quality", lmdbio_loader_quality(loader, 1, 0, 8, &quality)) &&
	    quality.distinct != RECORDS)
		lives_end(MISSING, "labels", (int)quality.distinct);
	lmdbio_loader_close(loader);
}

static void live_plainly(void)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = BATCH, .order = LMDBIO_ORDER_SHUFFLE};

	lives_read("cache", lives_data.directory, MDB_NOTLS);
	lives_read("arena", lives_data.directory, MDB_NOTLS);
	lives_read("auto", lives_data.container, MDB_NOTLS | MDB_NOSUBDIR);
	lives_load(&options);
}

/* O_DIRECT, by an io_uring where there is one; kernels tell what they can in other ways without MDB_NORDAHEAD. */
static void live_directly(void)
{
	lives_settings()->io = "direct";
	lives_read("arena", lives_data.directory, MDB_NOTLS | MDB_NORDAHEAD);
	lives_read("auto", lives_data.directory, MDB_NOTLS);
	lives_settings()->io = "pread";
	lives_read("arena", lives_data.directory, MDB_NORDAHEAD);
	lives_settings()->io = "auto";
}

static void live_later(void)
{
	lives_read("cache", lives_data.later, MDB_NOSUBDIR);
	lives_read("arena", lives_data.later, MDB_NOSUBDIR | MDB_NOTLS);
	lives_settings()->checksum = checksum_find("fnv1a");
	lives_read("cache", lives_data.summed, MDB_NOSUBDIR | MDB_NOTLS);
	lives_settings()->checksum = NULL;
}

static void live_staged(void)
{
	lives_settings()->staged = lives_data.staged;
	lives_read("cache", lives_data.directory, MDB_NOTLS);
	lives_settings()->staged = NULL;
}

static void live_loading(void)
{
	struct lmdbio_loader_options options = {.size = sizeof(options),
						.batch = BATCH,
						.order = LMDBIO_ORDER_SHUFFLE,
						.memory = RECORDS * VALUE / 3,
						.stage_dir = lives_data.stage};

	lives_settings()->store = "cache";
	lives_load(&options);
	lives_load(&options); /* the file on the local disk is there */
	options.stage_dir = NULL;
	options.order = LMDBIO_ORDER_OPPORTUNISTIC;
	lives_load(&options);
	lives_settings()->io = "direct";
	lives_load(&options);
	lives_settings()->io = "auto";
}

/* An environment that cannot be opened, and why. */
static void refuse(const char *path, unsigned flags, int code)
{
	MDB_env *env;
	int rc;

	if (!lives_done("mdb_env_create", mdb_env_create(&env)))
		return;
	rc = mdb_env_open(env, path, flags, 0600);
	if (rc != code)
		(void)lives_done("mdb_env_open of what cannot be read", rc);
	if (!rc)
		lives_end(WRONG_CODE, "mdb_env_open of what cannot be read", rc);
	mdb_env_close(env);
}

static void set(const char *variable, const char *value)
{
	if (settings_refuses(variable, value) && lives_strict)
		lives_end(WRONG_CODE, variable, EINVAL);
}

static void live_refused(void)
{
	char told[300];

	dup2(lives_data.nowhere, STDERR_FILENO); /* where it is told why */
	lives_settings()->verbose = true;
	refuse("/nowhere/at/all", MDB_RDONLY, ENOENT);
	refuse(lives_data.text, MDB_RDONLY | MDB_NOSUBDIR, MDB_INVALID);
	refuse(lives_data.text, MDB_RDONLY, ENOTDIR);
	refuse(lives_data.scratch, MDB_RDONLY, ENOENT);
	refuse(lives_data.container, MDB_NOSUBDIR, EACCES);
	refuse(lives_data.packed, 0, EACCES);
	lives_settings()->verbose = false;
	set("LMDBIO_STAGED", lives_data.staged);
	set("LMDBIO_LMDB1", lives_data.container);
	set("LMDBIO_NODE", "node");
	set("LMDBIO_STATS", "file:told");
	snprintf(told, sizeof(told), "%s/told", lives_data.scratch);
	set("LMDBIO_STATS", told);
	set("LMDBIO_STATS_AT", "1/3/77");
}

const struct life lives[] = {
	{"plainly", live_plainly}, {"directly", live_directly}, {"later", live_later},
	{"staged", live_staged},   {"loading", live_loading},   {"refused", live_refused},
};
const unsigned lives_count = sizeof(lives) / sizeof(*lives);

void lives_pack(const char *path, const void *dictionary, size_t dictionary_size)
{
	struct container_write_options options = {.page_size = 4096,
						  .chunk_size = 64 << 10,
						  .level = 1,
						  .dictionary = dictionary,
						  .dictionary_size = dictionary_size};
	struct container_writer *writer;
	int from = open(place.data, O_RDONLY | O_CLOEXEC), to;
	uint8_t *bytes;

	to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	options.size = (uint64_t)lseek(from, 0, SEEK_END);
	bytes = calloc(1, options.size);
	if (!bytes || pread(from, bytes, options.size, 0) != (ssize_t)options.size ||
	    container_write_open(&writer, to, &options) ||
	    container_write_bytes(writer, bytes, options.size) || container_write_finish(writer))
		abort();
	container_write_close(writer);
	free(bytes);
	close(from);
	close(to);
}

/* A directory with a container in place of its data file. */
static void packed_make(void)
{
	char inside[300];

	snprintf(inside, sizeof(inside), "%s/data.mdb.zst", lives_data.packed);
	if (mkdir(lives_data.packed, 0700) || link(lives_data.container, inside))
		abort();
}

/* A sealed copy where lmdbio-stage would put it. */
static void staged_make(void)
{
	struct staged_original original;
	struct guarded directory;
	char name[STAGED_NAME], below[300], command[1000];
	int fd = open(place.data, O_RDONLY | O_CLOEXEC);

	if (staged_identify(fd, &original))
		abort();
	close(fd);
	staged_name(&original.identity, name);
	snprintf(below, sizeof(below), "%s/%s", lives_data.staged, name);
	snprintf(command, sizeof(command), "cp '%s' '%s/%s'", place.data, below,
		 staged_file(&original));
	if (mkdir(lives_data.staged, 0700) || mkdir(below, 0700) || system(command) ||
	    guarded_open(&directory, below, false) ||
	    staged_seal(&directory, staged_file(&original), &original.identity))
		abort();
	guarded_close(&directory);
}

static void names_make(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(lives_data.directory, sizeof(lives_data.directory), "%s", place.directory);
	snprintf(lives_data.data, sizeof(lives_data.data), "%s", place.data);
	snprintf(lives_data.scratch, sizeof(lives_data.scratch), "%.150s/lmdbio-lives.XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(lives_data.scratch))
		abort();
	snprintf(lives_data.container, sizeof(lives_data.container), "%s/packed.zst",
		 lives_data.scratch);
	snprintf(lives_data.packed, sizeof(lives_data.packed), "%s/packed", lives_data.scratch);
	snprintf(lives_data.later, sizeof(lives_data.later), "%s/later.mdb", lives_data.scratch);
	snprintf(lives_data.summed, sizeof(lives_data.summed), "%s/summed.mdb", lives_data.scratch);
	snprintf(lives_data.staged, sizeof(lives_data.staged), "%s/staged", lives_data.scratch);
	snprintf(lives_data.stage, sizeof(lives_data.stage), "%s/stage", lives_data.scratch);
	snprintf(lives_data.text, sizeof(lives_data.text), "%s/text", lives_data.scratch);
}

void lives_data_make(void)
{
	FILE *file;

	lives_data.nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	names_make();
	lives_pack(lives_data.container, NULL, 0);
	packed_make();
	staged_make();
	file = fopen(lives_data.text, "w");
	if (!file || mkdir(lives_data.stage, 0700) || later_make(place.data, lives_data.later) ||
	    later_make_as(place.data, lives_data.summed, (struct later_how){.sums = true}))
		abort();
	fprintf(file, "This is no data file.\n");
	fclose(file);
}

void lives_data_remove(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", lives_data.scratch);
	if (system(command))
		abort();
	place_remove(&place);
}

void lives_for_all_users(void)
{
	char command[1000];

	/* Of the directories below, which are the loader's and lmdbio-stage's, no other user is to have any. */
	snprintf(command, sizeof(command), "chmod a+rwx '%s' '%s' && chmod a+rw '%s'/*.* '%s'/*.*",
		 lives_data.scratch, lives_data.directory, lives_data.scratch,
		 lives_data.directory);
	if (system(command))
		abort();
}

bool lives_in_reach(void)
{
	return !access(lives_data.directory, R_OK | W_OK | X_OK) &&
	       !access(lives_data.container, R_OK);
}
