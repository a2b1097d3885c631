/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts from users and file systems, and numbers from files, into JSON. */
#include "tool_json.h"

#include "tool_common.h"

#include <limits.h>
#include <string.h>

enum { ESCAPED_BYTE = 4 /* characters: \xHH */, ESCAPED_END = 16 };

json_t *tool_json_bytes(const void *bytes, size_t length)
{
	/* A name of LMDB 0.9 and a path fit: two names whose texts are cut off may look the same. */
	char escaped[ESCAPED_BYTE * PATH_MAX + ESCAPED_END];
	json_t *json = json_stringn(bytes, length);

	return json ? json : json_string(tool_escape(bytes, length, escaped, sizeof(escaped)));
}

json_t *tool_json_text(const char *text)
{
	return text ? tool_json_bytes(text, strlen(text)) : json_null();
}

json_t *tool_json_number(uint64_t value)
{
	return value > INT64_MAX ? json_real((double)value) : json_integer((json_int_t)value);
}
