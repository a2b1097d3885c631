/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates MPICH 4.0's handling of a receive that breaks off because its sender died: MPICH
 * reports it as complete, with its full length (recv_cmpl_cb of ucx_recv.h).
 *
 * Preloaded under a test's job. Each BROKEN_EACH-th receive of more than BROKEN_MORE bytes that
 * ends well gets an empty second half. The file BROKEN_RECEIVES has a line for each such receive.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BROKEN_EACH = 5, BROKEN_MORE = 16 << 10, RECEIVES = 4096, PIECES = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct receive {
	MPI_Request request;
	int count; /* of pieces; 0: the entry is free */
	struct {
		char *at;
		size_t length;
	} pieces[PIECES];
	size_t length; /* of all pieces, bytes */
} receives[RECEIVES];
static unsigned seen;

__attribute__((visibility("default"))) int MPI_Irecv(void *buffer, int count, MPI_Datatype type,
						     int from, int tag, MPI_Comm comm,
						     MPI_Request *request);
__attribute__((visibility("default"))) int MPI_Test(MPI_Request *request, int *done,
						    MPI_Status *status);

/* RTLD_NEXT does not find MPI if it belongs to a module that was loaded later. */
static void find(const char *name, void *function)
{
	void *at = dlsym(dlopen("libmpich.so.12", RTLD_LAZY | RTLD_NOLOAD), name);

	memcpy(function, &at, sizeof(at)); /* ISO C has no cast for it */
}

static void piece_add(struct receive *receive, MPI_Aint at, int length)
{
	receive->pieces[receive->count].at = (char *)at;
	receive->pieces[receive->count++].length = (size_t)length;
	receive->length += (size_t)length;
}

/* Records where the bytes of a receive will lie, for the two kinds of receives that lmdbio
 * makes. */
static void describe(struct receive *receive, const void *buffer, int count, MPI_Datatype type)
{
	int (*envelope)(MPI_Datatype, int *, int *, int *, int *);
	int (*contents)(MPI_Datatype, int, int, int, int *, MPI_Aint *, MPI_Datatype *);
	int numbers[PIECES + 1], n_numbers, n_places, n_types, combiner;
	MPI_Aint places[PIECES];
	MPI_Datatype types[1];

	*receive = (struct receive){0};
	find("MPI_Type_get_envelope", &envelope);
	find("MPI_Type_get_contents", &contents);
	envelope(type, &n_numbers, &n_places, &n_types, &combiner);
	if (type == MPI_BYTE) {
		piece_add(receive, (MPI_Aint)buffer, count);
	} else if (combiner == MPI_COMBINER_HINDEXED && n_places <= PIECES) {
		contents(type, n_numbers, n_places, n_types, numbers, places, types);
		for (int i = 0; i < n_places; i++)
			piece_add(receive, places[i], numbers[i + 1]);
	}
}

int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	int (*receive)(void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *), rc;
	struct receive described;

	find("PMPI_Irecv", &receive);
	describe(&described, buffer, count, type);
	rc = receive(buffer, count, type, from, tag, comm, request);
	if (rc != MPI_SUCCESS || described.length <= BROKEN_MORE)
		return rc;
	described.request = *request;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < RECEIVES; i++)
		if (!receives[i].count) {
			receives[i] = described;
			break;
		}
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Clears the second half of the received bytes, in whichever pieces it lies. */
static void half_forget(const struct receive *receive)
{
	size_t from = receive->length / 2;

	for (int i = 0; i < receive->count; i++) {
		size_t length = receive->pieces[i].length;
		size_t kept = from < length ? from : length;

		memset(receive->pieces[i].at + kept, 0, length - kept);
		from -= kept;
	}
}

static void tell(void)
{
	const char *name = getenv("BROKEN_RECEIVES");
	int fd = name ? open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

	if (fd < 0 || write(fd, "broken\n", 7) != 7)
		abort();
	close(fd);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
	int (*test)(MPI_Request *, int *, MPI_Status *), rc;
	MPI_Request before = *request;

	find("PMPI_Test", &test);
	rc = test(request, done, status);
	if (rc != MPI_SUCCESS || !*done || before == MPI_REQUEST_NULL)
		return rc;
	pthread_mutex_lock(&lock);
	for (unsigned i = 0; i < RECEIVES; i++)
		if (receives[i].count && receives[i].request == before) {
			if (++seen % BROKEN_EACH == 0) {
				half_forget(&receives[i]);
				tell();
			}
			receives[i].count = 0;
			break;
		}
	pthread_mutex_unlock(&lock);
	return rc;
}
