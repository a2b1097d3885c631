/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads files of LMDB 1.0 whose pages have checksums, whole and with one byte changed, in every store.
 *
 * Of a changed file each database gives records of the sound one, in their order, and then
 * MDB_BAD_CHECKSUM, if the byte is in a page that a walk comes to, whichever it is in there. Which pages
 * those are, and that each is verified once, is told by the checksum function itself.
 */
#include "db_make.h"
#include "later_make.h"
#include "random_stream.h"

#include "env/env.h"
#include "format/layout.h"
#include "util/checked.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BASES = 3, CHANGES = 60, CHANGES_LONG = 3000, RECORDS_MOST = 100000, PAGES_MOST = 8192 };

static const char *const stores[] = {"auto", "cache", "arena"};

/* What a walk finds: a sum of each record, database by database. */
struct found {
	unsigned records[DB_TABLES_MAX];
	int rc[DB_TABLES_MAX];
	uint64_t *sums[DB_TABLES_MAX];
};

static struct db_plan plan;
static unsigned failures;

/* Pages that the checksum function was called with, while the file is sound: a changed page may have another one's
 * number. */
static bool is_sound;
static uint32_t page_size;
static unsigned summed[PAGES_MOST]; /* by page: how often */
static unsigned run_of[PAGES_MOST]; /* by a run's first page: how many */

static void complain(const char *what, const char *more, long number)
{
	if (failures++ < 20)
		printf("FAILED: %s: %s %ld\n", what, more, number);
}

static void expect(bool holds, const char *what)
{
	if (!holds)
		complain(what, "does not hold", 0);
}

static void sum_page(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	uint64_t number = load64(src->mv_data);

	if (key || dst->mv_size != LATER_SUM_SIZE)
		complain("what the function is called with", "sum of", (long)dst->mv_size);
	if (is_sound && number < PAGES_MOST) {
		summed[number]++;
		run_of[number] = (unsigned)((src->mv_size + LATER_SUM_SIZE) / page_size);
	}
	store64(dst->mv_data, later_sum(src->mv_data, src->mv_size));
}

static void add_table(const char *name, unsigned flags, unsigned dup_bytes, unsigned keys,
		      enum db_value_style values)
{
	struct db_table *table = &plan.table[plan.table_count++];

	snprintf(table->name, sizeof table->name, "%s", name);
	table->is_main = name[0] == '\0';
	table->flags = flags;
	table->dup_bytes = dup_bytes;
	table->keys = keys;
	table->most_dups = 8 * keys;
	table->value_style = values;
	table->seed = random_mix(plan.number * 16 + plan.table_count);
}

/* One of each: values in leaves and in runs, values of a key in an entry and in trees of both kinds. */
static void plan_make(unsigned which)
{
	static const unsigned page_sizes[BASES] = {2048, 512, 4096};

	memset(&plan, 0, sizeof plan);
	plan.seed = 9;
	plan.number = which;
	plan.page_size = page_sizes[which];
	plan.max_key = plan.page_size == 512 ? 190 : 511;
	plan.rounds = 1;
	add_table("", 0, 0, 20, DB_VALUES_MIXED);
	add_table("runs", 0, 0, 60, DB_VALUES_MIXED);
	add_table("dups", MDB_DUPSORT, 0, 40, DB_VALUES_TINY);
	add_table("items", MDB_DUPSORT | MDB_DUPFIXED, 8, 40, DB_VALUES_TINY);
	add_table("plain", 0, 0, 500, DB_VALUES_TINY);
	page_size = 2 * plan.page_size;
}

/* --- walks ----------------------------------------------------------------------------------- */

static int env_take(const char *path, MDB_env **env, MDB_sum_func *func, unsigned size)
{
	int rc = env_create(env);

	if (rc)
		return rc;
	if (func)
		rc = for_later_set_checksum(*env, func, size);
	if (!rc)
		rc = env_set_maxdbs(*env, DB_TABLES_MAX);
	if (!rc)
		rc = env_open(*env, path, MDB_RDONLY | MDB_NOLOCK, 0);
	if (rc)
		env_close(*env);
	return rc;
}

/* A record's place in memory counts, too: all of its bytes are touched. */
static uint64_t sum_record(const MDB_val *key, const MDB_val *data)
{
	return later_sum(key->mv_data, key->mv_size) * 31 + later_sum(data->mv_data, data->mv_size);
}

