/* SPDX-License-Identifier: OLDAP-2.8 */
/* Kills or stops one of eight readers of a node at random moments, and starts another one in its
 * place. The others must go on and see right bytes.
 *
 * The moments follow from the seed and their number, as far as a machine's moments can, so that a
 * run can be continued with the next number. No time is judged unless a limit is given. A limit is
 * for the time that a survivor sleeps: its waits for a processor are the machine's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <getopt.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	READERS = 8,
	SCANNED = 12,       /* records in a scan */
	USES_OPEN = 150,    /* uses of an environment */
	PAUSE_MOST = 3000,  /* microseconds before the next moment */
	HANG_SECONDS = 300, /* without a use by a survivor */
	STOPS = 4,          /* one in so many moments of a stoppable reader is a stop */
};

/* What all processes of a run share. */
struct board {
	_Atomic uint64_t uses[READERS]; /* of the reader that has this number at present */
	_Atomic uint64_t wrong;
};

struct plan {
	const char *program, *path;
	uint64_t records, seed, first, moments;
	unsigned limit; /* milliseconds; 0: not judged */
	struct board *board;
	pid_t pids[READERS];
};

struct totals {
	uint64_t uses, killed, stopped, late, failed;
	double longest, asleep; /* seconds until a survivor's next use */
};

/* --- a reader --------------------------------------------------------------------------------- */

static bool is_right(uint64_t record, const MDB_val *value)
{
	uint64_t word, expected;

	for (size_t at = 0; at < value->mv_size; at += 8) {
		size_t n = value->mv_size - at < 8 ? value->mv_size - at : 8;

		expected = stores_mix(record << 32 | at);
		word = expected;
		memcpy(&word, (const char *)value->mv_data + at, n);
		if (word != expected)
			return false;
	}
	return value->mv_size > 0;
}

/* Reads one record, or several in order, from a random one on. */
static int use(struct stores_db *db, uint64_t records, uint64_t random, bool *right)
{
	uint64_t record = random % records, count = random >> 40 & 1 ? 1 : SCANNED;
	struct stores_key text;
	MDB_val key = stores_key(&text, record), value;
	int rc = mdb_cursor_get(db->cursor, &key, &value, MDB_SET_KEY);

	*right = true;
	while (!rc) {
		*right = *right && is_right(record, &value);
		if (!--count || ++record == records)
			return 0;
		rc = mdb_cursor_get(db->cursor, &key, &value, MDB_NEXT);
	}
	return rc;
}

/* Half of the readers take LMDB's locks. A stopped process that holds one of LMDB's locks holds up
 * all others that take it, so only readers of the other half are stopped. */
static bool locks(unsigned number)
{
	return number % 2 == 0;
}

static int read_some(const struct plan *plan, unsigned number, uint64_t *random)
{
	struct stores_db db;
	bool right;
	int dead, rc = stores_open(&db, plan->path, locks(number) ? 0 : MDB_NORDAHEAD | MDB_NOLOCK);

	if (rc)
		return rc;
	/* Frees slots of killed readers, which LMDB does not free by itself. */
	if (locks(number))
		rc = mdb_reader_check(db.env, &dead);
	for (unsigned i = 0; i < USES_OPEN && !rc; i++) {
		*random = stores_mix(*random);
		rc = stores_begin(&db);
		if (rc)
			break;
		rc = use(&db, plan->records, *random, &right);
		stores_end(&db);
		if (!rc && !right)
			atomic_fetch_add(&plan->board->wrong, 1);
		atomic_fetch_add(&plan->board->uses[number], 1);
	}
	stores_close(&db);
	return rc;
}

static int read_for_ever(const struct plan *plan, unsigned number)
{
	uint64_t random = plan->seed;
	int rc;

	do {
		rc = read_some(plan, number, &random);
	} while (!rc);
	fprintf(stderr, "reader %u: %s\n", number, mdb_strerror(rc));
	return 1;
}

/* --- moments ---------------------------------------------------------------------------------- */

static void start(struct plan *plan, unsigned number, uint64_t seed, int fd)
{
	char words[4][32];
	pid_t parent = getpid();

	snprintf(words[0], sizeof(words[0]), "--reader=%u", number);
	snprintf(words[1], sizeof(words[1]), "--board=%d", fd);
	snprintf(words[2], sizeof(words[2]), "--seed=%llu", (unsigned long long)seed);
	snprintf(words[3], sizeof(words[3]), "%llu", (unsigned long long)plan->records);
	atomic_store(&plan->board->uses[number], 0);
	plan->pids[number] = fork();
	if (plan->pids[number])
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	execl(plan->program, plan->program, words[0], words[1], words[2], plan->path, words[3],
	      (char *)NULL);
	_exit(126);
}

/* Returns the seconds that a process has run or waited for a processor. */
static double processor(pid_t pid)
{
	unsigned long long ran = 0, waited = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &ran, &waited) != 2)
		ran = waited = 0;
	fclose(file);
	return (double)(ran + waited) / 1e9;
}

/* A survivor between a moment and its next use. */
struct way {
	uint64_t uses;
	double had; /* seconds on a processor or waiting for one */
	bool done;
};

static void arrive(const struct plan *plan, unsigned number, struct way *way, double took,
		   struct totals *totals)
{
	double asleep = took - (processor(plan->pids[number]) - way->had);

	way->done = true;
	totals->longest = took > totals->longest ? took : totals->longest;
	totals->asleep = asleep > totals->asleep ? asleep : totals->asleep;
	totals->late += plan->limit && asleep * 1000 > plan->limit;
}

