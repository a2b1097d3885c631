/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a complete reading of each damaged file ended with.
 *
 * Each file is read by a fresh process of db_read on the library under test. No signal, no hang
 * over a second, no endless data: anything else (an error code, the same data, other data) is an
 * answer. With --original the system's LMDB is read with instead, for comparison.
 */
#include "damage.h"
#include "db_make.h"
#include "later_make.h"
#include "random_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { FILES = 500 };
#else
enum { FILES = 2000 };
#endif

enum { BASES = 7, HANG_MS = 1000, SECOND_LOOK_MS = 300000, SHOWN = 20 };

enum outcome {
	OUT_ERROR,
	OUT_SAME,
	OUT_OTHER,
	OUT_SIGNAL,
	OUT_HANG,
	OUT_ENDLESS,
	OUT_ODD,
	OUTCOMES
};

static const char *const outcome_names[OUTCOMES] = {
	[OUT_ERROR] = "clean error", [OUT_SAME] = "same data", [OUT_OTHER] = "different",
	[OUT_SIGNAL] = "signal",     [OUT_HANG] = "hang",      [OUT_ENDLESS] = "endless",
	[OUT_ODD] = "odd exit",
};

struct options {
	uint64_t seed, files, first;
	const char *library, *reader, *keep;
	bool original, later, sums;
};

struct reading {
	int status;
	bool late; /* killed at the limit */
	double cpu_seconds;
	char output[600];
};

struct base {
	struct damage_base file;
	char output[600];
	unsigned long long records;
};

static void usage(FILE *out)
{
	fprintf(out, "usage: damage_test [options]\n"
		     "Damaged LMDB files, each read completely by a fresh process.\n"
		     "  --files=N       how many (DAMAGE_FILES, else 2000, or 500\n"
		     "                  with a sanitizer;\n"
		     "                  100000 if TESTS_LONG is set)\n"
		     "  --seed=N        of the damage (1)\n"
		     "  --first=N       number of the first file (0)\n"
		     "  --library=DIR   where the liblmdb.so.0 under test lies\n"
		     "                  ($top_builddir/compat/.libs)\n"
		     "  --reader=FILE   db_read ($top_builddir/tests/data/db_read)\n"
		     "  --later         the files are in the format of LMDB 1.0\n"
		     "  --sums          the same with checksums of pages, which are verified\n"
		     "  --original      read with the system's LMDB; nothing fails the test\n"
		     "  --keep=DIR      leave the one file of --first there, read nothing\n");
}

/* --- one reading --------------------------------------------------------------------------- */

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void exec_reader(const struct options *options, char *const *arguments, int output)
{
	struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	dup2(output, STDOUT_FILENO);
	if (!options->original)
		setenv("LD_LIBRARY_PATH", options->library, 1);
	if (options->sums)
		setenv("LMDBIO_CHECKSUM", "fnv1a", 1);
	execv(options->reader, arguments);
	perror(options->reader);
	_exit(126);
}

/* Runs the reader and collects what it prints until it ends or limit_ms have gone. */
static void read_apart(const struct options *options, char *const *arguments, int limit_ms,
		       struct reading *reading)
{
	double end = now_ms() + limit_ms;
	struct rusage usage_of;
	size_t used = 0;
	int ends[2];
	pid_t child;

