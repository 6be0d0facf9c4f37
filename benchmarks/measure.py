"""One measurement in one process: `python -m benchmarks.measure NAME FOLDER SCALE` prints its figures as JSON.

FOLDER holds the streams and is where a measurement makes its own folder, which it removes. SCALE is 1 for the workload
of the table. The caller has pinned the process to one core.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks import peers, streams
from benchmarks.timing import Stopwatch, anonymous_memory
from budgetfrontier import Frontier, Settings

BATCH = 1000  # URLs of one schedule_many
LEASES = 64  # of one lease
MIB = 1 << 20

STREAM = 500_000  # discoveries
DRAINED = 250_000  # URIs
MANY = 1_000_000  # hosts
PEERS = 100_000  # discoveries, the first of the stream: Scrapy would need a minute for them all

IMPATIENT = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}


def settings(*, hold_queues: bool = True) -> Settings:
    """The defaults, without politeness."""
    return Settings.from_dict({"frontier": {"hold_queues": hold_queues, "politeness": IMPATIENT}})


def schedule(path: str, urls: list[str]) -> dict[str, float]:
    """Discoveries per second; the last commit is within the time."""
    with Frontier.open(path, settings()) as f:
        watch = Stopwatch()
        for i in range(0, len(urls), BATCH):
            f.schedule_many(urls[i : i + BATCH])
        f.commit()
        figures = watch.rates(len(urls))
        found = f.summary()
    assert found.scheduled + found.duplicates == len(urls), found
    if path != ":memory:":
        figures["bytes_per_url"] = (Path(path) / "data.mdb").stat().st_size / found.scheduled
    return figures


def drain(path: str, count: int, *, hold_queues: bool) -> dict[str, float]:
    """URIs leased and finished per second until none is left; the commit that finds none is within the time."""
    with Frontier.open(path, settings(hold_queues=hold_queues)) as f:
        f.schedule_many(streams.uniform(count))
        f.commit()
        watch = Stopwatch()
        done = 0
        while leases := f.lease(LEASES):
            for lease in leases:
                f.finish(lease)
            done += len(leases)
        figures = watch.rates(done)
    assert done == count, (done, count)
    return figures


def many_hosts(path: str, count: int) -> dict[str, float]:
    """Anonymous memory of the whole process, interpreter included: its peak while scheduling, and after the commit."""
    peak = 0
    urls = streams.hosts(count)
    with Frontier.open(path, settings()) as f:
        watch = Stopwatch()
        while batch := list(islice(urls, BATCH)):
            f.schedule_many(batch)
            peak = max(peak, anonymous_memory())
        f.commit()
        rates = watch.rates(count)
        after = anonymous_memory()
    size = (Path(path) / "data.mdb").stat().st_size
    return {**rates, "peak": max(peak, after) / MIB, "after": after / MIB, "bytes_per_url": size / count}


def reopen(path: str) -> dict[str, float]:
    """Seconds to open what `many_hosts` left, in another process, and to commit the new run's epoch."""
    Settings()  # imports are not what is measured
    watch = Stopwatch()
    with Frontier.open(path) as f:
        seconds = watch.seconds()
        memory = anonymous_memory() / MIB
        queued = f.summary().queued
    return {"seconds": seconds, "after": memory, "queued": queued}


def imports() -> dict[str, float]:
    """Milliseconds of interpreters that import and end, over bare ones that only end; the median of five pairs.

    With compiled modules, as any second start has them, whatever this environment says about writing those.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def milliseconds(statement: str) -> float:
        watch = Stopwatch()
        subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
        return watch.seconds() * 1000

    milliseconds("from budgetfrontier import Frontier, Settings")

    package, engine = [], []
    for _ in range(5):
        bare = milliseconds("pass")
        package.append(milliseconds("import budgetfrontier") - bare)
        engine.append(milliseconds("from budgetfrontier import Frontier, Settings") - bare)
    return {"package": median(package), "engine": median(engine)}


def demo(room: Path) -> dict[str, float]:
    """Seconds of `budgetfrontier demo`, which needs the extra `crawl`."""
    watch = Stopwatch()
    command = [sys.executable, "-m", "budgetfrontier", "demo", "--job", str(room / "job")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"budgetfrontier demo failed:\n{done.stdout}")
    return {"seconds": watch.seconds()}


def run(name: str, folder: Path, scale: float) -> dict[str, float]:
    """One measurement by name."""
    room = Path(tempfile.mkdtemp(dir=folder))
    path, kept = str(room / "frontier"), str(folder / "many-hosts")
    drained = int(DRAINED * scale)
    some = int(PEERS * scale)

    def stream() -> list[str]:
        return streams.read(folder / "stream")

    measurements: dict[str, Callable[[], dict[str, float]]] = {
        "prepare": lambda: peers.prepare(stream(), path, folder / "rows"),
        "schedule": lambda: schedule(path, stream()),
        "schedule in memory": lambda: schedule(":memory:", stream()),
        "puts": lambda: peers.puts(room, folder / "rows"),
        "sorted puts": lambda: peers.puts(room, folder / "rows", in_order=True),
        "drain": lambda: drain(path, drained, hold_queues=False),
        "drain in memory": lambda: drain(":memory:", drained, hold_queues=False),
        "drain held": lambda: drain(path, drained, hold_queues=True),
        "many hosts": lambda: many_hosts(kept, int(MANY * scale)),
        "reopen": lambda: reopen(kept),
        "imports": imports,
        "demo": lambda: demo(room),
        "scrapy in memory": lambda: peers.scrapy(stream()[:some], None),
        "scrapy JOBDIR": lambda: peers.scrapy(stream()[:some], room),
    }
    try:
        return measurements[name]()
    finally:
        shutil.rmtree(room)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))))
