/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compares two data sets, and reports the first difference. */
#include "convert_verify.h"
#include "convert_chunks.h"
#include "convert_job.h"
#include "convert_relayout.h"
#include "convert_unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { TOLD_MOST = 8, /* places to name; the rest is counted */ };

struct verify {
	struct convert *convert;
	struct source *source;
	struct source back; /* the written data */
	uint32_t chunk;
	_Atomic uint64_t bad;         /* chunks */
	_Atomic bool moved;           /* a writer to the source may have made a difference */
	struct source_stream *stream; /* relaid: of `back` */
	uint8_t *buffer;
	uint64_t at; /* bytes compared */
};

static void tell(struct verify *verify, const char *what, uint64_t offset)
{
	if (atomic_fetch_add(&verify->bad, 1) >= TOLD_MOST)
		return;
	progress_clear(&verify->convert->progress);
	convert_refuse(verify->back.file, "%s at byte %llu of the data", what,
		       (unsigned long long)offset);
}

static size_t first_difference(const uint8_t *a, const uint8_t *b, size_t length)
{
	size_t i = 0;

	while (i < length && a[i] == b[i])
		i++;
	return i;
}

/* Checks that the pages that a container's index copies are the same in the data. */
static int copies_verify(struct verify *verify, const uint8_t *back, size_t length, uint64_t offset)
{
	uint64_t page;
	int rc;

	if (verify->back.form != FORM_CONTAINER)
		return 0;
	rc = container_check_copies(&verify->back.io, back, length, offset, &page);
	if (rc == MDB_CORRUPTED)
		tell(verify, "its index has a copy that is not like the page",
		     page * verify->back.page_size);
	else if (rc)
		return convert_fail(verify->back.file, rc);
	return 0;
}

static int chunk_verify(void *to, uint8_t *buffers, uint64_t offset, size_t length)
{
	struct verify *verify = to;
	uint8_t *back = buffers + verify->chunk;
	int rc = source_read(&verify->back, back, verify->chunk, offset);

	if (rc == EBADMSG || rc == EIO) {
		tell(verify, rc == EIO ? "it cannot be read" : "damaged", offset);
	} else if (rc) {
		return convert_fail(verify->back.file, rc);
	} else {
		rc = source_read(verify->source, buffers, verify->chunk, offset);
		if (rc)
			return source_fail(verify->source, offset, rc);
		if (!memcmp(buffers, back, length))
			rc = 0;
		else if (!source_is_unchanged(verify->source))
			atomic_store(&verify->moved, true);
		else
			tell(verify, "it differs from its source",
			     offset + first_difference(buffers, back, length));
		rc = copies_verify(verify, back, length, offset);
		if (rc)
			return rc;
	}
	progress_count(&verify->convert->progress, length, 0);
	return 0;
}

static int verify_chunks(struct verify *verify)
{
	struct chunk_work work = {
		.size = verify->source->size,
		.buffers = 2,
		.work = chunk_verify,
		.to = verify,
	};

	verify->chunk = unpack_chunk(&verify->back);
	if (unpack_chunk(verify->source) > verify->chunk)
		verify->chunk = unpack_chunk(verify->source);
	work.chunk = verify->chunk;
	if (verify->back.size != verify->source->size) {
		if (!job_leads(verify->convert))
			return 0;
		tell(verify, "it has another length than its source",
		     verify->back.size < verify->source->size ? verify->back.size
							      : verify->source->size);
		return 0;
	}
	return chunks_run(verify->convert, &work);
}

static int relaid_begin(void *to, uint64_t size)
{
	struct verify *verify = to;

	if (size == verify->back.size)
		return 0;
	tell(verify, "it has another length than its source laid anew",
	     size < verify->back.size ? size : verify->back.size);
	return TOOL_PROBLEM;
}

/* Returns the index of the first byte that differs in the data from verify->at on. One bit is not the
 * data's: compacting notes in the meta pages, as LMDB does, whether the source was named by its
 * file or by its directory. */
