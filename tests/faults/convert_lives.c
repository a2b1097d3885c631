/* SPDX-License-Identifier: OLDAP-2.8 */
/* The command lines of lmdbio-convert that are lives (command_lives.h). */
#include "config.h"
#include "command_lives.h"

#include "command_mains.h"
#include "library_calls.h"

#include "env_fixture.h"
#include "later_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { RECORDS = 150, LARGE_RECORDS = 20, FILES = 60 };

const struct command commands[] = {
	{"pack", .words = "-q -T2 --chunk-size=64k set pack.zst", .target = "pack.zst"},
	{"train", .words = "-q -T1 --chunk-size=64k --train-dictionary=4k --verify set train.zst",
	 .target = "train.zst"},
	{"dictionary", .words = "-q -D words --verify set words.zst", .target = "words.zst"},
	{"unpack", .words = "-q --to=lmdb whole.zst back.mdb", .target = "back.mdb"},
	{"unpack into a directory", .words = "-q -T2 --verify --to=lmdb whole.zst back",
	 .target = "back/data.mdb"},
	{"level", .words = "-q -6 whole.zst level.zst", .target = "level.zst"},
	{"relayout", .words = "-q -T2 --relayout --verify set relaid.zst", .target = "relaid.zst"},
	{"compact", .words = "-q --to=lmdb --relayout set compact.mdb", .target = "compact.mdb"},
	{"rewrite", .words = "-q --to=lmdb-0.9 later.mdb rewritten.mdb", .target = "rewritten.mdb"},
	{"rewrite a container", .words = "-q --to=lmdb-0.9 --verify later.zst unlater.mdb",
	 .target = "unlater.mdb"},
	{"tree", .words = "-q --verify tree tree.mdb", .target = "tree.mdb"},
	{"tree into a container", .words = "-q -T2 --to=container --json --progress tree tree.zst",
	 .target = "tree.zst"},
	{"tree into a container, with names only",
	 .words = "-q -T2 --to=container tree bare-tree.zst", .target = "bare-tree.zst",
	 .lacks = LACK_TMPFILE},
	{"relayout of large values",
	 .words = "-q -T2 --relayout --chunk-size=64k --verify large large.zst",
	 .target = "large.zst"},
	{"labels", .words = "-q --labels=labels tree labels.mdb", .target = "labels.mdb"},
	{"images", .words = "-q --from=caffe --root=tree labels images.mdb",
	 .target = "images.mdb"},
	{"verify", .words = "--verify set whole.zst"},
	{"resume", .before = "cp -p part .resume.zst.lmdbio-partial",
	 .words = "-q -T1 --chunk-size=64k --resume set resume.zst", .target = "resume.zst",
	 .after = "rm -f .resume.zst.lmdbio-partial"},
	{"resume an unpacking", .before = "cp -p half .resume.mdb.lmdbio-partial",
	 .words = "-q --resume --to=lmdb whole.zst resume.mdb", .target = "resume.mdb",
	 .after = "rm -f .resume.mdb.lmdbio-partial"},
	{"remove", .before = "cp -r set gone", .words = "-v --rm gone gone.zst",
	 .target = "gone.zst", .after = "rm -rf gone"},
	{"remove what was converted before", .before = "cp -r set gone; cp -p whole.zst there.zst",
	 .words = "-q --verify --rm gone there.zst", .after = "rm -rf gone there.zst"},
	{"a container in the place of a data file",
	 .before = "mkdir placed; cp whole.zst placed/data.mdb",
	 .words = "-q --to=lmdb placed placed.mdb", .target = "placed.mdb",
	 .after = "rm -rf placed"},
	{"a form that is another", .words = "-q --from=lmdb whole.zst bad", .refused = true},
	{"resume another import", .before = "cp -p half .again.mdb.lmdbio-partial",
	 .words = "-q --resume tree again.mdb", .target = "again.mdb",
	 .after = "rm -f .again.mdb.lmdbio-partial"},
	{"resume another rewriting", .before = "cp -p half .anew.mdb.lmdbio-partial",
	 .words = "-q --resume --to=lmdb-0.9 later.mdb anew.mdb", .target = "anew.mdb",
	 .after = "rm -f .anew.mdb.lmdbio-partial"},
	{"resume with other options", .before = "cp -p part .other.zst.lmdbio-partial",
	 .words = "-q --chunk-size=128k --resume set other.zst", .target = "other.zst",
	 .after = "rm -f .other.zst.lmdbio-partial"},
	{"begin anew", .before = "cp -p part .fresh.zst.lmdbio-partial",
	 .words = "-q set fresh.zst", .target = "fresh.zst",
	 .after = "rm -f .fresh.zst.lmdbio-partial"},
	{"named databases", .words = "-q --to=lmdb-0.9 --verify named.mdb unnamed.mdb",
	 .target = "unnamed.mdb"},
	{"a file of a directory", .words = "-q set/data.mdb file.zst", .target = "file.zst"},
	{"a file of this directory", .before = "cp set/data.mdb .", .words = "-q data.mdb here.zst",
	 .target = "here.zst", .after = "rm -f data.mdb"},
	{"a file by itself", .words = "-q -n set/data.mdb alone.zst", .target = "alone.zst",
	 .after = "rm -f set/data.mdb-lock"},
	{"by a symbolic link", .before = "mkdir there; ln -s there link",
	 .words = "-q set link/linked.zst", .target = "there/linked.zst",
	 .after = "rm -rf link there"},
	{"by a name in proc(5)", .words = "-q set /proc/self/cwd/working.zst",
	 .target = "working.zst"},
	{"over a data file", .before = "cp set/data.mdb used.mdb; touch used.mdb-lock",
	 .words = "-q -f --to=lmdb whole.zst used.mdb", .target = "used.mdb",
	 .after = "rm -f used.mdb-lock"},
	{"files with names only", .words = "-q -T1 --relayout --verify set bare.zst",
	 .target = "bare.zst", .lacks = LACK_TMPFILE},
	{"a file system that cannot keep what is there", .words = "-q -T1 set kept.zst",
	 .target = "kept.zst", .lacks = LACK_NOREPLACE},
	{"a file system without owners, modes and times", .words = "-q -T1 set bald.zst",
	 .target = "bald.zst", .lacks = LACK_ATTRIBUTES},
	{"rewrite what has an order of its own", .words = "-q --to=lmdb-0.9 own.mdb unowned.mdb",
	 .target = "unowned.mdb"},
	{"a directory that cannot be opened", .words = "-q --to=lmdb whole.zst bad",
	 .lacks = LACK_DIRECTORY, .refused = true},
	{"damage", .words = "-q --to=lmdb bad.zst bad", .refused = true},
	{"a file without a size", .words = "-q --outside --from=caffe sizeless bad",
	 .refused = true},
	{"no archive", .words = "-q --from=tar labels bad.mdb", .refused = true},
	{"overwrite", .before = "cp whole.zst over.zst; cp -p whole.zst over.mdb",
	 .words = "-q -f set over.zst", .after = "rm -f over.zst over.mdb"},
#ifdef HAVE_LIBARCHIVE
	{"tar", .words = "-q --verify tree.tar tar.mdb", .target = "tar.mdb"},
	{"list of archives", .words = "-q -o list.mdb @list", .target = "list.mdb"},
	{"webdataset", .words = "-q --from=webdataset tree.tar web.mdb", .target = "web.mdb"},
#endif
};
const unsigned commands_count = sizeof(commands) / sizeof(*commands);
const char command_leftovers_remove[] = "rm -f .*.lmdbio-partial */.*.lmdbio-partial "
					".lmdbio-scratch-*; rmdir bad 2>/dev/null || true";

