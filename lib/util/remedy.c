/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what a user can do about an errno of a file. */
#include "util/remedy.h"

#include <errno.h>
#include <stddef.h>

static const struct {
	int rc;
	const char *remedy;
} remedies[] = {
	{ENOENT, "check the path"},
	{ENOTDIR, "check the path"},
	{ELOOP, "check the path"},
	{ENAMETOOLONG, "check the path"},
	{EISDIR, "name a file"},
	{EACCES, "your user may not do that: ask the file's owner"},
	{EROFS, "name another place"},
	{ENOSPC, "make room, or name another place"},
	{EDQUOT, "make room, or name another place"},
	{EMFILE, "ulimit -n allows too few"},
	{ENFILE, "this machine has too many files open: try later, or raise fs.file-max"},
	{ENOMEM, "the machine or ulimit -v has too little"},
	{EIO, "the disk or the file system fails, or the file was cut off meanwhile"},
};

const char *remedy_find(int rc)
{
	for (size_t i = 0; i < sizeof(remedies) / sizeof(*remedies); i++)
		if (remedies[i].rc == rc)
			return remedies[i].remedy;
	return NULL;
}
