/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what each mdb_* call returns while some bytes of the file cannot be read. Only calls that
 * need these bytes fail, with an errno and only as long as the fault lasts. There is never a signal
 * or a hang.
 *
 * Each case runs in a process of its own on a slowfs mount, whose control file sets the fault.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	HEAD = 16,         /* bytes of a page's header */
	FLAG_OVERFLOW = 4, /* in the 16-bit word at offset 10 of the header */
	CHUNK = 1 << 20,
	CASE_SECONDS = 300, /* more counts as a hang */
	POSITIONS_MAX = 512,
	OTHERS_MAX = 4, /* pages that belong neither to a leaf nor to a value */
	LEAVES_MAX = 6,
	PAGES_FEW = 80, /* in a file of at most this many pages all are tried */
};

struct record {
	uint64_t hash;
	uint64_t leaf;	       /* page number */
	uint64_t value, pages; /* overflow pages; 0: the value is in the leaf */
};

struct set {
	const char *mount, *name;
	char path[4096];
	struct record *records;
	uint64_t count, pages;
};

enum access { BY_CURSOR, BY_GET, ACCESSES };
static const char *const access_names[ACCESSES] = {"cursor", "get"};

struct fault_case {
	uint64_t page;
	const char *kind;
	bool once;
	enum access access;
};

static void control(const struct set *set, const char *line)
{
	char path[4200];
	int fd;

	snprintf(path, sizeof(path), "%s/.slowfs/control", set->mount);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line)) {
		perror(path);
		exit(2);
	}
	close(fd);
}

static uint64_t page_number(const void *in_page)
{
	uint64_t number;

	memcpy(&number, (const void *)((uintptr_t)in_page & ~(uintptr_t)(PAGE - 1)), 8);
	return number;
}

/* Learns a record's pages from the pointers that a healthy file gives. */
static void learn_record(struct record *record, const MDB_val *key, const MDB_val *value)
{
	const char *head = (const char *)value->mv_data - HEAD;
	uint16_t flags;

	*record =
		(struct record){.hash = stores_hash(key, value), .leaf = page_number(key->mv_data)};
	if (((uintptr_t)head & (PAGE - 1)) != 0)
		return;
	memcpy(&flags, head + 10, sizeof(flags));
	if (!(flags & FLAG_OVERFLOW))
		return;
	record->value = page_number(head);
	record->pages = (HEAD + value->mv_size + PAGE - 1) / PAGE;
}

/* Reads the set where it is not slow; the sum must equal the original's. */
static bool learn(struct set *set, const char *healthy, uint64_t expected)
{
	struct stores_sum sum = {0};
	struct stores_db db;
	MDB_val key, value;
	struct stat st;
	char file[4200];
	int rc;

	snprintf(file, sizeof(file), "%s/data.mdb", healthy);
	if (stat(file, &st) || stores_open(&db, healthy, MDB_NOLOCK) || stores_begin(&db))
		return false;
	set->pages = (uint64_t)st.st_size / PAGE;
	rc = mdb_cursor_get(db.cursor, &key, &value, MDB_FIRST);
	while (!rc && sum.records < set->count) {
		learn_record(&set->records[sum.records], &key, &value);
		stores_take(&sum, &key, &value);
		rc = mdb_cursor_get(db.cursor, &key, &value, MDB_NEXT);
	}
	stores_close(&db);
	return rc == MDB_NOTFOUND && sum.records == set->count && sum.hash == expected;
}

static bool is_value(const struct record *record, uint64_t page)
{
	return record->pages && page >= record->value && page < record->value + record->pages;
}

static bool is_hit(const struct record *record, uint64_t page)
{
	return record->leaf == page || is_value(record, page);
}

/* Whether the page belongs to a leaf or a value, so that the failing calls are known. */
static bool is_known(const struct set *set, uint64_t page)
{
	for (uint64_t i = 0; i < set->count; i++)
		if (is_hit(&set->records[i], page))
			return true;
	return false;
}

