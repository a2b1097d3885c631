/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a reader must see while another process writes.
 *
 * A process with the original LMDB writes, in each of its modes; a second one reads, first with
 * the original, then with lmdbio. Every value of a snapshot must tell the snapshot's own id, and
 * where the steps do not depend on time both libraries must return the same codes and sizes.
 */
#include "both_libraries.h"
#include "live_writer.h"
#include "snapshot_checks.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SNAPSHOTS = 60,
	MOST_SNAPSHOTS = 2000,
	TRANSACTIONS = 20,
	HELD_COMMITS = 12,
	GROWTHS = 2,
	GROWTHS_MOST = 16, /* in one of them */
	MAP_SIZE = 32 << 20,
	TOLD_ROOM = 4096,
};

static const struct {
	const char *name;
	unsigned flags;
} modes[] = {
	{"sync", 0},
	{"MDB_NOSYNC", MDB_NOSYNC},
	{"MDB_WRITEMAP|MDB_NOSYNC", MDB_WRITEMAP | MDB_NOSYNC},
	{"MDB_WRITEMAP|MDB_MAPASYNC", MDB_WRITEMAP | MDB_MAPASYNC},
};

/* The LMDB that the writing process has; `loaded`: the library of LIVE_LOADED. */
static enum live_kind writing_kind = LIVE_ORIGINAL;
static struct library loaded;

