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
#include <lmdb.h>
#include <lmdbio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 600, VALUE = 2500, LOOKS = 20, BATCH = 20 };

bool lives_strict, lives_failed;
static struct place place;
static char scratch[200]; /* a directory; in it: */
static char container[220], packed[220], later[220], summed[220], staged[220], stage[220], text[220];
static int nowhere; /* /dev/null */

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)(i * 7 + 1), VALUE);
	memcpy(bytes, &i, sizeof(i));
	return VALUE;
}

void lives_end(int how, const char *what, int rc)
{
	printf("%s: %d (%s)\n", what, rc, mdb_strerror(rc));
	fflush(stdout);
	_exit(lives_strict && how != DESCRIPTORS ? NOT_AGAIN : how);
}

/* Whether a call has done what it is to do; else its code is one of the fault's. */
static bool is_done(const char *what, int rc)
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
		lives_end(MISSING, "records", (int)n);
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

	if (child < 0) {
		(void)is_done("fork", errno);
		return;
	}
	if (!child) {
		if (is_done("a child's mdb_txn_begin",
			    mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) &&
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
	(void)is_done("mdb_env_copyfd2 of what is used",
		      mdb_env_copyfd2(env, nowhere, MDB_CP_COMPACT));
}

static struct settings *settings_own(void)
{
	return (struct settings *)(uintptr_t)settings_get();
}

static void read_environment(const char *store, const char *path, unsigned flags)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	settings_own()->store = store;
	if (!is_done("mdb_env_create", mdb_env_create(&env)))
		return;
	if (is_done("mdb_env_open", mdb_env_open(env, path, MDB_RDONLY | flags, 0600)) &&
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

static void load(const struct lmdbio_loader_options *options)
{
	struct lmdbio_quality quality = {.size = sizeof(quality)};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	unsigned char state[LMDBIO_LOADER_STATE];
	unsigned n = 0;
	int rc;

	if (!is_done("lmdbio_loader_open",
		     lmdbio_loader_open(&loader, place.directory, 0, NULL, options)))
		return;
	rc = lmdbio_loader_epoch(loader, 1);
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++)
			judge(&batch->samples[i].key, &batch->samples[i].data,
			      batch->samples[i].record);
		n += (unsigned)batch->count;
		lmdbio_batch_done(batch);
		if (n == RECORDS / 2 &&
		    is_done("lmdbio_loader_save", lmdbio_loader_save(loader, state)))
			(void)is_done("lmdbio_loader_restore",
				      lmdbio_loader_restore(loader, state));
	}
	if (rc != MDB_NOTFOUND)
		(void)is_done("lmdbio_loader_next", rc);
	else if (n != RECORDS)
		lives_end(MISSING, "records of an epoch", (int)n);
	if (is_done("lmdbio_loader_quality", lmdbio_loader_quality(loader, 1, 0, 8, &quality)) &&
	    quality.distinct != RECORDS)
		lives_end(MISSING, "labels", (int)quality.distinct);
	lmdbio_loader_close(loader);
}

static void live_plainly(void)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = BATCH, .order = LMDBIO_ORDER_SHUFFLE};

	read_environment("cache", place.directory, MDB_NOTLS);
	read_environment("arena", place.directory, MDB_NOTLS);
	read_environment("auto", container, MDB_NOTLS | MDB_NOSUBDIR);
	load(&options);
}

/* O_DIRECT, by an io_uring where there is one; kernels tell what they can in other ways without MDB_NORDAHEAD. */
static void live_directly(void)
{
	settings_own()->io = "direct";
	read_environment("arena", place.directory, MDB_NOTLS | MDB_NORDAHEAD);
	read_environment("auto", place.directory, MDB_NOTLS);
	settings_own()->io = "pread";
	read_environment("arena", place.directory, MDB_NORDAHEAD);
	settings_own()->io = "auto";
}

static void live_later(void)
{
	read_environment("cache", later, MDB_NOSUBDIR);
	read_environment("arena", later, MDB_NOSUBDIR | MDB_NOTLS);
	settings_own()->checksum = checksum_find("fnv1a");
	read_environment("cache", summed, MDB_NOSUBDIR | MDB_NOTLS);
	settings_own()->checksum = NULL;
}

static void live_staged(void)
{
	settings_own()->staged = staged;
	read_environment("cache", place.directory, MDB_NOTLS);
	settings_own()->staged = NULL;
}

static void live_loading(void)
{
	struct lmdbio_loader_options options = {.size = sizeof(options),
						.batch = BATCH,
						.order = LMDBIO_ORDER_SHUFFLE,
						.memory = RECORDS * VALUE / 3,
						.stage_dir = stage};

	settings_own()->store = "cache";
	load(&options);
	load(&options); /* the file on the local disk is there */
	options.stage_dir = NULL;
	options.order = LMDBIO_ORDER_OPPORTUNISTIC;
	load(&options);
	settings_own()->io = "direct";
	load(&options);
	settings_own()->io = "auto";
}

