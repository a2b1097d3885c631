/* SPDX-License-Identifier: OLDAP-2.8 */
/* Puts texts that people and file systems have made into JSON. */
#include "tool_json.h"

#include "tool_common.h"

#include <string.h>

json_t *tool_json_text(const char *text)
{
	char escaped[TOOL_ESCAPED_TEXT];
	json_t *json = text ? json_string(text) : json_null();

	return json ? json : json_string(tool_escape(text, strlen(text), escaped, sizeof(escaped)));
}
