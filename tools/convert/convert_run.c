/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the steps of a conversion in their order. */
#include "convert_run.h"
#include "convert_job.h"
#include "convert_pack.h"
#include "convert_relayout.h"
#include "convert_remove.h"
#include "convert_rewrite.h"
#include "convert_share.h"
#include "convert_target.h"
#include "convert_unpack.h"
#include "convert_verify.h"
#include "import_sources.h"

#include "config.h"
#include "util/clock.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- into a container ---- */

struct packing {
	struct convert *convert;
	struct target *target;
	struct source *source;
	struct pack *pack;
};

static int packing_begin(void *to, uint64_t size)
{
	struct packing *packing = to;

	progress_begin(&packing->convert->progress, "converting", size);
	return pack_open(&packing->pack, packing->convert, packing->target, packing->source, size,
			 packing->convert->relayout);
}

static int packing_put(void *to, const void *bytes, size_t length)
{
	return pack_bytes(((struct packing *)to)->pack, bytes, length);
}

static int packing_stream(struct packing *packing)
{
	struct source *source = packing->source;
	struct source_stream *stream;
	uint64_t at = 0;
	size_t length;
	void *room;
	int rc = source_stream_open(&stream, source, 0, source->size);

	if (rc)
		return convert_fail(source->file, rc);
	while (!(rc = pack_room(packing->pack, &room, &length)) && length) {
		rc = source_stream_take(stream, room, length);
		rc = rc ? source_fail(source, at, rc) : pack_filled(packing->pack, length);
		if (rc)
			break;
		at += length;
	}
	source_stream_close(stream);
	return rc;
}

static int run_pack(struct convert *convert, struct target *target, struct source *source,
		    struct convert_result *result)
{
	struct packing packing = {convert, target, source, NULL};
	const struct relayout_taker taker = {packing_begin, packing_put, &packing};
	int rc;

	if (convert->relayout) {
		rc = relayout_run(source, pack_chunk_size(convert), &taker);
	} else {
		rc = job_leads(convert) ? packing_begin(&packing, source->size) : 0;
		if (job_sharing(convert)) {
			rc = job_agree(convert, rc);
			rc = rc ? rc : share_pack(convert, target, source, packing.pack);
		} else if (!rc) {
			rc = packing_stream(&packing);
		}
	}
	if (!rc && packing.pack)
		rc = pack_finish(packing.pack);
	if (packing.pack) {
		result->resumed = pack_resumed(packing.pack);
		result->chunks = pack_chunks(packing.pack);
		result->data = pack_size(packing.pack);
	}
	pack_close(packing.pack);
	return rc;
}

/* ---- into a data.mdb ---- */

struct laying {
	struct convert *convert;
	struct target *target;
	uint64_t at;      /* bytes written */
	uint64_t resumed; /* bytes of them that existed before */
	uint8_t there[64 << 10];
};

static int laying_begin(void *to, uint64_t size)
{
	struct laying *laying = to;
	/* Existing bytes stay until they have been compared. */
	off_t keep = laying->target->resumed ? (off_t)size : 0;

	progress_begin(&laying->convert->progress, "converting", size);
	return ftruncate(laying->target->fd, keep) ? convert_fail(laying->target->path, errno) : 0;
}

static int laying_put(void *to, const void *bytes, size_t length)
{
	struct laying *laying = to;
	const uint8_t *from = bytes;

	progress_count(&laying->convert->progress, length, length);
	while (length) {
		size_t n = length;
		int rc;

		if (laying->target->resumed && n > sizeof(laying->there))
			n = sizeof(laying->there);
		if (unpack_has(laying->target, laying->there, laying->at, n) &&
		    !memcmp(laying->there, from, n)) {
			laying->resumed += n;
		} else {
			rc = whole_write(laying->target->fd, from, n, laying->at);
			if (rc)
				return convert_fail(laying->target->path, rc);
		}
		laying->at += n;
		from += n;
		length -= n;
	}
	progress_show(&laying->convert->progress);
	return convert_interrupted();
}

static int run_unpack_shared(struct convert *convert, struct target *target, struct source *source)
{
	int rc = 0;

	if (job_leads(convert) && ftruncate(target->fd, (off_t)source->size))
		rc = convert_fail(target->path, errno);
	rc = job_agree(convert, rc);
	return rc ? rc : share_unpack(convert, target, source);
}

