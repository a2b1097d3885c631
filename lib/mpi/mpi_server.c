/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves a node while the process's work goes on: decides when the server looks and when it sleeps,
 * and ends all servers together.
 *
 * The server is one more member of each arena that the node's processes have. It takes their wishes
 * and brings chunks. A chunk has an owner among the nodes. Only the owner's server reads the chunk
 * from storage, keeps it, and hands it to the other servers. No process depends on the server: a
 * member whose wish is not fulfilled in time reads storage, and so does a server whose peer does
 * not answer in time. */
#include "config.h"
#include "mpi/module_parts.h"

#include "mpi/mpi_job.h"
#include "mpi/mpi_over.h"
#include "mpi/mpi_wait.h"
#include "mpi/server_private.h"

#include "node/node_socket.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. NAP_DEEP: members wake the server for their wishes from naps of this length on.
 * NAP_LOOK: the longest nap if the program is to be looked at often. */
enum { NAP_DEEP = 500000, NAP_LOOK = 4000000 };
/* Nanoseconds. trim_every: from one search for unused sets to the next; trim_idle: while nothing
 * else wakes the server. room_patience: how long queued loads of named sets wait for room. */
static const uint64_t trim_every = 1000000000, trim_idle = 10000000000, room_patience = 1000000000;

RANK_STATIC struct server *server; /* of this process, or NULL */
RANK_STATIC int begun;             /* what serve_begin() returned */
RANK_STATIC uint64_t room_since;   /* ns: when a chunk of a named set was last on its way */

/* One line for each data set, with LMDBIO_VERBOSE. */
static void server_tell(const struct server *serving)
{
	static char text[NODE_TEXT];
	char *line = text, *end;

	text[server_sets_report(serving, text, sizeof(text))] = 0;
	for (; (end = strchr(line, '\n')); line = end + 1)
		log_line("%.*s", (int)(end - line), line);
}

static void server_free(struct server *serving)
{
	static _Atomic(struct server *) left; /* servers whose memory MPI may still read or write */

	server_door_close(serving);
	if (serving->wire.broken) {
		serving->left = atomic_exchange(&left, serving);
		return;
	}
	server_sets_close(serving);
	while (serving->spare) {
		struct server_buffer *buffer = serving->spare;

		serving->spare = buffer->next;
		io_buffer_free(buffer->bytes, ARENA_CHUNK);
		free(buffer);
	}
	if (serving->comm != MPI_COMM_NULL)
		MPI_Comm_free(&serving->comm);
	wire_close(&serving->wire);
	pace_close(&serving->pace);
	free(serving);
}

/* Says why a named set is not served. */
static const char *refusal_text(int rc)
{
	if (rc < 0)
		return "no LMDB data set: lmdbio-check says why";
	return rc == ENOSPC ? "this node's memory budget leaves less than 12 MiB for it: give it "
			      "more (LMDBIO_MEMORY)"
			    : strerror(rc);
}

static int server_make(const struct mpi_work *work, const struct mpi_job *job)
{
	int rc;

	server = calloc(1, sizeof(*server));
	rc = server ? 0 : ENOMEM;
	/* The nodes agree first, so that none waits in the calls that follow for a node without
	 * memory. */
	if (job->place.nodes > 1)
		rc = mpi_agree(job->leaders, rc, NULL);
	if (rc) {
		free(server);
		server = NULL;
		return rc;
	}
	server->node = work->node;
	server->place = job->place;
	server->comm = MPI_COMM_NULL;
	server->epoll = server->listener = -1;
	if (job->place.nodes > 1)
		rc = mpi_comm_dup(job->leaders, &server->comm);
	rc = rc == MPI_SUCCESS ? 0 : EIO;
	if (!rc && server->comm != MPI_COMM_NULL)
		rc = server_peers_open(server, server->comm);
	if (!rc)
		rc = server_door_open(server);
	for (const char *const *path = work->paths; !rc && path && *path; path++) {
		int failed = server_set_open(server, *path);

		server->unopened = server->unopened ? server->unopened : failed;
		if (failed && !work->fills)
			log_line("%s: not served: %s", *path, refusal_text(failed));
	}
	return rc;
}

