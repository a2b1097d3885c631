/* SPDX-License-Identifier: OLDAP-2.8 */
/* Names the workloads, and the fields of a job and of a result. */
#include "bench_job.h"

#include <string.h>

const char *const bench_work_names[WORKS] = {
	[WORK_SCAN] = "scan", [WORK_BACKWARD] = "backward", [WORK_STRIDE] = "stride",
	[WORK_KEYS] = "keys", [WORK_GET] = "get",           [WORK_BATCH] = "batch",
	[WORK_KEEP] = "keep", [WORK_OPEN] = "open",         [WORK_MAKE] = "make",
	[WORK_LOAD] = "load", [WORK_BEGIN] = "begin",       [WORK_LOOKUP] = "lookup",
	[WORK_PART] = "part", [WORK_GIVEN] = "given",       [WORK_TELL] = "tell",
	[WORK_TRAIN] = "train",
};

const struct field bench_job_fields[] = {
	{"work", offsetof(struct bench_job, work), FIELD_NUMBER},
	{"path", offsetof(struct bench_job, path), FIELD_TEXT},
	{"suffix", offsetof(struct bench_job, suffix), FIELD_TEXT},
	{"records", offsetof(struct bench_job, records), FIELD_NUMBER},
	{"value_size", offsetof(struct bench_job, value_size), FIELD_NUMBER},
	{"count", offsetof(struct bench_job, count), FIELD_NUMBER},
	{"batch", offsetof(struct bench_job, batch), FIELD_NUMBER},
	{"announce", offsetof(struct bench_job, announce), FIELD_NUMBER},
	{"step", offsetof(struct bench_job, step), FIELD_NUMBER},
	{"first", offsetof(struct bench_job, first), FIELD_NUMBER},
	{"touch", offsetof(struct bench_job, touch), FIELD_NUMBER},
	{"hash", offsetof(struct bench_job, hash), FIELD_NUMBER},
	{"nordahead", offsetof(struct bench_job, nordahead), FIELD_NUMBER},
	{"passes", offsetof(struct bench_job, passes), FIELD_NUMBER},
	{"repeat", offsetof(struct bench_job, repeat), FIELD_NUMBER},
	{"seed", offsetof(struct bench_job, seed), FIELD_NUMBER},
	{"busy", offsetof(struct bench_job, busy), FIELD_NUMBER},
	{"nice", offsetof(struct bench_job, nice), FIELD_NUMBER},
	{"flags", offsetof(struct bench_job, flags), FIELD_NUMBER},
	{"database", offsetof(struct bench_job, database), FIELD_TEXT},
	{"keys", offsetof(struct bench_job, keys), FIELD_NUMBER},
	{"deadline", offsetof(struct bench_job, deadline), FIELD_NUMBER},
	{"readers", offsetof(struct bench_job, readers), FIELD_NUMBER},
	{"compute", offsetof(struct bench_job, compute), FIELD_NUMBER},
	{"meeting", offsetof(struct bench_job, meeting), FIELD_NUMBER},
};
const size_t bench_job_n = sizeof(bench_job_fields) / sizeof(bench_job_fields[0]);

const struct field bench_result_fields[] = {
	{"begin", offsetof(struct bench_result, begin), FIELD_NUMBER},
	{"end", offsetof(struct bench_result, end), FIELD_NUMBER},
	{"closing", offsetof(struct bench_result, closing), FIELD_NUMBER},
	{"user", offsetof(struct bench_result, user), FIELD_NUMBER},
	{"system", offsetof(struct bench_result, system), FIELD_NUMBER},
	{"major", offsetof(struct bench_result, major), FIELD_NUMBER},
	{"minor", offsetof(struct bench_result, minor), FIELD_NUMBER},
	{"switches", offsetof(struct bench_result, switches), FIELD_NUMBER},
	{"rss", offsetof(struct bench_result, rss), FIELD_NUMBER},
	{"own", offsetof(struct bench_result, own), FIELD_NUMBER},
	{"records", offsetof(struct bench_result, records), FIELD_NUMBER},
	{"bytes", offsetof(struct bench_result, bytes), FIELD_NUMBER},
	{"sum", offsetof(struct bench_result, sum), FIELD_NUMBER},
	{"missing", offsetof(struct bench_result, missing), FIELD_NUMBER},
	{"stopped", offsetof(struct bench_result, stopped), FIELD_NUMBER},
	{"settled", offsetof(struct bench_result, settled), FIELD_NUMBER},
	{"early_records", offsetof(struct bench_result, early_records), FIELD_NUMBER},
	{"early_bytes", offsetof(struct bench_result, early_bytes), FIELD_NUMBER},
	{"fetched", offsetof(struct bench_result, fetched), FIELD_NUMBER},
	{"lmdbio_requests", offsetof(struct bench_result, lmdbio_requests), FIELD_NUMBER},
	{"lmdbio_bytes", offsetof(struct bench_result, lmdbio_bytes), FIELD_NUMBER},
	{"steps", offsetof(struct bench_result, steps), FIELD_NUMBER},
	{"waited", offsetof(struct bench_result, waited), FIELD_NUMBER},
	{"first_step", offsetof(struct bench_result, first_step), FIELD_NUMBER},
	{"last_step", offsetof(struct bench_result, last_step), FIELD_NUMBER},
	{"library", offsetof(struct bench_result, library), FIELD_TEXT},
	{"version", offsetof(struct bench_result, version), FIELD_TEXT},
};
const size_t bench_result_n = sizeof(bench_result_fields) / sizeof(bench_result_fields[0]);

enum bench_work bench_work_find(const char *name)
{
	int i;

	for (i = 0; i < WORKS; i++)
		if (!strcmp(bench_work_names[i], name))
			break;
	return (enum bench_work)i;
}
