/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts from users and file systems into JSON. */
#ifndef LMDBIO_TOOLS_TOOL_JSON_H
#define LMDBIO_TOOLS_TOOL_JSON_H

#include <jansson.h>

/* Makes a text a JSON string: not UTF-8 as tool_escape() writes it, NULL as null. Returns a new
 * reference, or NULL without memory. */
json_t *tool_json_text(const char *text);

/* The same for a text without a final NUL. */
json_t *tool_json_bytes(const void *bytes, size_t length);

#endif
