"""The bytes of a year of totals over time: `python -m benchmarks.series_size`.

A crawl of a year, the last day of it minute by minute, with totals as large as those of a large crawl and more queues
an hour than are kept. The counts of each hour are put into the engine directly: what it keeps of them is measured.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from benchmarks import script
from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.rules.busiest import Busy
from budgetfrontier.rules.series_periods import Resolution
from budgetfrontier.storage import keys

HOURS = 365 * 24
MINUTELY = 26
"""The last hours, of which each minute has its commit."""
QUEUES = 1_000_000
FETCHED_FROM = 3000
"""Queues that are fetched from in an hour."""
AN_HOUR = {
    "scheduled": 2_000_000, "succeeded": 900_000, "failed": 20_000, "retried": 10_000, "duplicates": 9_000_000,
    "expenditure": 1_200_000, "bytes": 40_000_000_000, "prerequisites": 3000,
    "answers_2xx": 800_000, "answers_3xx": 60_000, "answers_4xx": 40_000, "answers_5xx": 15_000, "unanswered": 12_000,
}  # fmt: skip


def run(folder: Path, hours: int) -> dict[str, dict[str, int]]:
    """Let the time pass, and return the rows and bytes of each resolution, and the size of the table in the file."""
    clock, rng = ManualClock(1_790_000_000.0), random.Random(1)
    settings = Settings.from_dict({"frontier": {"commit_interval": "30d"}})
    with Frontier.open(folder, settings, clock=clock) as frontier:
        tables, counters = frontier._kernel.tables, frontier._kernel.counters
        for hour in range(hours):
            fetched = (rng.randrange(QUEUES) for _ in range(FETCHED_FROM))
            tables.busiest.start(Busy({queue: (rng.randrange(1, 4000), rng.randrange(1, 1000)) for queue in fetched}))
            minutes = 60 if hour >= hours - MINUTELY else 1
            for minute in range(minutes):
                for name, amount in AN_HOUR.items():
                    setattr(counters, name, getattr(counters, name) + amount // minutes)
                clock.advance(3600 / minutes)
                frontier.schedule(f"http://a.test/{hour}/{minute}")
                frontier.commit()
        found: dict[str, dict[str, int]] = {}
        for key, value in tables.env.txn.cursor(tables.env.db[keys.SERIES]):
            if key != keys.SENTINEL:
                name = Resolution(keys.series.unpack(key)[0]).name
                sums = found.setdefault(name, {"rows": 0, "bytes": 0})
                sums["rows"] += 1
                sums["bytes"] += len(key) + len(value)
        stat = tables.env.txn.stat(tables.env.db[keys.SERIES])
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        return found | {"the table in the file": {"rows": stat["entries"] - 1, "bytes": pages * stat["psize"]}}


def table(found: dict[str, dict[str, int]]) -> str:
    """Return the sums as a table in Markdown."""
    rows = ["| rows of | rows | bytes | bytes a row |", "| --- | --- | --- | --- |"]
    for name, sums in found.items():
        each = sums["bytes"] // sums["rows"]
        rows.append(f"| {name.lower().replace('_', ' ')} | {sums['rows']:,} | {sums['bytes']:,} | {each:,} |")
    return "\n".join(rows)


def main() -> None:
    """Measure, and write the results."""
    options = script.parse(script.parser("benchmarks.series_size", __doc__, scaled="a year"))
    about: dict[str, Any] = script.describe(options)
    with script.temporary("series-size", options.folder) as folder:
        found = run(folder / "frontier", max(int(HOURS * options.scale), 1))
    record = script.record(about, measured=found)
    script.write(
        "series-size", "A year of totals over time", (table(found), script.facts(about)), record,
        options.results or script.RESULTS,
    )  # fmt: skip


if __name__ == "__main__":
    main()
