/* SPDX-License-Identifier: OLDAP-2.8 */
/* What every tier promises, asked of each row in turn; and what becomes of a local disk that lies, fills
 * up, fails, or has another user's files in the way. */
#include "env_fixture.h"

#include "loader/loader_tier.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 500 };

static struct place place;
static struct order order;

static struct tier_setup setup_of(const char *directory)
{
	struct order_spec spec = {.seed = 3,
				  .records = RECORDS,
				  .resident = RECORDS,
				  .batch = 10,
				  .block = 5,
				  .buffer = 2,
				  .policy = ORDER_OPPORTUNISTIC};

	assert_int_equal(order_init(&order, &spec), 0);
	return (struct tier_setup){.order = &order,
				   .identity = {.inode = 1, .size = 2, .snapshot = 3},
				   .root = 4,
				   .records = RECORDS,
				   .keep = 1 << 20,
				   .directory = directory};
}

static void record_make(uint64_t i, MDB_val *key, MDB_val *data, uint8_t *bytes)
{
	for (size_t j = 0; j < 300; j++)
		bytes[j] = (uint8_t)(i * 5 + j);
	*key = (MDB_val){i % 20 + 1, bytes};
	*data = (MDB_val){i % 250, bytes + 20};
}

static bool is_record(uint64_t i, const struct tier_record *found)
{
	uint8_t bytes[300];
	MDB_val key, data;

	record_make(i, &key, &data, bytes);
	return found->key.mv_size == key.mv_size && found->data.mv_size == data.mv_size &&
	       !memcmp(found->key.mv_data, key.mv_data, key.mv_size) &&
	       !memcmp(found->data.mv_data, data.mv_data, data.mv_size);
}

static uint64_t offer_all(const struct tier_ops *ops, void *state)
{
	uint8_t bytes[300];
	MDB_val key, data;
	uint64_t kept = 0;

	for (uint64_t i = 0; i < RECORDS; i++) {
		record_make(i, &key, &data, bytes);
		kept += ops->offer(state, i, &key, &data);
	}
	return kept;
}

/* How many records it has, each of them right. */
static unsigned have(const struct tier_ops *ops, void *state)
{
	struct tier_record found;
	unsigned n = 0;

	for (uint64_t i = 0; i < RECORDS; i++) {
		if (!ops->has(state, i))
			continue;
		assert_int_equal(ops->fetch(state, i, &found), 0);
		assert_true(is_record(i, &found));
		free(found.memory);
		n++;
	}
	return n;
}

static void tier_when_offered_records_then_has_them_right_or_not(void **state)
{
	static const struct tier_ops *const tiers[] = {&tier_null, &tier_kept, &tier_disk};
	static const unsigned keeps[] = {0, RECORDS, RECORDS};
	struct tier_setup setup = setup_of(place.directory);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const struct tier_ops *ops = tiers[i];
		void *tier = NULL;

		assert_true(ops->name && *ops->name);
		assert_int_equal(ops->open(&tier, &setup), 0);
		assert_int_equal(have(ops, tier), 0);
		assert_true((offer_all(ops, tier) > 0) == (keeps[i] > 0));
		assert_int_equal(have(ops, tier), keeps[i]);
		/* Nothing is kept twice. */
		assert_int_equal(offer_all(ops, tier), 0);
		assert_int_equal(ops->health(tier), TIER_GOOD);
		ops->close(tier);
	}
}

static void tier_when_memory_is_short_then_keeps_what_fits(void **state)
{
	struct tier_setup setup = setup_of(NULL);
	void *tier = NULL;
	unsigned n;

	(void)state;
	setup.keep = 10000;
	assert_int_equal(tier_kept.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_kept, tier) <= 10000);
	n = have(&tier_kept, tier);
	assert_true(n > 20 && n < 200);
	tier_kept.close(tier);
}

static void tier_when_not_set_up_then_there_is_none(void **state)
{
	struct tier_setup setup = setup_of(NULL);
	void *tier = NULL;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_null(tier);
	setup.keep = 0;
	assert_int_equal(tier_kept.open(&tier, &setup), 0);
	assert_null(tier);
}

/* --- the local disk --------------------------------------------------------------------------- */

static bool disk_file(char *path, size_t size)
{
	char pattern[260];
	glob_t found;
	bool there;

	snprintf(pattern, sizeof(pattern), "%s/lmdbio-stage-*", place.directory);
	there = !glob(pattern, 0, NULL, &found);
	if (there) {
		assert_int_equal(found.gl_pathc, 1);
		snprintf(path, size, "%s", found.gl_pathv[0]);
	}
	globfree(&found);
	return there;
}

