/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts from users and file systems into JSON. */
#include "tool_json.h"

#include "tool_common.h"

#include <string.h>

json_t *tool_json_bytes(const void *bytes, size_t length)
{
	char escaped[TOOL_ESCAPED_TEXT];
	json_t *json = json_stringn(bytes, length);

	return json ? json : json_string(tool_escape(bytes, length, escaped, sizeof(escaped)));
}

json_t *tool_json_text(const char *text)
{
	return text ? tool_json_bytes(text, strlen(text)) : json_null();
}
