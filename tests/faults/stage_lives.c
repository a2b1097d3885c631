/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stagings of a job of two nodes over simulated MPI, a life each: right copies on all nodes, or one code on all ranks
 * and nothing left.
 *
 * The second staging of a life finds what the first has made. */
#include "config.h"
#include "life.h"

#include "library_calls.h"
#include "mpi_simulated.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "container_write.h"
#include "env_fixture.h"

#include "arena/arena.h"
#include "env/staged.h"
#include "mpi/part_file.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 4, NODES = 2, RECORDS = 500, VALUE = 5000, BUFFER = 256 << 10 };

/* As stage.c has it. */
struct lmdbio_stage_hold {
	struct arena *arena;
};

static struct {
	struct place place;
	char scratch[200], directory[NODES][220], packed[220];
	uint8_t *bytes; /* of the data file */
	size_t length;
	const char *path; /* of what is staged now */
	enum lmdbio_stage_reader reader;
	bool gives_up; /* the caller ends it */
	bool fails;    /* no copy can be sealed */
	struct lmdbio_stage_options options;
	int rc[RANKS];
	struct lmdbio_stage_hold *holds[RANKS];
} job;

static size_t value_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] = (i * VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return VALUE;
}

static void rank_run(void *context, int rank)
{
	struct lmdbio_stage_options options = job.options;

	(void)context;
	options.directory = job.directory[options.target == LMDBIO_STAGE_SHARED ? 0 : rank % NODES];
	options.hold = &job.holds[rank];
	job.rc[rank] = lmdbio_mpi_stage(sim_comm(rank), job.path, &options);
}

static bool is_code(int rc)
{
	static const int codes[] = {EIO, ENOMEM, EMFILE, EAGAIN, ENOSPC, EFBIG, ENOLCK, ESTALE};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (rc == codes[i])
			return true;
	return false;
}

static bool holds_all(const struct arena *arena)
{
	size_t metas = 2 * (size_t)ARENA_BLOCK, blocks = (job.length - metas) / ARENA_BLOCK;

	return arena_present(arena, 2, blocks) &&
	       !memcmp(arena_bytes(arena) + metas, job.bytes + metas, blocks * ARENA_BLOCK);
}

static bool copy_is_right(const char *directory)
{
	struct staged_original original;
	int from = open(job.path, O_RDONLY | O_CLOEXEC), fd = -1;
	uint8_t *bytes = malloc(job.length);
	char *path = NULL;
	bool right, found;

	if (from < 0 || !bytes)
		abort();
	found = !staged_identify(from, &original) && !staged_open(directory, &original, &path, &fd);
	/* The name of a copy follows from what the kernel tells of the original: what it does not tell hides the copy. */
	right = !found ? calls_failing() && strstr(calls_failing(), "fstat") :
		pread(fd, bytes, job.length, 0) == (ssize_t)job.length &&
		!memcmp(bytes, job.bytes, job.length);
	close(from);
	if (fd >= 0)
		close(fd);
	free(path);
	free(bytes);
	return right;
}

/* Of a part, what its head says of the bytes. */
static bool part_is_right(int node)
{
	struct part_identity identity = {.node = node, .nodes = NODES, .size = job.length};
	struct staged_original original;
	int from = open(job.path, O_RDONLY | O_CLOEXEC);
	struct part_file part;
	bool right;

	right = from >= 0 && !staged_identify(from, &original);
	close(from);
	identity.original = original.identity;
	right = right && !part_file_open(&part, job.directory[node], &identity);
	if (right)
		part_file_close(&part);
	return right;
}

static unsigned files_left(void)
{
	char command[300];
	unsigned n = 0;
	FILE *list;

	snprintf(command, sizeof(command), "find '%s'/node* -type f | wc -l", job.scratch);
	list = popen(command, "r");
	if (!list || fscanf(list, "%u", &n) != 1)
		abort();
	pclose(list);
	return n;
}