static size_t relaid_difference(const struct verify *verify, const uint8_t *a, const uint8_t *b,
				size_t length)
{
	uint32_t size = verify->source->page_size;
	size_t flags = page_layouts[verify->source->format].shift + META_FREE_TREE + TREE_FLAGS + 1;

	for (size_t i = first_difference(a, b, length); i < length; i++) {
		uint64_t offset = verify->at + i;

		if (a[i] != b[i] && (offset >= FORMAT_METAS * (uint64_t)size ||
				     offset % size != flags || (a[i] ^ b[i]) != MDB_NOSUBDIR >> 8))
			return i;
	}
	return length;
}

static int relaid_put(void *to, const void *bytes, size_t length)
{
	struct verify *verify = to;
	const uint8_t *at = bytes;

	while (length) {
		size_t from = verify->at % verify->chunk, n = verify->chunk - from, same;
		uint8_t *back = verify->buffer + from;
		int rc;

		if (n > length)
			n = length;
		rc = source_stream_take(verify->stream, back, n);

		if (rc == EBADMSG || rc == EIO) {
			tell(verify, "damaged", verify->at);
			return TOOL_PROBLEM;
		}
		if (rc)
			return convert_fail(verify->back.file, rc);
		same = memcmp(at, back, n) ? relaid_difference(verify, at, back, n) : n;
		if (same < n) {
			tell(verify, "it differs from its source laid anew", verify->at + same);
			return TOOL_PROBLEM;
		}
		at += n;
		length -= n;
		verify->at += n;
		if (from + n == verify->chunk || verify->at == verify->back.size)
			rc = copies_verify(verify, verify->buffer, from + n, verify->at - from - n);
		if (rc)
			return rc;
		progress_count(&verify->convert->progress, n, 0);
		progress_show(&verify->convert->progress);
	}
	return convert_interrupted();
}

static int verify_relaid(struct verify *verify)
{
	const struct relayout_taker taker = {relaid_begin, relaid_put, verify};
	int rc;

	verify->chunk = unpack_chunk(&verify->back);
	verify->buffer = malloc(verify->chunk);
	rc = verify->buffer
		     ? source_stream_open(&verify->stream, &verify->back, 0, verify->back.size)
		     : ENOMEM;
	rc = rc ? convert_fail(verify->back.file, rc)
		: relayout_run(verify->source,
			       verify->back.form == FORM_CONTAINER ? verify->chunk : 0, &taker);
	source_stream_close(verify->stream);
	free(verify->buffer);
	/* Differences are reported and counted already. */
	return rc == TOOL_PROBLEM && verify->bad ? 0 : rc;
}

/* ---- a source with writers ---- */

/* A digest of the trees of a data set, without the pages that they do not reach. */
struct digest {
	struct convert *convert;
	XXH3_state_t *state;
	uint64_t size;
	bool begun;
};

static int digest_begin(void *to, uint64_t size)
{
	struct digest *digest = to;

	digest->size = size;
	progress_begin(&digest->convert->progress, "verifying", size);
	return 0;
}

static int digest_put(void *to, const void *bytes, size_t length)
{
	struct digest *digest = to;

	/* The meta pages come first. They hold the size of the map, which grows without a
	 * commit. */
	if (digest->begun)
		XXH3_128bits_update(digest->state, bytes, length);
	digest->begun = true;
	progress_count(&digest->convert->progress, length, 0);
	progress_show(&digest->convert->progress);
	return convert_interrupted();
}

static int digest_take(struct convert *convert, struct source *source, XXH128_hash_t *hash,
		       uint64_t *size)
{
	struct digest digest = {convert, XXH3_createState(), 0, false};
	const struct relayout_taker taker = {digest_begin, digest_put, &digest};
	int rc;

	if (!digest.state)
		return convert_fail(source->file, ENOMEM);
	XXH3_128bits_reset(digest.state);
	rc = relayout_run(source, 0, &taker);
	*hash = XXH3_128bits_digest(digest.state);
	*size = digest.size;
	XXH3_freeState(digest.state);
	return rc;
}

/* Opens a data.mdb of the written data: the target itself, or a container's data in a file without
 * a name. */
