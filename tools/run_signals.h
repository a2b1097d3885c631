/* SPDX-License-Identifier: OLDAP-2.8 */
/* Passes signals on to a program whose parent waits for it, so that the two are one to a user. */
#ifndef LMDBIO_TOOLS_RUN_SIGNALS_H
#define LMDBIO_TOOLS_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/signalfd.h>
#include <sys/types.h>

/* The exit status of a command whose program a signal has ended: this and the signal's number. */
enum { EXIT_SIGNAL = 128 };

/* Signals that are sent to a command and mean its program, but those of the terminal's job control. */
#define RUN_SIGNALS_PASSED SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH

/* Blocks SIGCHLD and the signals that are meant for the program, and has a witness of those. Returns a
 * signalfd that has them, or -1 and errno. To be called before the program is forked. */
int run_signals_take(void);

/* In the forked program: what is blocked, and what the end of a child does, is as it was before
 * run_signals_take() or run_signals_witness(). */
void run_signals_give_back(void);

/* Lets the witness go. */
void run_signals_leave(void);

/* From now on the signals of the list, which ends with 0, are read from the descriptor that is
 * returned, as from a signalfd; but those that the caller ignores stay ignored. No thread needs to have
 * them blocked, so it is for a process whose threads began before. -1 and errno. One list a process. */
int run_signals_catch(const int *numbers);

/* The signals of run_signals_catch()'s list for a process that waits for a program: its witness. To be
 * called before the program is forked. */
void run_signals_witness(const int *numbers);

/* Sends the program what the sender has sent to this process and not to all of the process group, of
 * which the program is one if it has not left it. */
void run_signal_pass(pid_t program, const struct signalfd_siginfo *info);

/* Sends what the descriptor of run_signals_take() or run_signals_catch() has to `take`. */
void run_signals_each(int signals, void (*take)(void *context, const struct signalfd_siginfo *info),
		      void *context);

/* Waits for what run_signals_step() takes; ms: at most so long, or -1. */
void run_signals_wait(int signals, int ms);

/* Takes what the descriptor of run_signals_take() or run_signals_catch() has: passes signals on, and stops
 * with the program. true: the program has ended; *status: its exit status, or left as it is where the
 * kernel has not kept it. */
bool run_signals_step(int signals, pid_t program, int *status);

/* The program has stopped, as the user of the terminal wants: this process stops, too. */
void run_signal_stop(void);

/* The exit status of a program that has ended so, as waitpid() says: its own, or 128 and the number
 * of the signal. */
int run_signal_status(int status);

#endif
