/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the node that a chunk comes from: its owner, or the node that stands in for an owner that
 * is silent, slow or gone.
 *
 * The nodes of a chunk have an order, the same for all (chunk_spread_turn()). A node asks nodes
 * before itself in the order, and reads storage when none of them can be asked. So nodes that
 * cannot reach an owner read each of its chunks once, a part each, and no two nodes ever wait for
 * each other. */
#include "config.h"
#include "mpi/server_private.h"

static int node_at(const struct server_load *load, unsigned turn)
{
	return chunk_spread_turn(&load->set->spread, load->order, turn);
}

enum load_way server_turn(struct server *server, struct server_load *load)
{
	load->source = server->place.node;
	if (load->alone)
		return COMES_FROM_STORAGE;
	for (load->turn = load->passed;; load->turn++) {
		load->source = node_at(load, load->turn);
		if (load->source == server->place.node)
			return COMES_FROM_STORAGE;
		if (!exchange_may_ask(&server->wire.exchange, load->source))
			continue;
		switch (pace_turn(&server->pace, load->source, server->wire.now)) {
		case PACE_ASK:
			if (!pace_is_probe(&server->pace, load->source))
				return COMES_FROM_PEER;
			server_probe(server, load);
			break;
		case PACE_WAIT:
			return COMES_LATER;
		case PACE_PASS:
			break;
		}
	}
}

/* Believes the asker that `passed` nodes do not answer, unless this node has heard from them
 * recently. In that case this node asks them itself, and passes on their answer. */
void server_turns_believe(const struct server *server, struct server_load *load, unsigned passed)
{
	unsigned turn = 0;

	while (turn < passed && turn + 1 < (unsigned)server->place.nodes &&
	       node_at(load, turn) != server->place.node &&
	       exchange_silence(&server->wire.exchange, node_at(load, turn), server->wire.now) >
		       server->pace.late_least)
		turn++;
	if (turn > load->passed)
		load->passed = turn;
}
