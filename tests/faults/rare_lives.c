/* SPDX-License-Identifier: OLDAP-2.8 */
/* What fewer programs do with lmdbio, and what it does where the machine lacks something, a life each. */
#include "config.h"
#include "rare_lives.h"

#include "library_calls.h"

#include "container_write.h"
#include "env_fixture.h"

#include "arena/arena.h"
#include "loader/batch_loader.h"
#include "node/node_socket.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE_RECORDS = 90, LARGE_VALUE = 200000 };

struct rare_data rare;

static size_t large_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < LARGE_VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] = (i * LARGE_VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return LARGE_VALUE - i;
}

/* Has the kernel forget what a file holds, so that it is read again. */
static void forget(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!syncfs(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	close(fd);
}

static void large_judge(const MDB_val *key, const MDB_val *data, uint64_t i)
{
	static uint8_t value[LARGE_VALUE];
	size_t size = large_make(value, i);

	(void)key;
	if (data->mv_size != size || memcmp(data->mv_data, value, size))
		lives_end(WRONG_BYTES, "bytes", (int)i);
}

static bool begin(MDB_env **env, const char *path, unsigned flags, MDB_txn **txn, MDB_dbi *dbi)
{
	*txn = NULL;
	if (!lives_done("mdb_env_create", mdb_env_create(env)))
		return *env = NULL, false;
	if (lives_done("mdb_env_open",
		       mdb_env_open(*env, path, MDB_RDONLY | MDB_NOTLS | flags, 0600)) &&
	    lives_done("mdb_txn_begin", mdb_txn_begin(*env, NULL, MDB_RDONLY, txn)))
		return lives_done("mdb_dbi_open", mdb_dbi_open(*txn, NULL, 0, dbi));
	return false;
}

static void end(MDB_env *env, MDB_txn *txn)
{
	if (txn)
		mdb_txn_abort(txn);
	if (env)
		mdb_env_close(env);
}

static void large_look_up(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_val key, data;
	char name[9];

	for (uint64_t i = 0; i < LARGE_RECORDS; i += 13) {
		snprintf(name, sizeof(name), "%08u", (unsigned)i);
		key = (MDB_val){8, name};
		if (lives_done("mdb_get", mdb_get(txn, dbi, &key, &data)))
			large_judge(&key, &data, i);
	}
}

/* At random and then from end to end, cold; what has been handed out is left to the kernel, which forgets it. */
static void read_large(const char *store, unsigned flags)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	forget(rare.large.data);
	lives_settings()->store = store;
	if (begin(&env, rare.large.directory, flags, &txn, &dbi)) {
		large_look_up(txn, dbi);
		lives_scan_all(txn, dbi, large_judge, LARGE_RECORDS);
		forget(rare.large.data);
		large_look_up(txn, dbi);
	}
	end(env, txn);
}

/* The page cache is given all of a file of which shared memory holds a part. */
static void read_beneath_arena(void)
{
	uint8_t page[4096];
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	int fd;

	forget(rare.large.data);
	lives_settings()->store = "auto";
	lives_settings()->io = "direct";
	if (begin(&env, rare.large.directory, MDB_NORDAHEAD, &txn, &dbi)) {
		large_look_up(txn, dbi);
		calls_spare(true);
		fd = open(rare.large.data, O_RDONLY | O_CLOEXEC);
		while (read(fd, page, sizeof(page)) > 0)
			;
		close(fd);
		calls_spare(false);
		lives_scan_all(txn, dbi, large_judge, LARGE_RECORDS);
	}
	end(env, txn);
	lives_settings()->io = "auto";
}

static void live_beneath(void)
{
	read_beneath_arena();
	calls_lack(LACK_SYSCALLS);
	read_beneath_arena();
	calls_lack(0);
}

static void live_cold(void)
{
	read_large("cache", 0);
	read_large("auto", 0);
	lives_settings()->io = "pread";
	read_large("auto", 0);
	lives_settings()->io = "direct";
	read_large("auto", 0);
	read_large("arena", MDB_NORDAHEAD);
	lives_settings()->io = "auto";
	forget(lives_data.data);
	lives_read("auto", lives_data.directory, MDB_NOTLS);
}

/* Every page is asked for, with no thread that reads ahead. */
static void live_alone(void)
{
	lives_settings()->prefetch = false;
	read_large("cache", 0);
	read_large("cache", MDB_NORDAHEAD);
	forget(lives_data.data);
	lives_read("cache", lives_data.directory, MDB_NOTLS | MDB_NORDAHEAD);
	forget(lives_data.data);
	lives_read("arena", lives_data.directory, MDB_NOTLS);
	lives_settings()->prefetch = true;
}

