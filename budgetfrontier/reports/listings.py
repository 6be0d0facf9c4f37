"""Output of listings as aligned text, JSON or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import attrgetter
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec

from budgetfrontier.core.model import ROW_FIELDS, QueueRecord
from budgetfrontier.reports.format import clean, setting_as_written
from budgetfrontier.reports.layout import EXACT, HEADS, ListingLayout, cells, plan, table_line
from budgetfrontier.storage.whole_files import naming_file

if TYPE_CHECKING:
    from budgetfrontier.storage.report import Report

Row = Sequence[object]
queue_row = attrgetter(*ROW_FIELDS)
"""Return the row of a queue, the same in all reports."""
_T = TypeVar("_T")

_IN_MEMORY = 1 << 24  # characters of a listing held in memory; a longer one goes to a temporary file
_BLOCK = 1 << 20
_CHUNK = 1000  # rows encoded at once

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def write(
    rows: Iterable[Row],
    columns: Sequence[str],
    out: TextIO,
    *,
    format: str = "text",
    layout: ListingLayout = EXACT,
    drop: Sequence[str] = (),
) -> list[str]:
    """Write `rows`, each with a value for each of `columns`. JSON is one array of objects; CSV and text have a header.

    Text of a `layout` with a width leaves out columns of `drop` that have no room, and returns their names. Nothing is
    printed before the last row has been read. A long listing takes a temporary file rather than memory.
    """
    with spooled(out) as spool:
        if format == "json":
            for text in json_array(rows, columns):
                spool.write(text)
            spool.write("\n")
        elif format == "csv":
            write_csv(rows, columns, spool)
        elif layout.width is None and not layout.colour:
            _write_text(rows, columns, spool)
        else:
            return _write_fitting(rows, columns, spool, layout, drop)
    return []


@contextmanager
def spooled(out: TextIO) -> Iterator[IO[str]]:
    """Open a file that is copied to `out`, the standard output, at the end.

    Rows are read from a snapshot, which makes the frontier's file grow while it is held: output to an idle pager must
    not prolong that. If reading fails, nothing is printed, rather than a part.
    """
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="") as spool:
        yield spool
        spool.seek(0)
        with naming_file("standard output"):
            shutil.copyfileobj(spool, out, _BLOCK)


def json_report(
    head: Report, queues: Iterable[QueueRecord], more: Callable[[], Mapping[str, Any]] = dict
) -> Iterator[str]:
    """Yield the JSON of `Report.to_dict` in pieces, with `queues` as its rows, then `more`, asked for after them."""
    plain = {**head.to_dict(), "queues": []}
    yield json.dumps(plain, indent=1).removesuffix("[]\n}")
    yield from json_array(map(queue_row, queues), ROW_FIELDS)
    yield "".join(f",\n {json.dumps(name)}: {json.dumps(value)}" for name, value in more().items())
    yield "\n}"


def json_array(rows: Iterable[Row], columns: Sequence[str]) -> Iterator[str]:
    """Yield a JSON array in pieces, one object per line, in ASCII, which every terminal can show."""
    shape = msgspec.defstruct("Row", columns)
    encode = msgspec.json.Encoder(enc_hook=str).encode_lines
    opening = "[\n"
    for chunk in chunks(rows):
        lines = encode([shape(*row) for row in chunk]).decode()[:-1].replace("\n", ",\n")  # values hold no line ends
        yield opening + (lines if lines.isascii() else _NOT_ASCII.sub(_escape, lines))
        opening = ",\n"
    yield "[]" if opening == "[\n" else "\n]"


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def write_csv(rows: Iterable[Row], columns: Sequence[str], out: IO[str]) -> None:
    """Write a table with a header. Lists and mappings, for which CSV has no type, are JSON within a cell."""
    csv.writer(out, lineterminator="\n").writerow(columns)
    encode = msgspec.json.Encoder(enc_hook=str).encode_lines
    commas = len(columns) - 1
    for chunk in chunks(rows):
        lines = io.StringIO()
        csv_writer = csv.writer(lines, lineterminator="\n")
        quote_all = csv.writer(lines, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        # The JSON of a row that needs no quoting is its CSV, but for brackets and quotes. Most rows are like that, and
        # the csv module takes four times as long.
        for row, line in zip(chunk, encode(chunk).decode()[:-1].split("\n"), strict=True):
            if line.count(",") == commas and not _needs_quoting(line):
                lines.write(line[1:-1].replace('"', "") + "\n")
            else:  # a lone carriage return ends a row to some readers, but is not quoted of itself
                (quote_all if "\\r" in line else csv_writer).writerow(map(_csv_cell, row))
        out.write(lines.getvalue())


def _needs_quoting(line: str) -> bool:
    """Return whether a JSON array has anything but numbers and strings without escapes."""
    return "\\" in line or "{" in line or "[" in line[1:] or "null" in line or "true" in line or "false" in line


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    return json.dumps(value, default=str) if isinstance(value, dict | list) else value


def _write_text(rows: Iterable[Row], columns: Sequence[str], out: IO[str]) -> None:
    """Write aligned columns with a header: numbers to the right, no padding after the last column."""
    widths = [len(name) for name in columns]
    kinds: set[tuple[type, ...]] = set()
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as cells:  # until widths are known
        for chunk in chunks(rows):
            lines = []
            for row in chunk:
                line = [_TEXT.get(type(value), _text)(value) for value in row]
                widths = list(map(max, widths, map(len, line)))
                kinds.add(tuple(map(type, row)))
                lines.append("\t".join(line) + "\n")
            cells.write("".join(lines))
        cells.seek(0)
        numbers = [all(kind in _NUMBERS for kind in column) for column in zip(*kinds, strict=True)] or [False] * len(
            widths
        )
        show = "  ".join(f"{{:{'>' if number else '<'}{width}}}" for number, width in zip(numbers, widths, strict=True))
        out.write(show.format(*columns).rstrip() + "\n")
        for lines in chunks(cells):
            out.write("".join(show.format(*line[:-1].split("\t")).rstrip() + "\n" for line in lines))


def _write_fitting(
    rows: Iterable[Row], columns: Sequence[str], out: IO[str], layout: ListingLayout, drop: Sequence[str]
) -> list[str]:
    """Write the columns that a terminal has room for, numbers as people read them; return the columns left out."""
    exact = layout.width is None
    heads = [name if exact else HEADS.get(name, name) for name in columns]
    widths = [len(head) for head in heads]
    numbers, empty = [True] * len(columns), [True] * len(columns)
    with SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8", newline="\n") as lines:  # until widths are known
        for row in rows:
            if exact:
                shown = [_TEXT.get(type(value), _text)(value) for value in row]
            else:
                shown = [layout.cell(name, _flat(value)) for name, value in zip(columns, row, strict=True)]
            widths = list(map(max, widths, map(cells, shown)))
            for i, value in enumerate(row):
                if value is not None:
                    empty[i] = empty[i] and shown[i] == "-"
                    numbers[i] = numbers[i] and isinstance(value, int | float) and not isinstance(value, bool)
            lines.write("\t".join(shown) + "\n")
        lines.seek(0)
        blank = [name for name, nothing in zip(columns, empty, strict=True) if nothing and name in drop]
        fitting = plan(
            columns,
            widths,
            [not number for number in numbers],
            width=layout.width or sum(widths) + 2 * len(widths),
            drop=blank + [name for name in drop if name not in blank],
        )
        out.write(table_line(fitting, columns, heads, numbers, layout, head=True) + "\n")
        for text in lines:
            out.write(table_line(fitting, columns, text[:-1].split("\t"), numbers, layout) + "\n")
    return [name for name in fitting.left_out if name not in blank]


def chunks(rows: Iterable[_T], size: int = _CHUNK) -> Iterator[list[_T]]:
    """Yield rows in lists of this size, and the rest in a last one."""
    rows = iter(rows)
    while chunk := list(islice(rows, size)):
        yield chunk


def _flat(value: object) -> object:
    return " ".join(_pairs(value)) if isinstance(value, dict) else value


def _text(value: object) -> str:
    return clean(str(value)) or "-"


def _pairs(value: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the items of a mapping as name=value, with dotted names for nested ones."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _pairs(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={setting_as_written(prefix + name, inner)}"


_TEXT: dict[type, Any] = {
    type(None): lambda value: "-",
    int: str,
    float: "{:.1f}".format,
    dict: lambda value: _text(" ".join(_pairs(value))),
}
_NUMBERS = frozenset((int, float, type(None)))
