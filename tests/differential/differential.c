/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how many databases and sequences make up the comparison, and how a
 * difference is reported.
 *
 * Each sequence runs in a process of its own, so that a crash and a hang are results too.
 */
#include "operation_run.h"
#include "original_state.h"
#include "shrink.h"

#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LATER = 256 }; /* an option without a letter */
#ifdef __SANITIZE_ADDRESS__
enum { OPERATIONS = 300000 };
#else
enum { OPERATIONS = 1000000 };
#endif

enum { SEQUENCE_LENGTH = 2000, SEQUENCES_A_DATABASE = 5, SHRINK_TRIES = 500 };

struct options {
	uint64_t seed, operations, databases, first;
	const char *flags, *convert;
	bool self_test, later, lenient, verbose;
};

struct totals {
	unsigned long long done, skipped, sequences;
	struct {
		char name[24];
		unsigned long count;
	} left_out[CASES_MAX];
};

/* One failing sequence on its way through the shrinking. */
struct failing {
	const struct sequence *sequence;
	struct sequence_result *result;
};

enum outcome { AGREES, DIFFERS, DIES, HANGS };

static enum outcome run_apart(const struct sequence *sequence,
			      const struct read_operation *operations, unsigned count,
			      struct sequence_result *result, unsigned seconds, int *signal_number)
{
	int status;
	pid_t child;

	memset(result, 0, sizeof *result);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		/* what malloc hands out and takes back is never zero by luck */
		mallopt(M_PERTURB, (int)(sequence->number % 255 + 1));
		alarm(seconds);
		sequence_run(sequence, operations, count, result);
		fflush(stdout);
		_exit(result->differs);
	}
	if (child < 0 || waitpid(child, &status, 0) != child) {
		perror("differential: fork");
		exit(2);
	}
	*signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (*signal_number == SIGALRM)
		return HANGS;
	if (!WIFEXITED(status))
		return DIES;
	/* a library that ends the process has not agreed either */
	return WEXITSTATUS(status) == 0 && result->at >= count ? AGREES : DIFFERS;
}

static bool still_fails(void *context, const struct read_operation *operations, unsigned count,
			unsigned *length)
{
	struct failing *failing = context;
	int signal_number;

	if (run_apart(failing->sequence, operations, count, failing->result, 5, &signal_number) ==
	    AGREES)
		return false;
	*length = failing->result->at < count ? failing->result->at + 1 : count;
	return true;
}

static void print_failure(const struct options *options, const struct sequence *sequence,
			  struct read_operation *operations, unsigned count,
			  struct sequence_result *result, int ended_by)
{
	static const char *const names[] = {"agrees", "differs", "dies", "hangs"};
	struct sequence loud = *sequence;
	struct failing failing = {sequence, result};
	static char plan[4096];
	int signal_number;
	enum outcome outcome;

	db_plan_describe(&sequence->database->plan, plan, sizeof plan);
	printf("\nFAILED: --seed=%llu --first=%llu --databases=1%s%s%s\n  database: %s\n",
	       (unsigned long long)options->seed,
	       (unsigned long long)sequence->database->plan.number,
	       options->later ? " --later" : "", options->flags ? " --flags=" : "",
	       options->flags ? options->flags : "", plan);
	printf("  sequence %llu, environment flags %#x, %u named databases at most\n",
	       (unsigned long long)sequence->number, sequence->env_flags, sequence->most_dbs);
	/* What depends on timing may not show again. */
	printf("  first seen at operation %u: %s%s%s\n", result->at, result->difference,
	       result->difference[0] ? "" : "no difference, it ended there by signal ",
	       result->difference[0] ? "" : strsignal(ended_by));
	count = shrink(operations, count, SHRINK_TRIES, still_fails, &failing);
	printf("  the shortest failing sequence found has %u operations:\n", count);
	loud.verbose = true;
	outcome = run_apart(&loud, operations, count, result, 10, &signal_number);
	printf("  it %s", names[outcome]);
	if (signal_number)
		printf(" by signal %d in operation %u", signal_number, result->at);
	printf("%s%s\n", result->differs ? ": " : "", result->difference);
}

