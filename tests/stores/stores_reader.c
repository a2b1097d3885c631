/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a data set, as an ordinary program, in the ways that the figures are about. Prints what it
 * saw and what that cost. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_LMDB = 3, PROBES = 64 };

struct options {
	const char *work, *start, *together;
	struct stores_walk walk;
	uint64_t count, records, batch, seed;
	uint64_t record;   /* counted from 1; 0: chosen by the seed */
	uint64_t anon_kib; /* of the process before it opened an environment */
	unsigned flags;
	bool announce, numbers, random, hold, set, renew;
};

struct costs {
	long major;
	double seconds;
	uint64_t memfd_kib, anon_kib, shmem_kib; /* the largest growth seen */
};

typedef int (*prefetch_call)(MDB_txn *txn, MDB_dbi dbi, const MDB_val *keys, size_t n);

static void usage(FILE *out)
{
	fprintf(out,
		"usage: stores_reader [options] scan|lookup|get|batch|keep DIRECTORY\n"
		"Reads a data set of eight-digit keys and prints\n"
		"RECORDS BYTES HASH major N minor N seconds N memfd N anon N shmem N (KiB)\n"
		"from N to N (seconds of the machine's clock, of what follows the opening)\n"
		"  --backward  --stride=N --first=K --most=N  --nordahead --no-lock\n"
		"  --records=N  of the set (lookup, get, batch)\n"
		"  --set        by a cursor (lookup); --renew: each (get, lookup) in a transaction of its own\n"
		"  --count=N    records to get, none twice\n"
		"  --record=K   get this one alone, of 0, 1 ...\n"
		"  --batch=N    records of a mini-batch (256)\n"
		"  --announce   each mini-batch by lmdbio_prefetch_keys first\n"
		"  --numbers    the same by lmdbio_prefetch_records\n"
		"  --random     says so by lmdbio_advise first\n"
		"  --seed=N     of the order (1)\n"
		"  --start=FILE prints \"ready\", then waits for a shared lock on FILE\n"
		"  --together=N:FILE  begins when N processes have opened the set; FILE has\n"
		"               four bytes of zero at first\n"
		"  --hold       prints, then waits for the end of standard input\n"
		"Exit: 0, 3 an LMDB error, 2 usage.\n");
}

static void costs_sample(struct costs *costs, const struct costs *before)
{
	uint64_t memfd = stores_memfd_kib(), anon = stores_status_kib("RssAnon");
	uint64_t shmem = stores_status_kib("RssShmem");

	if (memfd > costs->memfd_kib)
		costs->memfd_kib = memfd;
	if (anon > before->anon_kib && anon - before->anon_kib > costs->anon_kib)
		costs->anon_kib = anon - before->anon_kib;
	if (shmem > costs->shmem_kib)
		costs->shmem_kib = shmem;
}

/* Returns place i of a permutation of 0 .. n - 1 without a pattern: a Feistel network over as many
 * bits as n needs, repeated until the result is below n. */
static uint64_t place(uint64_t i, uint64_t n, uint64_t seed)
{
	enum { ROUNDS = 4 };
	unsigned half = 1;
	uint64_t mask;

	while (n > (uint64_t)1 << 2 * half)
		half++;
	mask = ((uint64_t)1 << half) - 1;
	do {
		uint64_t left = i >> half, right = i & mask;

		for (uint64_t round = 0; round < ROUNDS; round++) {
			uint64_t next =
				left ^ (stores_mix(seed << 40 ^ round << 32 ^ right) & mask);

			left = right;
			right = next;
		}
		i = left << half | right;
	} while (i >= n);
	return i;
}

static int run_scan(struct stores_db *db, const struct options *options, struct stores_sum *sum)
{
	return stores_scan(db, &options->walk, false, sum);
}

static int get_one(struct stores_db *db, uint64_t record, struct stores_sum *sum)
{
	struct stores_key text;
	MDB_val key = stores_key(&text, record), value;
	int rc = mdb_get(db->txn, db->dbi, &key, &value);

	if (!rc)
		stores_take(sum, &key, &value);
	return rc;
}

/* Reads the records by their keys, in order. */
static int run_lookup(struct stores_db *db, const struct options *options, struct stores_sum *sum)
{
	uint64_t stride = options->walk.stride ? options->walk.stride : 1;
	int rc = 0;

	for (uint64_t i = options->walk.first; i < options->records && !rc; i += stride) {
		struct stores_key text;
		MDB_val key = stores_key(&text, i), value;

		if (options->renew) {
			stores_end(db);
			rc = stores_begin(db);
		}
		if (!rc && options->set)
			rc = mdb_cursor_get(db->cursor, &key, &value, MDB_SET);
		else if (!rc)
			rc = mdb_get(db->txn, db->dbi, &key, &value);
		if (!rc)
			stores_take(sum, &key, &value);
	}
	return rc;
}

