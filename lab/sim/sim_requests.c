/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the requests of each way of LMDBIO's papers, and of lmdbio, on today's Linux. */
#include "sim_requests.h"

#include <errno.h>
#include <math.h>

enum {
	IN_LEAF = 2038,  /* a larger value stands in overflow pages: me_nodemax */
	VALUE_HEAD = 16, /* bytes in front of it */
	LEAF_ROOM = PAGES_SIZE - 16,
	LEAF_ENTRY = 26, /* head, key of 8 bytes, page number, and the entry's place */
	AROUND = 16,     /* fault_around_bytes: 64 KiB */
	CHUNK = 1 << 20, /* lmdbio's unit */
	READERS_MOST = 4096,
	PAGES_MOST = 1 << 26,
};

/* Readers whose requests all take the same time, and that all go on at once, go in step: they send a
 * fifth to a quarter fewer requests than real readers. */
#define SPREAD 0.5  /* of a request's latency */
#define LATE   1e-4 /* seconds */

static uint32_t value_pages(const struct requests_job *job)
{
	return (uint32_t)((job->record_bytes + VALUE_HEAD + PAGES_SIZE - 1) / PAGES_SIZE);
}

static struct stride stride_of(const struct requests_job *job, enum papers_way way)
{
	bool all = way == PAPERS_LMDB;
	struct stride stride = {
		.batch = job->batch,
		.batches = (uint32_t)(job->records / job->batch),
		.value_pages = value_pages(job),
		.leaf_records = LEAF_ROOM / LEAF_ENTRY,
		.readers = all ? job->nodes * job->readers : job->nodes,
		.here = all ? job->readers : 1,
		.way = way <= PAPERS_LMM  ? STRIDE_STEPS
		       : way == PAPERS_DM ? STRIDE_TOUCHES
					  : STRIDE_READS,
		.step = job->step,
	};

	if (way == PAPERS_COAL || way == PAPERS_STAG) {
		stride.batch *= stride.batches;
		stride.batches = 1;
	}
	stride.run = stride.batch / stride.readers;
	return stride;
}

const char *requests_complaint(const struct requests_job *job)
{
	if (!job->nodes || !job->readers || (uint64_t)job->nodes * job->readers > READERS_MOST)
		return "1 to 4096 readers can be counted";
	if (job->record_bytes <= IN_LEAF || job->record_bytes >> 32)
		return "records above 2038 bytes can be counted: smaller ones stand in leaf pages";
	if (job->batch < (uint64_t)job->nodes * job->readers || job->records < job->batch)
		return "a batch has a record for every reader, and a data set has a batch";
	if (job->records / job->batch > UINT32_MAX || job->records > PAGES_MOST / value_pages(job))
		return "256 GiB at most can be counted page by page";
	if (job->read_ahead < 2 * PAGES_SIZE || job->read_ahead > (uint64_t)PAGES_MOST)
		return "the kernel reads ahead 8 KiB to 64 MiB";
	if (job->rate <= 0)
		return "rates are above 0";
	return NULL;
}

static int by_pages(const struct requests_job *job, enum papers_way way, struct stride *stride,
		    struct requests_count *count)
{
	struct pages_kernel kernel = {
		.window = (uint32_t)(job->read_ahead / PAGES_SIZE),
		.around = AROUND,
		.fault = 1e-6,
		.latency = job->latency,
		.spread = SPREAD,
		.late = LATE,
		.rate = job->rate / job->nodes,
	};
	struct stride_result result;
	int rc = 0;

	for (uint32_t node = 0; !rc && node < job->nodes; node++) {
		stride->first = node * stride->here;
		stride->looks_first = way == PAPERS_DIO && !node;
		rc = stride_run(stride, &kernel, &result);
		count->requests += (double)result.requests;
		count->bytes += result.bytes;
		count->waits += (double)result.waits;
	}
	return rc;
}

int requests_count(const struct requests_job *job, enum papers_way way,
		   struct requests_count *count)
{
	struct stride stride;

	*count = (struct requests_count){0};
	if (requests_complaint(job))
		return EINVAL;
	stride = stride_of(job, way);
	if (way == PAPERS_OURS) {
		count->bytes = (double)stride_pages(&stride, job->records) * PAGES_SIZE;
		count->requests = ceil(count->bytes / CHUNK);
		return 0;
	}
	return by_pages(job, way, &stride, count);
}
