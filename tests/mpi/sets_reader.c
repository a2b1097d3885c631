/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads several data sets as one of several ranks. It is an ordinary program that keeps all sets
 * open over its epochs, and steps through them in turn. */
#include "../stores/stores_db.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { SETS_MAX = 4 };

struct set {
	const char *path;
	struct stores_db db;
	struct stores_sum sum;
	bool on, over; /* the cursor has a place; it has reached the end */
};

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 10) : otherwise;
}

/* The test that counts an epoch's costs makes the file when the epoch may begin. */
static void wait_for_gate(unsigned epoch)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	const char *gate = getenv("SETS_GATE");
	char path[4096];

	if (!gate)
		return;
	snprintf(path, sizeof(path), "%s.%u", gate, epoch);
	while (access(path, F_OK))
		nanosleep(&moment, NULL);
}

/* Reads the part's next record. */
static int step(struct set *set, uint64_t part, uint64_t parts)
{
	struct stores_walk walk = {.first = set->on ? parts - 1 : part, .stride = parts, .most = 1};
	uint64_t before = set->sum.records;
	int rc = stores_scan(&set->db, &walk, set->on, &set->sum);

	set->on = true;
	set->over = set->sum.records == before;
	return rc;
}

static int read_epoch(struct set **sets, unsigned count, uint64_t part, uint64_t parts)
{
	unsigned left = count;
	int rc = 0;

	for (unsigned i = 0; i < count && !rc; i++) {
		sets[i]->sum = (struct stores_sum){0};
		sets[i]->on = sets[i]->over = false;
		rc = stores_begin(&sets[i]->db);
	}
	while (left && !rc) {
		left = 0;
		for (unsigned i = 0; i < count && !rc; i++) {
			if (!sets[i]->over)
				rc = step(sets[i], part, parts);
			left += !sets[i]->over;
		}
	}
	for (unsigned i = 0; i < count; i++)
		stores_end(&sets[i]->db);
	return rc;
}

static void tell(const struct set *sets, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		printf("%llu %llu %016llx\n", (unsigned long long)sets[i].sum.records,
		       (unsigned long long)sets[i].sum.bytes, (unsigned long long)sets[i].sum.hash);
	fflush(stdout);
}

/* sets_reader EPOCHS SET...: prints a line for each epoch and set, in the order of the arguments.
 * Every other rank opens and reads the sets from the last to the first. In each epoch a rank reads
 * the part that the next rank had in the epoch before, so that it wants other records than before.
 * Epoch N (from 1) begins when the file $SETS_GATE.N exists. */
int main(int argc, char **argv)
{
	uint64_t rank = number("PMI_RANK", 0), ranks = number("PMI_SIZE", 1);
	unsigned epochs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	unsigned count = argc > 2 ? (unsigned)argc - 2 : 0;
	struct set sets[SETS_MAX] = {0}, *turns[SETS_MAX];
	int rc = 0;

	if (!epochs || !count || count > SETS_MAX)
		return 2;
	for (unsigned i = 0; i < count; i++) {
		sets[i].path = argv[2 + i];
		turns[rank % 2 ? count - 1 - i : i] = &sets[i];
	}
	for (unsigned i = 0; i < count && !rc; i++)
		rc = stores_open(&turns[i]->db, turns[i]->path, 0);
	for (unsigned epoch = 1; epoch <= epochs && !rc; epoch++) {
		wait_for_gate(epoch);
		rc = read_epoch(turns, count, (rank + epoch - 1) % ranks, ranks);
		tell(sets, count);
	}
	if (rc)
		fprintf(stderr, "sets_reader: %d, %s\n", rc, mdb_strerror(rc));
	for (unsigned i = 0; i < count; i++)
		stores_close(&sets[i].db);
	return rc ? 3 : 0;
}
