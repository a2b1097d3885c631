/* SPDX-License-Identifier: OLDAP-2.8 */
/* Feeds data that lmdbio keeps from one run to the next, with its checksum made right again: a
 * loader's state, the seal of a staged copy, the head and rows of a part file, and edits of the
 * batch loader's stage file. Checks that lmdbio accepts only what it has written, and that no
 * record lies outside of its data set. The first byte chooses the kind of data. */
#include "fuzz_driver.h"
#include "fuzz_images.h"

#include "util/hash.h"
#include "env/staged.h"
#include "loader/loader_order.h"
#include "loader/loader_tier.h"
#include "mpi/part_file.h"
#include "util/checked.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE, SEAL, PART, STAGE, KINDS, STATE_SIZE = 64, SEAL_SIZE = 144, HEAD = 104, ROW = 16, ROOM = 300,
       EDIT = 6, RECORDS = 8, PART_SIZE = (2 << 20) + 9, PART_CHUNKS = 3, STAGE_FRONT = 4096 + 24 * RECORDS + 400 };

const struct fuzz_weight fuzz_weight = {.stride = 8, .front = 8, .mutations = 1500};

static char top[80];
static struct guarded place; /* the directory of the copy and of the part */
static struct staged_original original;
static struct part_identity part_identity;
static uint8_t sound_seal[SEAL_SIZE], sound_part[HEAD + PART_CHUNKS * ROW];
static pid_t maker;

static void require(bool truth, const char *rule)
{
	if (truth)
		return;
	fprintf(stderr, "broken rule: %s\n", rule);
	abort();
}

static void remove_all(void)
{
	char name[STAGED_NAME];

	if (maker != getpid())
		return;
	(void)unlinkat(place.fd, "data.mdb", 0);
	(void)unlinkat(place.fd, "data.mdb.seal", 0);
	(void)unlinkat(place.fd, "part-0-of-1", 0);
	guarded_close(&place);
	staged_name(&original.identity, name);
	if (chdir(top) == 0)
		(void)rmdir(name);
	(void)rmdir(top);
}

