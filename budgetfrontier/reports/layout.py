"""Layout of listings on a terminal: which columns fit, how long values are cut, and the colours."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import IO, NamedTuple

from budgetfrontier.core.units import format_count
from budgetfrontier.reports.format import clean, limit_in_words

_GAP = 2
_COMFORTABLE = {"url": 40, "last_leased": 40, "last_enqueued": 40}
_OTHERS = 24
"""Characters of a long value that stay readable: columns are left out before values are cut further."""
_LEAST = 8
_BELOW = "    "
_SHORT = 20
"""Values up to this length, such as times and states, are never cut."""

_SENTENCES = frozenset(("what", "why", "outcome", "text", "kinds", "reason", "told", "error"))
"""Columns of sentences, which are wrapped and not cut."""
_EXACT = frozenset(("id", "number", "pid", "code", "place", "port"))
"""Columns of numbers that name something."""
_WORD = re.compile(r"[^\s`]*`[^`]*`\S*|\S+")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

HEADS = {
    "total_budget": "budget",
    "expenditure": "spent",
    "precedence": "prec",
    "average_cost": "avg cost",
    "last_cost": "last cost",
    "balance_replenish_amount": "replenish",
    "attempts": "tries",
}
"""The short names of columns, for their heads on a terminal."""

_BOLD, _DIM, _RED, _GREEN, _YELLOW, _MAGENTA, _CYAN = "1", "2", "31", "32", "33", "35", "36"
_COLOURS = {
    "READY": _GREEN,
    "IN_PROCESS": _CYAN,
    "SNOOZED": _YELLOW,
    "INELIGIBLE": _MAGENTA,
    "RETIRED": _RED,
    "EXHAUSTED": _DIM,
    "RUNNING": _GREEN,
    "PAUSING": _YELLOW,
    "PAUSED": _YELLOW,
    "TERMINATED": _RED,
}


class ListingLayout(NamedTuple):
    """The room for a listing. `width` None: all columns, values in full, numbers exact, as scripts read them."""

    width: int | None = None
    colour: bool = False
    ellipsis: str = "…"

    def painted(self, text: str, code: str) -> str:
        """Return `text` in a colour (a code of ECMA-48, such as "31"), if colours are wanted."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and code else text

    def title(self, text: str) -> str:
        """Return a title, in bold if colours are wanted."""
        return self.painted(text, _BOLD)

    def wrapped(self, line: str, indent: str = "   ") -> list[str]:
        """Return a sentence in as many lines as it takes; commands ("$ ...", or in backquotes) stay whole."""
        if self.width is None or cells(line) <= self.width or line.lstrip().startswith("$ "):
            return [line]
        return _wrapped(line, self.width, indent)

    def cell(self, name: str, value: object) -> str:
        """Return the text of a value: numbers as people read them, and nothing that a terminal would act upon."""
        if value is None or value == "":
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "-"
        if isinstance(value, int) and name in _EXACT:
            return str(value)
        if isinstance(value, int):
            return limit_in_words(value) if name == "total_budget" and value < 0 else format_count(value)
        if isinstance(value, float):
            return f"{value:.1f}" if abs(value) < 10_000 else format_count(round(value))
        text = clean(str(value))
        return f"{text[:10]} {text[11:16]}Z" if _TIME.fullmatch(text) else text


EXACT = ListingLayout()


