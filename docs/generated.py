"""The parts of the reference that are read off the code, as Markdown: settings, commands, the Python API, errors.

A page asks for one with a line `<!-- generated: name -->`.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import importlib
import inspect
import itertools
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any
from unittest import mock

import msgspec

import budgetfrontier

if TYPE_CHECKING:
    from budgetfrontier.settings.field import Row

HERE = Path(__file__).parent
MARK = re.compile(r"^<!-- generated: ([\w-]+) -->$", re.MULTILINE)


def fill(page: str) -> str:
    """Return a page with its marks replaced."""
    return MARK.sub(lambda mark: PARTS[mark[1]](), page)


def settings() -> str:
    """Every setting, one table for each section; then the fields of entries of the longer lists."""
    from budgetfrontier.settings import Settings
    from budgetfrontier.settings.field import all_settings
    from budgetfrontier.settings.schema import AlertSink, GroupSettings, RequestSettings, Seed

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
    entries: dict[str, type[msgspec.Struct]] = {
        "A seed": Seed,
        "An entry of `groups`": GroupSettings,
        "An entry of `fetch.requests`": RequestSettings,
        "An entry of `alerts.sinks`": AlertSink,
    }
    for title, entry in entries.items():
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


API = {
    "frontier": ("Frontier",),
    "uris": ("CrawlUri", "Directive", "Admission", "Tally", "Lease", "Outcome", "Finish"),
    "records": (
        *("Summary", "Report", "QueueRecord", "QueueState", "CrawlState", "Verdict"),
        *("DeadLetter", "Process", "Run", "RunEnd", "Reader"),
        *("rules.verdict.Standing", "storage.records.AuditEntry", "storage.records.Progress"),
        *("storage.view.PendingUri", "core.model.KeptUrl", "core.model.KeptTotals"),
    ),
    "settings": ("Settings", "Adjustment", "settings.schema.Override"),
    "integrations": ("scrapy.Scheduler", "aio.Scheduler", "leasing.LeaseQueue", "leasing.Reason", "leasing.State"),
    "connections": (
        *("connections.connect", "connections.asynchronous", "remote.RemoteFrontier", "remote.AsyncRemoteFrontier"),
        *("cluster.client.ClusterFrontier", "cluster.asynchronous.AsyncClusterFrontier"),
        *("cluster.directory.owners.Owner", "cluster.partitions.partition_progress.PartitionProgress"),
    ),
    "testing": ("ManualClock", "testing.crash", "testing.fail_commit", "testing.urls", "testing.crawl_uris"),
    "parts": (
        *("crawler.outputs.sinks.Page", "bus.workers.strategies.Strategy", "bus.workers.strategies.Score"),
        *("bus.messages.Request", "bus.messages.Response", "clock.Clock"),
    ),
    "internals": ("engine.internals.Internals",),
}
"""The pages of the Python API with their names, which are below `budgetfrontier`, the everyday ones first."""

CALLED = {"Reader", "ManualClock", "aio.Scheduler", "remote.RemoteFrontier", "remote.AsyncRemoteFrontier"}
"""The classes of which programs make objects by a call, and whose fields do not show its arguments."""


def api() -> str:
    """A list of all names of the Python API, with the page of each."""
    lines = []
    for page, names in API.items():
        title = re.match(r"# (.*)", (HERE / f"reference/api/{page}.md").read_text(encoding="utf-8"))
        listed = ", ".join(f"{{py:obj}}`{name} <budgetfrontier.{name}>`" for name in names)
        lines.append(f"| [{title[1] if title else page}](api/{page}.md) | {listed} |")
    return "\n".join(["| page | names |", "| --- | --- |", *lines])


def api_page(page: str) -> str:
    """The names of one page of the Python API, as entries of Sphinx."""
    return "\n\n".join(_entry(name, _named(name)) for name in API[page])


def _named(name: str) -> Any:
    """Return the object of a name below `budgetfrontier`."""
    module, _, last = f"budgetfrontier.{name}".rpartition(".")
    return getattr(importlib.import_module(module), last)


def errors() -> str:
    """Every error, with its parents and its message when none is more exact, as entries of Sphinx."""
    import budgetfrontier.errors as module

    entries = []
    for name, error in _own(module):
        if issubclass(error, Exception):
            parents = [
                _error(base.__name__) for base in error.__bases__ if base not in (Exception, module.FrontierError)
            ]
            text = markdown(inspect.cleandoc(error.__doc__ or ""))
            text += f"\n\nSubclass of {', '.join(parents)}." if parents else ""
            entries.append(_directive(f"exception}} {_home(name)}.{name}", text))
    return "\n\n".join(entries)


def _home(error: str) -> str:
    return "budgetfrontier" if error in budgetfrontier.__all__ else "budgetfrontier.errors"


def _error(name: str) -> str:
    """Return a link to an error, of this package or of Python."""
    return f"{{py:exc}}`{name} <{name if hasattr(builtins, name) else f'{_home(name)}.{name}'}>`"


def _own(module: ModuleType) -> Iterator[tuple[str, type]]:
    for name, thing in vars(module).items():
        if isinstance(thing, type) and thing.__module__ == module.__name__ and not name.startswith("_"):
            yield name, thing


def _entry(name: str, thing: Any) -> str:
    """A function, or a class with its values or fields and its methods, as a directive of Sphinx's Python domain."""
    if not isinstance(thing, type):
        return _directive(f"function}} budgetfrontier.{name}{_call(thing)}", markdown(inspect.getdoc(thing) or ""))
    parts = [markdown(inspect.getdoc(thing) or "")]
    if issubclass(thing, Enum):
        parts.append("Values: " + ", ".join(f"`{value}`" for value in thing.__members__))
    elif name == "Settings":
        parts.append("The sections and their settings have [a page of their own](../settings.md).")
    elif issubclass(thing, msgspec.Struct):
        parts += _fields(thing)
    members = {} if issubclass(thing, Enum) else {k: v for c in thing.__mro__[-2::-1] for k, v in vars(c).items()}
    for method, raw in members.items():  # in the order of the code
        if method.startswith("_") or not isinstance(raw, FunctionType | classmethod | staticmethod | property):
            continue
        parts.append(_member(thing, method, raw))
    call = _call(thing).partition(" ->")[0] if name in CALLED else ""
    return _directive(f"class}} budgetfrontier.{name}{call}", "\n\n".join(part for part in parts if part), fence="::::")


