"""Elements of XML with the lines they stand on, and property lists of Java: the syntax of Spring's files.

Nothing else is opened: entities other than XML's own five are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from budgetfrontier.errors import FrontierError

LARGEST = 16 << 20
"""The most bytes of a configuration."""
DEEPEST = 100
"""The most elements within each other."""


class FileLine(int):
    """The number of a line. `file` is the name of its file; "" is the configuration itself."""

    file = ""

    @classmethod
    def of(cls, number: int, file: str) -> FileLine:
        """Return the line of a file."""
        line = cls(number)
        line.file = file
        return line

    def after(self, lines: int) -> FileLine:
        """Return the line that is so many lines further down."""
        return self.of(self + lines, self.file)


@dataclass
class Element:
    """An element: its name without the prefix of beans, its attributes, text and children."""

    name: str
    attributes: dict[str, str]
    line: FileLine
    parts: list[str] = field(default_factory=list)
    children: list[Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element, without that of its children."""
        return "".join(self.parts)


def parsed(path: Path, name: str = "") -> Element:
    """Return the root element of a file. `name` is that of its lines. Raises FrontierError, OSError."""
    with open(path, "rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise FrontierError(f"{path}: more than {LARGEST >> 20} MiB, which is no configuration of a crawl")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    open_: list[Element] = []
    roots: list[Element] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(open_) == DEEPEST:
            raise FrontierError(f"{path}:{parser.CurrentLineNumber}: more than {DEEPEST} elements within each other")
        element = Element(tag.removeprefix("beans:"), attributes, FileLine.of(parser.CurrentLineNumber, name))
        (open_[-1].children if open_ else roots).append(element)
        open_.append(element)

    def characters(text: str) -> None:
        open_[-1].parts.append(text)

    def entity(named: str, *_: object) -> None:
        raise FrontierError(
            f"{path}:{parser.CurrentLineNumber}: the entity {named[:40]!r} is declared, and entities are not read; "
            "write its text in its places"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda tag: open_.pop()
    parser.CharacterDataHandler = characters
    parser.EntityDeclHandler = entity
    try:
        parser.Parse(raw, True)
    except expat.ExpatError as error:
        raise FrontierError(
            f"{path}:{error.lineno}:{error.offset + 1}: no XML: {expat.ErrorString(error.code)}"
        ) from None
    return roots[0]


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)


def java_properties(text: str, line: int) -> Iterator[tuple[str, str, int]]:
    """Yield the key, value and line of each entry of a Java property list that begins at a line.

    >>> list(java_properties("# comment\\na.b = c \\\\\\n  d\\ne:f", 10))
    [('a.b', 'c d', 11), ('e', 'f', 13)]
    """
    logical, begun = "", line
    for number, physical in enumerate(text.split("\n"), line):
        rest = physical.strip("\r").lstrip()
        if not logical and (not rest or rest[0] in "#!"):
            continue
        begun = begun if logical else number
        slashes = len(rest) - len(rest.rstrip("\\"))
        if slashes % 2:
            logical += rest[:-1]
            continue
        if found := _KEY.fullmatch(logical + rest):
            yield _unescaped(found[1]), _unescaped(found[2]), begun
        logical = ""
    if logical and (found := _KEY.fullmatch(logical)):
        yield _unescaped(found[1]), _unescaped(found[2]), begun


def _unescaped(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        return chr(int(found[2], 16)) if found[2] else _ESCAPES.get(found[1], found[1])

    text = re.sub(r"\\(u([0-9A-Fa-f]{4})|.)", one, text, flags=re.DOTALL)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # characters of two escapes
