/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements lmdbio-convert's command line. */
#include "convert.h"
#include "convert_dictionary.h"
#include "convert_job.h"
#include "convert_run.h"
#include "convert_source.h"
#include "convert_summary.h"
#include "convert_words.h"
#include "import_labels.h"
#include "import_records.h"
#include "launcher.h"
#include "tool_env.h"

#include "config.h"
#include "origin/origin.h"
#include "util/checked.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	KEY_LEVEL = TOOL_LONG_ONLY,
	KEY_ULTRA,
	KEY_FAST,
	KEY_LONG,
	KEY_RM,
	KEY_CHUNK_SIZE,
	KEY_TRAIN,
	KEY_TO,
	KEY_FROM,
	KEY_RELAYOUT,
	KEY_VERIFY,
	KEY_RESUME,
	KEY_KEEP_PARTIAL,
	KEY_LABELS,
	KEY_ROOT,
	KEY_CAFFE,
	KEY_OUTSIDE,
	KEY_MAX_VALUE,
	KEY_MAX_EXPANSION,
	KEY_PROGRESS,
	KEY_NO_PROGRESS,
	KEY_JSON,
};

enum {
	FAST_MOST = 131072,
	LONG_LEAST = 10,
	LONG_MOST = 31,
	LONG_DEFAULT = 27,
	THREADS_MOST = 200,
	VALUE_DEFAULT = 256 << 20,
	EXPANSION = 100
};

static const struct tool_option options[] = {
	{KEY_LEVEL, "level", "N", "the compression level, 1 to 19, as -1 to -19 too (3)"},
	{KEY_ULTRA, "ultra", NULL, "allow levels up to 22"},
	{KEY_FAST, "fast", "[N]", "a level below 1: the higher N, the faster (1)"},
	{KEY_LONG, "long", "[N]", "long-distance matching, in a window of a chunk at most"},
	{KEY_CHUNK_SIZE, "chunk-size", "SIZE",
	 "how much data is compressed by itself: a power of "
	 "two from 64k to 64M (1M)"},
	{'D', NULL, "FILE", "compress with this dictionary"},
	{KEY_TRAIN, "train-dictionary", "[SIZE]",
	 "train a dictionary on the source and use it "
	 "(110K)"},
	{'T', "threads", "N", "how many threads work; 0 is as many as there are cores (0)"},
	{KEY_TO, "to", "container|lmdb|lmdb-0.9", "the form of the target; lmdb-0.9 even if the source is LMDB 1.0's"},
	{KEY_FROM, "from", "lmdb|container|tree|tar|webdataset|caffe",
	 "the form of the source, where its bytes do not tell"},
	{KEY_RELAYOUT, "relayout", NULL, "lay pages in key order, each value within one chunk"},
	{KEY_VERIFY, "verify", NULL,
	 "read everything back, check all checksums, compare with the "
	 "source; a target that exists is only verified"},
	{'n', "no-subdir", NULL, "source and target are files, not directories with a data.mdb"},
	{KEY_CAFFE, "caffe", NULL, "make values Caffe's Datums"},
	{KEY_LABELS, "labels", "FILE", "a file with a line for each file's path and label"},
	{KEY_ROOT, "root", "DIR", "the directory where the paths of an image list begin"},
	{KEY_OUTSIDE, "outside", NULL,
	 "import files that lie outside of the tree or list's directory, by a link, an absolute "
	 "path or .."},
	{KEY_MAX_VALUE, "max-value", "SIZE",
	 "the largest value that an import takes, up to 2 GiB (256M)"},
	{KEY_MAX_EXPANSION, "max-expansion", "N",
	 "how many times its size an archive may expand to, beyond 64 MiB; 0: without limit "
	 "(100)"},
	{'o', NULL, "FILE", "the target; then all operands are sources"},
	{'f', "force", NULL, "overwrite the target"},
	{'k', "keep", NULL, "keep the source (the default)"},
	{KEY_RM, "rm", NULL, "remove the source when the target is on the disk and verified"},
	{KEY_RESUME, "resume", NULL,
	 "continue what an interrupted run has left; implies --keep-partial"},
	{KEY_KEEP_PARTIAL, "keep-partial", NULL,
	 "leave the partial file of a run that fails, for --resume"},
	{KEY_PROGRESS, "progress", "[SECONDS]",
	 "show progress, in a log every so many seconds (30)"},
	{KEY_NO_PROGRESS, "no-progress", NULL, "show no progress"},
	{KEY_JSON, "json", NULL, "print a summary as one JSON object"},
	{'q', "quiet", NULL, "print nothing but errors"},
	{'v', "verbose", NULL, "say more"},
	{0},
};

