/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts and ends MPI, and finds the ranks that share a node. */
#include "config.h"
#include "mpi/mpi_job.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_over.h"
#include "mpi/mpi_wait.h"
#include "util/checked.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/settings.h"

#include <errno.h>
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

RANK_STATIC struct mpi_job job = {.all = MPI_COMM_NULL, .node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL};

const struct mpi_job *mpi_job_get(void)
{
	return &job;
}

/* Returns a hash that is the same for processes that can meet. Sockets without a name in a file
 * system are found within a network namespace, other processes' descriptors within a process id
 * namespace. */
static uint64_t machine_hash(void)
{
	static const char *const namespaces[] = {"/proc/self/ns/net", "/proc/self/ns/pid"};
	char text[256] = "";
	uint64_t hash = 0;
	struct stat st;

	if (!kernel_file_read("/proc/sys/kernel/random/boot_id", text, 64))
		(void)gethostname(text, sizeof(text) - 1);
	for (const char *c = text; *c; c++)
		hash = mix64(hash ^ (unsigned char)*c);
	for (size_t i = 0; i < sizeof(namespaces) / sizeof(*namespaces); i++)
		hash = mix64(hash ^ (stat(namespaces[i], &st) ? 0 : st.st_ino));
	return hash;
}

/* Whether MPICH has been told to make several nodes of a machine. Only MPICH knows which nodes. */
static bool is_played(void)
{
	const char *cliques = getenv("MPIR_CVAR_NUM_CLIQUES"),
		   *odd_even = getenv("MPIR_CVAR_ODD_EVEN_CLIQUES");

	return (cliques && atoi(cliques) > 1) || (odd_even && strcmp(odd_even, "0"));
}

/* What a rank tells about itself. */
struct presence {
	uint64_t machine;
	int32_t rank, played;
};

/* Memory to find a place: one of each for every rank. */
struct room {
	struct presence *told;
	int *mates, *leaders;
};

/* Makes a communicator of n ranks, `members`. Collective over these. Returns an MPI code. */
static int ranks_join(const struct mpi_job *place, const int *members, int n, MPI_Comm *comm)
{
	MPI_Group every, some;
	int rc = MPI_Comm_group(place->all, &every);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Group_incl(every, n, members, &some);
	if (rc == MPI_SUCCESS) {
		rc = MPI_Comm_create_group(place->all, some, 0, comm);
		MPI_Group_free(&some);
	}
	MPI_Group_free(&every);
	return rc;
}