/* Another user's file, an old kernel, a sandbox. */
static void live_lacking(void)
{
	calls_lack(LACK_TOLD);
	read_large("auto", 0);
	calls_lack(LACK_POPULATE | LACK_STATX);
	read_large("cache", 0);
	lives_read("arena", lives_data.directory, MDB_NOTLS);
	calls_lack(LACK_SYSCALLS);
	lives_read("arena", lives_data.directory, MDB_NOTLS);
	read_large("cache", MDB_NORDAHEAD);
	calls_lack(LACK_RING | LACK_STATX | LACK_TMPFILE);
	lives_settings()->io = "direct";
	read_large("arena", 0);
	lives_settings()->io = "auto";
	lives_read("auto", lives_data.container, MDB_NOTLS | MDB_NOSUBDIR);
	calls_lack(0);
}

/* Less memory than data: chunks go and come again. */
static void live_poor(void)
{
	lives_settings()->memory.bytes = 4 << 20;
	read_large("arena", 0);
	calls_lack(LACK_REMOVE);
	read_large("arena", 0);
	calls_lack(0);
	lives_settings()->memory.bytes = 1 << 20;
	lives_read("auto", lives_data.container, MDB_NOTLS | MDB_NOSUBDIR);
	lives_settings()->memory.bytes = 0;
}

static void live_packed(void)
{
	lives_read("auto", lives_data.packed, MDB_NOTLS);
	lives_read("auto", rare.trained, MDB_NOTLS | MDB_NOSUBDIR);
	lives_settings()->io = "direct";
	lives_read("auto", rare.trained, MDB_NOTLS | MDB_NOSUBDIR);
	lives_settings()->io = "auto";
}

