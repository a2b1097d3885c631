/* SPDX-License-Identifier: OLDAP-2.8 */
/* Translates the fields of a struct to words and back. */
#include "bench_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t field_number(const struct field *field, const void *from)
{
	uint64_t number;

	memcpy(&number, (const char *)from + field->offset, sizeof(number));
	return number;
}

int field_print(const struct field *field, const void *from, char *word, size_t room)
{
	const char *text;

	if (field->kind == FIELD_NUMBER)
		return snprintf(word, room, "%s=%" PRIu64, field->name, field_number(field, from));
	memcpy(&text, (const char *)from + field->offset, sizeof(text));
	return snprintf(word, room, "%s=%s", field->name, text ? text : "");
}

int field_parse(const struct field *fields, size_t n, const char *word, void *to)
{
	size_t length = strcspn(word, "=");
	const char *value = word + length + 1;
	uint64_t number;
	char *end;

	if (!word[length])
		return EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (strlen(fields[i].name) != length || memcmp(fields[i].name, word, length) != 0)
			continue;
		if (fields[i].kind == FIELD_TEXT) {
			memcpy((char *)to + fields[i].offset, &value, sizeof(value));
			return 0;
		}
		errno = 0;
		number = strtoull(value, &end, 10);
		if (errno || end == value || *end)
			return EINVAL;
		memcpy((char *)to + fields[i].offset, &number, sizeof(number));
		return 0;
	}
	return EINVAL;
}
