/* SPDX-License-Identifier: OLDAP-2.8 */
/* Exports the calls that LMDB 1.0 adds to those of 0.9, in liblmdb.so.1 alone.
 *
 * A call with a handle that is not ours goes on to the LMDB 1.0 that its module brings, like the
 * others. Without an LMDB 1.0 there are no such handles, and the call returns EINVAL.
 */
#include "handles.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Returns the functions of a caller's LMDB 1.0, or NULL. */
static const struct origin_later_functions *caller_later(const void *caller)
{
	return caller_origin(caller)->later;
}

/* Returns whether the LMDB 1.0 serves the environment and must be called. */
static bool is_its(const MDB_env *env)
{
	return env->mode == ENV_FORWARDED && env->origin->later;
}

EXPORT int mdb_env_incr_dumpfd(MDB_env *env, mdb_filehandle_t fd, size_t txnid)
{
	const struct origin_later_functions *later;

	if (!env)
		return EINVAL;
	if (env_is_ours(env))
		return is_its(env) ? env->origin->later->mdb_env_incr_dumpfd(env->orig, fd, txnid)
				   : env_incr_dumpfd(env, fd, txnid);
	later = caller_later(CALLER);
	return later ? later->mdb_env_incr_dumpfd(env, fd, txnid) : EINVAL;
}

EXPORT int mdb_env_incr_dump(MDB_env *env, const char *path, size_t txnid)
{
	const struct origin_later_functions *later;

	if (!env)
		return EINVAL;
	if (env_is_ours(env) && !is_its(env))
		return env_incr_dump(env, path, txnid);
	later = env_is_ours(env) ? env->origin->later : caller_later(CALLER);
	if (!later)
		return EINVAL;
	origin_enter(env_origin(env, CALLER));
	return origin_leave(later->mdb_env_incr_dump(env_orig(env), path, txnid));
}

/* Returns the LMDB 1.0 that must change an environment. NULL: there is none, and *rc is the call's
 * code. */
static const struct origin_later_functions *later_changing(const MDB_env *env, const void *caller,
							    int *rc)
{
	*rc = EINVAL;
	if (!env)
		return NULL;
	if (!env_is_ours(env))
		return caller_later(caller);
	if (is_its(env))
		return env->origin->later;
	if (env->mode == ENV_OWN)
		*rc = MDB_IS_READONLY;
	return NULL;
}

EXPORT int mdb_env_incr_loadfd(MDB_env *env, mdb_filehandle_t fd)
{
	int rc;
	const struct origin_later_functions *later = later_changing(env, CALLER, &rc);

	return later ? later->mdb_env_incr_loadfd(env_orig(env), fd) : rc;
}

EXPORT int mdb_env_rollback(MDB_env *env, mdb_size_t txnid)
{
	int rc;
	const struct origin_later_functions *later = later_changing(env, CALLER, &rc);

	return later ? later->mdb_env_rollback(env_orig(env), txnid) : rc;
}

/* Internal to LMDB 1.0, which exports it: syncs `pages` pages. */
EXPORT int mdb_env_sync0(MDB_env *env, int force, size_t pages)
{
	int rc;
	const struct origin_later_functions *later = later_changing(env, CALLER, &rc);

	return later ? later->mdb_env_sync0(env_orig(env), force, pages) : rc;
}

EXPORT int mdb_env_set_pagesize(MDB_env *env, int size)
{
	const struct origin_later_functions *later;

	if (env_is_ours(env))
		return env_set_pagesize(env, size);
	later = caller_later(CALLER);
	return later ? later->mdb_env_set_pagesize(env, size) : EINVAL;
}

EXPORT int mdb_env_set_encrypt(MDB_env *env, MDB_enc_func *func, const MDB_val *key,
			       unsigned int size)
{
	const struct origin_later_functions *later;

	if (env_is_ours(env))
		return env_set_encrypt(env, func, key, size);
	later = caller_later(CALLER);
	return later ? later->mdb_env_set_encrypt(env, func, key, size) : EINVAL;
}

EXPORT int mdb_env_set_checksum(MDB_env *env, MDB_sum_func *func, unsigned int size)
{
	const struct origin_later_functions *later;

	if (env_is_ours(env))
		return for_later_set_checksum(env, func, size);
	later = caller_later(CALLER);
	return later ? later->mdb_env_set_checksum(env, func, size) : EINVAL;
}

EXPORT int mdb_txn_flags(MDB_txn *txn, unsigned int *flags)
{
	const struct origin_later_functions *later;

	if (!txn)
		return EINVAL;
	if (txn_is_own(txn)) {
		*flags = MDB_RDONLY;
		return 0;
	}
	if (txn_is_ours(txn) && !txn->env->origin->later) {
		*flags = txn->writes ? 0 : MDB_RDONLY;
		return 0;
	}
	later = txn_is_ours(txn) ? txn->env->origin->later : caller_later(CALLER);
	return later ? later->mdb_txn_flags(txn_orig(txn), flags) : EINVAL;
}

