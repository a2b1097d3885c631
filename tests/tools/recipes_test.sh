#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Tests contrib/: the environment module loads and unloads, the recipes name what a build needs, configure accepts
# their options, and their checks pass on an installation.
#
# Debian has no packages of Spack and EasyBuild: recipes_read.py evaluates the recipes in their place. image_test.sh
# builds the Containerfile.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need make pkg-config manpath readelf
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES PYTHONPATH PKG_CONFIG_PATH CMAKE_PREFIX_PATH MANPATH
export PYTHONDONTWRITEBYTECODE=1
python=/usr/bin/python3
recipes=$top_srcdir/contrib
cd "$scratch"
status install_ends_well 0 tree_make install
version=$("$top_builddir/tools/lmdbio-run" --version | sed -n '1s/.* //p')
prefix=$scratch/root$(directory prefix) bin=$scratch/root$(directory bindir)

# --- the environment module ---
# This build's file names the prefix of this build; here the tree lies below $scratch.
mkdir -p modules/lmdbio
sed "s,^\(setenv LMDBIO_ROOT\|prepend-path [A-Z_]*\) /,\1 $scratch/root/," \
	"$top_builddir/contrib/modulefiles/lmdbio" > "modules/lmdbio/$version"
cp "modules/lmdbio/$version" modules/lmdbio/9.9
for word in PRELOAD LIBRARY_PATH; do
	judge "module_leaves_LD_${word}_alone" sh -c "! grep -q LD_$word modules/lmdbio/$version"
done

# environment: the variables that a program gets, except the module command's own.
environment() {
	env | grep -Ev '^(_|SHLVL|PWD|OLDPWD|__MODULES_.*|__LMOD.*|_ModuleTable.*|_LMFILES_|LOADEDMODULES|MODULE.*|LMOD.*)=' | sort
}

# module_works COMMAND...: whether the command prints shell commands for these arguments.
module_works() {
	environment > before
	eval "$("$@" load lmdbio/"$version")"
	judge "${label}_leads_to_the_commands" test "$(command -v lmdbio-run)" = "$bin/lmdbio-run"
	judge "${label}_names_the_root" test "$LMDBIO_ROOT" = "$prefix"
	judge "${label}_preloads_nothing" test -z "${LD_PRELOAD:-}${LD_LIBRARY_PATH:-}"
	status "${label}_runs_a_program" 0 lmdbio-run -- true
	judge "${label}_leads_to_the_manual" test -e "${MANPATH%%:*}/man1/lmdbio-run.1"
	judge "${label}_keeps_the_manuals_of_the_system" sh -c 'manpath -q | tr : "\n" | grep -qx /usr/share/man'
	judge "${label}_leads_pkg_config" test "$(pkg-config --modversion lmdbio)" = "$version"
	if [ -n "$(directory pythondir)" ]; then
		status "${label}_leads_python" 0 $python -c 'import lmdbio; lmdbio.library()'
	fi
	judge "${label}_leads_cmake" test -e "${CMAKE_PREFIX_PATH%%:*}${cmake#"$(directory prefix)"}/lmdbioConfig.cmake"
	"$@" load lmdbio/9.9 > second 2>&1 || :
	judge "${label}_is_loaded_once" grep -q 'onflict\|cannot be loaded' second
	"$@" help lmdbio/"$version" > helped 2>&1 || :
	judge "${label}_help_says_what_to_do" grep -q 'lmdbio-run -- PROGRAM' helped
	eval "$("$@" unload lmdbio/"$version")"
	environment > after
	same "${label}_is_unloaded_without_a_trace" before after
}
cmake=$(directory libdir)/cmake/lmdbio
export MODULEPATH="$scratch/modules"
lmod=${LMOD_CMD:-/usr/share/lmod/lmod/libexec/lmod}
if command -v modulecmd > /dev/null; then
	label=environment_modules
	(module_works modulecmd bash; echo "$cases $failures" > counted)
	read -r cases failures < counted
else
	not_run environment_modules "no environment-modules here"
fi
if [ -e "$lmod" ]; then
	label=lmod
	export LMOD_DIR="${lmod%/*}"
	(module_works "$lmod" bash; echo "$cases $failures" > counted)
	read -r cases failures < counted