static int run_unpack(struct convert *convert, struct target *target, struct source *source,
		      struct convert_result *result)
{
	struct laying laying = {.convert = convert, .target = target};
	const struct relayout_taker taker = {laying_begin, laying_put, &laying};
	int rc;

	if (convert->relayout) {
		rc = relayout_run(source, 0, &taker);
		result->resumed = laying.resumed;
		return rc;
	}
	progress_begin(&convert->progress, "converting", source->size);
	return job_sharing(convert) ? run_unpack_shared(convert, target, source)
				    : unpack_run(convert, target, source, &result->resumed);
}

/* ---- into a data.mdb of LMDB 0.9 ---- */

/* The environment is in the file that `fd` has open. */
static int rewrite_in(struct convert *convert, struct source *source, int fd, bool comparing)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return rewrite_run(convert, source, path, convert->target, comparing);
}

static int run_rewrite(struct convert *convert, struct target *target, struct source *source,
		       struct convert_result *result)
{
	int rc =
		target->resumed && ftruncate(target->fd, 0) ? convert_fail(target->path, errno) : 0;

	if (!rc)
		rc = rewrite_in(convert, source, target->fd, false);
	if (!rc && (convert->verify || convert->remove)) {
		rc = rewrite_in(convert, source, target->fd, true);
		result->verified = !rc;
	}
	return rc;
}

/* ---- imports ---- */

static int import_walk(struct convert *convert, struct import *import)
{
	struct labels *labels = NULL;
	size_t unused;
	int rc = 0;

	if (convert->labels && (rc = labels_open(&labels, convert->labels)))
		return rc;
	switch (convert->from) {
	case FORM_TREE:
		rc = import_tree(import, convert, labels);
		break;
	case FORM_IMAGES:
		rc = import_images(import, convert);
		break;
#ifdef HAVE_LIBARCHIVE
	case FORM_TAR:
		rc = import_tar(import, convert, labels);
		break;
	case FORM_WEBDATASET:
		rc = import_webdataset(import, convert);
		break;
#endif
	default:
		rc = convert_refuse(convert->sources[0],
				    "this lmdbio-convert was built without libarchive, which "
				    "reads tar archives");
		break;
	}
	unused = labels && !rc ? labels_unused(labels) : 0;
	if (unused)
		tool_complain(&convert_tool, "%s: %zu labels are of files that are not there",
			      convert->labels, unused);
	labels_close(labels);
	return rc;
}

/* The environment is in the file that `fd` has open. */
static int run_import(struct convert *convert, int fd, bool comparing)
{
	struct import *import;
	char path[32];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	convert->records = convert->skipped = 0;
	progress_begin(&convert->progress, comparing ? "verifying" : "importing", 0);
	rc = import_open(&import, convert, path, convert->target, comparing);
	if (!rc)
		rc = import_walk(convert, import);
	if (!rc)
		rc = import_finish(import);
	import_close(import);
	progress_clear(&convert->progress);
	return rc;
}

/* Returns whether an import needs no environment beside the target. */
static bool is_direct(const struct convert *convert)
{
	return convert->to == FORM_LMDB && !convert->relayout;
}

/* Imports straight into the target. */
static int import_direct(struct convert *convert, struct target *target,
			 struct convert_result *result)
{
	int rc =
		target->resumed && ftruncate(target->fd, 0) ? convert_fail(target->path, errno) : 0;

	if (!rc)
		rc = run_import(convert, target->fd, false);
	if (!rc && convert->verify) {
		rc = run_import(convert, target->fd, true);
		result->verified = !rc;
	}
	return rc;
}

/* Imports into an LMDB file without a name beside the target, and takes only its trees. */
static int import_indirect(struct convert *convert, struct target *target,
			   struct convert_result *result, struct source *source)
{
	int fd = target_scratch(target);
	int rc = fd < 0 ? TOOL_FAILED : run_import(convert, fd, false);

	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	rc = source_open_file(source, convert->target, fd);
	if (rc)
		return rc;
	convert->relayout = result->relaid = true;
	if (convert->to == FORM_LMDB)
		return run_unpack(convert, target, source, result);
	convert->records = 0; /* the record index counts them again */
	return run_pack(convert, target, source, result);
}

/* ---- all ---- */

