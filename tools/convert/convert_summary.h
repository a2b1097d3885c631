/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints the summary of a conversion. */
#ifndef LMDBIO_TOOLS_CONVERT_SUMMARY_H
#define LMDBIO_TOOLS_CONVERT_SUMMARY_H

#include "convert_run.h"

/* Prints one line, or several if convert->verbose is 2, on standard error. */
void summary_tell(const struct convert *convert, const struct convert_result *result);

/* Prints one JSON object on standard output. `status` will be the exit status. */
void summary_json(const struct convert *convert, const struct convert_result *result, int status);

#endif
