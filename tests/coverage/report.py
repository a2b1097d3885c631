# SPDX-License-Identifier: OLDAP-2.8
"""Judges the lines that gcov has counted: report.py BUILD EXCUSED [--lines PREFIX]

Prints a row for each group of sources: lines, lines that ran, excused lines, per cent, the least per cent.
EXCUSED has lines "PATH FUNCTION: SOURCE LINE", each below a comment that says why no test can run it. Ends
with 1 if a group has less than its least per cent, or if an excused line ran or does not exist any more. With
--lines, prints the lines that did not run and are not excused, of sources whose path begins with PREFIX.

This script calls gcov itself, because gcovr 5.2 of Debian 12 fails an assertion if a source is compiled twice.
"""

import collections
import json
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
SOURCES = ("lib/", "compat/", "tools/")
# (name, least per cent, paths): a source belongs to the first group with a path that begins the source's path.
GROUPS: tuple[tuple[str, float, tuple[str, ...]], ...] = (
    ("format", 100, ("lib/format/",)),
    ("cursor", 100, ("lib/cursor/",)),
    ("sharing protocol", 100, ("lib/arena/", "lib/window/store_shared.c")),
    ("container index", 100, ("lib/container/container_index.c",)),
    ("identity", 100, ("lib/util/identity.",)),
    ("loader order", 100, ("lib/loader/loader_order.", "lib/loader/loader_permute.")),
)
REST = 92.0
AT_ONCE = 64  # files for one run of gcov


def group_of(path: str) -> tuple[str, float]:
    for name, least, paths in GROUPS:
        if path.startswith(paths):
            return name, least
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "lib" else parts[0], REST


def source_of(path: str) -> str:
    """Returns the path of a source from the top, or "" if the source is not this project's."""
    try:
        found = str(pathlib.Path(path).resolve().relative_to(TOP))
    except ValueError:
        return ""
    # A .def file is a table of functions: only tests, and the build that opens the original at run time, compile it.
    return found if found.startswith(SOURCES) and not found.endswith(".def") else ""


def counted(build: pathlib.Path) -> dict[str, dict[int, tuple[bool, str]]]:
    """Returns the lines with code of each source, each with whether it ran in any object, and its function."""
    # A source that no test has run has a .gcno file, but no .gcda file.
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
    """Returns the number of each line of code, whether the line ran, and "FUNCTION: TEXT"."""
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