static void tell(struct reading *reading, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void tell(struct reading *reading, const char *format, ...)
{
	size_t used = strlen(reading->told);
	va_list list;

	va_start(list, format);
	vsnprintf(reading->told + used, reading->told_room - used, format, list);
	va_end(list);
}

/* --- the three parts -------------------------------------------------------------------------- */

/* As programs do it: MDB_MAP_RESIZED is answered by taking the new size over. */
static int begin_or_adopt(struct reading *reading, MDB_txn **txn)
{
	const struct library *library = reading->library;
	int rc = library->mdb_txn_begin(reading->env, NULL, MDB_RDONLY, txn);

	while (rc == MDB_MAP_RESIZED) {
		reading->resized++;
		rc = library->mdb_env_set_mapsize(reading->env, 0);
		if (rc == 0)
			rc = library->mdb_txn_begin(reading->env, NULL, MDB_RDONLY, txn);
	}
	return rc;
}

/* lmdb.h: a reader that is suspended while it begins can see wrong data when writers commit: the
 * original takes the meta page's word without looking whether it is still that transaction's.
 * It is the reference for all else here, so that may happen to it, rarely. To us never. */
static bool is_overtaken(struct reading *reading, int rc)
{
	if (rc != EIO || reading->library != &library_original ||
	    ++reading->overtaken > SNAPSHOTS / 10)
		return false;
	printf("    (the original was overtaken by the writer)\n");
	return true;
}

/* Snapshots of a writer that does not wait: by begin and abort, then by reset and renew. */
static int read_beside(struct reading *reading)
{
	const struct library *library = reading->library;
	struct live_answer first, last;
	MDB_txn *txn = NULL;
	uint64_t before = 0, enough = reading->distinct + TRANSACTIONS;
	int rc = live_writer_ask(reading->writer, LIVE_RUN, 0, &first);

	/* a slow writer is waited for, within bounds: one that stands still proves nothing */
	for (unsigned i = 0; rc == 0 && i < MOST_SNAPSHOTS; i++) {
		if (i >= SNAPSHOTS && reading->distinct >= enough)
			break;
		if (txn && i % 2 == 1) {
			library->mdb_txn_reset(txn);
			rc = library->mdb_txn_renew(txn);
		} else {
			if (txn)
				library->mdb_txn_abort(txn);
			txn = NULL;
			rc = begin_or_adopt(reading, &txn);
		}
		if (rc == MDB_MAP_RESIZED) { /* from the renewal: the transaction is still reset */
			library->mdb_txn_abort(txn);
			txn = NULL;
			rc = begin_or_adopt(reading, &txn);
		}
		if (rc != 0)
			break;
		if (library->mdb_txn_id(txn) < before)
			rc = check_wrong("id of a later snapshot", before, library->mdb_txn_id(txn));
		reading->distinct += library->mdb_txn_id(txn) != before;
		before = library->mdb_txn_id(txn);
		if (rc == 0)
			rc = check_snapshot(reading, txn);
		if (is_overtaken(reading, rc))
			rc = 0;
	}
	if (txn)
		library->mdb_txn_abort(txn);
	if (rc == 0)
		rc = live_writer_ask(reading->writer, LIVE_COMMIT, 1, &last);
	return rc;
}

/* A snapshot that is held while the writer goes on, and a younger one beside it. */
static int read_held(struct reading *reading)
{
	const struct library *library = reading->library;
	MDB_val key = {9, (void *)(uintptr_t) "key000003"}, value;
	MDB_txn *old = NULL, *young = NULL;
	struct live_answer answer;
	int rc = begin_or_adopt(reading, &old);

	if (rc == 0)
		rc = library->mdb_get(old, reading->main, &key, &value);
	if (rc == 0)
		rc = live_writer_ask(reading->writer, LIVE_COMMIT, HELD_COMMITS, &answer);
	if (rc == 0) /* a pointer from before the commits */
		rc = check_value(&value, library->mdb_txn_id(old), 3, true);
	if (rc == 0)
		rc = check_snapshot(reading, old);
	if (rc == 0)
		rc = library->mdb_txn_begin(reading->env, NULL, MDB_RDONLY, &young);
	tell(reading, "young %d\n", rc);
	if (rc == 0 && library->mdb_txn_id(young) != answer.txn)
		rc = check_wrong("id of the younger snapshot", answer.txn, library->mdb_txn_id(young));
	if (rc == 0)
		rc = check_snapshot(reading, young);
	if (rc == 0) {
		tell(reading, "apart %d\n",
		     (int)(library->mdb_txn_id(young) - library->mdb_txn_id(old)));
		rc = check_snapshot(reading, old);
	}
	if (young)
		library->mdb_txn_abort(young);
	if (old)
		library->mdb_txn_abort(old);
	return rc;
}

/* The writer outgrows the reader's map: begin and renew say so, set_mapsize(0) takes it over. */
static int read_grown(struct reading *reading)
{
	const struct library *library = reading->library;
	struct live_answer answer;
	MDB_txn *reset = NULL, *txn = NULL;
	MDB_envinfo before, after;
	bool too_small;
	int rc = begin_or_adopt(reading, &reset);

	if (rc != 0)
		return rc;
	library->mdb_txn_reset(reset);
	rc = library->mdb_env_info(reading->env, &before);
	/* How much a growth takes depends on which pages are free; it is asked for until the
	 * reader's map is too small, so that both libraries are told the same. */
	too_small = false;
	for (int i = 0; i < GROWTHS_MOST && rc == 0 && !too_small; i++) {
		rc = live_writer_ask(reading->writer, LIVE_GROW, 0, &answer);
		too_small = answer.last_page + 1 > before.me_mapsize / 4096;
	}
	if (rc != 0)
		return rc;
	rc = library->mdb_txn_begin(reading->env, NULL, MDB_RDONLY, &txn);
	tell(reading, "begin %d, too small %d\n", rc, too_small);
	if (rc != (too_small ? MDB_MAP_RESIZED : 0))
		return check_wrong("code of txn_begin after growth", (uint64_t)MDB_MAP_RESIZED,
			     (uint64_t)rc);
	if (rc == 0)
		library->mdb_txn_abort(txn);
	rc = library->mdb_txn_renew(reset);
	tell(reading, "renew %d\n", rc);
	library->mdb_txn_abort(reset);
	rc = library->mdb_env_set_mapsize(reading->env, 0);
	tell(reading, "set_mapsize %d\n", rc);
	if (rc == 0)
		rc = library->mdb_env_info(reading->env, &after);
	if (rc == 0 && after.me_mapsize != answer.map_size)
		rc = check_wrong("map size taken over", answer.map_size, after.me_mapsize);
	if (rc == 0)
		rc = library->mdb_txn_begin(reading->env, NULL, MDB_RDONLY, &txn);
	/* How much larger depends on how much the writer has written meanwhile. */
	tell(reading, "begin again %d, map larger %d\n", rc, after.me_mapsize > before.me_mapsize);
	if (rc != 0)
		return rc;
	rc = check_snapshot(reading, txn);
	library->mdb_txn_abort(txn);
	reading->resized += too_small;
	return rc;
}

/* --- around them ------------------------------------------------------------------------------ */

static int open_reading(struct reading *reading, const char *directory)
{
	const struct library *library = reading->library;
	MDB_txn *txn = NULL;
	int rc = library->mdb_env_create(&reading->env);

	if (rc == 0)
		rc = library->mdb_env_set_maxdbs(reading->env, 4);
	if (rc == 0)
		rc = library->mdb_env_open(reading->env, directory, MDB_RDONLY | reading->env_flags,
					   0644);
	if (rc == 0)
		rc = begin_or_adopt(reading, &txn);
	if (rc == 0)
		rc = library->mdb_dbi_open(txn, NULL, 0, &reading->main);
	if (rc == 0)
		rc = library->mdb_dbi_open(txn, "dups", 0, &reading->dups);
	if (rc == 0)
		rc = library->mdb_dbi_open(txn, "growth", 0, &reading->growth);
	return rc == 0 ? library->mdb_txn_commit(txn) : rc;
}

/* In a process of its own, which has never opened the environment otherwise. */
static int read_all_parts(struct reading *reading, const char *directory)
{
	int rc = open_reading(reading, directory);

	if (rc == 0)
		rc = read_beside(reading);
	/* With a slot for each thread these would need several. */
	if (rc == 0 && reading->env_flags & MDB_NOTLS)
		rc = read_held(reading);
	for (int i = 0; i < GROWTHS && rc == 0 && reading->env_flags & MDB_NOTLS; i++)
		rc = read_grown(reading);
	if (rc == 0)
		rc = read_beside(reading);
	if (rc == 0)
		reading->library->mdb_env_close(reading->env);
	printf("    %-8s %llu snapshots of %llu transactions, %llu values, MDB_MAP_RESIZED %llu "
	       "times: ",
	       reading->library->title, (unsigned long long)reading->snapshots,
	       (unsigned long long)reading->distinct, (unsigned long long)reading->values,
	       (unsigned long long)reading->resized);
	printf("%s\n", rc == 0 ? "right" : library_original.mdb_strerror(rc));
	if (rc == 0 && reading->distinct < 2)
		rc = check_wrong("transactions seen", 2, reading->distinct);
	return rc;
}

static void remove_files(const char *directory)
{
	static const char *const names[] = {"data.mdb", "lock.mdb"};
	char path[1100];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, names[i]);
		unlink(path);
	}
}

