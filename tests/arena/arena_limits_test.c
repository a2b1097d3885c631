/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks an arena that gets less than it needs from the system or because of another user: no
 * signal, no wrong bytes, no blocking. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 40, NOBODY = 65534 };

static struct dataset dataset;

static void read_through(struct arena *arena, uint64_t chunks)
{
	struct control *control = child_control();
	struct reader reader;

	child_reader(&reader, arena, &dataset, control);
	for (uint64_t chunk = 0; chunk < chunks; chunk++)
		reader_use(&reader, chunk, 0, ARENA_BLOCKS);
	check(!control->wrong && !control->direct);
	reader_end(&reader);
}

static int try_open(struct arena **arena, const char **why)
{
	struct arena_options options = {
		.budget = CHUNKS * ARENA_CHUNK, .share = true, .node = test_node()};

	return arena_open(arena, &dataset.identity, &options, why);
}

static unsigned descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned count = 0;

	if (!directory)
		err(1, "/proc/self/fd");
	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

/* --- other users ---------------------------------------------------------------------------- */

static socklen_t name_of(const struct arena *key, unsigned slot, struct sockaddr_un *name)
{
	int n;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	n = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "lmdbio.%u.%016llx%016llx.%u",
		     (unsigned)getuid(), (unsigned long long)key->key[0],
		     (unsigned long long)key->key[1], slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static struct arena attached; /* a copy, for the names */

enum squat { SQUAT_BOUND, SQUAT_LISTENING, SQUAT_FULL, SQUATS };

static void squat(struct control *control, unsigned number)
{
	struct sockaddr_un names[ARENA_SLOTS];
	socklen_t lengths[ARENA_SLOTS];
	unsigned slots = number / SQUATS;

	for (unsigned slot = 0; slot < slots; slot++)
		lengths[slot] = name_of(&attached, slot, &names[slot]);
	check(!setresuid(NOBODY, NOBODY, NOBODY));
	for (unsigned slot = 0; slot < slots; slot++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0), other;

		check(!bind(fd, (struct sockaddr *)&names[slot], lengths[slot]));
		if (number % SQUATS == SQUAT_BOUND)
			continue;
		check(!listen(fd, 0));
		if (number % SQUATS == SQUAT_FULL) {
			other = socket(AF_UNIX, SOCK_STREAM, 0);
			check(!connect(other, (struct sockaddr *)&names[slot], lengths[slot]));
		}
	}
	atomic_store(&control->arrived, 1);
	for (;;)
		pause();
}

/* Returns how often this process has given up the processor in order to wait. */
static long sleeps(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage))
		err(1, "getrusage");
	return usage.ru_nvcsw;
}

static void names_when_another_user_has_them_then_the_arena_is_found(void **state)
{
	static const unsigned taken[] = {1, 40, ARENA_SLOTS};

	(void)state;
	if (geteuid())
		skip();
	for (unsigned i = 0; i < SQUATS * 3; i++) {
		struct control *control = child_control();
		pid_t pid = child_start(control, squat, i % SQUATS + SQUATS * taken[i / SQUATS]);
		struct arena *one, *two, *three;
		const char *why;
		long begun;

		while (!atomic_load(&control->arrived))
			sched_yield();
		begun = sleeps();
		assert_int_equal(try_open(&one, &why), 0);
		assert_null(why);
		assert_int_equal(try_open(&two, &why), 0);
		assert_int_equal(arena_inode(one), arena_inode(two));
		/* A contest that is waited out takes 5,000 pauses. */
		assert_in_range(sleeps() - begun, 0, 500);
		child_kill(pid);
		/* The names are free again: the third arena still finds the two that have other
		 * names. */
		assert_int_equal(try_open(&three, &why), 0);
		assert_int_equal(arena_inode(one), arena_inode(three));
		arena_close(three);
		read_through(one, 3);
		read_through(two, 3);
		arena_close(one);
		arena_close(two);
	}
	assert_int_equal(child_failures(), 0);
}

enum { NAMES = 257 }; /* more than the entries of the kernel's list that a process asks */

/* Listens on `number` names with random ends, like members that found all other names taken.
 * Accepts no connection. */
