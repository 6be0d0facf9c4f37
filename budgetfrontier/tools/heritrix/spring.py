"""Reader of Spring's XML as jobs of Heritrix 3 use it: beans with properties, each value with the line it stands on.

Nothing is instantiated. Files that the configuration imports, and those of its configurers, are read if they are beside
it; what is not understood becomes a remark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.format import clean
from budgetfrontier.tools.heritrix.spring_xml import Element, FileLine, java_properties, parsed

_OVERRIDES = "PropertyOverrideConfigurer"
_PLACEHOLDERS = ("PropertyPlaceholderConfigurer", "PropertySourcesPlaceholderConfigurer")
_OF_CONFIGURERS = re.compile("properties|locations?|order|localOverride|fileEncoding|ignore.*")
_COLLECTIONS = ("util:list", "util:set", "util:map", "util:properties")
_PLACEHOLDER = re.compile(r"\$\{([^{}:]*)(?::([^{}]*))?\}")
_MOST_FILES = 100
_MOST_STEPS = 100


@dataclass
class Text:
    """A text; of a reference or null, `kind` says so. `lost` is why its value is not known, "" if it is."""

    text: str
    line: FileLine
    kind: str = "value"
    lost: str = ""


@dataclass
class BeanList:
    """A list, set or array. `merge`: it comes after that of the parent bean."""

    items: list[Value]
    line: FileLine
    merge: bool = False


@dataclass
class BeanMap:
    """A map or `props`: values by key, and the line of each entry. `merge`: it adds to that of the parent bean."""

    items: dict[str, Value]
    line: FileLine
    lines: dict[str, FileLine] = field(default_factory=dict)
    merge: bool = False


@dataclass
class Bean:
    """A bean: its class without the package, and its properties, arguments of the constructor among them."""

    name: str
    id: str
    line: FileLine
    properties: dict[str, Value] = field(default_factory=dict)
    lines: dict[str, FileLine] = field(default_factory=dict)
    """The line of each property."""
    parent: str = ""
    abstract: bool = False


Value: TypeAlias = Text | BeanList | BeanMap | Bean


@dataclass
class Remark:
    """Something that the caller has to report: the line, what stands there, and why it is not read."""

    line: FileLine
    what: str
    why: str

    @property
    def text(self) -> str:
        """The remark in one line; the configuration itself is not named."""
        place = f"{self.line.file}:{self.line}" if self.line.file else f"{self.line}"
        return clean(" ".join(f"{place}: {self.what}: {self.why}".split()))


class Beans:
    """The beans of a file, with the values of its overrides. Raises FrontierError for what is no such file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.remarks: list[Remark] = []
        self.top: list[Bean] = []
        """The beans that Spring makes: not the abstract ones."""
        self.by_id: dict[str, Value] = {}
        self._aliases: list[tuple[str, str]] = []
        self._files = {path.resolve()}
        self._read(path, "")
        for alias, name in self._aliases:
            if name in self.by_id:
                self.by_id.setdefault(alias, self.by_id[name])
        configurers = [bean for bean in self.top if bean.name in (_OVERRIDES, *_PLACEHOLDERS)]
        self.top = [bean for bean in self.top if bean not in configurers]
        overrides = [pair for bean in configurers if bean.name == _OVERRIDES for pair in self._pairs(bean)]
        for path_, text, line in overrides:
            if path_.count(".") == 1:  # a property that other beans may inherit
                self._replace(path_, Text(text, line))
        extended = {bean.parent for bean in self._all_beans() if bean.parent}
        for bean in self._all_beans():
            self._inherit(bean, [])
        for path_, text, line in overrides:
            if path_.count(".") != 1:
                self._replace(path_, Text(text, line))
        self._fill_in([bean for bean in configurers if bean.name in _PLACEHOLDERS])
        self._list_dangling()
        for bean in self.top:
            if bean.abstract and bean.id not in extended:
                self.remarks.append(Remark(bean.line, _label(bean), "it is abstract, and no bean extends it; left out"))
        self.top = [bean for bean in self.top if not bean.abstract]

    def resolved(self, value: Value | None) -> Value | None:
        """Return what a reference means: the bean of that id; None for null and for what is not there."""
        if isinstance(value, Text) and value.kind == "ref":
            return self.by_id.get(value.text)
        return None if isinstance(value, Text) and value.kind == "null" else value

    def bean(self, name: str) -> Bean | None:
        """Return the bean of an id; None if there is none."""
        found = self.by_id.get(name)
        return found if isinstance(found, Bean) else None

    # Files and elements

    def _read(self, path: Path, name: str) -> None:
        """Read a file. A bean replaces one of the same id of a file that it imports, or that was imported before."""
        root = parsed(path, name)
        if root.name != "beans":
            raise FrontierError(f"{path}:{root.line}: expected <beans> of Spring, got <{root.name[:40]}>")
        own: dict[str, int] = {}
        self._elements(root.children, path, own)

    def _elements(self, elements: list[Element], path: Path, own: dict[str, int]) -> None:
        for element in elements:
            attributes = element.attributes
            if element.name == "bean":
                self._add(self._bean(element), _names(element), path, own)
            elif element.name in _COLLECTIONS and "location" not in attributes:
                element.name = {"util:properties": "props"}.get(element.name, element.name.removeprefix("util:"))
                self._add(self._value(element), _names(element), path, own)
            elif element.name == "import":
                self._import(element, path)
            elif element.name == "alias":
                self._aliases.append((attributes.get("alias", ""), attributes.get("name", "")))
            elif element.name == "beans" and "profile" not in attributes:
                self._elements(element.children, path, own)
            elif element.name == "context:property-placeholder":
                location = Text(attributes.get("location", ""), element.line)
                self.top.append(Bean(_PLACEHOLDERS[0], "", element.line, {"location": location}))
            elif element.name != "description" and not element.name.endswith(":annotation-config"):
                self.remarks.append(Remark(element.line, f"<{element.name}>", "such an element is not read"))

    def _add(self, value: Value, names: list[str], path: Path, own: dict[str, int]) -> None:
        for name in names:
            if name in own:
                raise FrontierError(
                    f'{path}:{value.line}: there is a bean "{name[:60]}" in line {own[name]}, too; Spring takes only '
                    "one of each id"
                )
            own[name] = value.line
            if (before := self.by_id.get(name)) is not None:
                self.top = [bean for bean in self.top if bean is not before]
            self.by_id[name] = value
        if isinstance(value, Bean):
            self.top.append(value)

    def _import(self, element: Element, path: Path) -> None:
        resource = element.attributes.get("resource", "")
        file = _beside(path, resource)
        why = "only files beside the configuration are read"
        if file is not None:
            why = "it is imported a second time"
            if file.resolve() not in self._files and len(self._files) < _MOST_FILES:
                self._files.add(file.resolve())
                try:
                    return self._read(file, resource)
                except OSError as error:
                    why = f"cannot be read: {error.strerror or error}"
        self.remarks.append(Remark(element.line, f"import of {resource[:100]}", f"{why}; left out"))

    # Elements to values

    def _bean(self, element: Element) -> Bean:
        attributes = element.attributes
        names = _names(element)
        bean = Bean(attributes.get("class", "").rpartition(".")[2], names[0] if names else "", element.line)
        bean.parent, bean.abstract = attributes.get("parent", ""), attributes.get("abstract") == "true"
        for key, text in attributes.items():
            if key.startswith("p:"):
                name, kind = (key[2:-4], "ref") if key.endswith("-ref") else (key[2:], "value")
                self._set(bean, name, Text(text, element.line, kind), element.line)
            elif key.startswith("c:"):
                name, kind = (key[2:-4], "ref") if key.endswith("-ref") else (key[2:], "value")
                self._set(bean, argument(name.removeprefix("_")), Text(text, element.line, kind), element.line)
            elif key in ("factory-bean", "factory-method", "init-method"):
                self.remarks.append(Remark(element.line, f"{_label(bean)} {key}={text}", "it is not followed"))
        arguments = 0
        for child in element.children:
            if child.name == "property":
                self._set(bean, child.attributes.get("name", ""), self._held(child), child.line)
            elif child.name == "constructor-arg":
                place = child.attributes.get("name") or child.attributes.get("index") or str(arguments)
                self._set(bean, argument(place), self._held(child), child.line)
                arguments += 1
            elif child.name not in ("description", "meta"):
                self.remarks.append(Remark(child.line, f"{_label(bean)} <{child.name}>", "it is not read"))
        return bean

    def _set(self, bean: Bean, name: str, value: Value, line: FileLine) -> None:
        bean.properties[name], bean.lines[name] = value, line

    def _held(self, element: Element) -> Value:
        """Return the value of a property or entry: its attribute, or the one element in it."""
        for key, kind in (("value", "value"), ("ref", "ref"), ("value-ref", "ref")):
            if key in element.attributes:
                return Text(element.attributes[key], element.line, kind)
        children = [child for child in element.children if child.name not in ("description", "meta", "key")]
        return self._value(children[0]) if children else Text(element.text, element.line)

    def _value(self, element: Element) -> Value:
        children = [child for child in element.children if child.name != "description"]
        merge = element.attributes.get("merge") == "true"
        match element.name:
            case "bean":
                return self._bean(element)
            case "list" | "set" | "array":
                return BeanList([self._value(child) for child in children], element.line, merge)
            case "props" if not children:
                pairs = [*java_properties(element.text, element.line)]
                lines = {key: FileLine.of(line, element.line.file) for key, _, line in pairs}
                return BeanMap({key: Text(text, lines[key]) for key, text, _ in pairs}, element.line, lines, merge)
            case "map" | "props":
                mapped = BeanMap({}, element.line, merge=merge)
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

    # Parents, overrides and placeholders

    def _all_beans(self) -> list[Bean]:
        return [bean for bean in within(self.top) if isinstance(bean, Bean)]

    def _inherit(self, bean: Bean, below: list[Bean]) -> None:
        """Give a bean the class and the properties of its parent, as far as it has none of its own."""
        name, bean.parent = bean.parent, ""
        if not name:
            return
        parent = self.bean(name)
        if parent is None or any(parent is each for each in (*below, bean)):
            why = "there is no such bean in the file" if parent is None else "it is its own parent"
            self.remarks.append(Remark(bean.line, f"{_label(bean)} parent={name[:60]}", why))
            return
        self._inherit(parent, [*below, bean])
        bean.name = bean.name or parent.name
        for key, value in parent.properties.items():
            if key not in bean.properties:
                self._set(bean, key, value, parent.lines[key])
            else:
                _merge(bean.properties[key], value)

    def _pairs(self, bean: Bean) -> list[tuple[str, str, FileLine]]:
        """Return the properties of a configurer: those of its files win, unless it says otherwise."""
        files: list[tuple[str, str, FileLine]] = []
        for name in bean.properties:
            if not _OF_CONFIGURERS.fullmatch(name):
                self.remarks.append(Remark(bean.lines[name], f"{_label(bean)}.{name}", "it is not read"))
        for location in (bean.properties.get("location"), bean.properties.get("locations")):
            for text in location.items if isinstance(location, BeanList) else [location]:
                for each in text.text.split(",") if isinstance(text, Text) else ():
                    files += self._of_file(each.strip(), text.line) if isinstance(text, Text) and each.strip() else ()
        own: list[tuple[str, str, FileLine]] = []
        value = self.resolved(bean.properties.get("properties"))
        if isinstance(value, BeanMap):
            own = [(key, _text(each), value.lines[key]) for key, each in value.items.items()]
        elif isinstance(value, Text):
            own = [
                (key, text, FileLine.of(line, value.line.file))
                for key, text, line in java_properties(value.text, value.line)
            ]
        return [*files, *own] if _text(bean.properties.get("localOverride")).strip() == "true" else [*own, *files]

    def _of_file(self, location: str, line: FileLine) -> list[tuple[str, str, FileLine]]:
        path = _beside(self.path, location)
        try:
            if path is None:
                raise OSError("only files beside the configuration are read")
            text = path.read_text(encoding="latin-1")
        except OSError as error:
            self.remarks.append(Remark(line, f"the properties of {location[:100]}", f"{error.strerror or error}"))
            return []
        return [(key, value, FileLine.of(number, location)) for key, value, number in java_properties(text, 1)]

    def _replace(self, path: str, value: Text) -> None:
        name, *steps = path.replace("[", ".[").split(".")
        found: Value | None = self.by_id.get(name)
        for step in steps[:-1]:
            if isinstance(found, Bean):
                found = self.resolved(found.properties.get(step))
            else:
                place = _place(found, step)
                found = None if place is None else self.resolved(place[0][place[1]])
        if isinstance(found, Bean) and steps:
            self._set(found, steps[-1], value, value.line)
        elif steps and (place := _place(found, steps[-1])) is not None:
            place[0][place[1]] = value
        else:
            self.remarks.append(Remark(value.line, path, "there is no such bean or property in the file"))

    def _fill_in(self, configurers: list[Bean]) -> None:
        """Replace the placeholders in all texts; those without a value are lost. Without a configurer, they stay.

        A text with an expression, `#{...}`, is lost in any case.
        """
        known = {key: text for bean in configurers for key, text, _ in self._pairs(bean)}
        done: set[int] = set()
        for text in within([*self.top, *self.by_id.values()]):
            if not isinstance(text, Text) or id(text) in done:
                continue
            done.add(id(text))
            if configurers and "${" in text.text:
                text.text = _filled(text.text, known)
            left = _PLACEHOLDER.search(text.text) if configurers else None
            if left or "#{" in text.text:
                why = f"{left[0][:60]} has no value in the file" if left else "expressions are not computed"
                text.kind, text.lost = "null", f"{why}; left out"

    def _list_dangling(self) -> None:
        """Remark on the references to beans that are not there, with which Spring refuses the configuration."""
        texts = [each for each in within([*self.top, *self.by_id.values()]) if isinstance(each, Text)]
        for text in {id(each): each for each in texts}.values():
            if text.kind == "ref" and text.text not in self.by_id:
                self.remarks.append(Remark(text.line, f"ref {text.text[:60]}", "there is no such bean in the file"))


