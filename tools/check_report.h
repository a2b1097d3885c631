/* SPDX-License-Identifier: OLDAP-2.8 */
/* Collects the findings of a check, and prints them for a person or a program. */
#ifndef LMDBIO_TOOLS_CHECK_REPORT_H
#define LMDBIO_TOOLS_CHECK_REPORT_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum check_severity {
	CHECK_WARNING, /* worth knowing; readers and writers can go on */
	CHECK_DAMAGE,
};

struct check_report {
	bool quiet;         /* print nothing */
	json_t *json;       /* printed at the end, or NULL: print lines at once */
	uint64_t most;      /* how many findings to print one by one */
	uint32_t page_size; /* the unit of page numbers in findings; 0: not known */
	bool checksummed;   /* the data is a container's, whose checksums cover every byte */
	bool sums, summed;  /* the file's pages have checksums; the check verified them */
	uint64_t damages, warnings;
	uint64_t told;         /* findings printed, of both kinds */
	const char *unchecked; /* why a part could not be checked, or NULL */
};

/* Opens the report for text, or for JSON with the known facts about `path`. Returns 0 or ENOMEM. */
int check_report_open(struct check_report *report, const char *path, bool json);
void check_report_close(struct check_report *report);

/* Reports a finding at a byte of the data file (of a container: of the data in it), or of the
 * container itself (`label` says so). The text is one line without a full stop. */
void check_found(struct check_report *report, enum check_severity severity, const char *label,
		 uint64_t byte, const char *format, ...) __attribute__((format(printf, 5, 6)));
void check_found_list(struct check_report *report, enum check_severity severity, const char *label,
		      uint64_t byte, const char *format, va_list arguments);

/* Prints the last line, or the JSON object. Returns the exit status: TOOL_PROBLEM with damage, else
 * TOOL_FAILED if `unchecked` is set, else TOOL_OK. */
int check_report_end(struct check_report *report, const char *path);

#endif
