/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the requests of strided readers of a mapped LMDB file to storage.
 *
 * The readers of a job read the records in order, batch by batch. Each uses its own records of a
 * batch and steps over the others'. A step touches the leaf page, which holds keys and page
 * numbers; a used record touches its value's pages too. A value stands behind the leaf page that
 * names it.
 */
#ifndef LMDBIO_LAB_SIM_STRIDE_H
#define LMDBIO_LAB_SIM_STRIDE_H

#include "sim_pages.h"

struct stride {
	uint64_t batch; /* records of all readers together */
	uint64_t run;   /* records in a row that one reader uses; at most batch / readers */
	uint32_t batches;
	uint32_t value_pages;  /* a value takes whole pages, as LMDB stores values above 2 KB */
	uint32_t leaf_records; /* records that one leaf page names */
	uint32_t readers;      /* of the job */
	uint32_t here;         /* readers on this node */
	uint32_t first;        /* the first reader of this node */
	enum {
		STRIDE_STEPS,   /* steps over the other readers' records */
		STRIDE_TOUCHES, /* knows its places, and touches them in the map */
		STRIDE_READS,   /* knows its places, and reads its part of a batch at once */
	} way;
	bool looks_first; /* the first reader steps over everything before it begins */
	double step;      /* seconds for a record that is in memory and mapped */
};

struct stride_result {
	double seconds; /* of the slowest reader of the node */
	double bytes;   /* from storage, of this node */
	uint64_t requests, faults, waits;
	uint64_t records; /* used on this node */
};

/* Returns the pages of a file of `records` records, its two meta pages included. */
uint64_t stride_pages(const struct stride *stride, uint64_t records);

/* Returns 0, EINVAL (an impossible job) or ENOMEM. */
int stride_run(const struct stride *stride, const struct pages_kernel *kernel,
	       struct stride_result *result);

#endif
