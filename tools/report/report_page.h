/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lays out what processes have counted as one HTML page. */
#ifndef LMDBIO_TOOLS_REPORT_PAGE_H
#define LMDBIO_TOOLS_REPORT_PAGE_H

#include "report_total.h"

/* The whole page, onto standard output. It sorts the processes: first what waited most. */
void report_page(struct report_process *processes, size_t count);

#endif
