/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares a network that carries packets between a few ranks, and loses, duplicates, damages,
 * delays and reorders them. */
#ifndef LMDBIO_TESTS_SIMULATED_NETWORK_H
#define LMDBIO_TESTS_SIMULATED_NETWORK_H

#include "../data/random_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NETWORK_RANKS = 4, NETWORK_PACKETS = 1024, NETWORK_BYTES = 128, NETWORK_BODY = 64 };

struct packet {
	bool used, is_body, damaged;
	uint64_t at, number, sent; /* at: ms; sent: its number among those sent */
	int from, to;
	size_t length;
	uint8_t bytes[NETWORK_BYTES];
};

struct network {
	struct random_stream *random;
	unsigned lose, twice, damage; /* percent of all packets, while the network is faulty */
	unsigned delay;               /* ms, the most */
	bool reorders;
	uint64_t now, heals_at; /* ms */
	uint64_t last[NETWORK_RANKS][NETWORK_RANKS]; /* ms: when the last packet arrives */
	struct packet packets[NETWORK_PACKETS];
	int end; /* behind the last packet in use */
	uint64_t sent;
	uint64_t lost, doubled, damaged; /* packets */
};

/* Accepts a packet. Returns false if there are too many. */
bool network_send(struct network *network, struct packet packet);

/* Returns the next packet that arrives now, in the order of arrival, among those to ranks that are
 * `open`; NULL: none. The caller sets `used` to false. */
struct packet *network_due(struct network *network, bool (*open)(int rank));

/* Whether packets arrive once each, whole and in order. */
bool network_is_sound(const struct network *network);

/* Whether a packet other than a body is still on its way. */
bool network_has_words(const struct network *network);

/* Length and bytes of the body that follows from a number, NETWORK_BODY bytes at most, or none. */
size_t body_length(uint64_t what);
void body_make(uint64_t what, uint8_t *bytes);

#endif
