/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the data set of the arena's tests, reads it as a well-behaved reader, and counts what is
 * left. */
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <dirent.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void (*step_taken)(const char *step);
void (*site_taken)(const struct arena_site *site);

void arena_step(const char *step)
{
	if (step_taken)
		step_taken(step);
}

const char *test_node(void)
{
	return getenv("LMDBIO_NODE");
}

void arena_site(const struct arena_site *site)
{
	if (site_taken)
		site_taken(site);
}

/* --- data ----------------------------------------------------------------------------------- */

static uint64_t word_at(uint64_t offset)
{
	uint64_t x = (offset + 1) * UINT64_C(0x9e3779b97f4a7c15);

	return x ^ x >> 29;
}

struct dataset dataset_make(uint64_t chunks)
{
	const char *folder = getenv("TMPDIR");
	struct dataset dataset = {.chunks = chunks};
	static uint64_t words[ARENA_CHUNK / 8];
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/arena_test.XXXXXX", folder ? folder : "/tmp");
	dataset.fd = mkostemp(path, O_CLOEXEC);
	if (dataset.fd < 0 || unlink(path))
		err(1, "%s", path);
	for (uint64_t offset = 0; offset < chunks * ARENA_CHUNK; offset += ARENA_CHUNK) {
		for (uint64_t i = 0; i < ARENA_CHUNK / 8; i++)
			words[i] = word_at(offset + i * 8);
		if (pwrite(dataset.fd, words, ARENA_CHUNK, (off_t)offset) != ARENA_CHUNK)
			err(1, "%s", path);
	}
	if (fstat(dataset.fd, &st))
		err(1, "%s", path);
	/* The process id separates test runs at the same time, on file systems that reuse inodes at
	 * once. */
	dataset.identity = (struct identity){
		.device = st.st_dev,
		.inode = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec,
		.snapshot = (uint64_t)getpid(),
	};
	return dataset;
}

void dataset_close(struct dataset *dataset)
{
	close(dataset->fd);
}

/* --- reader --------------------------------------------------------------------------------- */

void reader_begin(struct reader *reader, struct arena *arena, const struct dataset *dataset)
{
	static _Atomic uint64_t nothing[3];
	void *map = mmap(NULL, dataset->chunks * ARENA_CHUNK, PROT_READ, MAP_SHARED, arena_fd(arena), 0);

	if (map == MAP_FAILED)
		err(1, "mmap");
	*reader = (struct reader){
		.arena = arena,
		.dataset = dataset,
		.map = map,
		.random = clock_now() ^ (uint64_t)getpid() << 32,
		.patience = 200,
		.reads = &nothing[0],
		.direct = &nothing[1],
		.wrong = &nothing[2],
	};
}

void reader_end(struct reader *reader)
{
	munmap((void *)(uintptr_t)reader->map, reader->dataset->chunks * ARENA_CHUNK);
}

uint64_t reader_random(struct reader *reader)
{
	reader->random += UINT64_C(0x9e3779b97f4a7c15);
	return word_at(reader->random) >> 16;
}

/* A word of each 512 bytes of the block. */
static bool is_wrong(const uint8_t *bytes, uint64_t block)
{
	for (uint64_t i = block % 64 * 8; i < ARENA_BLOCK; i += 512) {
		uint64_t word;

		memcpy(&word, bytes + i, sizeof(word));
		if (word != word_at(block * ARENA_BLOCK + i))
			return true;
	}
	return false;
}

uint64_t reader_wrong(const struct reader *reader, uint64_t first, uint64_t count)
{
	uint64_t wrong = 0;

	for (uint64_t block = first; block < first + count; block++)
		wrong += is_wrong(reader->map + block * ARENA_BLOCK, block);
	return wrong;
}

/* Reads a run in two pieces, so that a process can die between them. */
static void read_run(struct reader *reader, uint64_t first, uint64_t count)
{
	uint64_t half = count / 2 * ARENA_BLOCK, offset = first * ARENA_BLOCK;
	uint64_t rest = count * ARENA_BLOCK - half;
	uint8_t *bytes = malloc(half + rest);

	if (!bytes || pread(reader->dataset->fd, bytes, half + rest, (off_t)offset) !=
			      (ssize_t)(half + rest))
		err(1, "pread");
	if (half && arena_fill(reader->arena, offset, bytes, half))
		err(1, "arena_fill");
	arena_step("half-read");
	if (arena_fill(reader->arena, offset + half, bytes + half, rest))
		err(1, "arena_fill");
	arena_step("read");
	free(bytes);
}

