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
	bool sound[FORMAT_METAS]; /* it can be read and its page size is one */
	bool rolled_back;         /* the older one is that of a transaction which was taken back */
	uint32_t page_size;       /* 0: not known */
	uint64_t file_size;       /* bytes */
	int newest;               /* of the sound ones, or -1 */
};

/* Reads and judges both. What is wrong with them goes to the report, whose page size is then known,
 * and nothing else of the file can be judged when metas->newest is -1. Returns 0, ENOTSUP when the
 * file is in a format that is none of this project's (report->unchecked says which), EBADMSG when
 * what is wrong has been told and there is nothing more to judge, or the errno of a read. */
int check_metas(struct check_report *report, struct io *io, struct check_metas *metas);

#endif
