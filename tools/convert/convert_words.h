/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes apart the words of lmdbio-convert's command line that getopt does not know. */
#ifndef LMDBIO_TOOLS_CONVERT_WORDS_H
#define LMDBIO_TOOLS_CONVERT_WORDS_H

/* Levels stand among the letters, as zstd has them: "-19", "-f19k". getopt knows no letters of two
 * digits, so each such number becomes a word of its own: --level=19. Returns how many words there are, or -1:
 * there is no memory. *result is NULL-terminated and stays, because getopt gives pointers into it. */
int words_split(int argc, char **argv, char ***result);

#endif
