# SPDX-License-Identifier: OLDAP-2.8
"""Puts all mutants of a source into one text; an environment variable chooses one of them when a test runs.

A copy of a function stands in front of it for each of its mutants; the function calls the chosen copy. So a source
is compiled and linked once for all its mutants.
"""

import dataclasses
import re

from mutants import Mutant, blanked

VARIABLE = "MUTANT_CHOSEN"
CHOICE = f"""
#include <stdlib.h>
static int mutant_chosen(void)
{{
	static int chosen = -1;
	if (chosen < 0)
		chosen = atoi(getenv("{VARIABLE}") ?: "0");
	return chosen;
}}
"""


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    first: int  # the line where its signature begins
    opens: int  # the line of its {
    last: int  # the line of its }


@dataclasses.dataclass(frozen=True)
class Together:
    text: str
    numbers: dict[Mutant, int]  # the value of VARIABLE that chooses the mutant
    owners: list[Mutant | None]  # the mutant of each line of the text


def function_at(codes: list[str], line: int, name: str) -> Function:
    opens = next(number for number in range(line, -1, -1) if codes[number].startswith("{"))
    last = next(number for number in range(line, len(codes)) if codes[number].startswith("}"))
    first = opens
    while first > 0 and codes[first - 1].strip() and not re.match(r"[#}]|.*[;}]\s*$", codes[first - 1]):
        first -= 1
    return Function(name, first, opens, last)


def arguments(signature: str, name: str) -> str:
    """Returns the names of a function's parameters, as a call has them."""
    inside = signature[re.search(rf"\b{name}\s*\(", signature).end():].rstrip().removesuffix(")")  # type: ignore[union-attr]
    parts, depth = [""], 0
    for char in inside:
        depth += (char == "(") - (char == ")")
        if char == "," and not depth:
            parts.append("")
        else:
            parts[-1] += char
    names = []
    for part in parts:
        pointer = re.search(r"\(\*(\w+)\)", part)
        words = re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", part))
        if words and words != ["void"]:
            names.append(pointer.group(1) if pointer else words[-1])
    return ", ".join(names)


def plain(signature: str) -> str:
    """Removes the words that demand inlining: each copy would be compiled again in each of its callers."""
    return re.sub(r"\binline\b|__attribute__\(\((always_inline|noinline)\)\)", "", signature)


def together(text: str, chosen: list[Mutant]) -> Together:
    """Returns the source with the mutants that are inside functions."""
    lines, codes = text.split("\n"), blanked(text).split("\n")
    of_function: dict[Function, list[Mutant]] = {}
    for mutant in chosen:
        if mutant.function and mutant.line < len(lines):
            of_function.setdefault(function_at(codes, mutant.line, mutant.function), []).append(mutant)
    owners: list[Mutant | None] = []
    made: list[str] = []
    numbers: dict[Mutant, int] = {}

    def add(what: str, owner: Mutant | None = None) -> None:
        made.extend(what.split("\n"))
        owners.extend([owner] * (what.count("\n") + 1))

    at, began = 0, False
    for function, theirs in sorted(of_function.items(), key=lambda one: one[0].first):
        add("\n".join(lines[at:function.first]))
        if not began:
            add(CHOICE)
            began = True
        signature = plain("\n".join(codes[function.first:function.opens]))
        call = arguments(signature, function.name)
        add(signature + ";")
        for mutant in theirs:
            numbers[mutant] = len(numbers) + 1
            own = re.sub(rf"\b{function.name}\b", f"{function.name}__{numbers[mutant]}", signature, count=1)
            body = lines[function.opens:function.last + 1]
            body[mutant.line - function.opens] = mutant.after
            add(("" if own.lstrip().startswith("static") else "static ") + own + "\n" + "\n".join(body), mutant)
        add(signature + "\n{\n\tswitch (mutant_chosen()) {")
        for mutant in theirs:
            add(f"\tcase {numbers[mutant]}: return {function.name}__{numbers[mutant]}({call});")
        add("\t}\n" + "\n".join(lines[function.opens + 1:function.last + 1]))
        at = function.last + 1
    add("\n".join(lines[at:]))
    return Together("\n".join(made), numbers, owners)
