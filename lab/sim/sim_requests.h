/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the requests of a job's strided readers to storage on today's Linux: a real job beside
 * it can count requests and bytes too, on any machine. */
#ifndef LMDBIO_LAB_SIM_REQUESTS_H
#define LMDBIO_LAB_SIM_REQUESTS_H

#include "sim_papers.h"
#include "sim_stride.h"

struct requests_job {
	uint32_t nodes, readers; /* readers: of a node */
	uint64_t records, record_bytes;
	uint64_t batch;       /* records of all readers together */
	uint64_t read_ahead;  /* bytes that the kernel reads ahead, at most */
	double latency, rate; /* of a request; bytes a second for all nodes together */
	double step;          /* seconds of a reader for a record of its own */
};

struct requests_count {
	double requests, bytes; /* of all nodes */
	double waits;           /* page faults that wait for storage, in ways with a map */
};

/* Returns NULL, or the fault as a phrase for users. */
const char *requests_complaint(const struct requests_job *job);

/* Returns 0, EINVAL or ENOMEM. */
int requests_count(const struct requests_job *job, enum papers_way way,
		   struct requests_count *count);

#endif
