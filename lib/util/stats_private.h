/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares how the files of the counters open a table and read a slot. */
#ifndef LMDBIO_UTIL_STATS_PRIVATE_H
#define LMDBIO_UTIL_STATS_PRIVATE_H

#include "util/stats_table.h"

/* Whether an entry of a folder of descriptors is a memfd with a table's name. */
bool stats_link_is_memfd(int directory, const char *name);

/* Opens and maps the table that such an entry leads to. Returns as stats_table_join(). */
int stats_table_open(struct stats_table *table, int directory, const char *name, bool writes);

/* Returns how many slots, from the first on, may have an owner. */
unsigned stats_table_given(const struct stats_table *table);

/* Returns what the slot's present process has counted, with what the kernel has read for it. */
uint64_t stats_slot_value(const struct stats_slot *slot, unsigned counter);

/* Records what the kernel has read for the slot's process: `pid`, or 0: this one. */
void stats_slot_look(struct stats_slot *slot, pid_t pid);
/* Adds a wait of the slot's process for `ns`, until `now`, after its first open. */
void stats_spans_add(struct stats_slot *slot, uint64_t now, uint64_t ns);

/* Returns the finest scale whose spans cover so many nanoseconds, or the coarsest. */
unsigned stats_spans_scale(uint64_t ns);

/* Gives a sum a time axis from the first open on. */
void stats_spans_begin(struct stats_sum *sum, uint64_t opened_ns, uint64_t now);

/* Adds a slot's waits over time on the sum's time axis, if it has one. */
void stats_spans_sum(const struct stats_slot *slot, struct stats_sum *sum);

#endif