/* A server that the node's programs cannot reach still answers its peers. */
int mpi_server_begin(struct mpi_work *work)
{
	RANK_STATIC char name[MPI_NODE_NAME];
	const struct mpi_job *job = mpi_job_get();
	int rc;

	mpi_node_name(job, name);
	if (!work->node)
		work->node = name;
	rc = job->place.node_rank ? 0 : server_make(work, job);
	(void)mpi_job_tell_node(job, &rc);
	begun = rc;
	return rc;
}

static bool server_step(uint64_t now)
{
	RANK_STATIC uint64_t trimmed;
	bool any = server_peers_step(server, now);

	any |= server_loads_step(server, now);
	if (now - trimmed > trim_every) {
		trimmed = now;
		server_sets_trim(server);
		/* Another server may have had the node's name till now, or descriptors may have
		 * been short. */
		if (server->listener < 0)
			(void)server_door_open(server);
	}
	return any;
}

/* Tells all arenas that the server sleeps, or has woken. Returns false if there are wishes. */
static bool sets_sleep(bool asleep)
{
	for (struct server_set *set = server->sets; set; set = set->next)
		if (set->serving && !arena_serve_sleeps(set->arena, asleep) && asleep)
			return false;
	return true;
}

/* Sleeps at most `ns`, until there is something to look at. */
static void nap(const struct mpi_work *work, uint64_t ns)
{
	struct pollfd ready[2] = {{.fd = work->fd, .events = POLLIN},
				  {.fd = server ? server->epoll : -1, .events = POLLIN}};
	bool deep = server && ns >= NAP_DEEP;

	if (deep && !sets_sleep(true))
		ns = 0;
	(void)clock_poll(ready, 2, ns);
	if (deep)
		(void)sets_sleep(false);
	if (server && ready[1].revents)
		server_door_step(server);
}

/* Returns how long to sleep after a step. `polls`: some events do not wake the server. */
static uint64_t nap_length(const struct mpi_work *work, bool any, bool polls, struct mpi_nap *rest)
{
	bool idle = !server || server_is_idle(server);
	uint64_t ns;

	/* Members wake the server. Without peers, only the files of its sets need a look. */
	if (!any && !polls && idle && (!server || server->comm == MPI_COMM_NULL)) {
		*rest = (struct mpi_nap){0};
		return !server                ? UINT64_MAX
		       : server->listener < 0 ? trim_every
		       : server->sets         ? trim_idle
					      : UINT64_MAX;
	}
	ns = mpi_nap_next(rest, any, idle ? NAP_IDLE : NAP_BUSY);
	return work->looks_often && ns > NAP_LOOK ? NAP_LOOK : ns;
}

/* Steps and sleeps until all ranks have come (`all`), or done() says so, or (both NULL) the work is
 * over. */
static void serve_until(const struct mpi_work *work, struct mpi_over *all,
			bool (*done)(const struct mpi_work *work))
{
	struct mpi_nap rest = {0};
	bool polls = work->looks_often || all || done;

	for (;;) {
		/* Calls look() each time: data that has come on work->fd would end every sleep. */
		bool over = work->look(work->context), any = server && server_step(clock_now());
		uint64_t ns;

		if (all ? mpi_over_look(all) : done ? done(work) : over || (server && server->stopped))
			return;
		ns = nap_length(work, any, polls, &rest);
		if (ns)
			nap(work, ns);
	}
}

/* Serves until all ranks have come. Returns 0, or EIO: MPI fails, and other ranks may wait for this
 * rank. */