static int pipe_refuse(const char *path)
{
	struct stat st;

	if (stat(path, &st) || !(S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)))
		return 0;
	return convert_refuse(path, "this is a pipe, and --verify reads it twice: name a file, or "
				    "convert without --verify");
}

/* Judges --verify, which imports everything once more and compares. */
static int twice_judge(const struct convert *convert)
{
	int rc = 0;

	for (size_t i = 0; i < convert->source_count && !rc; i++)
		rc = pipe_refuse(convert->sources[i]);
	/* A container is compared with the environment that it was made from. */
	if (!rc && convert->labels && is_direct(convert))
		rc = pipe_refuse(convert->labels);
	return rc;
}

static bool is_import(enum convert_form form)
{
	return form != FORM_LMDB && form != FORM_CONTAINER;
}

/* Verifies the file on the disk: drops its pages from the page cache first. */
static int verify_partial(struct convert *convert, struct target *target, struct source *source)
{
	int rc = 0;

	if (job_leads(convert) && fsync(target->fd))
		rc = convert_fail(target->path, errno);
	rc = job_agree(convert, rc);
	if (rc)
		return rc;
	if (job_leads(convert))
		posix_fadvise(target->fd, 0, 0, POSIX_FADV_DONTNEED);
	return verify_run(convert, source, target, target->partial);
}

/* Returns whether the ranks of a job work together. Chunks can be shared out. The walk over a tree
 * cannot: its pages in their new order come one after the other. */
static bool is_shared(const struct convert *convert)
{
	return !is_import(convert->from) && !convert->relayout && !convert->rewrite;
}

static int run_conversion(struct convert *convert, struct target *target, struct source *source,
			  struct convert_result *result)
{
	uint64_t since = clock_now();
	int rc;

	if (is_import(convert->from))
		rc = is_direct(convert) ? import_direct(convert, target, result)
					: import_indirect(convert, target, result, source);
	else if (convert->rewrite)
		rc = run_rewrite(convert, target, source, result);
	else
		rc = convert->to == FORM_LMDB ? run_unpack(convert, target, source, result)
					      : run_pack(convert, target, source, result);
	result->seconds_ns = clock_now() - since;
	/* Pages that are copied as they are, or moved, are not looked into. */
	result->counted = !rc && (is_import(convert->from) || convert->rewrite ||
				  convert->to == FORM_CONTAINER);
	progress_clear(&convert->progress);
	return rc;
}

/* Returns whether the target is complete: a container without a record index is. */
static bool is_usable(const struct convert *convert, int rc)
{
	return !rc || (rc == TOOL_PROBLEM && convert->to == FORM_CONTAINER && convert->damaged);
}

static int run_steps(struct convert *convert, struct target *target, struct source *source,
		     struct convert_result *result)
{
	bool opened = !is_import(convert->from);
	struct stat st;
	int worst, rc;

	worst = job_agree(convert, run_conversion(convert, target, source, result));
	rc = job_tell(convert, &convert->damaged, sizeof(convert->damaged));
	if (rc || !is_usable(convert, worst))
		return rc ? rc : worst;
	result->busy = opened && !source_is_unchanged(source);
	rc = job_agree(convert, result->busy ? source_judge_changed(source) : 0);
	if (rc)
		return rc;
	if ((convert->verify || convert->remove) && !result->verified) {
		rc = verify_partial(convert, target, source);
		if (rc)
			return rc;
		result->verified = true;
	}
	/* The source may be the target, and a rank's own lock of it counts as a program's. */
	source_let_go(source);
	rc = job_agree(convert, 0);
	if (rc || !job_leads(convert))
		return rc ? rc : worst;
	if (fstat(target->fd, &st))
		return convert_fail(target->path, errno);
	result->file = (uint64_t)st.st_size;
	if (convert->to == FORM_LMDB)
		result->data = result->file;
	rc = target_commit(target, opened ? &source->st : NULL);
	if (rc)
		return rc;
	result->written = true;
	return worst;
}

/* Compares an existing target and writes nothing. */
static int run_verify_only(struct convert *convert, struct target *target, struct source *source,
			   struct convert_result *result)
{
	uint64_t since = clock_now();
	struct stat st;
	int rc = convert->rewrite ? rewrite_run(convert, source, target->path, target->path, true)
				  : verify_run(convert, source, target, target->path);

