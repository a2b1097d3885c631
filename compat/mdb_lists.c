/* SPDX-License-Identifier: OLDAP-2.8 */
/* The exported calls on LMDB's lists of page numbers, internals that liblmdb.so.0 exports and some
 * programs link to. They have no header of their own; the names and types are the library's. */
#include "handles.h"

#define F(result, name, parameters, arguments) result name parameters;
#define P(name, parameters, arguments)	       void name parameters;
#include "origin/origin_functions.def"
#undef F
#undef P

EXPORT unsigned mdb_midl_search(size_t *ids, size_t id)
{
	return caller_origin(CALLER)->call.mdb_midl_search(ids, id);
}

EXPORT size_t *mdb_midl_alloc(int num)
{
	return caller_origin(CALLER)->call.mdb_midl_alloc(num);
}

EXPORT void mdb_midl_free(size_t *ids)
{
	caller_origin(CALLER)->call.mdb_midl_free(ids);
}

EXPORT void mdb_midl_shrink(size_t **idp)
{
	caller_origin(CALLER)->call.mdb_midl_shrink(idp);
}

EXPORT int mdb_midl_need(size_t **idp, unsigned num)
{
	return caller_origin(CALLER)->call.mdb_midl_need(idp, num);
}

EXPORT int mdb_midl_append(size_t **idp, size_t id)
{
	return caller_origin(CALLER)->call.mdb_midl_append(idp, id);
}

EXPORT int mdb_midl_append_list(size_t **idp, size_t *app)
{
	return caller_origin(CALLER)->call.mdb_midl_append_list(idp, app);
}

EXPORT int mdb_midl_append_range(size_t **idp, size_t id, unsigned n)
{
	return caller_origin(CALLER)->call.mdb_midl_append_range(idp, id, n);
}

EXPORT void mdb_midl_xmerge(size_t *idl, size_t *merge)
{
	caller_origin(CALLER)->call.mdb_midl_xmerge(idl, merge);
}

EXPORT void mdb_midl_sort(size_t *ids)
{
	caller_origin(CALLER)->call.mdb_midl_sort(ids);
}

EXPORT unsigned mdb_mid2l_search(void *ids, size_t id)
{
	return caller_origin(CALLER)->call.mdb_mid2l_search(ids, id);
}

EXPORT int mdb_mid2l_insert(void *ids, void *id)
{
	return caller_origin(CALLER)->call.mdb_mid2l_insert(ids, id);
}

EXPORT int mdb_mid2l_append(void *ids, void *id)
{
	return caller_origin(CALLER)->call.mdb_mid2l_append(ids, id);
}