/* Waits until each reader that had read before, except the victim, has read on. Returns false if a
 * reader hangs or has ended. */
static bool go_on(const struct plan *plan, unsigned victim, struct totals *totals)
{
	double began = stores_now(), took = 0;
	struct way ways[READERS];
	unsigned left = 0;

	for (unsigned i = 0; i < READERS; i++) {
		ways[i].uses = atomic_load(&plan->board->uses[i]);
		ways[i].had = processor(plan->pids[i]);
		ways[i].done = i == victim || !ways[i].uses;
		left += !ways[i].done;
	}
	for (; left && took < HANG_SECONDS; usleep(100)) {
		took = stores_now() - began;
		for (unsigned i = 0; i < READERS; i++) {
			if (ways[i].done)
				continue;
			if (waitpid(plan->pids[i], NULL, WNOHANG))
				took = HANG_SECONDS;
			if (atomic_load(&plan->board->uses[i]) == ways[i].uses)
				continue;
			arrive(plan, i, &ways[i], took, totals);
			left--;
		}
	}
	for (unsigned i = 0; i < READERS; i++)
		if (!ways[i].done)
			printf("NOT OK: reader %u does not go on\n", i);
	return !left;
}

static bool moment(struct plan *plan, uint64_t number, int fd, struct totals *totals)
{
	uint64_t random = stores_mix(plan->seed ^ stores_mix(number));
	unsigned victim = random % READERS;
	bool stops = !locks(victim) && (random >> 8) % STOPS == 0, on;
	int status = 0;

	usleep((unsigned)(random >> 16) % PAUSE_MOST);
	if (kill(plan->pids[victim], stops ? SIGSTOP : SIGKILL))
		return false;
	if (!stops && waitpid(plan->pids[victim], &status, 0) != plan->pids[victim])
		return false;
	totals->uses += stops ? 0 : atomic_load(&plan->board->uses[victim]);
	totals->stopped += stops;
	totals->killed += !stops;
	if (!stops && (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)) {
		printf("NOT OK: reader %u has ended by itself, %x\n", victim, status);
		totals->failed++;
	}
	on = go_on(plan, victim, totals);
	if (stops)
		kill(plan->pids[victim], SIGCONT);
	else
		start(plan, victim, random, fd);
	return on && !totals->failed;
}

static int control(struct plan *plan, int fd)
{
	struct totals totals = {0};
	struct stores_db held;
	uint64_t done = 0;
	bool on = true;

	/* Open all the time: LMDB's first opener makes the lock file's table, and would hold up all
	 * others if it were stopped. */
	if (stores_open(&held, plan->path, 0))
		return 2;
	for (unsigned i = 0; i < READERS; i++)
		start(plan, i, plan->seed + i, fd);
	while (on && done < plan->moments && !atomic_load(&plan->board->wrong))
		on = moment(plan, plan->first + done++, fd, &totals);
	for (unsigned i = 0; i < READERS; i++) {
		kill(plan->pids[i], SIGKILL);
		waitpid(plan->pids[i], NULL, 0);
		totals.uses += atomic_load(&plan->board->uses[i]);
	}
	stores_close(&held);
	printf("seed %llu, moments %llu to %llu: %llu killed, %llu stopped, %llu uses, %llu wrong, "
	       "%llu late; "
	       "a survivor's next use within %.0f ms, of which it sleeps %.0f\n",
	       (unsigned long long)plan->seed, (unsigned long long)plan->first,
	       (unsigned long long)(plan->first + done), (unsigned long long)totals.killed,
	       (unsigned long long)totals.stopped, (unsigned long long)totals.uses,
	       (unsigned long long)plan->board->wrong, (unsigned long long)totals.late,
	       totals.longest * 1000, totals.asleep * 1000);
	return !on || totals.late || plan->board->wrong || totals.uses <= totals.killed;
}

static const struct option flags[] = {
	{"reader", required_argument, NULL, 'r'}, {"board", required_argument, NULL, 'b'},
	{"seed", required_argument, NULL, 's'},   {"first", required_argument, NULL, 'f'},
	{"limit", required_argument, NULL, 'l'},  {NULL, 0, NULL, 0},
};

int main(int argc, char **argv)
{
	struct plan plan = {.program = argv[0], .seed = 1};
	int option, reader = -1, fd = -1;

	while ((option = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		switch (option) {
		case 'r':
			reader = atoi(optarg);
			break;
		case 'b':
			fd = atoi(optarg);
			break;
		case 's':
			plan.seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			plan.first = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			plan.limit = (unsigned)strtoul(optarg, NULL, 0);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != (reader < 0 ? 3 : 2) || reader >= READERS) {
		fprintf(stderr,
			"usage: stores_kills [--seed=S] [--first=NUMBER] [--limit=MILLISECONDS] "
			"DIRECTORY RECORDS MOMENTS\n");
		return 2;
	}
	plan.path = argv[optind];
	plan.records = strtoull(argv[optind + 1], NULL, 0);
	if (reader < 0) {
		plan.moments = strtoull(argv[optind + 2], NULL, 0);
		fd = memfd_create("board", 0); /* the readers inherit it */
		if (fd < 0 || ftruncate(fd, sizeof(*plan.board)))
			return 2;
	}
	plan.board = mmap(NULL, sizeof(*plan.board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (plan.board == MAP_FAILED)
		return 2;
	return reader < 0 ? control(&plan, fd) : read_for_ever(&plan, (unsigned)reader);
}
