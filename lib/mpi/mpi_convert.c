/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has the ranks of a conversion write one file, and sends what they know of it to one rank.
 *
 * The ranks write ascending disjoint ranges by a collective call. With its default hints, ROMIO
 * then has each rank write its own part. So a failed write is an error of that rank and leaves no
 * rank waiting (see stage_reader_mpiio.c, also for NFS). */
#include "config.h"
#include "mpi/module_parts.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_job.h"
#include "mpi/mpi_wait.h"
#include "mpi/stage_reader.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 30 /* bytes of one call */ };

RANK_STATIC MPI_File file = MPI_FILE_NULL;
RANK_STATIC char *path; /* of the file, while it is open */

static int sharing_agree(int status)
{
	return mpi_agree(mpi_job_get()->all, status, NULL);
}

static int sharing_tell(void *bytes, size_t length)
{
	return mpi_error_code(mpi_bcast(bytes, (int)length, MPI_BYTE, 0, mpi_job_get()->all));
}

static int sharing_place(uint64_t length, uint64_t *before, uint64_t *all)
{
	const struct mpi_job *job = mpi_job_get();
	/* Signed, because MPICH 4.0.2 has trouble with unsigned numbers. */
	int64_t mine = (int64_t)length, until = 0, sum = 0;
	int rc = mpi_scan(&mine, &until, 1, MPI_INT64_T, MPI_SUM, job->all);

	if (rc == MPI_SUCCESS)
		rc = mpi_allreduce(&mine, &sum, 1, MPI_INT64_T, MPI_SUM, job->all);
	*before = (uint64_t)(until - mine);
	*all = (uint64_t)sum;
	return mpi_error_code(rc);
}

/* Places the ranks' parts behind each other. Returns 0; EOVERFLOW: MPI cannot count so many
 * bytes. */
static int parts_lay(const int *counts, int *places, int ranks, size_t *total)
{
	*total = 0;
	for (int i = 0; i < ranks; i++) {
		places[i] = (int)*total;
		*total += (size_t)counts[i];
		if (*total > INT_MAX)
			return EOVERFLOW;
	}
	return 0;
}

static int sharing_collect(const void *bytes, size_t length, void **all, size_t *total)
{
	const struct mpi_job *job = mpi_job_get();
	int ranks = job->place.ranks, mine = (int)length, *counts, rc;

	*all = NULL;
	*total = 0;
	counts = calloc(2 * (size_t)ranks, sizeof(*counts));
	rc = mpi_agree(job->all, !counts ? ENOMEM : length > INT_MAX ? EOVERFLOW : 0, NULL);
	if (!rc)
		rc = mpi_error_code(MPI_Gather(&mine, 1, MPI_INT, counts, 1, MPI_INT, 0, job->all));
	if (!rc && !job->place.rank) {
		rc = parts_lay(counts, counts + ranks, ranks, total);
		if (!rc && !(*all = malloc(*total + 1)))
			rc = ENOMEM;
	}
	rc = mpi_agree(job->all, rc, NULL);
	if (!rc)
		rc = mpi_error_code(MPI_Gatherv(bytes, mine, MPI_BYTE, *all, counts, counts + ranks,
						MPI_BYTE, 0, job->all));
	free(counts);
	if (rc) {
		free(*all);
		*all = NULL;
	}
	return rc;
}

static int sharing_open(const char *name)
{
	path = strdup(name);
	return mpi_file_open(mpi_job_get()->all, name, MPI_MODE_WRONLY, MPI_INFO_NULL,
			     path ? 0 : ENOMEM, &file);
}

/* ROMIO has one error for many reasons. A plain write tells the reason, or succeeds. */
static int write_plainly(const char *bytes, size_t length, uint64_t offset)
{
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC), rc = fd < 0 ? errno : 0;

	if (!rc)
		rc = whole_write(fd, bytes, length, offset);
	if (!rc && fsync(fd))
		rc = errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

static int sharing_write(const void *bytes, size_t length, uint64_t offset)
{
	const char *from = bytes;
	int64_t mine = (int64_t)((length + PIECE - 1) / PIECE), calls = 0;
	int rc = mpi_allreduce(&mine, &calls, 1, MPI_INT64_T, MPI_MAX, mpi_job_get()->all);
	int failed = rc == MPI_SUCCESS ? 0 : EIO;

	/* A rank with nothing to write passes the place where its bytes would be. */
	for (; rc == MPI_SUCCESS && calls > 0; calls--) {
		size_t n = length < PIECE ? length : PIECE;
		MPI_Status status;
		int came = 0, code;

		code = MPI_File_write_at_all(file, (MPI_Offset)offset, from, (int)n, MPI_BYTE,
					     &status);
		if (n && code == MPI_SUCCESS)
			code = MPI_Get_count(&status, MPI_BYTE, &came);
		if (n && !failed && (code != MPI_SUCCESS || (size_t)came < n))
			failed = write_plainly(from, n, offset);
		from += n;
		offset += n;
		length -= n;
	}
	return failed;
}

static int sharing_close(void)
{
	int rc = 0, code;

	free(path);
	path = NULL;
	if (file == MPI_FILE_NULL)
		return 0;
	rc = mpi_error_code(MPI_File_sync(file));
	code = mpi_error_code(MPI_File_close(&file));
	return rc ? rc : code;
}

const struct mpi_sharing mpi_convert_sharing = {
	.agree = sharing_agree,
	.tell = sharing_tell,
	.place = sharing_place,
	.collect = sharing_collect,
	.open = sharing_open,
	.write = sharing_write,
	.close = sharing_close,
};
