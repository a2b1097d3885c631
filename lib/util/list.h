/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes an item out of a list that is linked in one direction. */
#ifndef LMDBIO_UTIL_LIST_H
#define LMDBIO_UTIL_LIST_H

/* `first`: the list; `next`: the field that links its items. If the item is not in the list, nothing
 * happens. */
#define list_remove(first, item, next)                                                             \
	do {                                                                                       \
		__typeof__(first) *link_ = &(first), item_ = (item);                               \
                                                                                                   \
		while (*link_ && *link_ != item_)                                                  \
			link_ = &(*link_)->next;                                                   \
		if (*link_)                                                                        \
			*link_ = item_->next;                                                      \
	} while (0)

#endif
