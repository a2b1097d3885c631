/* SPDX-License-Identifier: OLDAP-2.8 */
/* The command lines of lmdbio-check, lmdbio-dump and lmdbio-stat that are lives (command_lives.h). */
#include "config.h"
#include "command_lives.h"

#include "command_mains.h"

#include "container_write.h"
#include "env_fixture.h"
#include "later_make.h"

#include "container/container.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECORDS = 150, DUPLICATES = 3000, DAMAGED_FROM = 12 /* page */ };

const struct command commands[] = {
	{"check", .words = "check set", .target = "out", .prints = true},
	{"check all that is told", .words = "check -v named", .target = "out", .prints = true},
	{"check as an object", .words = "check --json named/data.mdb", .target = "out",
	 .prints = true},
	{"check without a lock", .words = "check --no-lock set", .target = "out", .prints = true},
	{"check a container", .words = "check -v whole.zst", .target = "out", .prints = true},
	{"check a container as an object", .words = "check --json whole.zst", .target = "out",
	 .prints = true},
	{"check a file of LMDB 1.0", .words = "check later.mdb", .target = "out", .prints = true},
	{"check checksums", .words = "check --checksum=fnv1a -v summed.mdb", .target = "out",
	 .prints = true},
	{"check damage", .words = "check bad.mdb", .target = "out", .prints = true},
	{"check damage as an object", .words = "check --json bad.mdb", .target = "out",
	 .prints = true},
	{"check a damaged container", .words = "check bad.zst", .target = "out", .prints = true},
	{"check a file that is cut off", .words = "check cut.mdb", .target = "out", .prints = true},
	{"check a text", .words = "check text", .target = "out", .refused = true, .prints = true},
	{"check nothing", .words = "check nothing", .target = "out", .refused = true,
	 .prints = true},
	{"dump", .words = "dump set", .target = "out", .prints = true},
	{"dump all", .words = "dump -a named", .target = "out", .prints = true},
	{"dump a database", .words = "dump -p -s many named/data.mdb", .target = "out",
	 .prints = true},
	{"dump names", .words = "dump -l named", .target = "out", .prints = true},
	{"dump a container", .words = "dump whole.zst", .target = "out", .prints = true},
	{"dump a file of LMDB 1.0", .words = "dump later.mdb", .target = "out", .prints = true},
	{"dump to a file", .words = "dump -f made set", .target = "made"},
	{"dump over a file", .before = "echo old >made", .words = "dump -f made set",
	 .after = "rm -f made"},
	{"dump by a symbolic link", .before = "mkdir there; ln -s there link",
	 .words = "dump -f link/made set", .target = "there/made", .after = "rm -rf link there"},
	{"dump over a file of two names", .before = "echo old >made; ln made same",
	 .words = "dump -f made set", .after = "rm -f made same"},
	{"dump by a name in proc(5)", .words = "dump -f /proc/self/cwd/made set", .target = "made"},
	{"dump a broken file", .words = "dump -f made -a bad.mdb", .refused = true},
	{"dump a broken file over one of two names", .before = "echo old >made; ln made same",
	 .words = "dump -f made -a bad.mdb", .after = "rm -f made same", .refused = true},
	{"salvage", .words = "dump --salvage -a bad.mdb", .target = "out", .prints = true},
	{"salvage to a file", .before = "true", .words = "dump --salvage -f made set",
	 .target = "made"},
	{"salvage names", .words = "dump --salvage -l named", .target = "out", .prints = true},
	{"dump nothing", .words = "dump nothing", .refused = true},
	{"dump no database", .words = "dump -s nothing named", .refused = true},
	{"stat", .words = "stat set", .target = "out", .prints = true},
	{"stat of all", .words = "stat -aefff named", .target = "out", .prints = true},
	{"stat of a database", .words = "stat -s many --records --sizes named", .target = "out",
	 .prints = true},
	{"stat of readers", .words = "stat -rr set", .target = "out", .prints = true},
	{"stat that tells all", .words = "stat --all-info set/data.mdb", .target = "out",
	 .prints = true},
	{"stat as an object", .words = "stat --json --all-info -r named", .target = "out",
	 .prints = true},
	{"stat of a container", .words = "stat --all-info whole.zst", .target = "out",
	 .prints = true},
	{"stat of chunks", .words = "stat --chunks whole.zst", .target = "out", .prints = true},
	{"stat of a container as an object", .words = "stat --json whole.zst", .target = "out",
	 .prints = true},
	{"stat of LMDB 1.0", .words = "stat -ae later.mdb", .target = "out", .prints = true},
	{"stat of damage", .words = "stat --layout -a bad.mdb", .target = "out", .prints = true},
	{"stat of a file by itself", .words = "stat -n set/data.mdb", .target = "out",
	 .prints = true},
	{"stat of nothing", .words = "stat nothing", .refused = true},
	{"stat of no database", .words = "stat -s nothing named", .refused = true},
};
const unsigned commands_count = sizeof(commands) / sizeof(*commands);
const char command_leftovers_remove[] =
	"rm -f .*.lmdbio-partial made same out there/.*.lmdbio-partial";

