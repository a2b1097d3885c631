/* SPDX-License-Identifier: OLDAP-2.8 */
/* Directs a soak: readers of all stores beside a writer, kills, stops, replaced files and failing
 * calls, for hours; and says at the end whether anything was wrong, hung, grew or was left. */
#include "soak.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	EXIT_WRONG = 1,
	EXIT_USAGE = 2,
	NODE_LOOKS = 20, /* from one look at the node's figures to the next */
	FAILURES_MOST = 8,
	ROUND_LEAST = 200, /* values looked at between two looks that count as rounds */
	ORPHAN_LOOKS = SOAK_LOOKS_PATIENCE,
};

static struct soak soak;
static volatile sig_atomic_t interrupted;

void soak_fail(struct soak *of, const char *format, ...)
{
	va_list list;

	of->failures++;
	fprintf(stderr, "soak: ");
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
}

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* --- options ---------------------------------------------------------------------------------- */

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: soak [OPTION]...\n"
		"Reads data sets in all stores beside a writer, while readers are killed and "
		"stopped,\n"
		"files are replaced and calls fail, and looks at every byte.\n\n"
		"      --hours=H    how long, also 0.02 (1)\n"
		"      --rounds=N   that many rounds of 50 ms or more instead, each with progress\n"
		"      --seed=N     of data, kills, tasks and faults (1)\n"
		"      --records=N  of each data set (4000)\n"
		"      --faults=N   one call in N of a reader fails; 0: none (1000)\n"
		"      --keep       leave the data sets\n"
		"      --wrong=WHAT readers are wrong on purpose, to see that it is noticed: bytes,\n"
		"                   descriptors or hang\n"
		"  -h, --help\n\n"
		"Data lie in TMPDIR, or /tmp. The table has the mean of each figure in each "
		"quarter of the\n"
		"time, after a tenth for warming up. From a minute on each must be flat.\n"
		"Exit: 0 all is well, 1 something is wrong, 2 usage, or it cannot run here.\n");
}

static bool parse(int argc, char **argv, struct soak_options *options)
{
	static const struct option known[] = {
		{"hours", required_argument, NULL, 'H'},
		{"rounds", required_argument, NULL, 'r'},
		{"seed", required_argument, NULL, 's'},
		{"records", required_argument, NULL, 'n'},
		{"faults", required_argument, NULL, 'f'},
		{"wrong", required_argument, NULL, 'w'},
		{"keep", no_argument, NULL, 'k'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	int option;

	while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
		char *end = NULL;
		double number = optarg && option != 'w' ? strtod(optarg, &end) : 0;

		if (end && (*end || number < 0 || number > UINT32_MAX))
			return false;
		switch (option) {
		case 'H':
			options->hours = number;
			break;
		case 'r':
			options->rounds = (uint64_t)number;
			break;
		case 's':
			options->seed = (uint64_t)number;
			break;
		case 'n':
			options->records = (uint32_t)number;
			break;
		case 'f':
			options->one_in = (uint32_t)number;
			break;
		case 'w':
			options->fault = optarg;
			break;
		case 'k':
			options->keep = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			return false;
		}
	}
	if (options->fault)
		setenv("SOAK_WRONG", options->fault, 1);
	return optind == argc && options->records >= 100 && (options->hours > 0 || options->rounds);
}

/* --- what is left ------------------------------------------------------------------------------
 */

static int drop_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

/* Files that neither this program nor LMDB has made. */
static void look_at_files(void)
{
	static const char *const known[] = {
		"/board",          "/live/data.mdb",           "/live/lock.mdb",
		"/plain/data.mdb", "/packed/data.mdb.zst",     "/new/data.mdb",
		"/new/lock.mdb",   "/new-packed/data.mdb.zst",
	};
	char line[SOAK_PATH];
	FILE *list;

	snprintf(line, sizeof(line), "find '%s' -type f", soak.scratch);
	list = popen(line, "r");
	while (list && fgets(line, sizeof(line), list)) {
		bool ours = false;

		line[strcspn(line, "\n")] = 0;
		for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			ours = ours || !strcmp(line + strlen(soak.scratch), known[i]);
		if (!ours)
			soak_fail(&soak, "left behind: %s", line);
	}
	if (list)
		pclose(list);
}

/* In a network namespace of its own, all of lmdbio's names are this soak's. */
static void look_at_names(void)
{
	FILE *list = soak.alone ? fopen("/proc/net/unix", "re") : NULL;
	char line[512];

	while (list && fgets(line, sizeof(line), list))
		if (strstr(line, "lmdbio"))
			soak_fail(&soak, "left behind: %s", line);
	if (list)
		fclose(list);
}

/* Children of killed readers are this process's by now. They come to their end by themselves. */
static void look_at_processes(void)
{
	const struct timespec look = {.tv_nsec = SOAK_LOOK_MS * 1000000L};
	pid_t pid = 0;

	for (unsigned i = 0; i < ORPHAN_LOOKS && pid >= 0; i++) {
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			continue;
		if (pid == 0)
			nanosleep(&look, NULL);
	}
	if (pid >= 0)
		soak_fail(&soak, "processes are left behind");
}

/* --- the soak ----------------------------------------------------------------------------------
 */

static uint64_t progress_of_all(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < soak.n_places; i++)
		sum += soak.board->slots[i].progress;
	return sum;
}

