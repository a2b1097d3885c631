/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells signals that the whole process group has been sent from those for one process.
 *
 * A program that lmdbio-run waits for is of its process group: what the group is sent, by a terminal or
 * by kill(2), has reached both, and only what lmdbio-run alone was sent is to be passed on. The kernel
 * tells a receiver which of the two it was for its own signals only. So a second child, which does
 * nothing but take signals, is a witness: what it has had as well was for all.
 */
#ifndef LMDBIO_TOOLS_RUN_WITNESS_H
#define LMDBIO_TOOLS_RUN_WITNESS_H

#include <signal.h>
#include <stdbool.h>

/* Starts the witness of the signals in `set`; it ends with this process. Returns 0 or an errno: there
 * is none. */
int run_witness_begin(const sigset_t *set);

/* What the witness says is read from there, by run_witness_hear(); -1: there is none. A word of a
 * signal that this process has not been sent must be heard as it comes: run_witness_settle() says that
 * this process has no signal pending, and the words before count for a tenth of a second more. */
int run_witness_words(void);
void run_witness_hear(void);
void run_witness_settle(void);

/* Whether the witness has had a signal that this process has just taken; waits a tenth of a second
 * for it, because a sender that goes from process to process may be underway. *there: there is a
 * witness. */
bool run_witness_has(int number, bool *there);

/* Ends it. */
void run_witness_end(void);

#endif
