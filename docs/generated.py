"""The parts of the reference that are read off the code, as Markdown: settings, commands, the Python API, errors.

A page asks for one with a line `<!-- generated: name -->`.
"""

from __future__ import annotations

import argparse
import builtins
import inspect
import json
import os
import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from budgetfrontier.settings.field import Row

MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """Return a page with its marks replaced."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), page)


def settings() -> str:
    """Every setting, one table for each section; then the fields of entries of the longer lists."""
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.field import all_settings
    from budgetfrontier.settings.schema import RequestSettings, Seed

    sections: dict[str, list[str]] = {}
    for row in all_settings(Settings):
        section, _, name = row.name.rpartition(".")
        line = f"| `{name}` | {_default(row)} | {row.doc} | {_value(row)} | {'yes' if row.overridable else ''} |"
        sections.setdefault(section, []).append(line)
    parts = []
    for section, lines in sections.items():
        title = f"`{section}`" if section else "Top level"
        head = "| setting | default | meaning | value | per URI |\n| --- | --- | --- | --- | --- |\n"
        parts.append(f"## {title}\n\n{head}" + "\n".join(_bars(line) for line in lines))
    head = "| key | default | meaning | value |\n| --- | --- | --- | --- |\n"
    for title, entry in (("A seed", Seed), ("An entry of `fetch.requests`", RequestSettings)):
        lines = [f"| `{row.name}` | {_default(row)} | {row.doc} | {_value(row)} |" for row in all_settings(entry)]
        parts.append(f"## {title}\n\n{head}" + "\n".join(_bars(line) for line in lines))
    return "\n\n".join(parts)


_DURATIONS = (("w", 604800), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_SIZES = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def _default(row: Row) -> str:
    """The default of a setting as one would write it: 15m and not 900.0."""
    if row.default is None:
        return "none"
    units = _DURATIONS if "duration" in row.type else _SIZES if row.type.startswith("a size") else ()
    for unit, size in units:
        if row.default and row.default % size == 0:
            return f"`{row.default / size:.0f}{unit}`"
    return f"`{row.default:g}`" if units else f"`{json.dumps(row.default)}`"


def _value(row: Row) -> str:
    """The values of a setting; how durations and sizes are written is said once, elsewhere."""
    kind = row.type.partition(" (")[0] if row.type.startswith(("a duration", "a size")) else row.type
    return re.sub(r"^a (duration|size)\b", r"a [\1](yaml.md#values)", kind)


def _bars(row: str) -> str:
    """Return a table row with text that Markdown would take for HTML quoted."""
    return row.replace("<", "&lt;")


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command of the command line with its parser."""
    from budgetfrontier.tools.cli import build_parser

    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise LookupError("the command line has no commands")


def cli() -> str:
    """What `--help` prints for the program and for every command, in the groups of the program's help."""
    from budgetfrontier.tools.cli import build_parser
    from budgetfrontier.tools.cli.command_list import GROUPS

    with mock.patch.dict(os.environ, COLUMNS="88", NO_COLOR="1"):  # as many columns as a page has
        whole = build_parser().format_help()
        helps = {name: f"### `{name}`\n\n{_printed(parser.format_help())}" for name, parser in commands().items()}
    lists = [f"- {title}: {', '.join(f'[`{name}`](#{name})' for name in group)}" for title, group in GROUPS.items()]
    parts = ["\n".join(lists), f"## `budgetfrontier`\n\n{_printed(whole)}"]
    for title, group in GROUPS.items():
        parts += [f"## Commands: {title}", *(helps[name] for name in group)]
    return "\n\n".join(parts)


def _printed(text: str) -> str:
    return f"```text\n{text.strip()}\n```"


EVERYDAY = ("Frontier", "Settings", "CrawlUri", "Lease", "Outcome", "Finish", "Admission", "Tally", "Summary", "Report")
"""The names that come first in the reference, because every program has them."""