static void crowd_the_list(struct control *control, unsigned number)
{
	struct sockaddr_un name;

	for (unsigned i = 0; i < number; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		size_t length = name_of(&attached, 0, &name) - sizeof("0") + 1;

		length += (size_t)snprintf((char *)&name + length, sizeof(name) - length, "x%016x",
					   i);
		check(!bind(fd, (struct sockaddr *)&name, (socklen_t)length) && !listen(fd, 64));
	}
	atomic_store(&control->arrived, 1);
	for (;;)
		pause();
}

/* Where the list is too long, the arena searches all of the user's processes, including one that no
 * name leads to. */
static void arena_when_the_list_of_names_is_too_long_then_it_is_found(void **state)
{
	struct control *control = child_control();
	pid_t crowd = child_start(control, crowd_the_list, NAMES);
	struct leaders leaders;
	struct arena *one, *two;
	unsigned asked = 0;
	const char *why;

	(void)state;
	while (!atomic_load(&control->arrived))
		sched_yield();
	assert_int_equal(try_open(&one, &why), 0);
	assert_null(why);
	descriptor_kept_close(&one->listener);
	leaders_begin(&leaders, one);
	for (pid_t pid; (pid = leaders_next(&leaders)) > 0; asked++)
		assert_int_equal(pid, crowd);
	assert_int_equal(asked, NAMES - 1);
	assert_true(leaders.unsure);
	leaders_end(&leaders);
	assert_int_equal(try_open(&two, &why), 0);
	assert_null(why);
	assert_int_equal(arena_inode(one), arena_inode(two));
	arena_close(two);
	arena_close(one);
	child_kill(crowd);
	assert_int_equal(child_failures(), 0);
}

static void be_another(struct control *control, unsigned number)
{
	struct arena *arena;
	const char *why;
	char path[64];

	check(!setresuid(NOBODY, NOBODY, NOBODY));
	snprintf(path, sizeof(path), "/proc/%d/fd/%u", (int)getppid(), number);
	check(open(path, O_RDONLY) < 0 && errno == EACCES);
	check(!try_open(&arena, &why) && !why);
	check(arena_inode(arena) != control->inodes[0]);
	check(arena_members(arena) == 1);
	arena_close(arena);
}

static void arena_when_another_user_comes_then_it_gets_its_own(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&dataset, CHUNKS);

	(void)state;
	if (geteuid()) {
		arena_close(arena);
		skip();
	}
	control->inodes[0] = arena_inode(arena);
	assert_int_equal(child_wait(child_start(control, be_another, (unsigned)arena_fd(arena))), 0);
	arena_close(arena);
}

/* --- limits --------------------------------------------------------------------------------- */

static void limit_to(int resource, rlim_t value)
{
	struct rlimit limit;

	check(!getrlimit(resource, &limit));
	limit.rlim_cur = value;
	check(!setrlimit(resource, &limit));
}

static void open_with_few_descriptors(struct control *control, unsigned number)
{
	struct arena *first = number ? child_open(&dataset, CHUNKS) : NULL;
	unsigned before = descriptors() - 3, shared = 0, own = 0,
		 none = 0; /* without ., .. and the directory's own descriptor */

	(void)control;
	for (unsigned limit = 0; limit < before + 10; limit++) {
		struct arena *arena;
		const char *why;
		int rc;

		limit_to(RLIMIT_NOFILE, limit);
		rc = try_open(&arena, &why);
		check(rc == 0 || rc == EMFILE);
		check((rc == 0) == (arena != NULL));
		if (arena) {
			check(arena_claim(arena, 0) && arena_reserve(arena, 1));
			arena_close(arena);
		}
		*(rc ? &none : why ? &own : &shared) += 1;
		limit_to(RLIMIT_NOFILE, 1000);
		check(descriptors() - 3 == before);
	}
	check(shared && own && none);
	arena_close(first);
}

static void arena_when_descriptors_run_out_then_clean(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_wait(child_start(control, open_with_few_descriptors, 0)), 0);
	assert_int_equal(child_wait(child_start(control, open_with_few_descriptors, 1)), 0);
}

static void open_with_little_address_space(struct control *control, unsigned number)
{
	struct arena *arena;
	const char *why;

	(void)control;
	(void)number;
	limit_to(RLIMIT_AS, 30 << 20);
	check(try_open(&arena, &why) == ENOMEM && !arena);
	limit_to(RLIMIT_AS, RLIM_INFINITY);
	check(try_open(&arena, &why) == 0 && !why);
	arena_close(arena);
}

