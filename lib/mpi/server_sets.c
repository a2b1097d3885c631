/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens the data sets of a server, and checks that they are what its members and its peers mean. */
#include "config.h"
#include "mpi/server_private.h"

#include "container/container.h"
#include "env/staged.h"
#include "format/layout.h"
#include "format/meta.h"
#include "mpi/stage_source.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/memory.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUDGET_LEAST = 12 << 20, UNPACKED = 64 << 20 /* bytes */, SET_DESCRIPTORS = 8 };
static const uint64_t idle_ns = 10000000000;

/* Identifies the file and the data in it, and opens the io that reads the data. Returns 0 or an
 * errno. */
static int set_read(struct server_set *set)
{
	/* A container's chunk may be larger than what a load reads. The cache keeps several such
	 * chunks for the next loads. */
	const struct container_options options = {.cache = UNPACKED};
	const struct container_info *info;
	struct staged_original original;
	const char *backend, *why;
	int rc = staged_identify(set->fd, &original);

	if (!rc)
		rc = io_open_chosen(&set->file, set->fd, settings_get()->io, &backend, &why);
	if (rc)
		return rc < 0 ? EINVAL : rc; /* an LMDB code */
	set->original = set->identity = original.identity;
	set->packed = !original.page_size;
	if (!set->packed)
		return 0;
	rc = io_open_container(&set->data, &set->file, &options);
	if (rc)
		return rc < 0 ? EINVAL : rc;
	info = container_info(&set->data);
	set->identity.size = info->size;
	set->identity.snapshot = load64(info->meta + (META_TXNID - META_MAGIC));
	return info->has_meta ? 0 : EINVAL; /* no program can open the data */
}

static void set_free(struct server_set *set)
{
	arena_close(set->arena);
	server_part_close(set);
	io_close(&set->data);
	io_close(&set->file);
	if (set->fd >= 0)
		close(set->fd);
	free(set->sums);
	free(set->path);
	free(set);
}

bool server_set_holds(const struct server_set *set)
{
	struct stat st;

	return !fstat(set->fd, &st) && identity_holds(&set->original, &st) &&
	       (uint64_t)st.st_size == set->original.size;
}

/* Joins or makes the node's arena of the set. */
static int set_attach(struct server *server, struct server_set *set)
{
	struct arena_options options = {
		.budget = memory_budget(settings_get()), .node = server->node, .share = true};
	uint64_t nodes = (uint64_t)server->place.nodes;
	const char *why;
	int rc = arena_open(&set->arena, &set->identity, &options, &why);

	if (rc)
		return rc;
	if (why)
		return ENOTSUP; /* memory that no other process sees */
	if (arena_budget(set->arena) < BUDGET_LEAST)
		return ENOSPC; /* members would only wait for room */
	/* Leaves room for the copies that are in use. */
	rc = arena_serve(set->arena, nodes > 1 ? arena_chunks(set->arena) / nodes + 1 : 0,
			 set->identity.size / nodes <= arena_budget(set->arena) / 8 * 7);
	set->serving = !rc;
	/* The memory is not touched before a chunk is sent. */
	set->sums = rc ? NULL : calloc(arena_chunks(set->arena), sizeof(*set->sums));
	return rc ? rc : set->sums ? 0 : ENOMEM;
}

void server_sets_starve(struct server *server)
{
	server->starved = server->starved || !descriptors_free(SET_DESCRIPTORS);
}

/* Makes the set of a descriptor, which it takes in any case. `identity`: the job form that the set
 * must have, or NULL. */
static int set_make(struct server *server, int fd, const struct identity *identity,
		    struct server_set **made)
{
	struct server_set *set = calloc(1, sizeof(*set));
	char name[64], path[SERVER_PATH];
	ssize_t length;
	int rc = ENOMEM;

	if (!set) {
		close(fd);
		return rc;
	}
	/* A program that uses MPI may close descriptors that it did not open, but seldom high
	 * ones. */
	set->fd = fd = descriptor_lift(fd);
	set->part.fd = -1;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	length = readlink(name, path, sizeof(path) - 1);
	if (length > 0) {
		path[length] = 0;
		set->path = strdup(path);
	}
	if (set->path)
		rc = set_read(set);
	if (!rc && identity && !identity_equal_job(&set->identity, identity))
		rc = ESTALE;
	if (!rc)
		rc = set_attach(server, set);
	if (rc) {
		server_sets_starve(server);
		set_free(set);
		return rc;
	}
	set->spread = (struct chunk_spread){
		.place = chunk_spread_place(set->identity.inode, set->identity.mtime_ns),
		.size = set->identity.size,
		.unit = chunk_spread_unit(set->packed ? container_info(&set->data)->chunk_size : 1),
		.nodes = server->place.nodes,
	};
	server_part_open(server, set);
	set->used_at = clock_now();
	set->next = server->sets;
	server->sets = *made = set;
	return 0;
}

