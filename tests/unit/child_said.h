/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a test sees what the library says in a process of its own. */
#ifndef LMDBIO_TEST_CHILD_SAID_H
#define LMDBIO_TEST_CHILD_SAID_H

#include <stddef.h>

/* Runs `body` in a child whose standard error is collected in `said`; the child exits in the
 * ordinary way, so that the library's destructor runs. The environment is set before; it is read
 * once per process, so this one never asks for the settings itself. */
void child_run(void (*body)(void), char *said, size_t size);

/* A group's setup: no variable of lmdbio's is set. */
int child_environment_clear(void **state);

/* Ends of lines in a text. */
unsigned child_lines(const char *text);

#endif
