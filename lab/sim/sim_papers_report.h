/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the jobs of LMDBIO's papers, published and modelled. */
#ifndef LMDBIO_LAB_SIM_PAPERS_REPORT_H
#define LMDBIO_LAB_SIM_PAPERS_REPORT_H

#include "sim_requests.h"

/* Prints tables of all plots, and of lmdbio at the same scales and beyond. Both return 0, EINVAL or
 * ENOMEM. */
int papers_print(void);
/* Draws a plot as SVG: points as published, lines as modelled. */
int papers_draw(const struct papers_plot *plot);

/* Prints strided readers' requests to storage, way by way. */
int requests_print(const struct requests_job *job);

#endif
