/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a share by MPI-IO, and avoids ROMIO's traps.
 *
 * - A count above INT_MAX is not safe in MPICH 4.0: a call takes at most 1 GiB (a step's buffer).
 * - All ranks make the same number of calls (struct stage_shares), also with nothing to read; then
 *   their offset is inside of what other ranks read.
 * - The shares are disjoint and ascend, so that ROMIO, left to itself (romio_cb_read=automatic),
 *   has each rank read its own part of a collective call: a failed read is an error of that rank
 *   and leaves no rank waiting. When ranks read for each other, a rank that fails returns from the
 *   middle of an exchange (in all of MPICH to 5.0).
 * - On NFS, ROMIO locks around each read and ends the job when that fails: the prefix "ufs:"
 *   keeps it from that.
 * - MPI-IO reads files, and does not know what is in them: of a container it brings the frames. */
#include "config.h"
#include "mpi/stage_reader.h"

#include "container/container.h"
#include "io/io.h"
#include "io/io_backend.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"
#include "mpi/rank_shares.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

/* A container's io reads frame by frame from the io below it. Here the io below has the frames of a
 * range of the data in memory, and asks the file for the rest: the container's index. */
/* Several threads read at once, while the frames in memory stay as they are. */
static ssize_t frames_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	const struct stage_frames *frames = io->state;
	size_t done = 0;
	int rc;

	if (offset >= frames->at && length <= frames->length &&
	    offset - frames->at <= frames->length - length) {
		memcpy(buffer, frames->bytes + (offset - frames->at), length);
		return (ssize_t)length;
	}
	rc = io_read(io->below, buffer, length, offset, &done);
	if (!rc)
		return (ssize_t)done;
	errno = rc;
	return -1;
}

/* A container asks for nothing but reads. */
static const struct io_ops frames_ops = {.name = "frames", .read = frames_read};

/* Opens the io over the container's file. The file and *frames stay the caller's. Returns 0 or an
 * errno. */
static int stage_frames_open(struct stage_frames *frames, struct io *file)
{
	int rc = io_open_stacked(&frames->io, &frames_ops, file);

	frames->io.state = frames;
	return rc;
}

static int room_make(struct stage_frames *frames, uint64_t length)
{
	uint8_t *bytes;

	frames->length = 0;
	if (length <= frames->room)
		return 0;
	bytes = realloc(frames->bytes, length);
	if (!bytes)
		return ENOMEM;
	frames->bytes = bytes;
	frames->room = length;
	return 0;
}

/* Finds which bytes of the container hold a part of its data. If they are not here, makes room for
 * them at frames->bytes, and what was there is gone. Length 0: they are here, or the part is empty,
 * and the offset is inside of what other ranks read. `data`: the container's io, which stands on
 * frames->io. Returns 0, MDB_CORRUPTED, ENOMEM or the errno of a read; sets *wanted in any case. */
static int stage_frames_find(struct stage_frames *frames, struct io *data, struct stage_part part,
			     struct stage_part *wanted)
{
	const struct container_info *info = container_info(data);
	struct container_chunk first, last;
	uint64_t end;
	int rc = frames->last ? 0 : container_chunk(data, info->chunks - 1, &last);

	if (!rc && !frames->last)
		frames->last = last.offset;
	*wanted = (struct stage_part){.offset = frames->last};
	if (rc || !part.length)
		return rc;
	rc = container_chunk(data, part.offset / info->chunk_size, &first);
	if (!rc)
		rc = container_chunk(data, (part.offset + part.length - 1) / info->chunk_size,
				     &last);
	if (rc)
		return rc;
	end = last.offset + last.length;
	if (end <= first.offset || end > info->data_end)
		return MDB_CORRUPTED;
	/* If a chunk is larger than a part, the next part is in the same frame. */
	if (first.offset >= frames->at && end <= frames->at + frames->length)
		return 0;
	rc = room_make(frames, end - first.offset);
	if (!rc)
		*wanted = (struct stage_part){.offset = first.offset, .length = end - first.offset};
	return rc;
}

/* The wanted frames have come. */
static void stage_frames_hold(struct stage_frames *frames, struct stage_part wanted)
{
	frames->at = wanted.offset;
	frames->length = wanted.length;
	frames->came += wanted.length;
	frames->calls++;
}

/* Call it after the container's io is closed. */
static void stage_frames_close(struct stage_frames *frames)
{
	io_close(&frames->io);
	free(frames->bytes);
	frames->bytes = NULL;
}

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

/* MPI-IO brings whole frames. The io that unpacks frames for POSIX does so here, and finds them in
 * memory. */
static int unpacker_open(struct stage_reader *reader, const struct stage_source *source)
{
	const struct container_options options = {.cache = UNPACKED};
	int rc = io_open_file(&reader->below, "pread", source->fd);

	if (!rc)
		rc = stage_frames_open(&reader->frames, &reader->below);
	return rc ? rc : io_open_container(&reader->io, &reader->frames.io, &options);
}

int mpi_file_open(MPI_Comm comm, const char *path, int mode, MPI_Info info, int rc, MPI_File *file)
{
	struct statfs fs;
	char *name = NULL;
	int nfs = !statfs(path, &fs) && fs.f_type == NFS_MAGIC;
	int told = mpi_error_code(mpi_bcast(&nfs, 1, MPI_INT, 0, comm));

	if (asprintf(&name, "%s%s", nfs ? "ufs:" : "", path) < 0) {
		name = NULL;
		rc = rc ? rc : ENOMEM;
	}
	/* Either all ranks enter the collective call, or none. */
	rc = mpi_agree(comm, told ? told : rc, NULL);
	if (!rc) {
		rc = MPI_File_open(comm, name, mode, info, file);
		/* Only after a failure: MPI_Error_class may fail, too, and then a file that is open
		 * must still be closed. */
		if (rc != MPI_SUCCESS) {
			*file = MPI_FILE_NULL;
			rc = mpi_error_code(rc);
		}
	}
	free(name);
	return rc;
}

static int file_open(struct stage_reader *reader, const struct stage_source *source,
		     const char *hints)
{
	MPI_Info info = MPI_INFO_NULL;
	int rc = mpi_error_code(MPI_Info_create(&info));

	/* Even if ROMIO_HINTS names a file that says otherwise. */
	if (!rc)
		rc = mpi_error_code(MPI_Info_set(info, "romio_cb_read", "automatic"));
	if (!rc)
		rc = hints_parse(hints, info);
	rc = mpi_file_open(reader->comm, source->path, MPI_MODE_RDONLY, info, rc, &reader->file);
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

/* Brings the frames of a part, and starts to unpack the part. A rank that fails takes part all the
 * same. */
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
