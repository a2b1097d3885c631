/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a struct as text for driver and worker, and reads it back.
 *
 * Both ends describe the struct by the same const table. The text consists of words "name=value",
 * which a person can type and read as well.
 */
#ifndef BENCH_FIELDS_H
#define BENCH_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#define FIELD_WORD_MAX 4200

struct field {
	const char *name;
	size_t offset;
	enum { FIELD_NUMBER, FIELD_TEXT } kind; /* uint64_t, or const char * */
};

/* Writes field i of a struct as a word. Returns the length, as snprintf(3) does. */
int field_print(const struct field *field, const void *from, char *word, size_t room);

/* Stores one word in the field that it names; a text points into `word`. Returns 0 or EINVAL. */
int field_parse(const struct field *fields, size_t n, const char *word, void *to);

/* Returns the number in a field. */
uint64_t field_number(const struct field *field, const void *from);

#endif
