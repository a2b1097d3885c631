/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a part of an epoch of the batch loader, and looks at each sample. */
#include "soak_loads.h"

#include <errno.h>
#include <lmdbio.h>
#include <string.h>

/* What the snapshot of the loader can be, as the samples tell. */
struct loading {
	struct soak_reader *reader;
	uint64_t mark;
	uint64_t first, last; /* snapshots */
	uint64_t generation_first, generation_last;
};

/* Leaves those snapshots in which the record has this version. */
static void narrow(struct loading *loading, uint32_t record, uint64_t version)
{
	while (loading->first <= loading->last && soak_version(record, loading->first) != version)
		loading->first++;
	while (loading->first <= loading->last && soak_version(record, loading->last) != version)
		loading->last--;
}

static int look(struct loading *loading, const struct lmdbio_sample *sample)
{
	struct soak_reader *reader = loading->reader;
	struct soak_found found = {0};

	(void)atomic_fetch_add(&reader->slot->progress, 1);
	if (sample->record == LMDBIO_NO_RECORD)
		return 0;
	if (sample->error && soak_is_code(sample->error, loading->mark)) {
		(void)atomic_fetch_add(&reader->slot->codes, 1);
		return 0;
	}
	if (!sample->error && soak_is_sound(&reader->data, &sample->key, &sample->data, &found) &&
	    found.record == sample->record && found.generation >= loading->generation_first &&
	    found.generation <= loading->generation_last) {
		loading->generation_first = loading->generation_last = found.generation;
		narrow(loading, found.record, found.version);
		if (loading->first <= loading->last)
			return 0;
	}
	soak_complain(reader,
		      "a sample of record %llu: error %d, found record %u, version %llu, "
		      "generation %llu, %zu bytes",
		      (unsigned long long)sample->record, sample->error, found.record,
		      (unsigned long long)found.version, (unsigned long long)found.generation,
		      sample->data.mv_size);
	return EIO;
}

static int take(struct loading *loading, struct lmdbio_loader *loader, unsigned batches)
{
	struct soak_reader *reader = loading->reader;
	int rc = 0;

	for (unsigned i = 0; i < batches && !rc && soak_goes_on(reader); i++) {
		struct lmdbio_batch *batch;

		rc = lmdbio_loader_next(loader, &batch);
		if (rc && soak_is_code(rc, loading->mark)) {
			(void)atomic_fetch_add(&reader->slot->codes, 1);
			(void)atomic_fetch_add(&reader->slot->progress, 1);
			rc = 0;
			continue;
		}
		if (rc == MDB_NOTFOUND)
			return 0;
		if (rc)
			soak_complain(reader, "lmdbio_loader_next says %d (%s)", rc,
				      mdb_strerror(rc));
		for (size_t n = 0; !rc && n < batch->count; n++)
			rc = look(loading, &batch->samples[n]);
		if (!rc)
			lmdbio_batch_done(batch);
	}
	return rc;
}

static int open_loader(struct loading *loading, struct random_stream *random, bool attached,
		       struct lmdbio_loader **loader)
{
	struct soak_reader *reader = loading->reader;
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.seed = random_next(random),
		.batch = (uint32_t)random_between(random, 4, 64),
		.order = (enum lmdbio_order)random_below(random, 4),
		.skip_errors = (uint32_t)random_below(random, 2),
		.memory = random_percent(random, 50) ? 0 : 1 << 20,
		.shares = 2,
	};

	return attached ? lmdbio_loader_attach(loader, reader->env, NULL, &options)
			: lmdbio_loader_open(loader, reader->path, MDB_NOLOCK, NULL, &options);
}

int soak_load(struct soak_reader *reader, struct random_stream *random, unsigned batches,
	      uint64_t newest)
{
	struct loading loading = {
		.reader = reader, .mark = chance_failed(), .last = newest + 100000};
	/* LMDB forbids to open a data set with a lock file twice in a process. */
	bool attached = reader->kind == SOAK_LIVE || random_percent(random, 50);
	struct lmdbio_loader *loader = NULL;
	int rc;

	loading.first = newest;
	loading.generation_first = reader->generation;
	if (!attached)
		loading.generation_first = reader->board->come[reader->kind];
	rc = open_loader(&loading, random, attached, &loader);
	if (rc && soak_is_code(rc, loading.mark)) {
		(void)atomic_fetch_add(&reader->slot->codes, 1);
		chance_pause();
		rc = open_loader(&loading, random, attached, &loader);
		chance_go_on();
	}
	loading.generation_last =
		attached ? reader->generation : reader->board->coming[reader->kind];
	if (!rc)
		rc = lmdbio_loader_epoch(loader, random_below(random, 1000));
	if (rc) {
		soak_complain(reader, "a loader says %d (%s) as it opens", rc, mdb_strerror(rc));
		lmdbio_loader_close(loader);
		return rc;
	}
	rc = take(&loading, loader, batches);
	lmdbio_loader_close(loader);
	return rc;
}
