/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a share by MPI-IO, and avoids ROMIO's traps.
 *
 * - A count above INT_MAX is not safe in MPICH 4.0: a call takes at most 1 GiB (a step's buffer).
 * - All ranks make the same number of calls (struct stage_shares), also with nothing to read; their
 *   offset is then inside of what others read.
 * - The shares are disjoint and ascend, so that ROMIO, left to itself (romio_cb_read=automatic),
 * has each rank read its own part of a collective call: a read that fails is an error of that rank
 *   and leaves no rank waiting. When ranks read for each other a failing one returns from the
 *   middle of an exchange (in all of MPICH to 5.0).
 * - On NFS, ROMIO locks around each read and ends the job when that fails: the prefix "ufs:"
 *   keeps it from that.
 * - MPI-IO reads files, and knows of nothing in them: of a container it brings the frames.
 */
#include "config.h"
#include "mpi/stage_reader.h"

#include "container/container.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

enum { NFS_MAGIC = 0x6969, UNPACKED = 64 << 20 /* bytes */ };

static int hints_parse(const char *hints, MPI_Info info)
{
	char *copy, *rest, *hint;
	int rc = 0;

	if (!hints)
		return 0;
	copy = strdup(hints);
	if (!copy)
		return ENOMEM;
	for (hint = strtok_r(copy, ",", &rest); hint && !rc; hint = strtok_r(NULL, ",", &rest)) {
		char *equals = strchr(hint, '=');

		if (!equals || equals == hint || !equals[1]) {
			rc = EINVAL;
			break;
		}
		*equals = 0;
		rc = mpi_error_code(MPI_Info_set(info, hint, equals + 1));
	}
	free(copy);
	return rc;
}

/* MPI-IO brings whole frames, and what unpacks them for POSIX does so here: it finds them in
 * memory. */
static int unpacker_open(struct stage_reader *reader, const struct stage_source *source)
{
	const struct container_options options = {.cache = UNPACKED};
	int rc = io_open_file(&reader->below, "pread", source->fd);

	if (!rc)
		rc = stage_frames_open(&reader->frames, &reader->below);
	return rc ? rc : io_open_container(&reader->io, &reader->frames.io, &options);
}

static int file_open(struct stage_reader *reader, const struct stage_source *source,
		     const char *hints)
{
	struct statfs fs;
	MPI_Info info = MPI_INFO_NULL;
	char *name = NULL;
	int nfs, rc, told;

	nfs = !fstatfs(source->fd, &fs) && fs.f_type == NFS_MAGIC;
	told = mpi_error_code(mpi_bcast(&nfs, 1, MPI_INT, 0, reader->comm));
	rc = mpi_error_code(MPI_Info_create(&info));
	/* Also where ROMIO_HINTS names a file that says otherwise. */
	if (!rc)
		rc = mpi_error_code(MPI_Info_set(info, "romio_cb_read", "automatic"));
	if (!rc)
		rc = hints_parse(hints, info);
	if (!rc && asprintf(&name, "%s%s", nfs ? "ufs:" : "", source->path) < 0) {
		name = NULL;
		rc = ENOMEM;
	}
	/* All go into the collective call, or none. */
	rc = mpi_agree(reader->comm, told ? told : rc, NULL);
	if (!rc) {
		rc = MPI_File_open(reader->comm, name, MPI_MODE_RDONLY, info, &reader->file);
		/* Where MPI_Error_class fails, too, a file that is open is still one to close. */
		if (rc != MPI_SUCCESS) {
			reader->file = MPI_FILE_NULL;
			rc = mpi_error_code(rc);
		}
	}
	free(name);
	if (info != MPI_INFO_NULL)
		MPI_Info_free(&info);
	return rc || !source->unpacked ? rc : unpacker_open(reader, source);
}

static void read_part(struct stage_reader *reader, struct stage_part part, void *buffer,
		      bool together)
{
	MPI_Status status;
	MPI_Count came = 0;
	int rc;

	reader->error = 0;
	if (!part.length && !together)
		return;
	rc = together ? MPI_File_read_at_all(reader->file, (MPI_Offset)part.offset, buffer,
					     (int)part.length, MPI_BYTE, &status)
		      : MPI_File_read_at(reader->file, (MPI_Offset)part.offset, buffer,
					 (int)part.length, MPI_BYTE, &status);
	reader->calls++;
	reader->bytes += part.length;
	if (rc != MPI_SUCCESS) {
		reader->error = mpi_error_code(rc);
		return;
	}
	if (part.length && MPI_Get_elements_x(&status, MPI_BYTE, &came) == MPI_SUCCESS &&
	    (uint64_t)came < part.length)
		reader->error = ESTALE;
}

/* The frames of a part, which is then on its way out of them. A rank that fails takes part all
 * the same. */
static void read_frames(struct stage_reader *reader, struct stage_part part, void *buffer,
			bool together)
{
	struct stage_part wanted;
	int rc = stage_frames_find(&reader->frames, &reader->io, part, &wanted);

	reader->started = 0;
	read_part(reader, wanted, reader->frames.bytes, together);
	if (!reader->error && wanted.length)
		stage_frames_hold(&reader->frames, wanted);
	if (!reader->error)
		reader->error = rc;
	if (!reader->error)
		stage_reader_posix.start(reader, part, buffer);
}

static void read_any(struct stage_reader *reader, struct stage_part part, void *buffer,
		     bool together)
{
	if (reader->io.ops)
		read_frames(reader, part, buffer, together);
	else
		read_part(reader, part, buffer, together);
}

static void mpiio_start(struct stage_reader *reader, struct stage_part part, void *buffer)
{
	read_any(reader, part, buffer, false);
}

static void collective_start(struct stage_reader *reader, struct stage_part part, void *buffer)
{
	read_any(reader, part, buffer, true);
}

static int mpiio_finish(struct stage_reader *reader)
{
	int rc;

	if (!reader->io.ops)
		return reader->error;
	rc = stage_reader_posix.finish(reader); /* and counts what was read of the index */
	reader->bytes += reader->frames.came;
	reader->calls += reader->frames.calls;
	return rc;
}

static void mpiio_close(struct stage_reader *reader)
{
	stage_reader_posix.close(reader);
	stage_frames_close(&reader->frames);
	if (reader->file != MPI_FILE_NULL)
		MPI_File_close(&reader->file);
}

const struct stage_reader_ops stage_reader_mpiio = {
	.open = file_open,
	.start = mpiio_start,
	.finish = mpiio_finish,
	.close = mpiio_close,
};

const struct stage_reader_ops stage_reader_collective = {
	.collective = true,
	.open = file_open,
	.start = collective_start,
	.finish = mpiio_finish,
	.close = mpiio_close,
};
