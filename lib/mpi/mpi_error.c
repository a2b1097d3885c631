/* SPDX-License-Identifier: OLDAP-2.8 */
/* Translates MPI error classes to errnos. */
#include "config.h"
#include "mpi/mpi_error.h"

#include "util/log.h"

#include <errno.h>
#include <mpi.h>
#include <stddef.h>

static const struct {
	int class, code;
} classes[] = {
	{MPI_SUCCESS, 0},
	{MPI_ERR_NO_SUCH_FILE, ENOENT},
	{MPI_ERR_ACCESS, EACCES},
	{MPI_ERR_NO_SPACE, ENOSPC},
	{MPI_ERR_READ_ONLY, EROFS},
	{MPI_ERR_QUOTA, EDQUOT},
	{MPI_ERR_FILE_EXISTS, EEXIST},
	{MPI_ERR_BAD_FILE, EINVAL},
	{MPI_ERR_FILE, EBADF},
	{MPI_ERR_NO_MEM, ENOMEM},
	{MPI_ERR_ARG, EINVAL},
	{MPI_ERR_COUNT, EINVAL},
	{MPI_ERR_COMM, EINVAL},
};

int mpi_error_code(int mpi_code)
{
	int class = MPI_ERR_OTHER;

	MPI_Error_class(mpi_code, &class);
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (classes[i].class == class)
			return classes[i].code;
	return EIO;
}

int mpi_error_tell(int mpi_code, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int length = 0;

	if (mpi_code == MPI_SUCCESS)
		return 0;
	MPI_Error_string(mpi_code, text, &length);
	log_line("%s: %.*s", what, length, text);
	return mpi_error_code(mpi_code);
}

void mpi_error_refuse(int mpi_code, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int length = 0;

	MPI_Error_string(mpi_code, text, &length);
	log_refused("%s: %.*s", what, length, text);
}