static struct place place, named, large, own;

int command_main(int argc, char **argv)
{
	return convert_main(argc, argv);
}

static void file_write(const char *path, const void *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(bytes, 1, size, file) != size || fclose(file))
		abort();
}

/* A tree of files, each of which might be an image, and a list of them with a label each. */
static void tree_make(void)
{
	FILE *labels = fopen("labels", "w");
	uint8_t value[COMMAND_VALUE];
	char path[60];

	if (!labels || mkdir("tree", 0700) || mkdir("tree/some", 0700))
		abort();
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "tree/%s%u.jpg", i % 2 ? "some/" : "", i);
		file_write(path, value, command_value_make(value, i));
		fprintf(labels, "%s %u\n", path + sizeof("tree/") - 1, i % 7);
	}
	fclose(labels);
}

static int compare_backwards(const MDB_val *a, const MDB_val *b)
{
	return memcmp(b->mv_data, a->mv_data, 4);
}

/* A main database in a program's own order, with a name among its keys. */
static void own_make(void)
{
	MDB_env *orig = origin_open(&own);
	char keys[][5] = {"aaaa", "mmmm", "zzzz"}, text[] = "data";
	MDB_val key = {4, NULL}, data = {4, text};
	MDB_dbi dbi, inner;
	MDB_txn *txn;

	if (lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn) ||
	    lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi) ||
	    lmdbio_orig_mdb_set_compare(txn, dbi, compare_backwards) ||
	    lmdbio_orig_mdb_dbi_open(txn, "name", MDB_CREATE, &inner))
		abort();
	for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
		key.mv_data = keys[i];
		if (lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0))
			abort();
	}
	if (lmdbio_orig_mdb_txn_commit(txn))
		abort();
	lmdbio_orig_mdb_env_close(orig);
}

