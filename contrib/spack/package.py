# SPDX-License-Identifier: OLDAP-2.8
"""Spack's recipe of lmdbio, for Spack 0.23 and later, 1.x included.

Copy it to packages/lmdbio/package.py of a Spack repository, then build a checkout:
spack dev-build --source-path CHECKOUT lmdbio@main
"""
try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
except ImportError:  # before Spack 1.0 the class is one of the names of spack.package
    pass

from spack.package import *


class Lmdbio(AutotoolsPackage):
    """Reads LMDB data sets in large requests, ahead of need, once per node, for programs that are
    not changed."""

    homepage = "https://lmdbio.invalid"
    license("OLDAP-2.8")

    version("main", branch="main")

    variant("mpi", default=True, description="The module for jobs of many nodes (MPICH)")
    variant("archives", default=True, description="lmdbio-convert reads tar archives")
    variant("python", default=True, description="The Python package lmdbio")

    depends_on("c", type="build")
    depends_on("autoconf@2.71:", type="build")
    depends_on("automake@1.16:", type="build")
    depends_on("libtool", type="build")
    depends_on("m4", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("lmdb@0.9.24:0.9")
    depends_on("jansson@2.11:")
    depends_on("liburing@2:")
    depends_on("ncurses@6:")
    depends_on("random123")
    depends_on("xxhash")
    depends_on("zstd@1.5:")
    depends_on("libarchive@3.4:", when="+archives")
    depends_on("mpich@4:", when="+mpi")
    extends("python@3.9:", when="+python")

    def configure_args(self):
        args = ["--with-mpi" if self.spec.satisfies("+mpi") else "--without-mpi"]
        args.append("--with-pythondir=" +
                    (python_platlib if self.spec.satisfies("+python") else "no"))
        return args
