/* SPDX-License-Identifier: OLDAP-2.8 */
/* What single parts of the core do where one of their calls fails, a life each: the arena of workers that come and go,
 * counters, sealed copies, other LMDBs, back ends of reading. */
#include "config.h"
#include "rare_lives.h"

#include "container_write.h"
#include "container_write_private.h"
#include "library_calls.h"

#include "arena/arena_private.h"
#include "env/env.h"
#include "env/staged.h"
#include "index/page_shelf.h"
#include "io/io.h"
#include "io/io_page_cache.h"
#include "origin/origin_find.h"
#include "util/guarded.h"
#include "util/settings.h"
#include "util/stats.h"
#include "util/stats_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- what processes share --------------------------------------------------------------------- */

static struct arena *arena_of(uint64_t inode, unsigned chunks, uint64_t budget)
{
	struct identity identity = {
		.device = 7, .inode = inode, .size = chunks * (uint64_t)ARENA_CHUNK};
	struct arena_options options = {
		.budget = budget * ARENA_CHUNK, .share = true, .node = "lives"};
	struct arena *arena = NULL;
	const char *why;

	(void)lives_done("arena_open", arena_open(&arena, &identity, &options, &why));
	return arena;
}

/* Each block, if it is not there. */
static void arena_visit(struct arena *arena)
{
	uint64_t bytes[ARENA_BLOCK / sizeof(uint64_t)];

	for (uint64_t i = 0; i < arena_chunks(arena) * ARENA_BLOCKS; i++) {
		for (size_t at = 0; at < sizeof(bytes) / sizeof(*bytes); at++)
			bytes[at] = i;
		if (arena_present(arena, i, 1)) {
			if (memcmp(arena_bytes(arena) + i * ARENA_BLOCK, bytes, sizeof(bytes)))
				lives_end(WRONG_BYTES, "an arena's block", (int)i);
			continue;
		}
		if (!arena_claim(arena, i / ARENA_BLOCKS))
			continue;
		if (arena_reserve(arena, 1)) {
			if (lives_done("arena_fill",
				       arena_fill(arena, i * ARENA_BLOCK, bytes, ARENA_BLOCK)))
				arena_publish(arena, i, 1);
			else
				arena_abandon(arena, i / ARENA_BLOCKS, 1);
		}
		arena_release(arena, i / ARENA_BLOCKS);
	}
}

/* Workers come and go, and leave what they have read to those that come after them; some are in a sandbox. */
static void live_kept(void)
{
	arena_keeper_end(); /* which the fork of this process has made, before a call could fail */
	for (unsigned i = 0; i < 6; i++) {
		pid_t child = fork();
		struct arena *arena;
		int status;

		if (!child) {
			calls_lack(i % 2 ? LACK_REMOVE | LACK_NAMES : 0);
			arena = arena_of(1 + i % 3, 3 + i % 2, 6);
			if (arena) {
				arena_visit(arena);
				arena_close(arena);
			}
			_exit(0);
		}
		waitpid(child, &status, 0);
		if (status)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AGAIN);
	}
}

static void live_huge(void)
{
	struct arena *arena = arena_of(20, 4, 64);

	if (!arena)
		return;
	atomic_store(&arena->trust, 1);
	arena_prepare(arena, 0, 4);
	arena_visit(arena);
	arena_close(arena);
}

/* All names by which others would find an arena are taken. */
static void live_nameless(void)
{
	struct arena *arenas[ARENA_SLOTS + 1];
	unsigned n = 0;

	for (; n <= ARENA_SLOTS && (arenas[n] = arena_of(30, 1, 64)); n++)
		;
	while (n)
		arena_close(arenas[--n]);
}

/* --- the rest ------------------------------------------------------------------------------------ */

static void live_counted(void)
{
	struct settings_output output = {.how = SETTINGS_STATS_FILE, .file = lives_data.text};
	struct stats_process rows[20];
	struct stats_report report = {.program = "lives", .pid = 1};
	struct arena *arena = arena_of(40, 1, 64);
	struct stats_table table, joined;
	char where[STATS_WHERE], file[300];
	unsigned others;

	snprintf(file, sizeof(file), "%s/counted", lives_data.scratch);
	output.file = file;
	stats_report_write(&report, &output);
	unlink(file);
	(void)arena_count(); /* a failure makes it less */
	if (arena)
		arena_close(arena);
	if (!lives_done("stats_table_make", stats_table_make(&table)))
		return;
	(void)stats_table_take(&table, stats_owner_of(getpid()));
	stats_table_where(&table, where);
	if (!stats_table_join(&joined, where))
		stats_table_close(&joined);
	else if (lives_strict)
		lives_end(WRONG_CODE, "stats_table_join", ENOENT);
	(void)stats_node_read(rows, sizeof(rows) / sizeof(*rows), &others);
	stats_table_close(&table);
}