/* The program closes what it has not opened, and goes on. */
static void live_closed(void)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	int fd;

	lives_settings()->store = "cache";
	if (begin(&env, lives_data.directory, 0, &txn, &dbi)) {
		mdb_txn_abort(txn);
		txn = NULL;
		mdb_env_get_fd(env, &fd);
		close(fd);
		close(env->data);
		if (lives_done("mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)))
			lives_scan(txn, dbi);
	}
	end(env, txn);
}

/* Another process opens a file of LMDB 1.0, and dies with a reader's slot. */
static void slot_leave(void)
{
	pid_t child = fork();
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	if (!child) {
		if (begin(&env, lives_data.later, MDB_NOSUBDIR, &txn, &dbi))
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

/* A file of LMDB 1.0 in two environments, beside slots that dead processes have left. */
static void live_readers(void)
{
	MDB_env *env, *other;
	MDB_txn *txn, *second;
	char lock[300];
	MDB_dbi dbi;
	int dead = 0;

	snprintf(lock, sizeof(lock), "%s-lock", lives_data.later);
	unlink(lock);
	lives_settings()->store = "cache";
	slot_leave();
	if (begin(&env, lives_data.later, MDB_NOSUBDIR | MDB_NORDAHEAD, &txn, &dbi)) {
		if (begin(&other, lives_data.later, MDB_NOSUBDIR, &second, &dbi))
			lives_scan(second, dbi);
		end(other, second);
		slot_leave();
		(void)lives_done("mdb_reader_check", mdb_reader_check(env, &dead));
		lives_scan(txn, dbi);
		(void)lives_done("env_incr_dumpfd", env_incr_dumpfd(env, lives_data.nowhere, 0));
	}
	end(env, txn);
}

/* Runs it in a child, and ends as the child has ended if that was badly. */
static void in_child(void (*run)(void))
{
	pid_t child = fork();
	int status;

	if (!child) {
		run();
		_exit(0);
	}
	if (child < 0) {
		(void)lives_done("fork", errno);
		return;
	}
	waitpid(child, &status, 0);
	if (status)
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AGAIN);
}

static MDB_env *parents; /* environment, for a child */

static void read_inherited(void)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	if (lives_done("a child's mdb_txn_begin", mdb_txn_begin(parents, NULL, MDB_RDONLY, &txn)) &&
	    lives_done("a child's mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
		lives_scan(txn, dbi);
}

/* The path by which the parent has opened the data set leads nowhere any more. */
static void live_moved(void)
{
	MDB_txn *txn;
	char path[220];
	MDB_dbi dbi;

	snprintf(path, sizeof(path), "%s/moved", lives_data.scratch);
	lives_settings()->store = "cache";
	if (symlink(lives_data.directory, path))
		lives_end(MISSING, "symlink", errno);
	if (begin(&parents, path, MDB_NOTLS, &txn, &dbi)) {
		remove(path);
		in_child(read_inherited);
	}
	end(parents, txn);
	remove(path);
}

static void read_cached(void)
{
	lives_read("cache", lives_data.directory, MDB_NOTLS);
}

static void daemon_run(void)
{
	enum { FIRST = STDERR_FILENO + 1, LAST = 3000 };
	MDB_env *env, *later;
	MDB_txn *txn, *second;
	MDB_envinfo info;
	MDB_dbi dbi, of_later;

	lives_settings()->store = "arena";
	lives_settings()->memory.bytes = 4 << 20;
	if (begin(&env, rare.large.directory, 0, &txn, &dbi)) {
		large_look_up(txn, dbi);
		if (begin(&later, lives_data.later, MDB_NOSUBDIR, &second, &of_later)) {
			for (int fd = FIRST; fd < LAST; fd++)
				close(fd);
			calls_spare(true);
			lives_data.nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
			calls_spare(false);
			(void)lives_done("mdb_env_info", mdb_env_info(later, &info));
			lives_scan(second, of_later);
			lives_scan_all(txn, dbi, large_judge, LARGE_RECORDS);
			large_look_up(txn, dbi);
		}
		end(later, second);
	}
	end(env, txn);
	in_child(read_cached);
}

/* Closes all descriptors that it does not know, and goes on with its data sets, also in a child. */
static void live_daemon(void)
{
	in_child(daemon_run);
}

static void live_unusable(void)
{
	struct lmdbio_loader_options options = {.size = sizeof(options),
						.batch = 20,
						.order = LMDBIO_ORDER_SHUFFLE,
						.memory = 500000};

	lives_settings()->store = "cache";
	options.stage_dir = rare.shared;
	lives_load(&options);
	options.stage_dir = rare.linked; /* by a symbolic link of this user's */
	lives_load(&options);
	options.stage_dir = lives_data.stage;
	calls_lack(LACK_STATX);
	lives_settings()->io = "direct";
	lives_load(&options);
	lives_settings()->io = "auto";
	calls_lack(0);
	if (settings_refuses("LMDBIO_LMDB1", "none") && lives_strict)
		lives_end(WRONG_CODE, "LMDBIO_LMDB1", EINVAL);
}

static void load_as(struct lmdbio_loader_options options, unsigned sharers, const char *path,
		    bool large)
{
	const struct loader_hooks hooks = {.sharers = sharers, .node = sharers ? "lives" : NULL};
	const struct loader_place at = {.path = path, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	int rc;

	options.size = sizeof(options);
	forget(rare.large.data);
	forget(lives_data.data);
	if (!lives_done("loader_open",
			loader_open(&loader, &at, &options, sharers ? &hooks : NULL)))
		return;
	rc = loader_epoch(loader, 1);
	while (!rc && !(rc = loader_next(loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++) {
			if (batch->samples[i].error)
				(void)lives_done("a sample", batch->samples[i].error);
			else if (large)
				large_judge(NULL, &batch->samples[i].data,
					    batch->samples[i].record);
		}
		loader_done(batch);
	}
	if (rc != MDB_NOTFOUND)
		(void)lives_done("loader_next", rc);
	loader_close(loader);
}

/* Samples of all sizes past the arena, in rounds and in sweeps, and those of a job. */
static void live_epochs(void)
{
	struct lmdbio_loader_options options = {
		.batch = 6, .order = LMDBIO_ORDER_SHUFFLE, .memory = 6 << 20};

	lives_settings()->store = "arena";
	lives_settings()->io = "direct";
	load_as(options, 0, rare.large.directory, true);
	options.stage_dir = lives_data.stage;
	load_as(options, 1, rare.large.directory, true);
	options.memory = 400000;
	options.batch = 20;
	load_as(options, 1, lives_data.directory, false);
	options.stage_dir = NULL;
	load_as(options, 0, lives_data.directory, false);
	lives_settings()->io = "auto";
	lives_settings()->store = "cache";
	load_as(options, 0, lives_data.directory, false);
}

/* Serves one process until that ends. Every wish is answered, and no chunk is brought. */
static void serve(int listener)
{
	struct node_answer answer = {.version = NODE_VERSION};
	struct arena_options options = {.budget = 64 << 20, .share = true, .node = "lives-served"};
	struct node_message hello;
	struct pollfd ready[2] = {{.fd = listener, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	struct arena *arena = NULL;
	const char *why;
	int passed = -1;
	char bell[8];

	/* The listener is looked at only while no peer is connected. */
	for (; poll(ready, 2, -1) > 0; ready[0].fd = ready[1].fd < 0 ? listener : -1) {
		uint64_t chunk;
		bool urgent;

		if (ready[0].revents) {
			ready[1].fd = accept(listener, NULL, NULL);
			continue;
		}
		if (ready[1].revents && !arena) {
			if (!node_receive(ready[1].fd, &hello, sizeof(hello), &passed)) {
				close(ready[1].fd); /* The peer has only asked for the server. */
				ready[1].fd = -1;
				continue;
			}
			if (arena_open(&arena, &hello.identity, &options, &why) ||
			    arena_serve(arena, 0, false))
				answer.error = ENOMEM;
			(void)node_send(ready[1].fd, &answer, sizeof(answer), -1);
		} else if (ready[1].revents && recv(ready[1].fd, bell, sizeof(bell), 0) <= 0) {
			_exit(0);
		}
		while (arena && arena_wish_next(arena, &chunk, &urgent))
			arena_answer(arena, chunk, true);
	}
	_exit(0);
}

/* A job begins anew on a node on which the one before was killed. */
static void live_killed(void)
{
	const struct loader_hooks hooks = {.sharers = 1, .node = "lives"};
	const struct loader_place at = {.path = lives_data.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader_options options = {.size = sizeof(options),
						.batch = 20,
						.order = LMDBIO_ORDER_SHUFFLE,
						.memory = 400000,
						.stage_dir = lives_data.stage};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	pid_t child;

	lives_settings()->store = "cache";
	child = fork();
	if (!child) {
		if (lives_done("loader_open", loader_open(&loader, &at, &options, &hooks)) &&
		    lives_done("loader_epoch", loader_epoch(loader, 1)) &&
		    lives_done("loader_next", loader_next(loader, &batch)))
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	load_as(options, 1, lives_data.directory, false);
}

static void live_served(void)
{
	const char *node = "lives-served";
	struct sockaddr_un address;
	socklen_t length = node_address(&address, node);
	pid_t child, holder;
	uid_t user;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (node_holder(node, &user, &holder) != ENOENT && lives_strict)
		lives_end(WRONG_CODE, "node_holder", 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 5)) {
		close(fd);
		(void)lives_done("the server's socket", EMFILE);
		return;
	}
	child = fork();
	if (!child)
		serve(fd);
	close(fd);
	(void)lives_done("node_holder", node_holder(node, &user, &holder));
	lives_settings()->node = node;
	lives_read("arena", lives_data.directory, MDB_NOTLS);
	lives_settings()->node = NULL;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static const struct life rare_lives[] = {
	{"cold", live_cold},         {"beneath", live_beneath}, {"alone", live_alone},
	{"lacking", live_lacking},   {"poor", live_poor},       {"packed", live_packed},
	{"closed", live_closed},     {"daemon", live_daemon},   {"readers", live_readers},
	{"unusable", live_unusable}, {"epochs", live_epochs},   {"killed", live_killed},
	{"served", live_served},     {"moved", live_moved},
};
enum { RARE_LIVES = sizeof(rare_lives) / sizeof(*rare_lives) };

const struct life *lives_number(unsigned number)
{
	if (number < lives_count)
		return &lives[number];
	number -= lives_count;
	if (number < RARE_LIVES)
		return &rare_lives[number];
	number -= RARE_LIVES;
	return number < core_lives_count ? &core_lives[number] : NULL;
}

/* A few under one key, and many under the other. */
static char key_of(unsigned i)
{
	return i < 5 ? 'a' : 'b';
}

static void named_make(void)
{
	MDB_env *orig = origin_open(&rare.named);

	origin_put_text(orig, "plain", 0, "key", "value");
	origin_put_duplicates(orig, "many", NAMED_ENTRIES, key_of);
	lmdbio_orig_mdb_env_close(orig);
}

void lives_begin(void)
{
	static uint64_t words[1000];
	char command[1500];

	lives_data_make();
	snprintf(rare.trained, sizeof(rare.trained), "%s/trained.zst", lives_data.scratch);
	snprintf(rare.shared, sizeof(rare.shared), "%s/shared", lives_data.scratch);
	snprintf(rare.linked, sizeof(rare.linked), "%s/linked", lives_data.scratch);
	if (symlink(lives_data.stage, rare.linked))
		abort();
	snprintf(command, sizeof(command), "mkdir -m 1777 '%s' && ln -s / '%s/lmdbio-%u'",
		 rare.shared, rare.shared, (unsigned)geteuid());
	if (system(command))
		abort();
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = i * UINT64_C(0x0123456789abcdef);
	lives_pack(rare.trained, words, sizeof(words));
	place_make(&rare.large);
	place_put_records(&rare.large, LARGE_RECORDS, LARGE_VALUE, large_make);
	place_make(&rare.named);
	named_make();
}

void lives_over(void)
{
	lives_data_remove();
	place_remove(&rare.large);
	place_remove(&rare.named);
}
