/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lists the readers. */
#include "config.h"
#include "mpi/stage_reader.h"

const struct stage_reader_ops *stage_reader_find(enum lmdbio_stage_reader kind)
{
	static const struct stage_reader_ops *const readers[] = {
		[LMDBIO_STAGE_POSIX] = &stage_reader_posix,
		[LMDBIO_STAGE_MPIIO] = &stage_reader_mpiio,
		[LMDBIO_STAGE_COLLECTIVE] = &stage_reader_collective,
	};

	return (unsigned)kind < sizeof(readers) / sizeof(readers[0]) ? readers[kind] : NULL;
}