bool reader_load(struct reader *reader, uint64_t first, uint64_t count)
{
	uint64_t end = first + count, run, length;

	while ((length = arena_missing(reader->arena, first, end, &run)) > 0) {
		if (!arena_reserve(reader->arena, length))
			return false;
		read_run(reader, run, length);
		arena_publish(reader->arena, run, length);
		atomic_fetch_add(reader->reads, length);
		first = run + length;
	}
	return true;
}

/* Returns whether the blocks are present in the end. The caller has pinned the chunk. */
static bool bring(struct reader *reader, uint64_t chunk, uint64_t first, uint64_t count)
{
	while (!arena_present(reader->arena, first, count)) {
		bool is_loaded;

		if (!arena_claim(reader->arena, chunk)) {
			if (!arena_wait(reader->arena, chunk, reader->patience))
				return false;
			continue;
		}
		is_loaded = reader_load(reader, first, count);
		arena_release(reader->arena, chunk);
		arena_step("released");
		if (!is_loaded)
			return false;
	}
	return true;
}

void reader_use(struct reader *reader, uint64_t chunk, unsigned block, unsigned blocks)
{
	uint64_t first = chunk * ARENA_BLOCKS + block;

	if (arena_pin(reader->arena, chunk)) {
		bool is_there = bring(reader, chunk, first, blocks);

		if (is_there) {
			arena_touch(reader->arena, chunk);
			atomic_fetch_add(reader->wrong, reader_wrong(reader, first, blocks));
			arena_step("using");
		}
		arena_unpin(reader->arena, chunk);
		if (is_there)
			return;
	}
	atomic_fetch_add(reader->direct, 1);
}

/* --- what is left --------------------------------------------------------------------------- */

uint64_t arena_inode(const struct arena *arena)
{
	struct stat st;

	if (fstat(arena_fd(arena), &st))
		err(1, "fstat");
	return st.st_ino;
}

uint64_t arena_memory(const struct arena *arena)
{
	off_t end = (off_t)arena->data_length, at = 0, hole;
	uint64_t total = 0;

	while ((at = lseek(arena->file.fd, at, SEEK_DATA)) >= 0 && at < end) {
		hole = lseek(arena->file.fd, at, SEEK_HOLE);
		if (hole < 0)
			err(1, "lseek");
		total += (uint64_t)((hole < end ? hole : end) - at);
		at = hole;
	}
	return total;
}

unsigned names_left(const struct arena *arena, bool listening)
{
	FILE *file = fopen("/proc/net/unix", "re");
	char line[512], key[40];
	unsigned count = 0;

	if (!file)
		err(1, "/proc/net/unix");
	snprintf(key, sizeof(key), "%016llx%016llx", (unsigned long long)arena->key[0],
		 (unsigned long long)arena->key[1]);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, key) && (!listening || strstr(line, " 00010000 "));
	fclose(file);
	return count;
}

static bool holds(const char *pid, uint64_t inode)
{
	char path[512], target[64];
	struct dirent *entry;
	bool is_held = false;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%s/fd", pid);
	directory = opendir(path);
	while (directory && (entry = readdir(directory))) {
		ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
		struct stat st;

		target[n < 0 ? 0 : n] = 0;
		is_held |= !strncmp(target, "/memfd:lmdbio", 13) &&
			   !fstatat(dirfd(directory), entry->d_name, &st, 0) && st.st_ino == inode;
	}
	if (directory)
		closedir(directory);
	return is_held;
}

static bool has_mapped(const char *pid, uint64_t inode)
{
	char path[512], line[512], wanted[64];
	bool is_mapped = false;
	FILE *file;

	snprintf(wanted, sizeof(wanted), " %llu ", (unsigned long long)inode);
	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		is_mapped |= strstr(line, "/memfd:lmdbio") && strstr(line, wanted);
	if (file)
		fclose(file);
	return is_mapped;
}

unsigned holders_left(uint64_t inode)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	unsigned count = 0;

	if (!directory)
		err(1, "/proc");
	while ((entry = readdir(directory)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9')
			count += holds(entry->d_name, inode) || has_mapped(entry->d_name, inode);
	closedir(directory);
	return count;
}

bool nothing_left(const struct arena *arena, uint64_t inode)
{
	return !names_left(arena, false) && !holders_left(inode);
}
