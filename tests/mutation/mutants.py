# SPDX-License-Identifier: OLDAP-2.8
"""Makes the mutants of a C source: one small change each, the same mutants in the same order at each call."""

import collections
import dataclasses
import re
from collections.abc import Iterator

# Each pair: a pattern in a line of code, and the text that replaces the first group of the pattern.
SWAPS: tuple[tuple[str, str], ...] = (
    (r"(==)", "!="), (r"(!=)", "=="),
    (r"(?<![<>-])(<)(?![<=])", "<="), (r"(<=)", "<"),
    (r"(?<![<>-])(>)(?![>=])", ">="), (r"(>=)", ">"),
    (r"(&&)", "||"), (r"(\|\|)", "&&"),
    (r"(?<=[\w)\]] )(\+)(?= )", "-"), (r"(?<=[\w)\]] )(-)(?= )", "+"),
    (r"(?<=[\w)\]] )(\*)(?= )", "+"), (r"(?<=[\w)\]] )(/)(?= )", "*"), (r"(?<=[\w)\]] )(%)(?= )", "*"),
    (r"(?<=[\w)\]] )(&)(?= )", "|"), (r"(?<=[\w)\]] )(\|)(?= )", "&"),
    (r"(<<)", ">>"), (r"(>>)", "<<"),
    (r"(\+\+)", "--"), (r"(--)", "++"), (r"(\+=)", "-="), (r"(-=)", "+="),
    (r"(?<=[(&|] )(!)(?=[\w(*])", ""), (r"(?<=\()(!)(?=[\w(*])", ""),
    (r"\b(true)\b", "false"), (r"\b(false)\b", "true"),
)
NUMBER = re.compile(r"(?<![\w.\"'%])(0[xX][0-9a-fA-F]+|\d+)(?=[uUlL]*\b)")
STATEMENT = re.compile(r"^\t+(?:[\w>.\[\]*()&-]+ (?:[-+|&^]|<<|>>)?= .*|\w+\(.*\)|\*?[\w>.\[\]-]+(?:\+\+|--)|--?[\w>.\[\]-]+|\+\+[\w>.\[\]-]+);$")
RETURN = re.compile(r"^(\t+return )([^;]+);$")
CONDITION = re.compile(r"^(\t+(?:else )?(?:if|while) \()(.*)(\))( \{)?$")


@dataclasses.dataclass(frozen=True)
class Mutant:
    path: str
    function: str
    line: int  # from 0
    before: str
    after: str
    nth: int = 1  # among the function's mutants with the same spelling

    def name(self) -> str:
        return f"{self.path} {self.function}: {self.before.strip()} => {self.after.strip() or 'nothing'}" + (f" ({self.nth})" if self.nth > 1 else "")


def blanked(text: str) -> str:
    """Returns the source with comments and strings as spaces, so that columns stay."""
    def spaces(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match.group())
    # The index of an element in sizeof makes no difference.
    text = re.sub(r"(sizeof\()([^()]*)(\))", lambda m: m[1] + re.sub(r"\d", "x", m[2]) + m[3], text)
    return re.sub(r"/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", spaces, text, flags=re.S)


def functions(lines: list[str]) -> list[str]:
    """Returns the function of each line, or "". A function begins with a name at a line's start and ends with }."""
    names, inside, last = [], "", ""
    for line in lines:
        found = re.match(r"^(?!typedef|struct \w+ \{|enum|union|#|\t| |\{|\})\S.*?(\w+)\(", line)
        if found and not inside and not line.rstrip().endswith(";"):
            last = next((name for name in re.findall(r"(\w+)\(", line) if not name.startswith("__")), last)
        if line.startswith("{") and last:
            inside = last
        names.append(inside)
        if line.startswith("}"):
            inside = last = ""
    return names


def balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def changed(code: str, line: str) -> Iterator[str]:
    """Yields the line with one change each; `code` is the line without comments and strings."""
    for pattern, instead in SWAPS:
        for match in re.finditer(pattern, code):
            yield line[: match.start(1)] + instead + line[match.end(1):]
    for match in NUMBER.finditer(code):
        text = match.group(1)
        value = int(text, 16) if text.lower().startswith("0x") else int(text, 8 if text.startswith("0") and text != "0" else 10)
        more = hex(value + 1) if text.lower().startswith("0x") else str(value + 1)
        yield line[: match.start(1)] + more + line[match.end(1):]
    if STATEMENT.match(code.rstrip()):
        yield re.match(r"\t*", line)[0] + ";"  # type: ignore[index]
    found = RETURN.match(code.rstrip())
    if found and found.group(2) not in ("0", "true", "false", "NULL"):
        yield f"{found.group(1)}0;"
    found = CONDITION.match(code.rstrip())
    if found and balanced(found.group(2)):
        yield f"{found.group(1)}!({line[found.start(2): found.end(2)]}){found.group(3)}{found.group(4) or ''}"


def mutants(path: str, text: str) -> list[Mutant]:
    lines, codes = text.split("\n"), blanked(text).split("\n")
    inside = functions(codes)
    found: dict[tuple[int, str], Mutant] = {}
    for number, (line, code) in enumerate(zip(lines, codes, strict=True)):
        if code.lstrip().startswith("#") and not re.match(r"#define \w+\s+\S", code):
            continue
        if re.match(r"\s*_Static_assert|^_Alignas", code):
            continue
        for after in changed(code, line):
            if after != line:
                found.setdefault((number, after), Mutant(path, inside[number], number, line, after))
    alike: collections.Counter[str] = collections.Counter()
    for place, mutant in found.items():
        alike[mutant.name()] += 1
        found[place] = dataclasses.replace(mutant, nth=alike[mutant.name()])
    return list(found.values())