def layout_for(out: IO[str], *, wide: bool, environment: Mapping[str, str] = os.environ) -> ListingLayout:
    """Return the layout for a stream: by its terminal, or by the variable COLUMNS, which `watch` sets.

    Piped output without COLUMNS gets everything. Colours need a terminal, or FORCE_COLOR; NO_COLOR forbids them.
    """
    tty = _is_terminal(out)
    forced = environment.get("FORCE_COLOR", "") not in ("", "0")
    colour = not environment.get("NO_COLOR") and (forced or (tty and environment.get("TERM", "dumb") != "dumb"))
    columns = environment.get("COLUMNS", "")
    width = int(columns) if columns.isdecimal() and int(columns) else _terminal_width(out) if tty else None
    try:
        "…".encode(getattr(out, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return ListingLayout(None if wide else width, colour, "...")
    return ListingLayout(None if wide else width, colour)


def _is_terminal(out: IO[str]) -> bool:
    try:
        return out.isatty()
    except ValueError:  # closed
        return False


def _terminal_width(out: IO[str]) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or 80
    except OSError:
        return 80


class ColumnPlan(NamedTuple):
    """The columns that are shown, by index, the width of each, and the names of those left out."""

    shown: list[int]
    widths: list[int]
    left_out: list[str]
    below: list[int]
    """Those whose sentences are below each row."""


def plan(
    names: Sequence[str], widths: Sequence[int], cuttable: Sequence[bool], *, width: int, drop: Sequence[str]
) -> ColumnPlan:
    """Choose columns for a terminal of `width` characters; `widths` are those of the longest values.

    Columns of `drop` are left out, the first of them first, until long values keep a readable length; then the
    longest are cut. If that is still too wide, the last of the other columns are left out, too, except the first one.
    Sentences at the end that have no readable room then are below.
    """
    columns, below = list(range(len(names))), list[int]()
    while True:
        found = _plan(columns, names, widths, cuttable, width=width, drop=drop)
        last = found.shown[-1]
        if last == columns[0] or names[last] not in _SENTENCES or found.widths[-1] >= min(widths[last], _OTHERS):
            return found._replace(below=sorted(below))
        columns.remove(last)
        below.append(last)


def _plan(
    columns: Sequence[int],
    names: Sequence[str],
    widths: Sequence[int],
    cuttable: Sequence[bool],
    *,
    width: int,
    drop: Sequence[str],
) -> ColumnPlan:
    shown = list(columns)
    cuttable = [may and length > _SHORT for may, length in zip(cuttable, widths, strict=True)]

    def least(length: int) -> int:
        return sum(min(widths[i], length) if cuttable[i] else widths[i] for i in shown) + _GAP * (len(shown) - 1)

    def comfortable(i: int) -> int:
        return min(widths[i], _COMFORTABLE.get(names[i], _OTHERS)) if cuttable[i] else widths[i]

    for name in (name for name in drop if names.index(name) in columns):
        if sum(map(comfortable, shown)) + _GAP * (len(shown) - 1) <= width:
            break
        shown.remove(names.index(name))
    while len(shown) > 1 and least(_LEAST) > width:
        shown.pop()
    cap = max((widths[i] for i in shown if cuttable[i]), default=0)
    if least(cap) > width:
        low, high = _LEAST, cap  # least(low) fits if anything does
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if least(middle) <= width else (low, middle)
        cap = low
    chosen = [min(widths[i], cap) if cuttable[i] else widths[i] for i in shown]
    spare = max(width - least(cap), 0)
    for place, i in enumerate(shown):  # the rest from rounding goes to the first value that was cut
        if spare and chosen[place] < widths[i]:
            chosen[place], spare = min(chosen[place] + spare, widths[i]), 0
    return ColumnPlan(shown, chosen, [names[i] for i in columns if i not in shown], [])


def cells(text: str) -> int:
    """Return the number of columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _wrapped(text: str, width: int, indent: str) -> list[str]:
    """Return a text in lines of at most `width` columns; only commands in backquotes may be longer."""
    lines, line, empty = [], text[: len(text) - len(text.lstrip())], True
    for word in _WORD.findall(text):
        if not empty and cells(line) + 1 + cells(word) > width:
            lines.append(line)
            line, empty = indent, True
        while empty and "`" not in word and cells(line) + cells(word) > width:
            part = _start(word, max(width - cells(line), 2))
            lines.append(line + part)
            line, word = indent, word[len(part) :]
        line, empty = f"{line}{'' if empty else ' '}{word}", False
    return [*lines, line]


def shortened(text: str, width: int, ellipsis: str = "…") -> str:
    """Return a text cut to `width` columns: a key or URL in its middle, words at their end.

    >>> shortened("https://example.org/a/very/long/path?page=12", 20), shortened("raised by request", 10)
    ('https://ex…h?page=12', 'raised by…')
    """
    if cells(text) <= width:
        return text
    room = width - len(ellipsis)
    if room < 2:
        return text[:width]
    if " " in text:
        return _start(text, room).rstrip() + ellipsis
    return _start(text, room - room // 2) + ellipsis + _start(text[::-1], room // 2)[::-1]


def _start(text: str, width: int) -> str:
    """Return the longest start of a text that takes at most `width` columns."""
    if text.isascii():
        return text[:width]
    end = taken = 0
    while end < len(text) and (taken := taken + cells(text[end])) <= width:
        end += 1
    return text[:end]


def table_line(
    plan: ColumnPlan,
    names: Sequence[str],
    row: Sequence[str],
    numbers: Sequence[bool],
    layout: ListingLayout,
    *,
    head: bool = False,
) -> str:
    """Return a row of a table: numbers to the right, long values cut, and colours after the padding.

    Sentences are wrapped, so that such a row is several lines.
    """
    below = [_lines(names[i], row[i], width, layout) for i, width in zip(plan.shown, plan.widths, strict=True)]
    lines = []
    for texts in zip_longest(*below, fillvalue=""):
        parts = []
        for i, width, text in zip(plan.shown, plan.widths, texts, strict=True):
            pad = " " * (width - cells(text))
            code = _BOLD if head else _colour(names[i], row[i])
            painted = layout.painted(text, code) if text else ""
            parts.append(pad + painted if numbers[i] else painted + pad)
        lines.append((" " * _GAP).join(parts).rstrip())
    for i in () if head else (i for i in plan.below if row[i] != "-"):
        lines += layout.wrapped(f"{_BELOW}{row[i]}", _BELOW)
    return "\n".join(lines)


def _lines(name: str, text: str, width: int, layout: ListingLayout) -> list[str]:
    if name in _SENTENCES and cells(text) > width:
        return _wrapped(text, width, "")
    return [shortened(text, width, layout.ellipsis)]


def _colour(name: str, text: str) -> str:
    if name == "state":
        return _COLOURS.get(text, "")
    return _RED if name in ("error", "errors") and text not in ("0", "-") else ""
