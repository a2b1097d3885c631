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
		calloc(placement_units(made->plan) * made->spec.nodes + 1, sizeof(*reads));

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