static void live_sealing(void)
{
	struct staged_original original;
	char name[STAGED_NAME], below[500];
	struct guarded directory;
	int fd = open(lives_data.data, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (lives_done("staged_identify", staged_identify(fd, &original))) {
		staged_name(&original.identity, name);
		snprintf(below, sizeof(below), "%s/%s", lives_data.staged, name);
		if (lives_done("guarded_open", guarded_open(&directory, below, false))) {
			(void)lives_done("staged_seal",
					 staged_seal(&directory, staged_file(&original),
						     &original.identity));
			guarded_close(&directory);
		}
	}
	close(fd);
	lives_settings()->staged = lives_data.staged;
	lives_read("cache", lives_data.directory, MDB_NOTLS);
	lives_settings()->staged = NULL;
}

/* What a program has that was built for LMDB 1.0: lmdbio's own, by another name. */
static const struct origin *origin_for_later(void)
{
	static const struct origin_later_functions functions;
	static struct origin other;

	other = *origin_built_in();
	other.for_later = true;
	other.later = &functions;
	return &other;
}

static bool env_begin(const struct origin *origin, MDB_env **env, MDB_txn **txn, const char *path,
		      unsigned flags)
{
	*txn = NULL;
	if (!lives_done("env_create_by", env_create_by(origin, env)))
		return *env = NULL, false;
	return lives_done("env_open", env_open(*env, path, MDB_RDONLY | MDB_NOTLS | flags, 0600)) &&
	       lives_done("mdb_txn_begin", mdb_txn_begin(*env, NULL, MDB_RDONLY, txn));
}

static void env_end(MDB_env *env, MDB_txn *txn)
{
	if (txn)
		mdb_txn_abort(txn);
	if (env)
		mdb_env_close(env);
}

/* Databases with names, one with many duplicates, in a map far larger than the file, which becomes larger still. */
static void live_named(void)
{
	MDB_txn *txn = NULL;
	MDB_val key, data;
	MDB_dbi dbi, many;
	MDB_env *env;

	if (!lives_done("mdb_env_create", mdb_env_create(&env)))
		return;
	mdb_env_set_maxdbs(env, 4);
	mdb_env_set_mapsize(env, (size_t)1 << 40);
	lives_settings()->store = "cache";
	if (lives_done("mdb_env_open",
		       mdb_env_open(env, rare.named.directory, MDB_RDONLY | MDB_NOTLS, 0600))) {
		(void)lives_done("mdb_env_set_mapsize", mdb_env_set_mapsize(env, (size_t)1 << 41));
		if (lives_done("mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) &&
		    lives_done("mdb_dbi_open", mdb_dbi_open(txn, "plain", 0, &dbi)) &&
		    lives_done("mdb_dbi_open", mdb_dbi_open(txn, "many", 0, &many)) &&
		    lives_done("lmdbio_get_record",
			       lmdbio_get_record(txn, many, NAMED_ENTRIES - 1, &key, &data)) &&
		    (data.mv_size != 8 || memcmp(data.mv_data, "00019999", 8)))
			lives_end(WRONG_BYTES, "an entry", (int)data.mv_size);
	}
	env_end(env, txn);
}

/* A program with an LMDB of its own, to which lmdbio cannot lend what it has read. */
static void live_bundled(void)
{
	void *handle = dlopen("liblmdb.so.0", RTLD_NOW | RTLD_LOCAL);
	void *create = handle ? dlsym(handle, "mdb_env_create") : NULL;
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;

	lives_settings()->store = "cache";
	if (create && env_begin(origin_at(create), &env, &txn, lives_data.later, MDB_NOSUBDIR) &&
	    lives_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
		lives_scan(txn, dbi);
	env_end(env, txn);
}

/* A program that was built for LMDB 1.0: names of databases, a file of its own kind, and one that it cannot write to. */
static void live_for_later(void)
{
	const struct origin *origin = origin_for_later();
	MDB_cursor *cursor;
	MDB_val key, data;
	unsigned n = 0;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	lives_settings()->store = "cache";
	if (env_begin(origin, &env, &txn, rare.named.directory, 0) &&
	    lives_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)) &&
	    lives_done("mdb_cursor_open", mdb_cursor_open(txn, dbi, &cursor))) {
		while (!(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT)))
			if (strcmp(key.mv_data, n++ ? "plain" : "many"))
				lives_end(WRONG_BYTES, "a name", (int)n);
		mdb_cursor_close(cursor);
		if (rc != MDB_NOTFOUND)
			(void)lives_done("mdb_cursor_get", rc);
	}
	env_end(env, txn);
	if (env_begin(origin, &env, &txn, lives_data.later, MDB_NOSUBDIR) &&
	    lives_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
		lives_scan(txn, dbi);
	env_end(env, txn);
	dup2(lives_data.nowhere, STDERR_FILENO);
	lives_settings()->verbose = true;
	if (lives_done("env_create_by", env_create_by(origin, &env))) {
		rc = env_open(env, lives_data.text, MDB_NOSUBDIR, 0600);
		if (rc != MDB_INVALID)
			(void)lives_done("env_open of a text", rc ? rc : MDB_INVALID);
		mdb_env_close(env);
	}
	lives_settings()->verbose = false;
}

/* Pages of an index that memory has no room for. */
static void live_shelved(void)
{
	enum { PAGE = 4096, PAGES = 4, SHIFT = 12, IN_MEMORY = 2 };
	struct window_view view = {.limit = PAGES, .page_shift = SHIFT};
	struct snapshot snapshot = {.view = view}, shown;
	struct page_shelf *shelf;
	uint8_t page[PAGE];

	if (!lives_done("shelf_open", shelf_open(&shelf, &view, IN_MEMORY * PAGE)))
		return;
	shelf_extend(shelf, lives_data.stage, PAGES * PAGE);
	for (unsigned i = 0; i < PAGES; i++) {
		memset(page, (int)i + 1, PAGE);
		(void)shelf_put(shelf, i, page);
	}
	shown = shelf_snapshot(shelf, &snapshot);
	for (unsigned i = 0; i < PAGES; i++) {
		memset(page, (int)i + 1, PAGE);
		if (!shelf_bring(shelf, i)) {
			lives_failed = true; /* it is read again */
			continue;
		}
		if (memcmp(shown.view.base + i * PAGE, page, PAGE))
			lives_end(WRONG_BYTES, "a page", (int)i);
		shelf_rest(shelf, i);
		if (shelf_bring(shelf, i) && memcmp(shown.view.base + i * PAGE, page, PAGE))
			lives_end(WRONG_BYTES, "a page that has rested", (int)i);
		shelf_drop(shelf, i);
	}
	shelf_close(shelf);
}

/* Requests that are under way at once. */
static void requests_run(struct io *io, uint8_t *bytes)
{
	enum { REQUESTS = 8, LENGTH = 64 << 10 };
	struct io_request requests[REQUESTS], *asked[REQUESTS], *done[REQUESTS];
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < REQUESTS; i++) {
		requests[i] = (struct io_request){
			.offset = i * LENGTH, .length = LENGTH, .buffer = bytes + i * LENGTH};
		asked[i] = &requests[i];
	}
	rc = io_submit(io, asked, REQUESTS);
	if (!lives_done("io_submit", rc))
		return;
	while (n < REQUESTS)
		n += io_wait(io, done, 1, REQUESTS);
	for (size_t i = 0; i < REQUESTS; i++) {
		uint8_t right[LENGTH];

		if (!lives_done("a request", requests[i].error))
			continue;
		calls_spare(true);
		if (pread(io->fd, right, LENGTH, (off_t)requests[i].offset) != LENGTH)
			abort();
		calls_spare(false);
		if (requests[i].done != LENGTH || memcmp(requests[i].buffer, right, LENGTH))
			lives_end(WRONG_BYTES, "a request's bytes", (int)i);
	}
}

