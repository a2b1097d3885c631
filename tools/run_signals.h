/* SPDX-License-Identifier: OLDAP-2.8 */
/* Passes signals on to a program from its waiting parent, so that users see the two as one. */
#ifndef LMDBIO_TOOLS_RUN_SIGNALS_H
#define LMDBIO_TOOLS_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

/* Added to a signal's number, the exit status of a command whose program that signal ended. */
enum { EXIT_SIGNAL = 128 };

/* Makes `set` the signals sent to a command that mean its program, except those of the terminal's
 * job control. A library of this process may have taken real-time signals: these are left out. */
void run_signals_passed(sigset_t *set);

/* Blocks SIGCHLD and the signals for the program, and starts a witness of the latter. Returns a
 * signalfd for all of them, or -1 and errno. Call this before the program is forked. */
int run_signals_take(void);

/* Restores, in the forked program, the blocked signals and SIGCHLD's action from before
 * run_signals_take() or run_signals_witness(). */
void run_signals_give_back(void);

/* Ends the witness. */
void run_signals_leave(void);

/* Makes the signals of the set readable from the returned descriptor, as from a signalfd; signals
 * that the caller ignores stay ignored. No thread needs to block them, so it suits a process whose
 * threads began before. Returns -1 and errno on failure. One set a process. */
int run_signals_catch(const sigset_t *set);

/* Starts a witness of run_signals_catch()'s set in a process that waits for a program. Call this
 * before the program is forked. */
void run_signals_witness(const sigset_t *set);

/* Passes a signal to the program, unless the sender sent it to the whole process group, or a later
 * signal revokes it. The program is in that group if it has not left it. */
void run_signal_pass(pid_t program, const struct signalfd_siginfo *info);

/* Calls `take` for each signal from the descriptor of run_signals_take() or run_signals_catch(). */
void run_signals_each(int signals, void (*take)(void *context, const struct signalfd_siginfo *info),
		      void *context);

/* Waits for signals for run_signals_step(); at most `ms` milliseconds, or without a bound if -1. */
void run_signals_wait(int signals, int ms);

/* Takes the signals of the descriptor of run_signals_take() or run_signals_catch(): passes them on,
 * and stops with the program. Returns true if the program has ended. *status becomes its exit
 * status, or is left alone if the kernel has not kept it. */
bool run_signals_step(int signals, pid_t program, int *status);

/* Stops this process, after the terminal's user has stopped the program. */
void run_signal_stop(void);

/* Returns the exit status for a status of waitpid(): the program's own, or 128 plus the number of
 * the signal. */
int run_signal_status(int status);

#endif
