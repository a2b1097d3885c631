/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the reader table of LMDB 1.0's lock file: its bytes, its slots, and what happens when a
 * slot's owner dies. */
#include "env/readers.h"

#include "env_fixture.h"
#include "util/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The offsets of LMDB 1.0.1 on x86-64; 0x2c2f6002 is what it writes there. */
enum { FORMAT_AT = 4, NEWEST_AT = 8, COUNT_AT = 16, MUTEX_AT = 24, SLOTS_AT = 128, SLOT = 64 };

struct fixture {
	struct place place;
	char lock[220], gone[220];
	struct readers *readers;
};

static struct readers *table_open(const struct fixture *f, unsigned most, bool threads)
{
	struct readers *readers;

	assert_int_equal(readers_open(&readers, f->lock, 0644, most, threads), 0);
	assert_non_null(readers);
	assert_int_equal(readers_share(readers, 5), 0);
	return readers;
}

static void set_up(struct fixture *f, unsigned most, bool threads)
{
	place_make(&f->place);
	snprintf(f->lock, sizeof(f->lock), "%s/lock.mdb", f->place.directory);
	f->readers = table_open(f, most, threads);
}

static void tear_down(struct fixture *f)
{
	readers_close(f->readers);
	place_remove(&f->place);
}

static void file_read(const struct fixture *f, uint8_t *bytes, size_t length)
{
	int fd = open(f->lock, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, length, 0), length);
	close(fd);
}

/* Runs `child` in a process that waits in it for SIGKILL; returns once the child has reported that
 * it waits. */
static pid_t child_start(const struct fixture *f, void (*child)(const struct fixture *f))
{
	int said[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		child(f);
		if (write(said[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(said[1]);
	assert_int_equal(read(said[0], &byte, 1), 1);
	close(said[0]);
	return pid;
}

static void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int keep_line(const char *line, void *context)
{
	char *lines = context;

	strncat(lines, line, 400 - strlen(lines));
	return 0;
}

static void pin_when_table_is_new_then_lmdb_finds_the_slot(void **state)
{
	uint8_t bytes[SLOTS_AT + SLOT];
	struct reader_slot *slot = NULL;
	char lines[512] = "", expected[100];
	struct fixture f;

	(void)state;
	set_up(&f, 4, false);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	assert_int_equal(readers_pin(f.readers, slot), 5);
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load32(bytes), 0xbeefc0de);
#ifdef __x86_64__
	assert_int_equal(load32(bytes + FORMAT_AT), 0x2c2f6002);
#endif
	assert_int_equal(load64(bytes + NEWEST_AT), 5);
	assert_int_equal(load32(bytes + COUNT_AT), 1);
	assert_int_equal(load64(bytes + SLOTS_AT), 5);
	assert_int_equal(load32(bytes + SLOTS_AT + 8), getpid());
	readers_list(f.readers, keep_line, lines);
	snprintf(expected, sizeof(expected), "%10d %zx 5\n", (int)getpid(), (size_t)pthread_self());
	assert_non_null(strstr(lines, expected));
	readers_rest(slot);
	file_read(&f, bytes, sizeof(bytes));
	assert_true(load64(bytes + SLOTS_AT) == READERS_IDLE);
	readers_give(f.readers, slot);
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load32(bytes + SLOTS_AT + 8), 0);
	tear_down(&f);
}

static void take_when_the_thread_reads_already_then_bad_rslot(void **state)
{
	struct reader_slot *slot = NULL, *second = NULL;
	struct fixture f;

	(void)state;
	set_up(&f, 4, true);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_pin(f.readers, slot);
	assert_int_equal(readers_take(f.readers, &second), MDB_BAD_RSLOT);
	readers_rest(slot);
	assert_int_equal(readers_take(f.readers, &second), 0);
	assert_ptr_equal(slot, second);
	tear_down(&f);
}

static void take_when_all_are_taken_then_readers_full(void **state)
{
	struct reader_slot *slots[5] = {NULL};
	struct fixture f;

	(void)state;
	set_up(&f, 4, false);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(readers_take(f.readers, &slots[i]), 0);
	assert_int_equal(readers_take(f.readers, &slots[4]), MDB_READERS_FULL);
	readers_give(f.readers, slots[1]);
	assert_int_equal(readers_take(f.readers, &slots[4]), 0);
	assert_int_equal(readers_used(f.readers), 4);
	tear_down(&f);
}

static void hold_slot(const struct fixture *f)
{
	struct readers *readers = table_open(f, 4, false);
	struct reader_slot *slot = NULL;

	if (readers_take(readers, &slot) || readers_pin(readers, slot) != 5)
		_exit(1);
}

static void check_when_a_reader_was_killed_then_its_slot_is_free(void **state)
{
	struct fixture f;
	int dead = -1;
	pid_t pid;

	(void)state;
	set_up(&f, 4, false);
	pid = child_start(&f, hold_slot);
	assert_int_equal(readers_check(f.readers, &dead), 0);
	assert_int_equal(dead, 0);
	child_kill(pid);
	assert_int_equal(readers_check(f.readers, &dead), 0);
	assert_int_equal(dead, 1);
	tear_down(&f);
}

static void hold_mutex(const struct fixture *f)
{
	int fd = open(f->lock, O_RDWR | O_CLOEXEC);
	uint8_t *map = mmap(NULL, SLOTS_AT, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED || pthread_mutex_lock((pthread_mutex_t *)(void *)(map + MUTEX_AT)))
		_exit(1);
}

/* Whether another process would take this one for alive: a child asks. */
static bool is_shown_alive(const struct fixture *f)
{
	pid_t parent = getpid(), child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = parent, .l_len = 1};
		int fd = open(f->lock, O_RDWR | O_CLOEXEC);

		_exit(fd < 0 || fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return !status;
}

/* Opens the table, and puts a file of the program's in place of the table's descriptor. Returns
 * that descriptor. */
static int set_up_replaced(struct fixture *f)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), own;
	struct stat lock, st;

	assert_true(fd >= 0);
	close(fd);
	set_up(f, 4, false); /* takes the lowest free number */
	assert_int_equal(stat(f->lock, &lock), 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_ino, lock.st_ino);
	own = open(f->place.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(own >= 0);
	assert_int_equal(dup2(own, fd), fd);
	close(own);
	return fd;
}

static void check_when_the_descriptor_is_another_file_then_live_readers_stay(void **state)
{
	struct fixture f;
	int fd = set_up_replaced(&f), dead = -1;
	uint8_t bytes[SLOTS_AT + SLOT];
	pid_t pid;

	(void)state;
	pid = child_start(&f, hold_slot);
	assert_int_equal(readers_check(f.readers, &dead), 0);
	assert_int_equal(dead, 0);
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load32(bytes + SLOTS_AT + 8), pid);
	child_kill(pid);
	tear_down(&f);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	close(fd);
}

