# SPDX-License-Identifier: OLDAP-2.8
"""Writes the tested blocks of a Markdown page into files, and fails on a block without a test.

usage: page_blocks.py PAGE DIRECTORY

A fenced block of sh, python or c stands behind a line `<!-- test: NAME -->`; it becomes
DIRECTORY/NAME.LANGUAGE.
"""
import os
import re
import sys


def main(page, directory):
    name, language, body, bad = None, None, [], False
    for number, line in enumerate(open(page), 1):
        fence = re.match(r"```(\w*)\s*$", line)
        if language is None and fence:
            language, body = fence.group(1) or "text", []
            if language in ("sh", "python", "c") and name is None:
                print("%s:%d: a block of %s without a test" % (page, number, language))
                bad = True
        elif language is not None and fence:
            if name:
                with open(os.path.join(directory, "%s.%s" % (name, language)), "x") as out:
                    out.writelines(body)
                print(name)
            name, language = None, None
        elif language is not None:
            body.append(line)
        else:
            test = re.match(r"<!-- test: (\w+) -->$", line)
            name = test.group(1) if test else name if line == "\n" else None
    sys.exit(bad)


main(*sys.argv[1:])
