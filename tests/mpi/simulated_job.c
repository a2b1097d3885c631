/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the calls of MPI that the ranks of a job make together. */
#include "config.h"
#include "simulated_job.h"

#include "mpi_simulated.h"
#include "simulated_turns.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXTS = 256, GROUPS = 64 };

static void impossible(const char *what)
{
	printf("simulated MPI: %s\n", what);
	abort();
}

/* --- communicators ---------------------------------------------------------------------------- */

static struct {
	int n, members[SIM_RANKS]; /* ranks of the job */
	unsigned serial[SIM_RANKS];
	unsigned holders;
	bool meets; /* exists only for MPI_Comm_create_group() */
} contexts[CONTEXTS];
static int context_count;
static struct {
	bool used;
	int n, members[SIM_RANKS];
} groups[GROUPS];
static int context_new(int n, const int *members)
{
	if (context_count == CONTEXTS)
		impossible("more communicators than it has");
	contexts[context_count].n = n;
	memcpy(contexts[context_count].members, members, (size_t)n * sizeof(*members));
	contexts[context_count].holders = (unsigned)n;
	return context_count++;
}

static MPI_Comm comm_of(int context, int rank)
{
	return sim_comm(rank) + context * SIM_RANKS;
}

int sim_context(MPI_Comm comm)
{
	int context = (comm - sim_comm(0)) / SIM_RANKS;

	if (comm == MPI_COMM_WORLD || comm == MPI_COMM_SELF)
		return 0;
	if (comm < sim_comm(0) || context >= context_count)
		impossible("a communicator that it does not know");
	return context;
}

int sim_rank(MPI_Comm comm)
{
	return comm == MPI_COMM_WORLD ? sim_self() : (comm - sim_comm(0)) % SIM_RANKS;
}

unsigned sim_handles(void)
{
	unsigned n;

	sim_enter();
	n = sim_library_handles();
	for (int context = 1; context < context_count; context++)
		n += contexts[context].holders;
	for (int group = 0; group < GROUPS; group++)
		n += groups[group].used;
	sim_leave();
	return n;
}

/* --- collective calls ------------------------------------------------------------------------- */

enum kind { BARRIER, BCAST, REDUCE, GATHER, GATHER_ANY, SCAN, DUP, SPLIT, SHARED };

struct collective {
	struct collective *next;
	int context, rc;
	unsigned serial, arrived, looked;
	enum kind kind;
	size_t length;
	int type, op, root;
	struct {
		uint8_t *in;
		uint8_t *result;
		void *out;
		size_t length; /* of GATHER_ANY */
		size_t result_length;
		bool taken;
		int comm;
	} each[SIM_RANKS];
};

static struct collective *collectives;

void sim_job_begin(int ranks)
{
	int all[SIM_RANKS];

	for (int rank = 0; rank < ranks; rank++)
		all[rank] = rank;
	memset(contexts, 0, sizeof(contexts));
	memset(groups, 0, sizeof(groups));
	context_count = 0;
	sim_library_begin();
	(void)context_new(ranks, all);
}

static void collective_free(struct collective *collective)
{
	struct collective **link = &collectives;

	while (*link != collective)
		link = &(*link)->next;
	*link = collective->next;
	for (int rank = 0; rank < SIM_RANKS; rank++) {
		free(collective->each[rank].in);
		free(collective->each[rank].result);
	}
	free(collective);
}

static void result_take(struct collective *one, int rank, int rc)
{
	one->each[rank].taken = true;
	if (rc == MPI_SUCCESS && one->each[rank].result_length)
		memcpy(one->each[rank].out, one->each[rank].result, one->each[rank].result_length);
}

static bool is_complete(const struct collective *one)
{
	return one->arrived == (unsigned)contexts[one->context].n;
}

/* Results of calls that a rank has given up come here, late. */
void sim_job_end(void)
{
	while (collectives) {
		for (int rank = 0; is_complete(collectives) && rank < contexts[collectives->context].n; rank++)
			if (!collectives->each[rank].taken)
				result_take(collectives, rank, collectives->rc);
		collective_free(collectives);
	}
	sim_library_end();
}

