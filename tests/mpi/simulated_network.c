/* SPDX-License-Identifier: OLDAP-2.8 */
/* Carries packets between simulated ranks, with the faults of a real network. */
#include "simulated_network.h"

static bool packet_put(struct network *network, const struct packet *sent, uint64_t at)
{
	int i = 0;

	while (i < NETWORK_PACKETS && network->packets[i].used)
		i++;
	if (i == NETWORK_PACKETS)
		return false;
	network->packets[i] = *sent;
	network->packets[i].used = true;
	network->packets[i].at = at;
	network->packets[i].sent = network->sent++;
	network->end = i < network->end ? network->end : i + 1;
	return true;
}

static void packet_damage(struct network *network, struct packet *packet)
{
	network->damaged++;
	packet->damaged = true;
	if (packet->is_body && random_percent(network->random, 50)) {
		packet->length = random_below(network->random, packet->length);
		return;
	}
	packet->bytes[random_below(network->random, packet->length)] ^=
		(uint8_t)(1 + random_below(network->random, 255));
}

bool network_send(struct network *network, struct packet packet)
{
	uint64_t *last = &network->last[packet.from][packet.to], at;
	bool faulty = network->now < network->heals_at;

	if (faulty && random_percent(network->random, network->lose)) {
		network->lost++;
		return true;
	}
	if (faulty && random_percent(network->random, network->damage))
		packet_damage(network, &packet);
	at = network->now + random_below(network->random, network->delay + 1);
	if (!network->reorders)
		at = at > *last ? at : *last;
	*last = at > *last ? at : *last;
	if (!packet_put(network, &packet, at))
		return false;
	if (!faulty || !random_percent(network->random, network->twice))
		return true;
	network->doubled++;
	return packet_put(network, &packet, at + random_below(network->random, network->delay + 1));
}

struct packet *network_due(struct network *network, bool (*open)(int rank))
{
	struct packet *first = NULL;

	while (network->end && !network->packets[network->end - 1].used)
		network->end--;
	for (int i = 0; i < network->end; i++) {
		struct packet *packet = &network->packets[i];

		if (packet->used && network->now >= packet->at && open(packet->to) &&
		    (!first || packet->at < first->at ||
		     (packet->at == first->at && packet->sent < first->sent)))
			first = packet;
	}
	return first;
}

bool network_has_words(const struct network *network)
{
	for (int i = 0; i < network->end; i++)
		if (network->packets[i].used && !network->packets[i].is_body)
			return true;
	return false;
}

bool network_is_sound(const struct network *network)
{
	return !network->lose && !network->twice && !network->damage && !network->reorders;
}

size_t body_length(uint64_t what)
{
	return random_mix(what) % 5 ? random_mix(what) % NETWORK_BODY + 1 : 0;
}

void body_make(uint64_t what, uint8_t *bytes)
{
	for (size_t i = 0; i < body_length(what); i++)
		bytes[i] = (uint8_t)random_mix(what + i);
}
