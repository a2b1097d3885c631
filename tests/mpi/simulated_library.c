/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the calls of MPI that are not about messages: files, hints, errors, and the library's
 * begin and end. */
#include "config.h"
#include "simulated_job.h"

#include "mpi_simulated.h"
#include "simulated_turns.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 64, INFO = 77, SESSION = 78, KEYVAL = 79 };

static struct ADIOI_FileD {
	bool used;
	MPI_Comm comm;
	int fd;
} files[FILES];
static unsigned infos, sessions;
/* Read by the program's thread and by lmdbio's. */
static struct {
	atomic_bool begun, ended;
	_Atomic int level; /* of threads */
	_Atomic(MPI_Comm_delete_attr_function *) deletes; /* the only attribute: MPI_COMM_SELF's */
	_Atomic(void *) value;
} library;

unsigned sim_sessions(void)
{
	return sessions;
}

unsigned sim_library_handles(void)
{
	unsigned n = infos + sessions;

	for (int file = 0; file < FILES; file++)
		n += files[file].used;
	return n;
}

void sim_library_begin(void)
{
	infos = sessions = 0;
	library.ended = false;
	library.deletes = NULL;
	library.value = NULL;
	library.begun = true;
	library.level = MPI_THREAD_MULTIPLE;
}

void sim_library_end(void)
{
	for (int file = 0; file < FILES; file++)
		if (files[file].used) {
			close(files[file].fd);
			files[file].used = false;
		}
}

/* --- files, hints, errors --------------------------------------------------------------------- */

int MPI_Info_create(MPI_Info *info)
{
	infos++;
	*info = INFO;
	return MPI_SUCCESS;
}

int MPI_Info_set(MPI_Info info, const char *key, const char *value)
{
	(void)info, (void)key, (void)value;
	return MPI_SUCCESS;
}

int MPI_Info_free(MPI_Info *info)
{
	infos--;
	*info = MPI_INFO_NULL;
	return MPI_SUCCESS;
}

/* Waits until all ranks have arrived. */
static int meet(MPI_Comm comm)
{
	return sim_await(sim_request(comm, sim_barrier(comm)));
}

int MPI_File_open(MPI_Comm comm, const char *name, int mode, MPI_Info info, MPI_File *file)
{
	int i = 0;

	(void)info;
	*file = MPI_FILE_NULL;
	if (meet(comm) != MPI_SUCCESS)
		return MPI_ERR_OTHER;
	while (i < FILES && files[i].used)
		i++;
	if (i == FILES)
		abort();
	files[i] = (struct ADIOI_FileD){.used = true, .comm = comm, .fd = open(name, (mode & MPI_MODE_WRONLY ? O_WRONLY : O_RDONLY) |
							      O_CLOEXEC)};
	*file = &files[i];
	return MPI_SUCCESS;
}

int MPI_File_read_at(MPI_File file, MPI_Offset offset, void *bytes, int count, MPI_Datatype type,
		     MPI_Status *status)
{
	ssize_t n = pread(file->fd, bytes, (size_t)count, offset);

	(void)type;
	*status = (MPI_Status){.count_lo = n < 0 ? 0 : (int)n};
	return n < 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPI_File_read_at_all(MPI_File file, MPI_Offset offset, void *bytes, int count, MPI_Datatype type,
			 MPI_Status *status)
{
	return meet(file->comm) == MPI_SUCCESS ? MPI_File_read_at(file, offset, bytes, count, type, status)
					       : MPI_ERR_OTHER;
}

int MPI_File_write_at_all(MPI_File file, MPI_Offset offset, const void *bytes, int count, MPI_Datatype type,
			  MPI_Status *status)
{
	ssize_t n = meet(file->comm) == MPI_SUCCESS ? pwrite(file->fd, bytes, (size_t)count, offset) : -1;

	(void)type;
	*status = (MPI_Status){.count_lo = n < 0 ? 0 : (int)n};
	return n < 0 ? MPI_ERR_OTHER : MPI_SUCCESS;
}

int MPI_File_sync(MPI_File file)
{
	return meet(file->comm);
}

int MPI_File_close(MPI_File *file)
{
	(void)meet((*file)->comm);
	close((*file)->fd);
	(*file)->used = false;
	*file = MPI_FILE_NULL;
	return MPI_SUCCESS;
}

int MPI_Error_class(int code, int *class)
{
	*class = code;
	return MPI_SUCCESS;
}

int MPI_Error_string(int code, char *text, int *length)
{
	*length = snprintf(text, MPI_MAX_ERROR_STRING, "error %d", code);
	return MPI_SUCCESS;
}

int MPI_Get_library_version(char *version, int *length)
{
	*length = snprintf(version, MPI_MAX_LIBRARY_VERSION_STRING, "MPICH Version: 4.1, simulated");
	return MPI_SUCCESS;
}

/* --- begin and end ---------------------------------------------------------------------------- */

void sim_library(bool begun, int level)
{
	library.begun = begun;
	library.level = level;
}

int MPI_Init_thread(int *count, char ***arguments, int needed, int *provided)
{
	(void)count, (void)arguments, (void)needed;
	library.begun = true;
	*provided = library.level;
	return MPI_SUCCESS;
}

int MPI_Initialized(int *begun)
{
	*begun = library.begun;
	return MPI_SUCCESS;
}

int MPI_Finalized(int *ended)
{
	*ended = library.ended;
	return MPI_SUCCESS;
}

int MPI_Query_thread(int *level)
{
	*level = library.level;
	return MPI_SUCCESS;
}

int MPI_Is_thread_main(int *is_main)
{
	*is_main = gettid() == getpid();
	return MPI_SUCCESS;
}

int MPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copies, MPI_Comm_delete_attr_function *deletes, int *keyval,
			   void *state)
{
	(void)copies, (void)state;
	library.deletes = deletes;
	*keyval = KEYVAL;
	return MPI_SUCCESS;
}

int MPI_Comm_free_keyval(int *keyval)
{
	*keyval = MPI_KEYVAL_INVALID;
	return MPI_SUCCESS;
}

int MPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
	(void)comm, (void)keyval;
	library.value = value;
	return MPI_SUCCESS;
}

int MPI_Finalize(void)
{
	library.ended = true;
	return MPI_SUCCESS;
}

void sim_program_ends(void)
{
	if (library.value)
		library.deletes(MPI_COMM_SELF, KEYVAL, library.value, NULL);
	library.ended = true;
}

int MPI_Session_init(MPI_Info info, MPI_Errhandler handler, MPI_Session *session)
{
	(void)info, (void)handler;
	sessions++;
	*session = SESSION;
	return MPI_SUCCESS;
}

int MPI_Session_finalize(MPI_Session *session)
{
	sessions--;
	*session = MPI_SESSION_NULL;
	return MPI_SUCCESS;
}

/* The other ranks' waits fail. */
int MPI_Abort(MPI_Comm comm, int status)
{
	(void)comm, (void)status;
	sim_break();
	return MPI_SUCCESS;
}