/* Advises the library that records are read in random order. */
static int advise(struct stores_db *db)
{
	enum { RANDOM = 2 }; /* LMDBIO_RANDOM */
	void *symbol = dlsym(RTLD_DEFAULT, "lmdbio_advise");
	int (*call)(MDB_txn * txn, MDB_dbi dbi, int advice, unsigned stride);

	memcpy(&call, &symbol, sizeof(call));
	return call ? call(db->txn, db->dbi, RANDOM, 0) : MDB_INVALID;
}

static int run_get(struct stores_db *db, const struct options *options, struct stores_sum *sum)
{
	int rc = options->random ? advise(db) : 0;

	if (options->record)
		return get_one(db, options->record - 1, sum);
	for (uint64_t i = 0; i < options->count && !rc; i++) {
		if (options->renew) {
			stores_end(db);
			rc = stores_begin(db);
		}
		if (!rc)
			rc = get_one(db, place(i, options->records, options->seed), sum);
	}
	return rc;
}

static int announce(struct stores_db *db, const struct options *options, uint64_t from,
		    uint64_t end)
{
	void *symbol = dlsym(RTLD_DEFAULT, "lmdbio_prefetch_keys");
	struct stores_key *texts = calloc(end - from, sizeof(*texts));
	MDB_val *keys = calloc(end - from, sizeof(*keys));
	prefetch_call call;
	int rc = ENOMEM;

	memcpy(&call, &symbol, sizeof(call));
	for (uint64_t i = from; i < end && texts && keys; i++)
		keys[i - from] =
			stores_key(&texts[i - from], place(i, options->records, options->seed));
	if (!call)
		rc = MDB_INVALID; /* the original has no such call: the test is wrong */
	else if (texts && keys)
		rc = call(db->txn, db->dbi, keys, end - from);
	free(keys);
	free(texts);
	return rc;
}

static int announce_numbers(struct stores_db *db, const struct options *options, uint64_t from,
			    uint64_t end)
{
	void *symbol = dlsym(RTLD_DEFAULT, "lmdbio_prefetch_records");
	uint64_t *numbers = calloc(end - from, sizeof(*numbers));
	int (*call)(MDB_txn * txn, MDB_dbi dbi, const uint64_t *numbers, size_t n);
	int rc;

	memcpy(&call, &symbol, sizeof(call));
	for (uint64_t i = from; i < end && numbers; i++)
		numbers[i - from] = place(i, options->records, options->seed);
	rc = !call ? MDB_INVALID : numbers ? call(db->txn, db->dbi, numbers, end - from) : ENOMEM;
	free(numbers);
	return rc;
}

static int run_batch(struct stores_db *db, const struct options *options, struct stores_sum *sum)
{
	int rc = 0;

	for (uint64_t i = 0; i < options->count && !rc; i++) {
		uint64_t end = i + options->batch;

		if (end > options->count)
			end = options->count;
		if (i % options->batch == 0 && options->announce)
			rc = announce(db, options, i, end);
		if (i % options->batch == 0 && options->numbers)
			rc = announce_numbers(db, options, i, end);
		if (!rc)
			rc = get_one(db, place(i, options->records, options->seed), sum);
	}
	return rc;
}

/* Keeps every pointer of a scan and reads all of them again at the end. The second sum is printed,
 * and must equal the first. */
static int run_keep(struct stores_db *db, const struct options *options, struct stores_sum *sum,
		    struct costs *costs)
{
	uint64_t every = options->records / PROBES + 1;
	MDB_val *kept = calloc(2 * options->records, sizeof(*kept));
	struct stores_sum first = {0};
	struct costs before = {.anon_kib = options->anon_kib};
	uint64_t n = 0;
	int rc;

