/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes each number among the letters of a command line a word of its own. */
#include "convert_words.h"
#include "convert.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char with_argument[] = "TDo";

/* Returns whether a long option without "=" takes the next word. getopt also takes the beginning of
 * its name. */
static bool name_wants_word(const char *name)
{
	const struct tool_option *found = NULL;

	for (const struct tool_option *option = convert_tool.options; option->key; option++) {
		if (!option->name || strncmp(option->name, name, strlen(name)) != 0)
			continue;
		if (!found || !strcmp(option->name, name))
			found = option;
	}
	return found && found->argument && *found->argument != '[';
}

/* Returns whether the next word is this one's argument, and no letters. */
static bool wants_word(const char *word)
{
	const char *letter;

	if (word[0] != '-' || !word[1])
		return false;
	if (word[1] == '-')
		return name_wants_word(word + 2);
	letter = strpbrk(word, with_argument);
	return letter && !letter[1];
}

int words_split(int argc, char **argv, char ***result)
{
	bool is_argument = false;
	size_t room = (size_t)argc + 1, count = 0;
	static char **words; /* getopt returns pointers into them */

	for (int i = 1; i < argc; i++)
		room += 3 * strlen(argv[i]);
	words = malloc(room * sizeof(*words));
	if (!words)
		return -1;
	words[count++] = argv[0];
	for (int i = 1; i < argc; i++) {
		char *at = argv[i] + 1, *word;

		if (!is_argument && !strcmp(argv[i], "--")) {
			while (i < argc)
				words[count++] = argv[i++];
			break;
		}
		if (is_argument || argv[i][0] != '-' || !argv[i][1] || argv[i][1] == '-' ||
		    !strpbrk(argv[i], "0123456789")) {
			is_argument = !is_argument && wants_word(argv[i]);
			words[count++] = argv[i];
			continue;
		}
		is_argument = wants_word(argv[i]);
		while (*at) {
			size_t digits = strspn(at, "0123456789");
			int n = digits ? asprintf(&word, "--level=%.*s", (int)digits, at)
				: strchr(with_argument, *at) ? asprintf(&word, "-%s", at)
							     : asprintf(&word, "-%c", *at);

			if (n < 0)
				return -1;
			words[count++] = word;
			at += digits ? digits : strchr(with_argument, *at) ? strlen(at) : 1;
		}
	}
	words[count] = NULL;
	*result = words;
	return (int)count;
}
