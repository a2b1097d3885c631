/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes data sets with the original LMDB, and runs the processes of a test, which wait for each
 * other by pipes alone. */
#include "env_fixture.h"

#include "format/layout.h"
#include "util/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Places of tests that failed before they reached place_remove(). */
static struct place left[16];
static pid_t left_owner;

static void place_unlink(const struct place *place)
{
	char lock[220];

	snprintf(lock, sizeof(lock), "%.199s/lock.mdb", place->directory);
	unlink(place->data);
	unlink(lock);
	rmdir(place->directory);
}

static void remove_left(void)
{
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		if (*left[i].directory && getpid() == left_owner)
			place_unlink(&left[i]);
}

void place_make(struct place *place)
{
	const char *base = getenv("TMPDIR");

	if (!left_owner) {
		left_owner = getpid();
		atexit(remove_left);
	}
	snprintf(place->directory, sizeof(place->directory), "%.150s/lmdbio-unit.XXXXXX",
		 base && *base ? base : "/tmp");
	assert_non_null(mkdtemp(place->directory));
	snprintf(place->data, sizeof(place->data), "%s/data.mdb", place->directory);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		if (!*left[i].directory) {
			left[i] = *place;
			break;
		}
}

void place_remove(struct place *place)
{
	place_unlink(place);
	for (size_t i = 0; i < sizeof(left) / sizeof(left[0]); i++)
		if (!strcmp(left[i].directory, place->directory))
			left[i] = (struct place){0};
}

void place_put_named(const struct place *at, const char *name, uint64_t records, size_t room,
		     size_t (*make)(void *bytes, uint64_t i))
{
	MDB_env *orig = origin_open(at);
	void *bytes = malloc(room);
	MDB_txn *txn;
	MDB_dbi dbi;
	char text[16];

	assert_non_null(bytes);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, name, name ? MDB_CREATE : 0, &dbi), 0);
	for (uint64_t i = 0; i < records; i++) {
		MDB_val key = {8, text}, data = {make(bytes, i), bytes};

		snprintf(text, sizeof(text), "%08u", (unsigned)i);
		assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &key, &data, MDB_APPEND), 0);
	}
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	lmdbio_orig_mdb_env_close(orig);
	free(bytes);
}

void place_put_records(const struct place *at, uint64_t records, size_t room,
		       size_t (*make)(void *bytes, uint64_t i))
{
	place_put_named(at, NULL, records, room, make);
}

void place_patch(const struct place *place, uint64_t offset, const void *bytes, size_t size)
{
	int fd = open(place->data, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, size, (off_t)offset), (ssize_t)size);
	close(fd);
}

void place_patch64(const struct place *place, uint64_t offset, uint64_t value)
{
	place_patch(place, offset, &value, sizeof(value));
}

void place_cut(const struct place *place, uint64_t size)
{
	assert_int_equal(truncate(place->data, (off_t)size), 0);
}

void place_newest(const struct place *place, uint32_t *page_size, uint64_t *txnid)
{
	uint8_t metas[2][META_END];
	int fd = open(place->data, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, metas[0], META_END, 0), META_END);
	*page_size = load32(metas[0] + META_FREE_TREE + TREE_PAD);
	assert_int_equal(pread(fd, metas[1], META_END, *page_size), META_END);
	*txnid = load64(metas[0] + META_TXNID);
	if (load64(metas[1] + META_TXNID) > *txnid)
		*txnid = load64(metas[1] + META_TXNID);
	close(fd);
}

MDB_env *origin_open(const struct place *place)
{
	MDB_env *orig;

	assert_int_equal(lmdbio_orig_mdb_env_create(&orig), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_maxdbs(orig, 8), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 1 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(orig, place->directory, MDB_NOSYNC, 0600), 0);
	return orig;
}

void origin_put(MDB_env *orig, const char *name, unsigned flags, MDB_val key, MDB_val data)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(
		lmdbio_orig_mdb_dbi_open(txn, name, name ? flags | MDB_CREATE : flags, &dbi), 0);
	assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
}