	memset(reading, 0, sizeof *reading);
	if (pipe2(ends, O_CLOEXEC) != 0) {
		perror("damage_test: pipe");
		exit(2);
	}
	child = fork();
	if (child == 0)
		exec_reader(options, arguments, ends[1]);
	close(ends[1]);
	if (child < 0) {
		perror("damage_test: fork");
		exit(2);
	}
	for (;;) {
		struct pollfd ready = {.fd = ends[0], .events = POLLIN};
		double left = end - now_ms();
		ssize_t got;

		if (left <= 0 || poll(&ready, 1, (int)left + 1) == 0) {
			reading->late = true;
			kill(child, SIGKILL);
			break;
		}
		got = read(ends[0], reading->output + used, sizeof reading->output - 1 - used);
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	close(ends[0]);
	wait4(child, &reading->status, 0, &usage_of);
	reading->cpu_seconds =
		(double)(usage_of.ru_utime.tv_sec + usage_of.ru_stime.tv_sec) +
		(double)(usage_of.ru_utime.tv_usec + usage_of.ru_stime.tv_usec) / 1e6;
}

/* A machine that is busy elsewhere is no hang: a late reading gets a second, longer look, and is
 * a hang if it is late again or has really worked for a second. */
static void read_file(const struct options *options, uint64_t number, const char *directory,
		      unsigned long long limit, struct reading *reading)
{
	static char name[] = "db_read", no_lock[] = "--no-lock", no_readahead[] = "--no-readahead";
	char limit_option[40], path[1100];
	char *arguments[6] = {name, limit_option, path, NULL, NULL, NULL};

	snprintf(limit_option, sizeof limit_option, "--limit=%llu", limit);
	snprintf(path, sizeof path, "%s", directory);
	if (number % 4 != 1)
		arguments[3] = no_lock;
	if (number % 4 == 2)
		arguments[4] = no_readahead;
	read_apart(options, arguments, HANG_MS, reading);
	if (!reading->late)
		return;
	read_apart(options, arguments, SECOND_LOOK_MS, reading);
	if (!reading->late && reading->cpu_seconds > HANG_MS / 1000.0)
		reading->late = true;
}

static enum outcome judge(const struct reading *reading, const struct base *base)
{
	if (reading->late)
		return OUT_HANG;
	if (WIFSIGNALED(reading->status))
		return OUT_SIGNAL;
	switch (WEXITSTATUS(reading->status)) {
	case 0:
		return strcmp(reading->output, base->output) == 0 ? OUT_SAME : OUT_OTHER;
	case 3:
		return OUT_ERROR;
	case 4:
		return OUT_ENDLESS;
	default: /* a sanitizer's exit, a library that exits */
		return OUT_ODD;
	}
}

/* --- base files ------------------------------------------------------------------------------ */

static void add_table(struct db_plan *plan, const char *name, unsigned flags, unsigned key_bytes,
		      unsigned dup_bytes, unsigned keys, enum db_value_style values)
{
	struct db_table *table = &plan->table[plan->table_count++];

	memset(table, 0, sizeof *table);
	snprintf(table->name, sizeof table->name, "%s", name);
	table->is_main = name[0] == '\0';
	table->flags = flags;
	table->key_bytes = key_bytes;
	table->dup_bytes = dup_bytes;
	table->keys = keys;
	table->most_dups = 8 * keys;
	table->value_style = values;
	table->key_style = plan->number % 2 ? DB_KEYS_LONGEST : DB_KEYS_DECIMAL;
	table->seed = random_mix(plan->number * 16 + plan->table_count);
}

/* Small files that hold everything: overflow values, duplicates of each kind in sub-pages and
 * sub-databases, integer keys, an empty database, a free list, trees of several levels. */
static void base_plan(struct db_plan *plan, unsigned which)
{
	static const unsigned page_sizes[BASES] = {4096, 512, 16384, 4096, 1024, 4096, 2048};
	unsigned scale = page_sizes[which] <= 1024 ? 2 : 1;

	memset(plan, 0, sizeof *plan);
	plan->seed = 5;
	plan->number = which;
	plan->page_size = page_sizes[which];
	plan->max_key = plan->page_size == 512 ? 190 : plan->page_size == 1024 ? 446 : 511;
	plan->rounds = 2;
	if (which == 3) {
		add_table(plan, "", MDB_DUPSORT, 0, 0, 60, DB_VALUES_TINY);
	} else if (which == 4) {
		add_table(plan, "", 0, 0, 0, 300, DB_VALUES_TINY);
	} else if (which == 5) {
		add_table(plan, "", MDB_DUPSORT | MDB_DUPFIXED, 0, 16, 90, DB_VALUES_TINY);
	} else {
		add_table(plan, "", 0, 0, 0, 25, DB_VALUES_MIXED);
		add_table(plan, "overflow", 0, 0, 0, 60 / scale, DB_VALUES_MIXED);
		add_table(plan, "dupsort", MDB_DUPSORT, 0, 0, 40 / scale, DB_VALUES_TINY);
		add_table(plan, "dupfixed", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 0, 8,
			  60 / scale, DB_VALUES_TINY);
		add_table(plan, "integers", MDB_INTEGERKEY, 8, 0, 300 / scale, DB_VALUES_TINY);
		add_table(plan, "empty", 0, 0, 0, 0, DB_VALUES_TINY);
	}
}

/* A search for a database's record in the main one needs the name's NUL byte in LMDB 1.0: what was found
 * so is missing then, but each database is there. */
static bool reads_alike(const struct options *options, const struct db_plan *plan,
			const struct reading *original, const struct reading *ours)
{
	unsigned long long databases[2];

	if (!options->later || plan->table_count == 1)
		return strcmp(original->output, ours->output) == 0;
	return sscanf(original->output, "databases %llu", &databases[0]) == 1 &&
	       sscanf(ours->output, "databases %llu", &databases[1]) == 1 &&
	       databases[0] == databases[1];
}

/* A sound file must read alike on both libraries before its damage means anything. */
static bool make_base(const struct options *options, unsigned which, const char *scratch,
		      struct base *base)
{
	struct options plain = *options;
	static struct db_plan plan;
	struct reading reading[2];
	char path[1100];
	int rc;

