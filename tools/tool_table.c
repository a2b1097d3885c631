/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints a command's table of options for tools/options.awk, which makes its manual's list of
 * options and its completion in bash, zsh and fish of it.
 *
 * A line is a word and fields, separated by tabs:
 *
 *   command NAME
 *   in-order               options end at the first operand
 *   synopsis LINE          of the usage
 *   option LETTER NAME ARGUMENT HELP
 */
#include "tool_common.h"

#include <stdio.h>
#include <string.h>

static void option_print(const struct tool_option *option)
{
	char letter[2] = {option->key < TOOL_HELP ? (char)option->key : 0};

	if (option->help)
		printf("option\t%s\t%s\t%s\t%s\n", letter, option->name ? option->name : "",
		       option->argument ? option->argument : "", option->help);
}

void tool_table(const struct tool *tool)
{
	const char *line = tool->synopsis;

	printf("command\t%s\n%s", tool->name, tool->in_order ? "in-order\n" : "");
	while (line) {
		size_t length = strcspn(line, "\n");

		printf("synopsis\t%.*s\n", (int)length, line);
		line = line[length] ? line + length + 1 : NULL;
	}
	for (const struct tool_option *option = tool->options; option->key; option++)
		option_print(option);
	for (const struct tool_option *option = tool_common_options; option->key; option++)
		option_print(option);
}
