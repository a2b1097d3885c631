/* SPDX-License-Identifier: OLDAP-2.8 */
/* Samples the processes that read through lmdbio on this node, and computes rates between two
 * samples. */
#ifndef LMDBIO_TOOLS_TOP_SAMPLE_H
#define LMDBIO_TOOLS_TOP_SAMPLE_H

#include "util/stats_table.h"

enum top_source { TOP_CACHE, TOP_OWN, TOP_OTHERS, TOP_MAP, TOP_SOURCES };

/* A process, or all of them. Rates are per second. */
struct top_row {
	int64_t pid;
	char program[STATS_PROGRAM];
	bool server, lives;
	double storage, values; /* bytes */
	double requests;
	double waited;               /* part of its reading threads' time, from 0 to 1 */
	uint64_t queue;              /* requests in flight now */
	uint64_t sets;               /* data sets open through lmdbio */
	double sources[TOP_SOURCES]; /* extents */
};

struct top_sample {
	struct top_row *rows;
	size_t count;
	size_t readers, servers; /* that live */
	struct top_row all;
	uint64_t budget, used; /* bytes of shared memory; 0: no process has requested a budget */
	unsigned others;       /* processes of another release, with unreadable counters */
};

struct top_sampler; /* the last sample */

/* Returns NULL without memory. */
struct top_sampler *top_sampler_open(void);
void top_sampler_close(struct top_sampler *sampler);

/* Takes a sample. Rates are those since the sampler's last sample. Of a process that was not in it,
 * and in the first sample, they are since the process opened its first data set. The rows stay
 * until the next sample. An ended process appears once more. Returns 0 or ENOMEM. */
int top_look(struct top_sampler *sampler, struct top_sample *sample);

#endif
