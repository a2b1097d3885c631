/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the two meta pages of a data file can be believed. */
#ifndef LMDBIO_TOOLS_CHECK_META_H
#define LMDBIO_TOOLS_CHECK_META_H

#include "check_report.h"

#include "format/layout.h"
#include "format/meta.h"
#include "io/io.h"

#include <stdbool.h>

struct check_metas {
	enum format format;
	struct meta meta[FORMAT_METAS];
	bool sound[FORMAT_METAS]; /* it can be read and its page size is valid */
	bool rolled_back;         /* the older one belongs to a transaction that was taken back */
	uint32_t page_size;       /* 0: not known */
	uint64_t file_size;       /* bytes */
	int newest;               /* the newest sound one, or -1 */
};

/* Reads and judges both meta pages, and reports findings. Sets the report's page size. If
 * metas->newest is -1, nothing else of the file can be judged. Returns 0, ENOTSUP if this project
 * does not read the file's format (report->unchecked says which), EBADMSG if the findings are
 * reported and there is nothing more to judge, or the errno of a read. */
int check_metas(struct check_report *report, struct io *io, struct check_metas *metas);

#endif