/* A sentence of why it cannot run, or NULL. */
static const char *set_up(const char *self)
{
	const char *temporary = getenv("TMPDIR");
	char path[PATH_MAX], node[64];
	int fd;

	if (!realpath(self, path))
		return "its programs are not found";
	snprintf(soak.programs, sizeof(soak.programs), "%s", dirname(path));
	snprintf(soak.scratch, sizeof(soak.scratch), "%.900s/lmdbio-soak.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(soak.scratch))
		return "no room for the data";
	snprintf(path, sizeof(path), "%s/board", soak.scratch);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct soak_board)))
		return "no board";
	soak.board =
		mmap(NULL, sizeof(struct soak_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (soak.board == MAP_FAILED)
		return "no board";
	snprintf(node, sizeof(node), "soak-%d", (int)getpid());
	setenv("LMDBIO_NODE", node, 1);
	soak.alone = unshare(CLONE_NEWNET) == 0;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGINT, interrupt);
	signal(SIGTERM, interrupt);
	return soak_sets_make(&soak) ? NULL : "no data sets";
}

static void look(void)
{
	int status;
	pid_t pid;

	soak.counts.looks++;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		if (!soak_sets_ended(&soak, pid, status))
			soak_places_ended(&soak, pid, status);
	soak_sets_step(&soak);
	soak_places_step(&soak);
	soak_figures_rests(&soak);
	if (soak.counts.looks % NODE_LOOKS == 0)
		soak_figures_node(&soak);
}

static void run(void)
{
	const struct timespec pause = {.tv_nsec = SOAK_LOOK_MS * 1000000L};
	uint64_t until =
		clock_now() + (uint64_t)(soak.options.hours * 3600 * (double)CLOCK_SECOND);
	uint64_t rounds = 0, before = 0;

	soak_places_start(&soak);
	while (!interrupted && !soak.failures) {
		uint64_t progress = progress_of_all();

		if (progress >= before + ROUND_LEAST) {
			before = progress;
			rounds++;
		}
		if (soak.options.rounds ? rounds >= soak.options.rounds : clock_now() >= until)
			break;
		look();
		nanosleep(&pause, NULL);
	}
	soak_places_end(&soak);
	soak_sets_end(&soak);
}

/* --- told ---------------------------------------------------------------------------------------
 */

static void print_counts(double seconds)
{
	static const char *const kinds[CHANCE_KINDS] = {"reads", "writes",      "memory",
							"maps",  "descriptors", "threads"};
	const struct soak_counts *counts = &soak.counts;
	uint64_t values = 0, codes = 0, wrong = 0, longest = 0;

	for (unsigned i = 0; i < soak.n_places; i++) {
		values += soak.board->slots[i].progress;
		codes += soak.board->slots[i].codes;
		wrong += soak.board->slots[i].wrong;
		if (soak.places[i].longest > longest)
			longest = soak.places[i].longest;
	}
	printf("%.0f s, %llu looks, seed %llu\n", seconds, (unsigned long long)counts->looks,
	       (unsigned long long)soak.options.seed);
	printf("readers: %llu started, %llu killed, %llu stopped and continued\n",
	       (unsigned long long)counts->started, (unsigned long long)counts->killed,
	       (unsigned long long)counts->stopped);
	printf("data sets: %llu commits, %llu writers killed, %llu times replaced\n",
	       (unsigned long long)counts->commits, (unsigned long long)counts->writers_killed,
	       (unsigned long long)counts->replaced);
	printf("calls that failed:");
	for (unsigned k = 0; k < CHANCE_KINDS; k++) {
		uint64_t calls = 0, failed = 0;

		for (unsigned i = 0; i < soak.n_places; i++) {
			calls += soak.board->slots[i].faults.calls[k];
			failed += soak.board->slots[i].faults.failed[k];
		}
		printf(" %s %llu of %llu%s", kinds[k], (unsigned long long)failed,
		       (unsigned long long)calls, k + 1 < CHANCE_KINDS ? "," : "\n");
	}
	printf("values: %llu looked at, %llu wrong; %llu calls said a code; longest without "
	       "progress %llu looks\n",
	       (unsigned long long)values, (unsigned long long)wrong, (unsigned long long)codes,
	       (unsigned long long)longest);
}

int main(int argc, char **argv)
{
	const char *why;
	uint64_t began = clock_now();

	soak.options =
		(struct soak_options){.hours = 1, .seed = 1, .records = 4000, .one_in = 1000};
	if (!parse(argc, argv, &soak.options)) {
		usage(stderr);
		return EXIT_USAGE;
	}
	soak.random = random_start(soak.options.seed, 1);
	why = set_up(argv[0]);
	if (why)
		fprintf(stderr, "soak: %s: %s\n", why, strerror(errno));
	else
		run();
	if (!why) {
		look_at_processes();
		look_at_files();
		look_at_names();
		print_counts((double)(clock_now() - began) / (double)CLOCK_SECOND);
		soak_figures_print(&soak, stdout);
		printf(soak.failures ? "%u wrong\n" : "nothing wrong, nothing left\n",
		       soak.failures);
	}
	soak_figures_free(&soak);
	if (!soak.options.keep && soak.scratch[0])
		nftw(soak.scratch, drop_entry, 16, FTW_DEPTH | FTW_PHYS);
	return why ? EXIT_USAGE : soak.failures ? EXIT_WRONG : 0;
}
