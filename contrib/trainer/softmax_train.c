/* SPDX-License-Identifier: OLDAP-2.8 */
/* Trains a softmax regression, fed by lmdbio's batch loader.
 *
 * The model learns to tell what kind of file a fragment of 4096 bytes is from, by how often each
 * byte
 * occurs in it. Each rank takes its share of every global batch from the loader, adds up the
 * gradient of its samples, and all ranks sum theirs. Errors are rounded to 2^-24 and added as whole
 * numbers, and the loader's global batches are the same for any number of ranks; so the learning
 * curve is the same on 1, 2 or 4 ranks, to the last digit.
 *
 *	softmax_train [-e EPOCHS] [-b BATCH] [-r RATE] [-s SEED] [-o shuffle|block|sequential]
 *	              TRAIN TEST
 */
#include "trainer_job.h"

#include <lmdb.h>
#include <lmdbio.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CLASSES = 6,
	BYTES = 256,
	INPUTS = BYTES + 1, /* and an input that is always 1 */
	INPUT_ONE = 256,    /* inputs are whole multiples of 1/INPUT_ONE */
	ERROR_ONE = 1 << 24,
};

/* A decoded sample. */
struct input {
	int32_t class;
	int32_t values[INPUTS];
};

struct options {
	const char *train, *test;
	uint32_t epochs, batch;
	double rate;
	uint64_t seed;
	enum lmdbio_order order;
};

/* Sums over the samples of all ranks. All fields are int64_t, for job_sum(). */
struct sums {
	int64_t gradient[CLASSES][INPUTS];
	int64_t loss; /* in ERROR_ONE */
	int64_t right, samples;
};

static double weights[CLASSES][INPUTS];

static void die(const char *what, int rc)
{
	fprintf(stderr, "softmax_train: %s: %s\n", what, mdb_strerror(rc));
	job_abort();
}

/* Called by the loader in several threads, ahead of need. */
static int decode(void *unused, const struct lmdbio_sample *sample, void *output)
{
	const uint8_t *bytes = sample->data.mv_data;
	struct input *input = output;
	uint32_t counts[BYTES] = {0};

	(void)unused;
	if (sample->key.mv_size < 2)
		return EINVAL;
	input->class = atoi(
		(char[]){((char *)sample->key.mv_data)[0], ((char *)sample->key.mv_data)[1], 0});
	if (input->class < 0 || input->class >= CLASSES)
		return EINVAL;
	for (size_t i = 0; i < sample->data.mv_size; i++)
		counts[bytes[i]]++;
	/* A logarithm: differences between small counts weigh more than between large ones. */
	for (unsigned i = 0; i < BYTES; i++)
		input->values[i] = (int32_t)lrint(log2(1 + counts[i]) / 12 * INPUT_ONE);
	input->values[BYTES] = INPUT_ONE;
	return 0;
}

/* Computes the probabilities of the classes. Returns the likeliest class. */
static int predict(const struct input *input, double probabilities[CLASSES])
{
	double highest = -INFINITY, sum = 0;
	int best = 0;

	for (int c = 0; c < CLASSES; c++) {
		probabilities[c] = 0;
		for (unsigned i = 0; i < INPUTS; i++)
			probabilities[c] += weights[c][i] * input->values[i] / INPUT_ONE;
		if (probabilities[c] > highest) {
			highest = probabilities[c];
			best = c;
		}
	}
	for (int c = 0; c < CLASSES; c++)
		sum += probabilities[c] = exp(probabilities[c] - highest);
	for (int c = 0; c < CLASSES; c++)
		probabilities[c] /= sum;
	return best;
}

static void add_sample(struct sums *sums, const struct input *input)
{
	double probabilities[CLASSES];
	int best = predict(input, probabilities);

	for (int c = 0; c < CLASSES; c++) {
		int64_t error = llrint((probabilities[c] - (c == input->class)) * ERROR_ONE);

		for (unsigned i = 0; i < INPUTS; i++)
			sums->gradient[c][i] += error * input->values[i];
	}
	sums->loss -= llrint(log(fmax(probabilities[input->class], 1e-12)) * ERROR_ONE);
	sums->right += best == input->class;
	sums->samples++;
}

static void learn(const struct sums *sums, double rate)
{
	double step = rate / ((double)ERROR_ONE * INPUT_ONE * (double)sums->samples);

	for (int c = 0; c < CLASSES; c++)
		for (unsigned i = 0; i < INPUTS; i++)
			weights[c][i] -= step * (double)sums->gradient[c][i];
}