/* When its reader has gone. */
static int check_slots(struct live_writer *writer)
{
	struct live_answer answer = {0};
	int rc = live_writer_ask(writer, LIVE_COMMIT, 0, &answer);

	return rc == 0 && answer.slots ? check_wrong("slots in use", 0, answer.slots) : rc;
}

/* One library beside one writer. Returns 0 when all was right. */
static int run_mode(const struct library *library, unsigned flags, unsigned reader_flags,
		    const char *directory, char *told)
{
	struct live_writer writer;
	struct live_answer answer;
	struct reading reading = {
		.library = library,
		.writer = &writer,
		.env_flags = reader_flags,
		.told = told,
		.told_room = TOLD_ROOM,
	};
	int status = 0, ended;
	int rc = live_writer_start(&writer, writing_kind, &loaded, directory, flags, MAP_SIZE);
	pid_t child;

	if (rc == 0 && (rc = live_writer_ask(&writer, LIVE_COMMIT, 3, &answer)) != 0)
		status = live_writer_wait(&writer);
	if (rc != 0) {
		remove_files(directory);
		if (writing_kind == LIVE_LOADED && flags & MDB_WRITEMAP && WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGABRT) {
			printf("    not run: with MDB_WRITEMAP the writer ends in an assertion "
			       "(LMDB 1.0.1 does)\n");
			return 0;
		}
		printf("    the writer fails: %d, wait status %d\n", rc, status);
		return rc;
	}
	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(300); /* a reader that waits for ever fails the test */
		rc = read_all_parts(&reading, directory);
		fflush(stdout);
		_exit(rc != 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return EIO;
	if (WIFSIGNALED(status))
		printf("    %s: signal %d\n", library->title, WTERMSIG(status));
	rc = status == 0 ? check_slots(&writer) : 0;
	ended = live_writer_end(&writer);
	if (ended != 0)
		printf("    the writer ended badly: %d\n", ended);
	ended = rc != 0 ? rc : ended;
	remove_files(directory);
	return status != 0 ? EIO : ended;
}

static int run_modes(const char *directory, char *told[2])
{
	int failed = 0;

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		unsigned flags = modes[i].flags;

		printf("writer in mode %s\n", modes[i].name);
		memset(told[0], 0, TOLD_ROOM);
		memset(told[1], 0, TOLD_ROOM);
		failed += run_mode(writing_kind == LIVE_LOADED ? &loaded : &library_original, flags,
				   MDB_NOTLS, directory, told[0]) != 0;
		failed += run_mode(&library_ours, flags, MDB_NOTLS, directory, told[1]) != 0;
		if (strcmp(told[0], told[1]) != 0) {
			printf("    DIFFERENT: the original:\n%s    lmdbio:\n%s", told[0], told[1]);
			failed++;
		}
	}
	printf("%s\n", failed ? "FAILED" : "every value belonged to its snapshot");
	return failed;
}

