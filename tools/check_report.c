/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints a finding, as a line and as JSON. */
#include "check_report.h"

#include "tool_common.h"
#include "tool_json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static const char *const severities[] = {
	[CHECK_WARNING] = "warning",
	[CHECK_DAMAGE] = "damage",
};

int check_report_open(struct check_report *report, const char *path, bool json)
{
	if (!json)
		return 0;
	report->json = json_pack("{ss, so, s[]}", "schema", "lmdbio-check/1", "path",
				 tool_json_text(path), "findings");
	return report->json ? 0 : ENOMEM;
}

void check_report_close(struct check_report *report)
{
	json_decref(report->json);
	report->json = NULL;
}

static void found_json(struct check_report *report, enum check_severity severity, const char *label,
		       uint64_t byte, const char *what)
{
	json_t *page = report->page_size ? tool_json_number(byte / report->page_size) : json_null();

	json_array_append_new(json_object_get(report->json, "findings"),
			      json_pack("{ss, so, so, so, so}", "severity", severities[severity],
					"where", tool_json_text(label), "page", page, "byte",
					tool_json_number(byte), "what", tool_json_text(what)));
}

void check_found_list(struct check_report *report, enum check_severity severity, const char *label,
		      uint64_t byte, const char *format, va_list arguments)
{
	char what[512];

	if (severity == CHECK_DAMAGE)
		report->damages++;
	else
		report->warnings++;
	if (report->quiet || report->told == report->most)
		return;
	report->told++;
	vsnprintf(what, sizeof(what), format, arguments);
	if (report->json) {
		found_json(report, severity, label, byte, what);
		return;
	}
	printf("%s: ", severities[severity]);
	if (report->page_size)
		printf("page %" PRIu64 ", ", byte / report->page_size);
	printf("byte %" PRIu64 ": %s: %s\n", byte, label, what);
}

void check_found(struct check_report *report, enum check_severity severity, const char *label,
		 uint64_t byte, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	check_found_list(report, severity, label, byte, format, arguments);
	va_end(arguments);
}

static const char *status_name(int status)
{
	return status == TOOL_OK ? "intact" : status == TOOL_PROBLEM ? "damaged" : "unchecked";
}

/* Names the evidence for the verdict "intact": a plain data file does not show a changed value. */
static const char *verified(const struct check_report *report)
{
	return report->checksummed ? "every byte" : report->summed ? "every page" : "structure";
}

/* Says the same in words, behind the verdict. */
static const char *verified_text(const struct check_report *report)
{
	if (report->checksummed)
		return ": every byte is verified by its checksum";
	if (report->summed)
		return ": every page in use is verified by its checksum";
	return report->sums ? "; its checksums are not verified without --checksum"
			    : "; LMDB has no checksums";
}

int check_report_end(struct check_report *report, const char *path)
{
	uint64_t all = report->damages + report->warnings;
	int status = report->damages ? TOOL_PROBLEM : report->unchecked ? TOOL_FAILED : TOOL_OK;

	if (report->quiet)
		return status;
	if (report->json) {
		json_object_set_new(report->json, "status", json_string(status_name(status)));
		json_object_set_new(report->json, "verified",
				    status == TOOL_OK ? json_string(verified(report))
						      : json_null());
		json_object_set_new(report->json, "damages", tool_json_number(report->damages));
		json_object_set_new(report->json, "warnings", tool_json_number(report->warnings));
		json_object_set_new(report->json, "unchecked", tool_json_text(report->unchecked));
		json_dumpf(report->json, stdout, JSON_INDENT(2));
		putchar('\n');
		return status;
	}
	if (all > report->told)
		printf("... and %" PRIu64 " more\n", all - report->told);
	printf("%s: %s%s", path, status == TOOL_OK && !report->checksummed && !report->summed ? "structure " : "",
	       status_name(status));
	if (report->damages)
		printf(", %" PRIu64 " finding%s of damage", report->damages,
		       report->damages == 1 ? "" : "s");
	if (report->warnings)
		printf(", %" PRIu64 " warning%s", report->warnings,
		       report->warnings == 1 ? "" : "s");
	if (report->unchecked)
		printf("%s%s", status == TOOL_FAILED ? ": " : ", not all of it was checked: ",
		       report->unchecked);
	if (status == TOOL_OK)
		fputs(verified_text(report), stdout);
	putchar('\n');
	return status;
}
