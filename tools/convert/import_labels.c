/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the lines of a list, and parses lines "path label". */
#include "import_labels.h"
#include "convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct label {
	char *path, *text; /* both in one allocation */
	bool used;
};

struct labels {
	struct label *sorted;
	size_t count, room;
};

/* After an error, getline(3) returns the rest of a line as if it were complete. */
int list_next(FILE *list, const char *name, char **line, size_t *room, bool *more)
{
	errno = 0;
	*more = getline(line, room, list) >= 0;
	if (ferror(list) || (!*more && !feof(list)))
		return convert_fail(name, errno ? errno : EIO);
	return 0;
}

char *label_split(char *line)
{
	size_t length = strlen(line);
	char *at;

	while (length && strchr("\r\n \t", line[length - 1]))
		line[--length] = 0;
	/* A path may contain spaces, a label none. */
	for (at = line + length; at > line && *at != ' ' && *at != '\t';)
		at--;
	if (at == line)
		return NULL;
	*at = 0;
	return at + 1;
}

bool label_number(const char *label, int32_t *number)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(label, &end, 10);
	if (end == label || *end || errno || value < INT32_MIN || value > INT32_MAX)
		return false;
	*number = (int32_t)value;
	return true;
}

static int compare_labels(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->path, ((const struct label *)b)->path);
}

static int label_add(struct labels *labels, char *path, char *text)
{
	if (labels->count == labels->room) {
		size_t room = labels->room ? 2 * labels->room : 1024;
		struct label *sorted = realloc(labels->sorted, room * sizeof(*sorted));

		if (!sorted)
			return ENOMEM;
		labels->sorted = sorted;
		labels->room = room;
	}
	labels->sorted[labels->count++] = (struct label){.path = path, .text = text};
	return 0;
}

static int labels_read(struct labels *labels, FILE *file, const char *name)
{
	char *line = NULL, *text;
	size_t room = 0, number = 0;
	bool more;
	int rc;

	while (!(rc = list_next(file, name, &line, &room, &more)) && more) {
		number++;
		if (line[strspn(line, " \t\r\n")] == 0)
			continue;
		text = label_split(line);
		if (!text) {
			rc = convert_refuse(name, "line %zu: a path and a label are wanted",
					    number);
			break;
		}
		rc = label_add(labels, line, text);
		if (rc) {
			rc = convert_fail(name, rc);
			break;
		}
		line = NULL; /* the label owns it now */
		room = 0;
	}
	free(line);
	return rc;
}

int labels_open(struct labels **result, const char *path)
{
	struct labels *labels = calloc(1, sizeof(*labels));
	FILE *file = fopen(path, "re");
	int rc;

	*result = NULL;
	if (!labels || !file) {
		rc = convert_fail(path, labels ? errno : ENOMEM);
		goto fail;
	}
	rc = labels_read(labels, file, path);
	if (rc)
		goto fail;
	if (labels->count)
		qsort(labels->sorted, labels->count, sizeof(*labels->sorted), compare_labels);
	for (size_t i = 1; i < labels->count && !rc; i++)
		if (!compare_labels(labels->sorted + i - 1, labels->sorted + i))
			rc = convert_refuse(path, "'%s' has two labels: keep one of them",
					    labels->sorted[i].path);
	if (!rc) {
		*result = labels;
		labels = NULL;
	}
fail:
	if (file)
		fclose(file);
	labels_close(labels);
	return rc;
}

const char *labels_find(struct labels *labels, const char *path)
{
	struct label wanted = {.path = (char *)(uintptr_t)path};
	struct label *found = labels->count ? bsearch(&wanted, labels->sorted, labels->count,
						      sizeof(wanted), compare_labels)
					    : NULL;

	if (!found)
		return NULL;
	found->used = true;
	return found->text;
}

size_t labels_unused(const struct labels *labels)
{
	size_t unused = 0;

	for (size_t i = 0; i < labels->count; i++)
		unused += !labels->sorted[i].used;
	return unused;
}

void labels_close(struct labels *labels)
{
	if (!labels)
		return;
	for (size_t i = 0; i < labels->count; i++)
		free(labels->sorted[i].path);
	free(labels->sorted);
	free(labels);
}
