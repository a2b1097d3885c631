/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a program sees whose address space, descriptors, processes, locked memory or length of files are limited,
 * in twenty steps from too little to enough: right bytes or the code of the shortage; and all of it once the limit is
 * lifted, with no descriptor lost.
 *
 * A step is a child process for each life of library_lives.c. Without TESTS_LONG some steps are passed over, and each
 * has one life. */
#include "config.h"
#include "library_lives.h"

#include "env_fixture.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STEPS = 20, SHORT = 4, SECONDS = 60 /* a hang */, CANNOT = 77, USERS_OF_NONE = 2000000 };
enum { LACKED = 4 /* a step in which a call was refused */ };
enum { MIB = 1 << 20 };

/* Bytes that are mapped now. */
static rlim_t mapped(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	if (!file || fscanf(file, "%lu", &pages) != 1)
		abort();
	fclose(file);
	return pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static rlim_t addresses(unsigned step)
{
	return mapped() + (rlim_t)step * step * (2 * MIB);
}

static rlim_t files(unsigned step)
{
	int next = dup(STDIN_FILENO);

	close(next);
	return (rlim_t)next + step + (step > STEPS / 2 ? (step - STEPS / 2) * 10 : 0);
}

static rlim_t processes(unsigned step)
{
	return 1 + step;
}

static rlim_t powers(unsigned step)
{
	return step ? (rlim_t)256 << (step - 1) : 0;
}

static const struct limit {
	const char *name;
	int resource;
	rlim_t (*at)(unsigned step);
	bool user; /* root has no such limit */
	bool lacks; /* the first step is too little for calls to succeed; the others' is made up for */
} limits[] = {
	{"address space (-v)", RLIMIT_AS, addresses, false, true},
	{"descriptors (-n)", RLIMIT_NOFILE, files, false, true},
	{"processes (-u)", RLIMIT_NPROC, processes, true, true},
	{"locked memory (-l)", RLIMIT_MEMLOCK, powers, true, false},
	{"length of files (-f)", RLIMIT_FSIZE, powers, false, false},
};
enum { LIMITS = sizeof(limits) / sizeof(*limits) };

static int limit_set(int resource, rlim_t soft)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return errno;
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	return setrlimit(resource, &limit) ? errno : 0;
}

/* A user without any other process, so that tests which run at once do not count each other's. Without
 * root the user stays, and its other processes count for RLIMIT_NPROC. */
static void become_another_user(const struct limit *limit)
{
	uid_t user = USERS_OF_NONE + (uid_t)getpid();

	if (geteuid() && limit->resource == RLIMIT_NPROC)
		_exit(CANNOT);
	if (!geteuid() && (setresuid(user, user, user) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))
		_exit(CANNOT);
	if (!lives_in_reach())
		_exit(CANNOT);
}

struct step {
	const struct limit *limit;
	unsigned number;
	const struct life *life;
};

/* In a child. */
static int step_run(void *argument)
{
	const struct step *step = argument;
	const struct limit *limit = step->limit;
	struct rlimit before;
	unsigned open;

	(void)alarm(SECONDS);
	if (limit->user)
		become_another_user(limit);
	if (getrlimit(limit->resource, &before) ||
	    limit_set(limit->resource, limit->at(step->number)))
		return CANNOT;
	step->life->live();
	step->life->live();
	if (setrlimit(limit->resource, &before))
		return CANNOT;
	lives_strict = true;
	step->life->live();
	stats_settle(); /* else the process's table of counters may come in the next life */
	open = lives_descriptors();
	step->life->live();
	if (lives_descriptors() > open)
		lives_end(DESCRIPTORS, "descriptors", (int)lives_descriptors());
	return lives_failed ? LACKED : FINE;
}

static bool is_tried(const struct limit *limit)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return limit->resource != RLIMIT_AS; /* the sanitizers map terabytes */
#else
	return limit->resource == limit->resource;
#endif
}

struct counted {
	unsigned runs, lacked, bad;
	uint64_t slowest;
	bool cannot;
};

static void step_count(const struct limit *limit, unsigned number, const struct life *life,
		       struct counted *counted)
{
	struct step step = {limit, number, life};
	uint64_t begun = clock_now(), took;
	int rc;

	fflush(NULL);
	rc = in_process(step_run, &step);
	took = clock_now() - begun;
	counted->slowest = took > counted->slowest ? took : counted->slowest;
	counted->cannot |= rc == CANNOT;
	counted->runs++;
	counted->lacked += rc == LACKED;
	if (rc == FINE || rc == LACKED || rc == CANNOT)
		return;
	printf("%s, step %u, %s: it ends with %d\n", limit->name, number, life->name, rc);
	counted->bad++;
}

