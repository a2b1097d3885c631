/* SPDX-License-Identifier: OLDAP-2.8 */
/* Pins one moment of a data file while other processes write to it.
 *
 * The original's read transaction holds a slot in the reader table, so no writer reuses a page of
 * its snapshot. Meta page (id & 1) has the snapshot's root, but LMDB's writers overwrite that page
 * two transactions later, so a copy of it can be torn or too new. The copy is right if it has the
 * id, and if the *other* page, read afterwards, is no newer. A transaction that overwrites our
 * page, id + 2, begins only after id + 1 is in the other page. Otherwise the slot is renewed and
 * the look repeated.
 */
#include "env/env.h"

#include "util/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

enum {
	LOOKS_YIELD = 16,  /* unlucky looks after which to let a writer run */
	LOOKS_MAX = 100000 /* and after which to take the original's choice */
};

/* The numbers on which, besides the page, two looks in a row agree if no process writes. */
struct meta_ids {
	size_t id;
	uint64_t ours, other;
};

/* Keeps the reads before this call before those after it. ThreadSanitizer knows no fences, nor does
 * it see the other processes that change these bytes. */
static inline void read_in_order(void)
{
#ifdef __SANITIZE_THREAD__
	__asm__ volatile("" ::: "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

/* The address in a meta page from which 0.9's offsets are right. */
static const uint8_t *meta_at(const struct window *window, unsigned which, enum format format)
{
	return window_meta(window, which) + page_layouts[format].shift;
}

static int meta_copy(const MDB_env *env, size_t id, uint8_t copy[META_LOOK], struct meta_ids *look)
{
	const uint8_t *other = meta_at(&env->window, ~(unsigned)id & 1, env->format);
	uint32_t shift = page_layouts[env->format].shift;

	memcpy(copy, window_meta(&env->window, (unsigned)id & 1), META_LOOK);
	read_in_order();
	*look = (struct meta_ids){
		.id = id,
		.ours = load64(copy + shift + META_TXNID),
		.other = *(const volatile uint64_t *)(const void *)(other + META_TXNID),
	};
	read_in_order();
	return look->ours == look->id && look->other <= look->id;
}

/* Takes the file's size and identity from what fstat(2) said of it. */
static int file_take(const MDB_env *env, const struct stat *st, uint64_t *size,
		     struct identity *identity)
{
	*size = (uint64_t)st->st_size;
	/* Both meta pages are about to be read through the map. */
	if (*size < FORMAT_METAS * (uint64_t)env->window.page_size)
		return MDB_CORRUPTED;
	if (env->packed) {
		*identity = env->packed->identity;
		return 0;
	}
	*identity = identity_of(st);
	identity->system = env->seen.system;
	identity->metas = identity_metas(meta_at(&env->window, 0, env->format),
					 meta_at(&env->window, 1, env->format), META_END);
	return 0;
}

static int file_size(const MDB_env *env, uint64_t *size, struct identity *identity)
{
	struct stat st;

	env_file_look(env, &st);
	return file_take(env, &st, size, identity);
}

int snapshot_identify(const MDB_env *env, struct identity *identity)
{
	uint64_t size;
	int rc = file_size(env, &size, identity);

	for (unsigned i = 0; i < FORMAT_METAS && !rc; i++) {
		uint64_t id = load64(meta_at(&env->window, i, env->format) + META_TXNID);

		if (id > identity->snapshot)
			identity->snapshot = id;
	}
	return rc;
}

static uint64_t state_of(const struct identity *identity)
{
	struct identity file = *identity;

	file.snapshot = 0;
	return identity_hash(&file, 0);
}

int snapshot_state(const MDB_env *env, uint64_t *state)
{
	struct identity identity = {0};
	uint64_t size;
	int rc = file_size(env, &size, &identity);

	*state = state_of(&identity);
	return rc;
}

/* Whether another file's bytes have replaced the file's own since the transaction's last look, by
 * what the map shows of both meta pages: an arena has the old bytes still. */
static inline bool is_rewritten(const MDB_txn *txn)
{
	const MDB_env *env = txn->env;

	return env->stored && !env->packed && !store_shows_file(&env->store) &&
	       txn->identity.metas != identity_metas(meta_at(&env->window, 0, env->format),
						     meta_at(&env->window, 1, env->format),
						     META_END);
}

/* Looks at the file, but not again for the same snapshot in the same tick of the kernel's clock:
 * the system call takes longer than all the rest of beginning a transaction. Opening has looked for
 * the snapshot that it found. */
static inline int file_look(MDB_txn *txn, size_t id)
{
	const MDB_env *env = txn->env;
	uint64_t now = clock_coarse();
	int rc;

	if (txn->looked_at == now && txn->identity.snapshot == id && !is_rewritten(txn))
		return 0;
	txn->looked_at = 0;
	if (env->seen.at == now && env->seen.snapshot == id)
		rc = file_take(env, &env->seen.st, &txn->file_size, &txn->identity);
	else
		rc = file_size(env, &txn->file_size, &txn->identity);
	if (!rc) {
		txn->looked_at = now;
		txn->state = state_of(&txn->identity);
	}
	return rc;
}

/* Looks again at a file that was too short for the snapshot: while a file is copied, its meta pages
 * come first, and the rest without a new snapshot. */
static __attribute__((cold, noinline)) int file_look_again(MDB_txn *txn)
{
	int rc = file_size(txn->env, &txn->file_size, &txn->identity);

	if (rc)
		txn->looked_at = 0;
	else
		txn->state = state_of(&txn->identity);
	return rc;
}

/* Makes a meta page's transaction the one that *txn reads. */
static inline int snapshot_use(MDB_txn *txn, const struct meta *meta, size_t id)
{
	const MDB_env *env = txn->env;
	int rc;

	if (meta->page_size != env->window.page_size || meta->last_page == UINT64_MAX)
		return MDB_CORRUPTED;
	if (unlikely(meta->last_page >= txn->file_size >> env->window.page_shift) &&
	    (rc = file_look_again(txn)))
		return rc;
	rc = window_look(&env->window, meta->last_page + 1, txn->file_size, &txn->snapshot.view);
	if (rc)
		return rc;
	txn->id = txn->identity.snapshot = id;
	txn->snapshot.page_size = meta->page_size;
	txn->snapshot.format = meta->format;
	txn->snapshot.blocked = 0;
	txn->snapshot.serial++;
	txn->trees[DBI_FREE] = (struct tree){.record = meta->free_tree};
	txn->trees[DBI_MAIN] = (struct tree){.record = meta->main_tree};
	/* In a meta page, the free tree's `pad` and `flags` are the environment's page size and
	 * flags. */
	txn->trees[DBI_FREE].record.pad = 0;
	return 0;
}

/* Takes the newest snapshot of a file of LMDB 1.0, without a reader slot. */
static int snapshot_take_later(MDB_txn *txn)
{
	size_t before = txn->id;
	struct meta meta;
	int rc = file_look(txn, before);

	if (!rc)
		rc = later_newest(txn->env, &meta);
	if (rc)
		return rc;
	/* A newer snapshot may have pages behind the end that was seen. */
	if (meta.txnid != before && (rc = file_look(txn, meta.txnid)))
		return rc;
	return snapshot_use(txn, &meta, meta.txnid);
}

int snapshot_take(MDB_txn *txn)
{
	MDB_env *env = txn->env;
	struct meta_ids look, newest, before = {0};
	uint8_t copy[META_LOOK], last[META_LOOK];
	struct meta meta;
	size_t id;
	int rc;

	if (env->later && !txn->slot)
		return snapshot_take_later(txn);
	for (unsigned looks = 0;; looks++) {
		id = txn->slot ? readers_pin(env->later->readers, txn->slot)
			       : env->origin->call.mdb_txn_id(txn->orig);
		if ((rc = file_look(txn, id)))
			return rc;
		if (meta_copy(env, id, copy, &look))
			break;
		/* No process writes, and still the pages and the lock file's id do not fit: a
		 * program wrote without the lock file, or the file is damaged. The original
		 * believes the meta page that the id points to; all pages behind it are checked
		 * anyway. */
		if (looks && !memcmp(&look, &before, sizeof(look)) &&
		    !memcmp(copy, last, sizeof(copy))) {
			if (look.id)
				break;
			/* The process that makes a lock file writes an id of 0 into it, and a
			 * little later the right one. If it is killed in between, all later
			 * processes see the 0, and snapshot 0 has no records. A slot with id 0
			 * keeps every page, so the newest snapshot is as safe; LMDB 0.9.33 takes it
			 * too. */
			if (meta_copy(env, look.ours > look.other ? look.ours : look.other, copy,
				      &newest)) {
				look = newest;
				if (txn->slot)
					readers_pin_to(txn->slot, look.id);
				break;
			}
		}
		if (looks == LOOKS_MAX)
			break;
		before = look;
		memcpy(last, copy, sizeof(last));
		if (looks % LOOKS_YIELD == LOOKS_YIELD - 1)
			sched_yield();
		if (txn->slot)
			continue;
		env->origin->call.mdb_txn_reset(txn->orig);
		if ((rc = env->origin->call.mdb_txn_renew(txn->orig)))
			return rc;
	}
	if ((rc = meta_parse(&meta, copy, env->format)))
		return rc;
	return snapshot_use(txn, &meta, look.id);
}
