"""Strict YAML: no booleans but true and false, no repeated keys, no tags, and the position of every value.

The data is made from libyaml's events. So implicit types of YAML 1.1 do not apply, and deep nesting cannot exhaust the
C stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import yaml

from budgetfrontier.settings.problems import Problem, ValuePath
from budgetfrontier.settings.values import brief, plain

_DEEPEST = 50
LARGEST = 16 << 20  # bytes of a file
_MOST_VALUES = 500_000  # of 400 bytes each; values that aliases refer to count again
_TOO_DEEP = "exceeded maximum nesting depth"
"""The words of libyaml when it gives up: later than this module, but it reads ahead of its events."""
_OPEN_KEY = "while scanning a simple key"
"""The words of libyaml about a word that a colon has to follow: it misses that in the next line."""
_DIRECTIVE = re.compile("^%(?!YAML )", re.MULTILINE)
_NO_TEXT = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Document:
    """One YAML document as plain `data`, with `problems` and the position of every key and value.

    `whole` is False if reading stopped early, so that `data` is incomplete.
    """

    def __init__(self, raw: bytes, *, if_empty: str = "the file is empty") -> None:
        self.problems: list[Problem] = []
        self.data: Any = None
        self.whole = False
        self._if_empty = if_empty
        self._values: dict[ValuePath, tuple[int, int]] = {}
        self._keys: dict[ValuePath, tuple[int, int]] = {}
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._aliases = 0
        self._count = 0
        text = self._decode(raw)
        if text is not None:
            self._parse(text)

    def position(self, problem: Problem) -> tuple[int, int]:
        """Return the line and column (from 1) of a problem: of its key or value, or of the nearest enclosing one."""
        if problem.at_key and problem.path in self._keys:
            return self._keys[problem.path]
        path = problem.path
        while path and path not in self._values:
            path = path[:-1]
        return self._values.get(path, (1, 1))

    def _stop(self, line: int, column: int, text: str) -> None:
        path = (f"{line}:{column}",)  # not in the data
        self._values[path] = (line, column)
        self.problems.append(Problem(path, text, bare=True))

    def _decode(self, raw: bytes) -> str | None:
        if len(raw) > LARGEST:
            self._stop(1, 1, f"larger than {LARGEST >> 20} MiB; put lists of seeds into separate files")
            return None
        raw = raw.removeprefix(b"\xef\xbb\xbf")
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            before = raw[: error.start].decode().split("\n")
            self._stop(
                len(before), len(before[-1]) + 1, f"byte 0x{raw[error.start]:02x} is not UTF-8; is this a text file?"
            )
            return None
        if found := _NO_TEXT.search(text):
            before = text[: found.start()].split("\n")
            self._stop(
                len(before), len(before[-1]) + 1, f"character U+{ord(found[0]):04X} is not text; is this a text file?"
            )
            return None
        if found := _DIRECTIVE.search(text):
            self._stop(text.count("\n", 0, found.start()) + 1, 1, "directives such as %TAG are not supported")
            return None
        return text

    def _parse(self, text: str) -> None:
        events = _events(text)
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    if self.whole:
                        return self._stop(*_at(event), "a second document starts here; a file may have only one")
                    self.data = self._node(next(events), events, ())
                    self.whole = True
        except yaml.MarkedYAMLError as error:
            self.whole = False
            mark = error.problem_mark or error.context_mark
            if error.context == _OPEN_KEY or (mark and mark.line >= len(text.splitlines())):
                mark = error.context_mark or mark  # the problem is seen later than where it begins
            line, column = (mark.line, mark.column) if mark else (0, 0)
            tab = text.split("\n")[line : line + 1] and text.split("\n")[line][column : column + 1] == "\t"
            reason = ", ".join(part for part in (error.context, error.problem) if part)
            self._stop(
                line + 1, column + 1, "a tab; YAML is indented with spaces" if tab else f"this is not YAML: {reason}"
            )
        except _ReadingStopped as error:
            self._stop(*_at(error.args[0]), error.args[1])
        if not self.problems and self.data is None:
            self.whole = False
            self._stop(1, 1, self._if_empty)

    def _node(self, event: Any, events: Iterator[Any], path: ValuePath) -> Any:
        """Return the value that starts with `event`; consume its other events."""
        self._values[path] = _at(event)
        if len(path) > _DEEPEST:
            raise _ReadingStopped(event, f"nested more than {_DEEPEST} deep")
        before = self._count
        self._count += 1
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        if self._count > _MOST_VALUES:
            raise _ReadingStopped(event, f"more than {_MOST_VALUES:,} values; put lists of seeds into separate files")
        if event.tag not in (None, "!"):
            self.problems.append(Problem(path, f"tags such as {brief(event.tag)} are not supported; remove it"))
        aliases = self._aliases
        value: Any
        if isinstance(event, yaml.ScalarEvent):
            value = plain(event.value) if event.implicit[0] else event.value
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(events), yaml.SequenceEndEvent):
                value.append(self._node(item, events, (*path, len(value))))
        else:
            value = self._mapping(events, path)
        if event.anchor:
            self._anchors[event.anchor] = value, self._count - before
            if self._aliases > aliases:  # nested aliases could expand a few lines to gigabytes
                self.problems.append(Problem(path, f"&{brief(event.anchor)} may not contain an alias itself"))
        return value

    def _alias(self, event: Any, path: ValuePath) -> Any:
        """Return the value of an alias; its size counts again, because readers of the data meet it again."""
        self._aliases += 1
        if event.anchor not in self._anchors:
            name = brief(event.anchor)
            self.problems.append(Problem(path, f"*{name} refers to nothing: no &{name} ends before it"))
            return None
        value, count = self._anchors[event.anchor]
        self._count += count
        if self._count > _MOST_VALUES:
            raise _ReadingStopped(
                event, f"more than {_MOST_VALUES:,} values, including those of *{brief(event.anchor)}"
            )
        return value

    def _mapping(self, events: Iterator[Any], path: ValuePath) -> dict[str, Any]:
        value: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent):
                self._node(event, events, (*path, "?"))
                self.problems.append(Problem((*path, "?"), "a key must be a word"))
                self._node(next(events), events, (*path, "? again"))
                continue
            key = event.value  # as written: `no` may be the top-level domain of Norway
            here = (*path, key)
            if key in value:
                again = (*path, f"{key} again in line {_at(event)[0]}")
                self._keys[again] = _at(event)
                self.problems.append(
                    Problem(again, f'"{brief(key)}" is repeated; first in line {self._keys[here][0]}', True)
                )
                self._node(next(events), events, again)
            else:
                self._keys[here] = _at(event)
                value[key] = None
                value[key] = self._node(next(events), events, here)
        return value


class _ReadingStopped(Exception):
    """Raised to stop reading at an event, with the reason; never leaves this module."""


def _events(text: str) -> Iterator[Any]:
    """Yield the events of a text. Where libyaml gives up because of its depth, those of the parser in Python follow."""
    read = 0
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            read += 1
            yield event
    except yaml.MarkedYAMLError as error:
        if error.problem != _TOO_DEEP:
            raise
        yield from islice(yaml.parse(text, Loader=yaml.SafeLoader), read, None)


def _at(event: Any) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
