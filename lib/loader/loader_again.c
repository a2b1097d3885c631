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

static int sample_read(struct lmdbio_loader *loader, struct lmdbio_sample *sample, void **memory)
{
	struct snapshot snapshot = loader_view(loader);
	struct tier_record record = {0};
	struct index_place place;
	int rc = index_find(loader->data.index, sample->record, &place);

	if (!rc)
		rc = index_get(&snapshot, &loader->data.tree, &place, &record.key, &record.data);
	if (rc)
		return rc;
	if (loader->memory.copies &&
	    !tier_place(&record,
			sample_memory_new(loader, record.data.mv_size + record.key.mv_size + 1),
			&record.key, &record.data))
		return ENOMEM;
	sample->key = record.key;
	sample->data = record.data;
	*memory = record.memory;
	return 0;
}

/* Releases the loader lock meanwhile. Returns whether samples still lack memory. */
static bool read_lacking(struct lmdbio_loader *loader, struct batch *batch)
{
	uint64_t held = 0;
	bool lacking = false;

	pthread_mutex_unlock(&loader->lock);
	for (size_t i = 0; i < batch->shown.count; i++) {
		struct lmdbio_sample *sample = &batch->samples[i];

		if (!is_lacking(sample))
			continue;
		sample->error = sample_read(loader, sample, &batch->memory[i]);
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
