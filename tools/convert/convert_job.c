/* SPDX-License-Identifier: OLDAP-2.8 */
/* Recognises a launcher, and makes all ranks agree on an answer. */
#include "convert_job.h"

#include "launcher.h"
#include "tool_place.h"

#include "origin/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct convert_job {
	const struct mpi_module *module;
	struct mpi_place place;
	bool apart;
};

/* Returns whether MPICH's launcher, or Slurm's for MPICH, started more than one process; one
 * process shares nothing. Below another MPI process, as lmdbio-run's, that process has the
 * connection to the launcher, and the environment no longer does. */
static bool is_launched(void)
{
	static const char *const connections[] = {"PMI_FD", "PMI_PORT", "SLURM_PMI_FD"};
	const char *ranks = getenv("PMI_SIZE");

	for (size_t i = 0; i < sizeof(connections) / sizeof(connections[0]); i++)
		if (getenv(connections[i]))
			return ranks && strtoul(ranks, NULL, 10) > 1;
	return false;
}

int job_begin(struct convert *convert, bool threads_given)
{
	static const struct mpi_place alone = {.ranks = 1, .nodes = 1, .node_ranks = 1};
	struct convert_job *job;
	unsigned cores = convert->threads;

	if (!is_launched()) {
		tool_place_tasks(convert_tool.name, &alone);
		return 0;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		launcher_greet(); /* the other ranks would wait for this one */
		return convert_fail("MPI", ENOMEM);
	}
	job->module = tool_place_begin(convert_tool.name, &job->place);
	if (!job->module) {
		free(job);
		return TOOL_FAILED;
	}
	convert->job = job;
	if (!threads_given) {
		convert->threads = cores / (unsigned)job->place.node_ranks;
		if (!convert->threads)
			convert->threads = 1;
	}
	if (job->place.rank)
		convert->progress.mode = PROGRESS_NEVER;
	return 0;
}

bool job_apart(const struct convert *convert, bool apart)
{
	bool before = convert->job && convert->job->apart;

	if (convert->job)
		convert->job->apart = apart;
	return before;
}

static bool is_together(const struct convert *convert)
{
	return convert->job && !convert->job->apart;
}

int job_end(const struct convert *convert, int status)
{
	struct convert_job *job = convert->job;
	int rc = job ? tool_place_end(job->module, convert_tool.name) : 0;

	free(job);
	return rc && !status ? convert_refuse("MPI", "it could not be ended") : status;
}

struct mpi_place job_place(const struct convert *convert)
{
	return is_together(convert) ? convert->job->place
				    : (struct mpi_place){.ranks = 1, .nodes = 1, .node_ranks = 1};
}

bool job_leads(const struct convert *convert)
{
	return !convert->job || !convert->job->place.rank;
}

const struct mpi_sharing *job_sharing(const struct convert *convert)
{
	return is_together(convert) ? convert->job->module->sharing : NULL;
}

int job_agree(const struct convert *convert, int status)
{
	return is_together(convert) ? convert->job->module->sharing->agree(status) : status;
}

static int job_fail(int rc)
{
	return rc ? convert_refuse("MPI", "%s", lmdbio_orig_mdb_strerror(rc)) : 0;
}

int job_tell(const struct convert *convert, void *bytes, size_t length)
{
	return is_together(convert)
		       ? job_fail(convert->job->module->sharing->tell(bytes, length))
		       : 0;
}

int job_sum(const struct convert *convert, uint64_t *value)
{
	uint64_t before;

	return is_together(convert)
		       ? job_fail(convert->job->module->sharing->place(*value, &before, value))
		       : 0;
}

int job_same_source(const struct convert *convert, const struct source *source, bool *same)
{
	struct {
		struct container_source identity;
		uint64_t size;
	} ours, first;
	uint64_t different;
	int rc;

	memset(&ours, 0, sizeof(ours));
	ours.identity.txnid = source->identity.txnid;
	ours.identity.size = source->identity.size;
	memcpy(ours.identity.hash, source->identity.hash, sizeof(ours.identity.hash));
	ours.size = source->size;
	first = ours;
	rc = job_tell(convert, &first, sizeof(first));
	different = memcmp(&ours, &first, sizeof(ours)) != 0;
	if (!rc)
		rc = job_sum(convert, &different);
	*same = !different;
	return rc;
}

int job_gather(const struct convert *convert)
{
	return convert->job ? job_fail(convert->job->module->gather()) : 0;
}
