"""Tables of the figures of all rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

Round = dict[str, dict[str, float]]
"""The figures of one round, by measurement."""


@dataclass(frozen=True)
class Row:
    """A row of the table: how its figure is computed from a round, and its target."""

    title: str
    figure: Callable[[Round], float]
    unit: str = "/s"
    at_least: float | None = None
    at_most: float | None = None

    def values(self, rounds: list[Round]) -> list[float]:
        """Return the figure of each round that has it."""
        found = []
        for figures in rounds:
            try:
                found.append(self.figure(figures))
            except KeyError:  # a measurement that this round left out
                continue
        return found

    def target(self) -> str:
        """Return the target as text; "" if there is none."""
        if self.at_least is not None:
            return f">= {number(self.at_least, self.unit)}"
        return "" if self.at_most is None else f"<= {number(self.at_most, self.unit)}"

    def reached(self, value: float) -> bool | None:
        """Return whether `value` reaches the target; None without a target."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


def of(measurement: str, name: str = "per_second") -> Callable[[Round], float]:
    """Return a function that returns a figure as measured."""
    return lambda figures: figures[measurement][name]


def ratio(ours: str, peer: str, name: str = "per_second") -> Callable[[Round], float]:
    """Return a function that returns a figure of ours as a multiple of the peer's."""
    return lambda figures: figures[ours][name] / figures[peer][name]


def results(rows: Iterable[Row], rounds: list[Round]) -> list[dict[str, Any]]:
    """Return the rows that were measured: median, extremes, target, and whether it was reached."""
    found: list[dict[str, Any]] = []
    for row in rows:
        values = row.values(rounds)
        if values:
            middle = median(values)
            found.append(
                {
                    "figure": row.title,
                    "unit": row.unit,
                    "median": middle,
                    "least": min(values),
                    "most": max(values),
                    "runs": len(values),
                    "target": row.target(),
                    "reached": row.reached(middle),
                }
            )
    return found


def markdown(found: list[dict[str, Any]]) -> str:
    """Return the table as Markdown, without least and most if everything ran once."""
    repeated = any(row["runs"] > 1 for row in found)
    lines = [["figure", *(("median", "least", "most", "runs") if repeated else ("",)), "must reach", "reached"]]
    for row in found:
        names = ("median", "least", "most") if repeated else ("median",)
        reached = {True: "yes", False: "NO", None: ""}[row["reached"]]
        runs = [str(row["runs"])] if repeated else []
        lines.append(
            [row["figure"], *(number(row[name], row["unit"]) for name in names), *runs, row["target"], reached]
        )
    return grid(lines)


def grid(lines: list[list[str]]) -> str:
    """Return a Markdown table whose first row is the head; columns of numbers are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [
        all(not text or text.lstrip("-")[0].isdigit() for text in column[1:]) for column in zip(*lines, strict=True)
    ]
    rule = ["-" * (width - 1) + (":" if last else "-") for width, last in zip(widths, right, strict=True)]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in [lines[0], rule, *lines[1:]])


def number(value: float, unit: str) -> str:
    """Format a number with at least three digits, and its unit."""
    digits = 0 if value >= 100 or unit == "B" else 1 if value >= 10 else 3 if unit == "s" else 2
    return f"{value:,.{digits}f}{'' if unit in ('/s', 'x') else ' '}{unit}".rstrip()