int server_set_join(struct server *server, int fd, const struct identity *identity,
		    struct server_set **found)
{
	for (struct server_set *set = server->sets; set; set = set->next)
		if (identity_equal(&set->identity, identity)) {
			close(fd);
			*found = set;
			return 0;
		}
	return set_make(server, fd, identity, found);
}

/* Finds the set of a file that was named before, by this path or another. Returns NULL if there is
 * none. */
static struct server_set *named_before(const struct server *server, int fd)
{
	struct server_set *set = server->sets;
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	while (set && (set->identity.device != st.st_dev || set->original.inode != st.st_ino ||
		       !server_set_holds(set)))
		set = set->next;
	return set;
}

int server_set_open(struct server *server, const char *path)
{
	struct server_set *set;
	char *name;
	int fd, rc = stage_file_open(path, &fd, &name);

	free(name);
	if (rc) {
		server_sets_starve(server);
		return rc;
	}
	if (named_before(server, fd)) {
		close(fd);
		return 0;
	}
	rc = set_make(server, fd, NULL, &set);
	if (!rc)
		set->lasting = true;
	return rc;
}

uint64_t server_sets_hash(const struct server *server)
{
	uint64_t hash = 0;

	for (const struct server_set *set = server->sets; set; set = set->next) {
		struct identity job = identity_job(&set->identity);
		struct exchange_run run = {(uint8_t *)&job, sizeof(job)};

		if (set->lasting)
			hash = exchange_sum(&run, 1, hash);
	}
	return hash;
}

int server_sets_fit(const struct server *server)
{
	for (const struct server_set *set = server->sets; set; set = set->next) {
		uint64_t budget = arena_budget(set->arena);

		/* Beside its own part, a node needs room for chunks of other nodes. */
		if (server->place.nodes > 1)
			budget = budget / 4 * 3;
		if (set->lasting && chunk_spread_bytes(&set->spread, server->place.node) > budget)
			return ENOSPC;
	}
	return 0;
}

int server_sets_failed(const struct server *server)
{
	for (const struct server_set *set = server->sets; set; set = set->next)
		if (set->lasting && set->failed)
			return set->failed;
	return 0;
}

bool server_sets_are_brought(const struct server *server)
{
	for (const struct server_set *set = server->sets; set; set = set->next)
		if (set->lasting && set->next_own < arena_chunks(set->arena))
			return false;
	return server_is_idle(server);
}

int server_sets_lack(const struct server *server)
{
	int rc = server_sets_failed(server);

	for (const struct server_set *set = server->sets; set && !rc; set = set->next)
		for (uint64_t chunk = 0; set->lasting && chunk < arena_chunks(set->arena); chunk++)
			if (server_owner(set, chunk) == server->place.node &&
			    server_missing(set, chunk))
				return ENOSPC;
	return rc;
}

struct server_set *server_set_find(struct server *server, const char *path,
				   const struct identity *identity)
{
	struct server_set *set;
	int fd;

	for (set = server->sets; set; set = set->next)
		if (identity_equal_job(&set->identity, identity) && !strcmp(set->path, path))
			return set;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		server_sets_starve(server);
	return fd < 0 || set_make(server, fd, identity, &set) ? NULL : set;
}

void server_sets_close(struct server *server)
{
	while (server->sets) {
		struct server_set *set = server->sets;

		server->sets = set->next;
		set_free(set);
	}
}

/* A text of lines in a buffer that may be too small for all of them. */
struct lines {
	char *text;
	size_t size, used, missing; /* bytes, bytes, lines */
};

enum { LINES_LAST = 48 /* bytes of the line that says how many lines are missing */ };

/* Adds a line, or only counts it if it does not fit. */
__attribute__((format(printf, 2, 3))) static void lines_add(struct lines *lines, const char *format,
							    ...)
{
	va_list values;
	int n;

	va_start(values, format);
	n = vsnprintf(lines->text + lines->used, lines->size - lines->used, format, values);
	va_end(values);
	if (lines->missing || n < 0 || lines->used + (size_t)n + LINES_LAST > lines->size)
		lines->missing++;
	else
		lines->used += (size_t)n;
}

