"""The parts of the reference that are read off the code, as Markdown: settings, commands, the Python API, errors.

A page asks for one with a line `<!-- generated: name -->`.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any

MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """Return a page with its marks replaced."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), page)


def settings() -> str:
    """Every setting, one table for each section."""
    from budgetfrontier.settings.schema import Seed, all_settings

    sections: dict[str, list[str]] = {}
    for row in all_settings():
        section, _, name = row.name.rpartition(".")
        default = f"`{json.dumps(row.default)}`" if row.default is not None else "none"
        line = f"| `{name}` | {default} | {row.doc} | {row.type} | {'yes' if row.overridable else ''} |"
        sections.setdefault(section, []).append(line)
    seed = [f"| `{row.name}` | `{json.dumps(row.default)}` | {row.doc} | {row.type} |" for row in all_settings(Seed)]
    parts = []
    for section, lines in sections.items():
        title = f"`{section}`" if section else "Top level"
        head = "| setting | default | meaning | value | per URI |\n| --- | --- | --- | --- | --- |\n"
        parts.append(f"## {title}\n\n{head}" + "\n".join(_bars(line) for line in lines))
    head = "| key | default | meaning | value |\n| --- | --- | --- | --- |\n"
    parts.append("## A seed\n\n" + head + "\n".join(_bars(line) for line in seed))
    return "\n\n".join(parts)


def _bars(row: str) -> str:
    """Return a table row with what Markdown would take for HTML quoted."""
    return row.replace("<", "&lt;")


def commands() -> dict[str, argparse.ArgumentParser]:
    """Every command of the command line with its parser."""
    from budgetfrontier.cli import build_parser

    for action in build_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise LookupError("the command line has no commands")


def cli() -> str:
    """What `--help` says, for every command."""
    parts = []
    for name, parser in commands().items():
        parser.formatter_class = _Wide
        parts.append(f"## `{name}`\n\n```text\n{parser.format_help().strip()}\n```")
    return "\n\n".join(parts)


class _Wide(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog, width=100)


def api() -> str:
    """Every public name of `budgetfrontier`."""
    import budgetfrontier

    names = [name for name in budgetfrontier.__all__ if not name.startswith("_")]
    objects = {name: getattr(budgetfrontier, name) for name in names}
    classes = {n: o for n, o in objects.items() if not (isinstance(o, type) and issubclass(o, Exception))}
    return "\n\n".join(_entry(name, thing) for name, thing in classes.items())


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


def _entry(name: str, thing: Any) -> str:
    """One name: a class with its methods, or whatever else it is with its docstring."""
    if not isinstance(thing, type):
        return f"## `{name}`\n\n{markdown(inspect.getdoc(thing) or '') if callable(thing) else ''}"
    parts = [f"## `{name}`", markdown(inspect.getdoc(thing) or "")]
    if issubclass(thing, Enum):
        parts.append("Values: " + ", ".join(f"`{value}`" for value in thing.__members__))
        return "\n\n".join(parts)
    if fields := getattr(thing, "__struct_fields__", None):
        parts.append("Fields: " + ", ".join(f"`{field}`" for field in fields))
    for method, raw in inspect.getmembers_static(thing):
        if method.startswith("_") or not isinstance(raw, FunctionType | classmethod | staticmethod | property):
            continue
        body: Any = raw.fget if isinstance(raw, property) else getattr(thing, method)
        if not (doc := inspect.getdoc(body)):
            continue
        call = "" if isinstance(raw, property) else _call(body)
        parts.append(f"### `{name}.{method}{call}`\n\n{markdown(doc)}")
    return "\n\n".join(part for part in parts if part)


def _call(function: Callable[..., Any]) -> str:
    """Return the arguments of a function, without their types: the docstring says what they are."""
    signature = inspect.signature(function)
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    text = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return re.sub(r"<([\w.]+): '\w+'>", r"\1", text)  # an Enum's value


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
