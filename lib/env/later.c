/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves an environment on a data file of LMDB 1.0.
 *
 * The original, an LMDB 0.9, refuses such a file. In its place the original gets a stand-in: two
 * meta pages in memory, of its own format with the same map size. So its other answers are as
 * usual. Its answers about pages and transactions would be the stand-in's, so lmdbio does not ask
 * for them. The window shows the data file itself.
 */
#include "env/later.h"
#include "env/env.h"

#include "format/page.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	COPY_STEP = 1 << 20, /* bytes */
	LOOKS_MAX = 1000,    /* at two meta pages, until no writer is busy with either */
	KEYS_LEAST = 2,      /* keys of the greatest length in a page */
	STAND_IN_PAGE = 256, /* bytes; no program learns this size */
	PAGE = 4096,         /* bytes: the smallest page of any machine */
	BESIDE_PAGE = 64,    /* bytes: off the beginning of a page */
	/* A writer has overwritten the snapshot's meta page, and no byte of the copy has been
	 * written yet. Neither an errno, which a write may return, nor a code of LMDB. */
	OVERWRITTEN = -1,
};

/* Fills both meta pages of the stand-in; `pages` is all zeroes. */
static void stand_in_fill(uint8_t *pages, const struct meta *newest)
{
	uint64_t bytes = (newest->last_page + 1) * newest->page_size;

	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		uint8_t *page = pages + (size_t)i * STAND_IN_PAGE;
		bool is_newest = (newest->txnid & 1) == i;

		store64(page + PAGE_NUMBER, i);
		store16(page + PAGE_FLAGS, PAGE_META);
		store32(page + META_MAGIC, FORMAT_MAGIC);
		store32(page + META_VERSION, FORMAT_VERSION);
		store64(page + META_MAPSIZE, newest->mapsize);
		store32(page + META_FREE_TREE + TREE_PAD, STAND_IN_PAGE);
		store16(page + META_FREE_TREE + TREE_FLAGS, newest->env_flags);
		store64(page + META_FREE_TREE + TREE_ROOT, PAGE_NONE);
		store64(page + META_MAIN_TREE + TREE_ROOT, PAGE_NONE);
		store64(page + META_LAST_PAGE, bytes / STAND_IN_PAGE - 1);
		store64(page + META_TXNID,
			is_newest || !newest->txnid ? newest->txnid : newest->txnid - 1);
	}
}

/* Puts the stand-in into a file in memory, for an original that takes no loan. */
static int stand_in_store(struct later *later)
{
	const size_t size = FORMAT_METAS * STAND_IN_PAGE;
	int fd, rc;

	if (!limits_allow_file(size))
		return EFBIG;
	fd = memfd_create("lmdbio-stand-in", MFD_CLOEXEC);
	rc = fd < 0 ? errno : descriptor_keep(&later->file, fd);
	if (rc)
		return rc;
	snprintf(later->path, sizeof(later->path), "/proc/self/fd/%d", later->file.fd);
	errno = 0;
	return pwrite(later->file.fd, later->pages, size, 0) == (ssize_t)size ? 0 : errno ? errno : ENOSPC;
}

static struct later *stand_in_make(const struct meta *newest)
{
	const size_t pages = BESIDE_PAGE + FORMAT_METAS * STAND_IN_PAGE;
	struct later *later = malloc(sizeof(*later) + pages);

	if (!later)
		return NULL;
	*later = (struct later){.file.fd = -1};
	memset(later + 1, 0, pages);
	strcpy(later->path, "lmdbio-stand-in");
	later->pages = (uint8_t *)(later + 1);
	/* By this address the original's call of munmap(2) tells the pages from a map. */
	if ((uintptr_t)later->pages % PAGE == 0)
		later->pages += BESIDE_PAGE;
	stand_in_fill(later->pages, newest);
	return later;
}

int later_begin(MDB_txn *txn)
{
	struct later *later = txn->env->later;

	return later && later->readers ? readers_take(later->readers, &txn->slot) : 0;
}

void later_reset(MDB_txn *txn)
{
	if (!txn->slot)
		return;
	readers_rest(txn->slot);
	if (!(txn->env->flags & MDB_NOTLS))
		txn->slot = NULL; /* the slot is the thread's */
}

void later_end(MDB_txn *txn)
{
	if (txn->slot)
		readers_give(txn->env->later->readers, txn->slot);
	txn->slot = NULL;
}

static void stand_in_lend(const struct later *later, struct origin_loan *loan)
{
	loan->stand_in = later->pages;
	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		uint64_t offset = i * (uint64_t)STAND_IN_PAGE;

		loan->seen[i] = (struct origin_loan_bytes){later->pages + offset, META_END, offset};
	}
}

