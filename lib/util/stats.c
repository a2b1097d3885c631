/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives this process its slot of counters, and reports at the end.
 *
 * stats_own is memory of this library at first, then a slot of a table: the table of an lmdbio-run
 * or of the forking parent, or else the process's own. Making a table takes longer than opening a
 * small data set. So a process gets its slot with the first bytes that it asks of storage or waits
 * for, or when it has read for a while. A forked child begins with memory of its own again, as most
 * children read nothing.
 *
 * The library's destructor writes the report: unlike an atexit() function it also runs when a
 * library is unloaded. A process that ends by _exit() or a signal reports nothing itself; its
 * counters stay in its slot.
 */
#include "util/stats.h"

#include "util/at_fork.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/log.h"
#include "util/stats_private.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Defined before stats_own, whose pages are its own: GCC lays it out behind them, on a page that
 * each process writes to anyway. */
atomic_bool stats_settled;
struct stats_slot stats_own;

static atomic_flag told = ATOMIC_FLAG_INIT;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stats_table table = {.fd = -1};
static bool shown; /* stats_own is a slot of the table */

/* Counts live threads that have waited. */
static pthread_once_t waiters_once = PTHREAD_ONCE_INIT;
static pthread_key_t waiters_key;
static bool waiters_watched;
static _Thread_local bool serves;

enum {
	LOOK_NS = 10000000,
	/* The age at which a process that reads from memory alone gets a slot: a table costs 0.1
	 * ms. */
	LASTS_NS = 100000000,
};
static _Atomic uint64_t kernel_look_at;

/* --- the slot -------------------------------------------------------------------------------- */

/* Joins the table of lmdbio-run, or else makes one of this process's own. */
static int table_get(void)
{
	const char *where = settings_get()->stats_at;
	int rc = where ? stats_table_join(&table, where) : ENOENT;

	if (rc == EPROTO)
		log_line("the lmdbio-run that started this process is of another version: the "
			 "process counts for itself");
	return rc ? stats_table_make(&table) : 0;
}

/* Whether a page can be mapped over stats_own. The loader of an old glibc supports no alignment of
 * more than a page, and the kernel's page may be larger than STATS_PAGE. */
static bool can_show(void)
{
	long page = sysconf(_SC_PAGESIZE);

	return page > 0 && STATS_PAGE % page == 0 && (uintptr_t)&stats_own % STATS_PAGE == 0;
}