static void *copy_of(const void *bytes, size_t length)
{
	void *copy = calloc(1, length + 1);

	if (!copy)
		impossible("no memory");
	if (length)
		memcpy(copy, bytes, length);
	return copy;
}

static void reduce(struct collective *one, int n)
{
	int64_t *all = (int64_t *)one->each[0].in;
	size_t count = one->length / sizeof(*all);

	if (one->type == MPI_INT) {
		int *ints = (int *)one->each[0].in;

		for (int rank = 1; rank < n; rank++)
			for (size_t i = 0; i < one->length / sizeof(int); i++) {
				int other = ((int *)one->each[rank].in)[i];

				ints[i] = ints[i] > other ? ints[i] : other; /* always MPI_MAX */
			}
		return;
	}
	for (int rank = 1; rank < n; rank++)
		for (size_t i = 0; i < count; i++) {
			int64_t other = ((int64_t *)one->each[rank].in)[i];

			if (one->op == MPI_SUM)
				all[i] += other;
			else if (one->op == MPI_MIN ? other < all[i] : other > all[i])
				all[i] = other;
		}
}

/* Adds to each rank's sum those of the ranks before it. */
static void scan(struct collective *one, int n)
{
	int64_t sum = 0;

	for (int rank = 0; rank < n; rank++) {
		sum += *(int64_t *)one->each[rank].in;
		one->each[rank].result = copy_of(&sum, sizeof(sum));
		one->each[rank].result_length = sizeof(sum);
	}
}

/* Concatenates all ranks' bytes for the root. */
static void gather_any(struct collective *one, int n)
{
	size_t length = 0, at = 0;
	uint8_t *bytes;

	for (int rank = 0; rank < n; rank++)
		length += one->each[rank].length;
	bytes = calloc(1, length + 1);
	if (!bytes)
		impossible("no memory");
	for (int rank = 0; rank < n; at += one->each[rank++].length)
		memcpy(bytes + at, one->each[rank].in, one->each[rank].length);
	one->each[one->root].result = bytes;
	one->each[one->root].result_length = length;
}

/* Makes a communicator of the ranks of one colour; -1: no communicator. With "SHARED", ranks go to
 * the nodes in turn. */
static void split(struct collective *one, int n)
{
	for (int rank = 0; rank < n; rank++)
		one->each[rank].comm = MPI_COMM_NULL;
	for (int rank = 0; rank < n; rank++) {
		int members[SIM_RANKS], ranks[SIM_RANKS], mates = 0, context;
		int color = *(int *)one->each[rank].in;

		if (color == MPI_UNDEFINED || one->each[rank].comm != MPI_COMM_NULL)
			continue;
		for (int other = rank; other < n; other++)
			if (*(int *)one->each[other].in == color) {
				ranks[mates] = other;
				members[mates++] = contexts[one->context].members[other];
			}
		context = context_new(mates, members);
		for (int i = 0; i < mates; i++)
			one->each[ranks[i]].comm = comm_of(context, i);
	}
}

static void results_make(struct collective *one)
{
	int n = contexts[one->context].n;

	if (one->rc != MPI_SUCCESS)
		return;
	if (one->kind == REDUCE)
		reduce(one, n);
	if (one->kind == DUP || one->kind == SPLIT || one->kind == SHARED)
		split(one, n);
	if (one->kind == SCAN)
		scan(one, n);
	if (one->kind == GATHER_ANY)
		gather_any(one, n);
	for (int rank = 0; rank < n; rank++) {
		uint8_t *from = one->each[one->kind == BCAST ? one->root : 0].in;

		if (one->kind == REDUCE || one->kind == BCAST) {
			one->each[rank].result = copy_of(from, one->length);
			one->each[rank].result_length = one->length;
		} else if (one->kind == GATHER) {
			one->each[rank].result = copy_of("", 0);
			one->each[rank].result = realloc(one->each[rank].result, one->length * (size_t)n + 1);
			if (!one->each[rank].result)
				impossible("no memory");
			one->each[rank].result_length = one->length * (size_t)n;
			for (int other = 0; other < n; other++)
				memcpy(one->each[rank].result + (size_t)other * one->length,
				       one->each[other].in, one->length);
		}
	}
}