static struct lmdbio_loader *loader_open(const struct options *options,
					 const struct trainer_job *job, const char *path,
					 enum lmdbio_order order)
{
	struct lmdbio_loader_options loader_options = {
		.size = sizeof(loader_options),
		.seed = options->seed,
		.batch = options->batch,
		.order = order,
		.tail = LMDBIO_TAIL_PAD,
		.decode = decode,
		.decode_size = sizeof(struct input),
	};
	struct lmdbio_loader *loader;
	int rc = job_loader_open(job, &loader, path, &loader_options);

	if (rc)
		die(path, rc);
	return loader;
}

/* Passes once over a data set. With a rate of 0 the weights do not change. */
static void pass(struct lmdbio_loader *loader, uint64_t epoch, double rate, struct sums *total)
{
	struct lmdbio_batch *batch;
	int rc = lmdbio_loader_epoch(loader, epoch);

	memset(total, 0, sizeof(*total));
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		const struct input *inputs = batch->decoded;
		struct sums sums = {0};

		for (size_t i = 0; i < batch->count; i++)
			if (batch->samples[i].record != LMDBIO_NO_RECORD)
				add_sample(&sums, &inputs[i]);
		lmdbio_batch_done(batch);
		lmdbio_loader_quiet(loader, 1);
		job_sum((int64_t *)&sums, sizeof(sums) / sizeof(int64_t));
		lmdbio_loader_quiet(loader, 0);
		if (rate > 0)
			learn(&sums, rate);
		total->loss += sums.loss;
		total->right += sums.right;
		total->samples += sums.samples;
	}
	if (rc != MDB_NOTFOUND)
		die("next batch", rc);
}

static double loss_of(const struct sums *sums)
{
	return (double)sums->loss / ERROR_ONE / (double)sums->samples;
}

static double right_of(const struct sums *sums)
{
	return 100 * (double)sums->right / (double)sums->samples;
}

static void train(const struct options *options, const struct trainer_job *job)
{
	struct lmdbio_loader *train = loader_open(options, job, options->train, options->order);
	struct lmdbio_loader *test =
		loader_open(options, job, options->test, LMDBIO_ORDER_SEQUENTIAL);
	char verdict[256];

	if (!job->rank)
		printf("epoch  training loss  right    test loss  right\n");
	for (uint32_t epoch = 0; epoch < options->epochs; epoch++) {
		struct sums learnt, seen;

		pass(train, epoch, options->rate, &learnt);
		pass(test, epoch, 0, &seen);
		if (!job->rank)
			printf("%5u  %13.9f  %5.2f%%  %9.6f  %5.2f%%\n", epoch, loss_of(&learnt),
			       right_of(&learnt), loss_of(&seen), right_of(&seen));
		fflush(stdout);
	}
	lmdbio_loader_verdict(train, verdict, sizeof(verdict));
	if (!job->rank)
		fprintf(stderr, "%s\n", verdict);
	lmdbio_loader_close(train);
	lmdbio_loader_close(test);
}

static int usage(void)
{
	fprintf(stderr, "usage: softmax_train [-e EPOCHS] [-b BATCH] [-r RATE] [-s SEED]\n"
			"                     [-o shuffle|block|sequential] TRAIN TEST\n");
	return 2;
}

static int order_parse(const char *name, enum lmdbio_order *order)
{
	static const char *const names[] = {"sequential", "shuffle", "block"};

	for (int i = 0; i < 3; i++)
		if (!strcmp(name, names[i])) {
			*order = (enum lmdbio_order)i;
			return 0;
		}
	return -1;
}

static int options_parse(struct options *options, int argc, char **argv)
{
	int letter;

	while ((letter = getopt(argc, argv, "e:b:r:s:o:")) != -1)
		switch (letter) {
		case 'e':
			options->epochs = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'b':
			options->batch = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'r':
			options->rate = strtod(optarg, NULL);
			break;
		case 's':
			options->seed = strtoull(optarg, NULL, 10);
			break;
		case 'o':
			if (order_parse(optarg, &options->order))
				return -1;
			break;
		default:
			return -1;
		}
	if (optind != argc - 2)
		return -1;
	options->train = argv[optind];
	options->test = argv[optind + 1];
	return 0;
}

int main(int argc, char **argv)
{
	struct options options = {
		.epochs = 8, .batch = 128, .rate = 1, .seed = 1, .order = LMDBIO_ORDER_SHUFFLE};
	struct trainer_job job;
	int status = 0;

	job_begin(&job, &argc, &argv);
	if (options_parse(&options, argc, argv))
		status = usage();
	else
		train(&options, &job);
	job_end();
	return status;
}
