/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the source of a record when it is read, by each policy's rule. */
#include "loader/loader_ready.h"
#include "sim_private.h"

#include <stdlib.h>

enum { USE_SIZES = 100, READERS_MEMORY = 1 << 30 };

/* A place to read from, at first the dearest possible. */
struct choice {
	enum sim_source source;
	uint32_t node;
	double seconds;
};

double sim_record_bytes(const struct sim_job *job, uint64_t record)
{
	double part;

	if (!job->spread)
		return (double)job->record_bytes;
	part = (double)permute_draw(1 << 20, job->seed, record, USE_SIZES) / (1 << 20);
	return (double)job->record_bytes * (1 + job->spread * (2 * part - 1));
}

static uint64_t plan_record_bytes(const void *job, uint64_t record)
{
	return (uint64_t)sim_record_bytes(job, record);
}

static int place_by_plan(struct sim *sim, enum placement_kind kind)
{
	struct placement_spec spec = {
		.order = sim->order,
		.epochs = sim->job->epochs,
		.ranks = sim->cluster->nodes,
		.nodes = sim->cluster->nodes,
		.tiers = SIM_TIERS,
		.unit_records = 1,
		.bytes_of = plan_record_bytes,
		.context = sim->job,
		.readers_memory = READERS_MEMORY,
		.kind = kind,
	};
	uint64_t *room = malloc((size_t)spec.nodes * SIM_TIERS * sizeof(*room));
	int rc;

	if (!room)
		return -1;
	for (uint32_t i = 0; i < spec.nodes * SIM_TIERS; i++)
		room[i] = sim->room[i % SIM_TIERS];
	spec.room = room;
	rc = placement_make(&sim->plan, &spec);
	free(room);
	return rc ? -1 : 0;
}

/* Each node keeps the first records of its share, the fastest tier first. */
static void place_shares(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->cluster->nodes; i++) {
		struct sim_share *share = &sim->shares[i];
		uint64_t record = share->first, end = share->first + share->records;

		share->kept_before = sim->kept;
		for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
			double room = (double)sim->room[tier], bytes;

			while (record < end &&
			       (bytes = sim_record_bytes(sim->job, record)) <= room) {
				room -= bytes;
				record++;
				share->kept[tier]++;
			}
		}
		sim->kept += share->kept[0] + share->kept[1];
	}
}

int sim_place(struct sim *sim)
{
	for (unsigned tier = 0; tier < SIM_TIERS; tier++)
		if (sim->policy->tiers & (POLICY_MEMORY << tier))
			sim->room[tier] = sim->cluster->room[SIM_MEMORY + tier];
	switch (sim->policy->place) {
	case POLICY_SHARE:
		place_shares(sim);
		return 0;
	case POLICY_READ:
		for (uint32_t i = 0; i < sim->cluster->nodes; i++)
			for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
				sim->nodes[i].room[tier] = (double)sim->room[tier];
				sim->nodes[i].full[tier] = UINT64_MAX;
			}
		return place_by_plan(sim, PLACEMENT_PER_NODE);
	case POLICY_FREQUENT:
		return place_by_plan(sim, PLACEMENT_PER_NODE);
	case POLICY_PLANNED:
		return place_by_plan(sim, PLACEMENT_GLOBAL);
	default:
		return 0;
	}
}

static enum sim_source own(unsigned tier)
{
	return tier ? SIM_OWN_SSD : SIM_OWN_MEMORY;
}

static enum sim_source peer(unsigned tier)
{
	return tier ? SIM_PEER_SSD : SIM_PEER_MEMORY;
}

static bool is_peer(enum sim_source source)
{
	return source == SIM_PEER_MEMORY || source == SIM_PEER_SSD;
}

static void consider(const struct sim *sim, struct choice *best, enum sim_source source,
		     uint32_t node, double bytes)
{
	unsigned streams = source == SIM_STORAGE ? sim->cluster->streams[SIM_STAGING] : 1;
	double seconds = sim_fetch(sim->cluster, source, streams, 1, bytes);

	if (seconds < best->seconds)
		*best = (struct choice){source, node, seconds};
}

static struct choice from_share(struct sim *sim, uint32_t node, uint64_t record, double bytes)
{
	struct choice best = {SIM_STORAGE, node, 1e300};
	uint32_t holder = (uint32_t)(record * sim->cluster->nodes / sim->job->records);
	const struct sim_share *share;
	unsigned tier;

	/* The quotient is at most one share too far. */
	while (sim->shares[holder].first > record)
		holder--;
	while (record >= sim->shares[holder].first + sim->shares[holder].records)
		holder++;
	share = &sim->shares[holder];
	record -= share->first;
	if (record >= share->kept[0] + share->kept[1] || (holder != node && !sim->policy->peers))
		return best;
	tier = record >= share->kept[0];
	record += share->first;
	if (sim->policy->filled_first || ready_test(sim->seen, record)) {
		consider(sim, &best, holder == node ? own(tier) : peer(tier), holder, bytes);
	} else {
		ready_set(sim->seen, record);
		sim->nodes[holder].load.written[tier] += bytes;
	}
	return best;
}

