/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the store under an environment, and brings it to each snapshot.
 *
 * A local file system's page cache is shared, kept and coherent: there the window shows the file,
 * and lmdbio reads ahead of the program. On network and parallel file systems the kernel's requests
 * are small, and every process would ask again. There the arena takes the page cache's place if it
 * can hold the data. An arena too small for the data would read them again and again; the page
 * cache may use all memory, and does better. Data larger than twice the available memory are read
 * again in both stores, and then the arena's larger requests win. An arena holds one snapshot;
 * while a writer commits again and again the window stays at rest, which is coherent.
 */
#include "env/env.h"

#include "node/node_socket.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/settings.h"
#include "util/stats.h"
#include "util/thread.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ENV_STORE_DEPTH = 16,            /* reads in flight */
	ENV_STORE_QUIET_NS = 2000000000, /* without a commit, before an arena is made again */
	/* Data more than this many times as large as available memory have an arena:
	 * bench_larger.sh with 1.1, 2.0 and 3.6 times as much. */
	ENV_STORE_LARGER = 2,
	ENV_STORE_ALONE_MIN = 64 << 20, /* bytes of a file: every machine has half as much memory */
	/* The page cache keeps a container compressed if it takes at most this part (1/2) of
	 * available memory: 75 MB were kept in 192 MiB. */
	ENV_STORE_PACKED = 2,
};

static void env_store_report(const MDB_env *env, const char *backend, const char *why)
{
	const char *path = env->packed ? env->packed->path : env->path;
	uint64_t ahead;

	if (!settings_get()->verbose)
		return;
	log_line("%s: %s, reads by %s (%s)", path, store_name(&env->store), backend, why);
	ahead = env->prefetch ? prefetch_kernel_ahead(env->prefetch) : 0;
	if (ahead)
		log_line("%s: forward scans are left to the kernel, which reads %" PRIu64
			 " KiB ahead",
			 path, ahead >> 10);
}