static int file_open(const char *name)
{
	int fd = openat(place.fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	require(fd >= 0, "a file can be made");
	return fd;
}

static void part_make(void)
{
	static const uint8_t chunk[1 << 20];
	int fd = file_open("part-0-of-1");

	part_identity = (struct part_identity){.original = original.identity, .size = PART_SIZE, .nodes = 1};
	for (uint64_t i = 0; i < PART_CHUNKS; i++)
		require(!part_file_put(fd, PART_SIZE, i, i, chunk), "a chunk is put");
	require(!part_file_seal(fd, &part_identity, PART_CHUNKS) &&
			pread(fd, sound_part, sizeof(sound_part), (off_t)part_file_head(PART_SIZE)) ==
				(ssize_t)sizeof(sound_part),
		"a part is sealed");
	(void)close(fd);
}

/* Makes a copy of a small data file, and a part of a longer one, in a directory of their own. */
static void make_all(void)
{
	const char *folder = getenv("TMPDIR");
	size_t size;
	uint8_t *bytes = images_make(0, &size);
	char name[STAGED_NAME];
	struct guarded above;
	int fd;

	snprintf(top, sizeof(top), "%.60s/fuzz.XXXXXX", folder ? folder : "/tmp");
	require(mkdtemp(top) && !guarded_open(&above, top, true), "a directory can be made");
	maker = getpid();
	(void)atexit(remove_all);
	fd = open(top, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	require(fd >= 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size && !staged_identify(fd, &original),
		"the original is a data file");
	(void)close(fd);
	staged_name(&original.identity, name);
	require(!guarded_below(&place, &above, name, true), "its directory can be made");
	guarded_close(&above);
	fd = file_open("data.mdb");
	require(pwrite(fd, bytes, size, 0) == (ssize_t)size, "a copy is written");
	(void)close(fd);
	free(bytes);
	require(!staged_seal(&place, "data.mdb", &original.identity), "a copy is sealed");
	fd = file_open("data.mdb.seal");
	require(pread(fd, sound_seal, SEAL_SIZE, 0) == SEAL_SIZE, "a seal has its size");
	(void)close(fd);
	part_make();
}

static void feed_state(uint8_t *bytes, size_t size)
{
	struct order_epoch at;
	struct order order;
	uint64_t epoch, batch, records;

	if (size < STATE_SIZE)
		return;
	store32(bytes + STATE_SIZE - 4, (uint32_t)hash_bytes(bytes, STATE_SIZE - 4));
	if (order_restore(&order, &epoch, &batch, bytes))
		return;
	records = order.spec.records;
	require(batch <= order_batches(&order), "a restored batch is one of the epoch's");
	order_begin(&at, &order, epoch);
	for (uint64_t i = 0; i < 4 && batch < order_batches(&order); i++) {
		uint64_t position = batch * order.spec.batch + i % order.spec.batch;
		uint64_t record = order_record(&at, position);

		require(record == ORDER_NONE || record < records, "a record is one of the data set's");
		if (position < records)
			(void)order_round_start(&at, order_round(&at, position));
	}
}

static void file_put(const char *name, const uint8_t *bytes, size_t size, off_t at)
{
	int fd = file_open(name);

	require(!ftruncate(fd, at + (off_t)size) && pwrite(fd, bytes, size, at) == (ssize_t)size,
		"a file can be written");
	(void)close(fd);
}

static void feed_seal(uint8_t *bytes, size_t size)
{
	char *path;
	int fd;

	if (size >= SEAL_SIZE)
		store64(bytes + SEAL_SIZE - 8, hash_bytes(bytes, SEAL_SIZE - 8));
	file_put("data.mdb.seal", bytes, size, 0);
	if (staged_open(top, &original, &path, &fd))
		return;
	require(size >= SEAL_SIZE && !memcmp(bytes, sound_seal, SEAL_SIZE), "only the copy's own seal is believed");
	free(path);
	(void)close(fd);
}

static void feed_part(uint8_t *bytes, size_t size)
{
	static const uint8_t chunk[1 << 20];
	uint64_t rows = size < HEAD ? 0 : (size - HEAD) / ROW;
	struct part_file part;

	if (size >= HEAD && load64(bytes + HEAD - 16) <= rows)
		store64(bytes + HEAD - 8, hash_seeded(bytes + HEAD, load64(bytes + HEAD - 16) * ROW,
						      hash_bytes(bytes, HEAD - 8)));
	file_put("part-0-of-1", bytes, size, (off_t)part_file_head(PART_SIZE));
	if (part_file_open(&part, top, &part_identity))
		return;
	for (uint64_t i = 0; i < 2 * PART_CHUNKS; i++)
		if (part_file_has(&part, i)) {
			require(i < PART_CHUNKS, "a part has chunks of its data");
			(void)part_file_is(&part, i, chunk);
		}
	part_file_close(&part);
}

/* Opens the only file that lies directly in `top`: the stage file. Returns -1 if there is none. */
static int stage_open(void)
{
	DIR *directory = opendir(top);
	struct dirent *entry;
	struct stat st;
	int fd = -1;

	require(directory != NULL, "the directory can be read");
	while (fd < 0 && (entry = readdir(directory)))
		if (!fstatat(dirfd(directory), entry->d_name, &st, 0) && S_ISREG(st.st_mode))
			fd = openat(dirfd(directory), entry->d_name, O_RDWR | O_CLOEXEC);
	closedir(directory);
	return fd;
}

static void fetch_all(void *state)
{
	struct tier_record found;

	for (uint64_t i = 0; i < RECORDS; i++)
		if (tier_disk.has(state, i) && !tier_disk.fetch(state, i, &found)) {
			require(found.key.mv_size + found.data.mv_size <= 1 << 20, "a record is no larger than it was");
			free(found.memory);
		}
}

static void feed_stage(const uint8_t *bytes, size_t size)
{
	const struct order_spec spec = {.records = RECORDS, .batch = 2, .policy = ORDER_SHUFFLE};
	struct order order;
	struct tier_setup setup = {.order = &order, .identity = original.identity, .root = 2, .records = RECORDS,
				   .directory = top, .limit = 1 << 20};
	MDB_val key = {3, (char[]){"key"}}, data = {40, (char[]){"forty bytes are enough for a small value"}};
	void *first, *second = NULL;
	int fd;

	require(!order_init(&order, &spec) && !tier_disk.open(&first, &setup) && first, "a stage file is made");
	for (uint64_t i = 0; i < RECORDS; i += 2)
		(void)tier_disk.offer(first, i, &key, &data);
	fd = stage_open();
	require(fd >= 0, "a stage file is there");
	for (; size >= EDIT; bytes += EDIT, size -= EDIT)
		(void)!pwrite(fd, bytes + 2, EDIT - 2, load16(bytes) % STAGE_FRONT);
	(void)close(fd);
	fetch_all(first);
	if (!tier_disk.open(&second, &setup) && second) {
		fetch_all(second);
		(void)tier_disk.offer(second, 1, &key, &data);
		fetch_all(second);
		tier_disk.close(second);
	}
	fetch_all(first);
	tier_disk.close(first);
	/* The edits can prevent the removal of the stage file. */
	fd = stage_open();
	if (fd >= 0) {
		char path[80], name[200];
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, name, sizeof(name) - 1);
		require(length > 0, "a descriptor has a name");
		name[length] = '\0';
		(void)unlink(name);
		(void)close(fd);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[ROOM];

	if (!maker)
		make_all();
	if (!size || size > ROOM)
		return 0;
	memcpy(bytes, data + 1, size - 1);
	switch (data[0] % KINDS) {
	case STATE:
		feed_state(bytes, size - 1);
		break;
	case SEAL:
		feed_seal(bytes, size - 1);
		break;
	case PART:
		feed_part(bytes, size - 1);
		break;
	default:
		feed_stage(bytes, size - 1);
	}
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const struct order_spec specs[] = {
		{.records = 1000, .batch = 10, .policy = ORDER_SEQUENTIAL, .shares = 3},
		{.records = 999, .batch = 10, .policy = ORDER_SHUFFLE, .tail = ORDER_DROP, .seed = 4},
		{.records = 5000, .batch = 64, .policy = ORDER_BLOCK, .block = 16, .buffer = 4, .tail = ORDER_WRAP},
		{.records = 5000, .batch = 7, .policy = ORDER_OPPORTUNISTIC, .block = 8, .buffer = 2, .resident = 100},
	};
	unsigned kind = number % KINDS, variant = number / KINDS;
	uint8_t *bytes = calloc(1, ROOM);
	struct order order;

	if (!bytes || variant >= 4) {
		free(bytes);
		return NULL;
	}
	if (!maker)
		make_all();
	bytes[0] = (uint8_t)kind;
	*size = 1 + (kind == STATE ? STATE_SIZE : kind == SEAL ? SEAL_SIZE : kind == PART ? sizeof(sound_part) : 4 * EDIT);
	if (kind == STATE) {
		require(!order_init(&order, &specs[variant]), "an order of the examples is one");
		order_save(&order, variant, 3, bytes + 1);
	} else if (kind == SEAL) {
		memcpy(bytes + 1, sound_seal, SEAL_SIZE);
	} else if (kind == PART) {
		memcpy(bytes + 1, sound_part, sizeof(sound_part));
	} else {
		for (unsigned i = 0; i < 4; i++)
			store16(bytes + 1 + i * EDIT, (uint16_t)(variant ? 4096 + 24 * i + variant : i * 8));
	}
	return bytes;
}
