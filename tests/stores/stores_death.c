/* SPDX-License-Identifier: OLDAP-2.8 */
/* Kills or stops one reader of a node at any moment while several read together. The others must
 * see the right records, and come to their end while the stopped reader is still stopped.
 *
 * Readers are programs of their own; what each must print is known. No time is judged, because a
 * busy machine is late by itself; only a hang has a bound.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	READERS = 4,
	LIMIT_SECONDS = 300, /* a hang */
	LINE = 256,
};

struct reader {
	pid_t pid;
	int output;
	char line[LINE];
	size_t used;
	bool done;
	double end;
};

struct plan {
	const char *control, *program, *path, *expected;
	int signal;         /* for the victim */
	double undisturbed; /* seconds of a round in which no reader is disturbed */
};

static void drop(const struct plan *plan)
{
	int fd = open(plan->control, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "drop", 4) != 4) {
		perror(plan->control);
		exit(2);
	}
	close(fd);
}

/* Starts one of READERS readers. Strided, they read each record once between them, like the loaders
 * of a data-parallel program; otherwise each reads everything. */
static void start(const struct plan *plan, struct reader *reader, bool strided, unsigned number)
{
	char stride[32], first[32];
	int ends[2];

	memset(reader, 0, sizeof(*reader));
	snprintf(stride, sizeof(stride), "--stride=%d", strided ? READERS : 1);
	snprintf(first, sizeof(first), "--first=%u", strided ? number : 0);
	if (pipe2(ends, O_CLOEXEC)) {
		perror("pipe");
		exit(2);
	}
	reader->pid = fork();
	if (reader->pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execl(plan->program, plan->program, "--nordahead", stride, first, "scan",
		      plan->path, (char *)NULL);
		_exit(126);
	}
	close(ends[1]);
	reader->output = ends[0];
}

static void take_output(struct reader *reader)
{
	ssize_t got = read(reader->output, reader->line + reader->used, LINE - 1 - reader->used);

	if (got > 0) {
		reader->used += (size_t)got;
		return;
	}
	reader->done = true;
	reader->end = stores_now();
}

/* Collects the readers' output until `until`, or until all but `without` (READERS: none) have
 * ended. */
static bool collect(struct reader *readers, unsigned without, double until)
{
	for (;;) {
		struct pollfd ready[READERS];
		unsigned left = 0;
		double rest = until - stores_now();

		for (unsigned i = 0; i < READERS; i++) {
			ready[i] = (struct pollfd){.fd = readers[i].output, .events = POLLIN};
			if (readers[i].done || i == without)
				ready[i].fd = -1;
			left += ready[i].fd >= 0;
		}
		if (!left)
			return true;
		if (rest <= 0)
			return false;
		if (poll(ready, READERS, (int)(rest * 1000) + 1) < 0 && errno != EINTR)
			return false;
		for (unsigned i = 0; i < READERS; i++)
			if (ready[i].fd >= 0 && ready[i].revents)
				take_output(&readers[i]);
	}
}

static void sum_line(const char *line, struct stores_sum *sum)
{
	unsigned long long records, bytes, hash;

	if (sscanf(line, "%llu %llu %llx major", &records, &bytes, &hash) != 3)
		return;
	sum->records += records;
	sum->bytes += bytes;
	sum->hash += hash;
}

static bool is_expected(const struct plan *plan, const struct stores_sum *sum)
{
	char text[128];

	snprintf(text, sizeof(text), "%llu %llu %016llx", (unsigned long long)sum->records,
		 (unsigned long long)sum->bytes, (unsigned long long)sum->hash);
	return !strcmp(text, plan->expected);
}

/* Whether the survivors saw the right records. Strided readers give the sum only all together, so
 * the victim's part is read anew. */
static bool judge(const struct plan *plan, struct reader *readers, unsigned victim, bool strided)
{
	struct stores_sum sum = {0};
	bool right = true;

	for (unsigned i = 0; i < READERS; i++) {
		struct stores_sum own = {0};

		if (i == victim)
			continue;
		sum_line(readers[i].line, strided ? &sum : &own);
		right = right && (strided || is_expected(plan, &own));
	}
	if (strided && victim < READERS) {
		struct reader again[READERS] = {0};

		for (unsigned i = 0; i < READERS; i++)
			again[i].done = true;
		start(plan, &again[victim], true, victim);
		right = collect(again, READERS, stores_now() + LIMIT_SECONDS);
		waitpid(again[victim].pid, NULL, 0);
		close(again[victim].output);
		sum_line(again[victim].line, &sum);
	}
	return right && (!strided || is_expected(plan, &sum));
}

