/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps tables of counters in memory that the kernel frees with the last process that has it. */
#include "util/stats_private.h"

#include "util/clock.h"
#include "util/descriptor.h"
#include "util/kernel_file.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- sums of waits over spans of time, at several scales ----------------------------------------- */

/* Each scale's spans are four times as long as those of the scale before. */
static uint64_t span_ns(unsigned scale)
{
	return UINT64_C(1000000000) << 2 * scale;
}

unsigned stats_spans_scale(uint64_t ns)
{
	unsigned scale = 0;

	while (scale + 1 < STATS_SCALES && ns / span_ns(scale) >= STATS_SPANS)
		scale++;
	return scale;
}

void stats_spans_add(struct stats_slot *slot, uint64_t now, uint64_t ns)
{
	uint64_t opened = atomic_load_explicit(&slot->opened_ns, memory_order_relaxed);
	uint64_t at = opened && now > opened ? now - opened : 0;

	/* Scales that are too fine for this moment have no span for it, and are not read any more.
	 */
	for (unsigned scale = stats_spans_scale(at); scale < STATS_SCALES; scale++) {
		uint64_t span = at / span_ns(scale);

		span = span < STATS_SPANS ? span : STATS_SPANS - 1;
		atomic_fetch_add_explicit(&slot->spans[scale][span], ns, memory_order_relaxed);
	}
}

void stats_spans_begin(struct stats_sum *sum, uint64_t opened_ns, uint64_t now)
{
	sum->opened_ns = opened_ns;
	sum->scale = stats_spans_scale(now > opened_ns ? now - opened_ns : 0);
}

/* Returns a time axis's span for span i of a process that has opened `offset` ns later. */
static uint64_t span_at(uint64_t offset, unsigned scale, unsigned i)
{
	uint64_t to = offset / span_ns(scale) + i;

	return to < STATS_SPANS ? to : STATS_SPANS - 1;
}

/* Keeps the waits over time of a slot whose process has ended, from head->opened_ns on. */
static void stats_spans_keep(struct stats_head *head, const struct stats_slot *slot)
{
	uint64_t opened = atomic_load(&slot->opened_ns), first = atomic_load(&head->opened_ns);
	uint64_t offset = opened > first ? opened - first : 0;

	for (unsigned n = 0; opened && first && n < STATS_SCALES * STATS_SPANS; n++) {
		unsigned scale = n / STATS_SPANS, i = n % STATS_SPANS;
		uint64_t ns = atomic_load(&slot->spans[scale][i]);

		if (ns)
			atomic_fetch_add(&head->past_spans[scale][span_at(offset, scale, i)], ns);
	}
}

/* Adds the waits that were kept to the sum of a table. */
static void stats_spans_sum_kept(const struct stats_head *head, struct stats_sum *sum)
{
	for (unsigned i = 0; i < STATS_SPANS; i++)
		sum->spans[i] += atomic_load(&head->past_spans[sum->scale][i]);
}

