# SPDX-License-Identifier: OLDAP-2.8
"""The package's two commands: run a script on lmdbio, and check that lmdbio takes effect."""
from __future__ import annotations

import os
import shutil
import sys
from typing import NoReturn

from ._native import installed_file

USAGE = """usage: python3 -m lmdbio run [OPTION...] SCRIPT [ARGUMENT...]
       python3 -m lmdbio check

run    starts a Python script on lmdbio: lmdbio-run [OPTION...] -- python3 SCRIPT ...
check  says whether lmdbio takes effect on this Python's lmdb module, and if not, why

The options are those of lmdbio-run(1), such as --memory=2G and --verbose.
"""


def _lmdbio_run(arguments: list[str]) -> NoReturn:
    program = installed_file("bin", "lmdbio-run") or shutil.which("lmdbio-run")
    if program is None:
        sys.exit("lmdbio: lmdbio-run is neither installed with this package nor in PATH")
    os.execv(program, [program] + arguments)


def run() -> NoReturn:
    """The command `lmdbio-run` of a wheel."""
    _lmdbio_run(sys.argv[1:])


def main() -> int:
    """`python3 -m lmdbio`"""
    words = sys.argv[1:]
    if words and words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0
    if words == ["check"]:
        _lmdbio_run(["--check=run", "--", sys.executable, "-c", "import lmdb"])
    if words and words[0] == "run":
        options = 1
        while options < len(words) and words[options].startswith("-") and words[options] != "--":
            options += 1
        script = words[options + (words[options:options + 1] == ["--"]):]
        if script:
            _lmdbio_run(words[1:options] + ["--", sys.executable] + script)
    print(USAGE, end="", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
