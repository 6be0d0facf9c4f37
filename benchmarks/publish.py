"""Put the newest results into the documentation: `python -m benchmarks.publish` (or `make plots`).

Figures are drawn into `docs/explanation/figures`; tables replace what stands in the pages between a line
`<!-- table: NAME -->` and one `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import crawl, growth, integrations, machine, plots, table
from benchmarks.figures import ROWS

HERE = Path(__file__).parent
PAGES = HERE.parent / "docs" / "explanation"
FILLED = ("speed.md", "growth.md", "crawling.md")

MARKS = re.compile(r"(?<=^<!-- table: )([\w ]+)( -->\n).*?(?=^<!-- end -->$)", re.MULTILINE | re.DOTALL)


def fill(page: str, tables: dict[str, str]) -> str:
    """Return a page with its tables replaced; tables that are not given are left unchanged."""

    def replaced(found: re.Match[str]) -> str:
        name, end = found.groups()
        return f"{name}{end}\n{tables[name]}\n\n" if name in tables else found[0]

    return MARKS.sub(replaced, page)


def origin(record: dict[str, Any]) -> str:
    """Return when and on what a record was measured, in a sentence."""
    about = record["machine"]
    text = (
        f"Measured on {record['date'][:10]} at commit {about['commit']}: {about['processor']}, "
        f"{about['cores'].partition(',')[0]} cores of which one worked, {about['memory']} of memory, "
        f"{about['file system']}, {about['python']}, LMDB {about['lmdb'].split()[-1]}; "
        f"load {about['load before']} before and {about['load after']} after."
    )
    return textwrap.fill(f"{text} Scale {about['scale']}." if "scale" in about else text, 120)


def of_growth(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of `make growth`."""
    return {
        "growth origin": origin(record),
        "growth sizes": growth.overview(record["sizes"]),
        "growth hosts": growth.overview(growth.by_hosts(record)),
        "growth targets": table.markdown(growth.targets(record)),
    }


def of_crawl(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of `make crawl-bench`."""
    return {
        "crawl origin": origin(record),
        "crawl race": crawl.overview(record["rounds"]),
        "crawl memory": crawl.along(record["points"]),
        "crawl targets": table.markdown(crawl.targets(record)),
    }


def of_integrations(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of `make integrations-bench`."""
    return {
        "integrations origin": origin(record),
        "integrations scrapy": integrations.of_scrapy(record["rounds"]),
        "integrations asyncio": integrations.of_asyncio(record["rounds"]),
        "integrations targets": table.markdown(table.results(integrations.ROWS, record["rounds"])),
    }


PUT, TAKEN = "per_second", "taken_per_second"
SCRAPY_QUEUES = (
    ("Scrapy, in memory, its default queue", "scrapy in memory, default"),
    ("Scrapy, in memory, its plain queue", "scrapy in memory, plain"),
    ("Scrapy, JOBDIR, its default queue", "scrapy JOBDIR, default"),
    ("Scrapy, JOBDIR, its plain queue", "scrapy JOBDIR, plain"),
    ("queuelib alone, FIFO on disk", "queuelib FIFO"),
    ("queuelib alone, LIFO on disk", "queuelib LIFO"),
)


def of_bench(record: dict[str, Any]) -> dict[str, str]:
    """Return the tables of `make bench`."""
    found = table.results(ROWS, record["rounds"])
    return {
        "bench origin": origin(record),
        "bench peers": _peers(record["rounds"]),
        "bench targets": table.markdown([row for row in found if row["target"]]),
    }


def _peers(rounds: list[table.Round]) -> str:
    def cell(measurement: str, name: str = PUT, unit: str = "/s") -> str:
        values = [figures[measurement][name] for figures in rounds if name in figures.get(measurement, {})]
        return table.number(median(values), unit) if values else ""

    together = cell("drain many")  # "" in older records
    floor = max(("floor", "sorted floor"), key=lambda name: median(figures[name][PUT] for figures in rounds))
    lines = [
        ["", "put singly", "in batches", "taken singly", "in batches", "on disk, a URL", "synced"],
        [
            "budgetfrontier",
            *map(cell, ("schedule singly", "schedule", "drain singly", "drain")),
            cell("schedule", "file", "B"),
            "yes",
        ],
        *([["budgetfrontier, `finish_many`", "", "", "", together, "", "yes"]] if together else []),
        ["budgetfrontier, `:memory:`", "", cell("schedule in memory"), "", cell("drain in memory"), "", "no"],
        ["bare LMDB", "", cell(floor), "", cell("floor drain"), cell(floor, "file", "B"), "yes"],
    ]
    for title, name in SCRAPY_QUEUES:
        lines.append([title, cell(name), "", cell(name, TAKEN), "", cell(name, "disk", "B"), "no"])
    for title, name, size, synced in (
        ("Redis, in memory", "redis in memory", "", "no"),
        ("Redis, append-only file", "redis appending", cell("redis appending", "disk", "B"), "each second"),
    ):
        figures = (cell(name, figure) for figure in (PUT, f"piped_{PUT}", TAKEN, f"piped_{TAKEN}"))
        lines.append([title, *figures, size, synced])
    if pushed := cell("kumo"):
        lines.append(["kumo, in memory", pushed, "", "", "", "", "no"])
    return table.grid(lines)


TABLES: dict[str, Callable[[dict[str, Any]], dict[str, str]]] = {
    "growth-*.json": of_growth,
    "crawl-*.json": of_crawl,
    "integrations-*.json": of_integrations,
    "[0-9]*.json": of_bench,
}
"""The files of each kind of record, and what makes its tables."""


def newest(results: Path, pattern: str) -> dict[str, Any] | None:
    """Return the newest record of a format."""
    records: list[dict[str, Any]] = [json.loads(path.read_text()) for path in results.glob(pattern)]
    known = [record for record in records if record.get("format") == machine.FORMAT]
    return max(known, key=lambda record: record["date"], default=None)


def main() -> None:
    """Parse the arguments and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.publish", description=__doc__)
    parser.add_argument("--results", type=Path, default=HERE / "results", help="where the results are")
    parser.add_argument("--pages", type=Path, default=PAGES, help="the folder of the pages")
    options = parser.parse_args()
    tables: dict[str, str] = {}
    for pattern, made in TABLES.items():
        record = newest(options.results, pattern)
        if record is None:
            continue
        tables |= made(record)
        if made is of_growth:
            plots.draw(record, options.pages / "figures")
    if farm := newest(options.results, "farm-*.json"):
        plots.draw_farm(farm, options.pages / "figures")
    for page in FILLED:
        path = options.pages / page
        path.write_text(fill(path.read_text(), tables))


if __name__ == "__main__":
    main()
