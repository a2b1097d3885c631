/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts from users and file systems, and numbers from files, into JSON. */
#ifndef LMDBIO_TOOLS_TOOL_JSON_H
#define LMDBIO_TOOLS_TOOL_JSON_H

#include <jansson.h>
#include <stdint.h>

/* Makes a text a JSON string: not UTF-8 as tool_escape() writes it, NULL as null. Returns a new
 * reference, or NULL without memory. */
json_t *tool_json_text(const char *text);

/* The same for a text without a final NUL. */
json_t *tool_json_bytes(const void *bytes, size_t length);

/* Makes a JSON number: from 2^63 on a real one, because Jansson's integers are signed. Returns a new
 * reference, or NULL without memory. */
json_t *tool_json_number(uint64_t value);

#endif