static struct place place, named;

/* The first word says which command. */
int command_main(int argc, char **argv)
{
	if (!strcmp(argv[1], "check"))
		return check_main(argc - 1, argv + 1);
	if (!strcmp(argv[1], "dump"))
		return dump_main(argc - 1, argv + 1);
	return stat_main(argc - 1, argv + 1);
}

static void container_make(const char *from, const char *path)
{
	struct container_write_options options = {
		.page_size = 4096, .chunk_size = 64 << 10, .level = 1};
	int data = open(from, O_RDONLY | O_CLOEXEC),
	    to = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct container_writer *writer;
	uint8_t *bytes;

	options.size = (uint64_t)lseek(data, 0, SEEK_END);
	bytes = calloc(1, options.size);
	if (!bytes || pread(data, bytes, options.size, 0) != (ssize_t)options.size)
		abort();
	options.source.size = options.size;
	container_source_hash(bytes, 2 * (size_t)options.page_size, options.source.hash);
	if (container_write_open(&writer, to, &options) ||
	    container_write_bytes(writer, bytes, options.size) || container_write_finish(writer))
		abort();
	container_write_close(writer);
	free(bytes);
	close(data);
	close(to);
}

static char third_of(unsigned i)
{
	return (char)('a' + i * 3 / DUPLICATES);
}

/* Named databases, one of them with duplicates, and pages that are free. */
static void named_make(void)
{
	MDB_env *orig = origin_open(&named);

	origin_put_text(orig, "some", 0, "key", "value");
	origin_put_duplicates(orig, "many", DUPLICATES, third_of);
	origin_put_text(orig, "more", 0, "key", "another");
	lmdbio_orig_mdb_env_close(orig);
}

void command_files_make(void)
{
	char command[900];

	place_make(&place);
	place_put_records(&place, RECORDS, COMMAND_VALUE, command_value_make);
	place_make(&named);
	named_make();
	snprintf(command, sizeof(command),
		 "mkdir set named && cp '%s' set/data.mdb && cp '%s' named/data.mdb", place.data,
		 named.data);
	command_shell(command);
	if (later_make(place.data, "later.mdb") ||
	    later_make_as(place.data, "summed.mdb", (struct later_how){.sums = true}))
		abort();
	container_make("set/data.mdb", "whole.zst");
	snprintf(command, sizeof(command),
		 "cp whole.zst bad.zst; printf damage | dd of=bad.zst bs=1 seek=$(($(wc -c "
		 "<whole.zst) / 2)) conv=notrunc "
		 "2>/dev/null; cp named/data.mdb bad.mdb; dd if=/dev/zero of=bad.mdb bs=4096 "
		 "seek=%u count=2 conv=notrunc "
		 "2>/dev/null; head -c 300000 set/data.mdb >cut.mdb; echo This is no data file. "
		 ">text",
		 DAMAGED_FROM);
	command_shell(command);
	/* The lock files, which the commands make, are there before. */
	command_shell("touch set/lock.mdb named/lock.mdb later.mdb-lock summed.mdb-lock "
		      "bad.mdb-lock cut.mdb-lock whole.zst-lock");
}

void command_files_remove(void)
{
	place_remove(&place);
	place_remove(&named);
}
