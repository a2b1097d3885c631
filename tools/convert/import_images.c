/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a record of each line of Caffe's image list.
 *
 * A line is "path label", where the path may hold spaces. The key is convert_imageset's: the line's
 * number, "_" and the path. */
#include "import_sources.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns whether a path leads out of the directory. Another user's list could name any file that
 * the importing user can read. */
static bool leads_out(const struct convert *convert, const char *path)
{
	if (*path == '/' && !convert->root)
		return true;
	for (const char *at = path; at; at = strchr(at, '/')) {
		at += strspn(at, "/");
		if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2]))
			return true;
	}
	return false;
}

static int line_put(struct import *import, const struct convert *convert, uint64_t number,
		    char *line)
{
	const char *list = convert->sources[0], *label = label_split(line);
	struct import_record record = {.labelled = true};
	char *key = NULL, *path = NULL;
	struct stat st;
	int length, rc;

	if (!label || !label_number(label, &record.label))
		return convert_refuse(list, "line %llu: a path and a whole number are wanted",
				      (unsigned long long)number + 1);
	if (!convert->limits.outside && leads_out(convert, line))
		return convert_refuse(list,
				      "line %llu: '%s' leads out of %s; --outside allows that",
				      (unsigned long long)number + 1, line,
				      convert->root ? convert->root : "this directory");
	length = asprintf(&key, "%08llu_%s", (unsigned long long)number, line);
	if (length < 0)
		return convert_fail(list, ENOMEM);
	if (asprintf(&path, "%s%s%s", convert->root ? convert->root : "", convert->root ? "/" : "",
		     line) < 0) {
		free(key);
		return convert_fail(list, ENOMEM);
	}
	if (stat(path, &st)) {
		rc = convert_fail(path, errno);
	} else {
		record.key = key;
		record.key_size = (size_t)length;
		record.path = path;
		record.size = (uint64_t)st.st_size;
		rc = import_put(import, &record);
	}
	free(key);
	free(path);
	return rc;
}

int import_images(struct import *import, struct convert *convert)
{
	const char *list = convert->sources[0];
	FILE *file = fopen(list, "re");
	uint64_t number = 0;
	char *line = NULL;
	size_t room = 0;
	bool more;
	int rc;

	if (!file)
		return convert_fail(list, errno);
	rc = import_stay_inside(convert, convert->root ? convert->root : ".");
	while (!rc && !(rc = list_next(file, list, &line, &room, &more)) && more) {
		rc = convert_interrupted();
		if (!rc && line[strspn(line, " \t\r\n")])
			rc = line_put(import, convert, number++, line);
	}
	free(line);
	fclose(file);
	return rc;
}
