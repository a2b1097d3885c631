/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes lmdbio's messages to people, on standard error alone. */
#ifndef LMDBIO_UTIL_LOG_H
#define LMDBIO_UTIL_LOG_H

#include <stddef.h>

/* Writes one line, "lmdbio: ...\n", in one write(2), so that lines of many processes do not mix.
 * For reports that a user asked for (LMDBIO_VERBOSE) and wrong settings. Keeps errno. */
void log_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes a line about a setting that a job does not get, which all its processes would write. Where
 * the launcher numbers processes, the first of each node writes it; with LMDBIO_VERBOSE each. */
void log_refused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes text as it is, if standard error is one, and not a file that has its number. A file that
 * may not grow, or a pipe that no process reads any more, loses the text: the program, which may
 * never write there itself, gets no SIGXFSZ and no SIGPIPE for it. errno may change. */
void log_bytes(const char *text, size_t length);

#endif
