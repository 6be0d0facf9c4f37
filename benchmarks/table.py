"""From the figures of all rounds to one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

Round = dict[str, dict[str, float]]
"""The figures of one round, by measurement."""


@dataclass(frozen=True)
class Row:
    """One line: how the figure follows from a round, and what it must reach."""

    title: str
    figure: Callable[[Round], float]
    unit: str = "/s"
    at_least: float | None = None
    at_most: float | None = None

    def values(self, rounds: list[Round]) -> list[float]:
        """The figure of each round that has it."""
        found = []
        for figures in rounds:
            try:
                found.append(self.figure(figures))
            except KeyError:  # a measurement that this round left out
                continue
        return found

    def target(self) -> str:
        """What the figure must reach, "" if nothing."""
        if self.at_least is not None:
            return f">= {_number(self.at_least, self.unit)}"
        return "" if self.at_most is None else f"<= {_number(self.at_most, self.unit)}"

    def reached(self, value: float) -> bool | None:
        """Whether `value` reaches the target; None without one."""
        if self.at_least is not None:
            return value >= self.at_least
        return None if self.at_most is None else value <= self.at_most


def _of(measurement: str, name: str = "per_second") -> Callable[[Round], float]:
    return lambda figures: figures[measurement][name]


def _ratio(one: str, other: str, name: str = "per_second") -> Callable[[Round], float]:
    """Of two neighbours in a round, so that what disturbs the machine disturbs both."""
    return lambda figures: figures[one]["per_second"] / figures[other][name]


ROWS = (
    Row("schedule", _of("schedule"), at_least=250_000),
    Row("schedule / puts of the same rows, nothing else", _ratio("schedule", "puts"), "x", at_least=0.3),
    Row("schedule / the same puts, each batch sorted", _ratio("schedule", "sorted puts"), "x"),
    Row("lease + finish, 10,000 hosts in rotation", _of("drain"), at_least=200_000),
    Row("schedule, per second of processor time", _of("schedule", "per_cpu_second")),
    Row("lease + finish, per second of processor time", _of("drain", "per_cpu_second")),
    Row("lease + finish, hosts one after the other", _of("drain held")),
    Row("anonymous memory, 1,000,000 hosts: peak", _of("many hosts", "peak"), "MiB", at_most=150),
    Row("anonymous memory, 1,000,000 hosts: at rest", _of("many hosts", "after"), "MiB"),
    Row("reopening that frontier", _of("reopen", "seconds"), "s", at_most=0.5),
    Row("anonymous memory after reopening it", _of("reopen", "after"), "MiB"),
    Row("import budgetfrontier", _of("imports", "package"), "ms", at_most=80),
    Row("from budgetfrontier import Frontier, Settings", _of("imports", "engine"), "ms", at_most=80),
    Row("budgetfrontier demo", _of("demo", "seconds"), "s", at_most=60),
    Row("schedule 1,000,000 new hosts", _of("many hosts")),
    Row("file, bytes per URI: discoveries", _of("schedule", "bytes_per_url"), "B"),
    Row("file, bytes per URI: 1,000,000 hosts", _of("many hosts", "bytes_per_url"), "B"),
    Row("schedule, :memory:", _of("schedule in memory")),
    Row("lease + finish, :memory:", _of("drain in memory")),
    Row("puts of the same rows, nothing else", _of("puts")),
    Row("the same puts, each batch sorted", _of("sorted puts")),
    Row("Scrapy's scheduler, memory: enqueue", _of("scrapy in memory")),
    Row("Scrapy's scheduler, memory: next request", _of("scrapy in memory", "taken_per_second")),
    Row("Scrapy's scheduler, JOBDIR: enqueue", _of("scrapy JOBDIR")),
    Row("Scrapy's scheduler, JOBDIR: next request", _of("scrapy JOBDIR", "taken_per_second")),
    Row("schedule / Scrapy, memory", _ratio("schedule", "scrapy in memory"), "x"),
    Row("schedule / Scrapy, JOBDIR", _ratio("schedule", "scrapy JOBDIR"), "x"),
    Row("lease + finish / Scrapy, memory", _ratio("drain", "scrapy in memory", "taken_per_second"), "x"),
    Row("lease + finish / Scrapy, JOBDIR", _ratio("drain", "scrapy JOBDIR", "taken_per_second"), "x"),
)


def results(rounds: list[Round]) -> list[dict[str, Any]]:
    """The rows that were measured: median, extremes, target, and whether it was reached."""
    found: list[dict[str, Any]] = []
    for row in ROWS:
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
    """The table as text."""
    head = ["figure", "median", "least", "most", "runs", "must reach", "reached"]
    lines = [head, ["---", "---:", "---:", "---:", "---:", "---:", "---"]]
    for row in found:
        numbers = [_number(row[name], row["unit"]) for name in ("median", "least", "most")]
        reached = {True: "yes", False: "NO", None: ""}[row["reached"]]
        lines.append([row["figure"], *numbers, str(row["runs"]), row["target"], reached])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines)


def _number(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 3 if unit == "s" else 2
    return f"{value:,.{digits}f}{'' if unit in ('/s', 'x') else ' '}{unit}"