static int by_machine(const void *one, const void *other)
{
	const struct presence *a = one, *b = other;

	if (a->machine != b->machine)
		return a->machine < b->machine ? -1 : 1;
	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static int by_rank(const void *one, const void *other)
{
	int a = *(const int *)one, b = *(const int *)other;

	return a < b ? -1 : a > b;
}

/* Finds the ranks of this rank's machine, and the lowest rank of each machine, both in order. Sorts
 * `all`. */
static void machines_count(struct mpi_place *at, struct presence *all, int *mates, int *leaders)
{
	uint64_t mine = all[at->rank].machine;

	qsort(all, (size_t)at->ranks, sizeof(*all), by_machine);
	at->node_ranks = at->nodes = 0;
	for (int i = 0; i < at->ranks; i++) {
		if (!i || all[i].machine != all[i - 1].machine)
			leaders[at->nodes++] = all[i].rank;
		if (all[i].machine != mine)
			continue;
		if (all[i].rank == at->rank)
			at->node_rank = at->node_ranks;
		mates[at->node_ranks++] = all[i].rank;
	}
	qsort(leaders, (size_t)at->nodes, sizeof(*leaders), by_rank);
	for (at->node = 0; leaders[at->node] != mates[0];)
		at->node++;
}

/* In a job of many processes on few processors each collective call costs some milliseconds, and
 * MPI_Comm_split makes several. The presences of all ranks are enough to know every place. Only
 * ranks that need a communicator make one. */
static int place_by_machine(struct mpi_job *place, const struct room *room)
{
	struct mpi_place *at = &place->place;
	int *mates = room->mates, *leaders = room->leaders, rc = MPI_SUCCESS;

	machines_count(at, room->told, mates, leaders);
	if (at->node_ranks > 1 && at->nodes > 1)
		rc = ranks_join(place, mates, at->node_ranks, &place->node);
	if (rc == MPI_SUCCESS && at->nodes > 1 && !at->node_rank)
		rc = ranks_join(place, leaders, at->nodes, &place->leaders);
	if (rc == MPI_SUCCESS && at->nodes == 1)
		place->node = place->all;
	return rc;
}

static int place_by_mpi(struct mpi_job *place)
{
	struct mpi_place *at = &place->place;
	int rc = MPI_Comm_split_type(place->all, MPI_COMM_TYPE_SHARED, at->rank, MPI_INFO_NULL,
				     &place->node);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Comm_rank(place->node, &at->node_rank);
	if (rc == MPI_SUCCESS)
		rc = MPI_Comm_size(place->node, &at->node_ranks);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Comm_split(place->all, at->node_rank ? MPI_UNDEFINED : 0, at->rank,
			    &place->leaders);
	if (rc != MPI_SUCCESS)
		return rc;
	if (!at->node_rank) {
		rc = MPI_Comm_rank(place->leaders, &at->node);
		if (rc == MPI_SUCCESS)
			rc = MPI_Comm_size(place->leaders, &at->nodes);
	}
	if (rc != MPI_SUCCESS)
		return rc;
	rc = mpi_bcast(&at->node, 1, MPI_INT, 0, place->node);
	return rc == MPI_SUCCESS ? mpi_bcast(&at->nodes, 1, MPI_INT, 0, place->node) : rc;
}

/* Finds this rank's number, and the number of ranks. */
static int place_number(struct mpi_job *place, MPI_Comm all)
{
	int rc;

	place->all = all;
	place->node = place->leaders = MPI_COMM_NULL;
	rc = MPI_Comm_rank(all, &place->place.rank);
	if (rc == MPI_SUCCESS)
		rc = MPI_Comm_size(all, &place->place.ranks);
	return rc;
}

static void room_free(struct room *room)
{
	free(room->told);
	free(room->mates);
	free(room->leaders);
}

static bool room_make(struct room *room, int ranks)
{
	room->told = malloc((size_t)ranks * sizeof(*room->told));
	room->mates = malloc((size_t)ranks * sizeof(*room->mates));
	room->leaders = malloc((size_t)ranks * sizeof(*room->leaders));
	return room->told && room->mates && room->leaders;
}

/* `room` is all the memory that it needs, so only MPI can fail. */
static int place_find(struct mpi_job *place, const struct room *room)
{
	struct presence mine = {.machine = machine_hash(), .rank = place->place.rank, .played = is_played()};
	const struct presence *told = room->told;
	bool played = false, one = true;
	int rc = mpi_allgather(&mine, room->told, sizeof(mine), MPI_BYTE, place->place.ranks, place->all);

	for (int rank = 0; rc == MPI_SUCCESS && rank < place->place.ranks; rank++) {
		played = played || told[rank].played;
		one = one && told[rank].machine == mine.machine;
	}
	if (rc == MPI_SUCCESS)
		rc = played ? place_by_mpi(place) : place_by_machine(place, room);
	/* MPICH makes several nodes of a machine only if the job has no other machine. */
	place->played = played && one && place->place.nodes > 1;
	return rc;
}

int mpi_job_place(struct mpi_job *place, MPI_Comm all)
{
	struct room room = {0};
	int rc = place_number(place, all), lacks;

	if (rc != MPI_SUCCESS)
		return rc;
	/* A rank without memory tells the other ranks, which would wait for it for ever. */
	lacks = !room_make(&room, place->place.ranks);
	rc = mpi_allreduce(MPI_IN_PLACE, &lacks, 1, MPI_INT, MPI_MAX, all);
	if (rc == MPI_SUCCESS)
		rc = lacks ? MPI_ERR_NO_MEM : place_find(place, &room);
	room_free(&room);
	return rc;
}

int mpi_job_tell_node(const struct mpi_job *place, int *number)
{
	return place->node == MPI_COMM_NULL ? MPI_SUCCESS
					    : mpi_bcast(number, 1, MPI_INT, 0, place->node);
}

int mpi_job_leave(struct mpi_job *place)
{
	int rc = MPI_SUCCESS, other = MPI_SUCCESS;

	if (place->leaders != MPI_COMM_NULL)
		rc = MPI_Comm_free(&place->leaders);
	if (place->node != MPI_COMM_NULL && place->node != place->all)
		other = MPI_Comm_free(&place->node);
	place->node = MPI_COMM_NULL;
	return rc == MPI_SUCCESS ? other : rc;
}

/* At its start on one node, MPICH 4.0 over UCX 1.13 opens 18 descriptors, and one more for each
 * rank that it reaches by TCP. It takes 20 MiB of address space, 8 of them for the stack of a
 * thread, and a file of 4.1 MiB in shared memory. Where one of these fails, UCX aborts the process.
 * 64 descriptors leave room for 46 such ranks. */
static int resources_judge(void)
{
	const size_t space = 32 << 20, file = 5 << 20;
	struct rlimit limit;
	void *map;

	if (!descriptors_free(64))
		return EMFILE;
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < file)
		return EFBIG;
	map = mmap(NULL, space, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return map == MAP_FAILED || munmap(map, space) ? ENOMEM : 0;
}

int mpi_job_begin(bool threads, struct mpi_place *place)
{
	int needed = threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, provided, rc;
	struct sigaction user;

	rc = resources_judge();
	if (rc)
		return rc;
	sigaction(SIGUSR1, NULL, &user);
	rc = MPI_Init_thread(NULL, NULL, needed, &provided);
	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (provided < needed) {
		MPI_Finalize();
		return ENOTSUP;
	}
	rc = mpi_job_place(&job, MPI_COMM_WORLD);
	if (rc != MPI_SUCCESS) {
		rc = mpi_error_tell(rc, "the ranks of a node");
		mpi_job_abort(EXIT_FAILURE); /* the other ranks wait for this rank */
		return rc;
	}
	/* MPICH's launcher sends this signal to tell the ranks that one of them has failed. MPICH's
	 * handler makes the next wait accept a connection. In a job of one rank nothing connects:
	 * the wait would have no end. */
	if (job.place.ranks == 1)
		sigaction(SIGUSR1, &user, NULL);
	*place = job.place;
	return 0;
}

/* MPICH's own client of PMI speaks version 1, unless MPICH was configured with another client. */
bool mpi_job_is_pmi1(void)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length;

	return MPI_Get_library_version(version, &length) == MPI_SUCCESS &&
	       !strncmp(version, "MPICH", 5) && !strstr(version, "--with-pmi");
}

