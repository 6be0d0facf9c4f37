"""Run all measurements, print one table, and write it to `benchmarks/results/`.

Every measurement runs in a fresh process on one core. A round runs each of them once, so that whatever disturbs the
machine disturbs them all; a figure is the median of its rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from benchmarks import machine, measure, peers, redis_peer, streams, table
from benchmarks.figures import ROWS

HERE = Path(__file__).parent

EACH_ROUND = [
    "schedule",
    "floor",
    "sorted floor",
    "drain",
    "floor drain",
    "drain held",
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
REDIS = [f"redis {how}" for how in redis_peer.PERSISTENCE]
ON_MEMORY = ("tmpfs", "ramfs")


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the workload; the targets are for 1.0")
    parser.add_argument("--folder", type=Path, default=Path(), help="where temporary data goes: a real disk")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), help="the core to measure on")
    parser.add_argument("--no-peers", action="store_true", help="leave out Scrapy, queuelib and Redis")
    parser.add_argument("--results", type=Path, help="where the table is written (default: benchmarks/results)")
    options = parser.parse_args()
    if machine.file_system(options.folder) in ON_MEMORY:
        parser.error(f"{options.folder} is in memory, where a sync costs nothing: name another with --folder")
    others = [] if options.no_peers else available()
    os.sched_setaffinity(0, {options.core})  # and with it every process started from here
    about = machine.describe(options.folder, options.core)
    if options.scale != 1:
        about["scale"] = f"{options.scale}: no measure of the targets"
    folder = Path(tempfile.mkdtemp(prefix="benchmarks-", dir=options.folder)).resolve()
    try:
        rounds = run(folder, options.runs, options.scale, others)
    finally:
        shutil.rmtree(folder)
    about["load after"] = machine.load()
    results = options.results or (HERE / "results" if options.scale == 1 and others else None)  # a part is printed only
    write(results, about, rounds)


def available() -> list[str]:
    """The measurements of the peers that are installed; says which are not."""
    if not find_spec("scrapy"):
        print("Scrapy is not installed: it, queuelib and Redis are left out", file=sys.stderr)
        return []
    missing = redis_peer.missing()
    if missing:
        print(f"{missing} is not installed: Redis is left out", file=sys.stderr)
    return SCRAPY + QUEUELIB + ([] if missing else REDIS)


def run(folder: Path, runs: int, scale: float, others: list[str]) -> list[table.Round]:
    """All rounds, with the temporary data in `folder`."""

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
    rounds: list[table.Round] = []
    for number in range(1, runs + 1):
        print(f"round {number} of {runs}", file=sys.stderr)
        rounds.append({name: measured(name) for name in EACH_ROUND + others})
        shutil.rmtree(folder / "many-hosts")
    if find_spec("aiohttp"):
        rounds[0]["demo"] = measured("demo")  # its time is that of the crawl's delays: once is enough
    return rounds


def write(results: Path | None, about: dict[str, str], rounds: list[table.Round]) -> None:
    """Print the table, and write it with all that was measured."""
    now = datetime.now(UTC)
    found = table.results(ROWS, rounds)
    text = "\n".join(
        [
            f"# {now:%Y-%m-%d}, {about['processor']}",
            "",
            "Written by `make bench`; see [speed](../../docs/explanation/speed.md). One core, every measurement in a",
            "process of its own, medians of the runs. Ours syncs every commit to disk, and so does the floor, which is",
            "py-lmdb given the rows that ours writes. Scrapy and queuelib never sync, Redis does once a second when",
            f"it is appending. All three were given the first {measure.PEERS:,} discoveries, queuelib and Redis as",
            "requests that were encoded beforehand. Scrapy's default queue looks at every host for each request; the",
            "plain one does not.",
            "",
            *(f"- {name}: {value}" for name, value in about.items()),
            "",
            table.markdown(found),
            "",
        ]
    )
    print(text)
    if results is None:
        return
    results.mkdir(parents=True, exist_ok=True)
    target = results / f"{now:%Y-%m-%d}-{machine.slug()}"
    target.with_suffix(".md").write_text(text)
    record = {
        "format": machine.FORMAT,
        "date": f"{now:%Y-%m-%dT%H:%MZ}",
        "machine": about,
        "table": found,
        "rounds": rounds,
    }
    target.with_suffix(".json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
