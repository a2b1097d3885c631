/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells signals to the whole process group from those to one process.
 *
 * A program that lmdbio-run waits for is in its process group. A signal to the group, from a
 * terminal or kill(2), has reached both; only a signal to lmdbio-run alone must be passed on. The
 * kernel does not tell a receiver which of the two it got. So a second child, which only receives
 * signals, is a witness: a signal that reached the witness as well was for the group.
 */
#ifndef LMDBIO_TOOLS_RUN_WITNESS_H
#define LMDBIO_TOOLS_RUN_WITNESS_H

#include <signal.h>
#include <stdbool.h>

/* Starts the witness of the signals in `set`; it ends with this process. If it cannot start,
 * run_witness_has() says so. */
void run_witness_begin(const sigset_t *set);

/* Returns the pipe to poll for the witness's words, or -1. Call run_witness_hear() when it is
 * readable. Call run_witness_settle() when no signal of this process is pending: then an old word
 * counts for another tenth of a second, so that it cannot stand for a later signal. */
int run_witness_words(void);
void run_witness_hear(void);
void run_witness_settle(void);

/* Returns whether the witness got a signal that this process has just taken. Waits a tenth of a
 * second for it: a sender may go from process to process. *there: whether there is a witness. */
bool run_witness_has(int number, bool *there);

/* Continues a witness that is stopped, after this process has been continued. Signals that a stopped
 * witness got count at once. */
void run_witness_continue(void);

/* Ends the witness. */
void run_witness_end(void);

#endif