static struct collective *arrive(MPI_Comm comm, enum kind kind, const void *in, void *out, size_t length,
				 int type, int op, int root)
{
	int context = sim_context(comm), rank = sim_rank(comm);
	unsigned serial = contexts[context].serial[rank]++;
	struct collective *one = collectives;

	while (one && (one->context != context || one->serial != serial))
		one = one->next;
	if (!one) {
		one = calloc(1, sizeof(*one));
		if (!one)
			impossible("no memory");
		*one = (struct collective){.next = collectives,
					   .context = context,
					   .serial = serial,
					   .kind = kind,
					   .length = length,
					   .type = type,
					   .op = op,
					   .root = root};
		collectives = one;
	} else if (one->kind != kind || (one->length != length && kind != GATHER_ANY) || one->type != type ||
		   one->op != op || one->root != root) {
		one->rc = MPI_ERR_OTHER;
	}
	one->each[rank].in = copy_of(in, length);
	one->each[rank].length = length;
	one->each[rank].out = out;
	one->arrived++;
	if (is_complete(one))
		results_make(one);
	sim_progress();
	return one;
}

bool sim_collected(struct collective *one, int rank, int *rc)
{
	bool comes = is_complete(one);

	if (!comes && !sim_is_broken())
		return false;
	*rc = comes ? one->rc : MPI_ERR_OTHER;
	result_take(one, rank, *rc);
	sim_progress();
	if (++one->looked == (unsigned)contexts[one->context].n)
		collective_free(one);
	return true;
}

void sim_uncollected(struct collective *one, int rank)
{
	one->each[rank].taken = true;
}

struct collective *sim_barrier(MPI_Comm comm)
{
	return arrive(comm, BARRIER, NULL, NULL, 0, 0, 0, 0);
}

static size_t size_of(int count, MPI_Datatype type)
{
	return (size_t)count * (type == MPI_BYTE ? 1 : type == MPI_INT ? sizeof(int) : sizeof(int64_t));
}

static int begin(struct collective *one, MPI_Comm comm, MPI_Request *request)
{
	*request = sim_request(comm, one);
	return MPI_SUCCESS;
}

int MPI_Ibcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
	return begin(arrive(comm, BCAST, bytes, bytes, size_of(count, type), type, 0, root), comm, request);
}

int MPI_Iallreduce(const void *mine, void *all, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
		   MPI_Request *request)
{
	return begin(arrive(comm, REDUCE, mine == MPI_IN_PLACE ? all : mine, all, size_of(count, type), type,
			    op, 0),
		     comm, request);
}

int MPI_Iallgather(const void *mine, int count, MPI_Datatype type, void *all, int counts,
		   MPI_Datatype types, MPI_Comm comm, MPI_Request *request)
{
	(void)counts, (void)types;
	return begin(arrive(comm, GATHER, mine, all, size_of(count, type), type, 0, 0), comm, request);
}

int MPI_Iscan(const void *mine, void *sum, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
	      MPI_Request *request)
{
	return begin(arrive(comm, SCAN, mine == MPI_IN_PLACE ? sum : mine, sum, size_of(count, type), type,
			    op, 0),
		     comm, request);
}

int sim_await(MPI_Request request)
{
	int there = 0, rc = MPI_SUCCESS;

	while (!there && rc == MPI_SUCCESS)
		rc = MPI_Test(&request, &there, MPI_STATUS_IGNORE);
	return rc;
}

int MPI_Gatherv(const void *mine, int count, MPI_Datatype type, void *all, const int counts[], const int places[],
		MPI_Datatype types, int root, MPI_Comm comm)
{
	(void)counts, (void)places, (void)types; /* the parts lie one after another */
	return sim_await(sim_request(comm, arrive(comm, GATHER_ANY, mine, all, size_of(count, type), type, 0, root)));
}