static void take_when_the_descriptor_is_another_file_then_it_gets_no_lock(void **state)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 0};
	struct reader_slot *slot = NULL;
	struct fixture f;
	int fd = set_up_replaced(&f);
	pid_t pid;
	int status;

	(void)state;
	assert_int_equal(readers_take(f.readers, &slot), EBADF);
	pid = fork(); /* a process does not see its own locks */
	assert_true(pid >= 0);
	if (!pid)
		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type != F_UNLCK);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	tear_down(&f);
	close(fd);
}

static void open_when_the_descriptor_is_another_file_then_has_a_new_one(void **state)
{
	struct reader_slot *slot = NULL, *other = NULL;
	struct readers *second;
	struct fixture f;
	int fd = set_up_replaced(&f);

	(void)state;
	second = table_open(&f, 4, false);
	assert_int_equal(readers_take(second, &slot), 0);
	assert_int_equal(readers_take(f.readers, &other), 0);
	assert_true(is_shown_alive(&f));
	readers_close(second);
	assert_true(is_shown_alive(&f));
	tear_down(&f);
	close(fd);
}

static void take_when_a_process_died_with_the_lock_then_goes_on(void **state)
{
	struct reader_slot *slot = NULL;
	struct fixture f;

	(void)state;
	set_up(&f, 4, false);
	child_kill(child_start(&f, hold_mutex));
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_give(f.readers, slot);
	slot = NULL;
	assert_int_equal(readers_take(f.readers, &slot), 0);
	tear_down(&f);
}

static void hold_other_lock_file(const struct fixture *f)
{
	const uint32_t bytes[64] = {0xbeefc0de, 0x00010001};
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1};
	int fd = open(f->lock, O_RDWR | O_CLOEXEC);

	if (pwrite(fd, bytes, sizeof(bytes), 0) != sizeof(bytes) || fcntl(fd, F_SETLK, &lock))
		_exit(1);
}

static void open_when_lmdb_0_9_uses_the_file_then_version_mismatch(void **state)
{
	struct readers *readers;
	struct fixture f;
	pid_t pid;

	(void)state;
	set_up(&f, 4, false);
	readers_close(f.readers);
	pid = child_start(&f, hold_other_lock_file);
	assert_int_equal(readers_open(&readers, f.lock, 0644, 4, false), MDB_VERSION_MISMATCH);
	child_kill(pid);
	/* No process has the file open any more, so the table is made anew. */
	f.readers = table_open(&f, 4, false);
	tear_down(&f);
}

