/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sums waits over spans of time, at several scales. */
#include "util/stats_private.h"

/* Each scale's spans are four times as long as those of the one before. */
static uint64_t span_ns(unsigned scale)
{
	return UINT64_C(1000000000) << 2 * scale;
}

unsigned stats_spans_scale(uint64_t ns)
{
	unsigned scale = 0;

	while (scale + 1 < STATS_SCALES && ns / span_ns(scale) >= STATS_SPANS)
		scale++;
	return scale;
}

void stats_spans_add(struct stats_slot *slot, uint64_t now, uint64_t ns)
{
	uint64_t opened = atomic_load_explicit(&slot->opened_ns, memory_order_relaxed);
	uint64_t at = opened && now > opened ? now - opened : 0;

	/* Scales that are too fine for this moment have no span for it, and are not read any more.
	 */
	for (unsigned scale = stats_spans_scale(at); scale < STATS_SCALES; scale++) {
		uint64_t span = at / span_ns(scale);

		span = span < STATS_SPANS ? span : STATS_SPANS - 1;
		atomic_fetch_add_explicit(&slot->spans[scale][span], ns, memory_order_relaxed);
	}
}

void stats_spans_begin(struct stats_sum *sum, uint64_t opened_ns, uint64_t now)
{
	sum->opened_ns = opened_ns;
	sum->scale = stats_spans_scale(now > opened_ns ? now - opened_ns : 0);
}

/* The span of a time axis for span i of a process that has opened so many nanoseconds later. */
static uint64_t span_at(uint64_t offset, unsigned scale, unsigned i)
{
	uint64_t to = offset / span_ns(scale) + i;

	return to < STATS_SPANS ? to : STATS_SPANS - 1;
}

void stats_spans_keep(struct stats_head *head, const struct stats_slot *slot)
{
	uint64_t opened = atomic_load(&slot->opened_ns), first = atomic_load(&head->opened_ns);
	uint64_t offset = opened > first ? opened - first : 0;

	for (unsigned n = 0; opened && first && n < STATS_SCALES * STATS_SPANS; n++) {
		unsigned scale = n / STATS_SPANS, i = n % STATS_SPANS;
		uint64_t ns = atomic_load(&slot->spans[scale][i]);

		if (ns)
			atomic_fetch_add(&head->past_spans[scale][span_at(offset, scale, i)], ns);
	}
}

void stats_spans_sum_kept(const struct stats_head *head, struct stats_sum *sum)
{
	for (unsigned i = 0; i < STATS_SPANS; i++)
		sum->spans[i] += atomic_load(&head->past_spans[sum->scale][i]);
}

void stats_spans_sum(const struct stats_slot *slot, struct stats_sum *sum)
{
	uint64_t opened = atomic_load_explicit(&slot->opened_ns, memory_order_relaxed);
	uint64_t offset = opened > sum->opened_ns ? opened - sum->opened_ns : 0;

	for (unsigned i = 0; opened && sum->opened_ns && i < STATS_SPANS; i++)
		sum->spans[span_at(offset, sum->scale, i)] +=
			atomic_load_explicit(&slot->spans[sum->scale][i], memory_order_relaxed);
}
