/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the data set that the pairs read: records of one size, names and duplicates, as LMDB 0.9 and 1.0 have them and
 * as a container, and a process that commits to it. */
#include "config.h"
#include "pairs.h"

#include "container_write.h"
#include "env_fixture.h"
#include "later_make.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(const char *what, int rc)
{
	if (rc)
		errx(1, "%s: %s", what, mdb_strerror(rc));
}

static void value_make(uint8_t *bytes, uint64_t number)
{
	memset(bytes, (int)(number * 7 + 1), PAIR_VALUE);
	memcpy(bytes, &number, sizeof(number));
}

MDB_val pair_key(char text[9], uint64_t number)
{
	snprintf(text, 9, "%08u", (unsigned)number);
	return (MDB_val){8, text};
}

bool pair_is_record(const MDB_val *key, const MDB_val *data, uint64_t number)
{
	uint8_t value[PAIR_VALUE];
	char text[9];

	pair_key(text, number);
	value_make(value, number);
	return (!key || (key->mv_size == 8 && !memcmp(key->mv_data, text, 8))) &&
	       (!data ||
		(data->mv_size == PAIR_VALUE && !memcmp(data->mv_data, value, PAIR_VALUE)));
}

static void put(MDB_txn *txn, MDB_dbi dbi, uint64_t key_number, const void *bytes, size_t size)
{
	char text[9];
	MDB_val key = pair_key(text, key_number), data = {size, (void *)(uintptr_t)bytes};

	need("put", lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0));
}

static void data_put(const struct place *at)
{
	uint8_t value[PAIR_VALUE];
	MDB_dbi records, duplicates, other;
	MDB_txn *txn;
	MDB_env *env;

	need("create", lmdbio_orig_mdb_env_create(&env));
	need("maxdbs", lmdbio_orig_mdb_env_set_maxdbs(env, PAIR_NAMES));
	need("mapsize", lmdbio_orig_mdb_env_set_mapsize(env, 32 << 20));
	need("open", lmdbio_orig_mdb_env_open(env, at->directory, MDB_NOSYNC, 0600));
	need("begin", lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn));
	need("records", lmdbio_orig_mdb_dbi_open(txn, "records", MDB_CREATE, &records));
	need("duplicates",
	     lmdbio_orig_mdb_dbi_open(txn, "duplicates", MDB_CREATE | MDB_DUPSORT, &duplicates));
	need("other", lmdbio_orig_mdb_dbi_open(txn, "other", MDB_CREATE, &other));
	for (uint64_t i = 0; i < PAIR_RECORDS; i++) {
		value_make(value, i);
		put(txn, records, i, value, PAIR_VALUE);
	}
	for (uint64_t i = 0; i < PAIR_DUPLICATES * PAIR_DUPLICATES; i++)
		put(txn, duplicates, i / PAIR_DUPLICATES, &i, sizeof(i));
	put(txn, other, 0, "0", 1);
	need("commit", lmdbio_orig_mdb_txn_commit(txn));
	lmdbio_orig_mdb_env_close(env);
}

static void container_make(const char *from_path, const char *to_path)
{
	struct container_write_options options = {
		.page_size = 4096, .chunk_size = 256 << 10, .level = 1};
	int from = open(from_path, O_RDONLY | O_CLOEXEC),
	    to = open(to_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct container_writer *writer;
	struct stat st;
	uint8_t *bytes;

	if (from < 0 || to < 0 || fstat(from, &st))
		err(1, "%s", to_path);
	options.size = (uint64_t)st.st_size;
	bytes = malloc(options.size);
	if (!bytes || pread(from, bytes, options.size, 0) != st.st_size)
		err(1, "%s", from_path);
	need("container", container_write_open(&writer, to, &options));
	need("container", container_write_bytes(writer, bytes, options.size));
	need("container", container_write_finish(writer));
	container_write_close(writer);
	free(bytes);
	close(from);
	close(to);
}

static struct place base;

void pair_place_make(struct pair_place *place)
{
	char file[240];

	place_make(&base);
	data_put(&base);
	memcpy(place->directory, base.directory, sizeof(place->directory));
	memcpy(place->data, base.data, sizeof(place->data));
	snprintf(place->container, sizeof(place->container), "%s/packed.zst", place->directory);
	snprintf(place->later, sizeof(place->later), "%s/later", place->directory);
	snprintf(place->copies[0], sizeof(place->copies[0]), "%s/copy0", place->directory);
	snprintf(place->copies[1], sizeof(place->copies[1]), "%s/copy1", place->directory);
	if (mkdir(place->later, 0700) || mkdir(place->copies[0], 0700) ||
	    mkdir(place->copies[1], 0700))
		err(1, "%s", place->directory);
	container_make(place->data, place->container);
	snprintf(file, sizeof(file), "%s/data.mdb", place->later);
	need("later_make", later_make(place->data, file));
}

static void empty(const char *directory)
{
	static const char *const names[] = {"data.mdb", "lock.mdb"};
	char file[240];

	for (unsigned i = 0; i < 2; i++) {
		snprintf(file, sizeof(file), "%s/%s", directory, names[i]);
		unlink(file);
	}
	rmdir(directory);
}

void pair_place_remove(struct pair_place *place)
{
	unlink(place->container);
	empty(place->later);
	empty(place->copies[0]);
	empty(place->copies[1]);
	place_remove(&base);
}

static struct writer writer;
static pthread_mutex_t writer_lock = PTHREAD_MUTEX_INITIALIZER;

static void commit(MDB_env *orig, char what)
{
	(void)what;
	need("mapsize", lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20));
	origin_put_text(orig, "other", 0, "00000000", "1");
}

void pair_writer_start(const struct pair_place *place)
{
	(void)place;
	writer_start(&writer, &base, commit);
}

void pair_writer_commit(void)
{
	pthread_mutex_lock(&writer_lock);
	writer_ask(&writer, 'c');
	pthread_mutex_unlock(&writer_lock);
}

void pair_writer_stop(void)
{
	writer_stop(&writer);
}
