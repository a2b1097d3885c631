# SPDX-License-Identifier: OLDAP-2.8
"""Says which small changes of the sources that read pages no quick test notices.

usage: mutate.py BUILD [--path PREFIX] [--every N] [--first K] [--seconds S] [--survivors]

Each mutant (mutants.py) of lib/format, lib/cursor and lib/util/identity is compiled into a copy of BUILD's core;
the tests that decide are linked with that and run until one fails. BUILD is a build tree whose tests are built.
Verdicts are kept in BUILD/mutation/verdicts, a line each: a call goes on where the last one ended, and takes
every Nth mutant from the Kth on. tests/mutation/equivalent lists changes that change no answer, each with its
reason. Ends with 1 if fewer than 95 of 100 are caught, or if an equivalent one is caught.
"""

import argparse
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

from mutants import Mutant, mutants

TOP = pathlib.Path(__file__).resolve().parents[2]
LEAST = 95.0
SUBJECTS = ("lib/format", "lib/cursor", "lib/util/identity")
TWICE = ("cursor_get", "cursor_move", "cursor_seek", "descend", "duplicates")  # one for each page layout
CORE = "lib/.libs/liblmdbio-core.a"
SHARED = "compat/liblmdbio-core.la"
PROCESSOR_SECONDS = 20  # a test that takes so much is in a loop; the slowest takes a fifth

# (paths, tests): the quickest ones first.
CURSOR_TESTS = (
    "tests/unit/format_test", "tests/unit/compare_test", "tests/unit/cursor_test",
    "tests/unit/cursor_duplicates_test", "tests/unit/cursor_steps_test", "tests/unit/cursor_damage_test", "tests/unit/value_damage_test",
    "tests/unit/dbi_test", "tests/unit/env_later_test", "tests/unit/prefetch_lookups_test",
    "tests/differential/differential --operations 20000 --databases 10",
    "tests/differential/differential --later --operations 20000 --databases 10",
    "tests/fuzz/header_damage", "tests/differential/answers_test",
)
DECIDING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lib/util/identity", ("tests/unit/identity_test", "tests/unit/env_changed_test")),
    ("lib/format/identify", ("tests/unit/identify_test",)),
    ("lib/cursor/lookups", ("tests/unit/prefetch_lookups_test",)),
    ("", CURSOR_TESTS),
)


def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, text=True, capture_output=True, check=True, **more)  # type: ignore[call-overload,no-any-return]


