# SPDX-License-Identifier: OLDAP-2.8
"""The package's two commands: run a script on lmdbio, and check that lmdbio takes effect."""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import NoReturn, Optional

from . import __version__
from ._native import installed_file

USAGE = """usage: python3 -m lmdbio run [OPTION...] SCRIPT|-m MODULE [ARGUMENT...]
       python3 -m lmdbio check

run    starts a Python script on lmdbio: lmdbio-run [OPTION...] -- python3 SCRIPT ...
check  says whether lmdbio takes effect on this Python's lmdb module, and if not, why

The options are those of lmdbio-run(1), such as --memory=2G and --verbose.
"""


def _fail(text: str) -> NoReturn:
    """Prints one line on standard error and exits with status 2."""
    print(text, file=sys.stderr)
    sys.exit(2)


def _wrong(what: str) -> int:
    """Prints the fault of the command line and how to get help. Returns the exit status."""
    print(f"lmdbio: {what}\nTry 'python3 -m lmdbio --help' for more information.", file=sys.stderr)
    return 2


def _program() -> str:
    """The path of lmdbio-run."""
    program = installed_file("bin", "lmdbio-run") or shutil.which("lmdbio-run")
    if program is None:
        _fail("lmdbio: lmdbio-run is neither installed with this package nor in PATH: "
              "add its directory to PATH")
    return program


def _lmdbio_run(arguments: list[str]) -> NoReturn:
    program = _program()
    os.execv(program, [program] + arguments)


def command() -> NoReturn:
    """Starts the command of the wheel that has the name of this script, such as lmdbio-check."""
    name = os.path.basename(sys.argv[0])
    program = installed_file("bin", name)
    if program is None:
        _fail(f"{name}: this wheel was built without it; a build with MPICH, jansson and ncurses "
              "has every command")
    os.execv(program, [program] + sys.argv[1:])


def _options() -> dict[str, bool]:
    """Returns lmdbio-run's options: true if the next word is the option's value, as in `--memory 2G`."""
    table = subprocess.run([_program(), "--table-of-options"], stdout=subprocess.PIPE, text=True)
    takes: dict[str, bool] = {}
    for line in table.stdout.splitlines():  # tools/tool_table.c writes the lines
        kind, *fields = line.split("\t")
        if kind == "option":
            letter, name, argument = fields[:3]
            takes["-" + letter] = takes["--" + name] = argument[:1] not in ("", "[")
    if not takes:
        _fail(f"lmdbio: {_program()} does not list its options: it belongs to another version of lmdbio; "
              "install both from one release")
    return takes


def _takes_next(word: str, options: dict[str, bool]) -> bool:
    """Returns whether the next word is the option's value. getopt_long(3) accepts abbreviations, too."""
    if word.startswith("--"):
        meant = [word] if word in options else [name for name in options if name.startswith(word)]
        return "=" not in word and any(options[name] for name in meant)
    valued = [place for place in range(1, len(word)) if options.get("-" + word[place])]
    return valued[:1] == [len(word) - 1]


def _script_at(words: list[str]) -> Optional[int]:
    """Returns the place of Python's first word: after `--`, at -m, -c or `-`, or behind the options."""
    options, place = _options(), 0
    while place < len(words):
        word = words[place]
        if word == "--":
            place += 1
            break
        if word in ("-m", "-c", "-") or not word.startswith("-"):
            break
        place += 2 if _takes_next(word, options) else 1
    return place if place < len(words) else None


def _run(words: list[str]) -> int:
    """`python3 -m lmdbio run`"""
    place = _script_at(words)
    if place is None:
        return _wrong("no SCRIPT is given")
    if not words[place].startswith("-") and not os.path.exists(words[place]):
        return _wrong(f"there is no script {words[place]!r} here")
    options = words[:place - 1] if words[place - 1:place] == ["--"] else words[:place]
    _lmdbio_run(options + ["--", sys.executable] + words[place:])


def main() -> int:
    """`python3 -m lmdbio`"""
    words = sys.argv[1:]
    if words and (words[0] in ("-h", "--help") or words in (["run", "-h"], ["run", "--help"])):
        print(USAGE, end="")
        return 0
    if words and words[0] in ("-V", "--version"):
        print(f"lmdbio {__version__}")
        return 0
    if not words:
        print(USAGE, end="", file=sys.stderr)
        return 2
    if words == ["check"]:
        _lmdbio_run(["--check=run", "--", sys.executable, "-c", "import lmdb"])
    if words[0] == "run":
        return _run(words[1:])
    if words[0] == "check":
        return _wrong(f"check takes no operand, such as {words[1]!r}")
    return _wrong(f"there is no command {words[0]!r}: run or check")


if __name__ == "__main__":
    sys.exit(main())