static int serve_until_all(const struct mpi_work *work, enum mpi_over_tag tag)
{
	struct mpi_over all;

	mpi_over_begin(&all, mpi_job_get(), tag);
	serve_until(work, &all, NULL);
	return all.rc == MPI_SUCCESS ? 0 : EIO;
}

/* Whether this node's parts of the named sets have come, or will not come. */
static bool is_filled(const struct mpi_work *work)
{
	if (!server || work->look(work->context) || server_sets_failed(server))
		return true;
	/* Loads that are queued and cannot be started lack room. */
	if (server->under_way || !server->ahead.first)
		room_since = clock_now();
	return server_sets_are_brought(server) ||
	       clock_now() - room_since > settings_patience(room_patience);
}

static void fill_report(struct lmdbio_stage_report *report, uint64_t began, int failed)
{
	const struct mpi_job *job = mpi_job_get();
	uint64_t sums[3] = {0}; /* bytes and requests that were read; bytes of the data */

	for (const struct server_set *set = server ? server->sets : NULL; set; set = set->next) {
		sums[0] += set->counts.read_bytes;
		sums[1] += set->counts.read_requests;
		sums[2] += set->lasting && !job->place.rank ? set->identity.size : 0;
	}
	(void)mpi_allreduce(MPI_IN_PLACE, sums, 3, MPI_UINT64_T, MPI_SUM, job->all);
	*report = (struct lmdbio_stage_report){
		.size = sizeof(*report),
		.file_bytes = sums[2],
		.read_bytes = sums[0],
		.read_calls = sums[1],
		.wall_ns = clock_now() - began,
		.group = (uint64_t)job->place.nodes,
		.ranks = (uint64_t)job->place.ranks,
		.nodes = (uint64_t)job->place.nodes,
		.failed_rank = (uint64_t)failed,
	};
}

/* Returns ESTALE if this node's named sets are other ones than the first node's. Each node would
 * bring its part of its own, and no node the rest. */
static int same_sets(const struct mpi_job *job)
{
	uint64_t mine = server ? server_sets_hash(server) : 0;

	return mpi_same(job->all, &mine, sizeof(mine), server ? ESTALE : 0);
}

/* No rank waits in MPI while another rank may ask it for chunks. */
int mpi_server_fill(const struct mpi_work *work, struct lmdbio_stage_report *report)
{
	const struct mpi_job *job = mpi_job_get();
	uint64_t began = clock_now();
	int failed, rc = begun, same = same_sets(job);

	room_since = began;
	if (server)
		server->filling = true;
	if (!rc && server)
		rc = server->unopened ? server->unopened : same ? same : server_sets_fit(server);
	rc = mpi_agree(job->all, rc, &failed);
	if (!rc) {
		serve_until(work, NULL, is_filled);
		/* The other ranks wait for this rank's message, and would not come to the next
		 * collective call. */
		if (serve_until_all(work, OVER_FILLED))
			return ECONNABORTED;
		rc = work->look(work->context) ? EINTR : server ? server_sets_lack(server) : 0;
		rc = mpi_agree(job->all, rc, &failed);
	}
	fill_report(report, began, failed);
	if (server)
		server->filling = false;
	return rc;
}

static bool is_over(const struct mpi_work *work)
{
	(void)work;
	return server_is_idle(server) && server_peers_are_over(server);
}

/* Ends in three steps: all work is over; every server has what it has asked for; no server asks any
 * more. */
int mpi_server_run(const struct mpi_work *work)
{
	int rc;

	serve_until(work, NULL, NULL);
	if (work->together && server)
		server_stop_peers(server);
	rc = serve_until_all(work, OVER_SERVED);
	if (!server)
		return rc;
	server->ending = true;
	if (!rc)
		serve_until(work, NULL, is_over);
	if (settings_get()->verbose)
		server_tell(server);
	server->wire.broken = server->wire.broken || rc;
	server_free(server);
	server = NULL;
	return rc;
}
