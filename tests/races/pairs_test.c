/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that any two functions which the headers allow in any thread give their answers while both are called at the
 * same time, on an environment of each store.
 *
 * A pair of actions is two threads that begin together and do theirs a few times. Without TESTS_LONG each pair meets
 * one store, and all stores in turn; with it each meets all, many times. ThreadSanitizer sees more in either.
 * `--functions` says what the actions call; functions_test.sh compares that with the headers. */
#include "config.h"
#include "pairs.h"

#include "util/settings.h"

#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ACTIONS = 64, TIMES = 3, LONG_ROUNDS = 5, SECONDS = 120 /* a hang */ };

/* On what the pairs run. */
struct store {
	const char *name, *setting;
	unsigned flags;
	bool container, later;
	bool inherited; /* the environment was opened by the process's parent */
};

static const struct store stores[] = {
	{.name = "page cache, slots of threads", .setting = "cache"},
	{.name = "shared memory", .setting = "arena", .flags = MDB_NOTLS},
	{.name = "container",
	 .setting = "auto",
	 .flags = MDB_NOTLS | MDB_NOSUBDIR,
	 .container = true},
	{.name = "LMDB 1.0, shared memory", .setting = "arena", .flags = MDB_NOTLS, .later = true},
	{.name = "LMDB 1.0, page cache, slots of threads", .setting = "cache", .later = true},
	{.name = "shared memory, a forked child",
	 .setting = "arena",
	 .flags = MDB_NOTLS,
	 .inherited = true},
	{.name = "container, a forked child",
	 .setting = "auto",
	 .flags = MDB_NOTLS | MDB_NOSUBDIR,
	 .container = true,
	 .inherited = true},
};
enum { STORES = sizeof(stores) / sizeof(*stores) };

static struct pair_place place;
static const struct action *actions[ACTIONS];
static unsigned count;
static char now[300]; /* the pair that runs */

void actor_wrong(struct actor *actor, const char *what, long found)
{
	if (!*actor->wrong)
		snprintf(actor->wrong, sizeof(actor->wrong), "%s: %ld", what, found);
}

bool actor_has(struct actor *actor, const char *what, long found, long wanted)
{
	if (found != wanted)
		actor_wrong(actor, what, found);
	return found == wanted;
}

uint64_t actor_random(struct actor *actor, uint64_t below)
{
	actor->random = actor->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (actor->random >> 33) % below;
}

static void add(const struct action *table, bool last)
{
	for (; table->functions; table++)
		if (table->last == last && count < ACTIONS)
			actions[count++] = table;
}

static void actions_list(void)
{
	for (unsigned last = 0; last < 2; last++) {
		add(pair_environment_actions, last);
		add(pair_transaction_actions, last);
		add(pair_loader_actions, last);
#ifdef PAIRS_MPI
		add(pair_index_actions, last);
#endif
	}
}

/* --- two threads ------------------------------------------------------------------------------- */

static struct {
	struct shared shared;
	struct actor actors[2];
	pthread_t threads[2];
	pthread_barrier_t begin, end;
	bool stop;
} pair;

static void *actor_main(void *argument)
{
	struct actor *actor = argument;

	for (;;) {
		pthread_barrier_wait(&pair.begin);
		if (pair.stop)
			return NULL;
		for (unsigned i = 0; i < (actor->action->slow ? 1 : TIMES); i++)
			actor->action->run(actor);
		pthread_barrier_wait(&pair.end);
	}
}

static void actors_start(void)
{
	pthread_barrier_init(&pair.begin, NULL, 3);
	pthread_barrier_init(&pair.end, NULL, 3);
	for (unsigned i = 0; i < 2; i++) {
		pair.actors[i] = (struct actor){.shared = &pair.shared, .number = i};
		if (pthread_create(&pair.threads[i], NULL, actor_main, &pair.actors[i]))
			errx(1, "no thread");
	}
}

static void actors_stop(void)
{
	pair.stop = true;
	pthread_barrier_wait(&pair.begin);
	pthread_join(pair.threads[0], NULL);
	pthread_join(pair.threads[1], NULL);
	pthread_barrier_destroy(&pair.begin);
	pthread_barrier_destroy(&pair.end);
}

/* Returns whether something is wrong. */
static bool pair_run(const struct store *store, const struct action *one,
		     const struct action *other, uint64_t seed)
{
	snprintf(now, sizeof(now), "%s: %.80s / %.80s, seed %llu\n", store->name, one->functions,
		 other->functions, (unsigned long long)seed);
	(void)alarm(SECONDS);
	for (unsigned i = 0; i < 2; i++) {
		struct actor *actor = &pair.actors[i];

		actor->action = i ? other : one;
		actor->other = i ? one : other;
		actor->random = seed * 2 + i;
		*actor->wrong = '\0';
		if (actor->action->prepare)
			actor->action->prepare(actor);
	}
	pthread_barrier_wait(&pair.begin);
	pthread_barrier_wait(&pair.end);
	if (!*pair.actors[0].wrong && !*pair.actors[1].wrong)
		return false;
	printf("%s  [%s] [%s]\n", now, pair.actors[0].wrong, pair.actors[1].wrong);
	return true;
}

