/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns data into a container, with its record index, wherever the data comes from and however
 * often the work was interrupted. */
#ifndef LMDBIO_TOOLS_CONVERT_PACK_H
#define LMDBIO_TOOLS_CONVERT_PACK_H

#include "convert_source.h"
#include "convert_target.h"

struct pack;
struct container_write_options;
struct container_writer;
struct skeleton;

/* Bytes of data in a chunk of the container that is to be made. */
uint32_t pack_chunk_size(const struct convert *convert);

/* The options of the container that pack_open() begins; what they point to is the convert's, the
 * target's, and *dictionary (malloc()ed, or NULL). */
int pack_options(const struct convert *convert, const struct target *target, struct source *source,
		 uint64_t size, bool relaid, struct container_write_options *options,
		 void **dictionary);

/* Begins the container of `size` bytes of data in target->fd, or goes on with what it holds.
 * `relaid`: the data is the source's with its pages in another order. *pack is NULL on failure. */
int pack_open(struct pack **pack, struct convert *convert, struct target *target,
	      struct source *source, uint64_t size, bool relaid);

/* Bytes of data that the target held already. They are to be given all the same: the record index
 * needs them. */
uint64_t pack_resumed(const struct pack *pack);

/* Tells of the next chunk of these the XXH3-64 of the source's data, `length` bytes; pack_filled() and
 * pack_bytes() do so by themselves. TOOL_FAILED, told, at the last one: what is there is of other data. */
int pack_look(struct pack *pack, uint64_t hash, size_t length);

/* Where the next data is to be put: *length bytes, 0 when all is there; then that it has been. */
int pack_room(struct pack *pack, void **buffer, size_t *length);
int pack_filled(struct pack *pack, size_t length);

/* The next data, instead of these two. */
int pack_bytes(struct pack *pack, const void *bytes, size_t length);

/* For ranks that give the data together, instead of these: the writer to tell of frames and
 * pages. The pack's. */
struct container_writer *pack_writer(const struct pack *pack);
struct skeleton *pack_skeleton(const struct pack *pack);

/* Writes the indexes. A file whose trees are damaged gets no record index: then it is TOOL_PROBLEM,
 * and the container whole all the same. */
int pack_finish(struct pack *pack);

/* Bytes, and chunks, of all of the data. */
uint64_t pack_size(const struct pack *pack);
uint64_t pack_chunks(const struct pack *pack);

void pack_close(struct pack *pack); /* NULL does nothing */

#endif
