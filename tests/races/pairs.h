/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what two threads do at the same time, and the objects that they share.
 *
 * An action is a few calls of the public headers whose results are checked. pairs_test.c runs every pair of actions.
 * To test a new function, write an action and add it to the table of its file. */
#ifndef LMDBIO_TEST_PAIRS_H
#define LMDBIO_TEST_PAIRS_H

#include <lmdb.h>
#include <lmdbio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	PAIR_RECORDS = 400,
	PAIR_VALUE = 7000,
	PAIR_BATCH = 4,
	PAIR_DUPLICATES = 20,
	PAIR_NAMES = 3
};

struct pair_place;

/* What both threads use. */
struct shared {
	const struct pair_place *place;
	const char *path, *another; /* another data set */
	unsigned flags;             /* for mdb_env_open(), MDB_RDONLY included */
	MDB_env *env;
	MDB_dbi records, duplicates;
	/* LMDB's rule for programs: one transaction at a time opens or closes handles. */
	pthread_mutex_t handles;
	/* With MDB_NOTLS: a transaction of all threads that are in it. */
	pthread_mutex_t joint_lock;
	MDB_txn *joint;
	unsigned joint_users;
	struct lmdbio_loader *loader;
	_Atomic(struct lmdbio_batch *) batch; /* one that is out */
	struct lmdbio_mpi_index *index;
	bool packed; /* the data set is a container, or LMDB 1.0's: no process commits to it */
	unsigned
		own; /* flags for environments of one thread. LMDB 0.9 locks a data set once in a process */
};

struct action;

/* One of the two threads. */
struct actor {
	struct shared *shared;
	const struct action *action, *other; /* `other`: what the other thread does */
	unsigned number;                     /* 0 or 1 */
	uint64_t random;
	void *own;       /* what action->prepare() has made for run() */
	char wrong[160]; /* what was wrong first, or empty */
};

struct action {
	const char *functions; /* of the headers, that it calls for their sake */
	void (*run)(struct actor *actor);
	void (*prepare)(
		struct actor *actor); /* before run(), without another thread; may be NULL */
	bool slow;                    /* runs once in a round, others several times */
	bool cancels; /* calls of the shared loader may return ECANCELED meanwhile */
	bool last;    /* pairs with it come after all others */
};

extern const struct action pair_environment_actions[], pair_transaction_actions[],
	pair_loader_actions[], pair_index_actions[]; /* each ends with no functions */

/* Writes down that something is wrong. */
void actor_wrong(struct actor *actor, const char *what, long found);
/* Whether `found` is `wanted`; else it is wrong. */
bool actor_has(struct actor *actor, const char *what, long found, long wanted);
uint64_t actor_random(struct actor *actor, uint64_t below);

/* pair_index.c: closes what the actions have made; may be NULL. */
void pair_index_end(struct lmdbio_mpi_index *index);

/* pair_data.c: a data set of each kind. */
struct pair_place {
	char directory[200], data[220];
	char container[220], later[220]; /* a file; a directory */
	char copies[2][220];             /* directories for copies, one for each actor */
};
void pair_place_make(struct pair_place *place);
void pair_place_remove(struct pair_place *place);
/* Whether they are those of a record. NULL: not looked at. */
bool pair_is_record(const MDB_val *key, const MDB_val *data, uint64_t number);
MDB_val pair_key(char text[9], uint64_t number);
/* Another process commits a change of another database. */
void pair_writer_start(const struct pair_place *place);
void pair_writer_commit(void);
void pair_writer_stop(void);

/* Opens one more transaction and looks at a record in it. */
void actor_look(struct actor *actor, MDB_env *env, MDB_dbi dbi);
/* Opens an environment of the actor's own on a path, reads a record and closes it. */
void actor_open_and_look(struct actor *actor, const char *path, unsigned flags);

#endif
