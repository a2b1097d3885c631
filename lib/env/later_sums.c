/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides whether the pages of a data file of LMDB 1.0 are verified, and by which checksum.
 *
 * Page 0 ends with the size of the file's checksums, and the file does not say how they are
 * computed. A program that asks for another size is refused, as LMDB 1.0 refuses it. A checksum
 * that the user names is for all data sets, with and without checksums.
 */
#include "env/later.h"
#include "env/env.h"

#include "format/layout.h"
#include "util/checked.h"
#include "util/settings.h"

#include <errno.h>
#include <unistd.h>

unsigned later_sum_size(const MDB_env *env)
{
	uint8_t bytes[sizeof(uint16_t)];

	if (!env->later)
		return 0;
	if (env->packed)
		return load16(window_meta(&env->window, 0) +
			      later_sum_size_at(env->window.page_size));
	/* The file may end before these bytes, so they are not read through the map. */
	if (pread(env->data, bytes, sizeof(bytes), later_sum_size_at(env->window.page_size)) !=
	    (ssize_t)sizeof(bytes))
		return 0;
	return load16(bytes);
}

/* Opens the checksums that the program or the user names. If neither names any, *sums stays as it
 * is. */
static int sums_named(const MDB_env *env, struct sums **sums)
{
	const struct checksum *named = settings_get()->checksum;
	unsigned size, wanted = env->sum_size;
	MDB_sum_func *func = env->sum_func;

	if (!func && !named)
		return 0;
	size = later_sum_size(env);
	if (!func && named && size) {
		func = named->func;
		wanted = named->size;
	}
	if (!func)
		return 0;
	if (wanted != size || size >= env->window.page_size - page_layouts[env->format].header)
		return MDB_BAD_CHECKSUM;
	return sums_open(sums, func, size, env->window.page_size);
}

int later_sums_open(MDB_env *env)
{
	/* A container has checksums of its own. */
	return env->packed ? 0 : sums_named(env, &env->sums);
}

int later_sums_copied(const MDB_env *env, struct sums **own)
{
	int rc = 0;

	*own = NULL;
	if (env->packed && later_sum_size(env))
		rc = sums_named(env, own);
	return rc == MDB_BAD_CHECKSUM ? MDB_INCOMPATIBLE : rc;
}

int later_sums_begin(MDB_txn *txn)
{
	struct window_view *view = &txn->snapshot.view;

	view->sums = sums_take(txn->env->sums, txn->id, txn->state, view->pages);
	if (!view->sums)
		return ENOMEM;
	view->sure = sums_sure(view->sums);
	return 0;
}

void later_sums_end(MDB_txn *txn)
{
	sums_give(txn->snapshot.view.sums);
	txn->snapshot.view.sums = NULL;
}
