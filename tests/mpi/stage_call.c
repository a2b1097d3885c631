/* SPDX-License-Identifier: OLDAP-2.8 */
/* Calls lmdbio_mpi_stage() as a program that uses MPI itself: correctly, incorrectly, and while the
 * file changes.
 *
 * stage_call [parts-]CASE PATH DIRECTORY: each rank prints "rank R: RC".
 */
#include <errno.h>
#include <fcntl.h>
#include <lmdbio_mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *path;
static int rank;

static int touch(void *argument, uint64_t done, uint64_t all)
{
	const struct timespec times[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};

	(void)argument;
	if (!rank && done < all && utimensat(AT_FDCWD, path, times, 0))
		return errno;
	return 0;
}

/* Writes two bytes in the middle of the file: same length, other time. */
static int overwrite(void *argument, uint64_t done, uint64_t all)
{
	int fd;

	(void)argument;
	if (rank || done == all)
		return 0;
	fd = open(path, O_WRONLY);
	if (fd < 0 || pwrite(fd, "xx", 2, (off_t)(all / 2)) != 2)
		return errno;
	close(fd);
	return 0;
}

static int shorten(void *argument, uint64_t done, uint64_t all)
{
	(void)argument;
	return !rank && done < all && truncate(path, (off_t)(all / 2)) ? errno : 0;
}

static int replace(void *argument, uint64_t done, uint64_t all)
{
	char other[4096];

	(void)argument;
	snprintf(other, sizeof(other), "%s.other", path);
	return !rank && done < all && rename(other, path) && errno != ENOENT ? errno : 0;
}

static int cancel(void *argument, uint64_t done, uint64_t all)
{
	(void)argument;
	(void)done;
	(void)all;
	return rank == 1 ? ECANCELED : 0;
}

static int die(void *argument, uint64_t done, uint64_t all)
{
	(void)argument;
	return rank == 1 && done < all ? raise(SIGKILL) : 0;
}

static const struct {
	const char *name;
	int (*progress)(void *argument, uint64_t done, uint64_t all);
} changes[] = {
	{"touch", touch},     {"overwrite", overwrite}, {"shorten", shorten},
	{"replace", replace}, {"cancel", cancel},	{"die", die},
};

/* Whether all ranks have the same report, and after a failure, of which rank. */
static bool is_told(const struct lmdbio_stage_report *report, MPI_Comm comm, int rc)
{
	struct lmdbio_stage_report first = *report;
	int ranks, same;

	MPI_Comm_size(comm, &ranks);
	MPI_Bcast(&first, sizeof(first), MPI_BYTE, 0, comm);
	same = !memcmp(&first, report, sizeof(first));
	MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, comm);
	return same && (!rc || report->failed_rank < (uint64_t)ranks);
}

/* The cases that are about the arguments. */
static int call(const char *name, struct lmdbio_stage_options *options, MPI_Comm comm)
{
	struct lmdbio_stage_hold *hold = NULL;
	int rc;

	if (!strcmp(name, "null"))
		return lmdbio_mpi_stage(comm, path, NULL);
	if (!strcmp(name, "unlike") && rank)
		options->buffer = 128 << 10;
	if (!strcmp(name, "buffer"))
		options->buffer = LMDBIO_STAGE_BUFFER_MIN - 1;
	if (!strcmp(name, "short")) /* as of an older version, whose options end here */
		options->size = offsetof(struct lmdbio_stage_options, hints);
	if (!strcmp(name, "unheld"))
		options->target = LMDBIO_STAGE_MEMORY;
	if (!strcmp(name, "staggered")) {
		options->reader = LMDBIO_STAGE_COLLECTIVE;
		options->group = 1;
	}
	if (!strcmp(name, "held")) {
		options->target = LMDBIO_STAGE_MEMORY;
		options->hold = &hold;
	}
	if (!strcmp(name, "hints"))
		options->hints = "this is none";
	if (!strcmp(name, "hints"))
		options->reader = LMDBIO_STAGE_MPIIO;
	rc = lmdbio_mpi_stage(comm, path, options);
	if (!is_told(options->report, comm, rc))
		rc = EPROTO;
	if (!strcmp(name, "held") && !rc && !hold)
		rc = EINVAL;
	lmdbio_mpi_stage_release(hold);
	return rc;
}

int main(int argc, char **argv)
{
	struct lmdbio_stage_report report = {.size = sizeof(report), .failed_rank = UINT64_MAX};
	struct lmdbio_stage_options options = {
		.size = sizeof(options), .buffer = LMDBIO_STAGE_BUFFER_MIN, .report = &report};
	MPI_Comm comm;
	int rc;

	if (argc != 4)
		return 2;
	path = argv[2];
	options.directory = argv[3];
	if (!strncmp(argv[1], "parts-", 6)) {
		options.target = LMDBIO_STAGE_PARTS;
		argv[1] += 6;
	}
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		if (!strcmp(argv[1], changes[i].name))
			options.progress = changes[i].progress;
	/* "some": only the odd ranks call; the even ones do something else meanwhile. */
	MPI_Comm_split(MPI_COMM_WORLD, strcmp(argv[1], "some") || rank % 2 ? 0 : MPI_UNDEFINED,
		       rank, &comm);
	rc = comm == MPI_COMM_NULL ? 0 : call(argv[1], &options, comm);
	printf("rank %d: %d\n", rank, rc);
	if (comm != MPI_COMM_NULL)
		MPI_Comm_free(&comm);
	MPI_Finalize();
	return 0;
}
