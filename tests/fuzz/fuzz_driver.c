/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a fuzz target without a fuzzer.
 *
 *   fuzz_x [--mutations N] [--seed S] [--first I] [FILE|DIRECTORY ...]
 *   fuzz_x --write DIRECTORY
 *
 * The driver replays the files, then the corpus, which the target makes (fuzz_example()). Then it
 * makes N inputs by mutation, case I from seed S and I alone, so that one case can be run again. A
 * child process does all of that; if it dies, its parent reports the case. FUZZ_MUTATIONS in the
 * environment is the default of N.
 */
#include "fuzz_driver.h"

#include <dirent.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
enum { MUTATIONS = 4000 }; /* each takes about five times as long */
#else
enum { MUTATIONS = 10000 };
#endif
enum { MOST = 300000, CASES_PER_LIMIT = 64, PROCESSOR_SECONDS = 20, SIZE_MAX_READ = 64 << 20 };

/* The child's current case, for the parent to report. */
struct progress {
	unsigned long case_number;
	char file[300];
};

static struct progress *progress;

/* Limits this process's processor time from now on, in seconds; 0: no limit. SIGPROF ends an
 * endless loop; a busy machine does not use up the limit. */
static void limit_work(time_t seconds)
{
	struct itimerval limit = {.it_value = {.tv_sec = seconds}};

	setitimer(ITIMER_PROF, &limit, NULL);
}

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t random_below(uint64_t *state, size_t n)
{
	return n ? (size_t)(random_next(state) % n) : 0;
}

/* Returns an offset, three times out of four in the front of a stride. */
static size_t random_place(uint64_t *state, size_t size)
{
	size_t at = random_below(state, size);

	if (random_below(state, 4))
		at = at / fuzz_weight.stride * fuzz_weight.stride +
		     random_below(state, fuzz_weight.front);
	return at < size ? at : size - 1;
}

static void damage(uint64_t *state, uint8_t *bytes, size_t *size)
{
	static const uint16_t telling[] = {0, 1, 2, 8, 15, 16, 17, 18, 20, 0x22, 0x7fff, 0xffff};
	size_t stride = fuzz_weight.stride, at, other, length;
	uint16_t word;

	if (!*size)
		return;
	at = random_place(state, *size);
	switch (random_below(state, 10)) {
	case 0: /* cut */
		if (!random_below(state, 4))
			*size = random_below(state, *size + 1);
		break;
	case 1: /* one stride over another */
		at = at / stride * stride;
		other = random_below(state, *size) / stride * stride;
		length = *size - (at > other ? at : other);
		memmove(bytes + at, bytes + other, length < stride ? length : stride);
		break;
	case 2: /* a word from elsewhere */
		other = random_place(state, *size);
		if (at + 2 <= *size && other + 2 <= *size)
			memmove(bytes + at, bytes + other, 2);
		break;
	case 3:
	case 4: /* a telling word */
		word = telling[random_below(state, sizeof(telling) / sizeof(telling[0]))];
		if (at + 2 <= *size)
			memcpy(bytes + at, &word, 2);
		break;
	case 5: /* a byte */
		bytes[at] = (uint8_t)random_next(state);
		break;
	case 6: /* one more or one less */
		bytes[at] = (uint8_t)(bytes[at] + (random_below(state, 2) ? 1 : -1));
		break;
	default:
		bytes[at] ^= (uint8_t)(1u << random_below(state, 8));
	}
}

/* Feeds an input in memory of exactly its size, so that a sanitizer sees its end. */
static void feed(const uint8_t *bytes, size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);

	if (!exact)
		_exit(3);
	memcpy(exact, bytes, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static void run_case(uint64_t seed, unsigned long number, uint8_t *const *examples,
		     const size_t *sizes, size_t n, uint8_t *scratch)
{
	uint64_t state = seed * 0x2545f4914f6cdd1d + number;
	size_t which = random_below(&state, n), size = sizes[which];
	size_t times = 1 + random_below(&state, 4);

	memcpy(scratch, examples[which], size);
	while (times--)
		damage(&state, scratch, &size);
	feed(scratch, size);
}

/* Feeds the corpus as it is, then mutations. Returns the number of inputs in the corpus. */
static size_t run_mutations(uint64_t seed, unsigned long first, unsigned long n)
{
	uint8_t *examples[64], *scratch;
	size_t sizes[64], count = 0, largest = 1, corpus;

	while (count < 64 && (examples[count] = fuzz_example((unsigned)count, &sizes[count]))) {
		if (sizes[count] > largest)
			largest = sizes[count];
		count++;
	}
	scratch = malloc(largest);
	if (!scratch || !count)
		_exit(3);
	for (size_t i = 0; i < count; i++)
		feed(examples[i], sizes[i]);
	for (unsigned long i = first; i < first + n; i++) {
		progress->case_number = i;
		if (i % CASES_PER_LIMIT == 0)
			limit_work(PROCESSOR_SECONDS);
		run_case(seed, i, examples, sizes, count, scratch);
	}
	limit_work(0);
	corpus = count;
	while (count)
		free(examples[--count]);
	free(scratch);
	return corpus;
}

static bool replay_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *bytes = NULL;
	long size = -1;
	bool done = false;

	snprintf(progress->file, sizeof(progress->file), "%s", path);
	if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 &&
	    size <= SIZE_MAX_READ && (bytes = malloc((size_t)size + 1))) {
		rewind(file);
		done = fread(bytes, 1, (size_t)size, file) == (size_t)size;
	}
	if (done) {
		limit_work(PROCESSOR_SECONDS);
		feed(bytes, (size_t)size);
		limit_work(0);
	} else {
		perror(path);
	}
	free(bytes);
	if (file)
		fclose(file);
	progress->file[0] = '\0';
	return done;
}

