/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads tars through libarchive, in a setup that cannot start a program.
 *
 * An archive's claims are not believed: before a member gets room, its size is compared with the
 * largest allowed value and with the bytes of the archive.
 */
#include "import_archive.h"
#include "import_records.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	ARCHIVE_BLOCK = 1 << 20,   /* bytes of one read */
	EXPANSION_FREE = 64 << 20, /* bytes that any archive may give, however small */
	MAGIC_MOST = 8,
};

/* The compressions that libarchive may have built in. Without one, libarchive would start the
 * program of that name, and returns ARCHIVE_WARN. */
static int (*const filters[])(struct archive *) = {
	archive_read_support_filter_gzip,     archive_read_support_filter_bzip2,
	archive_read_support_filter_compress, archive_read_support_filter_xz,
	archive_read_support_filter_lzma,     archive_read_support_filter_lzip,
	archive_read_support_filter_lz4,      archive_read_support_filter_zstd,
	archive_read_support_filter_lzop,
};

/* Compressions for which libarchive starts, or may start, a program, by the files' first bytes. */
static const struct {
	const char *magic, *program;
} by_program[] = {
	{"LRZI", "lrzip"},
	{"GRZipII", "grzip"},
	{"\x89LZO", "lzop"},
};

/* Returns a member's name. Names in a tar are bytes, or UTF-8 if the tar's format says so. */
static const char *plain_name(const char *utf8, const char *bytes)
{
	const char *name = utf8 ? utf8 : bytes;

	while (name && name[0] == '.' && name[1] == '/')
		for (name += 2; *name == '/';)
			name++;
	return name;
}

/* Returns the program without which libarchive cannot read an archive, or NULL. */
static const char *program_wanted(const char *path)
{
	char head[MAGIC_MOST] = {0};
	FILE *file = fopen(path, "re");

	if (file) {
		if (fread(head, 1, sizeof(head), file) < sizeof(head))
			head[0] = 0;
		fclose(file);
	}
	for (size_t i = 0; i < sizeof(by_program) / sizeof(*by_program); i++)
		if (!memcmp(head, by_program[i].magic, strlen(by_program[i].magic)))
			return by_program[i].program;
	return NULL;
}

static int archive_fail(const struct convert *convert, const char *path, struct archive *archive)
{
	const char *why = archive_error_string(archive);
	/* A pipe's first bytes are gone, and opening it again may wait for ever. */
	const char *program = convert->limits.piped ? NULL : program_wanted(path);

	if (program)
		return convert_refuse(path,
				      "it is compressed by %s, which this command does not "
				      "start: decompress it first",
				      program);
	return convert_refuse(path, "%s", why ? why : "not a tar archive that can be read");
}

int archive_charge(struct convert *convert, const char *path, const char *name, uint64_t size)
{
	struct convert_limits *limits = &convert->limits;
	char text[TOOL_SIZE_TEXT];

	limits->expanded += size;
	if (!limits->expansion || limits->expanded <= limits->may_expand)
		return 0;
	return convert_refuse(path,
			      "%s: the archive expands to more than %s, which are 64 MiB and %llu "
			      "times its size; --max-expansion=N allows N times, 0 any size",
			      name, tool_size_text(limits->may_expand, text),
			      (unsigned long long)limits->expansion);
}

/* Sets the limit for an archive of `size` bytes. */
static void archive_allow(struct convert_limits *limits, uint64_t size)
{
	if (__builtin_mul_overflow(size, limits->expansion, &limits->may_expand) ||
	    limits->may_expand > UINT64_MAX - EXPANSION_FREE)
		limits->may_expand = UINT64_MAX;
	else
		limits->may_expand += EXPANSION_FREE;
}

static void filters_allow(struct archive *archive)
{
	for (size_t i = 0; i < sizeof(filters) / sizeof(*filters); i++) {
		struct archive *probe = archive_read_new();

		if (probe && filters[i](probe) == ARCHIVE_OK)
			filters[i](archive);
		archive_read_free(probe);
	}
}

/* Counts the bytes of a member that came through a pipe. */
static int piece_charge(struct convert *convert, struct archive *archive,
			const struct archive_member *member, size_t size)
{
	archive_allow(&convert->limits, (uint64_t)archive_filter_bytes(archive, -1));
	return archive_charge(convert, member->archive, member->name, size);
}

static int member_read(struct convert *convert, struct archive *archive,
		       struct archive_entry *entry, struct archive_member *member)
{
	int64_t size = archive_entry_size(entry);
	bool piped = convert->limits.piped;
	bool ended = false;
	size_t done = 0;
	int rc = 0;

	if (size < 0 || (uint64_t)size > convert->limits.value)
		return import_too_large(convert, member->name, (uint64_t)size);
	if (!piped)
		rc = archive_charge(convert, member->archive, member->name, (uint64_t)size);
	if (rc)
		return rc;
	member->size = (size_t)size;
	member->value = malloc(member->size + 1);
	if (!member->value)
		return convert_fail(member->archive, ENOMEM);
	while (done < member->size) {
		size_t left = member->size - done;
		ssize_t n = archive_read_data(archive, (char *)member->value + done,
					      piped && left > ARCHIVE_BLOCK ? ARCHIVE_BLOCK : left);

		if (n > 0) {
			done += (size_t)n;
			rc = piped ? piece_charge(convert, archive, member, (size_t)n) : 0;
			if (!rc)
				continue;
		}
		/* In front of a hole at the end of a sparse file libarchive says once that it ends. */
		if (n == 0 && !ended) {
			ended = true;
			continue;
		}
		free(member->value);
		member->value = NULL;
		if (rc)
			return rc;
		if (n == 0)
			return convert_refuse(member->archive, "%s: cut off", member->name);
		return archive_fail(convert, member->archive, archive);
	}
	return 0;
}

