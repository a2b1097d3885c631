dnl SPDX-License-Identifier: OLDAP-2.8
dnl Finds the Python that the package `lmdbio` is installed for, and the folder where this Python looks.
dnl
dnl The best folder is one below the prefix that a Python searches: $prefix/bin/python3, then the
dnl python3 in PATH, then /usr/bin/python3. Debian's Python searches dist-packages below /usr/local,
dnl other Pythons search site-packages.
AC_DEFUN([LMDBIO_PYTHON], [
AC_ARG_VAR([PYTHON], [the Python interpreter that the package lmdbio is installed for])
AC_ARG_WITH([pythondir],
	[AS_HELP_STRING([--with-pythondir=DIR], [where the Python package goes; no: nowhere (default: where
		the interpreter looks below the prefix)])],
	[], [with_pythondir=auto])
AC_MSG_CHECKING([where Python packages go])
lmdbio_prefix=$prefix
AS_IF([test "x$lmdbio_prefix" = xNONE], [lmdbio_prefix=$ac_default_prefix])
lmdbio_find_site='import site, sys
found = [[p for p in site.getsitepackages() if p.startswith(sys.argv[1] + "/")]]
print(found[[0]] if found else "")'
pythondir=
python_note=
AS_IF([test "x$with_pythondir" = xauto], [
	for python in ${PYTHON:-"$lmdbio_prefix/bin/python3" python3 /usr/bin/python3}; do
		pythondir=`$python -c "$lmdbio_find_site" "$lmdbio_prefix" 2>/dev/null`
		AS_IF([test -n "$pythondir"], [
			PYTHON=$python
			python_note="where $python looks: configure PYTHON=... chooses another Python"
			break
		])
	done
	AS_IF([test -z "$pythondir"], [
		pythondir=`${PYTHON:-python3} -c 'import sys
print("%s/lib/python%d.%d/site-packages" % (sys.argv[[1]], *sys.version_info[[:2]]))' \
			"$lmdbio_prefix" 2>/dev/null`
		python_note="where no Python looks: it needs that in PYTHONPATH"
	])
], [test "x$with_pythondir" != xno], [pythondir=$with_pythondir])
AC_MSG_RESULT([${pythondir:-nowhere}])
AC_SUBST([pythondir])
AC_SUBST([python_note])
AM_CONDITIONAL([HAVE_PYTHONDIR], [test -n "$pythondir"])
])
