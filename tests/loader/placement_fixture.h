/* SPDX-License-Identifier: OLDAP-2.8 */
/* Plans that tests make. */
#ifndef LMDBIO_TESTS_PLAN_FIXTURE_H
#define LMDBIO_TESTS_PLAN_FIXTURE_H

#include "loader/placement.h"

enum { NODES_MOST = 64 };

struct made {
	struct placement_spec spec;
	struct placement *plan;
	uint64_t room[NODES_MOST * PLACEMENT_TIERS_MOST];
};

/* Makes the plan of made->spec, with its gaps filled in: of units of 1,000 bytes, one record each.
 */
void made_by(struct made *made, const struct order_spec *order, uint32_t nodes);

/* The same of a shuffled order, with so many bytes of room on each node. */
void made_shuffled(struct made *made, uint64_t records, uint32_t nodes, uint64_t room);

/* How often each node reads each unit: [unit * nodes + node]. The caller's to free. */
unsigned *made_reads(const struct made *made);

/* The sums over a plan. */
struct made_totals {
	uint64_t units, bytes;            /* of the data set */
	uint64_t kept;                    /* units with a copy somewhere */
	uint64_t copies, copies_bytes;    /* all copies, the first ones too */
	uint64_t reads, local, elsewhere; /* records of units over the epochs: all; with a copy on
					     the reader's node; on other nodes only */
};
struct made_totals made_total(const struct made *made);

#endif
