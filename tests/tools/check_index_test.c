/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a record index which is whole in itself, but does not fit the
 * trees in its container, is found. */
#include "check_pages.h"
#include "db_make.h"
#include "tool_env.h"

#include "container_write.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEAVES_MAX = 4000, TREES_MAX = 4 };

/* How the index that is written differs from the trees. */
enum lie { NO_LIE, OTHER_PAGE, LEAF_LEFT_OUT, LEAF_TOO_MANY, RECORD_MOVED, TREE_LEFT_OUT };

struct leaf {
	uint64_t page, records;
};

struct listed {
	char name[64];
	uint16_t flags;
	struct leaf leaf[LEAVES_MAX];
	size_t leaves;
	uint64_t first; /* of the last leaf */
};

struct fixture {
	char directory[64];
	MDB_env *env;
	MDB_txn *txn;
	struct listed tree[TREES_MAX];
	size_t trees, now;
	struct walker walker;
};

/* --- the right index ------------------------------------------------------------------------ */

static void never(void *context, const char *label, struct walk_place where, const char *format,
		  va_list arguments)
{
	(void)context, (void)label, (void)where, (void)format, (void)arguments;
	fail_msg("a sound file is damaged");
}

static void on_leaf(void *context, uint64_t page, uint64_t first)
{
	struct fixture *fixture = context;
	struct listed *tree = &fixture->tree[fixture->now];

	assert_true(tree->leaves < LEAVES_MAX);
	if (tree->leaves)
		tree->leaf[tree->leaves - 1].records = first - tree->first;
	tree->first = first;
	tree->leaf[tree->leaves++].page = page;
}

static void list_tree(struct fixture *fixture, enum walk_kind kind, const MDB_val *name,
		      const struct tree_record *record)
{
	struct walk_tree tree = {.kind = kind, .label = "tree", .record = *record};
	size_t before = fixture->now;
	struct listed *listed;

	fixture->now = fixture->trees++;
	listed = &fixture->tree[fixture->now];
	memset(listed, 0, sizeof(*listed));
	memcpy(listed->name, name->mv_data, name->mv_size);
	listed->flags = record->flags;
	comparators_default(&tree.order, record->flags);
	walk_tree(&fixture->walker, &tree);
	assert_int_equal(fixture->walker.rc, 0);
	if (listed->leaves)
		listed->leaf[listed->leaves - 1].records = tree.counts.entries - listed->first;
	fixture->now = before;
}

static void on_database(void *context, const MDB_val *name, const struct tree_record *record,
			struct walk_place where)
{
	(void)where;
	list_tree(context, WALK_NAMED, name, record);
}

static int fixture_open(void **state)
{
	static struct fixture fixture;
	static struct db_plan plan;
	const MDB_val no_name = {0, fixture.directory};
	struct page_map used;
	const char *bad;

	db_plan_make(&plan, 1, 0);
	assert_int_equal(db_plan_restrict(&plan, "named,dupsort,keys300,dups900,rounds1", &bad), 0);
	strcpy(fixture.directory, "/tmp/lmdbio-check-index.XXXXXX");
	assert_non_null(mkdtemp(fixture.directory));
	assert_int_equal(db_make(&plan, fixture.directory), 0);
	assert_int_equal(tool_env_try(fixture.directory, MDB_NOLOCK, 0, &fixture.env), 0);
	assert_int_equal(txn_begin(fixture.env, NULL, MDB_RDONLY, &fixture.txn), 0);
	assert_int_equal(page_map_open(&used, fixture.txn->snapshot.view.limit), 0);
	fixture.walker = (struct walker){.snapshot = &fixture.txn->snapshot,
					 .used = &used,
					 .context = &fixture,
					 .damage = never,
					 .doubt = never,
					 .leaf = on_leaf,
					 .database = on_database};
	list_tree(&fixture, WALK_MAIN, &no_name, &fixture.txn->trees[DBI_MAIN].record);
	page_map_close(&used);
	assert_int_equal(fixture.trees, 2);
	assert_true(fixture.tree[1].leaves > 3);
	*state = &fixture;
	return 0;
}

static int fixture_close(void **state)
{
	struct fixture *fixture = *state;
	char path[128];

	txn_abort(fixture->txn);
	env_close(fixture->env);
	snprintf(path, sizeof(path), "%s/data.mdb", fixture->directory);
	unlink(path);
	return rmdir(fixture->directory);
}