	if (!kept)
		return ENOMEM;
	/* The program's own memory, resident from here on. */
	memset(kept, 1, 2 * options->records * sizeof(*kept));
	before.anon_kib += 2 * options->records * sizeof(*kept) / 1024;
	rc = mdb_cursor_get(db->cursor, &kept[0], &kept[1], MDB_FIRST);
	while (!rc) {
		stores_take(&first, &kept[2 * n], &kept[2 * n + 1]);
		if (++n % every == 0)
			costs_sample(costs, &before);
		if (n == options->records)
			break;
		rc = mdb_cursor_get(db->cursor, &kept[2 * n], &kept[2 * n + 1], MDB_NEXT);
	}
	for (uint64_t i = 0; i < n; i++) {
		stores_take(sum, &kept[2 * i], &kept[2 * i + 1]);
		if (i % every == 0)
			costs_sample(costs, &before);
	}
	free(kept);
	if (!rc && first.hash != sum->hash) {
		fprintf(stderr, "stores_reader: bytes under a kept pointer have changed\n");
		return MDB_CORRUPTED;
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int run(struct stores_db *db, const struct options *options, struct stores_sum *sum,
	       struct costs *costs)
{
	if (!strcmp(options->work, "scan"))
		return run_scan(db, options, sum);
	if (!strcmp(options->work, "lookup"))
		return run_lookup(db, options, sum);
	if (!strcmp(options->work, "get"))
		return run_get(db, options, sum);
	if (!strcmp(options->work, "batch"))
		return run_batch(db, options, sum);
	if (!strcmp(options->work, "keep"))
		return run_keep(db, options, sum, costs);
	usage(stderr);
	exit(EXIT_USAGE);
}

static void wait_for_start(const char *start)
{
	int fd;

	printf("ready\n");
	fflush(stdout);
	fd = open(start, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_SH)) {
		perror(start);
		exit(EXIT_USAGE);
	}
	close(fd);
}

/* Waits until all processes that read together have come this far. */
static void wait_for_all(const char *together)
{
	char *path;
	unsigned wanted = (unsigned)strtoul(together, &path, 10), there;
	int fd = *path ? open(path + 1, O_RDWR | O_CLOEXEC) : -1;
	atomic_uint *count =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (count == MAP_FAILED) {
		perror(together);
		exit(EXIT_USAGE);
	}
	atomic_fetch_add(count, 1);
	syscall(SYS_futex, count, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	while ((there = atomic_load(count)) < wanted)
		syscall(SYS_futex, count, FUTEX_WAIT, there, NULL, NULL, 0);
	munmap(count, sizeof(*count));
	close(fd);
}

static bool parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"backward", no_argument, NULL, 'b'},
		{"stride", required_argument, NULL, 's'},
		{"first", required_argument, NULL, 'f'},
		{"most", required_argument, NULL, 'M'},
		{"nordahead", no_argument, NULL, 'r'},
		{"no-lock", no_argument, NULL, 'l'},
		{"records", required_argument, NULL, 'n'},
		{"count", required_argument, NULL, 'c'},
		{"record", required_argument, NULL, 'k'},
		{"batch", required_argument, NULL, 'm'},
		{"announce", no_argument, NULL, 'a'},
		{"numbers", no_argument, NULL, 'N'},
		{"random", no_argument, NULL, 'R'},
		{"seed", required_argument, NULL, 'e'},
		{"start", required_argument, NULL, 'w'},
		{"together", required_argument, NULL, 't'},
		{"hold", no_argument, NULL, 'h'},
		{"set", no_argument, NULL, 'S'},
		{"renew", no_argument, NULL, 'W'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 0) : 0;

		switch (option) {
		case 'b':
			options->walk.backward = true;
			break;
		case 's':
			options->walk.stride = number;
			break;
		case 'f':
			options->walk.first = number;
			break;
		case 'M':
			options->walk.most = number;
			break;
		case 'r':
			options->flags |= MDB_NORDAHEAD;
			break;
		case 'l':
			options->flags |= MDB_NOLOCK;
			break;
		case 'n':
			options->records = number;
			break;
		case 'c':
			options->count = number;
			break;
		case 'k':
			options->record = number + 1;
			break;
		case 'm':
			options->batch = number;
			break;
		case 'a':
			options->announce = true;
			break;
		case 'N':
			options->numbers = true;
			break;
		case 'R':
			options->random = true;
			break;
		case 'e':
			options->seed = number;
			break;
		case 'w':
			options->start = optarg;
			break;
		case 't':
			options->together = optarg;
			break;
		case 'h':
			options->hold = true;
			break;
		case 'S':
			options->set = true;
			break;
		case 'W':
			options->renew = true;
			break;
		default:
			return false;
		}
	}
	options->work = argv[optind];
	return optind + 2 == argc && options->batch;
}

int main(int argc, char **argv)
{
	struct options options = {.records = 1, .batch = 256, .seed = 1};
	struct stores_sum sum = {0};
	struct costs costs = {0};
	struct rusage before, after;
	struct stores_db db;
	double began, from, to;
	int rc;

	if (!parse(argc, argv, &options)) {
		usage(stderr);
		return EXIT_USAGE;
	}
	if (options.start)
		wait_for_start(options.start);
	options.anon_kib = stores_status_kib("RssAnon");
	getrusage(RUSAGE_SELF, &before);
	began = stores_now();
	rc = stores_open(&db, argv[optind + 1], options.flags);
	if (!rc)
		rc = stores_begin(&db);
	if (options.together)
		wait_for_all(options.together);
	from = stores_now();
	if (!rc)
		rc = run(&db, &options, &sum, &costs);
	to = stores_now();
	getrusage(RUSAGE_SELF, &after);
	printf("%llu %llu %016llx major %ld minor %ld seconds %.3f memfd %llu anon %llu shmem %llu "
	       "from %.6f to %.6f\n",
	       (unsigned long long)sum.records, (unsigned long long)sum.bytes,
	       (unsigned long long)sum.hash, after.ru_majflt - before.ru_majflt,
	       after.ru_minflt - before.ru_minflt, to - began, (unsigned long long)costs.memfd_kib,
	       (unsigned long long)costs.anon_kib, (unsigned long long)costs.shmem_kib, from, to);
	if (rc) {
		printf("error %d %s\n", rc, mdb_strerror(rc));
		fprintf(stderr, "stores_reader: %d, %s\n", rc, mdb_strerror(rc));
	}
	fflush(stdout);
	while (options.hold && getchar() != EOF)
		continue;
	stores_close(&db);
	return rc ? EXIT_LMDB : 0;
}