def _member(thing: type, method: str, raw: Any) -> str:
    """A method or a property that has a docstring."""
    body: Any = raw.fget if isinstance(raw, property) else getattr(thing, method)
    doc = inspect.getdoc(body)
    if not doc:
        return ""
    if isinstance(raw, property):
        kind = _written(inspect.signature(body).return_annotation)
        return _directive(f"property}} {method}", f":type: {json.dumps(kind)}\n\n{markdown(doc)}")
    options = {classmethod: ":classmethod:\n\n", staticmethod: ":staticmethod:\n\n"}.get(type(raw), "")
    options = ":async:\n\n" if inspect.iscoroutinefunction(body) else options
    return _directive(f"method}} {method}{_call(body)}", options + markdown(doc))


def _fields(thing: type[msgspec.Struct]) -> list[str]:
    """The fields of a record with their types and defaults, and the docstrings below them."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(tree, ast.ClassDef)
    docs = {}
    for field, below in itertools.pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            docs[ast.unparse(field.target)] = inspect.cleandoc(str(below.value.value))
    types = {name: kind for cls in reversed(thing.__mro__) for name, kind in inspect.get_annotations(cls).items()}
    return [_attribute(f, types[f.name], docs.get(f.name, "")) for f in msgspec.structs.fields(thing)]


def _attribute(field: msgspec.structs.FieldInfo, kind: str, doc: str) -> str:
    """A field; one named like a built-in type is no target, for `bytes` in a signature means the type."""
    options = [f":type: {json.dumps(_written(kind))}"]
    default = field.default
    if default is not msgspec.NODEFAULT:
        value = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
        options.append(f":value: {json.dumps(value)}")
    if hasattr(builtins, field.name):
        options.append(":no-index:")
    return _directive(f"attribute}} {field.name}", "\n".join(options) + f"\n\n{markdown(doc)}")


def _directive(head: str, body: str, *, fence: str = ":::") -> str:
    return f"{fence}{{py:{head}\n{body}\n{fence}"


def _call(function: Callable[..., Any]) -> str:
    """Return the arguments of a function and its result, with their types."""
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    return re.sub(r"<([\w.]+): '\w+'>", r"\1", str(_Signature(parameters, signature.return_annotation)))


def _written(annotation: object) -> str:
    """Return an annotation as written in the code, with full names."""
    text = re.sub(r"^Annotated\[([^,]*),.*\]$", r"\1", str(annotation))
    return re.sub(r"(?<![\w.'\"])[A-Za-z]\w*(?:\.\w+)*", lambda name: full_names().get(name[0], name[0]), text)


@functools.cache
def full_names() -> dict[str, str]:
    """The full names of the types that signatures have, by how the code writes them."""
    names = {name.rpartition(".")[2]: f"budgetfrontier.{name}" for page in reversed(API.values()) for name in page}
    return names | {"Number": "int"} | {name.rpartition(".")[2]: name for name in PYTHON if "." in name}


PYTHON = {
    **dict.fromkeys(("int", "float", "bool", "object", "type"), "functions"),
    **dict.fromkeys(("str", "bytes", "list", "dict", "tuple", "set", "frozenset"), "stdtypes"),
    "None": "constants",
    **{f"collections.abc.{name}": "collections.abc" for name in (
        "AsyncIterator", "Awaitable", "Callable", "Iterable", "Iterator", "Mapping", "Sequence",
    )},
    **{f"typing.{name}": "typing" for name in ("Any", "Literal", "Self")},
    "contextlib.AbstractContextManager": "contextlib",
    "os.PathLike": "os",
    "pathlib.Path": "pathlib",
    **dict.fromkeys((
        "Exception", "ValueError", "TypeError", "RuntimeError", "OSError", "PermissionError", "ImportError", "KeyError",
    ), "exceptions"),
}  # fmt: skip
"""The page of Python's documentation for each of its types that signatures have: no inventory has to be downloaded."""


