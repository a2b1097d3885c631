/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decodes the samples of batches that are complete. */
#include "loader/loader_private.h"

#include <stdlib.h>

enum { SAMPLES_AT_ONCE = 8 };

void batch_came(struct lmdbio_loader *loader, struct batch *batch, size_t samples)
{
	batch->missing -= samples;
	if (batch->missing || batch->state != BATCH_COMING)
		return;
	free(batch->works);
	batch->works = NULL;
	if (loader->options.decode && batch->shown.count) {
		batch->state = BATCH_DECODING;
		crew_wake_all(&loader->decoders);
	} else {
		batch->state = BATCH_READY;
		pthread_cond_broadcast(&loader->ready);
	}
}

/* Returns the first batch with samples that no thread decodes yet. */
static struct batch *batch_to_decode(const struct lmdbio_loader *loader)
{
	struct batch *batch = loader->ahead.first;

	while (batch && (batch->state != BATCH_DECODING || batch->taken == batch->shown.count))
		batch = batch->next;
	return batch;
}

void sample_decode(const struct lmdbio_loader *loader, struct batch *batch, size_t i)
{
	const struct lmdbio_loader_options *options = &loader->options;
	struct lmdbio_sample *sample = &batch->samples[i];

	if (options->decode && sample->record != LMDBIO_NO_RECORD && !sample->error)
		sample->error = options->decode(options->decode_context, sample,
						(uint8_t *)batch->shown.decoded +
							i * options->decode_size);
}

/* A step of the crew. */
static uint64_t decoder_step(void *owner)
{
	struct lmdbio_loader *loader = owner;
	struct batch *batch = loader->closing || loader->life == LIFE_CHANGING
				      ? NULL
				      : batch_to_decode(loader);
	size_t first, end;

	if (!batch)
		return CLOCK_NEVER;
	first = batch->taken;
	end = batch->shown.count - first < SAMPLES_AT_ONCE ? batch->shown.count
							   : first + SAMPLES_AT_ONCE;
	batch->taken = end;
	loader->decoding++;
	pthread_mutex_unlock(&loader->lock);
	for (size_t i = first; i < end; i++)
		sample_decode(loader, batch, i);
	pthread_mutex_lock(&loader->lock);
	batch->decoded += end - first;
	if (batch->decoded == batch->shown.count) {
		batch->state = BATCH_READY;
		pthread_cond_broadcast(&loader->ready);
	}
	if (!--loader->decoding)
		pthread_cond_broadcast(&loader->still);
	return 0;
}

const struct crew_work decoder_work = {.name = "lmdbio-decode", .step = decoder_step};