/* An environment that cannot be opened, and why. */
static void refuse(const char *path, unsigned flags, int code)
{
	MDB_env *env;
	int rc;

	if (!is_done("mdb_env_create", mdb_env_create(&env)))
		return;
	rc = mdb_env_open(env, path, flags, 0600);
	if (rc != code)
		(void)is_done("mdb_env_open of what cannot be read", rc);
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
	dup2(nowhere, STDERR_FILENO); /* where it is told why */
	settings_own()->verbose = true;
	refuse("/nowhere/at/all", MDB_RDONLY, ENOENT);
	refuse(text, MDB_RDONLY | MDB_NOSUBDIR, MDB_INVALID);
	refuse(text, MDB_RDONLY, ENOTDIR);
	refuse(scratch, MDB_RDONLY, ENOENT);
	refuse(container, MDB_NOSUBDIR, EACCES);
	refuse(packed, 0, EACCES);
	settings_own()->verbose = false;
	set("LMDBIO_STAGED", staged);
	set("LMDBIO_LMDB1", container);
	set("LMDBIO_NODE", "node");
	set("LMDBIO_STATS", "file:told");
	set("LMDBIO_STATS_AT", "1/3/77");
}

const struct life lives[] = {
	{"plainly", live_plainly}, {"directly", live_directly}, {"later", live_later},
	{"staged", live_staged},   {"loading", live_loading},   {"refused", live_refused},
};
const unsigned lives_count = sizeof(lives) / sizeof(*lives);

static void container_make(void)
{
	struct container_write_options options = {
		.page_size = 4096, .chunk_size = 64 << 10, .level = 1};
	struct container_writer *writer;
	char inside[300];
	int from = open(place.data, O_RDONLY | O_CLOEXEC), to;
	uint8_t *bytes;

	to = open(container, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	options.size = (uint64_t)lseek(from, 0, SEEK_END);
	bytes = calloc(1, options.size);
	if (!bytes || pread(from, bytes, options.size, 0) != (ssize_t)options.size ||
	    container_write_open(&writer, to, &options) ||
	    container_write_bytes(writer, bytes, options.size) || container_write_finish(writer))
		abort();
	container_write_close(writer);
	snprintf(inside, sizeof(inside), "%s/data.mdb.zst", packed);
	if (mkdir(packed, 0700) || link(container, inside))
		abort();
	free(bytes);
	close(from);
	close(to);
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
	snprintf(below, sizeof(below), "%s/%s", staged, name);
	snprintf(command, sizeof(command), "cp '%s' '%s/%s'", place.data, below,
		 staged_file(&original));
	if (mkdir(staged, 0700) || mkdir(below, 0700) || system(command) ||
	    guarded_open(&directory, below, false) ||
	    staged_seal(&directory, staged_file(&original), &original.identity))
		abort();
	guarded_close(&directory);
}

static void names_make(void)
{
	const char *base = getenv("TMPDIR");

	snprintf(scratch, sizeof(scratch), "%.150s/lmdbio-lives.XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(scratch))
		abort();
	snprintf(container, sizeof(container), "%s/packed.zst", scratch);
	snprintf(packed, sizeof(packed), "%s/packed", scratch); /* a directory with a container in it */
	snprintf(later, sizeof(later), "%s/later.mdb", scratch);
	snprintf(summed, sizeof(summed), "%s/summed.mdb", scratch);
	snprintf(staged, sizeof(staged), "%s/staged", scratch);
	snprintf(stage, sizeof(stage), "%s/stage", scratch);
	snprintf(text, sizeof(text), "%s/text", scratch);
}

unsigned lives_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned n = 0;

	while (directory && readdir(directory))
		n++;
	closedir(directory);
	return n;
}

void lives_begin(void)
{
	FILE *file;

	nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	names_make();
	container_make();
	staged_make();
	file = fopen(text, "w");
	if (!file || mkdir(stage, 0700) || later_make(place.data, later) ||
	    later_make_as(place.data, summed, (struct later_how){.sums = true}))
		abort();
	fprintf(file, "This is no data file.\n");
	fclose(file);
}

void lives_over(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	if (system(command))
		abort();
	place_remove(&place);
}

void lives_for_all_users(void)
{
	char command[1000];

	/* Of the directories below, which are the loader's and lmdbio-stage's, no other user is to have any. */
	snprintf(command, sizeof(command), "chmod a+rwx '%s' '%s' && chmod a+rw '%s'/*.* '%s'/*.*",
		 scratch, place.directory, scratch, place.directory);
	if (system(command))
		abort();
}

bool lives_in_reach(void)
{
	return !access(place.directory, R_OK | W_OK | X_OK) && !access(container, R_OK);
}
