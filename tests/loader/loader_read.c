/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that reads a data set through the batch loader and says, for
 * each epoch, what came, whence, and how long it was waited for. It looks at every byte. */
#include <lmdbio.h>

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct option flags[] = {
	{"order", required_argument, NULL, 'o'},
	{"batch", required_argument, NULL, 'b'},
	{"epochs", required_argument, NULL, 'e'},
	{"memory", required_argument, NULL, 'm'},
	{"stage", required_argument, NULL, 's'},
	{"resident", required_argument, NULL, 'r'},
	{"compute", required_argument, NULL, 'c'},
	{"bandwidth", required_argument, NULL, 'w'},
	{"ranks", required_argument, NULL, 'R'},
	{"rank", required_argument, NULL, 'k'},
	{"seed", required_argument, NULL, 'S'},
	{"file", no_argument, NULL, 'f'},
	{"block", required_argument, NULL, 'B'},
	{"skip", no_argument, NULL, 'x'},
	{NULL, 0, NULL, 0},
};

static enum lmdbio_order order_of(const char *word)
{
	return !strcmp(word, "sequential")      ? LMDBIO_ORDER_SEQUENTIAL
	       : !strcmp(word, "block")         ? LMDBIO_ORDER_BLOCK
	       : !strcmp(word, "opportunistic") ? LMDBIO_ORDER_OPPORTUNISTIC
						: LMDBIO_ORDER_SHUFFLE;
}

static uint64_t sum_of(const MDB_val *value)
{
	const unsigned char *bytes = value->mv_data;
	uint64_t sum = value->mv_size, word;

	for (size_t i = 0; i + 8 <= value->mv_size; i += 8) {
		memcpy(&word, bytes + i, 8);
		sum += word;
	}
	return sum;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* What a training step would take. */
static void compute(double time)
{
	struct timespec pause = {.tv_sec = (time_t)time,
				 .tv_nsec = (long)((time - (double)(time_t)time) * 1e9)};

	if (time > 0)
		nanosleep(&pause, NULL);
}

static int epoch(struct lmdbio_loader *loader, uint64_t number, double step)
{
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct lmdbio_batch *batch;
	uint64_t samples = 0, bytes = 0, sum = 0;
	double began = seconds(), first = 0;
	char line[400];
	int rc = lmdbio_loader_epoch(loader, number);

	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		if (!samples)
			first = seconds() - began;
		for (size_t i = 0; i < batch->count; i++) {
			const struct lmdbio_sample *sample = &batch->samples[i];

			if (sample->record == LMDBIO_NO_RECORD)
				continue;
			if (sample->error) {
				printf("# record %llu: %s\n", (unsigned long long)sample->record,
				       mdb_strerror(sample->error));
				continue;
			}
			samples++;
			bytes += sample->data.mv_size;
			sum += sum_of(&sample->data) + sum_of(&sample->key);
		}
		compute(step);
		lmdbio_batch_done(batch);
	}
	if (rc != MDB_NOTFOUND)
		return rc;
	lmdbio_loader_stats(loader, &stats);
	printf("epoch %llu samples %llu bytes %llu sum %016llx storage %llu staged %llu "
	       "stage_state %llu at_once %llu seconds %.3f first %.3f stall %.3f\n",
	       (unsigned long long)number, (unsigned long long)samples, (unsigned long long)bytes,
	       (unsigned long long)sum, (unsigned long long)stats.storage_bytes,
	       (unsigned long long)stats.staged_bytes, (unsigned long long)stats.stage_state,
	       (unsigned long long)stats.reads_at_once, seconds() - began, first,
	       (double)stats.stall_ns / 1e9);
	lmdbio_loader_verdict(loader, line, sizeof(line));
	printf("# %s\n", line);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = 64, .order = LMDBIO_ORDER_SHUFFLE};
	unsigned open_flags = MDB_NOLOCK;
	struct lmdbio_loader *loader;
	uint64_t epochs = 2;
	double step = 0;
	int c, rc;

	while ((c = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 'o':
			options.order = order_of(optarg);
			break;
		case 'b':
			options.batch = (uint32_t)number;
			break;
		case 'B':
			options.block = (uint32_t)number;
			break;
		case 'e':
			epochs = number;
			break;
		case 'm':
			options.memory = number;
			break;
		case 's':
			options.stage_dir = optarg;
			break;
		case 'r':
			options.resident = number;
			break;
		case 'w':
			options.bandwidth = number;
			break;
		case 'R':
			options.ranks = (uint32_t)number;
			break;
		case 'k':
			options.rank = (uint32_t)number;
			break;
		case 'x':
			options.skip_errors = 1;
			break;
		case 'S':
			options.seed = number;
			break;
		case 'f':
			open_flags |= MDB_NOSUBDIR;
			break;
		case 'c':
			step = strtod(optarg, NULL) / 1e6;
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc)
		return 2;
	rc = lmdbio_loader_open(&loader, argv[optind], open_flags, NULL, &options);
	for (uint64_t i = 0; i < epochs && !rc; i++)
		rc = epoch(loader, i, step);
	if (rc)
		fprintf(stderr, "%s: %s\n", argv[optind], mdb_strerror(rc));
	else
		lmdbio_loader_close(loader);
	return rc != 0;
}
