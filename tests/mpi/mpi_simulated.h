/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stands in for MPI: the ranks of a job in one process and one thread, and a network that a test rules.
 *
 * A program with mpi_simulated.c in it links no MPI; mpi_sites.h makes single calls fail. A message of
 * at most SIM_EAGER bytes is sent when its send begins. A longer one is taken out of the sender's memory
 * when a receive for it is posted, which ends the send too. A call that would wait for ever ends the test. */
#ifndef LMDBIO_TEST_MPI_SIMULATED_H
#define LMDBIO_TEST_MPI_SIMULATED_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_EAGER = 8192, SIM_RANKS = 4, SIM_WORDS = 1 /* the tag of exchange_wire.c's words */ };

void sim_begin(int ranks);
/* What is still there: sends and receives that have not ended, messages that no rank has taken, datatypes
 * that were not freed. */
struct sim_left {
	unsigned sends, receives, messages, types;
};
struct sim_left sim_left(void);
/* What ranks have given up of the calls that they make together arrives, where all have made them. */
void sim_end(void);

/* The job's communicator as a rank sees it. */
MPI_Comm sim_comm(int rank);

/* Messages to a rank that are sent from now on, of words or of others, are late: no receive or probe meets
 * them. They come when the hold ends. */
void sim_hold(int to, bool words, bool held);
/* Messages from and to a rank are late, those under way too, until the cut ends; or the oldest n of them come. */
void sim_cut(int rank, bool cut);
void sim_pass(int rank, unsigned n);
/* The next message to a rank, a word or another, is lost; or comes with its last byte wrong. */
void sim_lose(int to, bool word);
void sim_damage(int to, bool word);
/* Messages that no rank takes any more are gone, and their sends end. */
void sim_drop(void);
/* A request that ends when all ranks have come. */
struct collective;
MPI_Request sim_request(MPI_Comm comm, struct collective *collective);
/* Each receive that a rank has posted, and for which no message is there, gets one of a single byte. */
void sim_answer(int rank);

#endif