static void arena_when_address_space_is_short_then_an_errno(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* sanitizers map terabytes */
#endif
	assert_int_equal(child_wait(child_start(child_control(), open_with_little_address_space, 0)), 0);
}

static const uint8_t block[ARENA_BLOCK];

static void open_with_small_files(struct control *control, unsigned number)
{
	struct arena *arena, *first;
	const char *why;

	(void)control;
	(void)number;
	limit_to(RLIMIT_MEMLOCK, 0);
	limit_to(RLIMIT_FSIZE, ARENA_CHUNK);
	check(try_open(&arena, &why) == EFBIG && !arena);
	limit_to(RLIMIT_FSIZE, RLIM_INFINITY);
	first = child_open(&dataset, CHUNKS);
	limit_to(RLIMIT_FSIZE, ARENA_CHUNK);
	check(try_open(&arena, &why) == 0 && !why);
	check(arena_claim(arena, 1) && arena_reserve(arena, 1));
	check(arena_fill(arena, ARENA_CHUNK, block, sizeof(block)) == ENOMEM);
	arena_abandon(arena, 1, 1);
	limit_to(RLIMIT_FSIZE, RLIM_INFINITY);
	read_through(arena, CHUNKS);
	arena_close(arena);
	arena_close(first);
}

static void arena_when_files_must_be_small_then_no_signal(void **state)
{
	(void)state;
	assert_int_equal(child_wait(child_start(child_control(), open_with_small_files, 0)), 0);
}

static void fill_with_locked_memory(struct control *control, unsigned number)
{
	struct arena *arena;

	(void)number;
	if (mlockall(MCL_FUTURE)) {
		atomic_store(&control->stop, 1);
		return;
	}
	arena = child_open(&dataset, CHUNKS);
	check(arena_memory(arena) == 0);
	check(arena_claim(arena, 1) && arena_reserve(arena, 1));
	check(arena_fill(arena, ARENA_CHUNK, block, sizeof(block)) == 0);
	arena_publish(arena, ARENA_BLOCKS, 1);
	arena_release(arena, 1);
	check(arena_memory(arena) == ARENA_BLOCK);
	arena_close(arena);
}

static void arena_when_the_program_locks_its_memory_then_it_has_what_was_brought(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_wait(child_start(control, fill_with_locked_memory, 0)), 0);
	if (atomic_load(&control->stop))
		skip();
}

static void fill_with_small_dev_shm(struct control *control, unsigned number)
{
	struct arena *arena;

	(void)number;
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/dev/shm", "tmpfs", 0, "size=1m")) {
		atomic_store(&control->stop, 1);
		return;
	}
	arena = child_open(&dataset, CHUNKS);
	read_through(arena, CHUNKS);
	check(arena_used(arena) == CHUNKS * ARENA_CHUNK);
	arena_close(arena);
}

static void arena_when_dev_shm_is_small_then_it_does_not_matter(void **state)
{
	struct control *control = child_control();

	(void)state;
	assert_int_equal(child_wait(child_start(control, fill_with_small_dev_shm, 0)), 0);
	if (control->stop)
		skip(); /* no mount namespaces here */
}

/* --- system calls that a container forbids ---------------------------------------------------- */

