"""One measurement in one process: `python -m benchmarks.measure NAME FOLDER SCALE` prints its figures as JSON.

FOLDER holds the streams and is where a measurement makes its own folder, which it removes. SCALE is 1 for the workload
of the table. The caller has pinned the process to one core.
"""

from __future__ import annotations

import json
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median

from benchmarks import disk, kumo_peer, ours, peers, redis_peer, streams
from benchmarks.floor import Floor
from benchmarks.rows import Row, Rows
from benchmarks.timing import MIB, Calls, Stopwatch, anonymous_memory
from budgetfrontier import Frontier, Settings

BATCH = 1000  # URLs of one schedule_many
LEASES = 64  # of one lease

STREAM = 500_000  # discoveries
DRAINED = 250_000  # URIs
SINGLY = 100_000  # calls that are timed one by one
MANY = 1_000_000  # hosts
PEERS = 100_000  # discoveries, the first of the stream: Scrapy would need a minute for them all


def schedule(path: str, urls: list[str]) -> dict[str, float]:
    """Measure discoveries per second, the last commit included, and the memory that scheduling adds."""
    with Frontier.open(path, ours.impatient()) as f:
        before, peak = anonymous_memory(), 0
        watch = Stopwatch()
        for i in range(0, len(urls), BATCH):
            f.schedule_many(urls[i : i + BATCH])
            if not i % (50 * BATCH):
                peak = max(peak, anonymous_memory())
        f.commit()
        figures = watch.rates(len(urls)) | {"memory": (peak - before) / MIB}
        found = f.summary()
        assert found.scheduled + found.duplicates == len(urls), found
        if path != ":memory:":
            sizes = ours.sizes(f, path)
            figures["file"] = sizes["file"] / found.scheduled
            figures["live"] = sum(sizes["live"].values()) / found.scheduled
    return figures


def schedule_singly(path: str, urls: list[str]) -> dict[str, float]:
    """Time every call of `schedule`."""
    with Frontier.open(path, ours.impatient()) as f:
        calls = Calls(ours.last_commit(path))
        for url in urls:
            start = time.perf_counter()
            f.schedule(url)
            calls.add(time.perf_counter() - start)
        return calls.figures()


def drain(path: str, count: int, *, hold_queues: bool, many: bool = False) -> dict[str, float]:
    """Measure URIs leased and finished per second until none is left, the commit of the last `lease` included.

    `many`: the URIs of each `lease` are finished with one `finish_many`.
    """
    with _filled(path, count, hold_queues) as f:
        watch = Stopwatch()
        done = 0
        while leases := f.lease(LEASES):
            if many:
                for lease in leases:
                    assert lease.uri.url
                late = f.finish_many(leases)
                assert not late, late
            else:
                for lease in leases:
                    assert lease.uri.url
                    f.finish(lease)
            done += len(leases)
        figures = watch.rates(done)
    assert done == count, (done, count)
    return figures


def drain_singly(path: str, count: int, *, hold_queues: bool) -> dict[str, float]:
    """Lease and finish one URI at a time, each pair timed as one call."""
    with _filled(path, count, hold_queues) as f:
        calls = Calls(ours.last_commit(path))
        for _ in range(min(count, SINGLY)):
            start = time.perf_counter()
            (lease,) = f.lease(1)
            assert lease.uri.url
            f.finish(lease)
            calls.add(time.perf_counter() - start)
        return calls.figures()


def _filled(path: str, count: int, hold_queues: bool) -> Frontier:
    f = Frontier.open(path, ours.impatient(hold_queues=hold_queues))
    f.schedule_many(streams.uniform(count))
    f.commit()
    return f


def prepare_rows(urls: list[str], target: Path) -> dict[str, float]:
    """Write the rows of a stream, for the floor."""
    rows = Rows()
    target.write_bytes(marshal.dumps([rows.of(url) for url in urls]))
    return {"rows": len(urls), "queues": rows.queues}


def floor(room: Path, rows: Path, *, in_order: bool) -> dict[str, float]:
    """Measure discoveries per second of the floor, in order of arrival or with each batch sorted."""
    discoveries: list[Row] = marshal.loads(rows.read_bytes())
    bare = Floor(room)
    put = bare.put_sorted if in_order else bare.put
    watch, added = Stopwatch(), 0
    for i in range(0, len(discoveries), BATCH):
        added += put(discoveries[i : i + BATCH])
    bare.commit()
    figures = watch.rates(len(discoveries))
    live = disk.live(bare.txn, bare.tables)
    bare.close()
    return {**figures, "file": disk.file_size(room) / added, "live": sum(live.values()) / added}


def floor_drain(room: Path, count: int, *, hold_queues: bool) -> dict[str, float]:
    """Measure URIs taken per second by the floor, in the order in which our frontier leases them."""
    rows, bare = Rows(), Floor(room)
    urls = streams.uniform(count)
    while batch := [rows.of(url) for url in islice(urls, BATCH)]:
        bare.put_sorted(batch)
    bare.commit()
    watch = Stopwatch()
    done = sum(_take(bare, turns) for turns in _turns(rows.queues, count, hold_queues))
    bare.commit()
    figures = watch.rates(done)
    bare.close()
    assert done == count, (done, count)
    return figures