int later_lend(MDB_env *env, const char *path, const struct meta *newer, struct origin_loan *loan)
{
	int rc;

	/* A container is as long as its footer says. */
	if (env->for_later.origin && !env->packed && (rc = for_later_judge(loan->fd, newer)))
		return rc;
	if (newer->env_flags & FORMAT_ENCRYPTED)
		return MDB_INCOMPATIBLE;
	env->later = stand_in_make(newer);
	if (!env->later)
		return ENOMEM;
	env->format = newer->format;
	if (!env->named && !(env->named = strdup(path)))
		return ENOMEM;
	if (origin_takes_loans(env->origin)) {
		stand_in_lend(env->later, loan);
		return 0;
	}
	env->fd = loan->fd;
	loan->fd = -1;
	loan->path = env->later->path;
	return stand_in_store(env->later);
}

int later_open_origin(const MDB_env *env, MDB_env *orig)
{
	struct origin_loan loan = {.path = env->later->path, .fd = -1};
	int rc;

	if (env->later->file.fd < 0) {
		loan.fd = fcntl(env->data, F_DUPFD_CLOEXEC, 0);
		if (loan.fd < 0)
			return errno;
		stand_in_lend(env->later, &loan);
	}
	origin_loan_begin(&loan);
	rc = env->origin->call.mdb_env_open(orig, loan.path, packed_flags(env->flags),
					    env->permissions);
	origin_loan_end();
	if (loan.fd >= 0)
		close(loan.fd);
	return rc;
}

void later_leave(MDB_env *env)
{
	struct later *later = env->later;

	if (!later)
		return;
	readers_close(later->readers);
	later->readers = NULL;
	sums_close(env->sums);
	env->sums = NULL;
	free(env->named);
	env->named = NULL;
	env->format = FORMAT_0_9;
	/* Without that file the original owns env->fd, and closes it. */
	if (later->file.fd >= 0) {
		descriptor_kept_close(&later->file);
		if (env->mode == ENV_OWN)
			descriptor_close(env->fd, env->seen.st.st_dev, env->seen.st.st_ino);
		else
			close(env->fd);
	}
	env->fd = -1;
	env->later = NULL;
	later->left = env->left;
	env->left = later;
}

void later_free(MDB_env *env)
{
	struct later *later;

	while ((later = env->left)) {
		env->left = later->left;
		free(later);
	}
}

int later_newest(const MDB_env *env, struct meta *meta)
{
	const size_t size = page_layouts[env->format].shift + META_END;
	uint8_t pages[FORMAT_METAS][META_LOOK], again[FORMAT_METAS][META_LOOK];

	/* If two reads in a row agree, no writer was busy with the pages. */
	for (unsigned look = 0; look < LOOKS_MAX; look++) {
		for (unsigned i = 0; i < FORMAT_METAS; i++)
			memcpy(pages[i], window_meta(&env->window, i), size);
		atomic_thread_fence(memory_order_acquire);
		for (unsigned i = 0; i < FORMAT_METAS; i++)
			memcpy(again[i], window_meta(&env->window, i), size);
		if (!memcmp(pages[0], again[0], size) && !memcmp(pages[1], again[1], size))
			break;
	}
	if (meta_judge(pages[0], pages[1], meta, env->format) ||
	    meta->page_size != env->window.page_size)
		return MDB_CORRUPTED;
	return 0;
}

/* Puts the data file's newest transaction into a lock file that was just made. This process still
 * holds byte 0 for writing, so no writer has begun. */
static int lock_share(const MDB_env *env, struct readers *readers)
{
	struct meta newest;
	int rc = later_newest(env, &newest);

	return rc ? rc : readers_share(readers, newest.txnid);
}

int later_lock(MDB_env *env)
{
	char *path = env_lock_path(env->path, env->flags);
	unsigned most = READERS_DEFAULT;
	struct readers *readers = NULL;
	int rc = path ? env->origin->call.mdb_env_get_maxreaders(env->orig, &most) : ENOMEM;

	if (!rc && env->later->readers)
		rc = readers_inherit(&readers, env->later->readers, path);
	else if (!rc)
		rc = readers_open(&readers, path, env->permissions, most,
				  !(env->flags & MDB_NOTLS));
	free(path);
	if (!rc && readers)
		rc = lock_share(env, readers);
	if (rc) {
		readers_close(readers);
		return rc;
	}
	readers_close(env->later->readers); /* in a forked child: the parent keeps its slots */
	env->later->readers = readers;
	return 0;
}

int later_open(MDB_env *env)
{
	int rc = later_sums_open(env);

	/* No program writes to a container or to a staged copy. */
	if (rc || !env->later || env->packed || env->staged || env->flags & MDB_NOLOCK)
		return rc;
	return later_lock(env);
}