/* The reading of one archive. */
struct walk {
	struct convert *convert;
	const char *path;
	struct archive *archive;
	void *skipped; /* a tree of tsearch(3): the names of members that were skipped */
	bool unended;  /* the archive ended without an end-of-archive block */
	int (*take)(void *to, struct archive_member *member);
	void *to;
};

static int compare_names(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Skips a member, and remembers its name for later hard links to it. */
static int member_skip(struct walk *walk, const char *name)
{
	char *copy;

	walk->convert->skipped++;
	if (!name || tfind(name, &walk->skipped, compare_names))
		return 0;
	copy = strdup(name);
	if (copy && tsearch(copy, &walk->skipped, compare_names))
		return 0;
	free(copy);
	return convert_fail(walk->path, ENOMEM);
}

/* Forgets a skipped name that a file has now. */
static void skipped_forget(struct walk *walk, const char *name)
{
	char **found = tfind(name, &walk->skipped, compare_names), *copy;

	if (!found)
		return;
	copy = *found;
	tdelete(name, &walk->skipped, compare_names);
	free(copy);
}

static int member_take(struct walk *walk, struct archive_entry *entry)
{
	struct archive_member member = {
		.archive = walk->path,
		.name = plain_name(archive_entry_pathname_utf8(entry),
				   archive_entry_pathname(entry)),
		.hardlink = plain_name(archive_entry_hardlink_utf8(entry),
				       archive_entry_hardlink(entry)),
	};
	int rc;

	if (!member.hardlink && archive_entry_filetype(entry) == AE_IFDIR)
		return 0;
	if (!member.name || !*member.name ||
	    (member.hardlink ? tfind(member.hardlink, &walk->skipped, compare_names) != NULL
			     : archive_entry_filetype(entry) != AE_IFREG))
		return member_skip(walk, member.name);
	skipped_forget(walk, member.name);
	if (!member.hardlink && (rc = member_read(walk->convert, walk->archive, entry, &member)))
		return rc;
	return walk->take(walk->to, &member);
}

/* Counts the bytes around the values as well: names and skipped members. */
static int archive_count(struct convert *convert, struct archive *archive, const char *path)
{
	uint64_t unpacked = (uint64_t)archive_filter_bytes(archive, 0);

	if (convert->limits.piped)
		archive_allow(&convert->limits, (uint64_t)archive_filter_bytes(archive, -1));
	if (unpacked > convert->limits.expanded)
		convert->limits.expanded = unpacked;
	return archive_charge(convert, path, "headers", 0);
}

static int archive_read_one(struct walk *walk)
{
	struct convert *convert = walk->convert;
	struct archive *archive = walk->archive = archive_read_new();
	const char *path = walk->path;
	struct archive_entry *entry;
	struct stat st;
	int rc = 0, got;

	if (!archive)
		return convert_fail(path, ENOMEM);
	/* libarchive's messages for a directory or a missing file are poor. */
	if (stat(path, &st) || S_ISDIR(st.st_mode)) {
		rc = convert_fail(path, S_ISDIR(st.st_mode) ? EISDIR : errno);
		goto fail;
	}
	convert->limits.expanded = 0;
	convert->limits.piped = !S_ISREG(st.st_mode);
	archive_allow(&convert->limits, (uint64_t)st.st_size);
	filters_allow(archive);
	archive_read_support_format_tar(archive);
	if (archive_read_open_filename(archive, path, ARCHIVE_BLOCK) != ARCHIVE_OK) {
		rc = archive_fail(convert, path, archive);
		goto fail;
	}
	while ((got = archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
	       got == ARCHIVE_WARN) {
		rc = convert_interrupted();
		if (!rc)
			rc = archive_count(convert, archive, path);
		if (!rc)
			rc = member_take(walk, entry);
		if (rc)
			goto fail;
	}
	if (got != ARCHIVE_EOF)
		rc = archive_fail(convert, path, archive);
	/* The last header that libarchive looked for began here, and has no bytes. */
	walk->unended = archive_filter_bytes(archive, 0) == archive_read_header_position(archive);
fail:
	tdestroy(walk->skipped, free);
	archive_read_free(archive);
	return rc;
}

/* Reports archives that may have been cut off between two members: tar(5) ends an archive by blocks
 * of zeros, but there are programs that do not write them. */
static void unended_tell(const char *first, size_t count)
{
	if (count == 1)
		convert_refuse(first, "it has no end-of-archive block, and may be cut off");
	else if (count)
		convert_refuse(first,
			       "it and %zu more archives have no end-of-archive block, and may be "
			       "cut off",
			       count - 1);
}

int archive_walk(struct convert *convert, int (*take)(void *to, struct archive_member *member),
		 void *to)
{
	const char *first = NULL;
	size_t unended = 0;
	int rc = 0;

	/* libarchive needs this locale for names beyond ASCII. */
	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < convert->source_count && !rc; i++) {
		struct walk walk = {
			.convert = convert, .path = convert->sources[i], .take = take, .to = to};

		rc = archive_read_one(&walk);
		if (!rc && walk.unended && !unended++)
			first = walk.path;
	}
	unended_tell(first, unended);
	return rc;
}