	base_plan(&plan, which);
	snprintf(path, sizeof path, "%s/data.mdb", scratch);
	rc = db_make(&plan, scratch);
	plain.original = true;
	if (rc == 0)
		read_file(&plain, 0, scratch, 0, &reading[0]);
	if (rc == 0 && options->later)
		rc = later_make_as(path, path, (struct later_how){.sums = options->sums});
	if (rc == 0)
		rc = damage_base_load(&base->file, path);
	if (rc != 0) {
		printf("FAILED: base file %u could not be made: %d\n", which, rc);
		return false;
	}
	read_file(options, 0, scratch, 0, &reading[1]);
	unlink(path);
	if (reading[0].status != 0 || reading[1].status != 0 ||
	    !reads_alike(options, &plan, &reading[0], &reading[1])) {
		printf("FAILED: the sound base file %u reads differently:\noriginal (status %#x): "
		       "%s"
		       "under test (status %#x): %s",
		       which, reading[0].status, reading[0].output, reading[1].status,
		       reading[1].output);
		return false;
	}
	snprintf(base->output, sizeof base->output, "%s", reading[1].output);
	sscanf(base->output, "databases %*s records %llu", &base->records);
	return true;
}

/* --- all files -------------------------------------------------------------------------------- */

static bool write_file(const char *path, const struct damaged *damaged)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	bool done = fd >= 0 && write(fd, damaged->bytes, damaged->size) == (ssize_t)damaged->size;

	if (fd >= 0)
		close(fd);
	if (!done)
		perror(path);
	return done;
}

static bool is_bad(enum outcome outcome)
{
	return outcome >= OUT_SIGNAL;
}

static void print_table(unsigned long counts[][OUTCOMES])
{
	unsigned long sum[OUTCOMES] = {0};

	printf("%-12s", "damage");
	for (int o = 0; o < OUTCOMES; o++)
		printf(" %11s", outcome_names[o]);
	printf("\n");
	for (int kind = 0; kind <= DAMAGE_KINDS; kind++) {
		printf("%-12s",
		       kind < DAMAGE_KINDS ? damage_kind_name((enum damage_kind)kind) : "all");
		for (int o = 0; o < OUTCOMES; o++) {
			printf(" %11lu", kind < DAMAGE_KINDS ? counts[kind][o] : sum[o]);
			sum[o] += kind < DAMAGE_KINDS ? counts[kind][o] : 0;
		}
		printf("\n");
	}
}

static void show_bad(const struct options *options, uint64_t number, enum outcome outcome,
		     const struct reading *reading, const struct damaged *damaged)
{
	printf("file --seed=%llu --first=%llu: %s", (unsigned long long)options->seed,
	       (unsigned long long)number, outcome_names[outcome]);
	if (outcome == OUT_SIGNAL)
		printf(" %d", WTERMSIG(reading->status));
	printf(" (%s: %s)\n", damage_kind_name(damaged->kind), damaged->what);
}

/* Returns the number of files that a good library would have answered otherwise. */
static unsigned long read_all(const struct options *options, const char *scratch,
			      struct base *bases, struct damaged *damaged)
{
	unsigned long counts[DAMAGE_KINDS][OUTCOMES] = {{0}}, bad = 0;
	char path[1100], lock[1100];

	snprintf(path, sizeof path, "%s/data.mdb", scratch);
	snprintf(lock, sizeof lock, "%s/lock.mdb", scratch);
	for (uint64_t n = options->first; n < options->first + options->files; n++) {
		struct base *base = &bases[n / DAMAGE_KINDS % BASES];
		struct stat before, after;
		struct reading reading;
		enum outcome outcome;

		damage_make(&base->file, options->seed, n, damaged);
		if (!write_file(path, damaged) || stat(path, &before) != 0)
			return bad + 1;
		read_file(options, n, scratch, base->records * 100 + 10000, &reading);
		outcome = judge(&reading, base);
		counts[damaged->kind][outcome]++;
		if (is_bad(outcome) && bad++ < SHOWN && !options->original)
			show_bad(options, n, outcome, &reading, damaged);
		if (stat(path, &after) != 0 || before.st_size != after.st_size ||
		    before.st_mtim.tv_nsec != after.st_mtim.tv_nsec ||
		    before.st_mtim.tv_sec != after.st_mtim.tv_sec) {
			printf("FAILED: reading file %llu changed it\n", (unsigned long long)n);
			bad++;
		}
		unlink(lock);
	}
	unlink(path);
	printf("%llu damaged files read with %s\n", (unsigned long long)options->files,
	       options->original ? "the original" : "lmdbio");
	print_table(counts);
	return bad;
}