const struct tool convert_tool = {
	.name = "lmdbio-convert",
	.synopsis = "[OPTION]... SOURCE TARGET\n[OPTION]... -o TARGET SOURCE...",
	.purpose = "Convert an LMDB data set into a compressed and checked container, and back; or "
		   "make either of them from files, tar archives or a list of images.",
	.options = options,
	.closing =
		"Sizes may end in K, M, G or T (steps of 1024) or KB, MB, GB, TB (steps of 1000).\n"
		"Exit status: 0 done; 1 damage or a difference was found; 2 it could not be done, "
		"or wrong usage; 130 interrupted.",
};

static const char *const form_names[] = {
	[FORM_AUTO] = "auto",    [FORM_LMDB] = "lmdb", [FORM_CONTAINER] = "container",
	[FORM_TREE] = "tree",    [FORM_TAR] = "tar",   [FORM_WEBDATASET] = "webdataset",
	[FORM_IMAGES] = "caffe",
};

const char *convert_form_name(enum convert_form form)
{
	return form_names[form];
}

int convert_fail(const char *path, int rc)
{
	tool_read_failed(&convert_tool, path, rc);
	return TOOL_FAILED;
}

int convert_refuse(const char *path, const char *format, ...)
{
	char text[2 * PATH_MAX]; /* the fault follows the path that it is of */
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	tool_complain(&convert_tool, "%s: %s", path, text);
	return TOOL_FAILED;
}

int convert_interrupted(void)
{
	return tool_signal ? tool_signal_status() : 0;
}

/* ---- words of the command line ---- */

