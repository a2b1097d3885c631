/* SPDX-License-Identifier: OLDAP-2.8 */
/* What users do with lmdbio-convert, a life each: the right target and success, or no target, no partial file, a
 * message and the status of a failure.
 *
 * Each command line is run once without a failure before; its target is what the others are compared with. */
#include "config.h"
#include "life.h"
#include "library_calls.h"

#include "convert_main.h"
#include "env_fixture.h"
#include "later_make.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 150, VALUE = 2500, LARGE_RECORDS = 20, LARGE_VALUE = 50000, FILES = 60, WORDS = 24, DAMAGED = 1, REFUSED = 2, LEFTOVERS = 8 };

/* A command line below the test's directory, and the target that it makes. */
struct command {
	const char *name, *before, *words, *target, *after;
	unsigned lacks; /* see calls_lack() */
	bool refused;	/* it fails, and leaves nothing */
};

static const struct command commands[] = {
	{"pack", .words = "-q -T2 --chunk-size=64k set pack.zst", .target = "pack.zst"},
	{"train", .words = "-q -T1 --chunk-size=64k --train-dictionary=4k --verify set train.zst",
	 .target = "train.zst"},
	{"dictionary", .words = "-q -D words --verify set words.zst", .target = "words.zst"},
	{"unpack", .words = "-q --to=lmdb whole.zst back.mdb", .target = "back.mdb"},
	{"unpack into a directory", .words = "-q -T2 --verify --to=lmdb whole.zst back", .target = "back/data.mdb"},
	{"level", .words = "-q -6 whole.zst level.zst", .target = "level.zst"},
	{"relayout", .words = "-q -T2 --relayout --verify set relaid.zst", .target = "relaid.zst"},
	{"compact", .words = "-q --to=lmdb --relayout set compact.mdb", .target = "compact.mdb"},
	{"rewrite", .words = "-q --to=lmdb-0.9 later.mdb rewritten.mdb", .target = "rewritten.mdb"},
	{"rewrite a container", .words = "-q --to=lmdb-0.9 --verify later.zst unlater.mdb", .target = "unlater.mdb"},
	{"tree", .words = "-q --verify tree tree.mdb", .target = "tree.mdb"},
	{"tree into a container", .words = "-q -T2 --to=container --json --progress tree tree.zst",
	 .target = "tree.zst"},
	{"tree into a container, with names only", .words = "-q -T2 --to=container tree bare-tree.zst",
	 .target = "bare-tree.zst", .lacks = LACK_TMPFILE},
	{"relayout of large values", .words = "-q -T2 --relayout --chunk-size=64k --verify large large.zst",
	 .target = "large.zst"},
	{"labels", .words = "-q --labels=labels tree labels.mdb", .target = "labels.mdb"},
	{"images", .words = "-q --from=caffe --root=tree labels images.mdb", .target = "images.mdb"},
	{"verify", .words = "--verify set whole.zst"},
	{"resume", .before = "cp -p part .resume.zst.lmdbio-partial",
	 .words = "-q -T1 --chunk-size=64k --resume set resume.zst", .target = "resume.zst",
	 .after = "rm -f .resume.zst.lmdbio-partial"},
	{"resume an unpacking", .before = "cp -p half .resume.mdb.lmdbio-partial",
	 .words = "-q --resume --to=lmdb whole.zst resume.mdb", .target = "resume.mdb",
	 .after = "rm -f .resume.mdb.lmdbio-partial"},
	{"remove", .before = "cp -r set gone", .words = "-v --rm gone gone.zst", .target = "gone.zst",
	 .after = "rm -rf gone"},
	{"resume another import", .before = "cp -p half .again.mdb.lmdbio-partial",
	 .words = "-q --resume tree again.mdb", .target = "again.mdb", .after = "rm -f .again.mdb.lmdbio-partial"},
	{"resume another rewriting", .before = "cp -p half .anew.mdb.lmdbio-partial",
	 .words = "-q --resume --to=lmdb-0.9 later.mdb anew.mdb", .target = "anew.mdb",
	 .after = "rm -f .anew.mdb.lmdbio-partial"},
	{"resume with other options", .before = "cp -p part .other.zst.lmdbio-partial",
	 .words = "-q --chunk-size=128k --resume set other.zst", .target = "other.zst",
	 .after = "rm -f .other.zst.lmdbio-partial"},
	{"begin anew", .before = "cp -p part .fresh.zst.lmdbio-partial", .words = "-q set fresh.zst",
	 .target = "fresh.zst", .after = "rm -f .fresh.zst.lmdbio-partial"},
	{"named databases", .words = "-q --to=lmdb-0.9 --verify named.mdb unnamed.mdb", .target = "unnamed.mdb"},
	{"a file of a directory", .words = "-q set/data.mdb file.zst", .target = "file.zst"},
	{"a file of this directory", .before = "cp set/data.mdb .", .words = "-q data.mdb here.zst",
	 .target = "here.zst", .after = "rm -f data.mdb"},
	{"a file by itself", .words = "-q -n set/data.mdb alone.zst", .target = "alone.zst"},
	{"by a symbolic link", .before = "mkdir there; ln -s there link", .words = "-q set link/linked.zst",
	 .target = "there/linked.zst", .after = "rm -rf link there"},
	{"by a name in proc(5)", .words = "-q set /proc/self/cwd/working.zst", .target = "working.zst"},
	{"over a data file", .before = "cp set/data.mdb used.mdb; touch used.mdb-lock",
	 .words = "-q -f --to=lmdb whole.zst used.mdb", .target = "used.mdb", .after = "rm -f used.mdb-lock"},
	{"files with names only", .words = "-q -T1 --relayout --verify set bare.zst", .target = "bare.zst",
	 .lacks = LACK_TMPFILE},
	{"damage", .words = "-q --to=lmdb bad.zst bad", .refused = true},
	{"no archive", .words = "-q --from=tar labels bad.mdb", .refused = true},
	{"overwrite", .before = "cp whole.zst over.zst; cp -p whole.zst over.mdb", .words = "-q -f set over.zst",
	 .after = "rm -f over.zst over.mdb"},
#ifdef HAVE_LIBARCHIVE
	{"tar", .words = "-q --verify tree.tar tar.mdb", .target = "tar.mdb"},
	{"list of archives", .words = "-q -o list.mdb @list", .target = "list.mdb"},
	{"webdataset", .words = "-q --from=webdataset tree.tar web.mdb", .target = "web.mdb"},
#endif
};
enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

