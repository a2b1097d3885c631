/* SPDX-License-Identifier: OLDAP-2.8 */
/* The kinds of sources that records are imported from.
 *
 * Each function puts all records of one kind of source into an import. They are told apart by
 * convert->from; convert->sources are their files.
 */
#ifndef LMDBIO_TOOLS_IMPORT_SOURCES_H
#define LMDBIO_TOOLS_IMPORT_SOURCES_H

#include "import_labels.h"
#include "import_records.h"

/* The files below the directory convert->sources[0], in the order of their keys: key, the path from
 * there; value, the file's bytes. */
int import_tree(struct import *import, struct convert *convert, struct labels *labels);

/* The lines of Caffe's list convert->sources[0]: key, the line's number from 0 in eight digits, "_"
 * and the path; value, a Datum. Paths begin at convert->root, or else where we are, and stay below
 * it unless convert->limits.outside. */
int import_images(struct import *import, struct convert *convert);

/* Sets convert->limits.inside: from now on files are read only if they lie below `directory` when
 * all links in their names are followed, unless convert->limits.outside. */
int import_stay_inside(struct convert *convert, const char *directory);

/* The members of the tars convert->sources: key, the member's name; value, its bytes. */
int import_tar(struct import *import, struct convert *convert, struct labels *labels);

/* The same, but members of one sample (names that agree up to the first dot of their last part) get
 * a number in common, counted from 0 through all tars: "0000000012.jpg", "0000000012.cls", and
 * "0000000012.__key__" with the name in common. */
int import_webdataset(struct import *import, struct convert *convert);

/* Puts a record with its label: inside of the Datum, or beside it under "KEY.cls". `record` is as
 * for import_put(); its value is taken in any case. */
int import_put_labelled(struct import *import, struct convert *convert, struct labels *labels,
			struct import_record *record);

#endif