	result->seconds_ns = clock_now() - since;
	result->verified = !rc;
	if (!stat(target->path, &st))
		result->file = (uint64_t)st.st_size;
	if (!rc && convert->remove)
		rc = job_agree(convert, job_leads(convert) ? target_settle(target) : 0);
	return rc;
}

/* Opens the same snapshot on all ranks of a job: beside a writer they may find different ones. */
static int sources_open(struct convert *convert, struct source *source)
{
	enum { TRIES = 100 };
	bool same = false;
	int rc = 0;

	for (int i = 0; i < TRIES && !rc && !same; i++) {
		rc = source_open(source, convert->sources[0], convert->from, convert->no_subdir);
		rc = job_agree(convert, rc);
		if (!rc)
			rc = job_agree(convert, job_same_source(convert, source, &same));
		if (rc || !same)
			source_close(source);
	}
	return rc || same ? rc
			  : convert_refuse(convert->sources[0],
					   "it is written to so often that the ranks see different "
					   "snapshots");
}

/* Notes the target's two files, in case it lies in the imported tree. */
static void target_note(struct convert *convert, const struct target *target)
{
	struct stat st;

	if (target->fd >= 0 && !fstat(target->fd, &st))
		convert->written[0] = (struct convert_file){st.st_dev, st.st_ino};
	if (target->exists && !lstat(target->path, &st))
		convert->written[1] = (struct convert_file){st.st_dev, st.st_ino};
}

static int run_on_target(struct convert *convert, struct target *target, struct source *source,
			 struct convert_result *result)
{
	bool exists =
		target->exists && convert->verify && !convert->force && !is_import(convert->from);
	int rc = job_tell(convert, &exists, sizeof(exists));

	if (rc)
		return rc;
	if (exists)
		return run_verify_only(convert, target, source, result);
	rc = job_agree(convert, job_leads(convert) ? target_open(target) : 0);
	target_note(convert, target);
	return rc ? rc : run_steps(convert, target, source, result);
}

/* Removes the source. The lock of a rank that has the source open counts as any program's, so the
 * other ranks close it first. All ranks call this, whatever has failed. Returns rank 0's exit
 * status. */
static int run_removal(struct convert *convert, const struct target *target, struct source *source,
		       const struct convert_result *result, int rc)
{
	int gone;

	if (!job_leads(convert))
		source_close(source);
	gone = job_sharing(convert) ? job_gather(convert) : 0;
	if (job_leads(convert) && !gone && !rc && (result->written || result->verified))
		gone = remove_source(source, target->fd);
	return rc ? rc : gone;
}

static int convert_together(struct convert *convert, struct convert_result *result)
{
	struct source source = {.fd = -1};
	struct target target;
	int rc = target_name(&target, convert, convert->to);

	*result = (struct convert_result){
		.made = convert->to == FORM_LMDB ? "lmdb" : "container",
		.relaid = convert->relayout,
		.path = rc ? NULL : strdup(target.path),
	};
	rc = job_agree(convert, rc);
	if (!rc && convert->remove)
		rc = job_agree(convert, job_leads(convert) ? remove_judge(convert) : 0);
	if (!rc && convert->verify && is_import(convert->from))
		rc = job_agree(convert, twice_judge(convert));
	if (!rc && !is_import(convert->from)) {
		rc = sources_open(convert, &source);
		result->data = source.size;
		result->txnid = source.identity.txnid;
		convert->rewrite = convert->rewrite && source.format != FORMAT_0_9;
	}
	target.resumable =
		convert->to == FORM_CONTAINER || (!is_import(convert->from) && !convert->rewrite);
	if (!rc)
		rc = run_on_target(convert, &target, &source, result);
	if (convert->remove)
		rc = run_removal(convert, &target, &source, result, rc);
	source_close(&source);
	target_close(&target);
	return rc;
}

int convert_run(struct convert *convert, struct convert_result *result)
{
	bool shared = is_shared(convert);
	int rc = 0;

	*result = (struct convert_result){0};
	job_apart(convert, !shared);
	if (shared || job_leads(convert))
		rc = convert_together(convert, result);
	job_apart(convert, false);
	/* Some ranks have no work left, or had none at all. */
	if (job_gather(convert))
		return TOOL_FAILED;
	return job_agree(convert, rc);
}