static bool replay(const char *path, unsigned long *count)
{
	struct stat st;
	struct dirent *entry;
	DIR *directory;
	bool done = true;

	if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		++*count;
		return replay_file(path);
	}
	directory = opendir(path);
	if (!directory) {
		perror(path);
		return false;
	}
	while (done && (entry = readdir(directory))) {
		char name[300];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%.40s/%.255s", path, entry->d_name);
		done = replay_file(name);
		++*count;
	}
	closedir(directory);
	return done;
}

static int write_examples(const char *directory)
{
	uint8_t *bytes;
	size_t size;

	for (unsigned i = 0; (bytes = fuzz_example(i, &size)); i++) {
		char name[300];
		FILE *file;
		bool done;

		snprintf(name, sizeof(name), "%.280s/example-%02u", directory, i);
		file = fopen(name, "wb");
		done = file && fwrite(bytes, 1, size, file) == size;
		if (file && fclose(file))
			done = false;
		free(bytes);
		if (!done) {
			perror(name);
			return 1;
		}
	}
	return 0;
}

struct plan {
	uint64_t seed;
	unsigned long first, mutations;
	const char *write;
	bool tells_most;
	char **files;
	int n_files;
};

static bool plan_read(struct plan *plan, int argc, char **argv)
{
	static const struct option options[] = {
		{"mutations", required_argument, NULL, 'm'},
		{"seed", required_argument, NULL, 's'},
		{"first", required_argument, NULL, 'f'},
		{"write", required_argument, NULL, 'w'},
		{"most", no_argument, NULL, 'l'},
		{NULL, 0, NULL, 0},
	};
	const char *usual = getenv("FUZZ_MUTATIONS");
	int option;

	*plan = (struct plan){.seed = 1,
			      .mutations = fuzz_weight.mutations ? fuzz_weight.mutations : MUTATIONS};
	if (getenv("TESTS_LONG"))
		plan->mutations *= 100;
	if (usual)
		plan->mutations = strtoul(usual, NULL, 10);
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (option) {
		case 'm':
			plan->mutations = strtoul(optarg, NULL, 10);
			break;
		case 's':
			plan->seed = strtoull(optarg, NULL, 10);
			break;
		case 'f':
			plan->first = strtoul(optarg, NULL, 10);
			break;
		case 'w':
			plan->write = optarg;
			break;
		case 'l':
			plan->tells_most = true;
			break;
		default:
			return false;
		}
	plan->files = argv + optind;
	plan->n_files = argc - optind;
	return true;
}

static int run_all(const struct plan *plan)
{
	unsigned long files = 0;
	bool done = true;
	size_t corpus;

	for (int i = 0; i < plan->n_files; i++)
		done = replay(plan->files[i], &files) && done;
	corpus = run_mutations(plan->seed, plan->first, plan->mutations);
	printf("%zu inputs of the corpus, %lu files, %lu mutations with seed %llu\n", corpus, files,
	       plan->mutations, (unsigned long long)plan->seed);
	return done ? 0 : 1;
}

int main(int argc, char **argv)
{
	struct plan plan;
	pid_t child;
	int status;

	if (!plan_read(&plan, argc, argv))
		return 2;
	if (plan.write)
		return write_examples(plan.write);
	if (plan.tells_most) {
		printf("%lu\n", fuzz_weight.most ? fuzz_weight.most : (unsigned long)MOST);
		return 0;
	}
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (progress == MAP_FAILED)
		return 3;
	child = fork();
	if (child < 0)
		return 3;
	if (!child)
		exit(run_all(&plan));
	if (waitpid(child, &status, 0) != child)
		return 3;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFSIGNALED(status))
		printf("%s: ", strsignal(WTERMSIG(status)));
	if (*progress->file)
		printf("in file %s\n", progress->file);
	else
		printf("in case %lu; again: %s --seed %llu --first %lu --mutations 1\n",
		       progress->case_number, argv[0], (unsigned long long)plan.seed,
		       progress->case_number);
	return 1;
}
