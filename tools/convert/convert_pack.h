/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns data into a container with a record index, from any source, also after interruptions. */
#ifndef LMDBIO_TOOLS_CONVERT_PACK_H
#define LMDBIO_TOOLS_CONVERT_PACK_H

#include "convert_source.h"
#include "convert_target.h"

struct pack;
struct container_write_options;
struct container_writer;
struct skeleton;

/* Returns the bytes of data in a chunk of the container to be made. */
uint32_t pack_chunk_size(const struct convert *convert);

/* Sets the options of the container that pack_open() begins. They point into the convert, the
 * target, and *dictionary (malloc()ed, or NULL). */
int pack_options(const struct convert *convert, const struct target *target, struct source *source,
		 uint64_t size, bool relaid, struct container_write_options *options,
		 void **dictionary);

/* Begins the container of `size` bytes of data in target->fd, or goes on with its contents.
 * `relaid`: the data is the source's with its pages in another order. *pack is NULL on failure. */
int pack_open(struct pack **pack, struct convert *convert, struct target *target,
	      struct source *source, uint64_t size, bool relaid);

/* Returns the bytes of data that the target already held. Give these too, for the record index. */
uint64_t pack_resumed(const struct pack *pack);

/* Takes the XXH3-64 of the source's data for the next of these chunks, `length` bytes.
 * pack_filled() and pack_bytes() do so by themselves. After the last one returns TOOL_FAILED, with
 * a message, if the target holds other data. */
int pack_look(struct pack *pack, uint64_t hash, size_t length);

/* Call pack_room() for the place of the next data: *length bytes, 0 when all is there; then
 * pack_filled() when it is filled. */
int pack_room(struct pack *pack, void **buffer, size_t *length);
int pack_filled(struct pack *pack, size_t length);

/* Takes the next data, instead of these two. */
int pack_bytes(struct pack *pack, const void *bytes, size_t length);

/* For ranks that give the data together, instead of these: the pack's own writer and skeleton, to
 * take frames and pages. */
struct container_writer *pack_writer(const struct pack *pack);
struct skeleton *pack_skeleton(const struct pack *pack);

/* Writes the indexes. A file with damaged trees gets no record index: then returns TOOL_PROBLEM,
 * and the container is complete all the same. */
int pack_finish(struct pack *pack);

/* Return the bytes, and chunks, of all of the data. */
uint64_t pack_size(const struct pack *pack);
uint64_t pack_chunks(const struct pack *pack);

void pack_close(struct pack *pack); /* NULL does nothing */

#endif
