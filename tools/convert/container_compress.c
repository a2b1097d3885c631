/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compresses data into a frame. */
#include "util/hash.h"
#include "container_write_private.h"

#include <errno.h>
#include <stdlib.h>
#include <zdict.h>
#include <zstd.h>
#include <zstd_errors.h>

struct container_compressor {
	ZSTD_CCtx *zstd;
};

static unsigned log2_of(uint32_t power_of_two)
{
	return (unsigned)__builtin_ctz(power_of_two);
}

/* zstd's own checksum costs four bytes a chunk, and lets plain `zstd -t` see damage. */
static int set_parameters(ZSTD_CCtx *zstd, const struct container_write_options *options)
{
	size_t rc = ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, options->level);

	if (!ZSTD_isError(rc))
		rc = ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
	if (!ZSTD_isError(rc) && options->long_distance)
		rc = ZSTD_CCtx_setParameter(zstd, ZSTD_c_enableLongDistanceMatching, 1);
	if (!ZSTD_isError(rc) && options->long_distance)
		rc = ZSTD_CCtx_setParameter(zstd, ZSTD_c_windowLog,
					    (int)log2_of(options->chunk_size));
	if (ZSTD_isError(rc))
		return EINVAL;
	if (options->dictionary)
		rc = ZSTD_CCtx_loadDictionary(zstd, options->dictionary, options->dictionary_size);
	return ZSTD_isError(rc) ? ENOMEM : 0;
}

int container_compressor_open(struct container_compressor **compressor,
			      const struct container_write_options *options)
{
	struct container_write_options settled;
	struct container_compressor *made;
	uint8_t header[LAYOUT_END];
	struct container_info info;
	int rc = options_settle(&settled, options, header, &info);

	if (rc)
		return rc;
	made = calloc(1, sizeof(*made));
	if (!made)
		return ENOMEM;
	made->zstd = ZSTD_createCCtx();
	rc = made->zstd ? set_parameters(made->zstd, &settled) : ENOMEM;
	if (rc) {
		container_compressor_close(made);
		return rc;
	}
	*compressor = made;
	return 0;
}

void container_compressor_close(struct container_compressor *compressor)
{
	if (!compressor)
		return;
	ZSTD_freeCCtx(compressor->zstd);
	free(compressor);
}

int container_compress(struct container_compressor *compressor, const void *data, size_t size,
		       void *out, struct container_frame *frame)
{
	size_t n = ZSTD_compress2(compressor->zstd, out, container_frame_bound(size), data, size);

	if (ZSTD_isError(n))
		return ZSTD_getErrorCode(n) == ZSTD_error_memory_allocation ? ENOMEM : EIO;
	frame->length = (uint32_t)n;
	frame->check = (uint32_t)hash_bytes(out, n);
	frame->size = (uint32_t)size;
	frame->hash = hash_bytes(data, size);
	return 0;
}

int container_train(const void *samples, const size_t *sizes, unsigned n, void *dictionary,
		    size_t *size)
{
	size_t made = ZDICT_trainFromBuffer(dictionary, *size, samples, sizes, n);

	if (ZDICT_isError(made))
		return ZSTD_getErrorCode(made) == ZSTD_error_memory_allocation ? ENOMEM : ENODATA;
	*size = made;
	return 0;
}
