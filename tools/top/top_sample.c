/* SPDX-License-Identifier: OLDAP-2.8 */
/* Samples the processes that read through lmdbio on this node, and computes rates between two
 * samples. */
#include "top_sample.h"

#include "node/node_socket.h"
#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS_FIRST = 256, MEMORIES = 4096 };

struct top_sampler {
	struct stats_process *now, *before; /* by owner */
	size_t room, count, count_before;
	uint64_t at, at_before; /* ns */
	struct top_row *rows;
};

struct top_sampler *top_sampler_open(void)
{
	return calloc(1, sizeof(struct top_sampler));
}

void top_sampler_close(struct top_sampler *sampler)
{
	if (!sampler)
		return;
	free(sampler->now);
	free(sampler->before);
	free(sampler->rows);
	free(sampler);
}

/* --- processes -------------------------------------------------------------------------------- */

static int owner_compare(const void *a, const void *b)
{
	const struct stats_process *left = a, *right = b;

	return left->owner < right->owner ? -1 : left->owner > right->owner;
}

static int room_make(struct top_sampler *sampler, size_t room)
{
	void *now = reallocarray(sampler->now, room, sizeof(*sampler->now)), *before, *rows;

	if (now)
		sampler->now = now;
	before = reallocarray(sampler->before, room, sizeof(*sampler->before));
	if (before)
		sampler->before = before;
	/* One more row, for the server. */
	rows = reallocarray(sampler->rows, room + 1, sizeof(*sampler->rows));
	if (rows)
		sampler->rows = rows;
	if (!now || !before || !rows)
		return ENOMEM;
	sampler->room = room;
	return 0;
}

/* Reads all processes, sorted by owner. The processes read before move to sampler->before. */
static int processes_read(struct top_sampler *sampler, unsigned *others)
{
	struct stats_process *rows = sampler->now;
	int rc;

	sampler->now = sampler->before;
	sampler->before = rows;
	sampler->count_before = sampler->count;
	sampler->at_before = sampler->at;
	sampler->count = 0;
	if (!sampler->room && (rc = room_make(sampler, ROWS_FIRST)))
		return rc;
	for (;;) {
		size_t found = stats_node_read(sampler->now, sampler->room, others);

		sampler->at = clock_now();
		if (found <= sampler->room) {
			sampler->count = found;
			break;
		}
		rc = room_make(sampler, 2 * found);
		if (rc)
			return rc;
	}
	qsort(sampler->now, sampler->count, sizeof(*sampler->now), owner_compare);
	return 0;
}

/* --- rates ------------------------------------------------------------------------------------ */

struct span {
	const struct stats_process *now, *before; /* before: NULL if it was not seen */
	double seconds;
};

static double grown(const struct span *span, enum stats_counter counter)
{
	uint64_t before = span->before ? span->before->counters[counter] : 0;
	uint64_t now = span->now->counters[counter];

	return now > before ? (double)(now - before) : 0;
}

static double rate(const struct span *span, enum stats_counter counter)
{
	return span->seconds > 0 ? grown(span, counter) / span->seconds : 0;
}

static double seconds_between(uint64_t from, uint64_t to)
{
	return to > from ? (double)(to - from) / 1e9 : 0;
}

static struct span span_of(const struct top_sampler *sampler, const struct stats_process *now)
{
	struct span span = {.now = now};

	if (sampler->count_before)
		span.before = bsearch(now, sampler->before, sampler->count_before, sizeof(*now),
				      owner_compare);
	span.seconds = seconds_between(span.before ? sampler->at_before : now->opened_ns,
				       now->lives || span.before ? sampler->at : now->seen_ns);
	return span;
}

static double between(double value, double least, double most)
{
	return value > most ? most : value > least ? value : least;
}

/* Returns the seconds that a process's reading threads had in a span. */
static double could_wait(const struct span *span)
{
	uint64_t threads = span->now->waiters;

	return span->seconds * (double)(threads ? threads : 1);
}

static uint64_t whole_count(uint64_t value)
{
	return value > INT64_MAX ? 0 : value;
}

static struct top_row row_of(const struct span *span)
{
	const struct stats_process *now = span->now;
	double could = could_wait(span);
	struct top_row row = {
		.pid = stats_owner_pid(now->owner),
		.server = now->kind == STATS_SERVER_KIND,
		.lives = now->lives,
		.storage = rate(span, STATS_STORAGE_BYTES),
		.values = rate(span, STATS_SERVED_BYTES),
		.requests = rate(span, STATS_STORAGE_REQUESTS),
		/* A process that was killed amid its reads may have left a negative number. */
		.queue = now->lives ? whole_count(now->queue) : 0,
		.sets = now->lives ? whole_count(now->environments) : 0,
		.sources = {[TOP_CACHE] = rate(span, STATS_HITS_CACHE),
			    [TOP_OWN] = rate(span, STATS_HITS_ARENA_OWN),
			    [TOP_OTHERS] = rate(span, STATS_HITS_ARENA_PEER),
			    [TOP_MAP] = rate(span, STATS_AT_REST)},
	};

