# SPDX-License-Identifier: OLDAP-2.8
"""Writes the tested blocks of a page into files, and fails on a block that is neither tested nor excused.

usage: page_blocks.py PAGE DIRECTORY

A block of a Markdown page is fenced, or indented by four columns. A fenced block without a language is a picture; a
block of text is the output of a command. A block of a manual stands between .nf and .fi, outside the synopsis. Before
each block stands the line

    <!-- test: NAME -->      or, in a manual,    .\\" test: NAME LANGUAGE
    <!-- not run: WHY -->                        .\\" not run: WHY

A block with a test becomes DIRECTORY/NAME.LANGUAGE (sh for an indented block).
"""
import os
import re
import sys

LANGUAGES = ("sh", "python", "c", "text")


def markdown_blocks(lines):
    """Yields the line number, language, mark and text of each block."""
    mark, language, body, before = None, None, [], "\n"
    for number, line in enumerate(lines + ["\n"], 1):
        fence = re.match(r"```(\w*)\s*$", line)
        told = re.match(r"<!-- (test|not run): (.*) -->$", line)
        if language == "indented" and not line.startswith("    "):
            yield number, "sh", mark, body
            mark, language = None, None
        if language is None:
            if fence:
                language, body = fence.group(1) or "picture", []
            elif line.startswith("    ") and before == "\n":
                language, body = "indented", [line[4:]]
            elif told:
                mark = told.groups()
            elif line != "\n":
                mark = None
        elif language == "indented":
            body.append(line[4:])
        elif fence:
            if language != "picture":
                yield number, language, mark, body
            mark, language = None, None
        else:
            body.append(line)
        before = line


def printed(line):
    """Returns a line of a manual as a reader sees it."""
    for written, shown in ((r"\-", "-"), (r"\(aq", "'"), (r"\(dq", '"'), (r"\e", "\\"), (r"\\", "\\")):
        line = line.replace(written, shown)
    return line


def manual_blocks(lines):
    section, mark, body, inside = "", None, [], False
    for number, line in enumerate(lines, 1):
        told = re.match(r'\.\\" (test|not run): (.*)$', line)
        if line.startswith(".SH "):
            section = line[4:].strip()
        elif line.startswith(".nf"):
            inside, body = True, []
        elif line.startswith(".fi"):
            if section != "SYNOPSIS":
                tested = mark and mark[0] == "test"
                name, language = mark[1].split() if tested else (None, "text")
                yield number, language, ("test", name) if tested else mark, body
            inside, mark = False, None
        elif told:
            mark = told.groups()
        elif inside:
            body.append(printed(line))


def main(page, directory):
    bad = False
    with open(page) as file:
        lines = file.readlines()
    blocks = markdown_blocks if page.endswith(".md") else manual_blocks
    for number, language, mark, body in blocks(lines):
        if mark is None or (mark[0] == "test" and language not in LANGUAGES):
            print(f"{page}:{number}: a block of {language} without a test")
            bad = True
        elif mark[0] == "test":
            with open(os.path.join(directory, f"{mark[1]}.{language}"), "x") as out:
                out.writelines(body)
            print(mark[1])
    sys.exit(bad)


main(*sys.argv[1:])
