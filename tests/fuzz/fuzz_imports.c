/* SPDX-License-Identifier: OLDAP-2.8 */
/* Feeds label lists, lists of images and tars to the imports of lmdbio-convert, and checks that
 * what would become a record keeps the limits. The checksums of a tar's headers are made right. The
 * first byte chooses the kind of input; the imports' records are not kept. */
#include "fuzz_driver.h"
#include "import_labels.h"
#include "import_sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LABELS, IMAGES, TAR, LABELLED_TAR, WEBDATASET, KINDS, BLOCK = 512, VALUE_MOST = 1 << 16, EXPANSION = 100 };

const struct fuzz_weight fuzz_weight = {.stride = BLOCK, .front = 160, .mutations = 3000};

static void require(bool truth, const char *rule)
{
	if (truth)
		return;
	fprintf(stderr, "broken rule: %s\n", rule);
	abort();
}

/* --- functions that imports call; these stand-ins report and keep nothing --------------------- */

int convert_fail(const char *path, int rc)
{
	(void)path;
	require(rc != 0, "a failure has a reason");
	return TOOL_FAILED;
}

int convert_refuse(const char *path, const char *format, ...)
{
	return path && format ? TOOL_FAILED : TOOL_FAILED;
}

int convert_interrupted(void)
{
	return 0;
}

const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT])
{
	snprintf(text, TOOL_SIZE_TEXT, "%llu", (unsigned long long)bytes);
	return text;
}

int import_put(struct import *import, const struct import_record *record)
{
	struct convert *convert = (struct convert *)import;

	require(!record->value != !record->path, "a record has a value or a file");
	require(record->path || record->size <= convert->limits.value, "a value is within its limit");
	require(convert->limits.expanded <= convert->limits.may_expand || record->path ||
			convert->from == FORM_IMAGES,
		"an archive gives no more than it may");
	require(memchr(record->key, 0, record->key_size) == NULL, "a key is text");
	for (uint64_t i = 0; record->value && i < record->size; i++)
		((volatile uint8_t *)record->value)[i] ^= 0;
	free(record->value);
	return 0;
}

int import_get(struct import *import, const char *key, size_t key_size, void **value, size_t *size)
{
	(void)import;
	*size = key_size;
	*value = key_size % 2 ? malloc(key_size) : NULL;
	if (*value)
		memcpy(*value, key, key_size);
	return 0;
}

int import_too_large(const struct convert *convert, const char *name, uint64_t size)
{
	(void)name;
	require(size > convert->limits.value, "a value that is too large is");
	return TOOL_FAILED;
}

/* ------------------------------------------------------------------------------------------------------ */

static int file_of(const uint8_t *bytes, size_t size, char path[40])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	require(fd >= 0 && write(fd, bytes, size) == (ssize_t)size, "a file in memory can be made");
	snprintf(path, 40, "/proc/self/fd/%d", fd);
	return fd;
}

/* A header's checksum: the sum of its bytes, with blanks in the checksum's own place. */
static void seal(uint8_t *block)
{
	unsigned sum = 0;

	memset(block + 148, ' ', 8);
	for (unsigned i = 0; i < BLOCK; i++)
		sum += block[i];
	snprintf((char *)block + 148, 7, "%06o", sum);
}

static void seal_all(uint8_t *bytes, size_t size)
{
	for (; size >= BLOCK; bytes += BLOCK, size -= BLOCK)
		if (!memcmp(bytes + 257, "ustar", 5))
			seal(bytes);
}

static void feed_labels(const char *path)
{
	static const char *const wanted[] = {"a/b.jpg", "", "c d.png", "n01/x"};
	struct labels *labels;
	int32_t number;

	if (labels_open(&labels, path))
		return;
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		const char *label = labels_find(labels, wanted[i]);

		require(!label || !strpbrk(label, " \t"), "a label has no blanks");
		(void)(label && label_number(label, &number));
	}
	(void)labels_unused(labels);
	labels_close(labels);
}

