"""Rows as aligned text, JSON or CSV: the one way in which every listing is printed."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from budgetfrontier.reports.figures import clean

Row = Mapping[str, Any]


def write(
    rows: Iterable[Row],
    columns: Sequence[str],
    out: TextIO,
    *,
    format: str = "text",
    shown: Sequence[str] | None = None,
) -> None:
    """Write `rows` to `out`. JSON is one array, CSV has a header; text shows only the columns `shown`.

    Memory does not grow with the number of rows, except for text, which has to measure its columns.
    """
    if format == "json":
        _write_json(rows, columns, out)
    elif format == "csv":
        table = csv.writer(out, lineterminator="\n")
        table.writerow(columns)
        table.writerows([_csv_cell(row[name]) for name in columns] for row in rows)
    else:
        for line in text_lines(rows, shown or columns):
            out.write(line + "\n")


def text_lines(rows: Iterable[Row], columns: Sequence[str]) -> list[str]:
    """The rows as lines with a header; numbers stand at the right of their columns, the last column is never padded."""
    cells = [[_text_cell(row[name]) for name in columns] for row in rows]
    numeric = [True] * len(columns)
    widths = [len(name) for name in columns]
    for line in cells:
        for at, (text, number) in enumerate(line):
            widths[at] = max(widths[at], len(text))
            numeric[at] = numeric[at] and number
    header = [(name, True) for name in columns]
    return [
        "  ".join(
            text.rjust(width) if right else text.ljust(width)
            for (text, _), width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in (header, *cells)
    ]


def _write_json(rows: Iterable[Row], columns: Sequence[str], out: TextIO) -> None:
    opening = "["
    for row in rows:
        out.write(opening + "\n" + json.dumps({name: row[name] for name in columns}, default=str))
        opening = ","
    out.write("[]\n" if opening == "[" else "\n]\n")


def _csv_cell(value: object) -> object:
    if value is None:
        return ""
    return json.dumps(value, default=str) if isinstance(value, dict | list | tuple) else value


def _text_cell(value: object) -> tuple[str, bool]:
    """What a cell shows, and whether it may stand in a column of numbers."""
    if value is None or value == "":
        return "-", True
    if isinstance(value, float):
        return f"{value:.1f}", True
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value), True
    if isinstance(value, dict):
        return clean(" ".join(_pairs(value))) or "-", False
    return clean(str(value)), False


def _pairs(value: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """A mapping as name=value, with dotted names for those within."""
    for name, inner in value.items():
        if isinstance(inner, dict):
            yield from _pairs(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={inner}"