/* Runs one round. Returns how long the survivors took; negative: a hang or wrong bytes. */
static double play(const struct plan *plan, unsigned victim, double moment, bool strided)
{
	struct reader readers[READERS];
	double began = stores_now(), took = 0;
	bool right;

	drop(plan);
	for (unsigned i = 0; i < READERS; i++)
		start(plan, &readers[i], strided, i);
	if (victim < READERS) {
		collect(readers, READERS, began + moment);
		kill(readers[victim].pid, plan->signal);
	}
	right = collect(readers, victim, stores_now() + LIMIT_SECONDS);
	if (victim < READERS && plan->signal == SIGSTOP) { /* now the victim goes on */
		kill(readers[victim].pid, SIGCONT);
		right = collect(readers, READERS, stores_now() + LIMIT_SECONDS) && right;
	}
	for (unsigned i = 0; i < READERS; i++) {
		if (i != victim && readers[i].end - began > took)
			took = readers[i].end - began;
		if (!right)
			kill(readers[i].pid, SIGKILL);
		waitpid(readers[i].pid, NULL, 0);
		close(readers[i].output);
	}
	if (!right) {
		printf("a reader did not finish\n");
		return -1;
	}
	if (!judge(plan, readers, plan->signal == SIGSTOP ? READERS : victim, strided)) {
		printf("wrong bytes:\n");
		for (unsigned i = 0; i < READERS; i++)
			printf("  %u%s %s", i, i == victim ? " (victim)" : "", readers[i].line);
		return -1;
	}
	return took;
}

/* Runs a round in which no reader is disturbed; its duration gives the moments of the other rounds.
 * Returns false if even this round fails. */
static bool measure(struct plan *plan, unsigned i)
{
	double took = play(plan, READERS, 0, i & 1);

	if (took > plan->undisturbed)
		plan->undisturbed = took;
	return took >= 0;
}

int main(int argc, char **argv)
{
	unsigned rounds, failures = 0;
	struct stores_db held;
	struct plan plan;
	double most = 0;

	if (argc != 7) {
		fprintf(stderr,
			"usage: stores_death kill|stop CONTROL READER DIRECTORY LINE ROUNDS\n"
			"LINE is what a reader must print.\n");
		return 2;
	}
	plan = (struct plan){argv[2],
			     argv[3],
			     argv[4],
			     argv[5],
			     strcmp(argv[1], "stop") ? SIGKILL : SIGSTOP,
			     0};
	rounds = (unsigned)strtoul(argv[6], NULL, 0);
	/* This process keeps the data set open all the time. LMDB's first opener makes the lock
	 * file's table; if it is stopped there, it holds up all others in mdb_env_open(). */
	if (stores_open(&held, plan.path, 0)) {
		fprintf(stderr, "%s cannot be opened\n", plan.path);
		return 2;
	}
	for (unsigned i = 0; i < 4; i++)
		if (!measure(&plan, i))
			return 1;
	for (unsigned i = 0; i < rounds; i++) {
		double moment = plan.undisturbed * (double)(stores_mix(i) % 1000) / 1000;
		double took = play(&plan, i % READERS, moment, i & 4);
		int dead;

		/* LMDB does not free a killed reader's slot until a process checks, and there are
		 * 126. */
		(void)mdb_reader_check(held.env, &dead);
		most = took > most ? took : most;
		if (took >= 0)
			continue;
		failures++;
		printf("NOT OK round %u: number %u at %.3f s of %.3f\n", i, i % READERS, moment,
		       plan.undisturbed);
		fflush(stdout);
		if (failures == 5)
			break;
	}
	printf("%u rounds, %u wrong; undisturbed %.3f s, longest %.3f s\n", rounds, failures,
	       plan.undisturbed, most);
	if (plan.signal == SIGSTOP)
		stores_close(&held);
	return failures != 0;
}
