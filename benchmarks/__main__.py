"""Run all measurements, print one table, and write it to `benchmarks/results/`.

Every measurement runs in a fresh process on one core. A round runs each of them once, so that whatever disturbs the
machine disturbs them all; a figure is the median of its rounds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import kumo_peer, measure, peers, redis_peer, script, streams, table
from benchmarks.figures import ROWS

HERE = Path(__file__).parent

EACH_ROUND = [
    "schedule",
    "floor",
    "sorted floor",
    "drain",
    "drain many",
    "floor drain",
    "drain held",
    "drain held many",
    "floor drain held",
    "schedule singly",
    "drain singly",
    "drain held singly",
    "schedule in memory",
    "drain in memory",
    "many hosts",
    "reopen",
    "imports",
]
SCRAPY = [f"scrapy {kind}, {queue}" for queue in peers.PRIORITY_QUEUES for kind in ("in memory", "JOBDIR")]
QUEUELIB = [f"queuelib {kind}" for kind in peers.QUEUES]
KUMO = ["kumo"]
REDIS = [f"redis {how}" for how in redis_peer.PERSISTENCE]


def main() -> None:
    """Parse the arguments, measure and write the results."""
    parser = script.parser("benchmarks", __doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--no-peers", action="store_true", help="leave out Scrapy, queuelib, kumo and Redis")
    options = script.parse(parser)
    others = [] if options.no_peers else available()
    os.sched_setaffinity(0, {options.core})  # and with it every process started from here
    about = script.describe(options)
    with script.temporary("benchmarks", options.folder) as folder:
        rounds = run(folder, options.runs, options.scale, others)
    results = options.results or (script.RESULTS if options.scale == 1 and others else None)  # a part is printed only
    write(results, script.record(about, table=table.results(ROWS, rounds), rounds=rounds))


def available() -> list[str]:
    """Return the measurements of the peers that are installed; print which are not."""
    if not find_spec("scrapy"):
        print("Scrapy is not installed: it, queuelib, kumo and Redis are left out", file=sys.stderr)
        return []
    found = SCRAPY + QUEUELIB
    for peer, missing, measurements in (("Redis", redis_peer.missing(), REDIS), ("kumo", kumo_peer.missing(), KUMO)):
        if missing:
            print(f"{missing} is not installed: {peer} is left out", file=sys.stderr)
        else:
            found += measurements
    return found


def run(folder: Path, runs: int, scale: float, others: list[str]) -> list[table.Round]:
    """Run all rounds, with temporary data in `folder`, and return their figures."""

    def measured(name: str) -> dict[str, float]:
        command = [sys.executable, "-m", "benchmarks.measure", name, str(folder), str(scale)]
        done = subprocess.run(command, cwd=HERE.parent, check=True, stdout=subprocess.PIPE)
        figures: dict[str, float] = json.loads(done.stdout)
        print(f"  {name}: {', '.join(f'{key} {value:,.4g}' for key, value in figures.items())}", file=sys.stderr)
        return figures

    streams.write(folder / "stream", int(measure.STREAM * scale))
    measured("prepare rows")
    if others:
        measured("prepare requests")
    if "kumo" in others:
        measured("prepare kumo")
    rounds: list[table.Round] = []
    for number in range(1, runs + 1):
        print(f"round {number} of {runs}", file=sys.stderr)
        rounds.append({name: measured(name) for name in EACH_ROUND + others})
        shutil.rmtree(folder / "many-hosts")
    if find_spec("aiohttp"):
        rounds[0]["demo"] = measured("demo")  # it takes as long as the politeness delays of its crawl: once is enough
    return rounds


def write(results: Path | None, record: dict[str, Any]) -> None:
    """Print the table, and write it together with all figures."""
    parts = [
        "Written by `make bench`; see [speed](../../docs/explanation/speed.md). One core, every measurement in a\n"
        "process of its own, medians of the runs. Ours syncs every commit to disk, and so does the floor, which is\n"
        "py-lmdb given the rows that ours writes. Scrapy and queuelib never sync, Redis does once a second when\n"
        f"it is appending, kumo keeps nothing. But for kumo all were given the first {measure.PEERS:,} discoveries,\n"
        "queuelib and Redis as requests that were encoded beforehand. Scrapy's default queue looks at every host\n"
        "for each request; the plain one does not.",
        script.facts(record["machine"]),
        table.markdown(record["table"]),
    ]
    script.write("", "", parts, record, results)


if __name__ == "__main__":
    main()
