/* SPDX-License-Identifier: OLDAP-2.8 */
/* One reader of the soak: does random tasks through lmdbio until the board says stop. */
#include "soak_loads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	TASKS_AWAKE = 24, /* from one rest to the next */
	HINTS = 32,
	THREADS = 2,
};

struct doing {
	struct soak_reader reader;
	struct random_stream random;
	struct soak_reading held; /* a transaction over several tasks */
	uint64_t newest;          /* snapshot seen */
};

/* --- the environment -------------------------------------------------------------------------- */

static void close_env(struct soak_reader *reader)
{
	if (reader->env)
		mdb_env_close(reader->env);
	reader->env = NULL;
}

static int open_once(struct soak_reader *reader, unsigned flags)
{
	MDB_txn *txn = NULL;
	int rc = mdb_env_create(&reader->env);

	if (rc) {
		reader->env = NULL;
		return rc;
	}
	rc = mdb_env_open(reader->env, reader->path, flags, 0);
	if (!rc)
		rc = mdb_txn_begin(reader->env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = mdb_dbi_open(txn, NULL, 0, &reader->dbi);
	if (txn)
		mdb_txn_abort(txn);
	if (rc)
		close_env(reader);
	return rc;
}

/* Which of the data sets that have been under this name it is: none older than the newest one
 * before it was opened. */
static int learn_generation(struct doing *doing, uint64_t come)
{
	struct soak_reader *reader = &doing->reader;
	struct soak_reading reading = {.reader = reader, .random = &doing->random};
	struct soak_found found = {0};
	struct soak_key text;
	MDB_val key = soak_key(&text, 0), value;
	int rc;

	reader->generation = 0;
	if (reader->kind == SOAK_LIVE)
		return 0;
	chance_pause();
	rc = soak_begin(&reading);
	if (!rc)
		rc = mdb_get(reading.txn, reader->dbi, &key, &value);
	if (!rc &&
	    (!soak_is_sound(&reader->data, &key, &value, &found) || found.generation < come ||
	     found.generation > reader->board->coming[reader->kind]))
		soak_complain(reader, "generation %llu is open, %llu was there before",
			      (unsigned long long)found.generation, (unsigned long long)come);
	reader->generation = found.generation;
	soak_end(&reading);
	chance_go_on();
	if (rc)
		soak_complain(reader, "record 0 says %d (%s)", rc, mdb_strerror(rc));
	return rc;
}

static int open_env(struct doing *doing)
{
	struct soak_reader *reader = &doing->reader;
	uint64_t come = reader->board->come[reader->kind], mark = chance_failed();
	unsigned flags = MDB_RDONLY | MDB_NOTLS;
	int rc;

	if (reader->kind != SOAK_LIVE)
		flags |= MDB_NOLOCK;
	if (random_percent(&doing->random, 40))
		flags |= MDB_NORDAHEAD;
	rc = open_once(reader, flags);
	if (rc && soak_is_code(rc, mark)) {
		(void)atomic_fetch_add(&reader->slot->codes, 1);
		chance_pause();
		rc = open_once(reader, flags);
		chance_go_on();
	}
	if (rc) {
		soak_complain(reader, "opening says %d (%s)", rc, mdb_strerror(rc));
		return rc;
	}
	return learn_generation(doing, come);
}

/* --- tasks ------------------------------------------------------------------------------------ */

/* Begins; a later snapshot never has a lower number. */
static int begin(struct doing *doing, struct soak_reading *reading)
{
	int rc;

	*reading = (struct soak_reading){.reader = &doing->reader, .random = &doing->random};
	rc = soak_begin(reading);
	if (rc)
		return rc;
	if (doing->reader.kind == SOAK_LIVE && reading->id < doing->newest)
		soak_complain(&doing->reader, "snapshot %llu after %llu",
			      (unsigned long long)reading->id, (unsigned long long)doing->newest);
	doing->newest = reading->id;
	return 0;
}

static int do_gets(struct doing *doing, struct soak_reading *reading)
{
	return soak_get_some(reading, (unsigned)random_between(&doing->random, 5, 60));
}

static int do_scan(struct doing *doing, struct soak_reading *reading)
{
	return soak_walk(reading, (unsigned)random_between(&doing->random, 20, 600));
}

static int hint(struct doing *doing, struct soak_reading *reading, const uint32_t *records)
{
	struct soak_key texts[HINTS];
	MDB_dbi dbi = doing->reader.dbi;
	uint64_t numbers[HINTS];
	MDB_val keys[HINTS];

	for (unsigned i = 0; i < HINTS; i++) {
		keys[i] = soak_key(&texts[i], records[i]);
		numbers[i] = records[i];
	}
	switch (random_below(&doing->random, 4)) {
	case 0:
		return lmdbio_prefetch_keys(reading->txn, dbi, keys, HINTS);
	case 1:
		return lmdbio_prefetch_records(reading->txn, dbi, numbers, HINTS);
	case 2:
		return lmdbio_prefetch_range(reading->txn, dbi, &keys[0], &keys[HINTS - 1]);
	default:
		return lmdbio_advise(reading->txn, dbi,
				     (enum lmdbio_advice)random_below(&doing->random, 4), 2);
	}
}

static int do_hints(struct doing *doing, struct soak_reading *reading)
{
	uint32_t records[HINTS], at;
	int rc;

	at = (uint32_t)random_below(&doing->random, doing->reader.data.records);
	for (unsigned i = 0; i < HINTS; i++) {
		at = random_percent(&doing->random, 70)
			     ? (at + 1) % doing->reader.data.records
			     : (uint32_t)random_below(&doing->random, doing->reader.data.records);
		records[i] = at;
	}
	rc = hint(doing, reading, records);
	if (rc && soak_is_code(rc, reading->mark)) {
		(void)atomic_fetch_add(&doing->reader.slot->codes, 1);
		rc = 0;
	}
	if (rc)
		soak_complain(&doing->reader, "a hint says %d (%s)", rc, mdb_strerror(rc));
	for (unsigned i = 0; i < HINTS && !rc; i++)
		rc = soak_get(reading, records[i]);
	return rc;
}

static int do_numbers(struct doing *doing, struct soak_reading *reading)
{
	int rc = 0;

	for (unsigned i = 0; i < HINTS && !rc; i++)
		rc = soak_get_by_number(
			reading,
			(uint32_t)random_below(&doing->random, doing->reader.data.records));
	return rc;
}

/* The environment was opened before the fork: the child reads it in transactions of its own. */
static int do_fork(struct doing *doing, struct soak_reading *reading)
{
	bool closes = random_percent(&doing->random, 50);
	pid_t child = fork();
	int status, rc = 0;

	if (child == 0) {
		struct soak_reading own;

		rc = begin(doing, &own);
		if (!rc) {
			rc = soak_get_some(&own, 20);
			if (!rc)
				rc = soak_walk(&own, 100);
			soak_end(&own);
		}
		if (closes)
			close_env(&doing->reader);
		_exit(rc != 0);
	}
	if (child < 0)
		return 0;
	rc = soak_get_some(reading, 10);
	if (waitpid(child, &status, 0) != child || status)
		soak_complain(&doing->reader, "a forked child ended with status %#x",
			      (unsigned)status);
	return rc;
}

struct reading_thread {
	struct doing *doing;
	struct random_stream random;
	pthread_t thread;
	bool runs;
};

static void *read_beside(void *argument)
{
	struct reading_thread *thread = argument;
	struct soak_reading reading = {.reader = &thread->doing->reader, .random = &thread->random};

	if (soak_begin(&reading) == 0) {
		if (soak_get_some(&reading, 40) == 0)
			(void)soak_walk(&reading, 200);
		soak_end(&reading);
	}
	return NULL;
}

static int do_threads(struct doing *doing, struct soak_reading *reading)
{
	struct reading_thread threads[THREADS];
	int rc;

	for (unsigned i = 0; i < THREADS; i++) {
		struct reading_thread *thread = &threads[i];

		thread->doing = doing;
		thread->random = random_start(random_next(&doing->random), i);
		thread->runs = !pthread_create(&thread->thread, NULL, read_beside, thread);
	}
	rc = soak_get_some(reading, 40);
	for (unsigned i = 0; i < THREADS; i++)
		if (threads[i].runs)
			pthread_join(threads[i].thread, NULL);
	return rc;
}

static int do_loader(struct doing *doing, struct soak_reading *reading)
{
	uint64_t newest = reading->id;

	soak_end(reading);
	return soak_load(&doing->reader, &doing->random,
			 (unsigned)random_between(&doing->random, 1, 40), newest);
}

/* Keeps a snapshot over other tasks, looks at it again, lets it go. */
static int do_hold(struct doing *doing, struct soak_reading *reading)
{
	int rc = 0;

	if (doing->held.txn) {
		rc = soak_get_some(&doing->held, 20);
		soak_end(&doing->held);
	} else {
		doing->held = *reading;
		reading->txn = NULL;
		reading->cursor = NULL;
		rc = soak_get_some(&doing->held, 5);
	}
	return rc;
}

/* --- rest ------------------------------------------------------------------------------------- */

static uint64_t kib_of(const char *file, const char *field)
{
	size_t length = strlen(field);
	FILE *lines = fopen(file, "re");
	unsigned long long kib = 0;
	char line[256];

	while (lines && fgets(line, sizeof(line), lines))
		if (!strncmp(line, field, length) && line[length] == ':')
			kib = strtoull(line + length + 1, NULL, 10);
	if (lines)
		fclose(lines);
	return kib;
}

static uint32_t count_lines(const char *file)
{
	FILE *lines = fopen(file, "re");
	uint32_t n = 0;
	int byte;

	while (lines && (byte = getc(lines)) != EOF)
		n += byte == '\n';
	if (lines)
		fclose(lines);
	return n;
}

static uint32_t count_descriptors(void)
{
	DIR *list = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (list && readdir(list))
		n++;
	if (list)
		closedir(list);
	return n > 3 ? n - 3 : 0; /* ".", ".." and the list's own */
}

static void tell_rest(struct soak_slot *slot)
{
	(void)atomic_fetch_add(&slot->rests, 1);
	slot->rest = (struct soak_rest){
		.anon_kib = kib_of("/proc/self/status", "RssAnon"),
		.pss_kib = kib_of("/proc/self/smaps_rollup", "Pss"),
		.descriptors = count_descriptors(),
		.maps = count_lines("/proc/self/maps"),
		.threads = (uint32_t)kib_of("/proc/self/status", "Threads"),
	};
	(void)atomic_fetch_add(&slot->rests, 1);
}

static int rest(struct doing *doing)
{
	struct soak_reader *reader = &doing->reader;

	reader->slot->task = SOAK_REST;
	(void)atomic_fetch_add(&reader->slot->tasks[SOAK_REST], 1);
	soak_end(&doing->held);
	if (!reader->stays)
		close_env(reader);
	if (reader->fault == 'd' && dup(STDERR_FILENO) < 0)
		soak_complain(reader, "there are no more descriptors");
	if (reader->fault == 'h')
		pause();
	chance_pause();
	tell_rest(reader->slot);
	chance_go_on();
	(void)atomic_fetch_add(&reader->slot->progress, 1);
	if (reader->env)
		return 0;
	reader->slot->task = SOAK_OPENING;
	return open_env(doing);
}

/* --- the whole -------------------------------------------------------------------------------- */

static const struct {
	enum soak_task task;
	int (*run)(struct doing *doing, struct soak_reading *reading);
	unsigned percent;
} tasks[] = {
	{SOAK_GETS, do_gets, 26},      {SOAK_SCAN, do_scan, 24}, {SOAK_HINTS, do_hints, 18},
	{SOAK_NUMBERS, do_numbers, 5}, {SOAK_FORK, do_fork, 6},  {SOAK_THREADS, do_threads, 6},
	{SOAK_LOADER, do_loader, 7},   {SOAK_HOLD, do_hold, 8},
};

static int do_one(struct doing *doing)
{
	uint64_t drawn = random_below(&doing->random, 100);
	struct soak_reading reading;
	unsigned i = 0;
	int rc;

	while (drawn >= tasks[i].percent)
		drawn -= tasks[i++].percent;
	doing->reader.slot->task = tasks[i].task;
	(void)atomic_fetch_add(&doing->reader.slot->tasks[tasks[i].task], 1);
	rc = begin(doing, &reading);
	if (rc)
		return rc;
	rc = tasks[i].run(doing, &reading);
	soak_end(&reading);
	return rc;
}

static struct soak_board *map_board(const char *file)
{
	int fd = open(file, O_RDWR | O_CLOEXEC);
	void *board = MAP_FAILED;

	if (fd >= 0) {
		board = mmap(NULL, sizeof(struct soak_board), PROT_READ | PROT_WRITE, MAP_SHARED,
			     fd, 0);
		close(fd);
	}
	return board == MAP_FAILED ? NULL : board;
}

int main(int argc, char **argv)
{
	struct doing doing = {.newest = 0};
	struct soak_reader *reader = &doing.reader;
	unsigned awake = 0;
	uint64_t seed;
	int rc;

	if (argc != 9) {
		fprintf(stderr, "usage: soak_reader BOARD SLOT live|plain|packed PATH RECORDS "
				"DATA-SEED SEED stays|opens:ONE-IN\n");
		return 2;
	}
	reader->board = map_board(argv[1]);
	if (!reader->board) {
		perror(argv[1]);
		return 2;
	}
	reader->slot = &reader->board->slots[strtoul(argv[2], NULL, 0) % SOAK_SLOTS];
	reader->kind = argv[3][0] == 'l' ? SOAK_LIVE : argv[3][1] == 'l' ? SOAK_PLAIN : SOAK_PACKED;
	reader->path = argv[4];
	reader->data = (struct soak_data){.records = (uint32_t)strtoul(argv[5], NULL, 0),
					  .seed = strtoull(argv[6], NULL, 0)};
	seed = strtoull(argv[7], NULL, 0);
	reader->stays = argv[8][0] == 's';
	reader->fault = getenv("SOAK_WRONG") ? *getenv("SOAK_WRONG") : 0;
	doing.random = random_start(seed, 0);
	chance_set(seed, (uint32_t)strtoul(strchr(argv[8], ':') + 1, NULL, 0),
		   &reader->slot->faults);
	reader->slot->task = SOAK_OPENING;
	rc = open_env(&doing);
	while (!rc && soak_goes_on(reader)) {
		rc = awake++ % TASKS_AWAKE ? do_one(&doing) : rest(&doing);
		(void)atomic_fetch_add(&reader->slot->progress, 1);
	}
	soak_end(&doing.held);
	close_env(reader);
	return reader->slot->wrong != 0;
}
