/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the n-th call of each kind that the arena makes fail, once or for ever. A process gets
 * right bytes or an error, loses no descriptor, and afterwards all works as before. */
#include "arena_support.h"

#include "arena/arena_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	CHUNKS = 6,
	ROOM = 4, /* chunks: fewer than the data set has, so that some are evicted */
	EACH = 8, /* the first EACH calls of a kind fail in turn, then each eighth one */
};

/* --- faults ------------------------------------------------------------------------------------- */

enum site {
	SITE_CALLOC,
	SITE_MEMFD,
	SITE_MMAP,
	SITE_MPROTECT,
	SITE_MADVISE,
	SITE_FSTAT,
	SITE_FCHMOD,
	SITE_FTRUNCATE,
	SITE_FALLOCATE,
	SITE_FCNTL,
	SITE_OPEN,
	SITE_SOCKET,
	SITE_BIND,
	SITE_LISTEN,
	SITE_CONNECT,
	SITE_GETRANDOM,
	SITE_FOPEN,
	SITE_GETLINE,
	SITE_OPENDIR,
	SITE_PWRITE,
	SITE_PREAD,
	SITES,
};

static struct {
	enum site site;
	unsigned calls, nth; /* nth: 0: none fails */
	int error;
	bool for_ever, is_off;
	bool names_taken;   /* another user has the names */
	bool numbers_taken; /* of the names only those that end in a number are taken */
	bool large_pages;   /* the kernel's are of 64 KiB */
	bool is_evicting;   /* neither madvise(2) nor fallocate(2) frees memory */
	unsigned failed;
} fault;

static bool fails(enum site site)
{
	if (fault.is_evicting && (site == SITE_MADVISE || site == SITE_FALLOCATE)) {
		fault.failed++;
		errno = EPERM;
		return true;
	}
	if (fault.is_off || fault.site != site || !fault.nth)
		return false;
	fault.calls++;
	if (fault.calls != fault.nth && !(fault.for_ever && fault.calls > fault.nth))
		return false;
	fault.failed++;
	errno = fault.error;
	return true;
}

#define FAULTY(type, name, parameters, arguments, site, failure) \
	type __real_##name parameters;                           \
	type __wrap_##name parameters;                           \
	type __wrap_##name parameters                            \
	{                                                        \
		return fails(site) ? failure : __real_##name arguments; \
	}

FAULTY(void *, calloc, (size_t n, size_t size), (n, size), SITE_CALLOC, NULL)
FAULTY(int, memfd_create, (const char *name, unsigned flags), (name, flags), SITE_MEMFD, -1)
FAULTY(void *, mmap, (void *at, size_t length, int protection, int flags, int fd, off_t offset),
       (at, length, protection, flags, fd, offset), SITE_MMAP, MAP_FAILED)
FAULTY(int, mprotect, (void *at, size_t length, int protection), (at, length, protection), SITE_MPROTECT, -1)
FAULTY(int, madvise, (void *at, size_t length, int advice), (at, length, advice), SITE_MADVISE, -1)
FAULTY(int, fstat, (int fd, struct stat *st), (fd, st), SITE_FSTAT, -1)
FAULTY(int, fchmod, (int fd, mode_t mode), (fd, mode), SITE_FCHMOD, -1)
FAULTY(int, ftruncate, (int fd, off_t length), (fd, length), SITE_FTRUNCATE, -1)
FAULTY(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length), SITE_FALLOCATE, -1)
FAULTY(int, socket, (int domain, int type, int protocol), (domain, type, protocol), SITE_SOCKET, -1)
FAULTY(int, listen, (int fd, int backlog), (fd, backlog), SITE_LISTEN, -1)
FAULTY(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), SITE_CONNECT, -1)
FAULTY(ssize_t, getrandom, (void *bytes, size_t length, unsigned flags), (bytes, length, flags), SITE_GETRANDOM, -1)
FAULTY(FILE *, fopen, (const char *path, const char *mode), (path, mode), SITE_FOPEN, NULL)
FAULTY(ssize_t, getline, (char **line, size_t *room, FILE *file), (line, room, file), SITE_GETLINE, -1)
/* The function that getline() is in the C library's header when the compiler optimizes. */
FAULTY(ssize_t, __getdelim, (char **line, size_t *room, int end, FILE *file), (line, room, end, file), SITE_GETLINE, -1)
FAULTY(DIR *, opendir, (const char *path), (path), SITE_OPENDIR, NULL)
FAULTY(ssize_t, pwrite, (int fd, const void *bytes, size_t length, off_t offset), (fd, bytes, length, offset), SITE_PWRITE, -1)
FAULTY(ssize_t, pread, (int fd, void *bytes, size_t length, off_t offset),
       (fd, bytes, length, offset), SITE_PREAD, -1)