/* later_newest() outside of a transaction, when the file may have any length. */
static int newest_outside(const MDB_env *env, struct meta *meta)
{
	struct stat st;

	env_file_look(env, &st);
	if ((uint64_t)st.st_size < FORMAT_METAS * (uint64_t)env->window.page_size)
		return MDB_CORRUPTED;
	return later_newest(env, meta);
}

int later_info(const MDB_env *env, MDB_envinfo *info)
{
	struct meta meta;
	int rc = env->origin->call.mdb_env_info(env->orig, info);

	if (!rc)
		rc = newest_outside(env, &meta);
	if (rc)
		return rc;
	info->me_mapaddr = (void *)(uintptr_t)meta.address;
	info->me_mapsize = env->window.length;
	info->me_last_pgno = meta.last_page;
	info->me_last_txnid = meta.txnid;
	if (env->later->readers) {
		info->me_maxreaders = readers_most(env->later->readers);
		info->me_numreaders = readers_used(env->later->readers);
	}
	return 0;
}

int later_mapsize(const MDB_env *env, size_t *size)
{
	struct meta meta;
	int rc = newest_outside(env, &meta);
	uint64_t least;

	if (rc)
		return rc;
	least = (meta.last_page + 1) * meta.page_size;
	if (!*size)
		*size = meta.mapsize;
	if (*size < least)
		*size = least;
	return 0;
}

int later_stat(const MDB_env *env, MDB_stat *stat)
{
	struct meta meta;
	int rc = newest_outside(env, &meta);

	if (rc)
		return rc;
	*stat = (MDB_stat){
		.ms_psize = meta.page_size,
		.ms_depth = meta.main_tree.depth,
		.ms_branch_pages = meta.main_tree.branch_pages,
		.ms_leaf_pages = meta.main_tree.leaf_pages,
		.ms_overflow_pages = meta.main_tree.overflow_pages,
		.ms_entries = meta.main_tree.entries,
	};
	return 0;
}

int later_reader_list(const MDB_env *env, MDB_msg_func *func, void *context)
{
	if (env->later->readers && func)
		return readers_list(env->later->readers, func, context);
	return env->origin->call.mdb_reader_list(env->orig, func, context);
}

int later_reader_check(const MDB_env *env, int *dead)
{
	if (env->later->readers)
		return readers_check(env->later->readers, dead);
	return env->origin->call.mdb_reader_check(env->orig, dead);
}

int later_maxreaders(const MDB_env *env, unsigned *readers)
{
	if (!env->later->readers || !readers)
		return env->origin->call.mdb_env_get_maxreaders(env->orig, readers);
	*readers = readers_most(env->later->readers);
	return 0;
}

/* LMDB 1.0's longest key leaves room for two entries with a tree's record in a page. */
int later_key_max(const MDB_env *env)
{
	uint32_t room = env->window.page_size - page_layouts[env->format].header -
			sums_size(env->sums);
	uint32_t entry = (room / KEYS_LEAST & ~1u) - 2;

	return (int)(entry - ENTRY_KEY - TREE_SIZE);
}

/* Makes the meta pages of a copy: the transaction's, and the same with the id before it. Returns 0
 * or OVERWRITTEN. */
static int copy_metas(const MDB_txn *txn, uint8_t *pages)
{
	const struct window *window = &txn->env->window;
	size_t size = window->page_size;
	uint32_t shift = page_layouts[txn->env->format].shift;
	unsigned own = (unsigned)txn->id & 1;
	struct meta meta;

	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		memcpy(pages + i * size, window_meta(window, own), size);
		store64(pages + i * size + PAGE_NUMBER, i);
		if (i != own && txn->id)
			store64(pages + i * size + shift + META_TXNID, txn->id - 1);
	}
	memcpy(pages + later_sum_size_at(window->page_size),
	       window_meta(window, 0) + later_sum_size_at(window->page_size), sizeof(uint16_t));
	atomic_thread_fence(memory_order_acquire);
	if (meta_parse(&meta, pages + own * size, txn->env->format) || meta.txnid != txn->id ||
	    memcmp(pages + own * size, window_meta(window, own), size) != 0)
		return OVERWRITTEN;
	return 0;
}

/* Copies the data file's bytes from `offset` to `end`, unchanged. `bytes` has room for COPY_STEP of
 * them. */
static int copy_range(const MDB_env *env, int fd, uint8_t *bytes, uint64_t offset, uint64_t end)
{
	int rc = 0;

	while (offset < end && !rc) {
		size_t length = end - offset < COPY_STEP ? end - offset : COPY_STEP;
		ssize_t n = pread(env->data, bytes, length, (off_t)offset);

		rc = n > 0 ? copy_write(fd, bytes, (size_t)n) : n ? errno : MDB_CORRUPTED;
		offset += n > 0 ? (uint64_t)n : 0;
	}
	return rc;
}

