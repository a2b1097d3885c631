# SPDX-License-Identifier: OLDAP-2.8
"""Judges the lines that gcov has counted: report.py BUILD EXCUSED [--lines PREFIX]

Prints a row for each group of sources: lines, those that ran, those that are excused, per cent, what is asked.
EXCUSED has lines "PATH FUNCTION: SOURCE LINE", each below a comment that says why no test can run it. Ends
with 1 where a group has less than is asked, or where an excused line ran or is there no more. With --lines,
prints each line that did not run and is not excused of the sources whose path begins with PREFIX.

gcov is asked directly: gcovr 5.2, that of Debian 12, ends with an assertion where a source is compiled twice.
"""

import collections
import json
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("lib/", "compat/", "tools/")
# (name, least per cent, paths): the first one whose path begins a source's has it.
GROUPS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("format", 100, ("lib/format/",)),
    ("cursor", 100, ("lib/cursor/",)),
    ("sharing protocol", 100, ("lib/arena/", "lib/window/store_shared.c")),
    ("container index", 100, ("lib/container/container_index.c",)),
    ("identity", 100, ("lib/util/identity.",)),
    ("loader order", 100, ("lib/loader/loader_order.", "lib/loader/loader_permute.")),
)
REST = 92.0
AT_ONCE = 64  # files that one gcov is given


def group_of(path: str) -> tuple[str, float]:
    for name, least, paths in GROUPS:
        if path.startswith(paths):
            return name, least
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "lib" else parts[0], REST


def source_of(path: str) -> str:
    """The path of a source from the top, or "" if it is none of ours."""
    try:
        found = str(pathlib.Path(path).resolve().relative_to(TOP))
    except ValueError:
        return ""
    # A table of functions: only tests, and the build that opens the original at run time, make code of it.
    return found if found.startswith(SOURCES) and not found.endswith(".def") else ""


def counted(build: pathlib.Path) -> dict[str, dict[int, tuple[bool, str]]]:
    """Of each source the lines with code: whether one ran in any object, and in which function it is."""
    # A source that no test has run has only its notes.
    files = sorted({str(path.with_suffix(".gcda")) if path.with_suffix(".gcda").exists() else str(path)
                    for path in build.rglob("*.gcno")})
    found: dict[str, dict[int, tuple[bool, str]]] = collections.defaultdict(dict)
    for first in range(0, len(files), AT_ONCE):
        said = subprocess.run(["gcov", "--json-format", "--stdout", *files[first:first + AT_ONCE]], cwd=build,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
        for document in said.splitlines():
            for file in json.loads(document)["files"]:
                path = source_of(str(build / file["file"]))
                for line in file["lines"] if path else ():
                    ran, function = found[path].get(line["line_number"], (False, line.get("function_name", "")))
                    found[path][line["line_number"]] = (ran or line["count"] > 0, function)
    return found


def source_lines(path: str, lines: dict[int, tuple[bool, str]]) -> list[tuple[int, bool, str]]:
    """The number of each line of code, whether it ran, and "FUNCTION: TEXT"."""
    text = (TOP / path).read_text().splitlines()
    found = []
    for number, (ran, function) in sorted(lines.items()):
        name = function.removeprefix("*").removeprefix("lmdbio_core_").removesuffix("_0_9").removesuffix("_1_0")
        found.append((number, ran, f"{name}: {text[number - 1].strip()}"))
    return found


def read_excused(path: str) -> collections.Counter[str]:
    lines = pathlib.Path(path).read_text().splitlines()
    return collections.Counter(line for line in lines if line and not line.startswith("#"))


def main(arguments: list[str]) -> int:
    excused = read_excused(arguments[1])
    shown = arguments[3] if arguments[2:3] == ["--lines"] else None
    least: dict[str, float] = {}
    counts: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0, 0])
    missing = []
    for path, lines in sorted(counted(pathlib.Path(arguments[0]).resolve()).items()):
        name, asked = group_of(path)
        least[name] = asked
        for number, ran, text in source_lines(path, lines):
            entry = f"{path} {text}"
            counts[name][0] += 1
            if ran:
                counts[name][1] += 1
            elif excused[entry] > 0:
                excused[entry] -= 1
                counts[name][2] += 1
            else:
                missing.append((name, f"{path}:{number} {text}"))
    failed = 0
    order = [name for name, _, _ in GROUPS]
    print(f"{'group':<20}{'lines':>8}{'ran':>8}{'excused':>9}{'per cent':>10}{'asked':>7}")
    for name in sorted(counts, key=lambda one: (order.index(one) if one in order else len(order), one)):
        total, ran_lines, excused_lines = counts[name]
        percent = 100 * (ran_lines + excused_lines) / total
        failed += percent < least[name]
        print(f"{name:<20}{total:>8}{ran_lines:>8}{excused_lines:>9}{percent:>10.2f}{least[name]:>7.0f}")
    for name, text in missing:
        if text.startswith(shown) if shown is not None else least[name] == 100:
            print(f"did not run: {text}")
    for entry, left in sorted(excused.items()):
        if left > 0:
            print(f"excused, but ran or is there no more: {entry}")
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
