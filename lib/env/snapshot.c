/* SPDX-License-Identifier: OLDAP-2.8 */
/* Pins one moment of a data file while other processes write to it.
 *
 * The original's read transaction holds a slot in the reader table, so no writer reuses a page of
 * its snapshot. Which root belongs to that snapshot stands in meta page (id & 1), and LMDB's
 * writers overwrite that page two transactions later, so a copy of it can be torn or too new. It is
 * right when it carries the id, and when the *other* page is seen afterwards to be no newer than
 * the id: transaction id + 2, which overwrites ours, begins only after id + 1 stands in the other.
 * Otherwise the slot is renewed and the look repeated.
 */
#include "env/env.h"

#include "util/clock.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

enum {
	LOOKS_YIELD = 16,  /* unlucky looks after which to let a writer run */
	LOOKS_MAX = 100000 /* and after which to take what the original would take */
};

/* What two looks in a row must agree on, besides the page, for a file to be at rest. */
struct meta_ids {
	size_t id;
	uint64_t ours, other;
};

/* What is read before is read before what is read after. ThreadSanitizer knows no fences; these
 * bytes change in other processes, which it does not see either. */
static inline void read_in_order(void)
{
#ifdef __SANITIZE_THREAD__
	__asm__ volatile("" ::: "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

/* Where the fields of a meta page are, by 0.9's offsets. */
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

static int file_size(const MDB_env *env, uint64_t *size, struct identity *identity)
{
	struct stat st;

	env_file_look(env, &st);
	*size = (uint64_t)st.st_size;
	/* Both meta pages are about to be read through the map. */
	if (*size < FORMAT_METAS * (uint64_t)env->window.page_size)
		return MDB_CORRUPTED;
	if (env->packed) {
		*identity = env->packed->identity;
		return 0;
	}
	*identity = identity_of(&st);
	identity->system = env->seen.system;
	identity->metas = identity_metas(meta_at(&env->window, 0, env->format),
					 meta_at(&env->window, 1, env->format), META_END);
	return 0;
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

/* Looks at the file, but not again for a snapshot that was there in this tick of the kernel's clock: asking
 * takes longer than all else that beginning a transaction does. */
static inline int file_look(MDB_txn *txn, size_t id)
{
	uint64_t now = clock_coarse();
	int rc;

	if (txn->looked_at == now && txn->identity.snapshot == id)
		return 0;
	txn->looked_at = 0;
	rc = file_size(txn->env, &txn->file_size, &txn->identity);
	if (!rc) {
		txn->looked_at = now;
		txn->state = state_of(&txn->identity);
	}
	return rc;
}

/* Makes a meta page's transaction the one that *txn reads. */
static inline int snapshot_use(MDB_txn *txn, const struct meta *meta, size_t id)
{
	const MDB_env *env = txn->env;
	int rc;

	if (meta->page_size != env->window.page_size || meta->last_page == UINT64_MAX)
		return MDB_CORRUPTED;
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
	/* In a meta page these two hold what is the environment's: page size and flags. */
	txn->trees[DBI_FREE].record.pad = 0;
	return 0;
}

/* Of LMDB 1.0's files, without a reader slot: the newest. */
static int snapshot_take_later(MDB_txn *txn)
{
	size_t before = txn->id;
	struct meta meta;
	int rc = file_look(txn, before);

	if (!rc)
		rc = later_newest(txn->env, &meta);
	if (rc)
		return rc;
	/* The pages that a newer one has may be behind the end that was seen. */
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
		 * believes the meta page that the id points to; what it leads to is checked
		 * anyway. */
		if (looks && !memcmp(&look, &before, sizeof(look)) &&
		    !memcmp(copy, last, sizeof(copy))) {
			if (look.id)
				break;
			/* The process that makes a lock file writes an id of 0 into it and a
			 * little later the right one. Killed in between it leaves the 0 to all
			 * processes that come, and the first snapshot of all has no records. A
			 * slot with that id keeps every page, so the newest one is as safe; LMDB
			 * 0.9.33 takes it too. */
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