static int snapshot_copy(const MDB_txn *txn, int fd, uint64_t since)
{
	const MDB_env *env = txn->env;
	uint64_t offset = FORMAT_METAS * (uint64_t)env->window.page_size;
	uint8_t *bytes = malloc(COPY_STEP);
	int rc = bytes ? copy_metas(txn, bytes) : ENOMEM;

	(void)since;
	if (!rc)
		rc = copy_write(fd, bytes, offset);
	if (!rc)
		rc = copy_range(env, fd, bytes, offset,
				txn->snapshot.view.limit << env->window.page_shift);
	free(bytes);
	return rc;
}

/* The state of a dump. */
struct dump {
	const MDB_txn *txn;
	int fd;
	uint64_t since;
	uint64_t done;  /* the page behind the last run that was written */
	uint8_t *bytes; /* room for COPY_STEP of them */
};

/* Returns the length in pages of the page or run in dump->bytes if it is newer than dump->since,
 * else 0. Pages that no snapshot uses, and those inside a run, may hold anything. */
static uint64_t dump_newer(const struct dump *dump, uint64_t page)
{
	const struct page_layout *layout = &page_layouts[dump->txn->env->format];
	uint64_t pages = 1;

	if (page_flags(layout, dump->bytes) & PAGE_OVERFLOW)
		pages = page_run(layout, dump->bytes);
	if (load64(dump->bytes + PAGE_NUMBER) != page ||
	    load64(dump->bytes + PAGE_TXNID) <= dump->since ||
	    pages > dump->txn->snapshot.view.limit - page)
		return 0;
	return pages;
}

/* Writes a page, or the run that begins there, if it is newer. mdb_env_incr_loadfd() reads as many
 * pages as the header says, and a writer may be changing a page that no snapshot uses. So the
 * header is read once, judged and written. */
static int dump_page(struct dump *dump, uint64_t page)
{
	const struct window *window = &dump->txn->env->window;
	uint64_t offset = page << window->page_shift, pages;
	ssize_t n = pread(dump->txn->env->data, dump->bytes, window->page_size, (off_t)offset);
	int rc;

	if (n != (ssize_t)window->page_size)
		return n < 0 ? errno : MDB_CORRUPTED;
	pages = dump_newer(dump, page);
	if (!pages || page + pages <= dump->done)
		return 0;
	rc = copy_write(dump->fd, dump->bytes, window->page_size);
	if (!rc)
		rc = copy_range(dump->txn->env, dump->fd, dump->bytes,
				offset + window->page_size, (page + pages) << window->page_shift);
	dump->done = page + pages;
	return rc;
}

static int snapshot_dump(const MDB_txn *txn, int fd, uint64_t since)
{
	struct dump dump = {txn, fd, since, .bytes = malloc(COPY_STEP)};
	const size_t size = txn->env->window.page_size;
	int rc = dump.bytes ? copy_metas(txn, dump.bytes) : ENOMEM;

	for (unsigned i = 0; i < FORMAT_METAS && !rc; i++)
		if ((i == (txn->id & 1) ? txn->id : txn->id - 1) > since)
			rc = copy_write(fd, dump.bytes + i * size, size);
	/* Each page, also inside a seeming run: a run that was freed keeps its header, and its
	 * pages may have been reused. */
	for (uint64_t page = FORMAT_METAS; page < txn->snapshot.view.limit && !rc; page++)
		rc = dump_page(&dump, page);
	free(dump.bytes);
	return rc;
}

/* Writes the newest snapshot. If a writer overwrites its meta page before that is copied, writes
 * the next one. If no transaction was added meanwhile, the page is not the snapshot's: the file is
 * damaged. */
static int newest_write(MDB_env *env, int fd, uint64_t since,
			int (*write)(const MDB_txn *txn, int fd, uint64_t since))
{
	size_t id = SIZE_MAX, before;
	MDB_txn *txn;
	int rc;

	do {
		rc = txn_begin(env, NULL, MDB_RDONLY, &txn);
		if (rc)
			return rc;
		before = id;
		id = txn->id;
		rc = write(txn, fd, since);
		txn_abort(txn);
	} while (rc == OVERWRITTEN && id != before);
	return rc == OVERWRITTEN ? MDB_CORRUPTED : rc;
}

int later_copy(MDB_env *env, int fd)
{
	return newest_write(env, fd, 0, snapshot_copy);
}

int later_dump(MDB_env *env, int fd, uint64_t since)
{
	return newest_write(env, fd, since, snapshot_dump);
}
