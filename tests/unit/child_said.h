/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a function in a child process and collects what the library writes to standard error. */
#ifndef LMDBIO_TEST_CHILD_SAID_H
#define LMDBIO_TEST_CHILD_SAID_H

#include <stddef.h>

/* Runs `body` in a child process and collects its standard error in `said`. The child exits in the
 * ordinary way, so that the library's destructor runs. Set the environment before the call. The
 * library reads it once per process, so the calling process must never ask for the settings
 * itself. */
void child_run(void (*body)(void), char *said, size_t size);

/* A group's setup function: unsets all of lmdbio's variables. */
int child_environment_clear(void **state);

/* Returns the number of line ends in a text. */
unsigned child_lines(const char *text);

#endif
