/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates MPI: the ranks of a job in one process and one thread, and a network that a test
 * controls.
 *
 * A program with mpi_simulated.c in it links no MPI; mpi_sites.h makes single calls fail. A message
 * of at most SIM_EAGER bytes is sent when its send begins. A longer one is taken out of the
 * sender's memory when a receive for it is posted, which ends the send too. A call that would wait
 * for ever ends the test.
 */
#ifndef LMDBIO_TEST_MPI_SIMULATED_H
#define LMDBIO_TEST_MPI_SIMULATED_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_EAGER = 8192, SIM_RANKS = 4, SIM_WORDS = 1 /* the tag of exchange_wire.c's words */ };

void sim_begin(int ranks);
/* Counts what is left: sends and receives that have not ended, messages that no rank has taken,
 * datatypes that were not freed. */
struct sim_left {
	unsigned sends, receives, messages, types;
};
struct sim_left sim_left(void);
/* Completes collective calls that ranks have given up, if all ranks have made them. */
void sim_end(void);

/* Returns the job's communicator as a rank sees it. */
MPI_Comm sim_comm(int rank);

/* Holds back messages to a rank that are sent from now on, words or other messages: no receive or
 * probe gets them until the hold ends. */
void sim_hold(int to, bool words, bool held);
/* sim_cut() holds back messages from and to a rank until the cut ends, including those on their
 * way. sim_pass() delivers the oldest n of them. */
void sim_cut(int rank, bool cut);
void sim_pass(int rank, unsigned n);
/* sim_lose() drops the next message to a rank, a word or another; sim_damage() changes its last
 * byte. */
void sim_lose(int to, bool word);
void sim_damage(int to, bool word);
/* Drops messages that no rank takes any more, and ends their sends. */
void sim_drop(void);
/* Returns a request that ends when all ranks have arrived. */
struct collective;
MPI_Request sim_request(MPI_Comm comm, struct collective *collective);
/* Sends a message of a single byte to each receive that a rank has posted and that has no
 * message. */
void sim_answer(int rank);

#endif
