# SPDX-License-Identifier: OLDAP-2.8
"""Prints the commands in the sentences of pages, each once, with the first page that has it.

usage: page_commands.py PAGE...

A command is a text between backquotes that begins with variables, a program of this project, or a program that
users type. The name of a program without arguments is no command, unless the program is a script of bench/.
"""
import re
import sys

PROGRAMS = (r"lmdbio-[a-z]+|(?:bench|tests|tools)/[\w/.-]+|make|pip|python3|mpiexec|srun|sbatch|zstd|pkg-config|perf"
            r"|valgrind|dpkg-buildpackage|apt|man|gdb")
COMMAND = re.compile(r"(?:[A-Z_0-9]+=(?:\"[^\"]*\"|\S*) )*(?:(?:%s) \S.*|bench/\w+\.(?:sh|py))$" % PROGRAMS)
FENCE = re.compile(r"^```")


def main(pages):
    seen = set()
    for page in pages:
        fenced = False
        text = ""
        with open(page) as file:
            for line in file:
                fenced ^= bool(FENCE.match(line))
                if not fenced and not FENCE.match(line):
                    text += line
        for span in re.findall(r"`([^`]+)`", text):
            command = " ".join(span.split())
            if COMMAND.match(command) and command not in seen:
                seen.add(command)
                print(f"{page}\t{command}")


main(sys.argv[1:])
