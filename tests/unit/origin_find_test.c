/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests to which original a call from inside the library belongs: to that of the function that the
 * thread is in, until the function returns. Tests also that a module may go while its LMDB is
 * looked for. */
#include "origin/origin_find.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The library's code is linked into this program, so a call from here counts as one from inside. */
__attribute__((noinline)) static const struct origin *inside(void)
{
	return origin_of(__builtin_extract_return_addr(__builtin_return_address(0)));
}

static void *inside_other(void *found)
{
	*(const struct origin **)found = inside();
	return NULL;
}

static void call_when_inside_a_copy_then_its_original_and_none_after(void **state)
{
	const struct origin *built_in = origin_built_in();
	struct origin other = *built_in;
	const struct origin *elsewhere = NULL;
	pthread_t thread;

	(void)state;
	assert_ptr_equal(inside(), built_in);
	assert_ptr_equal(origin_enter(&other), &other);
	assert_ptr_equal(inside(), &other);
	assert_int_equal(pthread_create(&thread, NULL, inside_other, &elsewhere), 0);
	pthread_join(thread, NULL);
	assert_ptr_equal(elsewhere, built_in);
	/* The original's function calls another one of the original by name. */
	origin_enter(&other);
	assert_int_equal(origin_leave(13), 13);
	assert_ptr_equal(inside(), &other);
	assert_int_equal(origin_leave(0), 0);
	assert_ptr_equal(inside(), built_in);
}

static void *goes;   /* the module that is unloaded before the next dlopen() */
static char *wanted; /* the name that dlopen() was given then */

/* Replaces the C library's function: as if another thread unloaded the module at this moment. */
void *dlopen(const char *name, int mode)
{
	void *(*next)(const char *name, int mode);

	*(void **)&next = dlsym(RTLD_NEXT, "dlopen");
	if (goes && mode & RTLD_NOLOAD) {
		assert_int_equal(dlclose(goes), 0);
		goes = NULL;
		wanted = strdup(name);
	}
	return next(name, mode);
}

static void module_when_it_goes_while_it_is_looked_at_then_built_in(void **state)
{
	struct link_map *map;
	const void *address;
	char *name;

	(void)state;
	goes = dlopen("libBrokenLocale.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!goes)
		skip();
	assert_int_equal(dlinfo(goes, RTLD_DI_LINKMAP, &map), 0);
	address = map->l_ld;
	name = strdup(map->l_name);
	assert_ptr_equal(origin_at(address), origin_built_in());
	assert_null(goes);
	assert_string_equal(wanted, name);
	free(wanted);
	free(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(module_when_it_goes_while_it_is_looked_at_then_built_in),
		cmocka_unit_test(call_when_inside_a_copy_then_its_original_and_none_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