static void disk_when_two_use_it_then_shared_and_gone_with_the_last(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *first = NULL, *second = NULL;
	char path[260];
	struct stat st;

	(void)state;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_int_equal(have(&tier_disk, second), RECORDS);
	assert_int_equal(offer_all(&tier_disk, second), 0);
	tier_disk.close(first);
	assert_true(disk_file(path, sizeof(path)));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(have(&tier_disk, second), RECORDS);
	tier_disk.close(second);
	assert_false(disk_file(path, sizeof(path)));
}

static void disk_when_of_another_data_set_then_not_believed(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	char path[260], other[260];
	void *tier = NULL;

	(void)state;
	/* As a process that was killed leaves it, under another one's name. */
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	assert_true(disk_file(path, sizeof(path)));
	snprintf(other, sizeof(other), "%s/kept", place.directory);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(tier);
	assert_int_equal(rename(other, path), 0);
	/* The same identity: it is of use again. */
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(have(&tier_disk, tier), RECORDS);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(tier);
	setup.identity.snapshot++;
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	assert_int_equal(rename(other, path), 0);
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Keeps the stage open until the program's end, as one that forgets to close its loader does. */
static void end_without_closing(const struct tier_setup *setup)
{
	static void *tier;

	if (tier_disk.open(&tier, setup) || !offer_all(&tier_disk, tier))
		_exit(1);
	exit(0);
}

static void disk_when_its_process_ends_then_gone_if_it_was_the_last(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *tier = NULL;
	char path[260];
	int status;
	pid_t child;

	(void)state;
	for (int others = 0; others < 2; others++) {
		if (others)
			assert_int_equal(tier_disk.open(&tier, &setup), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child)
			end_without_closing(&setup);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_int_equal(disk_file(path, sizeof(path)), others);
	}
	assert_int_equal(have(&tier_disk, tier), RECORDS);
	tier_disk.close(tier);
	assert_false(disk_file(path, sizeof(path)));
}

/* As a process that was killed leaves it, beside one that is alive. */
static void disk_when_to_be_fresh_then_only_what_the_living_have_is_there(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *first = NULL, *second = NULL;
	char path[260], other[260];

	(void)state;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_true(disk_file(path, sizeof(path)));
	snprintf(other, sizeof(other), "%s/kept", place.directory);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(first);
	assert_int_equal(rename(other, path), 0);
	setup.fresh = true;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(have(&tier_disk, first), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_int_equal(have(&tier_disk, second), RECORDS);
	tier_disk.close(first);
	tier_disk.close(second);
	assert_false(disk_file(path, sizeof(path)));
}

/* Locks that were asked for, and those of a user that were refused. */
static _Atomic unsigned asked, refused;

/* Takes the place of the library's. */
int flock(int fd, int operation)
{
	int rc = (int)syscall(SYS_flock, fd, operation);

	atomic_fetch_add(&asked, 1);
	if (rc && operation & LOCK_SH)
		atomic_fetch_add(&refused, 1);
	return rc;
}

/* The same: pauses between tries take no time here. */
int nanosleep(const struct timespec *wanted, struct timespec *left)
{
	(void)wanted;
	(void)left;
	return sched_yield();
}

static void *open_fresh(void *state)
{
	struct tier_setup setup = setup_of(place.directory);

	setup.fresh = true;
	assert_int_equal(tier_disk.open(state, &setup), 0);
	return NULL;
}

/* Two of a node that begin after one that was killed: the other one removes what is left, and makes
 * its own, when this one has opened what is left. */
static void disk_when_replaced_while_it_is_opened_then_the_new_one_is_used(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *tier = NULL, *other = NULL;
	char path[260];
	pthread_t opener;
	int left;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	left = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(left >= 0);
	assert_int_equal(write(left, "left", 4), 4);
	assert_int_equal(flock(left, LOCK_EX), 0);
	atomic_store(&refused, 0);
	assert_int_equal(pthread_create(&opener, NULL, open_fresh, &other), 0);
	while (!atomic_load(&refused))
		sched_yield();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	close(left);
	pthread_join(opener, NULL);
	assert_int_equal(tier_disk.health(other), TIER_GOOD);
	assert_true(offer_all(&tier_disk, other) > 0);
	assert_int_equal(have(&tier_disk, tier), RECORDS);
	tier_disk.close(tier);
	tier_disk.close(other);
	assert_false(disk_file(path, sizeof(path)));
}

static void disk_when_bytes_have_changed_then_dropped(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	struct tier_record found;
	char path[260];
	void *tier = NULL;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	assert_true(disk_file(path, sizeof(path)));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pwrite(fd, "x", 1, st.st_size - 1), 1);  /* of the last record */
	assert_int_equal(pwrite(fd, "\xff\xff\xff\xf0", 4, 4096 + 8), 4); /* the first one's size */
	close(fd);
	assert_int_equal(tier_disk.fetch(tier, RECORDS - 1, &found), EBADMSG);
	assert_int_equal(tier_disk.fetch(tier, 0, &found), EBADMSG); /* before memory is asked for */
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Nanoseconds that each look at the clock takes. */
static uint64_t clock_step;

/* Takes the place of the library's, so that a disk is slow without anybody waiting for it. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic uint64_t passed;
	uint64_t ns = atomic_fetch_add(&passed, clock_step) + clock_step;
	long rc = syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += (time_t)(ns / 1000000000);
	return (int)rc;
}

static void fetch_at(void *tier, uint64_t record, uint64_t seconds)
{
	struct tier_record found;

	clock_step = seconds * 1000000000;
	assert_int_equal(tier_disk.fetch(tier, record, &found), 0);
	clock_step = 0;
	assert_true(is_record(record, &found));
	free(found.memory);
}

static void disk_when_it_takes_seconds_again_and_again_then_dropped(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *tier = NULL;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	/* Now and then is nothing. */
	for (unsigned i = 0; i < 20; i++)
		fetch_at(tier, i, i % 3 ? 3 : 0);
	for (unsigned i = 0; i < 20; i++)
		fetch_at(tier, i, 1);
	fetch_at(tier, 1, 3);
	fetch_at(tier, 2, 3);
	assert_int_equal(tier_disk.health(tier), TIER_GOOD);
	fetch_at(tier, 3, 3);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

static void disk_when_it_may_not_grow_then_full_and_of_use(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	struct rlimit before, small = {.rlim_cur = 40000, .rlim_max = RLIM_INFINITY};
	uint64_t room, kept;
	void *tier = NULL;
	unsigned n;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	room = tier_disk.space(tier).room;
	kept = offer_all(&tier_disk, tier);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	/* Nobody counts on more than that. */
	assert_true(room < small.rlim_cur && kept <= room && kept > room - 300);
	assert_int_equal(tier_disk.health(tier), TIER_FULL);
	n = have(&tier_disk, tier);
	assert_true(n > 50 && n < RECORDS);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* How much it takes is what it says, whoever puts it there. */
static void disk_when_asked_for_its_room_then_says_what_it_takes(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	void *first = NULL, *second = NULL;
	uint64_t all, half = 0;
	uint8_t bytes[300];
	MDB_val key, data;

	(void)state;
	setup.limit = 1 << 20;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.space(first).room, setup.limit);
	assert_int_equal(tier_disk.space(first).written, 0);
	all = offer_all(&tier_disk, first);
	assert_int_equal(tier_disk.space(first).written, all);
	assert_int_equal(tier_disk.space(first).room, setup.limit - all);
	/* Who comes later has no more room for that. */
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_int_equal(tier_disk.space(second).room, setup.limit - all);
	assert_int_equal(tier_disk.space(second).written, 0);
	tier_disk.close(second);
	tier_disk.close(first);
	setup.limit = all / 2;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	for (uint64_t i = 0; i < RECORDS; i++) {
		record_make(i, &key, &data, bytes);
		if (key.mv_size + data.mv_size > tier_disk.space(first).room)
			break;
		half += tier_disk.offer(first, i, &key, &data);
	}
	assert_int_equal(tier_disk.space(first).written, half);
	assert_int_equal(tier_disk.health(first), TIER_GOOD);
	(void)offer_all(&tier_disk, first);
	assert_int_equal(tier_disk.health(first), TIER_FULL);
	assert_int_equal(tier_disk.space(first).room, 0);
	tier_disk.close(first);
	setup.directory = "/no/such/directory";
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.space(first).room, 0);
	tier_disk.close(first);
}

/* A name that leads elsewhere is no file of ours. */
static void disk_when_a_link_stands_there_then_not_followed(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	char path[260], victim[260];
	void *tier = NULL;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	snprintf(victim, sizeof(victim), "%s/victim", place.directory);
	fd = open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlink(victim, path), 0);
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 0);
	unlink(path);
	unlink(victim);
}

