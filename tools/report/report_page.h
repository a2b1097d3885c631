/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lays out the counters of processes as one HTML page. */
#ifndef LMDBIO_TOOLS_REPORT_PAGE_H
#define LMDBIO_TOOLS_REPORT_PAGE_H

#include "report_total.h"

/* Prints the whole page on standard output. Sorts the processes: the longest wait first. */
void report_page(struct report_process *processes, size_t count);

#endif