static int complain(const struct fault_case *fault, uint64_t record, const char *what, int rc)
{
	printf("NOT OK page %llu %s %s by %s: record %llu: %s (%d %s)\n",
	       (unsigned long long)fault->page, fault->kind, fault->once ? "once" : "for ever",
	       access_names[fault->access], (unsigned long long)record, what, rc, mdb_strerror(rc));
	fflush(stdout);
	return 1;
}

/* Reads the record by one call. *wrong: the call succeeded with wrong bytes. */
static int read_record(struct stores_db *db, const struct set *set, uint64_t i, enum access access,
		       bool go_on, bool *wrong)
{
	struct stores_key text;
	MDB_val key = stores_key(&text, i), value;
	int rc;

	if (access == BY_GET)
		rc = mdb_get(db->txn, db->dbi, &key, &value);
	else
		rc = mdb_cursor_get(db->cursor, &key, &value,
				    go_on ? MDB_NEXT
				    : i	  ? MDB_SET_KEY
					  : MDB_FIRST);
	*wrong = !rc && stores_hash(&key, &value) != set->records[i].hash;
	return rc;
}

/* Reads all records while the fault lasts; *errors counts the failed calls. */
static int read_faulty(struct stores_db *db, const struct set *set, const struct fault_case *fault,
		       bool known, unsigned *errors)
{
	bool go_on = false, wrong;

	for (uint64_t n = 0; n < set->count; n++) {
		uint64_t i = fault->access == BY_GET ? n * 7919 % set->count : n;
		int rc = read_record(db, set, i, fault->access, go_on && n > 0, &wrong);

		go_on = !rc;
		if (wrong)
			return complain(fault, i, "wrong bytes", rc);
		if (!rc)
			continue;
		(*errors)++;
		if (rc != EIO)
			return complain(fault, i, "not the errno of the read", rc);
		if (!fault->once && known && !is_hit(&set->records[i], fault->page))
			return complain(fault, i, "its bytes can be read", rc);
		if (!fault->once)
			continue;
		rc = read_record(db, set, i, fault->access, false, &wrong);
		if (rc || wrong)
			return complain(fault, i, "the second time", rc);
		go_on = true;
	}
	return 0;
}

static int run_case(const struct set *set, const struct fault_case *fault, bool known)
{
	char line[128];
	struct stores_db db;
	unsigned errors = 0;
	bool wrong;
	int rc;

	if (stores_open(&db, set->path, MDB_NORDAHEAD))
		return complain(fault, 0, "open", errno);
	rc = stores_begin(&db);
	if (rc)
		return complain(fault, 0, "begin", rc);
	snprintf(line, sizeof(line), "fail %s/data.mdb@%llu-%llu:%s%s", set->name,
		 (unsigned long long)fault->page * PAGE, (unsigned long long)fault->page * PAGE,
		 fault->kind, fault->once ? ":1" : "");
	control(set, "drop"); /* including what opening has read */
	control(set, line);
	rc = read_faulty(&db, set, fault, known, &errors);
	control(set, "clear");
	if (rc)
		return rc;
	if (known && !fault->once && !errors)
		return complain(fault, 0, "nothing failed", 0);
	for (uint64_t i = 0; i < set->count; i++) {
		rc = read_record(&db, set, i, fault->access, false, &wrong);
		if (rc || wrong)
			return complain(fault, i, wrong ? "wrong bytes afterwards" : "afterwards",
					rc);
	}
	stores_close(&db);
	return 0;
}

/* Returns 0, or 1 after a line that says what was wrong. */
static int run_apart(const struct set *set, const struct fault_case *fault)
{
	bool known = is_known(set, fault->page);
	int status;
	pid_t child;

	control(set, "clear");
	control(set, "drop");
	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(CASE_SECONDS);
		_exit(run_case(set, fault, known));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return complain(fault, 0, "fork", errno);
	control(set, "clear");
	if (WIFSIGNALED(status))
		return complain(fault, 0, strsignal(WTERMSIG(status)), 0);
	return WEXITSTATUS(status);
}