/* By an io_uring where there is one, and by threads. */
static void live_requesting(void)
{
	static const char *const backends[] = {"direct", "pread"};
	enum { ROOM = 1 << 20 };
	int fd = open(rare.large.data, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes = io_buffer_new(ROOM);
	struct io io = {0};

	if (fd < 0 || !bytes)
		(void)lives_done("what the test reads by", ENOMEM);
	for (unsigned i = 0; fd >= 0 && bytes && i < 2; i++)
		if (lives_done("io_open_file", io_open_file(&io, backends[i], fd))) {
			requests_run(&io, bytes);
			requests_run(&io, bytes);
			io_close(&io);
		}
	if (bytes)
		io_buffer_free(bytes, ROOM);
	close(fd);
}

/* Huge folios of a file, to its end and past it, by each way to touch a page. */
static void live_touching(void)
{
	int fd = open(rare.large.data, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *map;

	if (fd < 0 || fstat(fd, &st)) {
		close(fd);
		return;
	}
	calls_lack(LACK_SYSCALLS);
	map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED) {
		int rc = io_touch(map);

		if (rc != ENOSYS) /* the kernel does not know the advice */
			(void)lives_done("io_touch", rc);
		(void)io_touch_is_dear();
		munmap(map, (size_t)st.st_size);
	}
	calls_lack(0);
	(void)io_huge_keep(fd, 0, 4 << 20);
	(void)io_huge_keep(fd, ((uint64_t)st.st_size - (1 << 20)) & ~(uint64_t)4095, 4 << 20);
	close(fd);
}

/* Numbers in the order in which they were put. */
static int number_take(void *taker, const void *bytes, size_t length)
{
	uint64_t *next = taker, number;

	for (size_t at = 0; at < length; at += LAYOUT_PAGE, ++*next) {
		memcpy(&number, (const uint8_t *)bytes + at + INDEX_BODY, sizeof(number));
		if (number != *next)
			lives_end(WRONG_BYTES, "a list", (int)*next);
	}
	return 0;
}

/* The lists of a container of gigabytes, which memory has no room for. */
static void live_listed(void)
{
	enum { PAGES = LIST_MEMORY + 3 };
	struct page_list list;
	uint64_t next = 0;
	bool done = true;

	list_open(&list, LAYOUT_CHUNKS, 1, lives_data.stage);
	for (uint64_t i = 0; i < PAGES && done; i++) {
		memcpy(list_entry(&list, sizeof(i), i), &i, sizeof(i));
		done = lives_done("list_seal", list_seal(&list));
	}
	if (done && lives_done("list_empty", list_empty(&list, number_take, &next)) &&
	    next != PAGES)
		lives_end(MISSING, "pages of a list", (int)next);
	list_close(&list);
}

static void live_listed_by_name(void)
{
	live_listed();
	calls_lack(LACK_TMPFILE);
	live_listed();
	calls_lack(0);
}

/* A container that is written to a pipe. */
static void live_piped(void)
{
	struct container_write_options options = {
		.size = 3 << 20, .page_size = 4096, .chunk_size = 1 << 20, .level = 1};
	struct container_writer *writer;
	int status, ends[2];
	uint8_t *bytes;
	pid_t child;

	calls_spare(true);
	bytes = calloc(1, options.size);
	if (!bytes || pipe(ends))
		abort();
	calls_spare(false);
	child = fork();
	if (!child) { /* takes all */
		calls_spare(true);
		close(ends[1]);
		while (read(ends[0], bytes, options.size) > 0)
			;
		_exit(0);
	}
	close(ends[0]);
	if (lives_done("container_write_open", container_write_open(&writer, ends[1], &options))) {
		if (lives_done("container_write_bytes",
			       container_write_bytes(writer, bytes, options.size)))
			(void)lives_done("container_write_finish", container_write_finish(writer));
		container_write_close(writer);
	}
	close(ends[1]);
	free(bytes);
	waitpid(child, &status, 0);
}

/* In a child that finds its data set's directory moved. Returns the child's status. */
static int read_moved(MDB_env *env, const char *directory, const char *moved)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	calls_spare(true);
	if (rename(directory, moved))
		abort();
	calls_spare(false);
	if (lives_done("a child's mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))) {
		if (lives_done("a child's mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
			lives_look_up(txn, dbi, 77);
		mdb_txn_abort(txn);
	}
	calls_spare(true);
	return rename(moved, directory);
}

/* A child inherits the lock file of LMDB 1.0, which no path leads to. */
static void live_inherited(void)
{
	char directory[240], moved[240], data[260];
	int status = 0;
	MDB_env *env;
	MDB_txn *txn;
	pid_t child;

	snprintf(directory, sizeof(directory), "%s/inherited", lives_data.scratch);
	snprintf(moved, sizeof(moved), "%s/moved", lives_data.scratch);
	snprintf(data, sizeof(data), "%s/data.mdb", directory);
	calls_spare(true);
	if ((mkdir(directory, 0700) || link(lives_data.later, data)) && errno != EEXIST)
		abort();
	calls_spare(false);
	lives_settings()->store = "cache";
	if (env_begin(origin_built_in(), &env, &txn, directory, 0)) {
		mdb_txn_abort(txn);
		txn = NULL;
		calls_spare(true);
		child = fork();
		calls_spare(false);
		if (!child)
			_exit(read_moved(env, directory, moved));
		waitpid(child, &status, 0);
		if (status)
			_exit(WIFEXITED(status) ? WEXITSTATUS(status) : NOT_AGAIN);
	}
	env_end(env, txn);
}

const struct life core_lives[] = {
	{"kept", live_kept},         {"huge", live_huge},
	{"nameless", live_nameless}, {"counted", live_counted},
	{"sealing", live_sealing},   {"named", live_named},
	{"bundled", live_bundled},   {"for LMDB 1.0", live_for_later},
	{"shelved", live_shelved},   {"requesting", live_requesting},
	{"touching", live_touching}, {"listed", live_listed_by_name},
	{"piped", live_piped},       {"inherited", live_inherited},
};
const unsigned core_lives_count = sizeof(core_lives) / sizeof(*core_lives);
