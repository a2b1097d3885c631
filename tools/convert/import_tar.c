/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes records of the members of tars, single or grouped to samples. */
#include "import_archive.h"
#include "import_datum.h"
#include "import_sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_MEMBERS = 1024 /* of one sample, at most */ };

struct plain {
	struct import *import;
	struct convert *convert;
	struct labels *labels;
};

/* Finds the value of the earlier member that a hard link names, as that member had it. Of a Datum
 * this is the image, because each name has its own label. */
static int link_value(const struct plain *plain, const struct archive_member *member,
		      struct import_record *record)
{
	const void *image;
	size_t size = 0;
	int rc = import_get(plain->import, member->hardlink, strlen(member->hardlink),
			    &record->value, &size);

	if (rc)
		return rc;
	if (!record->value)
		return convert_refuse(member->archive, "%s: a link to %s, which is not there",
				      member->name, member->hardlink);
	if (plain->convert->caffe) {
		image = datum_image(record->value, size, &size);
		if (image)
			memmove(record->value, image, size);
		else
			rc = convert_refuse(member->archive, "%s: a link to %s, which is no Datum",
					    member->name, member->hardlink);
	}
	if (!rc)
		rc = archive_charge(plain->convert, member->archive, member->name, size);
	if (rc)
		free(record->value);
	record->size = size;
	return rc;
}

static int plain_take(void *to, struct archive_member *member)
{
	struct plain *plain = to;
	struct import_record record = {
		.key = member->name,
		.key_size = strlen(member->name),
		.value = member->value,
		.size = member->size,
	};
	int rc = member->hardlink ? link_value(plain, member, &record) : 0;

	return rc ? rc : import_put_labelled(plain->import, plain->convert, plain->labels, &record);
}

int import_tar(struct import *import, struct convert *convert, struct labels *labels)
{
	struct plain plain = {import, convert, labels};

	return archive_walk(convert, plain_take, &plain);
}

/* ---- samples ---- */

struct part {
	char *extension;
	void *value;
	size_t size;
};

struct samples {
	struct import *import;
	struct convert *convert;
	uint64_t number;
	char *name;          /* of the sample in work; NULL: none yet */
	const char *archive; /* the tar of the sample; a sample ends with its tar */
	struct part parts[SAMPLE_MEMBERS];
	size_t count;
	uint64_t bytes; /* of all parts */
};

static int compare_parts(const void *a, const void *b)
{
	return strcmp(((const struct part *)a)->extension, ((const struct part *)b)->extension);
}

static void samples_drop(struct samples *samples)
{
	while (samples->count) {
		samples->count--;
		free(samples->parts[samples->count].extension);
		free(samples->parts[samples->count].value);
	}
	free(samples->name);
	samples->name = NULL;
	samples->bytes = 0;
}

static int part_put(struct samples *samples, struct part *part)
{
	struct import_record record = {.value = part->value, .size = part->size};
	char *key;
	int rc, length = asprintf(&key, "%010llu.%s", (unsigned long long)samples->number,
				  part->extension);

	part->value = NULL;
	if (length < 0) {
		free(record.value);
		return convert_fail(part->extension, ENOMEM);
	}
	record.key = key;
	record.key_size = (size_t)length;
	rc = import_put(samples->import, &record);
	free(key);
	return rc;
}

static int samples_add(struct samples *samples, const char *extension, void *value, size_t size)
{
	struct part *part = &samples->parts[samples->count];

	if (samples->count == SAMPLE_MEMBERS) {
		free(value);
		return convert_refuse(samples->name, "a sample of more than %d members",
				      SAMPLE_MEMBERS - 1);
	}
	samples->bytes += size;
	if (samples->bytes > samples->convert->limits.value) {
		free(value);
		return import_too_large(samples->convert, samples->name, samples->bytes);
	}
	*part = (struct part){strdup(extension), value, size};
	if (!part->extension) {
		free(value);
		return convert_fail(samples->name, ENOMEM);
	}
	samples->count++;
	return 0;
}

/* Completes the sample: its parts become records, in the order of their keys. */
static int samples_end(struct samples *samples)
{
	char *name;
	int rc = 0;

	if (!samples->name)
		return 0;
	name = strdup(samples->name);
	if (!name)
		return convert_fail(samples->name, ENOMEM);
	rc = samples_add(samples, "__key__", name, strlen(name));
	qsort(samples->parts, samples->count, sizeof(samples->parts[0]), compare_parts);
	for (size_t i = 0; i < samples->count && !rc; i++)
		rc = part_put(samples, &samples->parts[i]);
	samples->number++;
	samples_drop(samples);
	return rc;
}

static int sample_take(void *to, struct archive_member *member)
{
	struct samples *samples = to;
	const char *base = basename(member->name), *dot = strchr(base, '.');
	size_t length;
	int rc = 0;

	if (member->hardlink || !dot || dot == base || !dot[1]) {
		samples->convert->skipped++;
		free(member->value);
		return 0;
	}
	length = (size_t)(dot - member->name);
	if (!samples->name || samples->archive != member->archive ||
	    strlen(samples->name) != length || memcmp(samples->name, member->name, length)) {
		rc = samples_end(samples);
		if (!rc && !(samples->name = strndup(member->name, length)))
			rc = convert_fail(member->archive, ENOMEM);
		samples->archive = member->archive;
	}
	if (rc) {
		free(member->value);
		return rc;
	}
	return samples_add(samples, dot + 1, member->value, member->size);
}

int import_webdataset(struct import *import, struct convert *convert)
{
	struct samples *samples = calloc(1, sizeof(*samples));
	int rc;

	if (!samples)
		return convert_fail(convert->sources[0], ENOMEM);
	samples->import = import;
	samples->convert = convert;
	rc = archive_walk(convert, sample_take, samples);
	if (!rc)
		rc = samples_end(samples);
	samples_drop(samples);
	free(samples);
	return rc;
}