def _place(value: Value | None, step: str) -> tuple[list[Value], int] | None:
    """Return the items and the index that a step, `[3]`, means in a list; None if there is none."""
    index = re.fullmatch(r"\[(\d{1,6})\]", step)
    if not isinstance(value, BeanList) or index is None or int(index[1]) >= len(value.items):
        return None
    return value.items, int(index[1])


def _filled(text: str, known: dict[str, str]) -> str:
    """Return a text with the values of its placeholders, which may have placeholders themselves."""

    def value(found: re.Match[str]) -> str:
        return known.get(found[1].strip(), found[0] if found[2] is None else found[2])

    for _ in range(_MOST_STEPS):
        before, text = text, _PLACEHOLDER.sub(value, text)
        if text == before or len(text) > 1 << 20:
            break
    return text


def _merge(own: Value, parents: Value) -> None:
    """Add the entries of the parent bean to a list or map with `merge`."""
    if isinstance(own, BeanList) and isinstance(parents, BeanList) and own.merge:
        own.items[:0] = parents.items
    if isinstance(own, BeanMap) and isinstance(parents, BeanMap) and own.merge:
        own.items = parents.items | own.items
        own.lines = parents.lines | own.lines


def _names(element: Element) -> list[str]:
    """Return the id and the further names of a bean."""
    names = re.split(r"[,;\s]+", element.attributes.get("name", ""))
    return [each for each in dict.fromkeys([element.attributes.get("id", ""), *names]) if each]


def _beside(path: Path, resource: str) -> Path | None:
    """Return the file that a resource of Spring names, if it is in the folder of a file or in one below."""
    file = resource.removeprefix("file:").removeprefix("./")
    if not file or ":" in file or "*" in file or "\0" in file or file.startswith("/") or ".." in Path(file).parts:
        return None
    return path.parent / file


def argument(place: str) -> str:
    """Return the name that an argument of a constructor, by its number from 0 or its name, has among properties."""
    return f"constructor-arg[{place}]"


def inner(value: Value) -> Iterator[Value]:
    """Yield the values within a value."""
    if isinstance(value, Bean):
        yield from value.properties.values()
    elif isinstance(value, BeanList):
        yield from value.items
    elif isinstance(value, BeanMap):
        yield from value.items.values()


def within(values: list[Value] | list[Bean]) -> Iterator[Value]:
    """Yield values and all that is in them, nested ones after those that have them."""
    waiting: list[Value] = [*reversed(values)]
    while waiting:
        value = waiting.pop()
        yield value
        waiting += [*reversed([*inner(value)])]


def _label(bean: Bean) -> str:
    return bean.id or bean.name


def _text(value: Value | None) -> str:
    return value.text if isinstance(value, Text) else ""