/* --- a container with a lie in its index ----------------------------------------------------- */

static void write_index(struct container_writer *writer, const struct listed *tree, enum lie lie)
{
	size_t leaves = tree->leaves - (lie == LEAF_LEFT_OUT);
	uint64_t number;

	assert_int_equal(
		container_write_tree(writer, tree->name, strlen(tree->name), tree->flags, &number),
		0);
	for (size_t i = 0; i < leaves; i++) {
		uint64_t page = tree->leaf[i].page, records = tree->leaf[i].records;

		if (lie == OTHER_PAGE && i == 1)
			page = tree->leaf[0].page;
		if (lie == RECORD_MOVED && i == 1)
			records++;
		assert_int_equal(container_write_leaf(writer, number, page, records), 0);
	}
	if (lie == LEAF_TOO_MANY)
		assert_int_equal(container_write_leaf(writer, number, tree->leaf[0].page, 1), 0);
}

/* A container of the fixture's data file in a file without a name. */
static int contain_file(const struct fixture *fixture, enum lie lie)
{
	int fd = memfd_create("container", 0), source;
	struct container_write_options options = {.page_size = fixture->txn->snapshot.page_size};
	struct container_writer *writer;
	struct stat status;
	void *data;

	assert_true(fd >= 0);
	assert_int_equal(lmdbio_orig_mdb_env_get_fd(fixture->env->orig, &source), 0);
	assert_int_equal(fstat(source, &status), 0);
	options.size = (uint64_t)status.st_size;
	data = mmap(NULL, options.size, PROT_READ, MAP_PRIVATE, source, 0);
	assert_ptr_not_equal(data, MAP_FAILED);
	assert_int_equal(container_write_open(&writer, fd, &options), 0);
	assert_int_equal(container_write_bytes(writer, data, options.size), 0);
	for (size_t i = 0; i < fixture->trees - (lie == TREE_LEFT_OUT); i++)
		write_index(writer, &fixture->tree[i], i ? lie : NO_LIE);
	assert_int_equal(container_write_finish(writer), 0);
	container_write_close(writer);
	munmap(data, options.size);
	return fd;
}

/* How many findings of damage a check of the whole has. */
static uint64_t findings(struct fixture *fixture, enum lie lie)
{
	struct check_report report = {.quiet = true};
	struct check_pages pages = {.report = &report,
				    .snapshot = &fixture->txn->snapshot,
				    .free_tree = &fixture->txn->trees[DBI_FREE].record,
				    .main_tree = &fixture->txn->trees[DBI_MAIN].record,
				    .txnid = fixture->txn->id};
	int fd = contain_file(fixture, lie);
	struct io below, container;
	uint64_t bad;

	assert_int_equal(io_open_file(&below, "pread", fd), 0);
	assert_int_equal(io_open_container(&container, &below, NULL), 0);
	assert_int_equal(container_check_index(&container, &bad), 0);
	pages.container = &container;
	assert_int_equal(check_pages(&pages), 0);
	assert_int_equal(report.warnings, 0);
	io_close(&container);
	io_close(&below);
	close(fd);
	return report.damages;
}

static void index_that_fits_is_intact(void **state)
{
	assert_int_equal(findings(*state, NO_LIE), 0);
}

static void index_that_leads_to_another_page_is_found(void **state)
{
	assert_int_equal(findings(*state, OTHER_PAGE), 1);
}

static void index_that_lacks_the_last_leaf_is_found(void **state)
{
	assert_int_equal(findings(*state, LEAF_LEFT_OUT), 1);
}

static void index_of_a_leaf_too_many_is_found(void **state)
{
	assert_int_equal(findings(*state, LEAF_TOO_MANY), 1);
}

static void index_that_counts_wrong_is_found(void **state)
{
	assert_int_equal(findings(*state, RECORD_MOVED), 1);
}

static void index_that_lacks_a_database_is_intact(void **state)
{
	assert_int_equal(findings(*state, TREE_LEFT_OUT), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(index_that_fits_is_intact),
		cmocka_unit_test(index_that_leads_to_another_page_is_found),
		cmocka_unit_test(index_that_lacks_the_last_leaf_is_found),
		cmocka_unit_test(index_of_a_leaf_too_many_is_found),
		cmocka_unit_test(index_that_counts_wrong_is_found),
		cmocka_unit_test(index_that_lacks_a_database_is_intact),
	};

	return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