/* Where the stage file of this setup stands, though there is none. */
static void stage_place(char *path, size_t size)
{
	struct tier_setup setup = setup_of(place.directory);
	void *tier = NULL;

	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, size));
	tier_disk.close(tier);
}

static void is_refused(const struct tier_setup *setup)
{
	void *tier = NULL;

	assert_int_equal(tier_disk.open(&tier, setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Whatever stands there and is not this user's alone is left as it is, and no lock on it is asked for. */
static void disk_when_another_user_has_put_it_there_then_its_lock_is_not_waited_for(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	char path[260], second[280];
	struct stat st;
	int fd;

	(void)state;
	stage_place(path, sizeof(path));
	snprintf(second, sizeof(second), "%s.second", path);
	for (unsigned how = 0; how < 4; how++) {
		if (how == 0 && geteuid())
			continue; /* only root can have another user's file made */
		if (how == 3) {
			assert_int_equal(mkfifo(path, 0600), 0);
			is_refused(&setup);
			assert_int_equal(unlink(path), 0);
			continue;
		}
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, "theirs", 6), 6);
		if (how == 0)
			assert_int_equal(fchown(fd, 65534, 65534), 0);
		if (how == 1)
			assert_int_equal(fchmod(fd, 0666), 0);
		if (how == 2)
			assert_int_equal(link(path, second), 0);
		assert_int_equal(flock(fd, LOCK_EX), 0);
		for (unsigned fresh = 0; fresh < 2; fresh++) {
			setup.fresh = fresh;
			atomic_store(&asked, 0);
			is_refused(&setup);
			assert_int_equal(atomic_load(&asked), 0);
		}
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 6);
		close(fd);
		assert_int_equal(unlink(path), 0);
		if (how == 2)
			assert_int_equal(unlink(second), 0);
	}
}