/* The ways to open an environment that sequences go through in turn. */
static unsigned env_flags(uint64_t number)
{
	static const unsigned ways[] = {
		MDB_NOLOCK,
		MDB_NOTLS,
		MDB_NOLOCK | MDB_NOTLS | MDB_NORDAHEAD,
		0,
		MDB_NOLOCK | MDB_NOSUBDIR,
		MDB_NOTLS | MDB_NOSUBDIR | MDB_NORDAHEAD,
	};

	return ways[number % (sizeof ways / sizeof *ways)];
}

static void add_up(struct totals *totals, const struct sequence_result *result)
{
	totals->done += result->done;
	totals->skipped += result->skipped;
	totals->sequences++;
	for (int i = 0; i < CASES_MAX && result->left_out[i].count > 0; i++) {
		for (int j = 0; j < CASES_MAX; j++) {
			if (totals->left_out[j].count == 0)
				memcpy(totals->left_out[j].name, result->left_out[i].name,
				       sizeof totals->left_out[j].name);
			if (strcmp(totals->left_out[j].name, result->left_out[i].name) != 0)
				continue;
			totals->left_out[j].count += result->left_out[i].count;
			break;
		}
	}
}

/* Some sequences on one database. False: a difference was found (and printed, if `report`). */
static bool compare_database(const struct options *options, const struct database *database,
			     const struct library *ours, unsigned sequences,
			     struct sequence_result *result, struct totals *totals, bool report)
{
	static struct read_operation operations[SEQUENCE_LENGTH];

	for (unsigned i = 0; i < sequences; i++) {
		uint64_t number = database->plan.number * SEQUENCES_A_DATABASE + i;
		struct random_stream random = random_start(options->seed, number ^ (1ull << 60));
		struct sequence sequence = {
			.database = database,
			.ours = ours,
			/* A container, which nobody writes, has no lock file. */
			.env_flags = env_flags(number) | (database->container ? MDB_NOLOCK : 0),
			.most_dbs = random_percent(&random, 85) ? DB_TABLES_MAX : 2,
			.number = number,
			.strict = !options->lenient,
			.verbose = options->verbose,
		};
		int signal_number;

		for (unsigned o = 0; o < SEQUENCE_LENGTH; o++)
			operations[o] = operation_draw(&random, o > 0 ? &operations[o - 1] : NULL);
		if (run_apart(&sequence, operations, SEQUENCE_LENGTH, result, 120,
			      &signal_number) != AGREES) {
			unsigned length =
				result->at < SEQUENCE_LENGTH ? result->at + 1 : SEQUENCE_LENGTH;

			add_up(totals, result);
			if (report)
				print_failure(options, &sequence, operations, length, result,
					      signal_number);
			return false;
		}
		add_up(totals, result);
	}
	return true;
}

static bool make_database(const struct options *options, uint64_t number, const char *scratch,
			  struct database *database)
{
	static struct db_plan plan;
	const char *bad;
	int rc;

	db_plan_make(&plan, options->seed, number);
	if (options->flags && db_plan_restrict(&plan, options->flags, &bad) != 0) {
		fprintf(stderr, "differential: %s: not a word of --flags\n", bad);
		exit(2);
	}
	rc = database_make(database, &plan, scratch);
	if (rc != 0)
		printf("FAILED: database %llu could not be made: %s\n", (unsigned long long)number,
		       library_original.mdb_strerror(rc));
	if (rc == 0 && options->later) {
		rc = database_make_later(database);
		if (rc != 0)
			printf("FAILED: database %llu has no file of LMDB 1.0: %s\n",
			       (unsigned long long)number, strerror(rc));
	}
	if (rc == 0 && options->convert) {
		rc = database_convert(database, options->convert);
		if (rc != 0)
			printf("FAILED: database %llu could not be converted: status %d\n",
			       (unsigned long long)number, rc);
	}
	return rc == 0;
}

static int compare_all(const struct options *options, const char *scratch,
		       struct sequence_result *result)
{
	static struct database database;
	struct totals totals = {0};
	uint64_t number = options->first;
	bool agree = true;

	while (agree && (options->databases ? number < options->first + options->databases
					    : totals.done < options->operations)) {
		agree = make_database(options, number++, scratch, &database) &&
			compare_database(options, &database, &library_ours, SEQUENCES_A_DATABASE,
					 result, &totals, true);
		database_free(&database);
	}
	printf("%llu operations on %llu databases, %llu sequences: %s\n", totals.done,
	       (unsigned long long)(number - options->first), totals.sequences,
	       agree ? "no difference" : "DIFFERENT");
	for (int i = 0; i < CASES_MAX && totals.left_out[i].count > 0; i++)
		printf("  left out, undefined in the original: %s %lu\n", totals.left_out[i].name,
		       totals.left_out[i].count);
	return agree ? 0 : 1;
}