static void judge(void)
{
	for (int rank = 0; rank < RANKS; rank++)
		if (job.rc[rank] != job.rc[0] && job.rc[rank])
			lives_end(WRONG_CODE, "one code on all ranks", job.rc[rank]);
	if (job.rc[0] == ECANCELED && job.gives_up)
		return;
	if (job.rc[0] == EIO && job.fails)
		return;
	if (!job.rc[0] && (job.gives_up || job.fails))
		lives_end(WRONG_CODE, "a staging that was given up", 0);
	if (job.rc[0] && (lives_strict || !is_code(job.rc[0])))
		lives_end(WRONG_CODE, "a staging", job.rc[0]);
	if (job.rc[0]) {
		lives_failed = true;
		return;
	}
	for (int rank = 0; rank < RANKS; rank++) {
		enum lmdbio_stage_target target = job.options.target;

		if (target == LMDBIO_STAGE_MEMORY && !holds_all(job.holds[rank]->arena))
			lives_end(WRONG_BYTES, "memory", rank);
		if (target == LMDBIO_STAGE_DIRECTORY && !copy_is_right(job.directory[rank % NODES]))
			lives_end(WRONG_BYTES, "a copy", rank);
		if (target == LMDBIO_STAGE_SHARED && !copy_is_right(job.directory[0]))
			lives_end(WRONG_BYTES, "a copy", rank);
		if (target == LMDBIO_STAGE_PARTS && !part_is_right(rank % NODES))
			lives_end(WRONG_BYTES, "a part", rank);
	}
}

static void stage(void)
{
	sim_begin(RANKS);
	memset(job.holds, 0, sizeof(job.holds));
	if (!sim_run(RANKS, rank_run, NULL))
		lives_end(WRONG_CODE, "ranks wait for each other", 0);
	calls_spare(true);
	judge();
	calls_spare(false);
	for (int rank = 0; rank < RANKS; rank++)
		lmdbio_mpi_stage_release(job.holds[rank]);
	if (sim_handles())
		lives_end(LEFT, "handles of MPI", (int)sim_handles());
	sim_end();
}

static int give_up(void *argument, uint64_t done, uint64_t all)
{
	(void)argument;
	return done || all ? ECANCELED : 0;
}

/* Twice, and then nothing is there any more. */
static void stage_to(enum lmdbio_stage_target target, const char *path)
{
	bool removes = calls_failing() &&
		       (strstr(calls_failing(), "unlink") || strstr(calls_failing(), "rmdir"));
	char command[300];
	unsigned before;

	job.options = (struct lmdbio_stage_options){.size = sizeof(job.options),
						    .target = target,
						    .buffer = BUFFER,
						    .reader = job.reader,
						    .hints = "cb_nodes=1",
						    .progress = job.gives_up ? give_up : NULL};
	job.path = path;
	before = files_left();
	stage();
	if (job.rc[0] && files_left() > before && !removes)
		lives_end(LEFT, "files", (int)files_left());
	stage();
	snprintf(command, sizeof(command), "rm -rf '%s'/node*/*", job.scratch);
	if (system(command))
		abort();
}

static void live_in_memory(void)
{
	stage_to(LMDBIO_STAGE_MEMORY, job.place.data);
	stage_to(LMDBIO_STAGE_MEMORY, job.packed);
}

/* Where killed jobs have left something. */
static void stale_make(void)
{
	struct staged_original original;
	char name[STAGED_NAME], command[900];
	int fd;

	calls_spare(true);
	fd = open(job.place.data, O_RDONLY | O_CLOEXEC);
	if (staged_identify(fd, &original))
		abort();
	close(fd);
	staged_name(&original.identity, name);
	snprintf(command, sizeof(command),
		 "mkdir -p -m 700 '%s/%s' && touch -d '1 hour ago' '%s/%s/data.mdb.1-0.partial'",
		 job.directory[0], name, job.directory[0], name);
	if (system(command))
		abort();
	calls_spare(false);
}