/* Whether a server brings chunks to this node's processes, from the memory of many nodes. */
static bool is_served(const struct arena_options *options)
{
	int fd;

	if (!options->share)
		return false;
	if (settings_get()->mpi)
		return true;
	fd = node_connect(options->node);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Whether an arena already exists that has room for the data. A filled arena reduces the budget of
 * processes that start later. */
static bool is_held(const MDB_env *env, const struct arena_options *options)
{
	struct identity identity;

	return !snapshot_identify(env, &identity) && arena_found(&identity, options) >= env->bytes;
}

/* Whether memory holds at most half of the data. */
static bool is_larger(const MDB_env *env)
{
	return env->bytes / ENV_STORE_LARGER > memory_allowed("");
}

/* Whether this environment reads through the page cache, whatever the file system. */
static bool is_for_cache(const MDB_env *env, const struct arena_options *options, const char **why)
{
	const struct settings *settings = settings_get();

	if (!strcmp(settings->store, "cache")) {
		*why = strcmp(settings->io, "auto") ? "direct reads pass the page cache by"
						    : "asked for";
		return true;
	}
	if (strcmp(settings->store, "auto"))
		return false;
	if (!arena_may_be(env->bytes)) {
		stats_add(STATS_FALLBACKS, 1);
		*why = "no shared memory can be made";
		return true;
	}
	if (strcmp(settings->io, "auto") || env->plans ||
	    env->bytes + fork_arena_bytes(env) <= memory_budget(settings) || is_larger(env) ||
	    is_served(options) || is_held(env, options))
		return false;
	*why = "more than the memory budget";
	return true;
}

/* Whether the page cache is to keep a container's compressed bytes: the arena cannot hold the data,
 * and no server refills it from other nodes. The batch loader reads the container once anyway, and
 * needs the memory: under it the page cache lost each byte before its next use. */
static bool is_kept_packed(const MDB_env *env, const struct arena_options *options)
{
	const struct settings *settings = settings_get();

	return !strcmp(settings->io, "auto") && !strcmp(env->packed->backend, "direct") &&
	       !env->plans && env->bytes + fork_arena_bytes(env) > memory_budget(settings) &&
	       packed_size(env->packed) <= memory_allowed("") / ENV_STORE_PACKED &&
	       !is_served(options) && !is_held(env, options);
}

/* Opens the io for the reads ahead, with the back end that the user asks for or that fits the file
 * system. *local: whether the file is on one of this machine's own disks. */
static int reads_open(MDB_env *env, const struct arena_options *options, const char **backend,
		      const char **why, bool *local)
{
	int rc;

	*local = false;
	if (env->packed) {
		if (is_kept_packed(env, options))
			(void)packed_read_cached(env->packed,
						 "memory holds it compressed, not decompressed");
		*backend = env->packed->backend;
		*why = env->packed->why;
		return 0;
	}
	rc = io_open_chosen(&env->reads, env->data, settings_get()->io, backend, why);
	*local = env->reads.local;
	/* Direct reads would bypass the page cache. */
	if (!rc && !strcmp(*backend, "direct") && is_for_cache(env, options, why)) {
		io_close(&env->reads);
		*backend = "pread";
		rc = io_open_file(&env->reads, *backend, env->data);
	}
	return rc;
}

/* Whether the data set is worth a store. */
static bool is_worth_it(const MDB_env *env)
{
	return env->packed || env->bytes >= ENV_STORE_FILE_MIN ||
	       strcmp(settings_get()->store, "auto");
}

static enum store_kind env_store_kind(const MDB_env *env, const char *backend)
{
	const char *store = settings_get()->store;

	if (env->packed)
		return STORE_CONTAINER;
	if (strcmp(store, "auto"))
		return strcmp(store, "arena") || !arena_fits_pages() ? STORE_CACHE : STORE_ARENA;
	return strcmp(backend, "direct") ? STORE_CACHE : STORE_ARENA;
}

/* Whether the kernel may read around random pages in vain, because it drops the neighbours before
 * the program wants them. */
static bool may_be_read_alone(const MDB_env *env)
{
	return env->bytes >= ENV_STORE_ALONE_MIN && strcmp(settings_get()->around, "1") != 0;
}

/* Chooses the further bytes that a read of a random value brings. MDB_NORDAHEAD stops the kernel's
 * reads around values, which come whether memory has room or not; a store may still bring whole
 * chunks. */
static enum store_guess guess_of(const MDB_env *env)
{
	const char *word = settings_get()->around;

	if (strcmp(word, "auto"))
		return strcmp(word, "1") ? GUESS_NOTHING : GUESS_AROUND;
	if (!settings_get()->prefetch)
		return GUESS_NOTHING;
	return env->flags & MDB_NORDAHEAD ? GUESS_CHUNKS : GUESS_AROUND;
}

int env_store_open(MDB_env *env)
{
	const struct settings *settings = settings_get();
	struct arena_options options = {.node = env->node ? env->node : settings->node,
					.share = settings->share && !env->alone};
	struct prefetch_options ahead = {.depth = ENV_STORE_DEPTH}; /* .kernel is set below */
	bool believe_cache = !env->packed && !strcmp(settings->store, "auto");
	const char *backend, *why;
	enum store_kind kind;
	struct io *reads;
	bool local;
	int rc;

	if (!is_worth_it(env))
		return 0;
	env_file_lift(env);
	env_file_know_system(env);
	rc = reads_open(env, &options, &backend, &why, &local);
	if (rc)
		return rc;
	kind = env_store_kind(env, backend);
	/* An arena takes descriptors, the page cache none. */
	if (kind == STORE_ARENA && !descriptors_spare()) {
		rc = EMFILE;
		goto fail_reads;
	}
	reads = env->packed ? &env->packed->data : &env->reads;
	rc = store_open(&env->store, kind, (uint8_t *)(uintptr_t)env->window.base,
			env->window.length, env->data, reads, &options, believe_cache);
	if (rc)
		goto fail_reads;
	if (env->packed)
		store_spill_to(&env->store, &env->packed->store);
	else
		store_guess(&env->store, guess_of(env));
	if (env->flags & MDB_NORDAHEAD)
		store_read_singly(&env->store);
	if (kind == STORE_CACHE && (strcmp(settings->store, "auto") || !local))
		store_take_care(&env->store);
	env->kernel_reads = kind == STORE_CACHE && local;
	if (env->kernel_reads) {
		stats_kernel_watch();
		if (may_be_read_alone(env))
			store_read_alone(&env->store, env->bytes / ENV_STORE_LARGER);
	}
	ahead.kernel = kind == STORE_CACHE && local && !(env->flags & MDB_NORDAHEAD);
	if (settings->prefetch)
		rc = prefetch_open(&env->prefetch, &env->store, reads, &ahead);
	if (rc)
		goto fail_store;
	pthread_mutex_init(&env->choice_lock, NULL);
	env->stored = true;
	env->store_at.id = 0;
	env_store_report(env, backend, why);
	return 0;

fail_store:
	store_close(&env->store);
fail_reads:
	io_close(&env->reads);
	return rc;
}

void env_store_close(MDB_env *env)
{
	if (!env->stored)
		return;
	prefetch_close(env->prefetch);
	env->prefetch = NULL;
	store_close(&env->store);
	io_close(&env->reads);
	pthread_mutex_destroy(&env->choice_lock);
	env->stored = false;
}

/* Whether the transaction saw the file in another state than the store's. Another file's bytes may
 * have replaced the file's own, and an arena still has the old ones; the page cache is the file. No
 * order of times is assumed: a clock may have been set back. */
static bool is_changed(const MDB_env *env, const MDB_txn *txn)
{
	return !store_shows_file(&env->store) && txn->state != env->store_at.state;
}

/* The same for a transaction with the store's id or an older one. A transaction with an older id
 * may have begun before another transaction moved the store, and have seen an older state: so the
 * file is looked at again. */
static bool is_left_behind(const MDB_env *env, const MDB_txn *txn)
{
	uint64_t now;

	return is_changed(env, txn) && (txn->id + !txn->id == env->store_at.id ||
					snapshot_state(env, &now) || now != env->store_at.state);
}

/* Whether the page cache's store knows a shorter file than the transaction's pages take. A file
 * gets its rest without a new snapshot if it was being copied, or if a network file system gave an
 * old length. */
static bool is_longer(const MDB_env *env, const MDB_txn *txn)
{
	const struct window_view *view = &txn->snapshot.view;

	return store_shows_file(&env->store) &&
	       view->limit << view->page_shift > store_size(&env->store);
}

static int env_store_take(MDB_env *env, const MDB_txn *txn, bool arm)
{
	uint64_t low = (uint64_t)FORMAT_METAS * env->window.page_size;
	uint64_t data = txn->snapshot.view.pages << txn->snapshot.view.page_shift;
	int rc = store_snapshot(&env->store, &txn->identity, data, low, arm);

	if (rc)
		return rc;
	env->store_at.armed = arm;
	env->store_at.since = arm ? 0 : clock_now();
	env->store_at.state = txn->state;
	env->store_at.id = txn->id + !txn->id;
	return 0;
}

/* Brings the store to the snapshot that a transaction has taken. */
static int env_store_move(MDB_env *env, const MDB_txn *txn)
{
	struct env_store_at *at = &env->store_at;
	int rc = 0;
	UNCANCELLED;

	pthread_mutex_lock(&env->choice_lock);
	/* The first snapshot is assumed to be quiet: a later commit shows if it is not. */
	if (txn->id > at->id || !at->id)
		rc = env_store_take(env, txn, !at->id || store_shows_file(&env->store));
	else if (txn->id + !txn->id == at->id && is_longer(env, txn))
		rc = env_store_take(env, txn, true);
	else if (is_left_behind(env, txn))
		rc = env_store_take(env, txn, false);
	else if (txn->id + !txn->id == at->id && !at->armed &&
		 clock_now() - at->since > ENV_STORE_QUIET_NS)
		rc = env_store_take(env, txn, true);
	pthread_mutex_unlock(&env->choice_lock);
	return rc;
}

static inline int begin_stored(MDB_txn *txn)
{
	MDB_env *env = txn->env;
	int rc;

	/* The file under a container's window has none of its pages. */
	if (!env->stored)
		return env->packed ? ENOMEM : 0;
	if ((txn->id != env->store_at.id || !env->store_at.armed || is_changed(env, txn) ||
	     is_longer(env, txn)) &&
	    (rc = env_store_move(env, txn)))
		return rc;
	store_enter(&env->store);
	txn->snapshot.view.runs = &env->store;
	if (!store_shows_file(&env->store))
		txn->snapshot.view.store = &env->store;
	else if (!env->sums)
		txn->snapshot.view.sure = store_sure(&env->store);
	if (!env->prefetch)
		return 0;
	if (txn->lookups_id != txn->id)
		env_store_forget(txn);
	txn->lookups_id = txn->id;
	txn->lookups.shared = env->flags & MDB_NOTLS;
	txn->snapshot.lookups = &txn->lookups;
	txn->snapshot.watch = prefetch_watch(env->prefetch);
	return 0;
}

int env_store_begin(MDB_txn *txn)
{
	int rc;

	txn->snapshot.served = 0;
	if (likely(!txn->env->sums))
		return begin_stored(txn);
	rc = later_sums_begin(txn);
	if (rc)
		return rc;
	rc = begin_stored(txn);
	if (rc)
		later_sums_end(txn);
	return rc;
}

void env_store_forget(MDB_txn *txn)
{
	if (txn->env->prefetch)
		lookups_end(&txn->lookups, prefetch_watch(txn->env->prefetch));
}

void env_store_end(MDB_txn *txn)
{
	MDB_env *env = txn->env;
	UNCANCELLED;

	if (txn->snapshot.blocked & SNAPSHOT_FINISHED)
		return;
	stats_add(STATS_SERVED_BYTES, txn->snapshot.served);
	stats_lasts();
	if (env->stored) {
		if (env->prefetch)
			prefetch_end(env->prefetch, &txn->snapshot);
		store_leave(&env->store);
	}
	if (env->sums)
		later_sums_end(txn);
}

void env_store_forked(MDB_env *env)
{
	if (!env->stored)
		return;
	if (env->prefetch)
		prefetch_forked(env->prefetch);
	store_forked(&env->store);
	env_store_hold(env, false);
}

int env_store_pause(MDB_env *env)
{
	return env->stored ? store_pause(&env->store) : 0;
}

void env_store_resume(MDB_env *env)
{
	if (env->stored)
		store_resume(&env->store);
}

void env_store_hold(MDB_env *env, bool hold)
{
	if (!env->stored)
		return;
	if (hold) {
		pthread_mutex_lock(&env->choice_lock);
		if (env->prefetch)
			prefetch_hold(env->prefetch, true);
		store_hold(&env->store);
	} else {
		store_release(&env->store);
		if (env->prefetch)
			prefetch_hold(env->prefetch, false);
		pthread_mutex_unlock(&env->choice_lock);
	}
}
