/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges the share of its time that a program has waited, and knows a remedy for each common
 * errno. */
#include "util/phrases.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* Returns 0 to 100, rounded: the number that is printed is the number that is judged. */
static unsigned percent_of(uint64_t waited, uint64_t of)
{
	return of ? (unsigned)((double)waited * 100 / (double)of + 0.5) : 0;
}

size_t verdict_format(char *line, size_t size, uint64_t waited_ns, uint64_t of_ns)
{
	uint64_t of = of_ns > waited_ns ? of_ns : waited_ns;
	unsigned percent = percent_of(waited_ns, of);
	int length = snprintf(line, size, "I/O is %syour bottleneck: waited %.3f of %.3f s (%u %%)",
			      percent < VERDICT_PERCENT ? "not " : "", (double)waited_ns / 1e9,
			      (double)of / 1e9, percent);

	return length < 0 ? 0 : (size_t)length;
}

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
	{EFBIG, "ulimit -f or the file system allows no file of this length"},
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
