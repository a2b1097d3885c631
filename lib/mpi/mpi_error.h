/* SPDX-License-Identifier: OLDAP-2.8 */
/* Translates MPI errors. */
#ifndef LMDBIO_MPI_MPI_ERROR_H
#define LMDBIO_MPI_MPI_ERROR_H

/* An errno for what an MPI function has returned: 0 for MPI_SUCCESS; ENOENT, EACCES, ENOSPC, EROFS,
 * EDQUOT, EEXIST, EBADF, ENOMEM, EINVAL for the error classes that say so; EIO for all others. */
int mpi_error_code(int mpi_code);

/* The same, and a line on standard error with MPI's own words: "lmdbio: WHAT: ...". */
int mpi_error_tell(int mpi_code, const char *what);

/* The line alone, as log_refused() has it. */
void mpi_error_refuse(int mpi_code, const char *what);

#endif
