/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when an answer of a peer counts as late, and how often a peer with late answers is asked.
 *
 * An answer is late when its peer has said nothing of it for eight times as long as answers usually take, or sixteen
 * times as long as this node's own reads of storage. A body that has been announced may take longer, by its length:
 * as long as 1 Gbit/s takes for the bodies of all questions that one peer may have from all others. The asker of a
 * late answer turns to another node, and leaves the question open. A late answer counts in the average of how long
 * answers take. A peer whose answers were late is asked one question at a time until an answer comes in time. When
 * that answer is late too, the peer rests for sixteen times as long as the answer took, and twice as long after each
 * further one. So a slow peer costs its askers at most a sixteenth of their time, and a peer that was slow once is
 * asked again at once.
 *
 * This file knows no MPI, clock, thread or lock: times come in. */
#ifndef LMDBIO_MPI_ANSWER_PACE_H
#define LMDBIO_MPI_ANSWER_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds. */
#define PACE_LATE_LEAST UINT64_C(250000000)
#define PACE_LATE_MOST UINT64_C(1000000000)
#define PACE_REST_MOST UINT64_C(64000000000)
#define PACE_BYTE UINT64_C(8) /* of a body, at 1 Gbit/s */
#define PACE_BYTE_MOST UINT64_C(1000) /* which more than a hundred bodies share */

enum { PACE_USUALS = 8, PACE_READS = 16, PACE_RESTS = 16, PACE_AVERAGE = 16 };

struct pace_peer {
	unsigned open, late;	/* questions; of them those that are late */
	unsigned strikes;	/* rounds of late answers without one in time in between */
	uint64_t struck_at;	/* ns: when the last round began */
	uint64_t rests_until;	/* ns */
};

struct answer_pace {
	struct pace_peer *peers;
	unsigned window;	/* questions that one peer may have */
	uint64_t byte;		/* ns that a byte of a body may take, where a peer answers all that may ask it at once */
	uint64_t usual;		/* ns that answers take, at most PACE_LATE_MOST, moving average; 0: none has come */
	uint64_t read;		/* the same of this node's reads of storage; 0: not known, or of no matter */
};

enum pace_turn {
	PACE_ASK,
	PACE_WAIT, /* it has as many questions as a peer may have */
	PACE_PASS, /* it is slow: another node is to be asked */
};

/* Returns 0 or ENOMEM. */
int pace_open(struct answer_pace *pace, int peers, unsigned window);
void pace_close(struct answer_pace *pace);

/* How long nothing may be heard of an answer that is in time. */
uint64_t pace_patience(const struct answer_pace *pace);
/* Whether an answer is late that was heard of then, with so many bytes announced; 0: none yet. */
bool pace_is_late(const struct answer_pace *pace, uint64_t heard_at, uint64_t body, uint64_t now);
enum pace_turn pace_turn(const struct answer_pace *pace, int peer, uint64_t now);

void pace_asked(struct answer_pace *pace, int peer);
/* A question that began then has just become late. */
void pace_late(struct answer_pace *pace, int peer, uint64_t began, uint64_t now);
/* A read of storage has taken so many nanoseconds. */
void pace_read(struct answer_pace *pace, uint64_t took);
/* A question is over. `right`: it has brought its answer. */
void pace_ended(struct answer_pace *pace, int peer, uint64_t began, uint64_t now, bool late, bool right);

#endif