int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	return fails(SITE_FCNTL) ? -1 : __real_fcntl(fd, command, argument);
}

int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	const size_t random = sizeof("x0123456789abcdef") - 1;

	if (fault.names_taken ||
	    (fault.numbers_taken && ((const char *)address)[length - random] != 'x')) {
		errno = EADDRINUSE;
		return -1;
	}
	return fails(SITE_BIND) ? -1 : __real_bind(fd, address, length);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	return fails(SITE_OPEN) ? -1 : __real_open(path, flags, 0);
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
	return fault.large_pages && name == _SC_PAGESIZE ? 16 * ARENA_BLOCK : __real_sysconf(name);
}

/* --- a life ------------------------------------------------------------------------------------- */

static struct dataset dataset;

static unsigned descriptors(void)
{
	DIR *directory = __real_opendir("/proc/self/fd");
	unsigned count = 0;

	assert_non_null(directory);
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static struct {
	uint64_t budget; /* of the arena, bytes */
	uint64_t blocks; /* blocks used of each chunk */
} lived = {CHUNKS * ARENA_CHUNK, 1};

/* Reads the first blocks of a chunk by way of the arena, or from the file if the arena has no room.
 * Returns whether the bytes came by the arena. */
static bool use(struct arena *arena, const uint8_t *map, uint64_t chunk, uint8_t *bytes)
{
	const uint64_t first = chunk * ARENA_BLOCKS, length = lived.blocks * ARENA_BLOCK;
	bool is_there = false;

	assert_int_equal(__real_pread(dataset.fd, bytes, length, (off_t)(chunk * ARENA_CHUNK)),
			 length);
	if (!arena_pin(arena, chunk))
		return false;
	if (arena_present(arena, first, lived.blocks)) {
		is_there = true;
	} else if (arena_claim(arena, chunk)) {
		is_there = arena_reserve(arena, lived.blocks);
		if (is_there && arena_fill(arena, chunk * ARENA_CHUNK, bytes, length)) {
			is_there = false;
			arena_abandon(arena, chunk, lived.blocks);
		} else {
			if (is_there)
				arena_publish(arena, first, lived.blocks);
			arena_release(arena, chunk);
		}
	}
	if (is_there)
		assert_memory_equal(map + chunk * ARENA_CHUNK, bytes, length);
	arena_unpin(arena, chunk);
	return is_there;
}

/* Opens an arena, prepares memory and uses all chunks. Returns how many chunks came by the
 * arena. */
static unsigned life(void)
{
	const uint64_t budget = lived.budget;
	struct arena_options options = {.budget = budget, .share = true, .node = test_node()};
	static uint8_t bytes[ARENA_CHUNK];
	struct arena *arena = NULL;
	unsigned served = 0;
	const char *why;
	uint8_t *map;
	int rc = arena_open(&arena, &dataset.identity, &options, &why);

	if (rc) {
		assert_true(fault.failed);
		assert_null(arena);
		assert_true(rc > 0);
		return 0;
	}
	assert_true(!why || fault.failed);
	assert_true(arena_found(&dataset.identity, &options) == budget || fault.failed || why);
	fault.is_off = true; /* the test's own call */
	map = arena_fd(arena) < 0 ? MAP_FAILED
				  : mmap(NULL, CHUNKS * ARENA_CHUNK, PROT_READ, MAP_SHARED, arena_fd(arena), 0);
	fault.is_off = false;
	if (map != MAP_FAILED) {
		arena_prepare(arena, 0, ARENA_PAIR);
		for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
			served += use(arena, map, chunk, bytes);
		munmap(map, CHUNKS * ARENA_CHUNK);
	}
	assert_true(arena_used(arena) <= budget + ARENA_CHUNK);
	arena_close(arena);
	return served;
}

/* The same while another attachment of the node already has the arena, so that it is found. */
static unsigned life_beside_another(void)
{
	struct arena_options options = {.budget = lived.budget, .share = true, .node = test_node()};
	struct arena *other;
	const char *why;
	unsigned served;

	fault.is_off = true;
	assert_int_equal(arena_open(&other, &dataset.identity, &options, &why), 0);
	assert_null(why);
	fault.is_off = false;
	served = life();
	fault.is_off = true;
	arena_close(other);
	fault.is_off = false;
	return served;
}

static void each_call_fails(enum site site, int error, bool for_ever, unsigned (*lives)(void))
{
	unsigned nth = 0, before = descriptors();

	do {
		fault.site = site;
		fault.calls = fault.failed = 0;
		nth += nth < EACH ? 1 : EACH;
		fault.nth = nth;
		fault.error = error;
		fault.for_ever = for_ever;
		lives();
		fault.nth = 0;
		assert_int_equal(descriptors(), before);
		assert_true(nth < 10000);
	} while (fault.failed);
	fault.failed = 0;
	assert_int_equal(lives(), CHUNKS);
}

static void call_fails_right_bytes_or_an_error(void **state)
{
	static const int errors[SITES] = {
		[SITE_CALLOC] = ENOMEM,    [SITE_MEMFD] = EMFILE,      [SITE_MMAP] = ENOMEM,
		[SITE_MPROTECT] = ENOMEM,  [SITE_MADVISE] = EPERM,     [SITE_FSTAT] = EIO,
		[SITE_FCHMOD] = EPERM,     [SITE_FTRUNCATE] = ENOSPC,  [SITE_FALLOCATE] = ENOSPC,
		[SITE_FCNTL] = EMFILE,     [SITE_OPEN] = EMFILE,       [SITE_SOCKET] = EMFILE,
		[SITE_BIND] = EPERM,       [SITE_LISTEN] = EADDRINUSE, [SITE_CONNECT] = EAGAIN,
		[SITE_GETRANDOM] = EAGAIN, [SITE_FOPEN] = EMFILE,      [SITE_OPENDIR] = EMFILE,
		[SITE_PWRITE] = ENOSPC,    [SITE_GETLINE] = ENOMEM,    [SITE_PREAD] = EIO,
	};

	(void)state;
	for (unsigned site = 0; site < SITES; site++)
		for (unsigned for_ever = 0; for_ever < 2; for_ever++) {
			each_call_fails(site, errors[site], for_ever, life);
			if (!for_ever)
				each_call_fails(site, errors[site], for_ever, life_beside_another);
		}
}

/* Kernels before Linux 6.3 do not know the flag that forbids executing a memfd. */
static void kernel_knows_no_seal_against_running_arena_is_made(void **state)
{
	(void)state;
	fault.site = SITE_MEMFD;
	fault.calls = fault.failed = 0;
	fault.nth = 1;
	fault.error = EINVAL;
	fault.for_ever = false;
	assert_int_equal(life(), CHUNKS);
	assert_int_equal(fault.failed, 1);
	fault.nth = 0;
	assert_true(arena_may_be(1));
	fault.calls = 0;
	fault.nth = 1;
	fault.error = EMFILE;
	fault.for_ever = true;
	assert_false(arena_may_be(1));
	fault.nth = 0;
	fault.failed = 0;
}

/* Another user has all names, and each call by which the arena avoids them fails as well. */
static void names_are_taken_and_calls_fail_right_bytes(void **state)
{
	static const enum site sites[] = {SITES, SITE_GETRANDOM, SITE_FOPEN, SITE_OPENDIR, SITE_CONNECT};

	(void)state;
	for (unsigned i = 0; i < sizeof(sites) / sizeof(sites[0]); i++) {
		fault.site = sites[i];
		fault.error = EMFILE;
		fault.calls = 0;
		fault.nth = fault.failed = 1;
		fault.for_ever = true;
		fault.names_taken = true;
		assert_int_equal(life(), CHUNKS);
		fault.names_taken = false;
		fault.nth = fault.failed = 0;
		assert_int_equal(life(), CHUNKS);
	}
}

/* Where the kernel's list of names cannot be read, an arena that is only in that list is found in
 * another way. */
static void list_of_names_cannot_be_read_arena_is_found(void **state)
{
	struct arena_options options = {.budget = lived.budget, .share = true, .node = test_node()};
	struct arena *first, *second;
	static uint8_t bytes[ARENA_CHUNK];
	const char *why;

	(void)state;
	fault.numbers_taken = true;
	assert_int_equal(arena_open(&first, &dataset.identity, &options, &why), 0);
	fault.numbers_taken = false;
	assert_true(arena_claim(first, 0));
	assert_true(arena_reserve(first, 1));
	assert_int_equal(pread(dataset.fd, bytes, ARENA_BLOCK, 0), ARENA_BLOCK);
	assert_int_equal(arena_fill(first, 0, bytes, ARENA_BLOCK), 0);
	arena_publish(first, 0, 1);
	arena_release(first, 0);
	fault.site = SITE_GETLINE;
	fault.calls = fault.failed = 0;
	fault.nth = 1;
	fault.error = ENOMEM;
	fault.for_ever = true;
	assert_int_equal(arena_open(&second, &dataset.identity, &options, &why), 0);
	assert_true(fault.failed);
	fault.nth = fault.failed = 0;
	assert_true(arena_present(second, 0, 1));
	arena_close(second);
	arena_close(first);
}

static void see_evictions(const char *step)
{
	if (!strcmp(step, "evict-cleared"))
		fault.is_evicting = true;
	else if (!strcmp(step, "evict-punched"))
		fault.is_evicting = false;
}

/* Uses whole chunks, more than there is room for. An evicted chunk's memory is freed by madvise(2),
 * or else by fallocate(2). Where both are refused the bytes stay and count, so no further chunk has
 * room. */
static void evicted_memory_is_given_back_whichever_call_is_refused(void **state)
{
	static const enum site sites[] = {SITE_MADVISE, SITE_FALLOCATE, SITE_FCNTL, SITE_PWRITE};

	(void)state;
	lived.budget = ROOM * ARENA_CHUNK;
	lived.blocks = ARENA_BLOCKS;
	assert_int_equal(life(), CHUNKS);
	for (unsigned i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
		each_call_fails(sites[i], EPERM, true, life);
	step_taken = see_evictions;
	assert_int_equal(life(), ROOM);
	step_taken = NULL;
	assert_true(fault.failed >= 2 * ROOM);
	fault.failed = 0;
	assert_int_equal(life(), CHUNKS);
	lived.budget = CHUNKS * ARENA_CHUNK;
	lived.blocks = 1;
}

static void fail_from(enum site site, unsigned nth, int error)
{
	fault.site = site;
	fault.calls = fault.failed = 0;
	fault.nth = nth;
	fault.error = error;
	fault.for_ever = true;
}

/* Returns how many calls have failed. */
static unsigned fail_no_more(void)
{
	unsigned failed = fault.failed;

	fault.nth = fault.failed = 0;
	return failed;
}

static struct arena *open_arena(const struct identity *identity)
{
	struct arena_options options = {.budget = lived.budget, .share = true, .node = test_node()};
	struct arena *arena;
	const char *why;

	assert_int_equal(arena_open(&arena, identity, &options, &why), 0);
	assert_null(why);
	return arena;
}

/* The process does not use an arena that it cannot check, and the next process shares the first arena again. */
static void head_of_found_arena_cannot_be_read_process_makes_its_own(void **state)
{
	struct arena *first = open_arena(&dataset.identity), *other;
	unsigned before = descriptors();

	(void)state;
	fail_from(SITE_PREAD, 1, EIO);
	other = open_arena(&dataset.identity);
	assert_true(fail_no_more() > 0);
	assert_true(arena_inode(other) != arena_inode(first));
	arena_close(other);
	assert_int_equal(descriptors(), before);
	other = open_arena(&dataset.identity);
	assert_true(arena_inode(other) == arena_inode(first));
	arena_close(other);
	arena_close(first);
}

/* A block is smaller than such a kernel's page and cannot be mapped alone. */
static void kernel_has_larger_pages_no_arena_may_be(void **state)
{
	(void)state;
	assert_true(arena_may_be(1));
	fault.large_pages = true;
	assert_false(arena_fits_pages());
	assert_false(arena_may_be(1));
	fault.large_pages = false;
}

/* --- tables ------------------------------------------------------------------------------------- */

/* Rows 1 to 31 share the first page of pins with row 0. */
static void page_of_pins_has_no_memory_its_rows_neither_pin_nor_claim(void **state)
{
	struct arena *arenas[ARENA_PAGE_ROWS], *last;

	(void)state;
	for (unsigned i = 0; i < ARENA_PAGE_ROWS; i++)
		arenas[i] = open_arena(&dataset.identity);
	last = arenas[ARENA_PAGE_ROWS - 1];
	assert_int_equal(last->row, ARENA_PAGE_ROWS);
	assert_true(arena_pin(arenas[0], 0));
	fail_from(SITE_FALLOCATE, 1, ENOSPC);
	assert_false(arena_pin(last, 0));
	assert_false(arena_claim(last, 0));
	assert_false(arena_row_has_pins(last, 0, last->row));
	assert_true(arena_pin(arenas[1], 0));
	assert_int_equal(fail_no_more(), 2);
	assert_true(arena_pin(last, 0));
	assert_true(arena_row_has_pins(last, 0, last->row));
	for (unsigned i = 0; i < ARENA_PAGE_ROWS; i++)
		arena_close(arenas[i]);
}

static void tables_have_no_memory_those_before_are_there(void **state)
{
	enum { GROUPS = 3 };
	struct identity identity = dataset.identity;
	struct arena *arena;

	(void)state;
	identity.size = GROUPS * (uint64_t)ARENA_GROUP * ARENA_CHUNK;
	arena = open_arena(&identity);
	fail_from(SITE_FALLOCATE, 2, ENOSPC);
	assert_false(arena_tables_make(arena));
	assert_true(arena_pin(arena, ARENA_GROUP - 1));
	assert_false(arena_pin(arena, ARENA_GROUP));
	assert_false(arena_tables_make(arena));
	fail_no_more();
	assert_true(arena_tables_make(arena));
	fail_from(SITE_FALLOCATE, 1, ENOSPC);
	for (uint64_t group = 0; group < GROUPS; group++)
		assert_true(arena_pin(arena, group * ARENA_GROUP));
	assert_int_equal(fail_no_more(), 0);
	arena_close(arena);
}

/* --- shrinking ---------------------------------------------------------------------------------- */

/* Whether arena_shrink() frees a block of the arena whose memfd this is. */
static bool shrinks(int file, const struct identity *identity, _Atomic(struct arena *) *attached)
{
	const struct arena *was = atomic_load(attached);
	uint64_t key[2] = {0};
	struct arena_head head;
	unsigned before = descriptors();
	char path[64];
	bool done;
	int fd;

	if (__real_pread(file, &head, sizeof(head), CHUNKS * (off_t)ARENA_CHUNK) == sizeof(head))
		memcpy(key, head.key, sizeof(key));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
	fd = __real_open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	done = arena_shrink(identity, key, fd, 1, attached);
	assert_int_equal(descriptors(), before);
	assert_ptr_equal(atomic_load(attached), was);
	return done;
}

static void arena_that_cannot_be_attached_to_does_not_shrink(void **state)
{
	const struct identity nothing = {0};
	struct arena *arena = open_arena(&dataset.identity);
	_Atomic(struct arena *) none = NULL, another = arena;
	int file = __real_open("/dev/null", O_RDWR | O_CLOEXEC);
	static uint8_t bytes[ARENA_BLOCK];

	(void)state;
	assert_true(arena_claim(arena, 0));
	assert_int_equal(arena_fill(arena, 0, bytes, ARENA_BLOCK), 0);
	arena_publish(arena, 0, 1);
	arena_release(arena, 0);
	assert_false(shrinks(arena->file.fd, &nothing, &none));
	fail_from(SITE_CALLOC, 1, ENOMEM);
	assert_false(shrinks(arena->file.fd, &dataset.identity, &none));
	assert_int_equal(fail_no_more(), 1);
	assert_false(shrinks(arena->file.fd, &dataset.identity, &another));
	assert_false(shrinks(file, &dataset.identity, &none));
	assert_true(arena_present(arena, 0, 1));
	assert_true(shrinks(arena->file.fd, &dataset.identity, &none));
	assert_false(arena_present(arena, 0, 1));
	assert_int_equal(arena_used(arena), 0);
	close(file);
	arena_close(arena);
}

static int begin(void **state)
{
	(void)state;
	dataset = dataset_make(CHUNKS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dataset_close(&dataset);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernel_knows_no_seal_against_running_arena_is_made),
		cmocka_unit_test(names_are_taken_and_calls_fail_right_bytes),
		cmocka_unit_test(list_of_names_cannot_be_read_arena_is_found),
		cmocka_unit_test(call_fails_right_bytes_or_an_error),
		cmocka_unit_test(evicted_memory_is_given_back_whichever_call_is_refused),
		cmocka_unit_test(head_of_found_arena_cannot_be_read_process_makes_its_own),
		cmocka_unit_test(kernel_has_larger_pages_no_arena_may_be),
		cmocka_unit_test(page_of_pins_has_no_memory_its_rows_neither_pin_nor_claim),
		cmocka_unit_test(tables_have_no_memory_those_before_are_there),
		cmocka_unit_test(arena_that_cannot_be_attached_to_does_not_shrink),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