static void feed_import(unsigned kind, const char *path)
{
	const char *const sources[] = {path};
	struct convert convert = {
		.from = kind == IMAGES ? FORM_IMAGES : FORM_TAR,
		.sources = sources,
		.source_count = 1,
		.threads = 1,
		.root = "/proc/self",
		.caffe = kind == IMAGES,
		.limits = {.value = VALUE_MOST, .expansion = EXPANSION},
	};
	struct import *import = (struct import *)&convert;
	static const char list[] = "a/b.jpg 3\nshort x\n";
	struct labels *labels = NULL;
	char name[40];
	int fd;

	if (kind == IMAGES) {
		(void)import_images(import, &convert);
	} else if (kind == WEBDATASET) {
		(void)import_webdataset(import, &convert);
	} else if (kind == TAR) {
		(void)import_tar(import, &convert, NULL);
	} else {
		fd = file_of((const uint8_t *)list, sizeof(list) - 1, name);
		require(!labels_open(&labels, name), "a sound list of labels opens");
		(void)import_tar(import, &convert, labels);
		(void)close(fd);
	}
	labels_close(labels);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned kind = size ? data[0] % KINDS : 0;
	uint8_t *bytes;
	char path[40];
	int fd;

	if (!size)
		return 0;
	bytes = malloc(size);
	if (!bytes)
		abort();
	memcpy(bytes, data + 1, size - 1);
	if (kind >= TAR)
		seal_all(bytes, size - 1);
	fd = file_of(bytes, size - 1, path);
	if (kind == LABELS)
		feed_labels(path);
	else
		feed_import(kind, path);
	(void)close(fd);
	free(bytes);
	return 0;
}

/* A member of a tar: its header and, of a file, its bytes. */
static size_t member(uint8_t *at, const char *name, char type, const char *value)
{
	size_t size = strlen(value);

	snprintf((char *)at, 100, "%s", name);
	snprintf((char *)at + 100, 8, "%07o", 0644);
	snprintf((char *)at + 124, 12, "%011o", (unsigned)size);
	at[156] = (uint8_t)type;
	if (type == '1' || type == '2')
		snprintf((char *)at + 157, 100, "%s", value);
	memcpy(at + 257, "ustar\00000", 8);
	if (type == '1' || type == '2') {
		memset(at + 124, '0', 11);
		size = 0;
	}
	memcpy(at + BLOCK, value, size);
	seal(at);
	return BLOCK + (size + BLOCK - 1) / BLOCK * BLOCK;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const char *const lists[] = {"a/b.jpg 3\nc d.png\t-7\r\n\nn01/x 4", "a 1\na 2\n", "one\n", "x 99999999999\n"};
	unsigned kind = number % KINDS, variant = number / KINDS;
	uint8_t *bytes = calloc(1, 20 * BLOCK), *at = bytes + 1;

	if (!bytes || variant >= 4) {
		free(bytes);
		return NULL;
	}
	bytes[0] = (uint8_t)kind;
	if (kind < TAR) {
		*size = 1 + strlen(lists[variant]);
		memcpy(at, lists[variant], *size - 1);
		return bytes;
	}
	if (variant == 1)
		at += member(at, "PaxHeader", 'x', "30 path=a/longer/name/b.jpg\n22 GNU.sparse.size=9\n");
	if (variant == 2)
		at += member(at, "././@LongLink", 'L', "a/name/that/is/as/long/as/one/likes.cls");
	at += member(at, "a/b.jpg", '0', "the bytes of an image");
	at += member(at, "a/b.cls", '0', "3");
	at += member(at, variant == 3 ? "../c.jpg" : "dir/", variant == 3 ? '0' : '5', "");
	at += member(at, "short", '1', "a/b.jpg");
	at += member(at, "link", '2', "a/b.jpg");
	*size = (size_t)(at - bytes) + 2 * BLOCK;
	return bytes;
}
