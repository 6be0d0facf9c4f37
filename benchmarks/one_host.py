"""How long one host takes in Scrapy when a request is not over once its page is there: `python -m benchmarks.one_host`
(or `make host-bench`).

Scrapy's own scheduler and ours crawl the same pages in turn, each in a process of its own: pages that only come; a
pipeline, and a callback, that wait for a second as if they asked a database; files that are downloaded from another
host for each page; and a download slot that fetches 40 at a time. Nothing but the network and these waits takes time,
so that all cores may be used. A crawl during which a hypervisor gave more than a tenth of the processors' time to
others is measured again, and the record says how many were. Writes a table to `results/one-host-*`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine, script, table
from benchmarks.crawl_site import Server
from benchmarks.one_host_spider import CASES
from benchmarks.table import Row

HERE = Path(__file__).parent

SCHEDULERS = {"scrapy": "scrapy.core.scheduler.Scheduler", "ours": "budgetfrontier.scrapy.Scheduler"}
TITLES = {
    "plain": "nothing slow",
    "pipeline": "a pipeline of a second",
    "callback": "a callback of a second",
    "files": "FilesPipeline, from another host",
    "slots": "DOWNLOAD_SLOTS, 40 at a time",
}
LONGEST = 300  # seconds that a crawl may take
MOST_STOLEN = 0.1  # of the processors' time, for a crawl to count
TRIES = 5  # at one crawl, until one counts


def crawl(case: str, scheduler: str, port: int) -> dict[str, float]:
    """Crawl until a crawl counts, at most TRIES times; return its seconds, its stolen time, and how many did not."""
    for thrown_away in range(TRIES):
        stolen, all_before = machine.stolen()
        figures = _crawl(case, scheduler, port)
        stolen_after, all_after = machine.stolen()
        figures["stolen"] = (stolen_after - stolen) / max(1, all_after - all_before)
        figures["thrown away"] = thrown_away
        print(f"  {case}, {scheduler}: {figures['seconds']:.2f} s, {figures['stolen']:.0%} stolen", file=sys.stderr)
        if figures["stolen"] <= MOST_STOLEN:
            break
    return figures


def _crawl(case: str, scheduler: str, port: int) -> dict[str, float]:
    """Run one crawl; return its seconds."""
    command = [sys.executable, "-m", "benchmarks.one_host_spider", case, str(port), SCHEDULERS[scheduler]]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=LONGEST, check=False)
    if done.returncode:
        sys.exit(f"{case} with {scheduler} failed:\n{done.stderr[-2000:]}")
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def measure(cases: list[str], runs: int) -> list[table.Round]:
    """Measure all cases, with both schedulers in turn in each round."""
    rounds: list[table.Round] = []
    with Server(2, 1000, max(os.sched_getaffinity(0))) as server:
        for number in range(1, runs + 1):
            print(f"round {number} of {runs}", file=sys.stderr)
            rounds.append({f"{case} {name}": crawl(case, name, server.port) for case in cases for name in SCHEDULERS})
    return rounds


def overview(rounds: list[table.Round]) -> str:
    """Return a row for each case: medians of the rounds."""
    lines = [["", "pages", "Scrapy", "budgetfrontier"]]
    for case, title in TITLES.items():
        if f"{case} ours" in rounds[0]:
            cells = [median(figures[f"{case} {name}"]["seconds"] for figures in rounds) for name in SCHEDULERS]
            lines.append([title, str(CASES[case]["pages"]), *(table.number(cell, "s") for cell in cells)])
    return table.grid(lines)


def _row(case: str) -> Row:
    return Row(
        f"{TITLES[case]}: time / Scrapy's",
        lambda figures: figures[f"{case} ours"]["seconds"] / figures[f"{case} scrapy"]["seconds"],
        "x",
        at_most=1.1,
    )


ROWS = tuple(map(_row, TITLES))


def write(results: Path, record: dict[str, Any]) -> None:
    """Print the tables, and write them together with all figures."""
    parts = [
        "Written by `make host-bench`; see [Scrapy](../../docs/howto/scrapy.md).",
        script.facts(record["machine"]),
        overview(record["rounds"]),
        table.markdown(table.results(ROWS, record["rounds"])),
    ]
    script.write("one-host", "One host in Scrapy", parts, record, results)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_host", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES], help="what to measure (default: all)")
    parser.add_argument("--results", type=Path, default=script.RESULTS, help="where the tables are written")
    options = parser.parse_args()
    about = machine.describe(Path(), max(os.sched_getaffinity(0)))
    about["cores"] = f"{os.cpu_count()}"
    about["twisted"] = machine.version("twisted")
    rounds = measure(options.cases, options.runs)
    crawls = [figures for done in rounds for figures in done.values()]
    about["time stolen in a crawl, at most"] = f"{max(figures['stolen'] for figures in crawls):.0%}"
    about["crawls measured again"] = f"{sum(figures['thrown away'] for figures in crawls):.0f}"
    write(options.results, script.record(about, rounds=rounds))


if __name__ == "__main__":
    main()
