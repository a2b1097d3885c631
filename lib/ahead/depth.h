/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how many reads are in flight at once, from the memory for reads in flight and the measured
 * rate. */
#ifndef LMDBIO_AHEAD_DEPTH_H
#define LMDBIO_AHEAD_DEPTH_H

#include <stdbool.h>
#include <stdint.h>

/* Under its owner's lock. Begins as {.now = reads at once}. */
struct depth {
	unsigned now;     /* reads at once */
	uint64_t latency; /* nanoseconds of small reads, moving average; 0: not known */
	uint64_t rate;    /* bytes a second of all reads together, moving average; 0: not known */
	struct depth_trial {
		uint64_t bytes, since, last; /* `last`: the rate at the last change */
		unsigned reads;
		bool fewer; /* the last change was to fewer reads */
	} trial;
};

/* Reads at once of which each has `each` bytes on their way, in memory of so many bytes: from
 * `least` to `most`. */
unsigned depth_fit(uint64_t memory, uint64_t each, unsigned least, unsigned most);

/* A read of so many bytes has taken so many nanoseconds until `now` (clock_now()). After some reads
 * at one depth the next one follows from their rate; at most `most`. */
void depth_note(struct depth *depth, uint64_t bytes, uint64_t ns, uint64_t now, unsigned most);

/* Nothing is to be read: the time until the next read tells nothing of storage. */
void depth_pause(struct depth *depth);

#endif
