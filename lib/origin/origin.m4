dnl SPDX-License-Identifier: OLDAP-2.8
dnl Finds out whether the system's liblmdb.a can live inside a shared library.
dnl
dnl Debian's archive is compiled for PIE, not PIC. Its one relocation that a shared object cannot
dnl have is against libc's `stderr`; renamed to a hidden variable of ours it links. Other systems'
dnl archives may need more, so the recipe itself is tried here, and dlopen is the second choice.

dnl LMDBIO_ORIGIN_FIND(VARIABLE, FILE): the file in the first folder that has it: those of -L in LDFLAGS, that of
dnl pkg-config's lmdb, those of the compiler. The bare name if none has.
AC_DEFUN([LMDBIO_ORIGIN_FIND], [
$1=
for lmdbio_word in $LDFLAGS -L"`$PKG_CONFIG --variable=libdir lmdb 2>/dev/null`"; do
	AS_CASE([$lmdbio_word], [-L/*],
		[AS_IF([test -z "[$]$1" && test -e "${lmdbio_word#-L}/$2"], [$1=${lmdbio_word#-L}/$2])])
done
AS_IF([test -z "[$]$1"], [$1=`$CC -print-file-name=$2`])
])

AC_DEFUN([LMDBIO_ORIGIN], [
AC_ARG_VAR([LMDB_ARCHIVE], [the original LMDB's static library])
AS_IF([test -n "$with_origin_archive"], [LMDB_ARCHIVE=$with_origin_archive])
AS_IF([test -z "$LMDB_ARCHIVE"], [LMDBIO_ORIGIN_FIND([LMDB_ARCHIVE], [liblmdb.a])])
origin_archive_works=no
AS_IF([test "x$with_origin" != xdlopen], [
	AC_MSG_CHECKING([whether $LMDB_ARCHIVE can be held under private names])
	mkdir -p conftest.origin
	AS_IF([sh "$srcdir/lib/origin/private_names.sh" "$NM_TOOL" "$OBJCOPY" "$LMDB_ARCHIVE" \
			conftest.origin/liborigin.a >&AS_MESSAGE_LOG_FD 2>&1 &&
		printf '%s\n' '#include <stdio.h>' \
			'__attribute__((visibility("hidden"))) FILE *lmdbio_orig_stderr;' \
			'int lmdbio_orig_mdb_env_create(void **);' \
			'int lmdbio_orig_open(void) { return -1; }' \
			'long lmdbio_orig_pread(void) { return -1; }' \
			'int lmdbio_orig_fstatfs(void) { return -1; }' \
			'void *lmdbio_orig_mmap(void) { return 0; }' \
			'int lmdbio_orig_munmap(void) { return 0; }' \
			'int lmdbio_orig_pthread_mutex_destroy(void) { return 0; }' \
			'int conftest_entry(void **env) { return lmdbio_orig_mdb_env_create(env); }' \
			> conftest.origin/probe.c &&
		$CC -shared -fPIC -o conftest.origin/probe.so conftest.origin/probe.c \
			conftest.origin/liborigin.a -pthread -Wl,-z,defs -Wl,-z,text \
			>&AS_MESSAGE_LOG_FD 2>&1], [origin_archive_works=yes])
	rm -rf conftest.origin
	AC_MSG_RESULT([$origin_archive_works])
])
AS_IF([test "x$with_origin" = xarchive && test $origin_archive_works = no],
	[AC_MSG_ERROR([$LMDB_ARCHIVE cannot be held under private names (see config.log)])])
AM_CONDITIONAL([ORIGIN_ARCHIVE], [test $origin_archive_works = yes])
AC_ARG_VAR([LMDB_LIBRARY], [the original LMDB's shared library, for --with-origin=dlopen])
AS_IF([test -n "$with_origin_library"], [LMDB_LIBRARY=$with_origin_library])
AS_IF([test -z "$LMDB_LIBRARY"], [
	LMDBIO_ORIGIN_FIND([LMDB_LIBRARY], [liblmdb.so.0])
	AS_CASE([$LMDB_LIBRARY], [/*], [], [LMDBIO_ORIGIN_FIND([LMDB_LIBRARY], [liblmdb.so])])
	AS_CASE([$LMDB_LIBRARY], [/*], [LMDB_LIBRARY=`readlink -f "$LMDB_LIBRARY"`])
])
AS_IF([test $origin_archive_works = no], [
	AS_CASE([$LMDB_LIBRARY], [/*], [],
		[AC_MSG_ERROR([neither a usable liblmdb.a nor a liblmdb.so.0 was found: install liblmdb-dev])])
	AC_DEFINE_UNQUOTED([ORIGIN_LIBRARY], ["$LMDB_LIBRARY"],
		[the original's shared library, opened at run time])
	AC_MSG_NOTICE([the original LMDB is opened at run time: $LMDB_LIBRARY])
])
dnl One that is installed later is found as well.
AC_ARG_VAR([LMDB1_LIBRARY], [an LMDB 1.0's shared library, opened at run time])
AS_CASE([$with_lmdb1], [no], [LMDB1_LIBRARY=], [/*], [LMDB1_LIBRARY=$with_lmdb1],
	[''], [AS_IF([test -z "$LMDB1_LIBRARY"], [
		LMDBIO_ORIGIN_FIND([LMDB1_LIBRARY], [liblmdb.so.1])
		AS_CASE([$LMDB1_LIBRARY], [/*], [], [
			LMDBIO_ORIGIN_FIND([LMDB1_LIBRARY], [libc.so.6])
			AS_CASE([$LMDB1_LIBRARY],
				[/*], [LMDB1_LIBRARY=`readlink -f "$LMDB1_LIBRARY"`; LMDB1_LIBRARY=${LMDB1_LIBRARY%/*}/liblmdb.so.1],
				[LMDB1_LIBRARY=])
		])
	])],
	[AC_MSG_ERROR([--with-lmdb1 wants an absolute path, or no])])
AC_DEFINE_UNQUOTED([LATER_LIBRARY], ["$LMDB1_LIBRARY"], [an LMDB 1.0's shared library, opened at run time; "" for none])
])