else
	not_run lmod "no lmod here; Debian installs it in place of environment-modules"
fi
unset MODULEPATH

# --- Spack and EasyBuild ---
spack() {
	$python "$top_srcdir/tests/tools/recipes_read.py" spack "$recipes/spack/package.py" "$@"
}
recipe=$recipes/easybuild/lmdbio-$version-GCC-14.3.0.eb
easybuild() {
	$python "$top_srcdir/tests/tools/recipes_read.py" easybuild "$recipe" "$1"
}
judge easybuild_recipe_is_of_this_version test -e "$recipe"
spack dependencies > spack.needed
for field in builddependencies dependencies sources_of_headers; do
	if [ $field = sources_of_headers ]; then
		grep -o '^local_[a-z0-9]*' "$recipe" | sed 's/local_//'
	else
		easybuild $field
	fi
done | tr '[:upper:]' '[:lower:]' > easybuild.needed
# The libraries that tools/packages installs for a build, under the names that Spack and EasyBuild use.
sed -n 's/^build lib\(.*\)-dev$/\1/p' "$top_srcdir/tools/packages" | grep -vx c6 | sed 's/^uring$/liburing/' > needed
echo libarchive >> needed
while read -r package; do
	judge "spack_recipe_names_$package" grep -qx "$package" spack.needed
	judge "easybuild_recipe_names_$package" grep -qx "$package" easybuild.needed
done < needed
judge build_needs_are_known test "$(wc -l < needed)" -ge 8
"$top_srcdir/configure" --help > known
for variants in '+mpi +python' '~mpi ~python'; do
	# shellcheck disable=SC2086
	status "spack_recipe_has_words_for_configure_${variants//[^a-z~]/}" 0 spack $variants
	while read -r word; do
		switch=${word%%=*}
		judge "configure_knows_spack_s_$switch" grep -q -e "--with${switch#--with}\|${switch/--without-/--with-}\|${switch/--with-/--without-}" known
	done < out
done
for word in $(easybuild configopts); do
	switch=${word%%=*}
	judge "configure_knows_easybuild_s_$switch" grep -q -e "$switch\|${switch/--with-/--without-}" known
done
for path in $(easybuild sanity_check_paths); do
	case $path in
	lib/python*) there=$scratch/root$(directory pythondir)/lmdbio ;;
	lib/*) there=$scratch/root$(directory libdir)/${path#lib/} ;;
	share/man/*) there=$scratch/root$(directory mandir)/${path#share/man/} ;;
	*) there=$prefix/$path ;;
	esac
	judge "easybuild_s_${path//[^a-z]/_}_is_installed" test -e "$there"
done
easybuild sanity_check_commands > commands
while read -r command; do
	status "easybuild_s_check_passes_${command%% *}" 0 env PATH="$bin:/usr/bin:/bin" \
		PYTHONPATH="$scratch/root$(directory pythondir)" sh -c "$command"
done < commands

# --- the Containerfile: its packages have every library that a command needs ---
file=$recipes/container/Containerfile
if grep -q '^VERSION_ID="12"' /etc/os-release; then
	sed -n '/^FROM debian:12-slim$/,$p' "$file" > last
	find "$bin" "$scratch/root$(directory libdir)/lmdbio" "$scratch/root$(directory libexecdir)" -type f \
		-exec readelf -d {} + 2> /dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort -u |
		grep -v -e '^liblmdb' -e '^ld-linux' -e '^libc\.' -e '^libm\.' > libraries
	while read -r library; do
		package=$(dpkg-query -S "*/$library" 2> /dev/null | sed -n '1s/:.*//p')
		case $package in
		libtinfo6) continue ;; # every Debian has it
		libmpich12) package=mpich ;; # which depends on it
		esac
		judge "image_has_${package}_for_$library" grep -qw -e "${package:-no package}" last
	done < libraries
	judge image_needs_libraries test "$(wc -l < libraries)" -gt 4
else
	not_run image_libraries "the image is Debian 12's, whose packages have other names here"
fi
finish