class Tree:
    """The build tree, and the copy of what is linked."""

    def __init__(self, build: pathlib.Path) -> None:
        self.build, self.work = build, build / "mutation"
        shutil.rmtree(self.work / "lib", ignore_errors=True)
        self.work.mkdir(exist_ok=True)
        self.links: dict[str, list[str]] = {}
        self.archive = self.work / "core.a"
        shutil.copy(build / CORE, self.archive)
        self.shared = self.work / next((build / "compat/.libs").glob("liblmdbio-core-*.so")).name
        self.sources = sorted(str(path.relative_to(TOP)) for path in TOP.glob("lib/*/*.[ch]")
                              if str(path.relative_to(TOP)).startswith(SUBJECTS))

    def link_command(self, target: str) -> list[str]:
        """How libtool links a program, or the core, with the copied archive and to the copied place."""
        if target not in self.links:
            said = run(["make", "-C", str(self.build), "-s", "V=1", "-W", CORE.replace(".libs/", "").replace(".a", ".la"),
                        target]).stdout
            line = next(one for one in said.splitlines() if re.match(r"libtool: link: gcc.* -o ", one))
            words = [word.strip('"') for word in line.removeprefix("libtool: link: ").split()]
            at = words.index("-o") + 1
            words[at] = str(self.shared if target == SHARED else self.work / pathlib.Path(target).name)
            self.links[target] = [str(self.archive) if word.removeprefix("./") == CORE else word for word in words]
        return self.links[target]

    def link(self, target: str, instead: dict[str, str]) -> None:
        run([instead.get(word, word) for word in self.link_command(target)], cwd=self.build)

    def flags(self) -> list[str]:
        return ["-std=gnu11", "-O1", "-w", "-fPIC", "-fvisibility=protected", "-fno-strict-aliasing", "-DHAVE_CONFIG_H",
                "-D_GNU_SOURCE", "-include", str(TOP / "lib/core_names.h"), f"-I{self.build}", f"-I{self.work}/lib",
                f"-I{TOP}/lib", f"-I{TOP}/include"]

    def compile_test(self, name: str) -> dict[str, str]:
        """A test with the header as it is mutated; what stands in its link command instead of its object."""
        made = str(self.work / "test.o")
        run(["gcc", *self.flags(), *(f"-I{TOP}/tests/{where}" for where in ("unit", "data", "fuzz")), f"-I{TOP}/lab", "-c",
             str(TOP / f"{name}.c"), "-o", made])
        return {f"{name}-{pathlib.Path(name).name}.o": made}

    def compile(self, source: str, later: bool) -> str:
        """Makes the object of a source, mutated if a copy is in the work directory; returns the archive's member."""
        stem = pathlib.Path(source).stem
        member = ("liblmdbio_cursor_la-" if later else "lib_liblmdbio_core_la-") + stem + ".o"
        copy = self.work / source
        run(["gcc", *self.flags(), *(["-DCURSOR_INSTANCE=1_0"] if later else []), "-c",
             str(copy if copy.exists() else TOP / source), "-o", str(self.work / member)])
        return str(self.work / member)

    def put(self, path: str) -> None:
        """Brings the archive up to date with one path of the work directory, there or gone."""
        touched = [path] if path.endswith(".c") else [one for one in self.sources if one.endswith(".c")]
        members = []
        for source in touched:
            members.append(self.compile(source, False))
            if "lib/cursor/" in source and pathlib.Path(source).stem in TWICE:
                members.append(self.compile(source, True))
        run(["ar", "r", str(self.archive), *members])

    def noticed(self, test: str, compiled: bool = False) -> bool:
        words = test.split()
        name = words[0]
        instead = self.compile_test(name) if compiled else {}
        if "tests/differential/" in name:
            self.link(SHARED, {})
            program = self.build / pathlib.Path(name).parent / ".libs" / pathlib.Path(name).name
        else:
            self.link(name, instead)
            program = self.work / pathlib.Path(name).name
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{self.work}:{self.build}/compat/.libs", LMDBIO_NODE=f"mutation-{os.getpid()}",
                           top_srcdir=str(TOP), top_builddir=str(self.build))

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_SECONDS, PROCESSOR_SECONDS + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 31, 1 << 31))
        try:
            return subprocess.run([str(program), *words[1:]], cwd=self.build, env=environment, preexec_fn=limit, timeout=120,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0
        except subprocess.TimeoutExpired:
            return True

    def judge(self, mutant: Mutant, tests: tuple[str, ...]) -> str:
        text = (TOP / mutant.path).read_text().split("\n")
        text[mutant.line] = mutant.after
        copy = self.work / mutant.path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text("\n".join(text))
        try:
            self.put(mutant.path)
            for test in tests:
                if self.noticed(test):
                    return f"caught {test.split()[0]}"
            # What a header has inline is in the tests as well; a number in it they must know for themselves.
            for test in tests if mutant.path.endswith(".h") else ():
                if test.startswith("tests/unit/") and self.noticed(test, True):
                    return f"caught {test}"
            return "survives"
        except subprocess.CalledProcessError:
            return "unbuilt"
        finally:
            copy.unlink()


def tests_of(path: str) -> tuple[str, ...]:
    return next(tests for prefix, tests in DECIDING if path.startswith(prefix))


def read_equivalent() -> list[str]:
    lines = (TOP / "tests/mutation/equivalent").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_equivalent(name: str, listed: list[str]) -> bool:
    """An entry is a mutant's name, or PATH FUNCTION: * for all of a function."""
    return name in listed or name.split(":", 1)[0] + ": *" in listed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--path", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    options = parser.parse_args()
    tree = Tree(options.build.resolve())
    kept = tree.work / "verdicts"
    verdicts: dict[str, str] = {}
    if kept.exists():
        verdicts = dict(line.split("\t") for line in kept.read_text().splitlines())
    listed = read_equivalent()
    everything = [one for path in tree.sources for one in mutants(path, (TOP / path).read_text())]
    chosen = [one for one in everything[options.first::options.every]
              if one.path.startswith(options.path) and not is_equivalent(one.name(), listed)]
    end = time.monotonic() + options.seconds
    last = ""
    for mutant in chosen:
        known = verdicts.get(mutant.name())
        if known and not (options.survivors and known == "survives"):
            continue
        if time.monotonic() > end:
            break
        if last and last != mutant.path:
            tree.put(last)
        last = mutant.path
        verdicts[mutant.name()] = tree.judge(mutant, tests_of(mutant.path))
        kept.write_text("".join(f"{name}\t{verdict}\n" for name, verdict in verdicts.items()))
    tried = [verdicts[one.name()] for one in chosen if one.name() in verdicts]
    survivors = [one.name() for one in chosen if verdicts.get(one.name()) == "survives"]
    for name in survivors:
        print(f"survives: {name}")
    built = sum(verdict != "unbuilt" for verdict in tried)
    percent = 100 * (built - len(survivors)) / built if built else 0.0
    print(f"{len(everything)} mutants, {len(chosen)} chosen, {len(tried)} tried, {built} of them built, "
          f"{built - len(survivors)} caught, {percent:.1f} per cent")
    return 0 if percent >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