static void live_in_directories(void)
{
	stage_to(LMDBIO_STAGE_DIRECTORY, job.place.data);
	stale_make();
	stage_to(LMDBIO_STAGE_DIRECTORY, job.place.data);
}

static void live_shared(void)
{
	stage_to(LMDBIO_STAGE_SHARED, job.place.data);
	calls_lack(LACK_FALLOCATE);
	stage_to(LMDBIO_STAGE_SHARED, job.place.data);
	calls_lack(0);
}

static void live_given_up(void)
{
	job.gives_up = true;
	stage_to(LMDBIO_STAGE_DIRECTORY, job.place.data);
	stage_to(LMDBIO_STAGE_PARTS, job.place.data);
	job.gives_up = false;
}

static void live_unsealed(void)
{
	job.fails = true;
	calls_lack(LACK_SEAL);
	stage_to(LMDBIO_STAGE_DIRECTORY, job.place.data);
	calls_lack(0);
	job.fails = false;
}

/* By MPI-IO, which the processes of a job simulate. */
static void live_by_mpi_io(void)
{
	job.reader = LMDBIO_STAGE_MPIIO;
	stage_to(LMDBIO_STAGE_MEMORY, job.place.data);
	stage_to(LMDBIO_STAGE_MEMORY, job.packed);
	stage_to(LMDBIO_STAGE_DIRECTORY, job.place.data);
	job.reader = LMDBIO_STAGE_POSIX;
}

static void live_in_parts(void)
{
	stage_to(LMDBIO_STAGE_PARTS, job.place.data);
	stage_to(LMDBIO_STAGE_PARTS, job.packed);
}

static void live_nowhere(void)
{
	stage_to(LMDBIO_STAGE_NOWHERE, job.place.data);
	stage_to(LMDBIO_STAGE_NOWHERE, job.packed);
}

const struct life *lives_number(unsigned number)
{
	static const struct life lives[] = {
		{"in memory", live_in_memory},
		{"in directories", live_in_directories},
		{"in a shared directory", live_shared},
		{"in parts", live_in_parts},
		{"nowhere", live_nowhere},
		{"given up", live_given_up},
		{"unsealed", live_unsealed},
		{"by MPI-IO", live_by_mpi_io},
	};

	return number < sizeof(lives) / sizeof(*lives) ? &lives[number] : NULL;
}

static void packed_make(void)
{
	struct container_write_options options = {
		.size = job.length, .page_size = 4096, .chunk_size = 64 << 10, .level = 1};
	struct container_writer *writer;
	int to = open(job.packed, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (container_write_open(&writer, to, &options) ||
	    container_write_bytes(writer, job.bytes, job.length) || container_write_finish(writer))
		abort();
	container_write_close(writer);
	close(to);
}

void lives_begin(void)
{
	const char *base = getenv("TMPDIR");
	int fd;

	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
	job.reader = LMDBIO_STAGE_POSIX;
	snprintf(job.scratch, sizeof(job.scratch), "%.150s/lmdbio-staging.XXXXXX",
		 base && *base ? base : "/tmp");
	place_make(&job.place);
	place_put_records(&job.place, RECORDS, VALUE, value_make);
	if (!mkdtemp(job.scratch))
		abort();
	for (int node = 0; node < NODES; node++) {
		snprintf(job.directory[node], sizeof(job.directory[node]), "%s/node%d", job.scratch,
			 node);
		if (mkdir(job.directory[node], 0700))
			abort();
	}
	snprintf(job.packed, sizeof(job.packed), "%s/packed.zst", job.scratch);
	fd = open(job.place.data, O_RDONLY | O_CLOEXEC);
	job.length = (size_t)lseek(fd, 0, SEEK_END);
	job.bytes = calloc(1, job.length);
	if (!job.bytes || pread(fd, job.bytes, job.length, 0) != (ssize_t)job.length)
		abort();
	close(fd);
	packed_make();
}

void lives_over(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", job.scratch);
	if (system(command))
		abort();
	free(job.bytes);
	place_remove(&job.place);
}