static void forbid(unsigned call, unsigned error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = filter};

	check(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	check(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

static const struct {
	unsigned call, error;
	int rc;        /* what arena_open() must return */
	bool is_alone; /* whether it must give a reason */
} forbidden[] = {
	{__NR_memfd_create, EPERM, EPERM, true},
	{__NR_memfd_create, ENOSYS, ENOSYS, true},
	{__NR_socket, EPERM, 0, true},
	{__NR_bind, EACCES, 0, true},
	{__NR_listen, EACCES, 0, true},
	{__NR_connect, EACCES, 0, false},
	{__NR_getsockopt, EPERM, 0, false},
	{__NR_getrandom, ENOSYS, 0, false},
	{__NR_fallocate, ENOSPC, ENOSPC, true},
	{__NR_ftruncate, ENOMEM, ENOMEM, true},
	{__NR_fcntl, EINVAL, EINVAL, true},
	{__NR_openat, EACCES, 0, true},
	{__NR_futex, ENOSYS, 0, false},
};

static void open_forbidden(struct control *control, unsigned number)
{
	unsigned before = descriptors();
	struct arena *arena;
	const char *why;
	int rc;

	(void)control;
	forbid(forbidden[number].call, forbidden[number].error);
	rc = try_open(&arena, &why);
	check(rc == forbidden[number].rc);
	check((why != NULL) == forbidden[number].is_alone);
	if (rc == 0) {
		read_through(arena, CHUNKS);
		arena_close(arena);
	}
	if (forbidden[number].call != __NR_openat)
		check(descriptors() == before);
}

static void arena_when_a_call_is_forbidden_then_alone_or_an_errno(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
		int rc = child_wait(child_start(child_control(), open_forbidden, i));

		if (rc)
			print_message("case %u\n", i);
		assert_int_equal(rc, 0);
	}
}

/* Memory for the table runs out while the arena is in use. */
static void go_on_without_table(struct control *control, unsigned number)
{
	struct arena *arena = child_open(&dataset, CHUNKS);
	struct reader reader;

	(void)number;
	forbid(__NR_fallocate, ENOSPC);
	check(!arena_claim(arena, 0) && !arena_wait(arena, 0, 1000) && !arena_pin(arena, 0));
	check(!arena_present(arena, 0, 1));
	arena_touch(arena, 0);
	child_reader(&reader, arena, &dataset, control);
	reader_use(&reader, 0, 0, ARENA_BLOCKS);
	check(atomic_load(&control->direct) == 1);
	reader_end(&reader);
	arena_close(arena);
}

static void table_when_memory_runs_out_then_readers_go_on_without(void **state)
{
	(void)state;
	assert_int_equal(child_wait(child_start(child_control(), go_on_without_table, 0)), 0);
}

/* --- a queue that no process empties ---------------------------------------------------------- */

static void join(struct control *control, unsigned number)
{
	uint64_t begun = clock_now();
	struct arena *arena = child_open(&dataset, CHUNKS);

	(void)number;
	control->slowest = clock_now() - begun;
	check(arena_inode(arena) == control->inodes[0]);
	arena_close(arena);
}

static void newcomer_when_ten_thousand_have_come_and_gone_then_still_finds_the_arena(void **state)
{
	struct control *control = child_control();
	struct arena *arena = child_open(&dataset, CHUNKS);
	struct sockaddr_un name;
	socklen_t length = name_of(arena, arena->slot, &name);
	unsigned refused = 0;

	(void)state;
	control->inodes[0] = arena_inode(arena);
	for (unsigned i = 0; i < 10000; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

		refused += connect(fd, (struct sockaddr *)&name, length) != 0;
		close(fd);
	}
	assert_true(refused > 0);
	assert_int_equal(child_wait(child_start(control, join, 0)), 0);
	print_message("with a full queue: %.0f us\n", (double)control->slowest / 1e3);
	atomic_store(&arena->look_at, 0); /* as if a second had passed */
	(void)arena_members(arena);
	assert_int_equal(names_left(arena, false), 1);
	assert_int_equal(child_wait(child_start(control, join, 0)), 0);
	print_message("with an empty one: %.0f us\n", (double)control->slowest / 1e3);
	arena_close(arena);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_when_another_user_has_them_then_the_arena_is_found),
		cmocka_unit_test(arena_when_the_list_of_names_is_too_long_then_it_is_found),
		cmocka_unit_test(arena_when_another_user_comes_then_it_gets_its_own),
		cmocka_unit_test(arena_when_descriptors_run_out_then_clean),
		cmocka_unit_test(arena_when_address_space_is_short_then_an_errno),
		cmocka_unit_test(arena_when_files_must_be_small_then_no_signal),
		cmocka_unit_test(
			arena_when_the_program_locks_its_memory_then_it_has_what_was_brought),
		cmocka_unit_test(arena_when_dev_shm_is_small_then_it_does_not_matter),
		cmocka_unit_test(arena_when_a_call_is_forbidden_then_alone_or_an_errno),
		cmocka_unit_test(table_when_memory_runs_out_then_readers_go_on_without),
		cmocka_unit_test(
			newcomer_when_ten_thousand_have_come_and_gone_then_still_finds_the_arena),
	};
	struct arena *key;
	int failed;

	dataset = dataset_make(CHUNKS);
	key = child_open(&dataset, CHUNKS);
	attached = *key;
	arena_close(key);
	alarm(300); /* a hang is a failure */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&dataset);
	return failed;
}
