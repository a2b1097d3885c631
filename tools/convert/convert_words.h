/* SPDX-License-Identifier: OLDAP-2.8 */
/* Splits words of lmdbio-convert's command line that getopt does not understand. */
#ifndef LMDBIO_TOOLS_CONVERT_WORDS_H
#define LMDBIO_TOOLS_CONVERT_WORDS_H

/* Splits levels among the letters, as in zstd: "-19", "-f19k". getopt knows no letters of two
 * digits, so each number becomes a word: --level=19. Returns the number of words, or -1 without
 * memory. *result is NULL-terminated and stays: getopt returns pointers into it. */
int words_split(int argc, char **argv, char ***result);

#endif