static int walk_table(MDB_txn *txn, const struct db_table *table, uint64_t *sums, unsigned *n)
{
	struct duplicates room;
	struct cursor cursor;
	MDB_val key, data;
	MDB_dbi dbi;
	int rc = dbi_open(txn, table->is_main ? NULL : table->name, 0, &dbi);

	*n = 0;
	if (rc)
		return rc;
	cursor_init(&cursor, &txn->snapshot, &txn->trees[dbi], &txn->env->slots[dbi].order, &room);
	while (!(rc = cursor_get(&cursor, &key, &data, MDB_NEXT)) && *n < RECORDS_MOST)
		sums[(*n)++] = sum_record(&key, &data);
	cursor_end(&cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Each database in a transaction of its own: damage ends one. */
static void walk(MDB_env *env, struct found *found)
{
	for (unsigned t = 0; t < plan.table_count; t++) {
		MDB_txn *txn;

		if (!found->sums[t])
			found->sums[t] = calloc(RECORDS_MOST, sizeof(uint64_t));
		found->records[t] = 0;
		found->rc[t] = found->sums[t] ? txn_begin(env, NULL, MDB_RDONLY, &txn) : ENOMEM;
		if (found->rc[t])
			continue;
		found->rc[t] = walk_table(txn, &plan.table[t], found->sums[t], &found->records[t]);
		/* What has damaged a snapshot ends it, as every other damage does. */
		if (found->rc[t] && !(txn->snapshot.blocked & SNAPSHOT_DAMAGED))
			complain("a bad checksum", "does not end the snapshot of table", t);
		txn_commit(txn);
	}
}

static void found_free(struct found *found)
{
	for (unsigned t = 0; t < plan.table_count; t++)
		free(found->sums[t]);
}

/* Whether a changed file has shown nothing but sound records. *bad: databases that were refused. */
static bool is_true(const struct found *found, const struct found *sound, unsigned *bad)
{
	*bad = 0;
	for (unsigned t = 0; t < plan.table_count; t++) {
		if (found->rc[t] ? found->rc[t] != MDB_BAD_CHECKSUM
				 : found->records[t] != sound->records[t])
			return false;
		if (found->records[t] > sound->records[t] ||
		    memcmp(found->sums[t], sound->sums[t], found->records[t] * sizeof(uint64_t)))
			return false;
		*bad += found->rc[t] != 0;
	}
	return true;
}

/* --- changes --------------------------------------------------------------------------------- */

static void flip(int fd, uint64_t at, uint8_t bits)
{
	uint8_t byte;

	if (pread(fd, &byte, 1, (off_t)at) != 1)
		exit(2);
	byte ^= bits;
	if (pwrite(fd, &byte, 1, (off_t)at) != 1)
		exit(2);
}

/* A place in a page that a walk comes to: any of its bytes, first and last among them. */
static uint64_t place_draw(struct random_stream *random)
{
	uint64_t number, length;

	do
		number = random_below(random, PAGES_MOST);
	while (!run_of[number]);
	length = (uint64_t)run_of[number] * page_size;
	switch (random_below(random, 4)) {
	case 0: /* in the header */
		return number * page_size + random_below(random, 24);
	case 1: /* in the checksum */
		return number * page_size + length - 1 - random_below(random, LATER_SUM_SIZE);
	default:
		return number * page_size + random_below(random, length);
	}
}

static void change_and_walk(const char *path, const char *file, const struct found *sound,
			    unsigned changes)
{
	struct random_stream random = random_start(4, plan.number);
	struct found found = {0};
	int fd = open(file, O_RDWR | O_CLOEXEC);
	unsigned bad;

	if (fd < 0)
		exit(2);
	for (unsigned i = 0; i < changes; i++) {
		uint64_t at = place_draw(&random);
		uint8_t bits = (uint8_t)(1u << random_below(&random, 8));
		MDB_env *env;

		flip(fd, at, bits);
		if (env_take(path, &env, sum_page, LATER_SUM_SIZE)) {
			complain("a changed file", "cannot be opened, byte", (long)at);
		} else {
			walk(env, &found);
			env_close(env);
			if (!is_true(&found, sound, &bad))
				complain("a changed file", "gives other records, byte", (long)at);
			else if (!bad)
				complain("a changed page", "is not refused, byte", (long)at);
		}
		flip(fd, at, bits);
	}
	close(fd);
	found_free(&found);
}

/* The file is looked at once in a tick of the kernel's clock. */
static void wait_for_tick(void)
{
	for (uint64_t now = clock_coarse(); clock_coarse() == now;)
		;
}

/* What is changed under a program that has verified it is seen by its next transaction. */
static void change_under(MDB_env *env, const char *file, const struct found *sound)
{
	struct random_stream random = random_start(6, plan.number);
	uint64_t at = place_draw(&random);
	struct found found = {0};
	int fd = open(file, O_RDWR | O_CLOEXEC);
	struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000}};
	unsigned bad;

	flip(fd, at, 1);
	futimens(fd, later);
	wait_for_tick();
	walk(env, &found);
	expect(is_true(&found, sound, &bad) && bad, "a page changed under an open file is refused");
	flip(fd, at, 1);
	close(fd);
	found_free(&found);
}

/* --- one store, in a process of its own --------------------------------------------------------- */

