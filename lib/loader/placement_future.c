/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says when a unit is wanted again.
 *
 * The inverse of the order answers for one record and one epoch in constant time, so no list of the
 * future is kept.
 */
#include "loader/placement_private.h"

uint64_t placement_time(const struct placement *plan, uint64_t epoch, uint64_t position)
{
	return (epoch - plan->spec.first_epoch) * plan->positions + position;
}

/* When a record is read next, not before `from`, by `node` or by any. */
static uint64_t record_next(const struct placement *plan, uint64_t record, uint16_t node,
			    uint64_t from)
{
	for (uint64_t e = from / plan->positions; e < plan->spec.epochs; e++) {
		uint64_t position = order_position(&plan->epochs[e], record);
		uint64_t time = e * plan->positions + position;

		if (position < plan->positions && time >= from &&
		    (node == PLACEMENT_NOBODY || placement_node(plan, position) == node))
			return time;
	}
	return PLACEMENT_NEVER;
}

uint64_t placement_next(const struct placement *plan, uint64_t unit, uint16_t node, uint64_t from)
{
	uint64_t record = unit * plan->spec.unit_records, next = PLACEMENT_NEVER;
	uint64_t records = plan->spec.order.spec.records;

	if (!plan->positions)
		return PLACEMENT_NEVER;
	for (uint32_t i = 0; i < plan->spec.unit_records && record + i < records; i++) {
		uint64_t time = record_next(plan, record + i, node, from);

		if (time < next)
			next = time;
	}
	return next;
}
