/* SPDX-License-Identifier: OLDAP-2.8 */
/* Collects what a check has found, and tells a person or a program. */
#ifndef LMDBIO_TOOLS_CHECK_REPORT_H
#define LMDBIO_TOOLS_CHECK_REPORT_H

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

enum check_severity {
	CHECK_WARNING, /* worth knowing; readers and writers are not hurt */
	CHECK_DAMAGE,
};

struct check_report {
	bool quiet;         /* nothing is printed */
	json_t *json;       /* the object that is printed at the end, or NULL: lines at once */
	uint64_t most;      /* findings that are told one by one */
	uint32_t page_size; /* of which pages are counted; 0: not known */
	bool checksummed;   /* the data is a container's, whose checksums leave no byte unseen */
	bool sums, summed;  /* the file's pages have checksums; they were verified */
	uint64_t damages, warnings;
	uint64_t told;         /* of both */
	const char *unchecked; /* why something could not be looked at, or NULL */
};

/* Opens it for text, or for JSON with what is known of `path`. Returns 0 or ENOMEM. */
int check_report_open(struct check_report *report, const char *path, bool json);
void check_report_close(struct check_report *report);

/* A finding at a byte of the data file (of a container: of the data in it), or of the container
 * itself
 * (`label` says so). One line without a full stop. */
void check_found(struct check_report *report, enum check_severity severity, const char *label,
		 uint64_t byte, const char *format, ...) __attribute__((format(printf, 5, 6)));
void check_found_list(struct check_report *report, enum check_severity severity, const char *label,
		      uint64_t byte, const char *format, va_list arguments);

/* The last line, or the JSON object. Returns the exit status: TOOL_OK, TOOL_PROBLEM when there is
 * damage, else TOOL_FAILED when `unchecked` is set. */
int check_report_end(struct check_report *report, const char *path);

#endif
