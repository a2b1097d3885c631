/* SPDX-License-Identifier: OLDAP-2.8 */
/* Joins a record with its label, and limits where files may lie. */
#include "import_sources.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int label_put(struct import *import, const struct import_record *of, const char *label)
{
	struct import_record record = {.value = strdup(label), .size = strlen(label)};
	char *key;
	int length = asprintf(&key, "%.*s.cls", (int)of->key_size, of->key), rc;

	if (length < 0 || !record.value) {
		free(record.value);
		return convert_fail(label, ENOMEM);
	}
	record.key = key;
	record.key_size = (size_t)length;
	rc = import_put(import, &record);
	free(key);
	return rc;
}

int import_stay_inside(struct convert *convert, const char *directory)
{
	static char path[PATH_MAX]; /* an import has one source of files */

	convert->limits.inside = NULL;
	if (convert->limits.outside)
		return 0;
	if (!realpath(directory, path))
		return convert_fail(directory, errno);
	convert->limits.inside = path;
	return 0;
}

/* Keys come from paths, so they end in a zero byte that does not count. */
int import_put_labelled(struct import *import, struct convert *convert, struct labels *labels,
			struct import_record *record)
{
	const char *label = labels ? labels_find(labels, record->key) : NULL;
	int rc = 0;

	if (labels && !label)
		rc = convert_refuse(convert->labels, "no label for '%s'", record->key);
	if (!rc && convert->caffe) {
		record->labelled = true;
		if (label && !label_number(label, &record->label))
			rc = convert_refuse(convert->labels,
					    "'%s' is no label for Caffe, which wants whole numbers",
					    label);
	}
	if (rc) {
		free(record->value);
		return rc;
	}
	rc = import_put(import, record);
	if (!rc && label && !convert->caffe)
		rc = label_put(import, record, label);
	return rc;
}