static int keep_file(const struct options *options, struct base *bases, struct damaged *damaged)
{
	char path[1100];

	damage_make(&bases[options->first / DAMAGE_KINDS % BASES].file, options->seed,
		    options->first, damaged);
	mkdir(options->keep, 0755);
	snprintf(path, sizeof path, "%.1000s/data.mdb", options->keep);
	printf("%s: %s: %s\n", path, damage_kind_name(damaged->kind), damaged->what);
	return write_file(path, damaged) ? 0 : 2;
}

static void parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"files", required_argument, NULL, 'f'},  {"seed", required_argument, NULL, 's'},
		{"first", required_argument, NULL, 'n'},  {"library", required_argument, NULL, 'l'},
		{"reader", required_argument, NULL, 'r'}, {"original", no_argument, NULL, 'o'},
		{"later", no_argument, NULL, 'v'},        {"sums", no_argument, NULL, 'c'},
		{"keep", required_argument, NULL, 'k'},
		{"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
	};
	static char library[1024], reader[1024];
	const char *build = getenv("top_builddir"), *files = getenv("DAMAGE_FILES");
	int option;

	if (!build)
		build = ".";
	/* the reader changes no directory, but a loader path should not depend on one */
	snprintf(library, sizeof library, "%.900s/compat/.libs", build);
	snprintf(reader, sizeof reader, "%.900s/tests/data/db_read", build);
	*options =
		(struct options){.seed = 1, .files = FILES, .library = library, .reader = reader};
	if (getenv("TESTS_LONG"))
		options->files = 100000;
	if (files)
		options->files = strtoull(files, NULL, 0);
	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		switch (option) {
		case 'f':
			options->files = strtoull(optarg, NULL, 0);
			break;
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options->first = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			options->library = optarg;
			break;
		case 'r':
			options->reader = optarg;
			break;
		case 'c':
			options->sums = true;
			/* fallthrough */
		case 'v':
			options->later = true;
			break;
		case 'o':
			options->original = true;
			break;
		case 'k':
			options->keep = optarg;
			break;
		default:
			usage(option == 'h' ? stdout : stderr);
			exit(option == 'h' ? 0 : 2);
		}
	}
}

/* The reader must really run on the library that is meant. */
static bool check_library(const struct options *options)
{
	static char name[] = "db_read", library[] = "--library";
	char *arguments[] = {name, library, NULL};
	struct reading reading;
	bool ours;

	read_apart(options, arguments, SECOND_LOOK_MS, &reading);
	ours = strncmp(reading.output, options->library, strlen(options->library)) == 0;
	if (reading.status == 0 && ours != options->original)
		return true;
	printf("FAILED: %s runs on %s(status %#x), not on %s\n", options->reader,
	       reading.output[0] ? reading.output : "nothing\n", reading.status,
	       options->original ? "the system's library" : options->library);
	return false;
}

int main(int argc, char **argv)
{
	static struct base bases[BASES];
	const char *temporary = getenv("TMPDIR");
	struct damaged damaged = {0};
	struct options options;
	char scratch[900];
	size_t largest = 0;
	int rc = 1;

	parse(argc, argv, &options);
	snprintf(scratch, sizeof scratch, "%.800s/lmdbio-damage.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(scratch)) {
		perror("damage_test");
		return 2;
	}
	if (!check_library(&options))
		goto done;
	for (unsigned i = 0; i < BASES; i++) {
		if (!make_base(&options, i, scratch, &bases[i]))
			goto done;
		if (bases[i].file.size > largest)
			largest = bases[i].file.size;
	}
	damaged.bytes = malloc(largest);
	if (!damaged.bytes)
		goto done;
	if (options.keep)
		rc = keep_file(&options, bases, &damaged);
	else
		rc = read_all(&options, scratch, bases, &damaged) > 0 && !options.original;
done:
	for (unsigned i = 0; i < BASES; i++)
		damage_base_free(&bases[i].file);
	free(damaged.bytes);
	for (int i = 0; i < 2; i++) {
		char path[1100];

		snprintf(path, sizeof path, "%s/%s", scratch, i ? "lock.mdb" : "data.mdb");
		unlink(path);
	}
	rmdir(scratch);
	return rc;
}