void stats_spans_sum(const struct stats_slot *slot, struct stats_sum *sum)
{
	uint64_t opened = atomic_load_explicit(&slot->opened_ns, memory_order_relaxed);
	uint64_t offset = opened > sum->opened_ns ? opened - sum->opened_ns : 0;

	for (unsigned i = 0; opened && sum->opened_ns && i < STATS_SPANS; i++)
		sum->spans[span_at(offset, sum->scale, i)] +=
			atomic_load_explicit(&slot->spans[sum->scale][i], memory_order_relaxed);
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

enum {
	LENGTH = sizeof(struct stats_head) + STATS_SLOTS * sizeof(struct stats_slot),
	SEALS = F_SEAL_SHRINK | F_SEAL_GROW,
};

/* --- owners ---------------------------------------------------------------------------------- */

/* Returns field 22 of /proc/PID/stat, or 0 if it cannot be read. Field 2 is the name, which may
 * hold anything, in brackets. */
static uint64_t start_of(pid_t pid)
{
	enum { NAME = 2, START = 22 };
	char path[64], text[1024];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	if (!kernel_file_read(path, text, sizeof(text)))
		return 0;
	at = strrchr(text, ')');
	for (int field = NAME; at && field < START; field++)
		if ((at = strchr(at, ' ')))
			at++;
	return at ? strtoull(at, NULL, 10) : 0;
}

static bool pid_lives(pid_t pid)
{
	int saved = errno;
	bool lives = !kill(pid, 0) || errno == EPERM;

	errno = saved;
	return lives;
}

uint64_t stats_owner_of(pid_t pid)
{
	if (pid <= 0 || !pid_lives(pid))
		return 0;
	return start_of(pid) << STATS_PID_BITS | (uint64_t)pid;
}

bool stats_owner_lives(uint64_t owner)
{
	pid_t pid = (pid_t)stats_owner_pid(owner);
	uint64_t start;

	if (pid <= 0 || !pid_lives(pid))
		return false;
	start = start_of(pid);
	return !start || !stats_owner_start(owner) || start == stats_owner_start(owner);
}

/* --- tables ---------------------------------------------------------------------------------- */

static int table_map(struct stats_table *table, int protection)
{
	struct stat st;
	void *base;

	if (fstat(table->fd, &st))
		return errno;
	base = mmap(NULL, LENGTH, protection, MAP_SHARED, table->fd, 0);
	if (base == MAP_FAILED)
		return errno;
	table->head = base;
	table->slots = (struct stats_slot *)(table->head + 1);
	table->device = st.st_dev;
	table->inode = st.st_ino;
	return 0;
}

int stats_table_make(struct stats_table *table)
{
	int rc = 0;

	*table = (struct stats_table){.fd = -1};
	if (!limits_allow_file(LENGTH))
		return EFBIG;
	table->fd = memfd_create(STATS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
	if (table->fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		table->fd = memfd_create(STATS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (table->fd < 0)
		return errno;
	table->fd = descriptor_lift(table->fd);
	if (fchmod(table->fd, 0600) || ftruncate(table->fd, LENGTH) ||
	    fcntl(table->fd, F_ADD_SEALS, SEALS))
		rc = errno;
	if (!rc)
		rc = table_map(table, PROT_READ | PROT_WRITE);
	if (rc) {
		close(table->fd);
		table->fd = -1;
		return rc;
	}
	table->head->version = STATS_VERSION;
	table->head->head_size = sizeof(struct stats_head);
	table->head->slot_size = sizeof(struct stats_slot);
	table->head->slots = STATS_SLOTS;
	table->head->counters = STATS_COUNT;
	/* Last: a process that finds the table before does not take it for a table. */
	atomic_thread_fence(memory_order_release);
	table->head->magic = stats_magic;
	return 0;
}

void stats_table_where(const struct stats_table *table, char where[STATS_WHERE])
{
	snprintf(where, STATS_WHERE, "%ld/%d/%llu", (long)getpid(), table->fd,
		 (unsigned long long)table->inode);
}

/* Whether a process's descriptor may lead to a table of this user. */
static int judge_file(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 0077) || seals < 0 ||
	    (seals & SEALS) != SEALS)
		return ENOENT;
	return st.st_size < (off_t)sizeof(struct stats_head) ? EPROTO : 0;
}

/* What every version of the table begins with. */
struct front {
	uint64_t magic;
	uint32_t version, head_size, slot_size, slots, counters;
};

_Static_assert(offsetof(struct front, counters) == offsetof(struct stats_head, counters),
	       "it is the first part of the head");

/* Judges the head's first bytes, before anything else is looked at. The whole head is larger than a
 * thread's stack may be. */
static int judge_head(int fd)
{
	struct front front;
	struct stat st;

	if (pread(fd, &front, sizeof(front), 0) != (ssize_t)sizeof(front) ||
	    front.magic != stats_magic)
		return ENOENT;
	if (front.version != STATS_VERSION || front.head_size != sizeof(struct stats_head) ||
	    front.slot_size != sizeof(struct stats_slot) || front.slots != STATS_SLOTS ||
	    front.counters != STATS_COUNT)
		return EPROTO;
	return fstat(fd, &st) || st.st_size != LENGTH ? EPROTO : 0;
}

bool stats_link_is_memfd(int directory, const char *name)
{
	char target[sizeof(STATS_MEMFD_LINK)];
	ssize_t length = readlinkat(directory, name, target, sizeof(target));

	return length == (ssize_t)sizeof(target) - 1 &&
	       !memcmp(target, STATS_MEMFD_LINK, (size_t)length);
}

int stats_table_open(struct stats_table *table, int directory, const char *name, bool writes)
{
	int rc;

	*table = (struct stats_table){.fd = -1};
	if (!stats_link_is_memfd(directory, name))
		return ENOENT;
	table->fd = openat(directory, name, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (table->fd < 0)
		return errno;
	rc = judge_file(table->fd);
	if (!rc)
		rc = judge_head(table->fd);
	if (!rc)
		rc = table_map(table, writes ? PROT_READ | PROT_WRITE : PROT_READ);
	if (rc) {
		close(table->fd);
		table->fd = -1;
	}
	return rc;
}

int stats_table_join(struct stats_table *table, const char *where)
{
	unsigned long long inode;
	char path[64];
	long pid;
	int fd, rc;

	*table = (struct stats_table){.fd = -1};
	if (sscanf(where, "%ld/%d/%llu", &pid, &fd, &inode) != 3 || pid <= 0 || fd < 0)
		return ENOENT;
	snprintf(path, sizeof(path), "/proc/%ld/fd/%d", pid, fd);
	rc = stats_table_open(table, AT_FDCWD, path, true);
	if (rc)
		return rc;
	/* The number may be another process's by now. */
	if (table->inode != inode) {
		stats_table_close(table);
		return ENOENT;
	}
	table->fd = descriptor_lift(table->fd);
	return 0;
}

void stats_table_close(struct stats_table *table)
{
	if (table->head)
		munmap(table->head, LENGTH);
	descriptor_close(table->fd, table->device, table->inode);
	*table = (struct stats_table){.fd = -1};
}

/* --- slots ----------------------------------------------------------------------------------- */

static uint64_t load(const _Atomic uint64_t *value)
{
	return atomic_load_explicit(value, memory_order_relaxed);
}

static bool slot_counts(const struct stats_slot *slot)
{
	return load(&slot->opened_ns) != 0;
}

/* A dead process without a known end counts as ended when it was last seen. A server computes
 * nothing that could wait for bytes. */
static uint64_t slot_elapsed(const struct stats_slot *slot, bool lives)
{
	uint64_t opened = load(&slot->opened_ns), end = load(&slot->ended_ns);

	if (load(&slot->kind) == STATS_SERVER_KIND)
		return 0;
	if (!end)
		end = lives ? clock_now() : load(&slot->seen_ns);
	return opened && end > opened ? end - opened : 0;
}

static uint64_t slot_count(const struct stats_slot *slot, unsigned counter)
{
	return load(&slot->counters[counter].value) - load(&slot->base[counter]);
}

/* Returns what the kernel has read beyond lmdbio's requests. Some requested bytes were in memory,
 * so the kernel has read at least this by itself. The larger of the two counts is what storage was
 * asked for at least. */
static uint64_t slot_kernel_bytes(const struct stats_slot *slot)
{
	uint64_t since = load(&slot->kernel_since), read = load(&slot->kernel_read);
	uint64_t asked = slot_count(slot, STATS_STORAGE_BYTES);

	return since && read > since && read - since > asked ? read - since - asked : 0;
}

uint64_t stats_slot_value(const struct stats_slot *slot, unsigned counter)
{
	uint64_t kernel = counter == STATS_STORAGE_BYTES ? slot_kernel_bytes(slot) : 0;

	return slot_count(slot, counter) + kernel;
}

void stats_slot_look(struct stats_slot *slot, pid_t pid)
{
	uint64_t bytes;

	if (load(&slot->kernel_since) && disk_reads(pid, &bytes))
		atomic_store_explicit(&slot->kernel_read, bytes + 1, memory_order_relaxed);
}

/* Returns the time that the process could have waited: its age for each thread that did. Threads
 * that come and go may have waited for more than that. */
static uint64_t slot_of(const struct stats_slot *slot, uint64_t elapsed)
{
	uint64_t most = load(&slot->waiters_most), waited = stats_slot_value(slot, STATS_WAIT_NS);
	uint64_t of = elapsed * (most ? most : 1);

	if (!stats_slot_value(slot, STATS_WAITS))
		return 0;
	return of > waited ? of : waited;
}

unsigned stats_table_given(const struct stats_table *table)
{
	uint64_t used = load(&table->head->used);

	return used < STATS_SLOTS ? (unsigned)used : STATS_SLOTS;
}

/* Returns when the first process of a table opened an environment; 0: none has. */
static uint64_t table_opened(const struct stats_table *table)
{
	unsigned n = stats_table_given(table);
	uint64_t first = load(&table->head->opened_ns);

	for (unsigned i = 0; i < n; i++) {
		uint64_t opened = load(&table->slots[i].opened_ns);

		if (opened && (!first || opened < first))
			first = opened;
	}
	return first;
}

/* Closes the account of the slot's last process and begins one for the next. */
static void slot_renew(struct stats_table *table, struct stats_slot *slot)
{
	uint64_t elapsed = slot_elapsed(slot, false), none = 0;

	if (slot_counts(slot)) {
		/* Keeps the beginning of the table's time, which this slot alone may know. */
		(void)atomic_compare_exchange_strong(&table->head->opened_ns, &none,
						     table_opened(table));
		stats_spans_keep(table->head, slot);
		atomic_fetch_add(&slot->past_of_ns, slot_of(slot, elapsed));
		atomic_fetch_add(&slot->past_elapsed_ns, elapsed);
		atomic_fetch_add(&slot->past_kernel_bytes, slot_kernel_bytes(slot));
		atomic_fetch_add(&slot->past_processes, 1);
	}
	for (unsigned i = 0; i < STATS_COUNT; i++)
		slot->base[i] = load(&slot->counters[i].value);
	for (unsigned i = 0; i < STATS_SIZES; i++)
		slot->sizes_base[i] = load(&slot->sizes[i]);
	for (unsigned i = 0; i < STATS_SCALES * STATS_SPANS; i++)
		slot->spans[i / STATS_SPANS][i % STATS_SPANS] = 0;
	slot->kind = slot->opened_ns = slot->seen_ns = slot->ended_ns = slot->budget = 0;
	slot->kernel_since = slot->kernel_read = 0;
	slot->environments = slot->queue = slot->waiters = slot->waiters_most = 0;
}

/* Takes a slot that no process has had yet; NULL: there is none. */
static struct stats_slot *slot_new(struct stats_table *table, uint64_t owner)
{
	uint64_t used = atomic_load(&table->head->used);

	while (used < STATS_SLOTS) {
		uint64_t none = 0;

		if (!atomic_compare_exchange_weak(&table->head->used, &used, used + 1))
			continue;
		if (atomic_compare_exchange_strong(&table->slots[used].owner, &none, owner))
			return &table->slots[used];
		used++; /* slot_again() has taken it as a free slot */
	}
	return NULL;
}

/* Takes a slot without a living process among the next `tries`; NULL: there is none. */
static struct stats_slot *slot_again(struct stats_table *table, uint64_t owner, unsigned tries)
{
	unsigned used = stats_table_given(table);

	while (used && tries--) {
		uint64_t looked = atomic_fetch_add(&table->head->looked, 1), before;
		struct stats_slot *slot = &table->slots[looked % used];

		before = atomic_load(&slot->owner);
		if (before && stats_owner_lives(before))
			continue;
		if (!atomic_compare_exchange_strong(&slot->owner, &before, owner))
			continue;
		if (before)
			slot_renew(table, slot);
		return slot;
	}
	return NULL;
}

struct stats_slot *stats_table_take(struct stats_table *table, uint64_t owner)
{
	enum { TRIES = 16 }; /* each reads a line of /proc if the process lives */
	struct stats_slot *slot = NULL;

	if (stats_table_given(table) >= STATS_KEPT)
		slot = slot_again(table, owner, TRIES);
	if (!slot)
		slot = slot_new(table, owner);
	return slot ? slot : slot_again(table, owner, 2 * STATS_SLOTS);
}

/* --- sums ------------------------------------------------------------------------------------ */

void stats_sum_slot(const struct stats_slot *slot, bool lives, struct stats_sum *sum)
{
	uint64_t elapsed = slot_elapsed(slot, lives);

	for (unsigned i = 0; i < STATS_COUNT; i++)
		sum->counters[i] += stats_slot_value(slot, i);
	for (unsigned i = 0; i < STATS_SIZES; i++)
		sum->sizes[i] += load(&slot->sizes[i]) - load(&slot->sizes_base[i]);
	sum->processes += slot_counts(slot);
	sum->living += slot_counts(slot) && lives && !load(&slot->ended_ns);
	sum->elapsed_ns += elapsed;
	sum->of_ns += slot_of(slot, elapsed);
	stats_spans_sum(slot, sum);
}

void stats_sum_table(const struct stats_table *table, struct stats_sum *sum)
{
	unsigned n = stats_table_given(table);

	*sum = (struct stats_sum){.processes = 0};
	stats_spans_begin(sum, table_opened(table), clock_now());
	stats_spans_sum_kept(table->head, sum);
	for (unsigned i = 0; i < n; i++) {
		const struct stats_slot *slot = &table->slots[i];

		stats_sum_slot(slot, stats_owner_lives(load(&slot->owner)), sum);
		sum->processes += load(&slot->past_processes);
		sum->elapsed_ns += load(&slot->past_elapsed_ns);
		sum->of_ns += load(&slot->past_of_ns);
		sum->counters[STATS_STORAGE_BYTES] += load(&slot->past_kernel_bytes);
		for (unsigned counter = 0; counter < STATS_COUNT; counter++)
			sum->counters[counter] += load(&slot->base[counter]);
		for (unsigned size = 0; size < STATS_SIZES; size++)
			sum->sizes[size] += load(&slot->sizes_base[size]);
	}
}

void stats_table_look(const struct stats_table *table)
{
	unsigned n = stats_table_given(table);

	for (unsigned i = 0; i < n; i++) {
		struct stats_slot *slot = &table->slots[i];
		uint64_t owner = load(&slot->owner);

		if (!slot_counts(slot) || load(&slot->ended_ns) || !stats_owner_lives(owner))
			continue;
		atomic_store_explicit(&slot->seen_ns, clock_now(), memory_order_relaxed);
		stats_slot_look(slot, (pid_t)stats_owner_pid(owner));
	}
}