	/* A wait counts when it ends, and may have begun before the span. */
	row.waited = could > 0 ? between(grown(span, STATS_WAIT_NS) / 1e9 / could, 0, 1) : 0;
	memcpy(row.program, now->program, sizeof(row.program));
	row.program[sizeof(row.program) - 1] = 0;
	return row;
}

static void all_add(struct top_row *all, const struct top_row *row)
{
	all->storage += row->storage;
	all->values += row->values;
	all->requests += row->requests;
	all->queue += row->queue;
	all->sets += row->sets;
	for (unsigned i = 0; i < TOP_SOURCES; i++)
		all->sources[i] += row->sources[i];
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Returns whether a descriptor of a process is memory with bytes of data sets. */
static bool is_arena(int directory, const char *name)
{
	static const char *const links[] = {"/memfd:lmdbio (deleted)",
					    "/memfd:lmdbio-private (deleted)"};
	char target[64];
	ssize_t length = readlinkat(directory, name, target, sizeof(target) - 1);

	if (length < 0)
		return false;
	target[length] = 0;
	return !strcmp(target, links[0]) || !strcmp(target, links[1]);
}

struct memories {
	ino_t seen[MEMORIES];
	size_t count;
	uint64_t used;
};

static void memory_add(struct memories *memories, int directory, const char *name)
{
	struct stat st;

	if (!is_arena(directory, name) || fstatat(directory, name, &st, 0))
		return;
	for (size_t i = 0; i < memories->count; i++)
		if (memories->seen[i] == st.st_ino)
			return;
	if (memories->count == MEMORIES)
		return;
	memories->seen[memories->count++] = st.st_ino;
	memories->used += (uint64_t)st.st_blocks * 512;
}

static void memories_of(struct memories *memories, int64_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			memory_add(memories, dirfd(directory), entry->d_name);
	closedir(directory);
}

/* --- the node's server ------------------------------------------------------------------------ */

/* Returns the server's process, of this user; 0: none. */
static int64_t server_find(void)
{
	int fd = node_connect(getenv("LMDBIO_NODE"));
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return 0;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		peer.pid = 0;
	close(fd);
	return peer.pid;
}

/* Makes the row of a server that has not opened a data set yet. */
static struct top_row server_row(int64_t pid)
{
	struct top_row row = {.pid = pid, .server = true, .lives = true};
	char path[64], *end;
	FILE *name;

	snprintf(path, sizeof(path), "/proc/%lld/comm", (long long)pid);
	name = fopen(path, "re");
	if (!name || !fgets(row.program, sizeof(row.program), name))
		snprintf(row.program, sizeof(row.program), "?");
	end = strchr(row.program, '\n');
	if (end)
		*end = 0;
	if (name)
		fclose(name);
	return row;
}

/* --- a sample -------------------------------------------------------------------------------- */

struct sampling {
	struct top_sample *sample;
	struct memories memories;
	double could, waited; /* seconds */
};

static void look_add(struct sampling *look, const struct span *span, bool server)
{
	struct top_sample *sample = look->sample;
	struct top_row row = row_of(span);

	row.server |= server;
	sample->rows[sample->count++] = row;
	all_add(&sample->all, &row);
	if (grown(span, STATS_WAITS) > 0 || span->now->waiters) {
		look->could += could_wait(span);
		look->waited += row.waited * could_wait(span);
	}
	if (!row.lives)
		return;
	sample->readers += !row.server;
	sample->servers += row.server;
	if (sample->budget < span->now->budget)
		sample->budget = span->now->budget;
	memories_of(&look->memories, row.pid);
}

int top_look(struct top_sampler *sampler, struct top_sample *sample)
{
	struct sampling *look = calloc(1, sizeof(*look));
	int64_t server = server_find();
	int rc = ENOMEM;

	*sample = (struct top_sample){.rows = NULL};
	if (!look || (rc = processes_read(sampler, &sample->others)))
		goto done;
	look->sample = sample;
	sample->rows = sampler->rows;
	for (size_t i = 0; i < sampler->count; i++) {
		const struct stats_process *now = &sampler->now[i];
		struct span span = span_of(sampler, now);
		bool serves = now->lives && stats_owner_pid(now->owner) == server;

		/* Of ended processes: their work since the last sample. */
		if (now->lives || (span.before && span.before->lives))
			look_add(look, &span, serves);
		if (serves)
			server = 0;
	}
	if (server) {
		sample->rows[sample->count++] = server_row(server);
		sample->servers++;
	}
	sample->all.waited = look->could > 0 ? look->waited / look->could : 0;
	sample->used = look->memories.used;
done:
	free(look);
	return rc;
}