/* As a process of this user that is stopped between two system calls. */
static void disk_when_a_lock_is_never_given_back_then_not_waited_for_without_end(void **state)
{
	struct flock head = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	struct tier_setup setup = setup_of(place.directory);
	char path[260];
	int fd;

	(void)state;
	stage_place(path, sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	is_refused(&setup);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &head), 0);
	is_refused(&setup);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

static void disk_when_others_may_write_to_its_directory_then_not_used(void **state)
{
	struct tier_setup setup = setup_of(place.directory);
	char elsewhere[260], own[260], path[260];
	void *tier = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(chmod(place.directory, 0770), 0);
	is_refused(&setup);
	assert_int_equal(chmod(place.directory, 0777), 0);
	is_refused(&setup);
	assert_false(disk_file(path, sizeof(path)));

	/* In one for everybody it is the user's own in it. */
	assert_int_equal(chmod(place.directory, 01777), 0);
	snprintf(own, sizeof(own), "%s/lmdbio-%u", place.directory, (unsigned)geteuid());
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_GOOD);
	assert_false(disk_file(path, sizeof(path)));
	assert_int_equal(lstat(own, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_true(offer_all(&tier_disk, tier) > 0);
	tier_disk.close(tier);

	/* Whatever another user has put there in its place is not. */
	assert_int_equal(chmod(own, 0777), 0);
	is_refused(&setup);
	assert_int_equal(rmdir(own), 0);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", place.directory);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, own), 0);
	is_refused(&setup);
	assert_int_equal(unlink(own), 0);
	assert_int_equal(rmdir(elsewhere), 0); /* it is empty */
	if (!geteuid()) {
		assert_int_equal(mkdir(own, 0755), 0);
		assert_int_equal(chown(own, 65534, 65534), 0);
		is_refused(&setup);
		assert_int_equal(rmdir(own), 0);
	}
	assert_int_equal(chmod(place.directory, 0700), 0);
}

static int group_setup(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	place_make(&place);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tier_when_offered_records_then_has_them_right_or_not),
		cmocka_unit_test(tier_when_memory_is_short_then_keeps_what_fits),
		cmocka_unit_test(tier_when_not_set_up_then_there_is_none),
		cmocka_unit_test(disk_when_two_use_it_then_shared_and_gone_with_the_last),
		cmocka_unit_test(disk_when_of_another_data_set_then_not_believed),
		cmocka_unit_test(disk_when_its_process_ends_then_gone_if_it_was_the_last),
		cmocka_unit_test(disk_when_to_be_fresh_then_only_what_the_living_have_is_there),
		cmocka_unit_test(disk_when_replaced_while_it_is_opened_then_the_new_one_is_used),
		cmocka_unit_test(disk_when_bytes_have_changed_then_dropped),
		cmocka_unit_test(disk_when_it_takes_seconds_again_and_again_then_dropped),
		cmocka_unit_test(disk_when_it_may_not_grow_then_full_and_of_use),
		cmocka_unit_test(disk_when_asked_for_its_room_then_says_what_it_takes),
		cmocka_unit_test(disk_when_a_link_stands_there_then_not_followed),
		cmocka_unit_test(
			disk_when_another_user_has_put_it_there_then_its_lock_is_not_waited_for),
		cmocka_unit_test(
			disk_when_a_lock_is_never_given_back_then_not_waited_for_without_end),
		cmocka_unit_test(disk_when_others_may_write_to_its_directory_then_not_used),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