static void hang(int signal)
{
	(void)!write(STDOUT_FILENO, "it hangs: ", 10);
	(void)!write(STDOUT_FILENO, now, strlen(now));
	_exit(128 + signal);
}

/* --- a store ----------------------------------------------------------------------------------- */

static void need(const char *what, int rc)
{
	if (rc)
		errx(1, "%s: %s", what, mdb_strerror(rc));
}

static void shared_open(const struct store *store)
{
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();
	struct shared *shared = &pair.shared;

	settings->store = store->setting;
	settings->memory.bytes = 3 << 20; /* less than the data */
	*shared = (struct shared){.place = &place,
				  .flags = MDB_RDONLY | store->flags,
				  .packed = store->container || store->later};
	shared->path = store->container ? place.container
		       : store->later   ? place.later
					: place.directory;
	shared->another = store->later ? place.directory : place.later;
	shared->own = shared->flags | (store->later ? 0 : MDB_NOLOCK);
	pthread_mutex_init(&shared->handles, NULL);
	pthread_mutex_init(&shared->joint_lock, NULL);
	need("create", mdb_env_create(&shared->env));
	need("maxdbs", mdb_env_set_maxdbs(shared->env, PAIR_NAMES + 2));
	need("userctx", mdb_env_set_userctx(shared->env, shared));
	need("open", mdb_env_open(shared->env, shared->path, shared->flags, 0600));
}

static void shared_handles(void)
{
	MDB_txn *txn;

	need("begin", mdb_txn_begin(pair.shared.env, NULL, MDB_RDONLY, &txn));
	need("records", mdb_dbi_open(txn, "records", 0, &pair.shared.records));
	need("duplicates", mdb_dbi_open(txn, "duplicates", 0, &pair.shared.duplicates));
	need("commit", mdb_txn_commit(txn));
}

static void shared_close(void)
{
	lmdbio_loader_close(pair.shared.loader);
	lmdbio_batch_done(pair.shared.batch);
#ifdef PAIRS_MPI
	pair_index_end(pair.shared.index);
#endif
	mdb_env_close(pair.shared.env);
	pthread_mutex_destroy(&pair.shared.handles);
	pthread_mutex_destroy(&pair.shared.joint_lock);
}

static unsigned long pairs_run(unsigned at, unsigned *bad)
{
	unsigned rounds = getenv("TESTS_LONG") ? LONG_ROUNDS : 1;
	unsigned long runs = 0;

	for (unsigned j = 0; j < count; j++)
		for (unsigned i = 0; i <= j; i++)
			for (unsigned round = 0; round < rounds; round++) {
				if (rounds == 1 && (i + j * 3) % STORES != at)
					continue;
				*bad += pair_run(&stores[at], actions[i], actions[j], runs++);
			}
	return runs;
}

static const struct action *action_of(const char *function)
{
	for (unsigned i = 0; i < count; i++)
		if (strstr(actions[i]->functions, function))
			return actions[i];
	errx(1, "no action has %s", function);
}

/* A child process. Returns how many pairs were wrong, 100 at most. */
static int store_run(unsigned at)
{
	const struct store *store = &stores[at];
	unsigned long runs;
	unsigned bad = 0;

	(void)signal(SIGALRM, hang);
	if (!store->container && !store->later)
		pair_writer_start(&place);
	if (!store->inherited)
		shared_open(store);
	actors_start();
	/* What a process does for the first time, it does in two threads. */
	bad += pair_run(store, action_of("lmdbio_loader_open"), action_of("lmdbio_loader_open"), 0);
	if (store->inherited)
		bad += pair_run(store, action_of("mdb_txn_begin"), action_of("mdb_txn_begin"), 0);
	shared_handles();
	runs = pairs_run(at, &bad);
	actors_stop();
	shared_close();
	if (!store->container && !store->later)
		pair_writer_stop();
	printf("%s: %lu pairs, %u wrong\n", store->name, runs, bad);
	fflush(stdout);
	return bad < 100 ? (int)bad : 100;
}

static bool store_is_wrong(unsigned at)
{
	pid_t child;
	int status;

	if (stores[at].inherited)
		shared_open(&stores[at]);
	fflush(stdout);
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		int rc = store_run(at);

		/* What the original has of an inherited environment stays the parent's: no leak. */
		if (stores[at].inherited)
			_exit(rc);
		exit(rc);
	}
	if (waitpid(child, &status, 0) != child)
		err(1, "waitpid");
	if (stores[at].inherited)
		shared_close();
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", stores[at].name, WTERMSIG(status));
	return status != 0;
}

int main(int argc, char **argv)
{
	unsigned bad = 0;

	actions_list();
	if (argc > 1 && !strcmp(argv[1], "--functions")) {
		for (unsigned i = 0; i < count; i++)
			puts(actions[i]->functions);
		return 0;
	}
	pair_place_make(&place);
	/* A staging has no memory where data sets of other processes have that of the node. */
	setenv("LMDBIO_NODE", place.directory, 1);
	for (unsigned at = 0; at < STORES; at++)
		if (argc < 2 || at == strtoul(argv[1], NULL, 10))
			bad += store_is_wrong(at);
	pair_place_remove(&place);
	printf("%u actions, %u pairs of them\n", count, count * (count + 1) / 2);
	return bad != 0;
}
