/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives each number among the letters of a command line a word of its own. */
#include "convert_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int words_split(int argc, char **argv, char ***result)
{
	static const char with_argument[] = "TDo";
	size_t room = (size_t)argc + 1, count = 0;
	static char **words; /* getopt gives pointers into them */

	for (int i = 1; i < argc; i++)
		room += 3 * strlen(argv[i]);
	words = malloc(room * sizeof(*words));
	if (!words)
		return -1;
	words[count++] = argv[0];
	for (int i = 1; i < argc; i++) {
		char *at = argv[i] + 1, *word;

		if (!strcmp(argv[i], "--")) {
			while (i < argc)
				words[count++] = argv[i++];
			break;
		}
		if (argv[i][0] != '-' || !argv[i][1] || argv[i][1] == '-' ||
		    !strpbrk(argv[i], "0123456789")) {
			words[count++] = argv[i];
			continue;
		}
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
