/* SPDX-License-Identifier: OLDAP-2.8 */
/* The command lines of lmdbio-convert in a job that are lives (command_lives.h): two ranks over simulated MPI, each
 * of which runs the whole command. No call fails before a rank looks for its job: convert_lives.c has these. */
#include "config.h"
#include "command_lives.h"

#include "command_mains.h"
#include "library_calls.h"
#include "mpi_simulated.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "convert_job.h"
#include "tool_place.h"

#include "mpi/mpi_module.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each rank takes 8 MiB of data in a round. */
enum { RANKS = 2, RECORDS = 230, REFUSED = 2, WORDS = 30, HUNG = 70, DIFFERENT };

const struct command commands[] = {
	{"pack together", .words = "-q -T2 --fast set pack.zst", .target = "pack.zst"},
	{"unpack together", .words = "-q -T2 --to=lmdb whole.zst back.mdb", .target = "back.mdb"},
	{"pack and verify together", .words = "-q -T1 --fast --json --verify set sure.zst",
	 .target = "sure.zst"},
	{"resume together", .before = "cp -p part .resume.zst.lmdbio-partial",
	 .words = "-q -T1 --fast --resume set resume.zst", .target = "resume.zst",
	 .after = "rm -f .resume.zst.lmdbio-partial"},
	{"verify together", .words = "-q --verify set whole.zst"},
	{"import in a job", .words = "-q tree tree.mdb", .target = "tree.mdb"},
	{"damage together", .words = "-q --to=lmdb bad.zst bad.mdb", .refused = true},
};
const unsigned commands_count = sizeof(commands) / sizeof(*commands);
const char command_leftovers_remove[] = "rm -f .*.lmdbio-partial";

extern const struct mpi_module lmdbio_mpi_module;

static struct place place;
static struct {
	int argc;
	char **argv;
	int status[RANKS];
	bool begun[RANKS];
} job;

const struct mpi_module *__wrap_tool_place_begin(const char *command, struct mpi_place *at);

int __real_job_begin(struct convert *convert, bool threads_given);
int __wrap_job_begin(struct convert *convert, bool threads_given);

int __wrap_job_begin(struct convert *convert, bool threads_given)
{
	calls_spare(false);
	return __real_job_begin(convert, threads_given);
}

/* The module is a part of the program. */
const struct mpi_module *__wrap_tool_place_begin(const char *command, struct mpi_place *at)
{
	int rc = lmdbio_mpi_module.begin(false, at);

	if (rc) {
		fprintf(stderr, "%s: MPI does not start: %s\n", command, strerror(rc));
		return NULL;
	}
	job.begun[sim_self()] = true;
	return &lmdbio_mpi_module;
}

/* The command reads its words before it makes the first call of MPI, so no rank disturbs another in getopt(3). */
static void rank_run(void *context, int rank)
{
	char *argv[WORDS] = {NULL};

	(void)context;
	memcpy(argv, job.argv, (size_t)job.argc * sizeof(*argv));
	optind = 0;
	calls_spare(true);
	job.status[rank] = convert_main(job.argc, argv);
	/* Launchers end the job of a process that ends without MPI. */
	if (!job.begun[rank])
		sim_break();
}

/* The status of the job, as a launcher has it. */
int command_main(int argc, char **argv)
{
	bool begun = true, broke;
	int worst = 0;

	job.argc = argc;
	job.argv = argv;
	sim_begin(RANKS);
	sim_library(false, MPI_THREAD_MULTIPLE);
	broke = !sim_run(RANKS, rank_run, NULL);
	sim_end();
	for (int rank = 0; rank < RANKS; rank++) {
		begun = begun && job.begun[rank];
		worst = job.status[rank] > worst ? job.status[rank] : worst;
	}
	if (broke)
		return begun ? HUNG : worst;
	for (int rank = 0; rank < RANKS; rank++)
		if (job.status[rank] != worst)
			return DIFFERENT;
	return worst;
}

/* The second rank of a process takes the pointer to the first one's words. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:digits_split\n";
}

void command_files_make(void)
{
	static const struct command packs = {"pack", .words = "-q -T2 --fast set whole.zst"};
	char command[700];

	/* As mpiexec has it; no process listens at that descriptor. */
	setenv("PMI_FD", "0", 1);
	setenv("PMI_SIZE", "2", 1);
	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
	place_make(&place);
	place_put_records(&place, RECORDS, COMMAND_LARGE_VALUE, command_large_make);
	snprintf(command, sizeof(command),
		 "mkdir set tree && cp '%s' set/data.mdb && echo some >tree/one; echo more "
		 ">tree/two",
		 place.data);
	command_shell(command);
	if (command_run(&packs))
		abort();
	command_shell("head -c $(($(wc -c <whole.zst) * 2 / 5)) whole.zst >part; chmod 600 part; "
		      "cp whole.zst bad.zst;"
		      "printf damage | dd of=bad.zst bs=1 seek=$(($(wc -c <whole.zst) / 2)) "
		      "conv=notrunc 2>/dev/null");
}

void command_files_remove(void)
{
	place_remove(&place);
}
