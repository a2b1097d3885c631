/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the steps from the options to a file under its final name. */
#ifndef LMDBIO_TOOLS_CONVERT_RUN_H
#define LMDBIO_TOOLS_CONVERT_RUN_H

#include "convert.h"

/* The results, for the summary. */
struct convert_result {
	const char *made;    /* "container" or "lmdb" */
	char *path;          /* the final file; malloc()ed */
	uint64_t data;       /* bytes of data.mdb */
	uint64_t file;       /* bytes of the final file */
	uint64_t resumed;    /* bytes of data that existed before */
	uint64_t chunks;     /* of a container that was written */
	uint64_t txnid;      /* of the source's snapshot */
	uint64_t seconds_ns; /* nanoseconds of the conversion, without verification; if the target
				was only verified, of that */
	bool relaid;
	bool counted;  /* the conversion has counted all records */
	bool verified; /* all was read back and compared */
	bool written;  /* the target was written; else only verified */
	bool busy;     /* a writer changed the source meanwhile */
};

/* Runs the request. Sets *result as far as the work came. */
int convert_run(struct convert *convert, struct convert_result *result);

#endif
