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

/* Starts the witness of the signals in `set`; it ends with this process. Where none can be started,
 * run_witness_has() says so. */
void run_witness_begin(const sigset_t *set);

/* The pipe to poll for the witness's words, or -1. Call run_witness_hear() when it is readable, and
 * run_witness_settle() when no signal of this process is pending: a word that was heard before counts
 * for another tenth of a second, so that it cannot stand for a later signal. */
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