static void check_arguments(const char *path, const char *plain)
{
	MDB_env *env;

	expect(!env_create(&env), "an environment is made");
	expect(for_later_set_checksum(NULL, sum_page, 8) == EINVAL, "no environment is EINVAL");
	expect(for_later_set_checksum(env, NULL, 8) == EINVAL, "no function is EINVAL");
	expect(for_later_set_checksum(env, sum_page, 0) == EINVAL, "a size of 0 is EINVAL");
	expect(for_later_set_checksum(env, sum_page, CHECKSUM_MOST + 1) == EINVAL, "a large size is EINVAL");
	env_close(env);
	expect(env_take(path, &env, sum_page, 4) == MDB_BAD_CHECKSUM, "another size is refused");
	expect(env_take(plain, &env, sum_page, LATER_SUM_SIZE) == MDB_BAD_CHECKSUM,
	       "a file without checksums is refused");
	expect(!env_take(path, &env, NULL, 0), "a program that does not ask opens the file");
	expect(for_later_set_checksum(env, sum_page, 8) == EINVAL, "an open environment is EINVAL");
	env_close(env);
}

/* A copy of a file with checksums is one. */
static void check_copy(const char *path, unsigned flags, const struct found *sound)
{
	char copy[1100], file[1200];
	struct found found = {0};
	MDB_env *env, *copied;
	unsigned bad;

	snprintf(copy, sizeof copy, "%.1000s.copy", path);
	snprintf(file, sizeof file, "%.1100s/data.mdb", copy);
	mkdir(copy, 0755);
	expect(!env_take(path, &env, sum_page, LATER_SUM_SIZE), "the file is opened again");
	expect(!env_copy(env, copy, flags, NULL), "a file with checksums is copied");
	expect(!env_take(copy, &copied, sum_page, LATER_SUM_SIZE), "its copy has checksums");
	walk(copied, &found);
	/* The main database's records say where the others are, which in a compacted copy is elsewhere. */
	if (flags)
		memcpy(found.sums[0], sound->sums[0], found.records[0] * sizeof(uint64_t));
	expect(is_true(&found, sound, &bad) && !bad, "a copy has the same records");
	env_close(copied);
	env_close(env);
	unlink(file);
	rmdir(copy);
	found_free(&found);
}

static int run(const char *store, const char *path, const char *plain)
{
	struct found sound = {0}, again = {0};
	char file[1100];
	unsigned pages = 0, bad;
	MDB_env *env;

	setenv("LMDBIO_STORE", store, 1);
	snprintf(file, sizeof file, "%.1000s/data.mdb", path);
	check_arguments(path, plain);
	memset(summed, 0, sizeof summed);
	if (env_take(path, &env, sum_page, LATER_SUM_SIZE))
		return 2;
	is_sound = true;
	walk(env, &sound);
	walk(env, &again);
	is_sound = false;
	for (unsigned t = 0; t < plan.table_count; t++)
		expect(!sound.rc[t] && sound.records[t] > 10, "the sound file is read");
	expect(is_true(&again, &sound, &bad) && !bad, "a second walk finds the same");
	for (unsigned i = 0; i < PAGES_MOST; i++) {
		pages += summed[i] != 0;
		if (summed[i] > 1)
			complain("a page", "is verified more than once:", i);
	}
	expect(pages > 50, "pages are verified");
	change_under(env, file, &sound);
	env_close(env);
	change_and_walk(path, file, &sound, getenv("TESTS_LONG") ? CHANGES_LONG : CHANGES);
	check_copy(path, 0, &sound);
	check_copy(path, MDB_CP_COMPACT, &sound);
	printf("%s, pages of %u bytes: %u verified, %u failures\n", store, page_size, pages, failures);
	found_free(&sound);
	found_free(&again);
	return failures ? 1 : 0;
}

/* -------------------------------------------------------------------------------------------- */

static int make(const char *path, const char *plain)
{
	char from[1100], file[1100];
	int rc;

	mkdir(path, 0755);
	mkdir(plain, 0755);
	snprintf(from, sizeof from, "%.1000s/data.mdb", plain);
	snprintf(file, sizeof file, "%.1000s/data.mdb", path);
	rc = db_make(&plan, plain);
	if (!rc)
		rc = later_make_as(from, file, (struct later_how){.sums = true});
	return rc ? rc : later_make(from, from);
}

static void remove_data(const char *path)
{
	char file[1100];

	snprintf(file, sizeof file, "%.1000s/data.mdb", path);
	unlink(file);
	rmdir(path);
}

static int run_apart(const char *store, const char *path, const char *plain)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		status = run(store, path, plain);
		fflush(stdout);
		_exit(status);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return 1;
	if (WIFSIGNALED(status))
		printf("FAILED: signal %d\n", WTERMSIG(status));
	return status != 0;
}

int main(void)
{
	const char *temporary = getenv("TMPDIR");
	char scratch[900], path[1000], plain[1000];
	int rc = 0;

	snprintf(scratch, sizeof scratch, "%.800s/lmdbio-sums.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(scratch))
		return 2;
	snprintf(path, sizeof path, "%s/sums", scratch);
	snprintf(plain, sizeof plain, "%s/plain", scratch);
	for (unsigned i = 0; i < BASES; i++) {
		plan_make(i);
		if (make(path, plain)) {
			printf("FAILED: file %u cannot be made\n", i);
			rc = 1;
		}
		for (unsigned s = 0; s < sizeof stores / sizeof *stores && !rc; s++)
			rc = run_apart(stores[s], path, plain);
		remove_data(path);
		remove_data(plain);
	}
	rmdir(scratch);
	return rc;
}
