# SPDX-License-Identifier: OLDAP-2.8
"""Finds the small changes of the sources that read pages that no deciding test notices.

usage: mutate.py BUILD [--path PREFIX] [--every N] [--first K] [--seconds S] [--quick] [--survivors]

The script compiles the mutants (mutants.py) of a source of lib/format, lib/cursor and lib/util/identity into a copy
of BUILD's core: all mutants inside functions together (together.py). It links the deciding tests with this copy and
runs them for each mutant until one test fails. BUILD is a build tree whose tests are built.
BUILD/mutation/verdicts has the verdicts, a line each: a call goes on where the last one ended, and takes every Nth
mutant from the Kth on. With --quick, a call runs only the quick tests, and leaves the mutants that they do not notice
to a later call. tests/mutation/equivalent lists changes that change no answer, each with its reason; they are not
tried. Ends with 1 if the tests catch fewer than 95 of 100 mutants.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import time

from mutants import Mutant, mutants
from together import VARIABLE, Together, together

TOP = pathlib.Path(__file__).resolve().parents[2]
LEAST = 95.0
SUBJECTS = ("lib/format", "lib/cursor", "lib/util/identity")
TWICE = ("cursor_get", "cursor_move", "cursor_seek", "descend", "duplicates")  # compiled once for each page layout
CORE = "lib/.libs/liblmdbio-core.a"
SHARED = "compat/liblmdbio-core.la"
PROCESSOR_SECONDS = 20  # a test that takes this time is in a loop; the slowest test takes a fifth of it
QUICK_SECONDS = 2  # the same for the quick tests

NUMBERS = "tests/unit/format_later_test"  # knows the numbers of a page, and calls only lib/format
# The tests that decide, the quickest first; DECIDING has pairs (path, tests).
CURSOR_TESTS = (
    "tests/unit/format_test", "tests/unit/format_later_test", "tests/unit/compare_test", "tests/unit/cursor_test",
    "tests/unit/cursor_duplicates_test", "tests/unit/cursor_steps_test", "tests/unit/cursor_watch_test", "tests/unit/cursor_rules_test",
    "tests/unit/cursor_failed_test", "tests/unit/cursor_damage_test", "tests/unit/value_damage_test",
    "tests/differential/states_test",
    "tests/unit/env_later_test", "tests/unit/dbi_test", "tests/differential/answers_test", "tests/unit/prefetch_lookups_test",
    "tests/differential/differential --operations 20000 --databases 10",
    "tests/differential/differential --later --operations 20000 --databases 10",
    "tests/fuzz/header_damage",
)
# Unit tests that take a second or more, so they are no quick tests.
SLOW = ("tests/unit/env_later_test", "tests/unit/dbi_test", "tests/unit/prefetch_lookups_test", "tests/unit/env_changed_test")
DECIDING: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("lib/util/identity", ("tests/unit/identity_test", "tests/unit/env_changed_test")),
    ("lib/format/identify", ("tests/unit/identify_test",)),
    ("lib/cursor/lookups", ("tests/unit/cursor_watch_test", "tests/unit/prefetch_lookups_test")),
    ("", CURSOR_TESTS),
)


def is_quick(test: str) -> bool:
    return test.startswith("tests/unit/") and test not in SLOW


def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, text=True, capture_output=True, check=True, **more)  # type: ignore[call-overload,no-any-return]


class Tree:
    """The build tree, and a copy of the core that tests are linked with."""

    def __init__(self, build: pathlib.Path) -> None:
        self.build, self.work = build, build / "mutation"
        shutil.rmtree(self.work / "lib", ignore_errors=True)
        self.work.mkdir(exist_ok=True)
        self.archive = self.work / "core.a"
        self.changed = ""  # the path whose mutants are in the archive
        self.programs: set[str] = set()  # tests that are linked with these mutants
        self.sound: set[str] = set()  # tests that pass while none of these mutants is chosen
        shutil.copy(build / CORE, self.archive)
        self.shared = self.work / next((build / "compat/.libs").glob("liblmdbio-core-*.so")).name
        self.sources = sorted(str(path.relative_to(TOP)) for path in TOP.glob("lib/*/*.[ch]")
                              if str(path.relative_to(TOP)).startswith(SUBJECTS))
        self.needs = {source: set(re.findall(r"(lib/\w+/\w+\.h)", run(["gcc", *self.flags(), "-MM", str(TOP / source)]).stdout))
                      for source in self.sources if source.endswith(".c")}
        self.kept_links = self.work / "links"
        self.links: dict[str, list[str]] = {}
        if self.kept_links.exists() and self.kept_links.stat().st_mtime > (build / "Makefile").stat().st_mtime:
            self.links = json.loads(self.kept_links.read_text())

    def link_command(self, target: str) -> list[str]:
        """Returns libtool's command to link a program, or the core, with the copied archive into the copy's folder."""
        if target not in self.links:
            said = run(["make", "-C", str(self.build), "-s", "V=1", "-W", CORE.replace(".libs/", "").replace(".a", ".la"),
                        target]).stdout
            line = next(one for one in said.splitlines() if re.match(r"libtool: link: .*\b(gcc|clang|cc)\b.* -o ", one))
            words = [word.strip('"') for word in line.removeprefix("libtool: link: ").split()]
            at = words.index("-o") + 1
            words[at] = str(self.shared if target == SHARED else self.work / pathlib.Path(target).name)
            self.links[target] = [str(self.archive) if word.removeprefix("./") == CORE else word for word in words]
            self.kept_links.write_text(json.dumps(self.links))
        return self.links[target]

    def link(self, target: str, instead: dict[str, str]) -> None:
        run([instead.get(word, word) for word in self.link_command(target)], cwd=self.build)

    def flags(self) -> list[str]:
        return ["-std=gnu11", "-O1", "-fno-inline", "-w", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3", "-fPIC",
                "-fvisibility=protected", "-fno-strict-aliasing", "-DHAVE_CONFIG_H", "-D_GNU_SOURCE", "-include",
                str(TOP / "lib/core_names.h"), f"-I{self.build}", f"-I{self.work}/lib",
                f"-I{TOP}/lib", f"-I{TOP}/include"]

    def compile_test(self, name: str) -> dict[str, str]:
        """Compiles a test with the mutated header. Returns the object that replaces the test's in its link command."""
        made = str(self.work / pathlib.Path(name).name) + ".o"
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

    def put(self, path: str, text: str, below: str = "lib/") -> None:
        """Updates the archive for one path: with this text, or with the source itself if the text is empty."""
        if self.changed not in ("", path):
            self.put(self.changed, "")
        copy = self.work / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        if text:
            copy.write_text(text)
        self.changed = path if text else ""
        self.programs.clear()
        self.sound.clear()
        touched = [path] if path.endswith(".c") else [source for source, needed in self.needs.items() if path in needed]
        twice = [source for source in touched if "lib/cursor/" in source and pathlib.Path(source).stem in TWICE]
        objects = [one for one in [(source, False) for source in touched] + [(source, True) for source in twice]
                   if one[0].startswith(below)]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            members = list(pool.map(lambda one: self.compile(*one), objects))
        run(["ar", "r", str(self.archive), *members])

    def put_together(self, path: str, chosen: list[Mutant]) -> tuple[Together, list[Mutant]]:
        """Puts all of these mutants that compile into the archive. Returns them, and those that do not compile."""
        source, unbuilt = (TOP / path).read_text(), []
        while True:
            made = together(source, [one for one in chosen if one not in unbuilt])
            try:
                self.put(path, made.text)
                return made, unbuilt
            except subprocess.CalledProcessError as error:
                lines = re.findall(rf"{re.escape(pathlib.Path(path).name)}:(\d+):\d+: error:", error.stderr)
                wrong = {made.owners[int(line) - 1] for line in lines} - {None}
                if not wrong:
                    sys.exit(error.stderr)
                unbuilt += [one for one in wrong if one]

    def program(self, name: str, compiled: bool) -> str:
        """Returns a test that is linked with the archive; `compiled`: and compiled with the mutated header."""
        target = SHARED if "tests/differential/" in name else name
        if target + str(compiled) not in self.programs:
            self.programs.discard(target + str(not compiled))
            self.link(target, self.compile_test(name) if compiled else {})
            self.programs.add(target + str(compiled))
        if target == SHARED:
            return str(self.build / pathlib.Path(name).parent / ".libs" / pathlib.Path(name).name)
        return str(self.work / pathlib.Path(name).name)

    def noticed(self, test: str, number: int, compiled: bool) -> bool:
        words = test.split()
        program = self.program(words[0], compiled)
        environment = dict(os.environ, LD_LIBRARY_PATH=f"{self.work}:{self.build}/compat/.libs", LMDBIO_NODE=f"mutation-{os.getpid()}",
                           top_srcdir=str(TOP), top_builddir=str(self.build))
        environment[VARIABLE] = str(number)

        seconds = QUICK_SECONDS if is_quick(words[0]) else PROCESSOR_SECONDS

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 31, 1 << 31))
        try:
            return subprocess.run([program, *words[1:]], cwd=self.build, env=environment, preexec_fn=limit, timeout=120,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode != 0
        except subprocess.TimeoutExpired:
            return True

    def judge(self, path: str, number: int, tests: tuple[str, ...]) -> str:
        """Returns the verdict on a mutant in the archive. Tests are compiled with a mutated header's inline functions."""
        header = path.endswith(".h")
        for test in tests:
            compiled = bool(header and number and test.startswith("tests/unit/"))
            if not self.noticed(test, number, compiled):
                continue
            if number and test not in self.sound:
                if self.noticed(test, 0, compiled):
                    sys.exit(f"{test} fails without a mutant of {path}")
                self.sound.add(test)
            return f"caught {test.split()[0]}"
        # A test must know by itself a number that a header defines.
        for test in tests if header and not number else ():
            if test.startswith("tests/unit/") and self.noticed(test, 0, True):
                return f"caught {test}"
        return "survives"

    def judge_alone(self, mutant: Mutant, tests: tuple[str, ...]) -> str:
        """Returns the verdict on a mutant outside functions."""
        text = (TOP / mutant.path).read_text().split("\n")
        text[mutant.line] = mutant.after
        try:
            if mutant.path.startswith("lib/format/") and mutant.path.endswith(".h"):
                self.put(mutant.path, "\n".join(text), "lib/format/")
                if self.noticed(NUMBERS, 0, True):
                    return f"caught {NUMBERS}"
            self.put(mutant.path, "\n".join(text))
            return self.judge(mutant.path, 0, tests)
        except subprocess.CalledProcessError:
            return "unbuilt"


def tests_of(mutant: Mutant, verdicts: dict[str, str]) -> tuple[str, ...]:
    """Returns the deciding tests: quick ones first, and within each kind those that caught most of the same function."""
    tests = next(tests for prefix, tests in DECIDING if mutant.path.startswith(prefix))
    same = [verdict.removeprefix("caught ") for name, verdict in verdicts.items()
            if name.startswith(f"{mutant.path} {mutant.function}:")]
    return tuple(sorted(tests, key=lambda test: (not is_quick(test), -same.count(test.split()[0]))))


def read_equivalent() -> list[str]:
    lines = (TOP / "tests/mutation/equivalent").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def is_equivalent(name: str, listed: list[str]) -> bool:
    """Returns whether a mutant is listed, by its name or by "PATH FUNCTION: *" for all mutants of a function."""
    return name in listed or name.split(":", 1)[0] + ": *" in listed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--path", default="")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--quick", action="store_true", help="run the quick unit tests alone")
    parser.add_argument("--survivors", action="store_true", help="try those again that survived")
    options = parser.parse_args()
    tree = Tree(options.build.resolve())
    kept = tree.work / "verdicts"
    verdicts: dict[str, str] = {}
    if kept.exists():
        verdicts = dict(line.rsplit("\t", 1) for line in kept.read_text().splitlines())
    listed = read_equivalent()
    everything = [one for path in tree.sources for one in mutants(path, (TOP / path).read_text())]
    chosen = [one for one in everything[options.first::options.every]
              if one.path.startswith(options.path) and not is_equivalent(one.name(), listed)]
    end = time.monotonic() + options.seconds

    def note(mutant: Mutant, verdict: str) -> None:
        verdicts[mutant.name()] = verdict
        kept.write_text("".join(f"{name}\t{told}\n" for name, told in verdicts.items()))

    for path in tree.sources:
        again = {"survives"} if options.survivors else set()
        again |= set() if options.quick else {"left"}
        left = [one for one in chosen if one.path == path and verdicts.get(one.name(), "") in {"", *again}]
        if not left or time.monotonic() > end:
            continue
        made, unbuilt = tree.put_together(path, left)
        for mutant in unbuilt:
            note(mutant, "unbuilt")
        for mutant in sorted(set(left) - set(unbuilt), key=lambda one: (one not in made.numbers, one.line)):
            if time.monotonic() > end:
                break
            tests = tuple(one for one in tests_of(mutant, verdicts) if not options.quick or is_quick(one))
            verdict = tree.judge(path, made.numbers[mutant], tests) if mutant in made.numbers else tree.judge_alone(mutant, tests)
            note(mutant, "left" if options.quick and verdict == "survives" else verdict)
    tried = [verdicts[one.name()] for one in chosen if verdicts.get(one.name(), "left") != "left"]
    survivors = [one.name() for one in chosen if verdicts.get(one.name()) == "survives"]
    for verdict in ("survives", "left"):
        for one in chosen:
            if verdicts.get(one.name()) == verdict:
                print(f"{verdict}: {one.name()}")
    built = sum(verdict != "unbuilt" for verdict in tried)
    percent = 100 * (built - len(survivors)) / built if built else 0.0
    print(f"{len(everything)} mutants, {len(chosen)} chosen, {len(tried)} tried, {built} of them built, "
          f"{built - len(survivors)} caught, {percent:.1f} per cent")
    return 0 if percent >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
