/* SPDX-License-Identifier: OLDAP-2.8 */
/* Translates MPI errors. */
#ifndef LMDBIO_MPI_MPI_ERROR_H
#define LMDBIO_MPI_MPI_ERROR_H

/* The errno for an MPI function's code: 0 for MPI_SUCCESS; ENOENT, EACCES, ENOSPC, EROFS, EDQUOT,
 * EEXIST, EBADF, ENOMEM, EINVAL for the matching error classes; EIO for all others. */
int mpi_error_code(int mpi_code);

/* The same, and prints a line on standard error with MPI's own words: "lmdbio: WHAT: ...". */
int mpi_error_tell(int mpi_code, const char *what);

/* Prints the line alone, by log_refused(). */
void mpi_error_refuse(int mpi_code, const char *what);

#endif