void command_files_make(void)
{
	static const struct command packs = {"pack", .words = "-q -T1 --chunk-size=64k set whole.zst"};
	static const struct command later = {"pack", .words = "-q later.mdb later.zst"};
	char command[700];
	MDB_env *orig;

	place_make(&place);
	place_put_records(&place, RECORDS, COMMAND_VALUE, command_value_make);
	snprintf(command, sizeof(command), "mkdir set && cp '%s' set/data.mdb && head -c 30000 '%s' >words", place.data,
		 place.data);
	command_shell(command);
	place_make(&large);
	place_put_records(&large, LARGE_RECORDS, COMMAND_LARGE_VALUE, command_large_make);
	snprintf(command, sizeof(command), "mkdir large && cp '%s' large/data.mdb", large.data);
	command_shell(command);
	place_make(&named);
	orig = origin_open(&named);
	origin_put_text(orig, "some", 0, "key", "value");
	origin_put_text(orig, "more", 0, "key", "another");
	lmdbio_orig_mdb_env_close(orig);
	place_make(&own);
	own_make();
	if (later_make(own.data, "own.mdb") || later_make(named.data, "named.mdb") ||
	    later_make(place.data, "later.mdb") || command_run(&packs) || command_run(&later))
		abort();
	tree_make();
	command_shell(
		"touch tree/empty.jpg; echo empty.jpg 4 >>labels; echo /proc/version 5 >sizeless");
	/* A tar with a hard link and a symbolic one, a container with damage in the middle. */
	command_shell("ln tree/0.jpg tree/twin.jpg; echo twin.jpg 3 >>labels; cp whole.zst bad.zst;"
		      "printf damage | dd of=bad.zst bs=1 seek=$(($(wc -c <whole.zst) / 2)) "
		      "conv=notrunc 2>/dev/null");
	command_shell(
		"ln -s 0.jpg tree/soft; tar cf tree.tar tree; rm tree/soft; echo tree.tar >list;"
		"head -c $(($(wc -c <whole.zst) * 2 / 5)) whole.zst >part; head -c 200000 "
		"set/data.mdb >half; chmod 600 part half");
}

void command_files_remove(void)
{
	place_remove(&place);
	place_remove(&named);
	place_remove(&large);
	place_remove(&own);
}