/* A library that is wrong on purpose must be found out within a few databases. */
static int test_itself(const struct options *options, const char *scratch,
		       struct sequence_result *result)
{
	static struct database database;
	int missed = 0;

	for (int fault = 1; fault <= LIBRARY_FAULTS; fault++) {
		struct library wrong = library_with_fault(fault);
		struct totals totals = {0};
		bool found = false;

		for (uint64_t number = 0; number < 40 && !found; number++) {
			bool made = make_database(options, number, scratch, &database);

			found = made &&
				!compare_database(options, &database, &wrong, SEQUENCES_A_DATABASE,
						  result, &totals, options->verbose);
			database_free(&database);
			if (!made)
				return 1;
		}
		printf("fault %d: %s after %llu operations%s%s\n", fault,
		       found ? "found" : "MISSED", totals.done, found ? ": " : "",
		       result->difference);
		missed += !found;
	}
	return missed == 0 ? 0 : 1;
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: differential [options]\n"
		"Random read operations on the original LMDB and on lmdbio, compared one by one.\n"
		"  --seed=N        of everything (DIFF_SEED, else 1)\n"
		"  --operations=N  stop after so many (DIFF_OPERATIONS, else 1000000, or\n"
		"                  300000 with a sanitizer;\n"
		"                  10000000 if TESTS_LONG is set)\n"
		"  --databases=N   so many databases instead\n"
		"  --first=N       number of the first database (0)\n"
		"  --flags=WORDS   every database of this kind (see lmdbio-testdb)\n"
		"  --convert=PROGRAM  lmdbio reads containers that this makes of them\n"
		"  --later         lmdbio reads the same content in the format of LMDB 1.0\n"
		"  --lenient       after an error, key and data need not agree\n"
		"  --self-test     faulty libraries must be found out\n"
		"  --verbose       print each operation\n");
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"seed", required_argument, NULL, 's'},
		{"operations", required_argument, NULL, 'o'},
		{"databases", required_argument, NULL, 'd'},
		{"first", required_argument, NULL, 'n'},
		{"flags", required_argument, NULL, 'f'},
		{"convert", required_argument, NULL, 'c'},
		{"later", no_argument, NULL, LATER},
		{"lenient", no_argument, NULL, 'l'},
		{"self-test", no_argument, NULL, 't'},
		{"verbose", no_argument, NULL, 'v'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	const char *seed = getenv("DIFF_SEED"), *operations = getenv("DIFF_OPERATIONS");
	int option;

	options->seed = seed ? strtoull(seed, NULL, 0) : 1;
	options->operations = getenv("TESTS_LONG") ? 10000000 : OPERATIONS;
	if (operations)
		options->operations = strtoull(operations, NULL, 0);
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'o':
			options->operations = strtoull(optarg, NULL, 0);
			break;
		case 'd':
			options->databases = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options->first = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			options->flags = optarg;
			break;
		case 'c':
			options->convert = optarg;
			break;
		case LATER:
			options->later = true;
			break;
		case 'l':
			options->lenient = true;
			break;
		case 't':
			options->self_test = true;
			break;
		case 'v':
			options->verbose = true;
			break;
		default:
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
}

int main(int argc, char **argv)
{
	struct options options = {0};
	const char *temporary = getenv("TMPDIR"), *wrong;
	struct sequence_result *result;
	char scratch[900];
	int rc;

	parse(argc, argv, &options);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	snprintf(scratch, sizeof scratch, "%.800s/lmdbio-differential.XXXXXX",
		 temporary ? temporary : "/tmp");
	result = mmap(NULL, sizeof *result, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (result == MAP_FAILED || !mkdtemp(scratch)) {
		perror("differential");
		return 2;
	}
	wrong = original_state_check(scratch);
	if (wrong) {
		printf("FAILED: this original lays out its cursors in another way: %s\n", wrong);
		rc = 1;
	} else {
		rc = options.self_test ? test_itself(&options, scratch, result)
				       : compare_all(&options, scratch, result);
	}
	if (rmdir(scratch) != 0)
		printf("%s is left behind\n", scratch);
	return rc;
}
