/* SPDX-License-Identifier: OLDAP-2.8 */
/* The order in which pieces are tried to be left out. */
#include "shrink.h"

#include <stdlib.h>
#include <string.h>

unsigned shrink(struct read_operation *operations, unsigned count, unsigned tries,
		shrink_try *still_fails, void *context)
{
	struct read_operation *rest = malloc(count * sizeof *rest);
	unsigned piece = count / 2 > 0 ? count / 2 : 1, length;
	bool removed = true;

	/* halves, quarters ... single operations, until a whole pass of single ones removes nothing
	 */
	while (rest && tries > 0 && (piece > 1 || removed)) {
		removed = false;
		for (unsigned at = 0; at < count && tries > 0;) {
			unsigned end = at + piece < count ? at + piece : count;
			unsigned kept = count - (end - at);

			memcpy(rest, operations, at * sizeof *rest);
			memcpy(rest + at, operations + end, (count - end) * sizeof *rest);
			tries--;
			if (kept > 0 && still_fails(context, rest, kept, &length)) {
				count = length < kept ? length : kept;
				memcpy(operations, rest, count * sizeof *rest);
				removed = true;
			} else {
				at = end;
			}
		}
		piece = piece > 1 ? piece / 2 : 1;
	}
	free(rest);
	return count;
}
