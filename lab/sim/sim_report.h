/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows the results of a simulation. */
#ifndef LMDBIO_TOOLS_SIM_REPORT_H
#define LMDBIO_TOOLS_SIM_REPORT_H

#include "sim.h"

#include <jansson.h>

/* Prints the cluster and job, and the head of the table. */
void sim_print_head(const struct sim_preset *preset);
/* Prints a policy's line; `bound` is the time without I/O. */
void sim_print_result(const struct policy *policy, const struct sim_preset *preset,
		      const struct sim_result *result, double bound);
/* Prints all presets and policies. */
void sim_print_list(void);

/* Return the same as JSON: cluster and job, and a policy's result. NULL: no memory. */
json_t *sim_json_head(const struct sim_preset *preset);
json_t *sim_json_result(const struct policy *policy, const struct sim_preset *preset,
			const struct sim_result *result, double bound);

#endif