/* Replaces the map over stats_own by memory of this process's own. */
static bool own_hide(void)
{
	return mmap(&stats_own, sizeof(stats_own), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* Maps a slot over stats_own by the table's descriptor, or by its map if the program has closed
 * that. */
static bool own_show(struct stats_slot *slot)
{
	off_t at = (char *)slot - (char *)table.head;
	void *to;

	if (table.fd >= 0 && descriptor_is(table.fd, table.device, table.inode))
		to = mmap(&stats_own, sizeof(stats_own), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED, table.fd, at);
	else
		to = mremap(slot, 0, sizeof(*slot), MREMAP_MAYMOVE | MREMAP_FIXED, &stats_own);
	if (to != MAP_FAILED)
		return true;
	(void)own_hide(); /* the old map may be gone */
	return false;
}

/* Copies the counts so far to the slot. Counts of other threads at this moment may be missing. */
static void own_move(struct stats_slot *slot)
{
	for (unsigned i = 0; i < STATS_COUNT; i++)
		atomic_fetch_add(&slot->counters[i].value, stats_get((enum stats_counter)i));
	for (unsigned i = 0; i < STATS_SIZES; i++)
		atomic_fetch_add(&slot->sizes[i], atomic_load(&stats_own.sizes[i]));
	atomic_store(&slot->kind, atomic_load(&stats_own.kind));
	atomic_store(&slot->environments, atomic_load(&stats_own.environments));
	atomic_store(&slot->budget, atomic_load(&stats_own.budget));
	atomic_store(&slot->kernel_since, atomic_load(&stats_own.kernel_since));
	atomic_store(&slot->kernel_read, atomic_load(&stats_own.kernel_read));
	atomic_store(&slot->queue, atomic_load(&stats_own.queue));
	atomic_store(&slot->waiters, atomic_load(&stats_own.waiters));
	atomic_store(&slot->waiters_most, atomic_load(&stats_own.waiters_most));
	memset(slot->program, 0, sizeof(slot->program));
	snprintf(slot->program, sizeof(slot->program), "%s", program_invocation_short_name);
	atomic_store(&slot->seen_ns, atomic_load(&stats_own.seen_ns));
	atomic_store(&slot->opened_ns, atomic_load(&stats_own.opened_ns));
}

static void tell_full(void)
{
	if (!atomic_exchange(&table.head->told_full, 1))
		log_line("%d processes that share one table of counters live: process %ld and "
			 "those that follow count for themselves",
			 (int)STATS_SLOTS, (long)getpid());
}

/* The caller holds `lock`. */
static void slot_get(void)
{
	struct stats_slot *slot;

	if (shown || settings_get()->secure || !can_show() || (!table.head && table_get()))
		return;
	slot = stats_table_take(&table, stats_owner_of(getpid()));
	if (!slot) {
		tell_full();
		return;
	}
	own_move(slot);
	shown = true; /* a child that is forked from here on unmaps the slot */
	if (own_show(slot))
		return;
	shown = false;
	atomic_store(&slot->owner, 0);
}

/* The caller holds `lock`, after the first open. */
static void settle(void)
{
	int saved = errno;

	slot_get();
	atomic_store(&stats_settled, true);
	errno = saved;
}

void stats_settle(void)
{
	pthread_mutex_lock(&lock);
	if (!atomic_load(&stats_settled) && atomic_load(&stats_own.opened_ns))
		settle();
	pthread_mutex_unlock(&lock);
}

void stats_settle_late(void)
{
	uint64_t opened = atomic_load_explicit(&stats_own.opened_ns, memory_order_relaxed);

	if (opened && clock_now() > opened + LASTS_NS)
		stats_settle();
}

/* Begins the process's time. The caller holds `lock`. */
static void time_begin(enum stats_kind kind)
{
	uint64_t now = clock_now();

	atomic_store(&stats_own.kind, kind);
	atomic_store(&stats_own.seen_ns, now);
	atomic_store(&stats_own.opened_ns, now);
	if (settings_get()->stats_at)
		settle();
}

/* In a program that serves its node, other processes may have been served before the program opens
 * a data set. Its time begins with its own open, as that of any program. */
void stats_opened(void)
{
	pthread_mutex_lock(&lock);
	/* First: a page that is read before it is written takes two page faults. */
	atomic_fetch_add(&stats_own.environments, 1);
	if (!atomic_load(&stats_own.opened_ns) || atomic_load(&stats_own.kind) == STATS_SERVER_KIND)
		time_begin(STATS_PROGRAM_KIND);
	pthread_mutex_unlock(&lock);
}

void stats_serve(void)
{
	if (atomic_load_explicit(&stats_own.opened_ns, memory_order_relaxed))
		return;
	pthread_mutex_lock(&lock);
	if (!atomic_load(&stats_own.opened_ns)) {
		time_begin(STATS_SERVER_KIND);
		if (!atomic_load(&stats_settled))
			settle();
	}
	pthread_mutex_unlock(&lock);
}

void stats_kernel_watch(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	if (!atomic_load(&stats_own.kernel_since) && disk_reads(0, &bytes))
		atomic_store(&stats_own.kernel_since, bytes + 1);
	pthread_mutex_unlock(&lock);
}

uint64_t stats_storage_bytes(void)
{
	stats_slot_look(&stats_own, 0);
	return stats_slot_value(&stats_own, STATS_STORAGE_BYTES);
}

void stats_closed(void)
{
	stats_slot_look(&stats_own, 0);
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&stats_own.seen_ns, clock_now(), memory_order_relaxed);
	atomic_fetch_sub(&stats_own.environments, 1);
	pthread_mutex_unlock(&lock);
}

void stats_budget(uint64_t bytes)
{
	pthread_mutex_lock(&lock);
	atomic_store_explicit(&stats_own.budget, bytes, memory_order_relaxed);
	pthread_mutex_unlock(&lock);
}

const struct stats_table *stats_own_table(void)
{
	return shown ? &table : NULL;
}

/* Looks every 10 ms at most: the process may be killed at any time, but many waits are short. */
static void kernel_look(uint64_t now)
{
	uint64_t at = atomic_load_explicit(&kernel_look_at, memory_order_relaxed);

	if (now >= at && atomic_compare_exchange_strong(&kernel_look_at, &at, now + LOOK_NS))
		stats_slot_look(&stats_own, 0);
}

/* --- waiting --------------------------------------------------------------------------------- */

/* Called when a thread that has waited ends. */
static void waiter_leave(void *unused)
{
	(void)unused;
	atomic_fetch_sub(&stats_own.waiters, 1);
}

static void waiters_watch(void)
{
	waiters_watched = !pthread_key_create(&waiters_key, waiter_leave);
}

/* Counts this thread, which has waited for the first time. */
static void waiter_come(void)
{
	uint64_t now = atomic_fetch_add(&stats_own.waiters, 1) + 1;
	uint64_t most = atomic_load(&stats_own.waiters_most);

	while (most < now && !atomic_compare_exchange_weak(&stats_own.waiters_most, &most, now))
		;
	(void)pthread_setspecific(waiters_key, &waiters_key);
}

void stats_thread_serves(void)
{
	serves = true;
}

void stats_waited(uint64_t began)
{
	uint64_t now = clock_now();

	if (serves)
		return;
	stats_ensure_settled();
	stats_add(STATS_WAITS, 1);
	stats_add(STATS_WAIT_NS, now - began);
	stats_spans_add(&stats_own, now, now - began);
	atomic_store_explicit(&stats_own.seen_ns, now, memory_order_relaxed);
	kernel_look(now);
	pthread_once(&waiters_once, waiters_watch);
	if (waiters_watched && !pthread_getspecific(waiters_key))
		waiter_come();
}

/* Whether this is a forked child without memory of its own for the counters. It adds to its parent's
 * slot, and leaves all else there to its parent. */
static bool is_guest(void)
{
	return shown && stats_owner_pid(atomic_load(&stats_own.owner)) != getpid();
}

/* --- the end --------------------------------------------------------------------------------- */

bool stats_any(void)
{
	for (size_t i = 0; i < STATS_COUNT; i++)
		if (stats_get((enum stats_counter)i))
			return true;
	return false;
}

void stats_sum_own(struct stats_sum *sum)
{
	*sum = (struct stats_sum){.processes = 0};
	stats_slot_look(&stats_own, 0);
	stats_spans_begin(sum, atomic_load(&stats_own.opened_ns), clock_now());
	stats_sum_slot(&stats_own, true, sum);
}

/* Whether an lmdbio-run will report what this process has counted. */
static bool is_told_elsewhere(void)
{
	uint64_t reporter = shown ? atomic_load(&table.head->reporter) : 0;

	return reporter && stats_owner_lives(reporter);
}

void stats_tell(const struct settings *settings)
{
	struct stats_report report;

	if (settings->secure || settings->stats.how == SETTINGS_STATS_OFF || !stats_any() ||
	    is_guest() || is_told_elsewhere() || atomic_flag_test_and_set(&told))
		return;
	stats_report_self(&report);
	stats_report_write(&report, &settings->stats);
}

/* In a forked child, which counts from zero if the kernel has memory for that. */
static void forget(void)
{
	if (!shown)
		memset(&stats_own, 0, sizeof(stats_own));
	else if (own_hide())
		shown = false;
	atomic_store(&stats_settled, false);
	pthread_mutex_init(&lock, NULL); /* another thread of the parent may hold it */
	if (waiters_watched)
		(void)pthread_setspecific(waiters_key, NULL);
	atomic_flag_clear(&told);
}

__attribute__((constructor)) static void stats_begin(void)
{
	static const struct fork_steps steps = {.child = forget};

	at_fork(FORK_STATS, &steps);
}

__attribute__((destructor)) static void stats_end(void)
{
	int saved = errno;

	if (fork_was_missed())
		return;
	if (stats_any())
		stats_tell(settings_get());
	if (shown && !is_guest()) {
		stats_slot_look(&stats_own, 0);
		atomic_store(&stats_own.ended_ns, clock_now());
	}
	if (waiters_watched)
		(void)pthread_key_delete(waiters_key);
	if (table.head)
		stats_table_close(&table);
	errno = saved;
}