static int written_open(struct verify *verify, const struct target *beside, struct source *written)
{
	struct target scratch = {.path = beside->path, .fd = -1};
	uint64_t resumed;
	int rc = 0;

	if (verify->back.form != FORM_CONTAINER) {
		scratch.fd = open(verify->back.file, O_RDONLY | O_CLOEXEC);
		if (scratch.fd < 0)
			rc = convert_fail(verify->back.file, errno);
	} else {
		scratch.fd = target_scratch(beside);
		rc = scratch.fd < 0
			     ? TOOL_FAILED
			     : unpack_run(verify->convert, &scratch, &verify->back, &resumed);
	}
	if (!rc)
		return source_open_file(written, verify->back.file, scratch.fd);
	if (scratch.fd >= 0)
		close(scratch.fd);
	return rc;
}

/* Compares trees alone: pages that the snapshot does not reach may have changed since. Relaid, the
 * trees must be the same. */
static int verify_trees(struct verify *verify, const struct target *beside)
{
	uint64_t size, written_size;
	XXH128_hash_t hash, written_hash;
	struct source written;
	int rc = written_open(verify, beside, &written);

	if (rc)
		return rc;
	rc = digest_take(verify->convert, &written, &written_hash, &written_size);
	source_close(&written);
	if (!rc)
		rc = digest_take(verify->convert, verify->source, &hash, &size);
	if (!rc && (size != written_size || !XXH128_isEqual(hash, written_hash)))
		tell(verify, "its trees differ from those of its source, somewhere", 0);
	return rc;
}

static int index_verify(struct verify *verify)
{
	uint64_t bad = 0;
	int rc;

	if (verify->back.form != FORM_CONTAINER)
		return 0;
	rc = container_check_index(&verify->back.io, &bad);
	if (rc != MDB_CORRUPTED)
		return rc ? convert_fail(verify->back.file, rc) : 0;
	atomic_fetch_add(&verify->bad, 1);
	convert_refuse(verify->back.file, "its index is damaged, at byte %llu of the file",
		       (unsigned long long)bad);
	return 0;
}

static int back_open(struct source *back, const char *path, enum convert_form form)
{
	return form == FORM_CONTAINER ? source_open(back, path, form, true)
				      : source_open_bytes(back, path);
}

/* Runs this in the leading rank alone. */
static int verify_trees_apart(struct verify *verify, const struct target *beside)
{
	bool before;
	int rc;

	if (!job_leads(verify->convert))
		return 0;
	before = job_apart(verify->convert, true);
	rc = verify_trees(verify, beside);
	job_apart(verify->convert, before);
	return rc;
}

int verify_run(struct convert *convert, struct source *source, const struct target *target,
	       const char *path)
{
	enum convert_form form = convert->to;
	bool relaid = convert->relayout;
	struct verify verify = {.convert = convert, .source = source};
	uint64_t bad, moved;
	int rc = job_agree(convert, back_open(&verify.back, path, form));

	if (rc) {
		source_close(&verify.back);
		return rc;
	}
	/* Without --relayout a container keeps the places that its relaid source has given to pages. */
	if (form == FORM_CONTAINER)
		relaid = source_is_relaid(&verify.back) && (relaid || !source_is_relaid(source));
	progress_begin(&convert->progress, "verifying", verify.back.size);
	rc = job_leads(convert) ? index_verify(&verify) : 0;
	if (!rc && relaid)
		rc = job_leads(convert) ? verify_relaid(&verify) : 0;
	else if (!rc)
		rc = verify_chunks(&verify);
	rc = job_agree(convert, rc);
	moved = atomic_load(&verify.moved);
	if (!rc)
		rc = job_agree(convert, job_sum(convert, &moved));
	if (!rc && moved)
		rc = job_agree(convert, verify_trees_apart(&verify, target));
	progress_clear(&convert->progress);
	source_close(&verify.back);
	bad = atomic_load(&verify.bad);
	if (!rc)
		rc = job_agree(convert, job_sum(convert, &bad));
	convert->damaged += bad;
	if (bad > TOLD_MOST && job_leads(convert))
		convert_refuse(path, "%llu places in all", (unsigned long long)bad);
	return rc ? rc : bad ? TOOL_PROBLEM : 0;
}