/* A reader without a slot in the reader table loses its snapshot: that must be noticed. */
static int test_itself(const char *directory, char *told[2])
{
	const struct library *library =
		writing_kind == LIVE_ORIGINAL ? &library_original : &library_ours;
	int found = run_mode(library, MDB_NOSYNC, MDB_NOTLS | MDB_NOLOCK, directory, told[0]) != 0;

	printf("%s\n",
	       found ? "a reader without a slot is found out" : "FAILED: nothing was noticed");
	return !found;
}

/* --- files of LMDB 1.0, by a writer of our own ------------------------------------------------------- */

/* In a process of its own: holds a snapshot until it is killed, or clears what dead readers hold. */
static int reader_child(const char *directory, bool clears, int said)
{
	const struct library *library = &library_ours;
	int rc = 0, dead = -1;
	MDB_env *env;
	MDB_txn *txn;

	rc = library->mdb_env_create(&env);
	if (rc == 0)
		rc = library->mdb_env_open(env, directory, MDB_RDONLY | MDB_NOTLS, 0644);
	if (rc == 0 && clears) {
		rc = library->mdb_reader_check(env, &dead);
		library->mdb_env_close(env);
		return rc == 0 && dead == 1 ? 0 : check_wrong("dead readers", 1, (uint64_t)dead);
	}
	if (rc == 0)
		rc = library->mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (rc == 0 && write(said, "x", 1) == 1)
		pause();
	return rc != 0 ? rc : EIO;
}

static pid_t reader_start(const char *directory, bool clears, int said[2])
{
	pid_t child = pipe(said) ? -1 : fork();

	if (child == 0) {
		alarm(300);
		_exit(reader_child(directory, clears, said[1]) != 0);
	}
	if (child > 0)
		close(said[1]);
	return child;
}

