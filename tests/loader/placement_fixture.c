/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how they are made. */
#include "placement_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

void made_by(struct made *made, const struct order_spec *order, uint32_t nodes)
{
	made->spec.room = made->room;
	made->spec.nodes = nodes;
	if (!made->spec.ranks)
		made->spec.ranks = nodes;
	if (!made->spec.tiers)
		made->spec.tiers = 1;
	if (!made->spec.unit_records)
		made->spec.unit_records = 1;
	if (!made->spec.unit_bytes)
		made->spec.unit_bytes = 1000;
	assert_int_equal(order_init(&made->spec.order, order), 0);
	assert_int_equal(placement_make(&made->plan, &made->spec), 0);
}

void made_shuffled(struct made *made, uint64_t records, uint32_t nodes, uint64_t room)
{
	struct order_spec order = {
		.seed = 11,
		.records = records,
		.batch = nodes * 4,
		.policy = ORDER_SHUFFLE,
	};

	for (uint32_t i = 0; i < nodes; i++)
		made->room[i] = room;
	made_by(made, &order, nodes);
}

/* Who reads what, found by walking the epochs forward. reads[unit][node]. */
unsigned *made_reads(const struct made *made)
{
	const struct order *order = &made->spec.order;
	unsigned *reads =
		calloc(placement_spec_units(&made->spec) * made->spec.nodes + 1, sizeof(*reads));

	assert_non_null(reads);
	for (uint32_t e = 0; e < made->spec.epochs; e++) {
		struct order_epoch at;
		uint64_t end = order_batches(order) * order->spec.batch;

		order_begin(&at, order, made->spec.first_epoch + e);
		/* A record that a wrapped epoch brings again counts once. */
		if (end > order->spec.records)
			end = order->spec.records;
		for (uint64_t position = 0; position < end; position++)
			reads[order_record(&at, position) / made->spec.unit_records *
				      made->spec.nodes +
			      placement_node(made->plan, position)]++;
	}
	return reads;
}

static bool is_holder(uint16_t node, const struct placement_holder *holders, unsigned n)
{
	while (n && holders[n - 1].node != node)
		n--;
	return n;
}

struct made_totals made_total(const struct made *made)
{
	const struct placement_spec *spec = &made->spec;
	struct made_totals totals = {.units = placement_spec_units(&made->spec)};
	struct placement_holder holders[NODES_MOST];
	uint16_t room[PLACEMENT_READS_MOST];

	for (uint64_t unit = 0; unit < totals.units; unit++) {
		uint64_t bytes =
			spec->bytes_of ? spec->bytes_of(spec->context, unit) : spec->unit_bytes;
		const uint16_t *readers = placement_readers(made->plan, unit, room);
		unsigned copies = placement_holders(made->plan, unit, holders, NODES_MOST);

		totals.bytes += bytes;
		totals.kept += copies > 0;
		totals.copies += copies;
		totals.copies_bytes += copies * bytes;
		for (unsigned i = 0; i < spec->epochs * spec->unit_records; i++) {
			bool local = is_holder(readers[i], holders, copies);

			totals.reads += readers[i] != PLACEMENT_NOBODY;
			totals.local += local;
			totals.elsewhere += readers[i] != PLACEMENT_NOBODY && copies && !local;
		}
	}
	return totals;
}