int MPI_Gather(const void *mine, int count, MPI_Datatype type, void *all, int counts, MPI_Datatype types,
	       int root, MPI_Comm comm)
{
	(void)counts;
	return MPI_Gatherv(mine, count, type, all, NULL, NULL, types, root, comm);
}

static int made(MPI_Comm comm, enum kind kind, int color, MPI_Comm *fresh)
{
	struct collective *one = arrive(comm, kind, &color, NULL, sizeof(color), 0, 0, 0);
	int rank = sim_rank(comm), rc;

	*fresh = MPI_COMM_NULL;
	/* The call's record stays until all ranks have looked. */
	while (one->arrived < (unsigned)contexts[one->context].n)
		if (!sim_look_in_vain())
			return MPI_ERR_OTHER;
	*fresh = one->rc == MPI_SUCCESS ? one->each[rank].comm : MPI_COMM_NULL;
	(void)sim_collected(one, rank, &rc);
	return rc;
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy)
{
	return made(comm, DUP, 0, copy);
}

int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *part)
{
	(void)key;
	return made(comm, SPLIT, color, part);
}

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *part)
{
	(void)type, (void)key, (void)info;
	return made(comm, SHARED, sim_rank(comm) % 2, part);
}

static int group_new(int n, const int *members)
{
	int group = 0;

	while (group < GROUPS && groups[group].used)
		group++;
	if (group == GROUPS)
		impossible("more groups than it has");
	groups[group].used = true;
	groups[group].n = n;
	memcpy(groups[group].members, members, (size_t)n * sizeof(*members));
	return group;
}

int MPI_Comm_group(MPI_Comm comm, MPI_Group *group)
{
	*group = group_new(contexts[sim_context(comm)].n, contexts[sim_context(comm)].members);
	return MPI_SUCCESS;
}

int MPI_Group_incl(MPI_Group of, int n, const int ranks[], MPI_Group *group)
{
	int members[SIM_RANKS];

	for (int i = 0; i < n; i++)
		members[i] = groups[of].members[ranks[i]];
	*group = group_new(n, members);
	return MPI_SUCCESS;
}

int MPI_Group_free(MPI_Group *group)
{
	groups[*group].used = false;
	*group = MPI_GROUP_NULL;
	return MPI_SUCCESS;
}

/* The members meet in a communicator that only the group has. */
int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *fresh)
{
	int context = 1, n = groups[group].n, me = 0;

	(void)comm, (void)tag;
	while (context < context_count &&
	       (contexts[context].n != n || !contexts[context].meets ||
		memcmp(contexts[context].members, groups[group].members, (size_t)n * sizeof(int))))
		context++;
	if (context == context_count) {
		(void)context_new(n, groups[group].members);
		contexts[context].holders = 0;
		contexts[context].meets = true;
	}
	while (groups[group].members[me] != sim_self())
		me++;
	return made(comm_of(context, me), DUP, 0, fresh);
}

int MPI_Group_from_session_pset(MPI_Session session, const char *name, MPI_Group *group)
{
	(void)session, (void)name;
	return MPI_Comm_group(MPI_COMM_WORLD, group);
}

int MPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info, MPI_Errhandler handler,
			       MPI_Comm *fresh)
{
	(void)tag, (void)info, (void)handler;
	return MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, fresh);
}

int MPI_Comm_size(MPI_Comm comm, int *ranks)
{
	*ranks = contexts[sim_context(comm)].n;
	return MPI_SUCCESS;
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
	*rank = sim_rank(comm);
	return MPI_SUCCESS;
}

int MPI_Comm_free(MPI_Comm *comm)
{
	contexts[sim_context(*comm)].holders--;
	*comm = MPI_COMM_NULL;
	return MPI_SUCCESS;
}

int MPI_Comm_set_errhandler(MPI_Comm comm, MPI_Errhandler handler)
{
	(void)comm, (void)handler;
	return MPI_SUCCESS;
}