/* All steps of a limit, or some. Returns how many went wrong. */
static unsigned limit_run(const struct limit *limit, bool all)
{
	unsigned count = limit->user ? LIVES_OF_ANY_USER : lives_count;
	struct counted counted = {0};

	if (limit->user)
		lives_for_all_users(); /* also what lives have made since */
	for (unsigned step = 0; step < STEPS && !counted.cannot; step += all    ? 1
									 : step ? SHORT
										: SHORT - 1)
		for (unsigned life = 0; life < count; life++)
			if (all || life == (step + 1) / SHORT % count)
				step_count(limit, step, &lives[life], &counted);
	if (counted.cannot) {
		printf("-- %s: it cannot be limited here\n", limit->name);
		return counted.bad;
	}
	printf("-- %s: %u lives, in %u of them calls were refused, the slowest took %u ms\n",
	       limit->name, counted.runs, counted.lacked, (unsigned)(counted.slowest / 1000000));
	if (limit->lacks && (!counted.lacked || counted.lacked == counted.runs)) {
		printf("%s: the steps do not go from too little to enough\n", limit->name);
		counted.bad++;
	}
	return counted.bad;
}

/* A new map of a container fits, but not the tables for it. In a child. */
static int container_resized(void *unused)
{
	const size_t large = (size_t)1 << 42;
	struct rlimit before;
	MDB_txn *txn;
	MDB_env *env;
	MDB_dbi dbi;

	(void)unused;
	if (mdb_env_create(&env) ||
	    mdb_env_open(env, lives_data.container, MDB_RDONLY | MDB_NOTLS | MDB_NOSUBDIR, 0600) ||
	    getrlimit(RLIMIT_AS, &before) ||
	    limit_set(RLIMIT_AS, mapped() + (rlim_t)large + 16 * MIB))
		return CANNOT;
	for (unsigned i = 0; i < 2; i++) {
		(void)lives_done("mdb_env_set_mapsize",
				 mdb_env_set_mapsize(env, i ? 64 * MIB : large));
		if (lives_done("mdb_txn_begin", mdb_txn_begin(env, NULL, MDB_RDONLY, &txn))) {
			if (lives_done("mdb_dbi_open", mdb_dbi_open(txn, NULL, 0, &dbi)))
				lives_scan(txn, dbi);
			mdb_txn_abort(txn);
		}
		if (setrlimit(RLIMIT_AS, &before))
			return CANNOT;
		lives_strict = true;
	}
	mdb_env_close(env);
	return lives_failed ? LACKED : FINE;
}

/* Opens a container, but descriptors run out on the way. The same environment then opens `path`. */
static void container_then(const char *path, unsigned step)
{
	unsigned open = lives_descriptors();
	const char *now = NULL;
	struct rlimit before;
	MDB_env *env;
	int rc;

	if (mdb_env_create(&env) || getrlimit(RLIMIT_NOFILE, &before) ||
	    limit_set(RLIMIT_NOFILE, files(step)))
		_exit(CANNOT);
	rc = mdb_env_open(env, lives_data.container, MDB_RDONLY | MDB_NOSUBDIR, 0600);
	if (setrlimit(RLIMIT_NOFILE, &before))
		_exit(CANNOT);
	if (rc) {
		rc = mdb_env_open(env, path, MDB_RDONLY | MDB_NOSUBDIR | MDB_NOLOCK, 0600);
		if (rc)
			lives_end(WRONG_CODE, "the second mdb_env_open", rc);
		rc = mdb_env_get_path(env, &now);
		if (rc || strcmp(now, path))
			lives_end(WRONG_BYTES, "the second mdb_env_open has kept the first's file",
				  rc);
	}
	mdb_env_close(env);
	if (lives_descriptors() != open)
		lives_end(DESCRIPTORS, "descriptors are left", (int)step);
}

/* In a child. */
static int container_reopened(void *unused)
{
	(void)unused;
	/* Without a limit first: what the process keeps is open then. */
	for (unsigned step = STEPS; step--;) {
		container_then(lives_data.data, step);
		container_then(lives_data.container, step);
	}
	return FINE;
}

int main(void)
{
	unsigned bad = 0;
	int rc;

	lives_data_make();
	for (unsigned i = 0; i < LIMITS; i++)
		if (is_tried(&limits[i]))
			bad += limit_run(&limits[i], getenv("TESTS_LONG"));
	rc = is_tried(&limits[0]) ? in_process(container_resized, NULL) : LACKED;
	if (rc != LACKED && rc != CANNOT) {
		printf("a container's new map: it ends with %d\n", rc);
		bad++;
	}
	rc = in_process(container_reopened, NULL);
	if (rc != FINE) {
		printf("a container that is opened again: it ends with %d\n", rc);
		bad++;
	}
	lives_data_remove();
	return bad != 0;
}