static unsigned cores(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

/* Parses a form up to `last`; `wanted` lists the forms for the user. */
static bool form_parse(const char *option, const char *text, enum convert_form last,
		       const char *wanted, enum convert_form *form)
{
	for (size_t i = FORM_LMDB; i <= last; i++) {
		if (strcmp(text, form_names[i]))
			continue;
		*form = (enum convert_form)i;
		return true;
	}
	tool_usage_error(&convert_tool, "%s wants %s, not '%s'", option, wanted, text);
	return false;
}

struct parsing {
	struct convert *convert;
	bool ultra, threads_given;
	const char *output; /* -o */
};

static bool level_parse(struct parsing *parsing, int key, const char *text)
{
	uint64_t number = key == KEY_FAST ? 1 : LONG_DEFAULT;

	switch (key) {
	case KEY_LEVEL:
		if (!tool_number_parse(&convert_tool, "--level", text, 0, CONVERT_LEVEL_ULTRA,
				       &number))
			return false;
		parsing->convert->level = number ? (int)number : CONVERT_LEVEL;
		return true;
	case KEY_FAST:
		if (text &&
		    !tool_number_parse(&convert_tool, "--fast", text, 1, FAST_MOST, &number))
			return false;
		parsing->convert->level = -(int)number;
		return true;
	default:
		if (text && !tool_number_parse(&convert_tool, "--long", text, LONG_LEAST, LONG_MOST,
					       &number))
			return false;
		parsing->convert->window_log = (unsigned)number;
		return true;
	}
}

/* Parses options with a number, a size or a word of a set. */
static bool value_parse(struct parsing *parsing, int key, const char *text)
{
	struct convert *convert = parsing->convert;
	uint64_t number = 0;

	switch (key) {
	case 'T':
		if (!tool_number_parse(&convert_tool, "--threads", text, 0, THREADS_MOST, &number))
			return false;
		convert->threads = number ? (unsigned)number : cores();
		parsing->threads_given = number != 0;
		return true;
	case KEY_CHUNK_SIZE:
		if (!tool_size_parse(&convert_tool, "--chunk-size", text, &convert->chunk_size))
			return false;
		if (is_power_of_two(convert->chunk_size) &&
		    convert->chunk_size >= CONTAINER_CHUNK_MIN &&
		    convert->chunk_size <= CONTAINER_CHUNK_MAX)
			return true;
		tool_usage_error(&convert_tool,
				 "--chunk-size wants a power of two from 64k to 64M, not '%s'",
				 text);
		return false;
	case KEY_TRAIN:
		convert->train_size = DICTIONARY_DEFAULT;
		if (text && !tool_size_parse(&convert_tool, "--train-dictionary", text,
					     &convert->train_size))
			return false;
		if (convert->train_size >= 1024 && convert->train_size <= CONTAINER_DICTIONARY_MAX)
			return true;
		tool_usage_error(&convert_tool, "--train-dictionary wants 1K to %dK, not '%s'",
				 CONTAINER_DICTIONARY_MAX >> 10, text);
		return false;
	case KEY_MAX_VALUE:
		if (!tool_size_parse(&convert_tool, "--max-value", text, &convert->limits.value))
			return false;
		/* 2 GiB are one byte more than LMDB holds. */
		if (convert->limits.value == IMPORT_VALUE_MOST + 1)
			convert->limits.value--;
		if (convert->limits.value && convert->limits.value <= IMPORT_VALUE_MOST)
			return true;
		tool_usage_error(&convert_tool, "--max-value wants a size up to 2G, not '%s'",
				 text);
		return false;
	case KEY_MAX_EXPANSION:
		return tool_number_parse(&convert_tool, "--max-expansion", text, 0, UINT32_MAX,
					 &convert->limits.expansion);
	case KEY_TO:
		convert->rewrite = !strcmp(text, "lmdb-0.9");
		return form_parse("--to", convert->rewrite ? form_names[FORM_LMDB] : text,
				  FORM_CONTAINER, "container, lmdb or lmdb-0.9", &convert->to);
	case KEY_FROM:
		return form_parse("--from", text, FORM_IMAGES,
				  "lmdb, container, tree, tar, webdataset or caffe",
				  &convert->from);
	case KEY_PROGRESS:
		convert->progress.mode = PROGRESS_ALWAYS;
		if (text &&
		    !tool_number_parse(&convert_tool, "--progress", text, 1, 86400, &number))
			return false;
		convert->progress.seconds = (unsigned)number;
		return true;
	default:
		return level_parse(parsing, key, text);
	}
}

static bool option_take(struct parsing *parsing, int key)
{
	struct convert *convert = parsing->convert;

	switch (key) {
	case '?':
		fprintf(stderr, "Try 'lmdbio-convert --help' for more information.\n");
		return false;
	case KEY_ULTRA:
		parsing->ultra = true;
		break;
	case 'D':
		convert->dictionary = optarg;
		break;
	case KEY_RELAYOUT:
		convert->relayout = true;
		break;
	case KEY_VERIFY:
		convert->verify = true;
		break;
	case 'n':
		convert->no_subdir = true;
		break;
	case KEY_CAFFE:
		convert->caffe = true;
		break;
	case KEY_OUTSIDE:
		convert->limits.outside = true;
		break;
	case KEY_LABELS:
		convert->labels = optarg;
		break;
	case KEY_ROOT:
		convert->root = optarg;
		break;
	case 'o':
		parsing->output = optarg;
		break;
	case 'f':
		convert->force = true;
		break;
	case 'k':
		convert->remove = false;
		break;
	case KEY_RM:
		convert->remove = true;
		break;
	case KEY_RESUME:
		convert->resume = true;
		break;
	case KEY_KEEP_PARTIAL:
		convert->keep_partial = true;
		break;
	case KEY_NO_PROGRESS:
		convert->progress.mode = PROGRESS_NEVER;
		break;
	case KEY_JSON:
		convert->json = true;
		break;
	case 'q':
		convert->verbose = 0;
		break;
	case 'v':
		convert->verbose = 2;
		break;
	default:
		return value_parse(parsing, key, optarg);
	}
	return true;
}

/* ---- the words together ---- */

/* Returns whether a name is "-", for other commands standard input or output. A target cannot be
 * standard output: it is written out of order. */
static bool is_standard(const char *name)
{
	return !strcmp(name, "-");
}

static int source_add(struct convert *convert, const char *name)
{
	const char **sources;

	if (is_standard(name))
		return tool_usage_error(&convert_tool,
					"a source has a name: that of standard input is "
					"/dev/stdin, of a file that is called - it is ./-");
	sources = realloc((void *)(uintptr_t)convert->sources,
			  (convert->source_count + 1) * sizeof(*sources));
	if (!sources)
		return convert_fail(name, ENOMEM);
	convert->sources = sources;
	sources[convert->source_count] = strdup(name);
	return sources[convert->source_count++] ? 0 : convert_fail(name, ENOMEM);
}

/* Adds a source, or for "@LIST" the names in the file LIST, one a line. */
static int sources_add(struct convert *convert, const char *word)
{
	FILE *list;
	char *line = NULL;
	size_t room = 0;
	bool more;
	int rc = 0;

	if (*word != '@')
		return source_add(convert, word);
	list = fopen(++word, "re");
	if (!list)
		return convert_fail(word, errno);
	while (!rc && !(rc = list_next(list, word, &line, &room, &more)) && more) {
		line[strcspn(line, "\r\n")] = 0;
		if (*line)
			rc = source_add(convert, line);
	}
	free(line);
	fclose(list);
	return rc;
}

static int operands_take(struct parsing *parsing, int argc, char **argv)
{
	struct convert *convert = parsing->convert;
	int sources = argc - optind - (parsing->output ? 0 : 1), rc = 0;

	if (sources < 1)
		return tool_usage_error(&convert_tool,
					argc == optind ? "no SOURCE is given" : "no TARGET is given");
	convert->target = parsing->output ? parsing->output : argv[argc - 1];
	if (is_standard(convert->target))
		return tool_usage_error(&convert_tool,
					"a target is a file, not standard output: name one "
					"(./- if it is called so)");
	for (int i = 0; i < sources && !rc; i++)
		rc = sources_add(convert, argv[optind + i]);
	if (!rc && !convert->source_count)
		return tool_usage_error(&convert_tool, "no SOURCE is given");
	return rc;
}

static bool target_looks_like(const struct convert *convert, const char *end)
{
	size_t a = strlen(convert->target), b = strlen(end);

	return a > b && !strcmp(convert->target + a - b, end);
}

/* Returns whether a directory is empty, or has only the lock file of an environment whose data file
 * is missing. That is more likely a mistake than a tree of files. */
static bool holds_nothing(const char *path)
{
	static const char *const passed[] = {".", "..", "lock.mdb", "data.mdb-lock"};
	struct dirent *entry;
	DIR *directory = opendir(path);
	unsigned n = 0;

	for (errno = 0; directory && (entry = readdir(directory)); n++)
		for (size_t i = 0; i < sizeof(passed) / sizeof(*passed); i++)
			n -= !strcmp(entry->d_name, passed[i]);
	n += errno != 0; /* unreadable: the import reports why */
	if (directory)
		closedir(directory);
	return directory && !n;
}

/* Reports in one line which file is to blame. */
static int source_refuse(const struct convert *convert, int rc, const char *advice)
{
	unsigned flags = convert->no_subdir ? MDB_NOSUBDIR : 0;
	char *line = tool_env_explain(convert->sources[0], flags, rc);

	tool_complain(&convert_tool, "%s%s", line ? line : convert->sources[0], advice);
	free(line);
	return TOOL_FAILED;
}

static int forms_decide(struct convert *convert)
{
	bool import;
	int rc;

	if (convert->from == FORM_AUTO) {
		if (access(convert->sources[0], R_OK))
			return source_refuse(convert, errno, "");
		if (holds_nothing(convert->sources[0]))
			return source_refuse(convert, ENOENT, "; --from=tree imports it as it is");
		convert->from = source_form(convert->sources[0], convert->no_subdir);
		if (convert->from == FORM_AUTO)
			return source_refuse(convert, MDB_INVALID,
					     "; --from names it if it is an archive or a list");
	}
	import = convert->from != FORM_LMDB && convert->from != FORM_CONTAINER;
	rc = import ? 0
		    : tool_env_judge(convert->sources[0], convert->no_subdir ? MDB_NOSUBDIR : 0);
	if (rc)
		return source_refuse(convert, rc, "");
	if (source_is_other(convert->sources[0], convert->from, convert->no_subdir))
		return convert_refuse(convert->sources[0], "this is %s: leave --from=%s out",
				      convert->from == FORM_LMDB ? "a container" : "no container",
				      form_names[convert->from]);
	if (convert->to == FORM_AUTO)
		convert->to = target_looks_like(convert, ".zst")   ? FORM_CONTAINER
			      : target_looks_like(convert, ".mdb") ? FORM_LMDB
			      : import                             ? FORM_LMDB
								   : FORM_CONTAINER;
	if (convert->from == FORM_IMAGES)
		convert->caffe = true;
	convert->rewrite = convert->rewrite && !import; /* an import makes LMDB 0.9's format
							   anyway */
	return 0;
}

static int options_judge(const struct parsing *parsing)
{
	const struct convert *convert = parsing->convert;
	enum convert_form from = convert->from;
	bool files = from == FORM_TREE || from == FORM_TAR;

	if (convert->level > CONVERT_LEVEL_MOST && !parsing->ultra)
		return tool_usage_error(&convert_tool, "level %d needs --ultra", convert->level);
	if (convert->dictionary && convert->train_size)
		return tool_usage_error(&convert_tool,
					"-D and --train-dictionary exclude each other");
	if (convert->source_count > 1 && from != FORM_TAR && from != FORM_WEBDATASET)
		return tool_usage_error(&convert_tool, "only tar archives may be several sources");
	if (convert->labels && !files)
		return tool_usage_error(&convert_tool,
					"--labels is for directory trees and tar archives");
	if (convert->caffe && !files && from != FORM_IMAGES)
		return tool_usage_error(
			&convert_tool,
			"--caffe is for directory trees, tar archives and image lists");
	if (convert->root && from != FORM_IMAGES)
		return tool_usage_error(&convert_tool, "--root is for image lists");
	if (convert->rewrite && convert->relayout)
		return tool_usage_error(&convert_tool, "--to=lmdb-0.9 needs no --relayout");
	if (convert->remove && from != FORM_LMDB && from != FORM_CONTAINER)
		return tool_usage_error(&convert_tool,
					"--rm removes LMDB files and containers alone");
	return 0;
}

/* Runs the conversion and reports it. Returns the exit status. */
static int work(struct convert *convert)
{
	struct convert_result result;
	int rc;

	if (!convert->verbose && convert->progress.mode == PROGRESS_AUTO)
		convert->progress.mode = PROGRESS_NEVER;
	tool_signals_catch();
	rc = convert_run(convert, &result);
	if (!job_leads(convert)) {
		free(result.path);
		return rc;
	}
	if (tool_signal && rc == tool_signal_status())
		tool_complain(&convert_tool, "interrupted");
	else if (convert->verbose && (result.written || result.verified))
		summary_tell(convert, &result);
	if (convert->json) {
		summary_json(convert, &result, rc);
		rc = tool_output_end(&convert_tool, rc);
	}
	free(result.path);
	return rc;
}

static int parse(struct parsing *parsing, int argc, char **argv)
{
	int key, rc;

	while ((key = tool_option_next(&convert_tool, argc, argv)) != -1)
		if (!option_take(parsing, key))
			return TOOL_FAILED;
	rc = operands_take(parsing, argc, argv);
	if (!rc)
		rc = forms_decide(parsing->convert);
	return rc ? rc : options_judge(parsing);
}

int main(int argc, char **argv)
{
	struct convert convert = {.level = CONVERT_LEVEL,
				  .verbose = 1,
				  .threads = cores(),
				  .limits = {.value = VALUE_DEFAULT, .expansion = EXPANSION}};
	struct parsing parsing = {.convert = &convert};
	int rc;

	argc = words_split(argc, argv, &argv);
	rc = argc < 0 ? convert_fail("the command line", ENOMEM) : parse(&parsing, argc, argv);
	if (rc)
		launcher_greet(); /* the other ranks would wait for this one */
	else
		rc = job_begin(&convert, parsing.threads_given);
	if (!rc)
		rc = job_end(&convert, work(&convert));
	for (size_t i = 0; i < convert.source_count; i++)
		free((void *)(uintptr_t)convert.sources[i]);
	free((void *)(uintptr_t)convert.sources);
	return rc;
}