static MDB_val text_value(const char *text)
{
	return (MDB_val){strlen(text), (void *)(uintptr_t)text};
}

void origin_put_text(MDB_env *orig, const char *name, unsigned flags, const char *key,
		     const char *data)
{
	origin_put(orig, name, flags, text_value(key), text_value(data));
}

void origin_put_duplicates(MDB_env *orig, const char *name, unsigned n, char (*key_of)(unsigned i))
{
	MDB_txn *txn;
	MDB_dbi dbi;

	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, name, MDB_CREATE | MDB_DUPSORT, &dbi), 0);
	for (unsigned i = 0; i < n; i++) {
		char letter = key_of(i), text[11];
		MDB_val key = {1, &letter}, data = {8, text};

		snprintf(text, sizeof(text), "%08u", i);
		assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0), 0);
	}
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
}

static void writer_run(const struct place *place, void (*step)(MDB_env *, char), int asks,
		       int answers)
{
	MDB_env *orig = origin_open(place);
	char what;

	if (write(answers, "r", 1) != 1)
		_exit(1);
	while (read(asks, &what, 1) == 1) {
		step(orig, what);
		if (write(answers, &what, 1) != 1)
			break;
	}
	lmdbio_orig_mdb_env_close(orig);
	_exit(0);
}

void writer_start(struct writer *writer, const struct place *place,
		  void (*step)(MDB_env *orig, char what))
{
	int asks[2], answers[2];
	char ready;

	assert_int_equal(pipe2(asks, O_CLOEXEC), 0);
	assert_int_equal(pipe2(answers, O_CLOEXEC), 0);
	writer->pid = fork();
	assert_true(writer->pid >= 0);
	if (!writer->pid) {
		close(asks[1]);
		close(answers[0]);
		writer_run(place, step, asks[0], answers[1]);
	}
	close(asks[0]);
	close(answers[1]);
	writer->asks = asks[1];
	writer->answers = answers[0];
	assert_int_equal(read(writer->answers, &ready, 1), 1);
}

void writer_ask(struct writer *writer, char what)
{
	char done = 0;

	assert_int_equal(write(writer->asks, &what, 1), 1);
	assert_int_equal(read(writer->answers, &done, 1), 1);
	assert_int_equal(done, what);
}

void writer_stop(struct writer *writer)
{
	int status;

	close(writer->asks);
	close(writer->answers);
	assert_int_equal(waitpid(writer->pid, &status, 0), writer->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int in_process(int (*function)(void *argument), void *argument)
{
	static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		/* cmocka would take the signal for a failure of the test, and go on in the
		 * child. */
		for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]); i++)
			signal(fatal[i], SIG_DFL);
		_exit(function(argument));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

MDB_env *own_open(const struct place *place, MDB_dbi maxdbs, unsigned flags)
{
	MDB_env *env;

	assert_int_equal(env_create(&env), 0);
	assert_int_equal(env_set_maxdbs(env, maxdbs), 0);
	assert_int_equal(env_open(env, place->directory, MDB_RDONLY | flags, 0600), 0);
	assert_int_equal(env->mode, ENV_OWN);
	return env;
}

bool txn_has(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *data)
{
	MDB_val wanted = text_value(key), value;
	int rc = txn_here(txn);

	if (!rc)
		rc = tree_get(&txn->snapshot, &txn->trees[dbi], &txn->env->slots[dbi].order,
			      &wanted, &value);
	if (rc) {
		print_error("%s: %d\n", key, rc);
		return false;
	}
	return value.mv_size == strlen(data) && !memcmp(value.mv_data, data, value.mv_size);
}

static int count_line(const char *line, void *count)
{
	/* The heading and "(no active readers)" have no transaction number. */
	if (strspn(line, " 0123456789") > 0 && strchr("0123456789", line[strspn(line, " ")]))
		++*(unsigned *)count;
	return 0;
}

unsigned readers_count(MDB_env *env)
{
	unsigned count = 0;

	assert_true(lmdbio_orig_mdb_reader_list(env->orig, count_line, &count) >= 0);
	return count;
}