def _take(bare: Floor, turns: list[int]) -> int:
    start = time.perf_counter()
    taken = sum(map(bare.take, turns))
    bare.tick(start)
    return taken


def _turns(queues: int, count: int, hold_queues: bool) -> Iterator[list[int]]:
    """Return ids of queues, each as often as it has URIs: one queue after the other, or one URI of each in turn."""
    each = -(-count // queues)
    ids = range(1, queues + 1)
    turns = (i for i in ids for _ in range(each)) if hold_queues else (i for _ in range(each) for i in ids)
    while batch := list(islice(turns, LEASES)):
        yield batch


def many_hosts(path: str, count: int) -> dict[str, float]:
    """Measure the anonymous memory of the process, interpreter included: the peak, and after the commit."""
    peak = 0
    urls = streams.hosts(count)
    with Frontier.open(path, ours.impatient()) as f:
        watch = Stopwatch()
        while batch := list(islice(urls, BATCH)):
            f.schedule_many(batch)
            peak = max(peak, anonymous_memory())
        f.commit()
        rates = watch.rates(count)
        after = anonymous_memory()
    size = disk.file_size(Path(path))
    return {**rates, "peak": max(peak, after) / MIB, "after": after / MIB, "file": size / count}


def reopen(path: str) -> dict[str, float]:
    """Measure the seconds to open the frontier of `many_hosts` in a new process, and to commit the new epoch."""
    Settings()  # imports are not what is measured
    watch = Stopwatch()
    with Frontier.open(path) as f:
        seconds = watch.seconds()
        memory = anonymous_memory() / MIB
        queued = f.summary().queued
    return {"seconds": seconds, "after": memory, "queued": queued}


def imports() -> dict[str, float]:
    """Measure the milliseconds that imports add to the start of an interpreter; the median of five pairs.

    The modules are compiled, as at any second start, even if this environment forbids writing bytecode.
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
    """Measure the seconds of `budgetfrontier demo`, which needs the extra `crawl`."""
    watch = Stopwatch()
    command = [sys.executable, "-m", "budgetfrontier", "demo", "--job", str(room / "job")]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"budgetfrontier demo failed:\n{done.stdout}")
    return {"seconds": watch.seconds()}


def run(name: str, folder: Path, scale: float) -> dict[str, float]:
    """Run a measurement by its name."""
    room = Path(tempfile.mkdtemp(dir=folder))
    path, kept = str(room / "frontier"), str(folder / "many-hosts")
    rows, requests = folder / "rows", folder / "requests"
    drained, singly, some = (int(count * scale) for count in (DRAINED, SINGLY, PEERS))

    def stream() -> list[str]:
        return streams.read(folder / "stream")

    def of_scrapy(jobdir: Path | None, queue: str) -> dict[str, float]:
        return peers.scrapy(stream()[:some], jobdir, queue)

    measurements: dict[str, Callable[[], dict[str, float]]] = {
        "prepare rows": lambda: prepare_rows(stream(), rows),
        "prepare requests": lambda: peers.prepare(stream()[:some], requests),
        "prepare kumo": kumo_peer.build,
        "kumo": lambda: kumo_peer.push(folder / "stream", int(STREAM * scale)),
        "schedule": lambda: schedule(path, stream()),
        "schedule in memory": lambda: schedule(":memory:", stream()),
        "floor": lambda: floor(room, rows, in_order=False),
        "sorted floor": lambda: floor(room, rows, in_order=True),
        "schedule singly": lambda: schedule_singly(path, stream()[:singly]),
        "drain": lambda: drain(path, drained, hold_queues=False),
        "drain held": lambda: drain(path, drained, hold_queues=True),
        "drain many": lambda: drain(path, drained, hold_queues=False, many=True),
        "drain held many": lambda: drain(path, drained, hold_queues=True, many=True),
        "drain in memory": lambda: drain(":memory:", drained, hold_queues=False),
        "drain singly": lambda: drain_singly(path, drained, hold_queues=False),
        "drain held singly": lambda: drain_singly(path, drained, hold_queues=True),
        "floor drain": lambda: floor_drain(room, drained, hold_queues=False),
        "floor drain held": lambda: floor_drain(room, drained, hold_queues=True),
        "many hosts": lambda: many_hosts(kept, int(MANY * scale)),
        "reopen": lambda: reopen(kept),
        "imports": imports,
        "demo": lambda: demo(room),
    }
    for queue in peers.PRIORITY_QUEUES:
        measurements[f"scrapy in memory, {queue}"] = partial(of_scrapy, None, queue)
        measurements[f"scrapy JOBDIR, {queue}"] = partial(of_scrapy, room, queue)
    for kind in peers.QUEUES:
        measurements[f"queuelib {kind}"] = partial(peers.queuelib, requests, room, kind)
    for persistence in redis_peer.PERSISTENCE:
        measurements[f"redis {persistence}"] = partial(redis_peer.queue, requests, room, persistence)
    try:
        return measurements[name]()
    finally:
        shutil.rmtree(room)


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))))
