/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts that people and file systems have made into JSON. */
#ifndef LMDBIO_TOOLS_TOOL_JSON_H
#define LMDBIO_TOOLS_TOOL_JSON_H

#include <jansson.h>

/* A text as a JSON string; one that is no UTF-8 as tool_escape() has it; NULL as null. A new reference,
 * or NULL: there is no memory. */
json_t *tool_json_text(const char *text);

/* The same of a text that does not end in NUL. */
json_t *tool_json_bytes(const void *bytes, size_t length);

#endif
