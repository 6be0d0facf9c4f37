"""Reader of Spring's XML as jobs of Heritrix 3 use it: beans with properties, each value with the line it stands on.

Nothing is instantiated and nothing else is opened: entities other than XML's own five are refused, and `import` and
placeholders are left to the caller to report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias
from xml.parsers import expat

from budgetfrontier.errors import FrontierError

LARGEST = 16 << 20
"""The most bytes of a configuration."""
DEEPEST = 100
"""The most elements within each other."""
_OVERRIDES = "PropertyOverrideConfigurer"


@dataclass
class Text:
    """A text; of a reference or null, `kind` says so."""

    text: str
    line: int
    kind: str = "value"


@dataclass
class BeanList:
    """A list, set or array."""

    items: list[Value]
    line: int


@dataclass
class BeanMap:
    """A map or `props`: values by key, and the line of each entry."""

    items: dict[str, Value]
    line: int
    lines: dict[str, int] = field(default_factory=dict)


@dataclass
class Bean:
    """A bean: its class without the package, and its properties."""

    name: str
    id: str
    line: int
    properties: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """The line of each property."""


Value: TypeAlias = Text | BeanList | BeanMap | Bean


@dataclass
class Remark:
    """Something that the caller has to report: the line, what stands there, and why it is not read."""

    line: int
    what: str
    why: str


@dataclass
class _Element:
    name: str
    attributes: dict[str, str]
    line: int
    parts: list[str] = field(default_factory=list)
    children: list[_Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.parts)


class Beans:
    """The beans of a file, with the values of its overrides. Raises FrontierError for what is no such file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[Remark] = []
        self.top: list[Bean] = []
        root = _parsed(path)
        if root.name != "beans":
            raise FrontierError(f"{path}:{root.line}: expected <beans> of Spring, got <{root.name[:40]}>")
        for element in root.children:
            if element.name == "bean":
                self.top.append(self._bean(element))
            elif element.name != "description" and not element.name.endswith(":annotation-config"):
                self.remarks.append(Remark(element.line, f"<{element.name}>", "such an element is not read"))
        self.by_id = {bean.id: bean for bean in self.top if bean.id}
        for bean in [bean for bean in self.top if bean.name == _OVERRIDES]:
            self.top.remove(bean)
            self._override(bean)

    def every(self) -> Iterator[Bean]:
        """Yield all beans, nested ones after the bean that has them."""
        waiting: list[Value] = [*reversed(self.top)]
        while waiting:
            value = waiting.pop()
            if isinstance(value, Bean):
                yield value
            waiting += [*reversed([*inner(value)])]

    def resolved(self, value: Value | None) -> Value | None:
        """Return what a reference means: the bean of that id; None for null and for what is not there."""
        if isinstance(value, Text) and value.kind == "ref":
            return self.by_id.get(value.text)
        return None if isinstance(value, Text) and value.kind == "null" else value

    # Elements to values

    def _bean(self, element: _Element) -> Bean:
        attributes = element.attributes
        name = attributes.get("class", "").rpartition(".")[2]
        bean = Bean(name, attributes.get("id") or attributes.get("name", ""), element.line)
        for key, text in attributes.items():
            if key.startswith("p:"):
                name, kind = (key[2:-4], "ref") if key.endswith("-ref") else (key[2:], "value")
                self._set(bean, name, Text(text, element.line, kind), element.line)
            elif key in ("parent", "factory-bean", "factory-method", "init-method"):
                self.remarks.append(Remark(element.line, f"{_label(bean)} {key}={text}", "it is not followed"))
        for child in element.children:
            if child.name == "property":
                self._set(bean, child.attributes.get("name", ""), self._held(child), child.line)
            elif child.name == "constructor-arg":
                self.remarks.append(Remark(child.line, f"{_label(bean)} constructor-arg", "it is not read"))
            elif child.name not in ("description", "meta"):
                self.remarks.append(Remark(child.line, f"{_label(bean)} <{child.name}>", "it is not read"))
        return bean

    def _set(self, bean: Bean, name: str, value: Value, line: int) -> None:
        bean.properties[name], bean.lines[name] = value, line

    def _held(self, element: _Element) -> Value:
        """Return the value of a property or entry: its attribute, or the one element in it."""
        for key, kind in (("value", "value"), ("ref", "ref"), ("value-ref", "ref")):
            if key in element.attributes:
                return Text(element.attributes[key], element.line, kind)
        children = [child for child in element.children if child.name not in ("description", "meta", "key")]
        return self._value(children[0]) if children else Text(element.text, element.line)

    def _value(self, element: _Element) -> Value:
        children = [child for child in element.children if child.name != "description"]
        match element.name:
            case "bean":
                return self._bean(element)
            case "list" | "set" | "array":
                return BeanList([self._value(child) for child in children], element.line)
            case "map" | "props":
                mapped = BeanMap({}, element.line)
                for child in children:
                    key = child.attributes.get("key") or "".join(
                        inner.text or "".join(each.text for each in inner.children)
                        for inner in child.children
                        if inner.name == "key"
                    )
                    mapped.items[key.strip()] = (
                        Text(child.text, child.line) if child.name == "prop" else self._held(child)
                    )
                    mapped.lines[key.strip()] = child.line
                return mapped
            case "ref" | "idref":
                names = element.attributes
                return Text(names.get("bean") or names.get("local") or names.get("parent", ""), element.line, "ref")
            case "null":
                return Text("", element.line, "null")
            case "value":
                return Text(element.text, element.line)
        self.remarks.append(Remark(element.line, f"<{element.name}>", "such an element is not read"))
        return Text("", element.line, "null")

    # Overrides

    def _override(self, bean: Bean) -> None:
        """Set the properties that a PropertyOverrideConfigurer names as BEAN.PROPERTY or BEAN.PROPERTY.PROPERTY."""
        for name, value in bean.properties.items():
            if name != "properties":
                self.remarks.append(Remark(bean.lines[name], f"{_label(bean)}.{name}", "it is not read"))
                continue
            if isinstance(value, BeanMap):
                pairs = [(key, _text(each), value.lines[key]) for key, each in value.items.items()]
            else:
                pairs = [*java_properties(_text(value), value.line)]
            for path, text, line in pairs:
                self._replace(path, Text(text, line))

    def _replace(self, path: str, value: Text) -> None:
        name, *steps = path.split(".")
        bean: Value | None = self.by_id.get(name)
        for step in steps[:-1]:
            bean = self.resolved(bean.properties.get(step)) if isinstance(bean, Bean) else None
        if isinstance(bean, Bean) and steps:
            self._set(bean, steps[-1], value, value.line)
        else:
            self.remarks.append(Remark(value.line, path, "there is no such bean in the file"))