def api() -> str:
    """Every public name of `budgetfrontier`, the everyday ones first, and its integrations, as entries of Sphinx."""
    import budgetfrontier
    from budgetfrontier.aio import Scheduler
    from budgetfrontier.leasing import LeaseQueue
    from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier

    names = [*EVERYDAY, *sorted(set(budgetfrontier.__all__) - set(EVERYDAY))]
    objects = {name: getattr(budgetfrontier, name) for name in names}
    integrations = {"aio.Scheduler": Scheduler, "leasing.LeaseQueue": LeaseQueue}
    integrations |= {"client.RemoteFrontier": RemoteFrontier, "client.AsyncRemoteFrontier": AsyncRemoteFrontier}
    classes = {n: o for n, o in objects.items() if not issubclass(o, Exception)} | integrations
    return "\n\n".join(f"## `{name}`\n\n{_entry(name, thing)}" for name, thing in classes.items())


def errors() -> str:
    """Every error: its message when none is more exact, and its parents."""
    import budgetfrontier.errors as module

    rows = ["| error | is a | message |", "| --- | --- | --- |"]
    for name, error in _own(module):
        if issubclass(error, Exception):
            parents = ", ".join(f"`{parent.__name__}`" for parent in error.__bases__)
            rows.append(f"| `{name}` | {parents} | {' '.join((error.__doc__ or '').split())} |")
    return "\n".join(rows)


def _own(module: ModuleType) -> Iterator[tuple[str, type]]:
    for name, thing in vars(module).items():
        if isinstance(thing, type) and thing.__module__ == module.__name__ and not name.startswith("_"):
            yield name, thing


def _entry(name: str, thing: type) -> str:
    """A class with its values or fields and its methods, as a directive of Sphinx's Python domain."""
    parts = [markdown(inspect.getdoc(thing) or "")]
    if issubclass(thing, Enum):
        parts.append("Values: " + ", ".join(f"`{value}`" for value in thing.__members__))
    elif fields := getattr(thing, "__struct_fields__", None):
        types = inspect.get_annotations(thing)
        parts += [_attribute(field, types[field]) for field in fields if field in types]
    members = {} if issubclass(thing, Enum) else {k: v for c in thing.__mro__[-2::-1] for k, v in vars(c).items()}
    for method, raw in members.items():  # in the order of the code
        if method.startswith("_") or not isinstance(raw, FunctionType | classmethod | staticmethod | property):
            continue
        body: Any = raw.fget if isinstance(raw, property) else getattr(thing, method)
        if doc := inspect.getdoc(body):
            kind = "property" if isinstance(raw, property) else "method"
            call = method if kind == "property" else f"{method}{_call(body)}"
            parts.append(_directive(f"{kind}}} {call}", markdown(doc)))
    return _directive(f"class}} budgetfrontier.{name}", "\n\n".join(part for part in parts if part), fence="::::")


def _attribute(name: str, kind: str) -> str:
    """A field with its type; one named like a built-in type is no target, for `bytes` in a signature means the type."""
    return _directive(f"attribute}} {name}", f":type: {kind}" + ("\n:no-index:" if hasattr(builtins, name) else ""))


def _directive(head: str, body: str, *, fence: str = ":::") -> str:
    return f"{fence}{{py:{head}\n{body}\n{fence}"


def _call(function: Callable[..., Any]) -> str:
    """Return the arguments of a function and its result, with their types."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    return re.sub(r"<([\w.]+): '\w+'>", r"\1", str(_Signature(parameters, signature.return_annotation)))


class _Signature(inspect.Signature):
    """A signature with annotations printed as written in the code."""

    def __init__(self, parameters: Any, returned: Any) -> None:
        plain = [p.replace(annotation=_Written(p.annotation)) if p.annotation is not p.empty else p for p in parameters]
        super().__init__(plain, return_annotation=returned if returned is self.empty else _Written(returned))


class _Written:
    def __init__(self, text: object) -> None:
        self._text = text

    def __repr__(self) -> str:
        return str(self._text)


def markdown(doc: str) -> str:
    """Return a docstring as Markdown: it is, but for its doctests."""
    lines: list[str] = []
    inside = False
    for line in doc.splitlines():
        if not inside and line.startswith(">>>"):
            lines.append("```pycon")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line if inside else line.replace("<", "&lt;"))
    return "\n".join([*lines, "```"] if inside else lines)


PARTS: dict[str, Callable[[], str]] = {"settings": settings, "cli": cli, "api": api, "errors": errors}
