/* SPDX-License-Identifier: OLDAP-2.8 */
/* Looks at the processes that read through lmdbio on this node, and works out rates between two
 * looks. */
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
	double waited;               /* of the time that its reading threads had, from 0 to 1 */
	uint64_t queue;              /* requests in flight now */
	uint64_t sets;               /* data sets that it has open through lmdbio */
	double sources[TOP_SOURCES]; /* extents */
};

struct top_sample {
	struct top_row *rows;
	size_t count;
	size_t readers, servers; /* that live */
	struct top_row all;
	uint64_t budget, used; /* bytes of shared memory; 0: no process has asked for a budget */
	unsigned others;       /* processes of another release, which cannot be read */
};

struct top_sampler; /* what was seen last */

/* NULL: no memory. */
struct top_sampler *top_sampler_open(void);
void top_sampler_close(struct top_sampler *sampler);

/* Rates are those since the sampler's last look, and of a process that it had not seen then, and on
 * its first look, since the process opened its first data set. The rows stay until the next look.
 * A process that has ended is in the sample once more. Returns 0 or ENOMEM. */
int top_look(struct top_sampler *sampler, struct top_sample *sample);

#endif
