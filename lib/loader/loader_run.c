/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a run of neighbouring records for a tier that keeps them. A leaf on the loader's shelf is
 * not read.
 *
 * The job as a whole reads a run once, so a read brings nothing else. Records beside it belong to
 * another run, and the pages of the tree in between have been read before the values. */
#include "loader/loader_private.h"

#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>

enum { RUN_READ = 1 << 20 }; /* bytes */

struct run_part {
	uint64_t record;
	struct index_place place;
	uint64_t offset, length; /* of the value's pages, or of the leaf; length 0: on the shelf */
	bool shelved;            /* the leaf is on the shelf */
	bool apart;              /* the value stands apart from the leaf */
	int error;
};

/* The views through which pages are read. */
struct views {
	struct snapshot file, shelf;
};

static struct snapshot *view_of_leaf(struct views *views, const struct run_part *part)
{
	return part->shelved ? &views->shelf : &views->file;
}

/* A page that is not sound says nothing about other pages. */
static void views_go_on(struct views *views)
{
	views->file.blocked = views->shelf.blocked = 0;
}

static int by_place(const void *a, const void *b)
{
	const struct run_part *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Returns 0 when a run may be read; or ECANCELED or EAGAIN. No more runs are read at once than the
 * arena has room for. It looks at the haste under the loader lock, which loader_hurry() takes, so
 * that it misses no change. */
static int run_begin(struct lmdbio_loader *loader, const _Atomic int *haste)
{
	int rc = 0;

	pthread_mutex_lock(&loader->lock);
	while (!loader->closing && *haste != RUN_NOT) {
		bool urgent = *haste == RUN_NOW;
		uint64_t until = urgent ? 0 : loader->reads.free_at;

		if (loader->reads.running >= loader->reads.runs_most ||
		    (!urgent && loader->reads.quiet && !loader->takers.waiting))
			pthread_cond_wait(&loader->turn, &loader->lock);
		else if (until > clock_now())
			(void)clock_wait(&loader->turn, &loader->lock, until);
		else
			break;
	}
	if (loader->closing)
		rc = ECANCELED;
	else if (*haste == RUN_NOT)
		rc = EAGAIN;
	loader->reads.running += !rc;
	pthread_mutex_unlock(&loader->lock);
	return rc;
}

void loader_hurry(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	pthread_cond_broadcast(&loader->turn);
	pthread_mutex_unlock(&loader->lock);
}

static void run_end(struct lmdbio_loader *loader)
{
	pthread_mutex_lock(&loader->lock);
	loader->reads.running--;
	pthread_cond_broadcast(&loader->turn);
	pthread_mutex_unlock(&loader->lock);
}

/* Brings neighbours with one read; the parts are in the order of the file. Values come past the
 * window, if `direct` is not NULL. Returns the first part after them. A read that fails fails again
 * for the parts that need it. */
static size_t bring_some(struct lmdbio_loader *loader, const struct snapshot *snapshot,
			 const struct run_part *parts, size_t first, size_t n,
			 struct direct_bytes *direct)
{
	struct extent read = {parts[first].offset, parts[first].offset + parts[first].length};
	bool apart = direct && parts[first].apart;
	size_t next = first + 1;
	uint64_t ns;

	while (next < n && parts[next].apart == parts[first].apart &&
	       extent_join(&read, parts[next].offset, parts[next].offset + parts[next].length,
			   gap_bytes(GAP_RUN, NULL), RUN_READ))
		next++;
	if (read.end > read.from &&
	    (!apart || !direct_read(loader, read.from, read.end, false, direct, &ns)))
		(void)loader_bring(loader, snapshot, read.from, read.end, &ns);
	return next;
}

/* Finds where the leaves stand. */
static void find_leaves(struct lmdbio_loader *loader, const struct snapshot *snapshot,
			uint64_t first, struct run_part *parts, size_t n)
{
	unsigned shift = snapshot->view.page_shift;

	for (size_t i = 0; i < n; i++) {
		parts[i] = (struct run_part){.record = first + i};
		parts[i].error = index_find(loader->data.index, first + i, &parts[i].place);
		parts[i].shelved = !parts[i].error && shelf_bring_place(loader, &parts[i].place);
		if (parts[i].error || parts[i].shelved)
			continue;
		parts[i].offset = parts[i].place.page << shift;
		parts[i].length = UINT64_C(1) << shift;
	}
	qsort(parts, n, sizeof(*parts), by_place);
}

/* Reads in each leaf where its values stand, if they stand apart. */
static void find_values(struct lmdbio_loader *loader, struct views *views, struct run_part *parts,
			size_t n)
{
	const struct snapshot *snapshot = &views->file;
	unsigned shift = snapshot->view.page_shift;

	for (size_t i = 0; i < n; i++) {
		uint64_t number, pages = 0;

		if (!parts[i].error)
			parts[i].error =
				index_run(view_of_leaf(views, &parts[i]), &loader->data.tree,
					  &parts[i].place, &number, &pages);
		views_go_on(views);
		/* For a run that is not in the file, the record itself will report the error. */
		if (parts[i].error || !pages || number >= snapshot->view.limit ||
		    pages > snapshot->view.limit - number)
			continue;
		parts[i].offset = number << shift;
		parts[i].length = pages << shift;
		parts[i].apart = true;
	}
	qsort(parts, n, sizeof(*parts), by_place);
}

/* Takes at once what was brought: other reads pass through the same arena, and may evict it. */
static void take_some(struct lmdbio_loader *loader, struct views *views,
		      const struct direct_bytes *direct, const struct run_part *parts, size_t n,
		      loader_take_fn *take, void *context)
{
	for (size_t i = 0; i < n; i++) {
		MDB_val key = {0}, data = {0};
		int error = parts[i].error;

		views_go_on(views);
		if (!error && !direct_get(loader, direct, view_of_leaf(views, &parts[i]),
					  &parts[i].place, &key, &data)) {
			views_go_on(views);
			error = index_get_apart(view_of_leaf(views, &parts[i]), &views->file,
						&loader->data.tree, &parts[i].place, &key, &data);
		}
		take(context, parts[i].record, error, &key, &data);
	}
}

int loader_run(struct lmdbio_loader *loader, uint64_t first, size_t n, const _Atomic int *haste,
	       loader_take_fn *take, void *context)
{
	struct views views = {.file = loader_view(loader)};
	struct run_part *parts = calloc(n + 1, sizeof(*parts));
	int rc;

	if (!parts)
		return ENOMEM;
	rc = run_begin(loader, haste);
	if (rc) {
		free(parts);
		return rc;
	}
	if (loader->data.shelf)
		views.shelf = shelf_snapshot(loader->data.shelf, &views.file);
	find_leaves(loader, &views.file, first, parts, n);
	if (loader->data.leaves_first) {
		for (size_t i = 0; i < n;)
			i = bring_some(loader, &views.file, parts, i, n, NULL);
		find_values(loader, &views, parts, n);
	}
	for (size_t i = 0, next; i < n; i = next) {
		struct direct_bytes direct = {0};

		next = bring_some(loader, &views.file, parts, i, n, &direct);
		take_some(loader, &views, &direct, parts + i, next - i, take, context);
		direct_end(loader, &direct);
	}
	run_end(loader);
	free(parts);
	return 0;
}