def python_url(name: str) -> str | None:
    """Return where Python's documentation explains one of its types."""
    return f"https://docs.python.org/3/library/{PYTHON[name]}.html#{name}" if name in PYTHON else None


class _Signature(inspect.Signature):
    """A signature with annotations printed as written in the code."""

    def __init__(self, parameters: Any, returned: Any) -> None:
        plain = [p.replace(annotation=_Written(p.annotation)) if p.annotation is not p.empty else p for p in parameters]
        super().__init__(plain, return_annotation=returned if returned is self.empty else _Written(returned))


class _Written:
    def __init__(self, text: object) -> None:
        self._text = _written(text)

    def __repr__(self) -> str:
        return self._text


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
        lines.append(line if inside else _plain(line))
    return "\n".join([*lines, "```"] if inside else lines)


def _plain(line: str) -> str:
    """Return a line of a docstring with links to the errors that it names, and without what Markdown would misread."""
    import budgetfrontier.errors

    def meant(found: re.Match[str]) -> str:
        if found["error"]:
            return _error(found["error"])
        return found[0] if found[0].startswith("`") else found[0].replace("<", "&lt;").replace("*", "\\*")

    errors = "|".join(name for name, error in _own(budgetfrontier.errors) if issubclass(error, Exception))
    return re.sub(rf"`[^`]*`|\b(?P<error>{errors}|TypeError|ValueError|PermissionError)\b|<|\*\*", meant, line)


PARTS: dict[str, Callable[[], str]] = {"settings": settings, "cli": cli, "api": api, "errors": errors}
PARTS |= {f"api-{page}": functools.partial(api_page, page) for page in API}