static void close_when_another_environment_reads_then_its_slot_stays(void **state)
{
	struct reader_slot *slot = NULL, *other = NULL;
	uint8_t bytes[SLOTS_AT + 2 * SLOT];
	struct readers *second;
	struct fixture f;

	(void)state;
	set_up(&f, 4, false);
	second = table_open(&f, 4, false);
	assert_int_equal(readers_take(second, &other), 0);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_pin(f.readers, slot);
	assert_true(is_shown_alive(&f));
	readers_close(second);
	assert_true(is_shown_alive(&f));
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load32(bytes + SLOTS_AT + 8), 0);
	assert_int_equal(load32(bytes + SLOTS_AT + SLOT + 8), getpid());
	assert_int_equal(load64(bytes + SLOTS_AT + SLOT), 5);
	tear_down(&f);
}

/* A child of a bare system call runs no code of lmdbio at the fork, so its memory still has the
 * parent's process id. */
static void take_when_a_bare_child_has_inherited_the_slot_then_bad_rslot(void **state)
{
	struct fixture f;
	struct reader_slot *slot = NULL;
	int status;
	pid_t pid;

	(void)state;
	set_up(&f, 8, true);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_give(f.readers, slot);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	assert_true(pid >= 0);
	if (!pid)
		_exit(readers_take(f.readers, &slot) == MDB_BAD_RSLOT ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	tear_down(&f);
}

static void close_when_inherited_then_the_parents_slot_stays(void **state)
{
	uint8_t bytes[SLOTS_AT + SLOT];
	struct reader_slot *slot = NULL;
	struct fixture f;
	pid_t pid;

	(void)state;
	set_up(&f, 4, false);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_pin(f.readers, slot);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		readers_close(f.readers);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load64(bytes + SLOTS_AT), 5);
	assert_int_equal(load32(bytes + SLOTS_AT + 8), getpid());
	tear_down(&f);
}

static int read_inherited(const struct fixture *f)
{
	struct reader_slot *slot = NULL, *other = NULL;
	struct readers *mine, *second;

	if (readers_inherit(&mine, f->readers, f->gone) ||
	    readers_inherit(&second, f->readers, f->gone) || readers_take(mine, &slot) ||
	    readers_take(second, &other))
		return 1;
	/* The parent's slot stays, and so does the file's newest transaction. */
	if (readers_used(mine) != 3 || readers_pin(mine, slot) != 5)
		return 2;
	readers_close(second);
	readers_close(f->readers);
	return is_shown_alive(f) ? 0 : 3;
}

static void inherit_when_the_path_is_gone_then_has_its_own_slots(void **state)
{
	struct reader_slot *slot = NULL;
	uint8_t bytes[SLOTS_AT + SLOT];
	int dead = -1, status;
	struct fixture f;
	pid_t pid;

	(void)state;
	set_up(&f, 4, false);
	assert_int_equal(readers_take(f.readers, &slot), 0);
	readers_pin(f.readers, slot);
	strcpy(f.gone, f.lock);
	strcpy(f.lock, f.place.data); /* the place removes a file of this name */
	assert_int_equal(rename(f.gone, f.lock), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(read_inherited(&f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(readers_check(f.readers, &dead), 0);
	assert_int_equal(dead, 1);
	assert_true(is_shown_alive(&f));
	file_read(&f, bytes, sizeof(bytes));
	assert_int_equal(load64(bytes + SLOTS_AT), 5);
	assert_int_equal(load32(bytes + SLOTS_AT + 8), getpid());
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pin_when_table_is_new_then_lmdb_finds_the_slot),
		cmocka_unit_test(take_when_the_thread_reads_already_then_bad_rslot),
		cmocka_unit_test(take_when_all_are_taken_then_readers_full),
		cmocka_unit_test(check_when_a_reader_was_killed_then_its_slot_is_free),
		cmocka_unit_test(check_when_the_descriptor_is_another_file_then_live_readers_stay),
		cmocka_unit_test(take_when_the_descriptor_is_another_file_then_it_gets_no_lock),
		cmocka_unit_test(open_when_the_descriptor_is_another_file_then_has_a_new_one),
		cmocka_unit_test(take_when_a_process_died_with_the_lock_then_goes_on),
		cmocka_unit_test(open_when_lmdb_0_9_uses_the_file_then_version_mismatch),
		cmocka_unit_test(close_when_another_environment_reads_then_its_slot_stays),
		cmocka_unit_test(take_when_a_bare_child_has_inherited_the_slot_then_bad_rslot),
		cmocka_unit_test(close_when_inherited_then_the_parents_slot_stays),
		cmocka_unit_test(inherit_when_the_path_is_gone_then_has_its_own_slots),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
