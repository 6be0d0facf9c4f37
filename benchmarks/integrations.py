"""How fast the interfaces for other crawlers are: `python -m benchmarks.integrations` (or `make integrations-bench`)
measures, and writes tables to `results/integrations-*`.

They are the scheduler for Scrapy, the one for asyncio, and the lease queue; beside them, Scrapy's own schedulers,
asyncio's queue with a set, and qcrawl's scheduler. No network and no engine: whole crawls are those of
`benchmarks.crawl`. Every measurement runs in a process of its own on one core, all of them one after the other in each
round. How much memory a million pending requests take is measured once, on all cores: it is the same every time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine, script, table
from benchmarks.table import Row, of

HERE = Path(__file__).parent

LONGEST = 300  # seconds that a measurement may take

SCRAPY = {
    "ours JOBDIR": "budgetfrontier, JOBDIR",
    "ours in memory": "budgetfrontier, in memory",
    "scrapy JOBDIR": "Scrapy, JOBDIR",
    "scrapy in memory": "Scrapy, in memory",
}
PENDING = ("ours JOBDIR", "ours in memory", "scrapy in memory")
ASYNCIO = {
    "aio add": "budgetfrontier, `add` from 1,000 tasks",
    "aio add anywhere": "the same, with all cores to run on",
    "aio add_many": "budgetfrontier, `add_many`",
    "asyncio": "asyncio.PriorityQueue and a set",
    "qcrawl in memory": "qcrawl, in memory",
    "qcrawl on disk": "qcrawl, on disk",
}
LEASES = {
    "leases": "lease + ack, on disk",
    "leases many": "the same, 64 with one `ack_many`",
    "leases in memory": "lease + ack, in memory",
}
LATENESS = "aio lateness"


def available() -> list[str]:
    """Return the measurements that can run in each round; print which peers are not installed."""
    names = [LATENESS, *ASYNCIO, *LEASES]
    if find_spec("qcrawl") is None:
        print("qcrawl is not installed: it is left out", file=sys.stderr)
        names = [name for name in names if not name.startswith("qcrawl")]
    if find_spec("scrapy") is None:
        print("Scrapy is not installed: it and our scheduler for it are left out", file=sys.stderr)
        return names
    return [*SCRAPY, *names]


def measured(name: str, folder: Path, scale: float) -> dict[str, float]:
    """Run one measurement of `integrations_measure`."""
    command = [sys.executable, "-m", "benchmarks.integrations_measure", name, str(folder), str(scale)]
    try:
        done = subprocess.run(
            command, cwd=HERE.parent, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=LONGEST
        )
    except subprocess.SubprocessError as e:
        sys.exit(f"{name} failed: {e}")
    figures: dict[str, float] = json.loads(done.stdout)
    print(f"  {name}: {', '.join(f'{key} {value:,.4g}' for key, value in figures.items())}", file=sys.stderr)
    return figures


def run(folder: Path, runs: int, scale: float, names: list[str]) -> list[table.Round]:
    """Run all rounds, with temporary data in `folder`."""
    rounds: list[table.Round] = []
    for number in range(1, runs + 1):
        print(f"round {number} of {runs}", file=sys.stderr)
        rounds.append({name: measured(name, folder, scale) for name in names})
    return rounds


def memory(folder: Path, scale: float) -> table.Round:
    """Measure the memory of a million pending requests, in several processes at once."""
    names = [f"pending {name}" for name in PENDING]
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: measured(name, folder, scale), names), strict=True))


TAKEN = "taken_per_second"
ADD, MEMORY = "aio add", "scrapy in memory"
ROWS = (
    Row("Scrapy, links enqueued: ours / its own, both JOBDIR", table.ratio("ours JOBDIR", "scrapy JOBDIR"), "x"),
    Row("the same by processor time", table.ratio("ours JOBDIR", "scrapy JOBDIR", "per_cpu_second"), "x"),
    Row("links enqueued: ours, JOBDIR / its own, in memory", table.ratio("ours JOBDIR", MEMORY), "x"),
    Row("the same by processor time", table.ratio("ours JOBDIR", MEMORY, "per_cpu_second"), "x"),
    Row("requests taken: ours / its own, both JOBDIR", table.ratio("ours JOBDIR", "scrapy JOBDIR", TAKEN), "x"),
    Row("requests taken: ours, JOBDIR / its own, in memory", table.ratio("ours JOBDIR", MEMORY, TAKEN), "x"),
    Row(
        "memory, 1,000,000 requests pending: ours, JOBDIR / its own, in memory",
        table.ratio("pending ours JOBDIR", f"pending {MEMORY}", "memory"),
        "x",
        at_most=1 / 3,
    ),
    Row(
        "the same, ours in memory / its own, in memory",
        table.ratio("pending ours in memory", f"pending {MEMORY}", "memory"),
        "x",
    ),
    Row("asyncio, add + get + done, from 1,000 tasks", of(ADD), at_least=60_000),
    Row("the same by processor time", of(ADD, "per_cpu_second")),
    Row("the same, with all cores to run on", of("aio add anywhere"), at_least=40_000),
    Row("add_many + get + done", of("aio add_many"), at_least=40_000),
    Row("the same by processor time", of("aio add_many", "per_cpu_second")),
    Row("add / qcrawl in memory", table.ratio(ADD, "qcrawl in memory"), "x"),
    Row("add / qcrawl on disk", table.ratio(ADD, "qcrawl on disk"), "x"),
    Row("10,000 added a second: the loop's longest stall", of(LATENESS, "longest"), "ms", at_most=20),
    Row("the same, 99 % of the time", of(LATENESS, "p99"), "ms"),
    Row("the same, with nothing to do", of(LATENESS, "idle"), "ms"),
    Row("the longest commit meanwhile", of(LATENESS, "commit"), "ms"),
    Row("done meanwhile", of(LATENESS, "done")),
    Row("lease + ack, on disk", of("leases"), at_least=150_000),
    Row("the same by processor time", of("leases", "per_cpu_second")),
    Row("lease + ack_many, 64 at a time, on disk", of("leases many")),
)

RATES = {"per_second": "a second", "per_cpu_second": "by processor time"}
TAKING = {TAKEN: "taken", "taken_per_cpu_second": "by processor time"}


def _lines(rounds: list[table.Round], titles: dict[str, str], columns: dict[str, str]) -> list[list[str]]:
    """Return a row for each measurement: medians."""
    lines = []
    for name, title in titles.items():
        every = [figures[name] for figures in rounds if name in figures]
        if every:
            lines.append([title, *(table.number(median(one[column] for one in every), "/s") for column in columns)])
    return lines


def of_scrapy(rounds: list[table.Round]) -> str:
    """Return the rates of each scheduler for Scrapy, and its memory with a million requests pending."""
    columns = RATES | TAKING
    lines = _lines(rounds, SCRAPY, columns)
    pending = {title: rounds[0].get(f"pending {name}") for name, title in SCRAPY.items()}
    for line in lines:
        found = pending[line[0]]
        line += [table.number(found[name], "MiB") if found else "" for name in ("memory", "mapped")]
    return table.grid([["", "enqueued", *[*columns.values()][1:], "memory", "of files, mapped"], *lines])


def of_asyncio(rounds: list[table.Round]) -> str:
    """Return the requests per second of the asyncio queues and of leases."""
    return table.grid([["", *RATES.values()], *_lines(rounds, ASYNCIO | LEASES, RATES)])


def write(results: Path | None, record: dict[str, Any]) -> None:
    """Print the tables, and write them together with all figures."""
    rounds = record["rounds"]
    parts = [
        "Written by `make integrations-bench`; see [speed](../../docs/explanation/speed.md).",
        script.facts(record["machine"]),
        of_scrapy(rounds) if any(name in rounds[0] for name in SCRAPY) else "",
        of_asyncio(rounds),
        table.markdown(table.results(ROWS, rounds)),
    ]
    script.write("integrations", "Integrations", parts, record, results)


def main() -> None:
    """Parse the arguments and run."""
    parser = script.parser("benchmarks.integrations", __doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    options = script.parse(parser)
    names = available()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {options.core})  # and with it every process started from here
    about = script.describe(options) | {"qcrawl": machine.version("qcrawl")}
    with script.temporary("integrations", options.folder) as folder:
        rounds = run(folder, options.runs, options.scale, names)
        if set(SCRAPY) <= set(names):
            os.sched_setaffinity(0, cores)
            rounds[0] |= memory(folder, options.scale)
    whole = options.scale == 1 and set(SCRAPY) <= set(names)
    results = options.results or (script.RESULTS if whole else None)  # a part is printed only
    write(results, script.record(about, rounds=rounds))


if __name__ == "__main__":
    main()