EXPORT int mdb_txn_prepare(MDB_txn *txn)
{
	const struct origin_later_functions *later;

	if (!txn)
		return EINVAL;
	if (txn_is_own(txn))
		return MDB_IS_READONLY;
	if (txn_is_ours(txn))
		return txn->env->origin->later ? txn_prepare(txn) : MDB_INCOMPATIBLE;
	later = caller_later(CALLER);
	return later ? later->mdb_txn_prepare(txn) : EINVAL;
}

EXPORT int mdb_cursor_is_db(MDB_cursor *cursor)
{
	const struct origin_later_functions *later;

	if (!cursor)
		return 0;
	if (cursor_is_own(cursor))
		return !txn_here(cursor->txn) && cursor_at_database(&cursor->cursor, NULL);
	later = cursor_is_ours(cursor) ? cursor->origin->later : caller_later(CALLER);
	return later ? later->mdb_cursor_is_db(cursor_orig(cursor)) : 0;
}

/* Three calls that load a module's functions for pages. They need no LMDB 1.0: they hand the
 * functions to an environment by the exported calls above. */
EXPORT void *mdb_modload(const char *file, const char *symname, MDB_crypto_funcs **mcf_ptr,
			 char **errmsg)
{
	static char missing[] = "the module has no function of that name";
	MDB_crypto_hooks *hooks;
	void *handle = dlopen(file, RTLD_NOW);

	if (!handle) {
		*errmsg = dlerror();
		return NULL;
	}
	*(void **)&hooks = dlsym(handle, symname ? symname : "MDB_crypto");
	if (!hooks) {
		*errmsg = missing;
		dlclose(handle);
		return NULL;
	}
	*mcf_ptr = hooks();
	return handle;
}

EXPORT void mdb_modunload(void *handle)
{
	dlclose(handle);
}

EXPORT void mdb_modsetup(MDB_env *env, MDB_crypto_funcs *mcf_ptr, const char *passphrase)
{
	enum { LONGEST = 2048 };
	char bytes[LONGEST];
	MDB_val key = {0, bytes};

	if (mcf_ptr->mcf_sumfunc)
		mdb_env_set_checksum(env, mcf_ptr->mcf_sumfunc, (unsigned)mcf_ptr->mcf_sumsize);
	if (!mcf_ptr->mcf_encfunc || !passphrase || mcf_ptr->mcf_keysize < 0 ||
	    mcf_ptr->mcf_keysize > LONGEST)
		return;
	key.mv_size = (size_t)mcf_ptr->mcf_keysize;
	memset(bytes, 0, sizeof(bytes));
	if (mcf_ptr->mcf_str2key)
		mcf_ptr->mcf_str2key(passphrase, &key);
	else
		memcpy(bytes, passphrase, strnlen(passphrase, key.mv_size));
	mdb_env_set_encrypt(env, mcf_ptr->mcf_encfunc, &key, (unsigned)mcf_ptr->mcf_esumsize);
	explicit_bzero(bytes, sizeof(bytes));
}

/* Lists of pairs and of triples, whose first element counts the others. Lists that can grow have
 * one more element in front, with their capacity. */
struct pair {
	size_t id;
	void *pointer;
};

struct triple {
	size_t id;
	void *pointer, *plain;
	unsigned pages;
	unsigned short users, used;
};

_Static_assert(sizeof(struct triple) == 32, "as LMDB 1.0 has them");

EXPORT void *mdb_mid2l_alloc(int num)
{
	struct pair *list = calloc((size_t)num + 2, sizeof(*list));

	if (!list)
		return NULL;
	list->id = (size_t)num;
	return list + 1;
}

EXPORT void mdb_mid2l_free(void *ids)
{
	if (ids)
		free((struct pair *)ids - 1);
}

EXPORT int mdb_mid2l_need(void **idp, unsigned num)
{
	enum { STEP = 256 };
	struct pair *list = *idp;
	size_t room = list[0].id + num;

	if (room <= list[-1].id)
		return 0;
	room = (room + room / 4 + STEP + 2) & ~(size_t)(STEP - 1);
	list = realloc(list - 1, room * sizeof(*list));
	if (!list)
		return ENOMEM;
	list->id = room - 2;
	*idp = list + 1;
	return 0;
}

/* Returns the first place whose id is not below `id`, or the place behind the last. */
EXPORT unsigned mdb_mid3l_search(void *ids, size_t id)
{
	const struct triple *list = ids;
	size_t low = 1, high = list[0].id + 1;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (list[middle].id < id)
			low = middle + 1;
		else
			high = middle;
	}
	return (unsigned)low;
}

EXPORT int mdb_mid3l_insert(void *ids, void *id)
{
	struct triple *list = ids;
	size_t place = mdb_mid3l_search(ids, ((struct triple *)id)->id);

	if (place <= list[0].id && list[place].id == ((struct triple *)id)->id)
		return -1; /* the id is in the list already */
	list[0].id++;
	memmove(&list[place + 1], &list[place], (list[0].id - place) * sizeof(*list));
	list[place] = *(struct triple *)id;
	return 0;
}