/* The ranks agree before their first collective call and after their last one. Otherwise a rank
 * whose calls all succeeded would wait at the end of its work for a rank whose calls did not. */
int mpi_job_adopt(MPI_Comm all)
{
	struct room room = {0};
	bool all_can;
	int rc = place_number(&job, all), told = MPI_SUCCESS;

	if (rc == MPI_SUCCESS)
		rc = mpi_over_agree(&job, room_make(&room, job.place.ranks), &all_can);
	if (rc == MPI_SUCCESS && !all_can)
		rc = MPI_ERR_NO_MEM;
	else if (rc == MPI_SUCCESS) {
		rc = place_find(&job, &room);
		told = mpi_over_agree(&job, rc == MPI_SUCCESS, &all_can);
		if (rc == MPI_SUCCESS && !all_can)
			rc = told != MPI_SUCCESS ? told : MPI_ERR_OTHER;
	}
	room_free(&room);
	if (told != MPI_SUCCESS) {
		(void)mpi_error_tell(told, "the ranks of a node");
		mpi_job_abort(EXIT_FAILURE); /* other ranks may wait for this rank at the end */
	}
	if (rc != MPI_SUCCESS)
		(void)mpi_job_return();
	return rc;
}

int mpi_job_return(void)
{
	int rc = mpi_job_leave(&job);

	job.all = MPI_COMM_NULL;
	return rc;
}

