/* SPDX-License-Identifier: OLDAP-2.8 */
/* Exports the calls of the batch loader. */
#include "config.h"
#include "handles.h"
#include "loader/batch_loader.h"
#include "util/thread.h"

#include <errno.h>

_Static_assert((int)LMDBIO_LOADER_STATE == (int)ORDER_STATE, "the state is the order's");
_Static_assert((int)LMDBIO_ORDER_OPPORTUNISTIC == (int)ORDER_OPPORTUNISTIC &&
		       (int)LMDBIO_ORDER_BLOCK == (int)ORDER_BLOCK &&
		       (int)LMDBIO_ORDER_SHUFFLE == (int)ORDER_SHUFFLE,
	       "one numbering of orders");
_Static_assert((int)LMDBIO_TAIL_WRAP == (int)ORDER_WRAP && (int)LMDBIO_TAIL_DROP == (int)ORDER_DROP,
	       "one numbering of tails");

EXPORT int lmdbio_loader_open(struct lmdbio_loader **loader, const char *path, unsigned flags,
			      const char *name, const struct lmdbio_loader_options *options)
{
	UNCANCELLED;
	struct loader_place place = {.path = path, .flags = flags, .name = name};

	return loader && path ? loader_open(loader, &place, options, NULL) : EINVAL;
}

EXPORT int lmdbio_loader_attach(struct lmdbio_loader **loader, MDB_env *env, const char *name,
				const struct lmdbio_loader_options *options)
{
	UNCANCELLED;
	struct loader_place place = {.env = env, .name = name};

	return loader && env ? loader_open(loader, &place, options, NULL) : EINVAL;
}

EXPORT int lmdbio_loader_epoch(struct lmdbio_loader *loader, uint64_t epoch)
{
	UNCANCELLED;

	return loader ? loader_epoch(loader, epoch) : EINVAL;
}

EXPORT uint64_t lmdbio_loader_batches(struct lmdbio_loader *loader)
{
	return loader ? loader_batches(loader) : 0;
}

EXPORT uint64_t lmdbio_loader_records(struct lmdbio_loader *loader)
{
	return loader ? loader_records(loader) : 0;
}

EXPORT int lmdbio_loader_next(struct lmdbio_loader *loader, struct lmdbio_batch **batch)
{
	UNCANCELLED;

	return loader && batch ? loader_next(loader, batch) : EINVAL;
}

EXPORT int lmdbio_loader_next_within(struct lmdbio_loader *loader, uint64_t ns,
				     struct lmdbio_batch **batch)
{
	UNCANCELLED;

	return loader && batch ? loader_next_within(loader, ns, batch) : EINVAL;
}

EXPORT void lmdbio_batch_done(struct lmdbio_batch *batch)
{
	UNCANCELLED;

	loader_done(batch);
}

EXPORT int lmdbio_loader_save(struct lmdbio_loader *loader, uint8_t state[LMDBIO_LOADER_STATE])
{
	UNCANCELLED;

	return loader && state ? loader_save(loader, state) : EINVAL;
}

EXPORT int lmdbio_loader_restore(struct lmdbio_loader *loader,
				 const uint8_t state[LMDBIO_LOADER_STATE])
{
	UNCANCELLED;

	return loader && state ? loader_restore(loader, state) : EINVAL;
}

EXPORT void lmdbio_loader_quiet(struct lmdbio_loader *loader, int begin)
{
	UNCANCELLED;

	if (loader)
		loader_quiet(loader, begin != 0);
}

EXPORT int lmdbio_loader_stats(struct lmdbio_loader *loader, struct lmdbio_loader_stats *stats)
{
	UNCANCELLED;

	return loader ? loader_stats(loader, stats) : EINVAL;
}

EXPORT size_t lmdbio_loader_verdict(struct lmdbio_loader *loader, char *line, size_t size)
{
	UNCANCELLED;

	return loader_verdict(loader, line, size);
}

EXPORT int lmdbio_loader_quality(struct lmdbio_loader *loader, uint64_t epoch, size_t from,
				 size_t bytes, struct lmdbio_quality *quality)
{
	UNCANCELLED;

	return loader ? loader_quality(loader, epoch, from, bytes, quality) : EINVAL;
}

EXPORT void lmdbio_loader_close(struct lmdbio_loader *loader)
{
	UNCANCELLED;

	loader_close(loader);
}
