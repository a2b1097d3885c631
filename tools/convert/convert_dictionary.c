/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the samples of a source that a dictionary is trained on. */
#include "convert_dictionary.h"

#include "container_write.h"
#include "util/checked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	SAMPLE = 16 << 10,      /* bytes; a dictionary helps at the beginning of a chunk */
	SAMPLES_PER_SIZE = 100, /* bytes of samples for each byte of dictionary, as zstd advises */
	SAMPLES_MOST = 4096,
	BUFFER_ALIGNMENT = 4096,
};

static int dictionary_read(const char *path, void **bytes, size_t *size)
{
	FILE *file = fopen(path, "re");
	int rc = 0;

	if (!file)
		return convert_fail(path, errno);
	*bytes = malloc(CONTAINER_DICTIONARY_MAX + 1);
	if (!*bytes) {
		rc = convert_fail(path, ENOMEM);
		goto fail;
	}
	errno = 0;
	*size = fread(*bytes, 1, CONTAINER_DICTIONARY_MAX + 1, file);
	if (ferror(file))
		rc = convert_fail(path, errno ? errno : EIO);
	else if (*size > CONTAINER_DICTIONARY_MAX || *size < 8)
		rc = convert_refuse(path, "a dictionary has 8 bytes to %d KiB",
				    CONTAINER_DICTIONARY_MAX >> 10);
fail:
	fclose(file);
	return rc;
}

/* Takes samples at the same places for the same data, so that a resumed conversion trains the same
 * dictionary. */
static int dictionary_train(const struct convert *convert, struct source *source, void **bytes,
			    size_t *size)
{
	uint64_t wanted = convert->train_size * SAMPLES_PER_SIZE / SAMPLE,
		 all = source->size / SAMPLE;
	unsigned count = (unsigned)(wanted < SAMPLES_MOST ? wanted : SAMPLES_MOST);
	size_t *sizes;
	uint8_t *samples;
	int rc = 0;

	if (count > all)
		count = (unsigned)all;
	if (!count)
		return convert_refuse(source->file,
				      "too little data to train a dictionary on: convert it "
				      "without --train-dictionary");
	sizes = malloc(count * sizeof(*sizes));
	samples = aligned_alloc(BUFFER_ALIGNMENT, (size_t)count * SAMPLE);
	*size = convert->train_size;
	*bytes = malloc(*size);
	if (!sizes || !samples || !*bytes)
		rc = convert_fail(source->file, ENOMEM);
	for (unsigned i = 0; i < count && !rc; i++) {
		uint64_t offset = all * i / count * SAMPLE;

		sizes[i] = SAMPLE;
		rc = source_read(source, samples + (size_t)i * SAMPLE, SAMPLE, offset);
		if (rc)
			rc = source_fail(source, offset, rc);
	}
	if (!rc) {
		rc = container_train(samples, sizes, count, *bytes, size);
		if (rc == ENODATA)
			rc = convert_refuse(source->file,
					    "no dictionary can be trained on this data: convert "
					    "it without --train-dictionary");
		else if (rc)
			rc = convert_fail(source->file, rc);
	}
	free(sizes);
	free(samples);
	return rc;
}

int dictionary_get(const struct convert *convert, struct source *source, void **bytes, size_t *size)
{
	int rc = 0;

	*bytes = NULL;
	*size = 0;
	if (convert->dictionary)
		rc = dictionary_read(convert->dictionary, bytes, size);
	else if (convert->train_size)
		rc = dictionary_train(convert, source, bytes, size);
	if (rc) {
		free(*bytes);
		*bytes = NULL;
	}
	return rc;
}
