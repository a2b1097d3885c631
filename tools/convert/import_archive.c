/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: libarchive. */
#include "import_archive.h"
#include "import_records.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ARCHIVE_BLOCK = 1 << 20 /* bytes of one read */ };

/* Names in a tar are bytes, or UTF-8 where its format says so. */
static const char *plain_name(const char *utf8, const char *bytes)
{
	const char *name = utf8 ? utf8 : bytes;

	while (name && name[0] == '.' && name[1] == '/')
		for (name += 2; *name == '/';)
			name++;
	return name;
}

static int archive_fail(const char *path, struct archive *archive)
{
	const char *why = archive_error_string(archive);

	return convert_refuse(path, "%s", why ? why : "not a tar archive that can be read");
}

static int member_read(struct archive *archive, struct archive_entry *entry,
		       struct archive_member *member)
{
	int64_t size = archive_entry_size(entry);
	size_t done = 0;

	if (size < 0 || (uint64_t)size > IMPORT_VALUE_MOST)
		return convert_refuse(member->archive, "%s: more than 2 GiB, which no value may be",
				      member->name);
	member->size = (size_t)size;
	member->value = malloc(member->size + 1);
	if (!member->value)
		return convert_fail(member->archive, ENOMEM);
	while (done < member->size) {
		ssize_t n = archive_read_data(archive, (char *)member->value + done,
					      member->size - done);

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		free(member->value);
		member->value = NULL;
		if (n == 0)
			return convert_refuse(member->archive, "%s: cut off", member->name);
		return archive_fail(member->archive, archive);
	}
	return 0;
}

static int member_take(struct convert *convert, struct archive *archive,
		       struct archive_entry *entry, const char *path,
		       int (*take)(void *to, struct archive_member *member), void *to)
{
	struct archive_member member = {
		.archive = path,
		.name = plain_name(archive_entry_pathname_utf8(entry),
				   archive_entry_pathname(entry)),
		.hardlink = plain_name(archive_entry_hardlink_utf8(entry),
				       archive_entry_hardlink(entry)),
	};
	int rc;

	if (!member.name || !*member.name ||
	    (!member.hardlink && archive_entry_filetype(entry) != AE_IFREG)) {
		if (archive_entry_filetype(entry) != AE_IFDIR)
			convert->skipped++;
		return 0;
	}
	if (!member.hardlink && (rc = member_read(archive, entry, &member)))
		return rc;
	return take(to, &member);
}

static int archive_read_one(struct convert *convert, const char *path,
			    int (*take)(void *to, struct archive_member *member), void *to)
{
	struct archive *archive = archive_read_new();
	struct archive_entry *entry;
	struct stat st;
	int rc = 0, got;

	if (!archive)
		return convert_fail(path, ENOMEM);
	/* What libarchive says of a directory or a missing file is poor. */
	if (stat(path, &st) || S_ISDIR(st.st_mode)) {
		rc = convert_fail(path, S_ISDIR(st.st_mode) ? EISDIR : errno);
		goto fail;
	}
	archive_read_support_filter_all(archive);
	archive_read_support_format_tar(archive);
	if (archive_read_open_filename(archive, path, ARCHIVE_BLOCK) != ARCHIVE_OK) {
		rc = archive_fail(path, archive);
		goto fail;
	}
	while ((got = archive_read_next_header(archive, &entry)) == ARCHIVE_OK ||
	       got == ARCHIVE_WARN) {
		rc = convert_interrupted();
		if (!rc)
			rc = member_take(convert, archive, entry, path, take, to);
		if (rc)
			goto fail;
	}
	if (got != ARCHIVE_EOF)
		rc = archive_fail(path, archive);
fail:
	archive_read_free(archive);
	return rc;
}

int archive_walk(struct convert *convert, int (*take)(void *to, struct archive_member *member),
		 void *to)
{
	int rc = 0;

	/* Without it libarchive has no form for a name beyond ASCII. */
	setlocale(LC_CTYPE, "C.UTF-8");
	for (size_t i = 0; i < convert->source_count && !rc; i++)
		rc = archive_read_one(convert, convert->sources[i], take, to);
	return rc;
}