static const struct command *current; /* of the life that was asked for last */
static struct place place, named, large;
static const char leftovers_remove[] = "rm -f .*.lmdbio-partial */.*.lmdbio-partial .lmdbio-scratch-*; rmdir bad 2>/dev/null || true";
static char scratch[200];
static unsigned entries; /* of the directory, before and after each command */
static bool is_clean;	 /* this process has removed what an attempt that has ended too soon has left */

static size_t value_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] = at % 3 ? i : (i * VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return VALUE - i % 50;
}

/* Of eight pages and more, so that some cross the borders of chunks. */
static size_t large_make(void *bytes, uint64_t i)
{
	for (size_t at = 0; at < LARGE_VALUE / sizeof(i); at++)
		((uint64_t *)bytes)[at] = i + at;
	return LARGE_VALUE - i * 1000;
}

static void shell(const char *command)
{
	if (command && system(command))
		abort();
}

/* In a child. */
static void become(const struct command *command)
{
	char name[] = "lmdbio-convert", words[300], *argv[WORDS] = {name}, *rest = words;
	int argc = 1;

	snprintf(words, sizeof(words), "%s", command->words);
	while ((argv[argc] = strsep(&rest, " ")))
		argc++;
	if (!freopen("said", "w", stderr) || !freopen("/dev/null", "w", stdout))
		_exit(NOT_AGAIN);
	calls_lack(command->lacks);
	exit(convert_main(argc, argv));
}

static int run(const struct command *command)
{
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (!child)
		become(command);
	if (child < 0 || waitpid(child, &status, 0) != child)
		abort();
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static unsigned entries_count(void)
{
	DIR *directory = opendir(".");
	unsigned n = 0;

	while (directory && readdir(directory))
		n++;
	closedir(directory);
	return n;
}

static char *file_read(const char *path, size_t *size)
{
	FILE *file = fopen(path, "r");
	char *bytes;

	if (!file)
		return NULL;
	fseek(file, 0, SEEK_END);
	*size = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*size + 1);
	if (!bytes || fread(bytes, 1, *size, file) != *size)
		abort();
	fclose(file);
	return bytes;
}

static void reference_name(const struct command *command, char name[300])
{
	snprintf(name, 300, "%s/references/%u", scratch, (unsigned)(command - commands));
}

static bool is_right(const struct command *command)
{
	size_t size = 0, found = 0;
	char name[300], *right, *there;
	bool equal;

	reference_name(command, name);
	right = file_read(name, &size);
	there = file_read(command->target, &found);
	equal = right && there && size == found && !memcmp(right, there, size);
	free(right);
	free(there);
	return equal;
}

/* What the command has said on standard error. */
static void said_show(void)
{
	size_t size = 0;
	char *text = file_read("said", &size);

	if (text)
		printf("%.*s", (int)size, text);
	free(text);
}

static void target_remove(const struct command *command)
{
	char directory[300], *slash;

	if (!command->target)
		return;
	unlink(command->target);
	snprintf(directory, sizeof(directory), "%s", command->target);
	slash = strrchr(directory, '/');
	if (slash) {
		*slash = 0;
		rmdir(directory);
	}
}

static bool is_refusal(int rc)
{
	return rc == DAMAGED || rc == REFUSED;
}