/* MPI_Finalize of MPICH before 4.2 flushes each connection, and then waits in a barrier of the
 * launcher's, where it answers no other rank. Over TCP a flush needs an answer of the other side
 * (UCX 1.13), so a rank that comes a moment later waits for ever: nearly each job of four hosts
 * did. No bytes are under way then, and the kernel closes the connections. So words to the launcher
 * are enough. This function waits for the launcher's answer, of which each line comes whole. A
 * launcher that is gone needs no words. */
static void launcher_ask(int launcher, const char *line, const char *answer)
{
	char heard[1024];
	ssize_t n;

	if (send(launcher, line, strlen(line), MSG_NOSIGNAL) < 0)
		return;
	do {
		n = recv(launcher, heard, sizeof(heard) - 1, 0);
		heard[n > 0 ? n : 0] = 0;
	} while ((n < 0 && errno == EINTR) || (n > 0 && !strstr(heard, answer)));
}

/* Whether MPI_Finalize returns. On one machine no connection uses TCP. */
static bool is_finalized_safely(const struct mpi_job *ended)
{
	char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	int length, major = 0, minor = 0;

	if (ended->place.nodes < 2 || ended->played)
		return true;
	return MPI_Get_library_version(version, &length) != MPI_SUCCESS ||
	       sscanf(version, "MPICH Version: %d.%d", &major, &minor) != 2 || major > 4 ||
	       (major == 4 && minor >= 2);
}

bool mpi_leave(const struct mpi_job *ended)
{
	const char *number = getenv("PMI_FD");
	int launcher = number ? atoi(number) : -1;

	if (launcher <= STDERR_FILENO || !mpi_job_is_pmi1() || is_finalized_safely(ended))
		return false;
	launcher_ask(launcher, "cmd=barrier_in\n", "cmd=barrier_out");
	launcher_ask(launcher, "cmd=finalize\n", "cmd=finalize_ack");
	return true;
}

int mpi_job_end(void)
{
	int rc = mpi_job_leave(&job);

	/* Waits without MPI_Finalize, which keeps a processor busy while it waits for all ranks. */
	if (mpi_over_await(&job) != MPI_SUCCESS)
		return ECONNABORTED;
	job.all = MPI_COMM_NULL;
	if (mpi_leave(&job))
		return mpi_error_code(rc);
	/* Finalizes even if something could not be freed: a rank that does not finalize ends the
	 * whole job. */
	return mpi_error_code(MPI_Finalize() == MPI_SUCCESS ? rc : MPI_ERR_OTHER);
}

void mpi_job_abort(int status)
{
	/* The launcher ends a job when one of its ranks is gone without MPI_Finalize. */
	if (MPI_Abort(job.all == MPI_COMM_NULL ? MPI_COMM_WORLD : job.all, status) != MPI_SUCCESS)
		_exit(status);
}

void mpi_node_name(const struct mpi_job *named, char name[MPI_NODE_NAME])
{
	const char *wanted = settings_get()->node ? settings_get()->node : "";

	if (named->played)
		snprintf(name, MPI_NODE_NAME, "%s#%d", wanted, named->place.node);
	else
		snprintf(name, MPI_NODE_NAME, "%s", wanted);
}
