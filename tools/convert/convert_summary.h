/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the summary of a conversion. */
#ifndef LMDBIO_TOOLS_CONVERT_SUMMARY_H
#define LMDBIO_TOOLS_CONVERT_SUMMARY_H

#include "convert_run.h"

/* One line or, with convert->verbose of 2, some, onto standard error. */
void summary_tell(const struct convert *convert, const struct convert_result *result);

/* One JSON object onto standard output. `status` is the exit status to be. */
void summary_json(const struct convert *convert, const struct convert_result *result, int status);

#endif