/* Opening reads the meta pages: it may fail, but must not end the program. */
static int run_open(const struct set *set, uint64_t page, const char *kind)
{
	struct fault_case fault = {.page = page, .kind = kind};
	char line[128];
	struct stores_db db;
	int status, rc;
	pid_t child;

	control(set, "clear");
	control(set, "drop");
	snprintf(line, sizeof(line), "fail %s/data.mdb@%llu-%llu:%s", set->name,
		 (unsigned long long)page * PAGE, (unsigned long long)page * PAGE, kind);
	control(set, line);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		alarm(CASE_SECONDS);
		rc = stores_open(&db, set->path, 0);
		_exit(rc == EIO ? 0 : complain(&fault, 0, "open", rc));
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return complain(&fault, 0, "fork", errno);
	control(set, "clear");
	if (WIFSIGNALED(status))
		return complain(&fault, 0, strsignal(WTERMSIG(status)), 0);
	return WEXITSTATUS(status);
}

/* Chooses all pages of a small file; else the ends and the middle of each chunk, some leaves, and
 * some pages that are neither leaves nor values. */
static unsigned choose_pages(const struct set *set, uint64_t *pages)
{
	unsigned n = 0, others = 0, leaves = 0;
	uint64_t leaf = 0, every = set->count / LEAVES_MAX + 1;

	if (set->pages <= PAGES_FEW) {
		for (uint64_t page = 2; page < set->pages; page++)
			pages[n++] = page;
		return n;
	}
	for (uint64_t at = 0; at < set->pages && n + 3 < POSITIONS_MAX / 2; at += CHUNK / PAGE) {
		pages[n++] = at < 2 ? 2 : at;
		if (at + CHUNK / PAGE / 2 < set->pages)
			pages[n++] = at + CHUNK / PAGE / 2;
		pages[n++] =
			at + CHUNK / PAGE - 1 < set->pages ? at + CHUNK / PAGE - 1 : set->pages - 1;
	}
	for (uint64_t i = 0; i < set->count && leaves < LEAVES_MAX; i += every)
		if (set->records[i].leaf != leaf) {
			pages[n++] = leaf = set->records[i].leaf;
			leaves++;
		}
	for (uint64_t page = 2; page < set->pages && others < OTHERS_MAX; page++)
		if (!is_known(set, page)) {
			pages[n++] = page;
			others++;
		}
	return n;
}

int main(int argc, char **argv)
{
	static const char *const kinds[] = {"eio", "short"};
	uint64_t pages[POSITIONS_MAX];
	unsigned failures = 0, cases = 0, n, every, first;
	struct set set = {0};

	if (argc != 8) {
		fprintf(stderr, "usage: stores_errors MOUNT SET HEALTHY-DIRECTORY RECORDS HASH EVERY FIRST\n"
				"Of the pages that are chosen each EVERYth fails, from the FIRSTth on.\n");
		return 2;
	}
	set.mount = argv[1];
	set.name = argv[2];
	snprintf(set.path, sizeof(set.path), "%s/%s", set.mount, set.name);
	set.count = strtoull(argv[4], NULL, 0);
	set.records = calloc(set.count, sizeof(*set.records));
	if (!set.records || !learn(&set, argv[3], strtoull(argv[5], NULL, 16))) {
		fprintf(stderr, "stores_errors: %s is not what it should be\n", argv[3]);
		return 2;
	}
	every = (unsigned)strtoul(argv[6], NULL, 0);
	first = (unsigned)strtoul(argv[7], NULL, 0);
	n = choose_pages(&set, pages);
	for (unsigned kind = 0; kind < 2; kind++) {
		for (uint64_t page = 0; page < 2; page++, cases++)
			failures += run_open(&set, page, kinds[kind]) != 0;
		for (unsigned i = first; i < n; i += every)
			for (unsigned how = 0; how < 4; how++, cases++) {
				struct fault_case fault = {
					.page = pages[i],
					.kind = kinds[kind],
					.once = how & 1,
					.access = how & 2 ? BY_GET : BY_CURSOR,
				};

				failures += run_apart(&set, &fault) != 0;
			}
	}
	free(set.records);
	printf("%u faults, %u wrong\n", cases, failures);
	return failures != 0;
}