static void judge(const struct command *command, int rc)
{
	struct stat st;

	if (command->refused ? !is_refusal(rc) : rc && (lives_strict || rc != REFUSED)) {
		said_show();
		lives_end(WRONG_CODE, command->name, rc);
	}
	if (!rc && command->target && !is_right(command))
		lives_end(WRONG_BYTES, command->name, rc);
	/* What is there after a failure is whole all the same: its last calls may only make it durable. */
	if (rc && command->target && !stat(command->target, &st) && !is_right(command))
		lives_end(MISSING, command->name, rc);
	if (rc && (stat("said", &st) || !st.st_size))
		lives_end(LEFT, "no message", rc);
	lives_failed |= rc != 0;
}

static void command_live(const struct command *command)
{
	/* A name is removed only if it is known to be the file's. */
	bool removes = calls_failing() && (strstr(calls_failing(), "unlink") || strstr(calls_failing(), "fstat"));
	int rc;

	calls_spare(true);
	if (chdir(scratch) || chdir("work"))
		abort();
	if (!is_clean) {
		target_remove(command);
		shell(command->after);
		shell(leftovers_remove);
		is_clean = true;
	}
	shell(command->before);
	calls_spare(false);
	rc = run(command);
	calls_spare(true);
	judge(command, rc);
	target_remove(command);
	shell(command->after);
	/* A file that cannot be removed stays: a partial one, whose place the next attempt takes, or two of no name. */
	if (removes && entries_count() <= entries + LEFTOVERS)
		shell(leftovers_remove);
	if (entries_count() != entries) {
		said_show();
		shell("ls -la");
		lives_end(LEFT, command->name, (int)entries_count());
	}
	calls_spare(false);
}

static void live(void)
{
	command_live(current);
}

const struct life *lives_number(unsigned number)
{
	static struct life life;

	if (number >= COMMANDS)
		return NULL;
	current = &commands[number];
	life = (struct life){current->name, live};
	return &life;
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
	uint8_t value[VALUE];
	char path[60];

	if (!labels || mkdir("tree", 0700) || mkdir("tree/some", 0700))
		abort();
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "tree/%s%u.jpg", i % 2 ? "some/" : "", i);
		file_write(path, value, value_make(value, i));
		fprintf(labels, "%s %u\n", path + sizeof("tree/") - 1, i % 7);
	}
	fclose(labels);
}

static void reference_make(const struct command *command)
{
	char name[300];
	int rc;

	shell(command->before);
	rc = run(command);
	if (command->refused ? !is_refusal(rc) : rc) {
		printf("%s: it ends with %d\n", command->name, rc);
		said_show();
		exit(1);
	}
	reference_name(command, name);
	if (command->target && rename(command->target, name))
		abort();
	target_remove(command);
	shell(command->after);
}

void lives_begin(void)
{
	static const struct command packs = {"pack", .words = "-q -T1 --chunk-size=64k set whole.zst"};
	static const struct command later = {"pack", .words = "-q later.mdb later.zst"};
	const char *base = getenv("TMPDIR");
	char command[700];
	MDB_env *orig;

	snprintf(scratch, sizeof(scratch), "%.150s/lmdbio-convert.XXXXXX", base && *base ? base : "/tmp");
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	if (!mkdtemp(scratch) || chdir(scratch) || mkdir("work", 0700) || mkdir("references", 0700) || chdir("work"))
		abort();
	snprintf(command, sizeof(command), "mkdir set && cp '%s' set/data.mdb && head -c 30000 '%s' >words", place.data,
		 place.data);
	shell(command);
	setenv("TMPDIR", scratch, 1);
	place_make(&large);
	place_put_records(&large, LARGE_RECORDS, LARGE_VALUE, large_make);
	snprintf(command, sizeof(command), "mkdir large && cp '%s' large/data.mdb", large.data);
	shell(command);
	place_make(&named);
	orig = origin_open(&named);
	origin_put_text(orig, "some", 0, "key", "value");
	origin_put_text(orig, "more", 0, "key", "another");
	lmdbio_orig_mdb_env_close(orig);
	if (later_make(named.data, "named.mdb") || later_make(place.data, "later.mdb") || run(&packs) || run(&later))
		abort();
	tree_make();
	/* A tar with a hard link, a container with damage in the middle. */
	shell("ln tree/0.jpg tree/twin.jpg; echo twin.jpg 3 >>labels; cp whole.zst bad.zst;"
	      "printf damage | dd of=bad.zst bs=1 seek=$(($(wc -c <whole.zst) / 2)) conv=notrunc 2>/dev/null");
	shell("tar cf tree.tar tree; echo tree.tar >list; touch said;"
	      "head -c $(($(wc -c <whole.zst) * 2 / 5)) whole.zst >part; head -c 200000 set/data.mdb >half; chmod 600 part half");
	for (unsigned i = 0; i < COMMANDS; i++)
		reference_make(&commands[i]);
	entries = entries_count();
}

void lives_over(void)
{
	char command[300];

	if (chdir("/"))
		abort();
	snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	shell(command);
	place_remove(&place);
	place_remove(&named);
	place_remove(&large);
}
