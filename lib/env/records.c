/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the record indexes that an environment has made.
 *
 * An index is of one tree in one snapshot. It is made when a program first asks for a record by its
 * number. It is kept until an index of a newer snapshot is made and no caller uses the old one.
 */
#include "container/container.h"
#include "env/env.h"
#include "index/record_index.h"

#include <errno.h>
#include <stdlib.h>

struct kept_index {
	struct kept_index *next;
	size_t id;      /* of the snapshot */
	uint64_t state; /* of the file: another file's bytes may have replaced these */
	uint64_t root;  /* of the tree: only empty trees of a snapshot share it */
	unsigned users;
	struct record_index *index;
};

void records_open(MDB_env *env)
{
	pthread_mutex_init(&env->records_lock, NULL);
	pthread_mutex_init(&env->making_lock, NULL);
	env->indexes = NULL;
}

void records_close(MDB_env *env)
{
	struct kept_index *kept;

	while ((kept = env->indexes)) {
		env->indexes = kept->next;
		index_free(kept->index);
		free(kept);
	}
	pthread_mutex_destroy(&env->making_lock);
	pthread_mutex_destroy(&env->records_lock);
}

void records_forked(MDB_env *env)
{
	/* Another thread of the parent may have held the locks. The index that it was making is not
	 * in the list. */
	pthread_mutex_init(&env->records_lock, NULL);
	pthread_mutex_init(&env->making_lock, NULL);
}

static void forget_old(const MDB_txn *txn)
{
	for (struct kept_index **link = &txn->env->indexes; *link;) {
		struct kept_index *kept = *link;

		if (kept->users || kept->id > txn->id ||
		    (kept->id == txn->id && kept->state == txn->state)) {
			link = &kept->next;
			continue;
		}
		*link = kept->next;
		index_free(kept->index);
		free(kept);
	}
}

static int make(MDB_txn *txn, const struct tree *tree, const MDB_val *name,
		struct record_index **index)
{
	struct packed *packed = txn->env->packed;
	int rc = packed ? index_read(index, &packed->data, tree, name) : ENOENT;

	return rc == ENOENT ? index_build(index, &txn->snapshot, tree, 0) : rc;
}

static struct kept_index *find(const MDB_txn *txn, uint64_t root)
{
	struct kept_index *kept = txn->env->indexes;

	while (kept && (kept->id != txn->id || kept->state != txn->state || kept->root != root))
		kept = kept->next;
	return kept;
}

/* Keeps an index. Returns NULL if there is no memory. Under records_lock. */
static struct kept_index *keep(MDB_txn *txn, const struct tree *tree, struct record_index *index)
{
	struct kept_index *kept = calloc(1, sizeof(*kept));

	if (!kept)
		return NULL;
	forget_old(txn);
	*kept = (struct kept_index){.next = txn->env->indexes,
				    .id = txn->id,
				    .state = txn->state,
				    .root = tree->record.root,
				    .index = index};
	txn->env->indexes = kept;
	return kept;
}

/* Under records_lock. */
static void use(struct kept_index *kept, struct record_index **index)
{
	kept->users++;
	*index = kept->index;
}

/* Takes a tree's index if it is kept. Returns whether it is. */
static bool take_kept(const MDB_txn *txn, const struct tree *tree, struct record_index **index)
{
	MDB_env *env = txn->env;
	struct kept_index *kept;

	pthread_mutex_lock(&env->records_lock);
	kept = find(txn, tree->record.root);
	if (kept)
		use(kept, index);
	pthread_mutex_unlock(&env->records_lock);
	return kept;
}

/* Keeps the index `made`, unless records_put() was faster, and takes the one that is kept. Returns
 * 0 or ENOMEM. */
static int keep_made(MDB_txn *txn, const struct tree *tree, struct record_index *made,
		     struct record_index **index)
{
	MDB_env *env = txn->env;
	struct kept_index *kept;

	pthread_mutex_lock(&env->records_lock);
	kept = find(txn, tree->record.root);
	if (!kept)
		kept = keep(txn, tree, made);
	if (kept)
		use(kept, index);
	pthread_mutex_unlock(&env->records_lock);
	if (!kept || *index != made)
		index_free(made);
	return kept ? 0 : ENOMEM;
}

/* One thread at a time makes an index, which may take minutes. A thread whose index is kept does
 * not wait. */
int records_take_tree(MDB_txn *txn, struct tree *tree, const MDB_val *name,
		      struct record_index **index)
{
	MDB_env *env = txn->env;
	struct record_index *made;
	int rc = tree->stale ? tree_refresh(&txn->snapshot, tree) : 0;

	if (rc || take_kept(txn, tree, index))
		return rc;
	pthread_mutex_lock(&env->making_lock);
	if (!take_kept(txn, tree, index)) {
		rc = make(txn, tree, name, &made);
		if (!rc)
			rc = keep_made(txn, tree, made, index);
	}
	pthread_mutex_unlock(&env->making_lock);
	return rc;
}

int records_take(MDB_txn *txn, MDB_dbi dbi, struct record_index **index)
{
	return records_take_tree(txn, &txn->trees[dbi],
				 dbi == DBI_MAIN ? NULL : &txn->env->slots[dbi].name, index);
}

int records_put(MDB_txn *txn, const struct tree *tree, struct record_index *index)
{
	MDB_env *env = txn->env;
	int rc = 0;

	pthread_mutex_lock(&env->records_lock);
	if (find(txn, tree->record.root))
		rc = EEXIST;
	else if (!keep(txn, tree, index))
		rc = ENOMEM;
	pthread_mutex_unlock(&env->records_lock);
	return rc;
}

void records_give(MDB_env *env, const struct record_index *index)
{
	struct kept_index *kept;

	pthread_mutex_lock(&env->records_lock);
	for (kept = env->indexes; kept->index != index; kept = kept->next)
		;
	kept->users--;
	pthread_mutex_unlock(&env->records_lock);
}
