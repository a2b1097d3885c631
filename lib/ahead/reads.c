/* SPDX-License-Identifier: OLDAP-2.8 */
/* Changes the number of reads at once in one direction as long as they come faster, and turns
 * around when they come slower. Tells how many bytes between two extents are worth reading to save
 * a request. */
#include "ahead/reads.h"

#include "util/clock.h"

enum {
	READ_SMALL = 64 << 10, /* bytes: a longer read is not mostly latency */
	DEPTH_LEAST = 2,
	TRIAL_READS = 8, /* reads of a trial, besides twice the depth */
	AVERAGE = 8,     /* reads or trials of a moving average */
	FASTER = 20,     /* by one part in so many: a reason to go on the same way */
	SLOWER = 10,     /* ... and to turn around */
};

static uint64_t average(uint64_t before, uint64_t now)
{
	return before ? (before * (AVERAGE - 1) + now) / AVERAGE : now;
}

unsigned depth_fit(uint64_t memory, uint64_t each, unsigned least, unsigned most)
{
	uint64_t fit = memory / each;

	return fit < least ? least : fit < most ? (unsigned)fit : most;
}

void depth_note(struct depth *depth, uint64_t bytes, uint64_t ns, uint64_t now, unsigned most)
{
	struct depth_trial *trial = &depth->trial;
	uint64_t rate;
	bool slower;

	if (bytes <= READ_SMALL)
		depth->latency = average(depth->latency, ns);
	trial->bytes += bytes;
	if (!trial->since)
		trial->since = now;
	if (++trial->reads < TRIAL_READS + 2 * depth->now || now <= trial->since)
		return;
	rate = (uint64_t)((unsigned __int128)trial->bytes * CLOCK_SECOND / (now - trial->since));
	depth->rate = average(depth->rate, rate);
	/* The last change was wrong, whichever way it went; or storage is slower by itself, and the
	 * way back is one trial long. */
	slower = rate < trial->last - trial->last / SLOWER;
	if (slower)
		trial->fewer = !trial->fewer;
	if (slower || rate > trial->last + trial->last / FASTER) {
		depth->now = trial->fewer ? depth->now - (depth->now < 4 ? 1 : depth->now / 4)
					  : depth->now + depth->now / 2 + 1;
		trial->last = rate;
	}
	if (depth->now < DEPTH_LEAST)
		depth->now = DEPTH_LEAST;
	if (depth->now > most && most)
		depth->now = most;
	depth_pause(depth);
	trial->since = now;
}

void depth_pause(struct depth *depth)
{
	depth->trial.since = depth->trial.bytes = depth->trial.reads = 0;
}

/* One more request costs its share of the latency, with the others in flight; more bytes cost the
 * time to read them. The measured storage decides between `least` and `most`. */
static const struct gap_rule {
	uint64_t least, most; /* bytes */
	uint64_t unmeasured;  /* while storage is not measured */
} rules[GAPS] = {
	/* The bytes between belong to another run, and pages of the tree were read before. */
	[GAP_RUN] = {0, 0, 0},
	/* A page at most: nothing between is likely to be wanted. */
	[GAP_KEYS] = {4 << 10, 4 << 10, 4 << 10},
	/* The same in each run of a program, so that requests can be counted. */
	[GAP_STREAM] = {32 << 10, 32 << 10, 32 << 10},
	[GAP_ROUND] = {8 << 10, 128 << 10, 64 << 10},
	/* All gaps of one pass around the file are together less than the file. */
	[GAP_SWEEP] = {32 << 10, 128 << 10, 64 << 10},
};

uint64_t gap_bytes(enum gap_of want, const struct depth *depth)
{
	const struct gap_rule *rule = &rules[want];
	uint64_t gap;

	if (!depth || !depth->latency || !depth->rate)
		return rule->unmeasured;
	gap = (uint64_t)((unsigned __int128)depth->latency * depth->rate / CLOCK_SECOND) /
	      depth->now;
	return gap < rule->least ? rule->least : gap > rule->most ? rule->most : gap;
}
