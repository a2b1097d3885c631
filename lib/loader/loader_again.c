/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads samples once more for which there was no memory when they were read ahead.
 *
 * The taker does so itself. The batches before this one may have been given back since then; if that
 * is not enough, what is read ahead goes for it.
 */
#include "loader/loader_private.h"

#include <errno.h>

/* A decoder's own ENOMEM is not meant: its sample has come. */
static bool is_lacking(const struct lmdbio_sample *sample)
{
	return sample->error == ENOMEM && !sample->key.mv_data && !sample->data.mv_data;
}

/* Releases the loader lock meanwhile. Returns whether samples still lack memory. */
static bool read_lacking(struct lmdbio_loader *loader, struct batch *batch)
{
	struct snapshot snapshot = loader_view(loader);
	uint64_t held = 0;
	bool lacking = false;

	pthread_mutex_unlock(&loader->lock);
	for (size_t i = 0; i < batch->shown.count; i++) {
		struct lmdbio_sample *sample = &batch->samples[i];
		struct work work = {.batch = batch, .slot = (uint32_t)i};

		if (!is_lacking(sample))
			continue;
		sample->error = index_find(loader->data.index, sample->record, &work.place);
		if (!sample->error)
			(void)sample_take(loader, &snapshot, NULL, &work, SOURCE_FILE);
		lacking |= is_lacking(sample);
		if (sample->error)
			continue;
		if (batch->memory[i])
			held += sample_memory_size(batch->memory[i],
						   sample->key.mv_size + sample->data.mv_size);
		sample_decode(loader, batch, i);
	}
	pthread_mutex_lock(&loader->lock);
	batch->held += held;
	loader->memory.held += held;
	return lacking;
}

void batch_again(struct lmdbio_loader *loader, struct batch *batch)
{
	if (!read_lacking(loader, batch) || !ahead_begin_drop(loader))
		return;
	(void)read_lacking(loader, batch);
	ahead_end_drop(loader);
}