static size_t lines_end(struct lines *lines)
{
	if (lines->missing)
		lines->used += (size_t)snprintf(lines->text + lines->used, LINES_LAST,
						"... and %zu more\n", lines->missing);
	return lines->used;
}

size_t server_sets_report(const struct server *server, char *text, size_t size)
{
	struct lines lines = {.text = text, .size = size};

	for (const struct server_set *set = server->sets; set; set = set->next)
		lines_add(&lines,
			  "%s: node %d of %d holds %" PRIu64 " of %" PRIu64 " MiB; %" PRIu64
			  " MiB from storage in %" PRIu64 " requests, %" PRIu64
			  " MiB from the local disk (%" PRIu64
			  " chunks were not had there), %" PRIu64 " MiB from other nodes, %" PRIu64
			  " MiB straight into huge pages, %" PRIu64 " MiB to other nodes; %" PRIu64
			  " chunks read past a late node, %" PRIu64 " left to the programs\n",
			  set->path, server->place.node, server->place.nodes,
			  arena_used(set->arena) >> 20, set->identity.size >> 20,
			  set->counts.read_bytes >> 20, set->counts.read_requests,
			  set->counts.local_bytes >> 20, set->counts.missed,
			  set->counts.asked_bytes >> 20, set->counts.placed_bytes >> 20,
			  set->counts.answered_bytes >> 20, set->counts.alone, set->counts.refused);
	return lines_end(&lines);
}

size_t server_sets_table(const struct server *server, char *text, size_t size)
{
	struct lines lines = {.text = text, .size = size};

	lines_add(&lines, "%-7s %8s %8s %8s %8s %8s %9s %8s %8s %8s %8s %8s  %s\n", "NODE", "HELD",
		  "OF MiB", "STORAGE", "REQUESTS", "DISK", "NOT THERE", "PEERS", "HUGE", "TO PEERS",
		  "LATE", "LEFT", "DATA SET");
	for (const struct server_set *set = server->sets; set; set = set->next) {
		const struct server_counts *counts = &set->counts;
		char node[24];

		snprintf(node, sizeof(node), "%d/%d", server->place.node, server->place.nodes);
		lines_add(&lines,
			  "%-7s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64
			  " %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64
			  " %8" PRIu64 "  %s\n",
			  node, arena_used(set->arena) >> 20, set->identity.size >> 20,
			  counts->read_bytes >> 20, counts->read_requests,
			  counts->local_bytes >> 20, counts->missed, counts->asked_bytes >> 20,
			  counts->placed_bytes >> 20, counts->answered_bytes >> 20, counts->alone,
			  counts->refused, set->path);
	}
	return lines_end(&lines);
}

static bool is_in_use(const struct server *server, const struct server_set *set, uint64_t now)
{
	return set->clients || set->loads || now - set->used_at < idle_ns ||
	       (set->lasting && server->filling) || server_peers_use(server, set);
}

/* Whether the set's file has been changed or deleted. No program comes to such a set any more, and
 * the set's descriptor keeps a deleted file on its disk. The look may ask a network file system. */
static bool is_stale(struct server_set *set, uint64_t now)
{
	if (now - set->looked_at < idle_ns)
		return false;
	set->looked_at = now;
	return !server_set_holds(set);
}

void server_sets_trim(struct server *server)
{
	uint64_t used = 0, budget = memory_budget(settings_get()), now = clock_now();
	bool any = false;

	/* Trims before other arenas are short of room, because these have no more than is left. */
	budget -= budget / 8;
	for (const struct server_set *set = server->sets; set; set = set->next)
		used += arena_used(set->arena);
	for (struct server_set **link = &server->sets, *set; (set = *link);) {
		bool lacks = used > budget || server->starved;

		if (is_in_use(server, set, now) ||
		    ((!lacks || set->lasting) && !is_stale(set, now))) {
			link = &set->next;
			continue;
		}
		used -= arena_used(set->arena);
		*link = set->next;
		set_free(set);
		any = true;
	}
	server->starved = server->starved && !any;
}

uint64_t server_chunk_length(const struct server_set *set, uint64_t chunk)
{
	uint64_t left = set->identity.size - chunk * ARENA_CHUNK;

	return left < ARENA_CHUNK ? round_up(left, ARENA_BLOCK) : ARENA_CHUNK;
}

int server_owner(const struct server_set *set, uint64_t chunk)
{
	return chunk_spread_owner(&set->spread, chunk * ARENA_CHUNK);
}