/* A reader that is killed keeps its slot, and with it pages, until another process looks. */
static int run_killed(const char *directory)
{
	struct live_answer before, held, cleared, after;
	struct live_writer writer;
	int said[2], status, rc;
	pid_t child;
	char byte;

	printf("a reader that is killed\n");
	rc = live_writer_start(&writer, writing_kind, &loaded, directory, MDB_NOSYNC, MAP_SIZE);
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, HELD_COMMITS, &before);
	child = reader_start(directory, false, said);
	if (child < 0 || read(said[0], &byte, 1) != 1)
		rc = EIO;
	close(said[0]);
	if (child > 0 && (kill(child, SIGKILL) || waitpid(child, &status, 0) != child))
		rc = EIO;
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, HELD_COMMITS, &held);
	if (rc == 0 && held.last_page <= before.last_page)
		rc = check_wrong("pages while a slot is held: more than", before.last_page,
			   held.last_page);
	child = reader_start(directory, true, said);
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		rc = EIO;
	close(said[0]);
	/* Two transactions later what was held is free. */
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, 3, &cleared);
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, HELD_COMMITS, &after);
	if (rc == 0 && after.last_page > cleared.last_page)
		rc = check_wrong("pages when nothing is held", cleared.last_page, after.last_page);
	if (rc == 0 && after.slots)
		rc = check_wrong("slots in use", 0, after.slots);
	status = live_writer_end(&writer);
	remove_files(directory);
	printf("    %s\n", rc == 0 ? "blocks no page for ever" : library_original.mdb_strerror(rc));
	return rc != 0 || status != 0;
}

static int run_later(const char *directory, char *told[2])
{
	int failed = 0;

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		printf("writer of LMDB 1.0's format in mode %s\n", modes[i].name);
		memset(told[1], 0, TOLD_ROOM);
		failed += run_mode(&library_ours, modes[i].flags, MDB_NOTLS, directory, told[1]) != 0;
		failed += run_mode(&library_ours, modes[i].flags, 0, directory, told[1]) != 0;
	}
	failed += run_killed(directory);
	printf("%s\n", failed ? "FAILED" : "every value belonged to its snapshot");
	return failed;
}

/* A file for other tests. */
static int make_later(const char *directory)
{
	struct live_writer writer;
	struct live_answer answer;
	int rc = live_writer_start(&writer, LIVE_LATER, NULL, directory, MDB_NOSYNC, MAP_SIZE);

	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, 3 * HELD_COMMITS, &answer);
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_GROW, 0, &answer);
	if (rc == 0)
		rc = live_writer_ask(&writer, LIVE_COMMIT, HELD_COMMITS, &answer);
	return rc != 0 ? rc : live_writer_end(&writer);
}

int main(int argc, char **argv)
{
	const char *temporary = getenv("TMPDIR"), *what = argc > 1 ? argv[1] : "";
	char directory[900], *told[2];
	int failed;

	if (argc > 2 && strcmp(what, "--make") == 0)
		return make_later(argv[2]) != 0;
	snprintf(directory, sizeof directory, "%.800s/lmdbio-writers.XXXXXX",
		 temporary ? temporary : "/tmp");
	told[0] = mmap(NULL, 2 * TOLD_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);
	if (told[0] == MAP_FAILED || !mkdtemp(directory)) {
		perror("writers_test");
		return 2;
	}
	told[1] = told[0] + TOLD_ROOM;
	signal(SIGPIPE, SIG_IGN); /* of a writer that has ended: its command fails with EPIPE */
	if (strncmp(what, "--later", 7) == 0)
		writing_kind = LIVE_LATER;
	if (argc > 2 && strcmp(what, "--loaded") == 0) {
		writing_kind = LIVE_LOADED;
		if (library_load(&loaded, argv[2]) != 0)
			return 2;
	}
	if (strcmp(what, "--self-test") == 0 || strcmp(what, "--later-self-test") == 0)
		failed = test_itself(directory, told);
	else if (writing_kind == LIVE_LATER)
		failed = run_later(directory, told);
	else
		failed = run_modes(directory, told);
	rmdir(directory);
	return failed != 0;
}