def inner(value: Value) -> Iterator[Value]:
    """Yield the values within a value."""
    if isinstance(value, Bean):
        yield from value.properties.values()
    elif isinstance(value, BeanList):
        yield from value.items
    elif isinstance(value, BeanMap):
        yield from value.items.values()


def _label(bean: Bean) -> str:
    return bean.id or bean.name


def _text(value: Value) -> str:
    return value.text if isinstance(value, Text) else ""


def _parsed(path: Path) -> _Element:
    """Return the root element of a file."""
    with open(path, "rb") as file:
        raw = file.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise FrontierError(f"{path}: more than {LARGEST >> 20} MiB, which is no configuration of a crawl")
    parser = expat.ParserCreate()
    parser.buffer_text = True
    open_: list[_Element] = []
    roots: list[_Element] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(open_) == DEEPEST:
            raise FrontierError(f"{path}:{parser.CurrentLineNumber}: more than {DEEPEST} elements within each other")
        element = _Element(name.removeprefix("beans:"), attributes, parser.CurrentLineNumber)
        (open_[-1].children if open_ else roots).append(element)
        open_.append(element)

    def characters(text: str) -> None:
        open_[-1].parts.append(text)

    def entity(name: str, *_: object) -> None:
        raise FrontierError(
            f"{path}:{parser.CurrentLineNumber}: the entity {name[:40]!a} is declared, and entities are not read; "
            "write its text in its places"
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: open_.pop()
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

    return re.sub(r"\\(u([0-9A-Fa-f]{4})|.)", one, text, flags=re.DOTALL)
