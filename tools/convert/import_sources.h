/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the kinds of sources of an import.
 *
 * Each function puts all records of one kind of source into an import. convert->from says which
 * kind; convert->sources are the files.
 */
#ifndef LMDBIO_TOOLS_IMPORT_SOURCES_H
#define LMDBIO_TOOLS_IMPORT_SOURCES_H

#include "import_labels.h"
#include "import_records.h"

/* Imports the files below the directory convert->sources[0], in the order of their keys. Key: the
 * path from there. Value: the file's bytes. */
int import_tree(struct import *import, struct convert *convert, struct labels *labels);

/* Imports the lines of Caffe's list convert->sources[0]. Key: the line's number from 0 in eight
 * digits, "_" and the path. Value: a Datum. Paths begin at convert->root, or else in the working
 * directory, and stay below it unless convert->limits.outside. */
int import_images(struct import *import, struct convert *convert);

/* Sets convert->limits.inside: from now on a file is read only if it lies below `directory` with
 * all links followed, unless convert->limits.outside. */
int import_stay_inside(struct convert *convert, const char *directory);

/* Imports the members of the tars convert->sources. Key: the member's name. Value: its bytes. */
int import_tar(struct import *import, struct convert *convert, struct labels *labels);

/* The same, but members of one sample (names that agree up to the first dot of their last part)
 * share a number, counted from 0 through all tars: "0000000012.jpg", "0000000012.cls", and
 * "0000000012.__key__" with their common name. */
int import_webdataset(struct import *import, struct convert *convert);

/* Puts a record with its label: inside the Datum, or beside it under "KEY.cls". `record` is as for
 * import_put(); its value is taken in any case. */
int import_put_labelled(struct import *import, struct convert *convert, struct labels *labels,
			struct import_record *record);

#endif
