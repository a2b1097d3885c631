# SPDX-License-Identifier: OLDAP-2.8
"""The build backend for pip: runs configure and make, and lets setuptools pack the installed files.

The wheel holds the package and, in lmdbio/native, the folders `bin`, `lib` and `libexec` of an
installation. It holds no Python extension, so that one wheel serves every Python 3 of the platform.
"""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sysconfig
import tarfile
import tempfile
from typing import Any, Optional

from setuptools import build_meta

ROOT = pathlib.Path(__file__).resolve().parent.parent

get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel


def _version() -> str:
    """The version in pyproject.toml."""
    for line in (ROOT / "pyproject.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise LookupError("pyproject.toml names no version")


def get_requires_for_build_sdist(config_settings: Any = None) -> list[str]:
    """Returns an empty list: making an sdist needs no other package."""
    return []


def _install(into: pathlib.Path, build: pathlib.Path) -> None:
    """Builds lmdbio in `build` and copies its bin, lib and libexec to `into`."""
    def run(*words: str) -> None:
        subprocess.run(words, cwd=build, check=True)

    if not (ROOT / "configure").exists():
        (ROOT / "m4").mkdir(exist_ok=True)
        subprocess.run(["autoreconf", "-fi"], cwd=ROOT, check=True)
    root = build / "root"
    run(str(ROOT / "configure"), "-q", "--prefix=/lmdbio", "--libdir=/lmdbio/lib",
        "--with-pythondir=no")
    # Benchmarks and examples are not installed.
    run("make", "-s", f"-j{os.cpu_count() or 1}", "noinst_PROGRAMS=")
    run("make", "-s", "install-strip", "noinst_PROGRAMS=", f"DESTDIR={root}")
    shutil.copytree(root / "lmdbio" / "bin", into / "bin")
    shutil.copytree(root / "lmdbio" / "libexec", into / "libexec")
    shutil.copytree(root / "lmdbio" / "lib" / "lmdbio", into / "lib" / "lmdbio",
                    ignore=shutil.ignore_patterns("pkgconfig", "*.la"))


def build_wheel(wheel_directory: str, config_settings: Optional[dict[str, Any]] = None,
                metadata_directory: Optional[str] = None) -> str:
    """Builds the wheel; its name says which platform the libraries are for.

    setuptools works in a copy of the package, because it makes a folder `build`, which in the
    source is the build tree of lmdbio.
    """
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    settings = {**(config_settings or {}), "--build-option": f"--plat-name={platform}"}
    with tempfile.TemporaryDirectory() as scratch:
        work = pathlib.Path(scratch, "wheel")
        shutil.copytree(ROOT / "python" / "lmdbio", work / "python" / "lmdbio",
                        ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(ROOT / file, work)
        build = pathlib.Path(scratch, "build")
        build.mkdir()
        _install(work / "python" / "lmdbio" / "native", build)
        os.chdir(work)
        return build_meta.build_wheel(wheel_directory, settings)


def build_sdist(sdist_directory: str, config_settings: Any = None) -> str:
    """Packs the source: the files that git tracks in a checkout, all files in an unpacked sdist."""
    version = _version()
    name = f"lmdbio-{version}"
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                                capture_output=True).stdout.decode().split("\0")
        files = [ROOT / file for file in listed if file]
    else:
        files = [file for file in ROOT.rglob("*") if file.is_file()]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as info, \
            tarfile.open(pathlib.Path(sdist_directory, name + ".tar.gz"), "w:gz",
                         format=tarfile.PAX_FORMAT) as archive:
        info.write(f"Metadata-Version: 2.1\nName: lmdbio\nVersion: {version}\n")
        info.flush()
        archive.add(info.name, f"{name}/PKG-INFO")
        for file in files:
            if file.is_file() and file.name != "PKG-INFO":
                archive.add(file, f"{name}/{file.relative_to(ROOT)}")
    return name + ".tar.gz"
