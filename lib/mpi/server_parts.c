/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the part of a data set on a node's local disk in place of storage, as far as the part is
 * there and right. */
#include "config.h"
#include "mpi/server_private.h"

#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void server_part_open(const struct server *server, struct server_set *set)
{
	const char *directory = settings_get()->staged, *backend, *why;
	struct part_identity identity = {
		.original = set->original,
		.size = set->identity.size,
		.node = server->place.node,
		.nodes = server->place.nodes,
	};
	int rc;

	set->staged = directory != NULL;
	if (!directory)
		return;
	rc = part_file_open(&set->part, directory, &identity);
	if (!rc) {
		rc = io_open_chosen(&set->local, set->part.fd, settings_get()->io, &backend, &why);
		if (rc)
			part_file_close(&set->part);
	}
	if (rc && (rc != ENOENT || settings_get()->verbose))
		log_line("%s: no part of it for node %d of %d in %s: %s", set->path, identity.node,
			 identity.nodes, directory, rc == EBADMSG ? "it is damaged" : strerror(rc));
}

bool server_part_has(const struct server_set *set, uint64_t chunk)
{
	return !set->part_failed && part_file_has(&set->part, chunk);
}

bool server_part_came(struct server_set *set, const struct io_request *request)
{
	uint64_t chunk = request->offset / ARENA_CHUNK;

	/* The head follows the data, so that no read of a chunk ends early. */
	if (!request->error && request->done == request->length &&
	    part_file_is(&set->part, chunk, request->buffer)) {
		set->counts.local_bytes += request->length;
		return true;
	}
	if (!set->part_told)
		log_line("%s: chunk %" PRIu64 " of its part on the local disk: %s; storage is read",
			 set->path, chunk,
			 request->error ? strerror(request->error) : "not what was staged");
	set->part_told = true;
	/* A disk that fails takes long to fail, so the server does not ask it again. */
	set->part_failed = set->part_failed || request->error;
	return false;
}

void server_part_close(struct server_set *set)
{
	io_close(&set->local);
	part_file_close(&set->part);
}