static struct choice from_frequent(struct sim *sim, uint32_t node, uint64_t record, double bytes,
				   uint64_t time)
{
	enum { HOLDERS = 256 };
	struct choice best = {SIM_STORAGE, node, 1e300};
	struct placement_holder holders[HOLDERS], *nearest = NULL, *mine = NULL;
	unsigned n = placement_holders(sim->plan, record, holders, HOLDERS);

	consider(sim, &best, SIM_STORAGE, node, bytes);
	/* All nodes ask the same one of the other holders. */
	for (unsigned i = 0; i < n && i < HOLDERS; i++)
		if (holders[i].node == node) {
			mine = &holders[i];
			if (sim_filled(sim, node, holders[i].tier, record, time))
				consider(sim, &best, own(holders[i].tier), node, bytes);
		} else if (!nearest || holders[i].tier < nearest->tier) {
			nearest = &holders[i];
		}
	if (nearest && sim_filled(sim, nearest->node, nearest->tier, record, time))
		consider(sim, &best, peer(nearest->tier), nearest->node, bytes);
	/* A node uses a record from a peer but does not keep it: its copy comes from storage. */
	if (mine && best.source == SIM_STORAGE)
		sim_fill_read(sim, node, mine->tier, record, bytes);
	return best;
}

/* Returns whether a node has read a record in an earlier epoch. */
static bool has_read(const struct sim *sim, uint32_t node, uint64_t record, uint32_t epoch)
{
	uint16_t room[PLACEMENT_READS_MOST];
	const uint16_t *readers = placement_readers(sim->plan, record, room);

	for (uint32_t e = 0; e < epoch; e++)
		if (readers[e] == node)
			return true;
	return false;
}

static struct choice from_plan(struct sim *sim, uint32_t node, uint64_t record, double bytes,
			       uint32_t epoch)
{
	struct choice best = {SIM_STORAGE, node, 1e300};
	struct sim_load *load = &sim->nodes[node].load;
	struct placement_holder home;
	bool has_home = placement_home(sim->plan, record, &home);
	int tier = placement_tier(sim->plan, (uint16_t)node, record);
	bool is_home = has_home && home.node == node;

	if (ready_test(sim->seen, record)) {
		if (tier >= 0 && (is_home || has_read(sim, node, record, epoch)))
			consider(sim, &best, own((unsigned)tier), node, bytes);
		else if (tier >= 0)
			load->written[tier] += bytes;
		if (has_home && !is_home)
			consider(sim, &best, peer(home.tier), home.node, bytes);
		return best;
	}
	ready_set(sim->seen, record);
	if (tier >= 0)
		load->written[tier] += bytes;
	if (has_home && !is_home) {
		load->pushed += bytes;
		sim->nodes[home.node].load.received += bytes;
		sim->nodes[home.node].load.written[home.tier] += bytes;
	}
	return best;
}

static struct choice from_read(struct sim *sim, uint32_t node, uint64_t record, double bytes,
			       uint32_t epoch, uint64_t time)
{
	struct choice best = {SIM_STORAGE, node, 1e300};
	struct sim_node *reader = &sim->nodes[node];
	uint16_t room[PLACEMENT_READS_MOST];
	const uint16_t *readers = placement_readers(sim->plan, record, room);
	uint64_t first;
	uint32_t e = 0;

	while (e < epoch && readers[e] != node)
		e++;
	if (e < epoch) {
		first = placement_next(sim->plan, record, PLACEMENT_NOBODY,
				       placement_time(sim->plan, e, 0));
		for (unsigned tier = 0; tier < SIM_TIERS; tier++)
			if (first < reader->full[tier]) {
				consider(sim, &best, own(tier), node, bytes);
				return best;
			}
		return best;
	}
	for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
		if (reader->full[tier] != UINT64_MAX)
			continue;
		if (bytes > reader->room[tier]) {
			reader->full[tier] = time;
			continue;
		}
		reader->room[tier] -= bytes;
		reader->load.written[tier] += bytes;
		ready_set(sim->seen, record);
		break;
	}
	return best;
}

void sim_read(struct sim *sim, uint32_t node, uint64_t record, uint32_t epoch, uint64_t time)
{
	double bytes = sim_record_bytes(sim->job, record);
	struct sim_load *load = &sim->nodes[node].load;
	struct choice choice = {SIM_STORAGE, node, 0};

	if (sim->policy->memory_only)
		choice.source = SIM_OWN_MEMORY;
	else if (sim->policy->place == POLICY_SHARE)
		choice = from_share(sim, node, record, bytes);
	else if (sim->policy->place == POLICY_FREQUENT)
		choice = from_frequent(sim, node, record, bytes, time);
	else if (sim->policy->place == POLICY_PLANNED)
		choice = from_plan(sim, node, record, bytes, epoch);
	else if (sim->policy->place == POLICY_READ)
		choice = from_read(sim, node, record, bytes, epoch, time);
	load->reads[choice.source]++;
	load->bytes[choice.source] += bytes;
	if (is_peer(choice.source))
		sim->nodes[choice.node].load.sent[choice.source == SIM_PEER_SSD] += bytes;
	if (choice.source == SIM_STORAGE) {
		sim->storage_bytes += bytes;
		if (sim->policy->late_misses) {
			load->late_bytes += bytes;
			load->late_reads++;
		}
	}
}
