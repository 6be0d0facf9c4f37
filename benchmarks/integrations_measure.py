"""One measurement of `integrations` in one process, printed as JSON.

`python -m benchmarks.integrations_measure NAME FOLDER SCALE`.

FOLDER is where it makes its own folder, which it removes. SCALE is 1 for the workload of the table. Each fails unless
all of its work was done. The caller has pinned the process to one core.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks import aio
from benchmarks.crawl import memory_of
from benchmarks.timing import MIB, Stopwatch
from budgetfrontier import Frontier
from budgetfrontier.aio import Scheduler
from budgetfrontier.leasing import LeaseQueue

HOSTS, EACH = 200, 100  # pages of a host
NAVIGATION, OWN, OTHERS = 10, 30, 10  # links of a page
SEED = 1

LINKS = 80_000
PENDING = 1_000_000  # requests
REQUESTS = 100_000  # of asyncio, and leases
BATCH = 64  # leases acknowledged together
FILES = 3_000  # requests of qcrawl's queue on disk: a file each
SECONDS = 4.0  # that the loop is watched

OURS, THEIRS = "budgetfrontier.scrapy.Scheduler", "scrapy.core.scheduler.Scheduler"


def links(count: int) -> Iterator[str]:
    """Yield the links of page after page, hosts in turn: navigation, other pages of the host, and of other hosts."""
    draw = random.Random(SEED).randrange
    for page in range(count // (NAVIGATION + OWN + OTHERS)):
        host = page % HOSTS
        yield from (url(host, number) for number in range(NAVIGATION))
        yield from (url(host, draw(EACH)) for _ in range(OWN))
        yield from (url(draw(HOSTS), draw(EACH)) for _ in range(OTHERS))


def url(host: int, number: int) -> str:
    """Return the URL of a page."""
    return f"https://www.host-{host}.test/section-{number % 50}/page-{number}.html"


class Spidered:
    """Scrapy's scheduler or ours without an engine, with a JOBDIR or without, all other settings at their defaults.

    Scrapy's default priority queue reads the slots of the downloader, which is replaced by an idle one. Our scheduler
    learns from signals how a request has ended; these are sent at once.
    """

    def __init__(self, path: str, jobdir: Path | None) -> None:
        from scrapy import Spider
        from scrapy.crawler import Crawler
        from scrapy.utils.httpobj import urlparse_cached
        from scrapy.utils.misc import load_object

        crawler = Crawler(Spider, {"JOBDIR": str(jobdir) if jobdir else None, "TWISTED_REACTOR_ENABLED": False})
        crawler._apply_settings()
        crawler.spider = Spider.from_crawler(crawler, name="benchmark")
        idle = SimpleNamespace(get_slot_key=lambda request: urlparse_cached(request).hostname, slots={})
        crawler.engine = SimpleNamespace(downloader=idle)
        self.scheduler: Any = load_object(path).from_crawler(crawler)
        self.scheduler.open(crawler.spider)

    def enqueue(self, urls: Iterator[str]) -> int:
        """Create requests as a callback and Scrapy's middleware do, and enqueue them; return how many were admitted."""
        from scrapy import Request

        enqueue = self.scheduler.enqueue_request
        return sum(enqueue(Request(one, meta={"depth": 1})) for one in urls)

    def drain(self) -> int:
        """Take requests until there is none, and mark each as fetched at once; return how many."""
        following = self.scheduler.next_request
        in_flight = getattr(self.scheduler, "_in_flight", None)
        taken = 0
        while request := following():
            taken += 1
            if in_flight is not None:
                response = SimpleNamespace(status=200, url=request.url)
                in_flight._reached_downloader(request)
                in_flight._received(response, request)
        return taken

    def commit(self) -> None:
        """Commit, if it is our scheduler; Scrapy's never syncs."""
        if frontier := getattr(self.scheduler, "frontier", None):
            frontier.commit()


def scheduling(path: str, room: Path | None, scale: float) -> dict[str, float]:
    """Measure links enqueued per second, most of them known, and requests taken per second, commits included."""
    found = list(links(int(LINKS * scale)))
    spidered = Spidered(path, room)
    watch = Stopwatch()
    admitted = spidered.enqueue(iter(found))
    spidered.commit()
    figures = watch.rates(len(found))
    check(admitted, len(set(found)))
    watch = Stopwatch()
    taken = spidered.drain()
    spidered.commit()
    figures |= {f"taken_{name}": rate for name, rate in watch.rates(taken).items()}
    check(taken, admitted)
    check(len(spidered.scheduler), 0)
    spidered.scheduler.close("finished")
    return figures


def pending(path: str, room: Path | None, scale: float) -> dict[str, float]:
    """Measure the memory with that many requests pending, in MiB: anonymous, and of mapped files."""
    count = int(PENDING * scale)
    spidered = Spidered(path, room)
    check(spidered.enqueue(url(number % HOSTS, number // HOSTS) for number in range(count)), count)
    spidered.commit()
    check(len(spidered.scheduler), count)
    memory = memory_of(os.getpid())
    spidered.scheduler.close("finished")
    return {"memory": memory["RssAnon"] / MIB, "mapped": memory["RssFile"] / MIB}


class Qcrawl:
    """qcrawl's Scheduler, whose `task_done` takes no request."""

    def __init__(self, room: Path | None) -> None:
        from qcrawl.core.queues import DiskQueue, MemoryPriorityQueue
        from qcrawl.core.scheduler import Scheduler as Theirs
        from qcrawl.utils.fingerprint import RequestFingerprinter

        self.theirs: Any = Theirs(DiskQueue(room) if room else MemoryPriorityQueue(), RequestFingerprinter())
        self.add, self.get, self.join = self.theirs.add, self.theirs.get, self.theirs.join

    def task_done(self, _: object) -> None:
        self.theirs.task_done()


async def plain(scale: float) -> dict[str, float]:
    """Measure requests per second of asyncio's queue with a set of seen URLs."""
    peer, count = aio.Peer(), int(REQUESTS * scale)
    figures = await aio.singly(peer, count)
    check(len(peer._seen), count)
    return figures


async def qcrawl(scale: float) -> dict[str, float]:
    """Measure requests per second of qcrawl's scheduler in memory."""
    peer: Any = Qcrawl(None)
    count = int(REQUESTS * scale)
    figures = await aio.singly(peer, count)
    await check_qcrawl(peer, count)
    return figures


async def qcrawl_on_disk(room: Path, scale: float) -> dict[str, float]:
    """The same on disk, first all added and then all taken.

    Not at the same time: a request that is written while a consumer starts to wait is never delivered (qcrawl 0.4.0).
    """
    peer = Qcrawl(room)
    count = int(FILES * scale)

    async def consume() -> None:
        while await peer.theirs.qsize():
            await peer.get()
            peer.task_done(None)

    watch = Stopwatch()
    for one in aio.urls(count):
        await peer.add(one)
    await consume()
    figures = watch.rates(count)
    await check_qcrawl(peer, count)
    return figures


async def check_qcrawl(peer: Qcrawl, count: int) -> None:
    """End the process unless all requests were added and done."""
    stats = await peer.theirs.stats()
    check((stats["seen"], stats["queued"], stats["pending"]), (count, 0, 0))


async def durable(load: Callable[..., Any], room: Path, scale: float) -> dict[str, float]:
    """Measure requests per second of our scheduler, the last commit included."""
    count = int(REQUESTS * scale)
    async with Scheduler(room) as scheduler:
        figures: dict[str, float] = await load(scheduler, count)
        total = await scheduler.call(Frontier.summary)
        check((total.seen, total.succeeded, total.queued), (count, count, 0))
    return figures


def anywhere(room: Path, scale: float) -> dict[str, float]:
    """Measure requests per second of our scheduler on all cores; its two threads share the interpreter lock."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return asyncio.run(durable(aio.singly, room, scale))


async def lateness(room: Path, scale: float) -> dict[str, float]:
    """Measure the delays of the loop, in ms, at a steady rate of requests."""
    known, seconds = int(aio.KNOWN * scale), max(SECONDS * scale, 1.0)
    async with Scheduler(room, grace=0) as scheduler:
        figures = await aio.lateness(scheduler, seconds, known)
        if (await scheduler.stats())["seen"] < known + 0.9 * aio.RATE * seconds:
            sys.exit("the loop did not add at the rate it was to be watched at")
    return {name: value * (1 if name in ("added", "done") else 1000) for name, value in figures.items()}


def leasing(path: str | Path, scale: float) -> dict[str, float]:
    """Measure URIs leased and acknowledged per second, one after the other, the last commit included."""
    count = int(REQUESTS * scale)
    with LeaseQueue.open(path) as queue:
        queue.frontier.schedule_many(aio.urls(count))
        queue.flush()
        acknowledged, watch = 0, Stopwatch()
        while lease := queue.lease_request():
            acknowledged += bool(lease.uri.url) and queue.ack_lease(lease)
        queue.flush()
        figures = watch.rates(acknowledged)
        check((acknowledged, len(queue)), (count, 0))
    return figures


def leasing_many(path: str | Path, scale: float) -> dict[str, float]:
    """The same with one `ack_many` for each BATCH leases."""
    count = int(REQUESTS * scale)
    with LeaseQueue.open(path) as queue:
        queue.frontier.schedule_many(aio.urls(count))
        queue.flush()
        acknowledged, watch = 0, Stopwatch()
        while leases := [lease for _ in range(BATCH) if (lease := queue.lease_request()) and lease.uri.url]:
            acknowledged += len(leases) - len(queue.ack_many(leases))
        queue.flush()
        figures = watch.rates(acknowledged)
        check((acknowledged, len(queue)), (count, 0))
    return figures


def check(found: object, right: object) -> None:
    """End the process unless all of the work was done."""
    if found != right:
        sys.exit(f"{found} where {right} was to be done")


MEASUREMENTS: dict[str, Callable[[Path, float], dict[str, float]]] = {
    "ours JOBDIR": lambda room, scale: scheduling(OURS, room, scale),
    "ours in memory": lambda room, scale: scheduling(OURS, None, scale),
    "scrapy in memory": lambda room, scale: scheduling(THEIRS, None, scale),
    "scrapy JOBDIR": lambda room, scale: scheduling(THEIRS, room, scale),
    "asyncio": lambda room, scale: asyncio.run(plain(scale)),
    "aio add": lambda room, scale: asyncio.run(durable(aio.singly, room, scale)),
    "aio add anywhere": anywhere,
    "aio add_many": lambda room, scale: asyncio.run(durable(aio.together, room, scale)),
    "qcrawl in memory": lambda room, scale: asyncio.run(qcrawl(scale)),
    "qcrawl on disk": lambda room, scale: asyncio.run(qcrawl_on_disk(room, scale)),
    "aio lateness": lambda room, scale: asyncio.run(lateness(room, scale)),
    "leases": leasing,
    "leases many": leasing_many,
    "leases in memory": lambda room, scale: leasing(":memory:", scale),
    "pending ours JOBDIR": lambda room, scale: pending(OURS, room, scale),
    "pending ours in memory": lambda room, scale: pending(OURS, None, scale),
    "pending scrapy in memory": lambda room, scale: pending(THEIRS, None, scale),
}


def main() -> None:
    """Measure what the command line names, in a folder that is removed afterwards."""
    name, folder, scale = sys.argv[1:]
    parent = Path(tempfile.mkdtemp(dir=folder))
    try:
        figures = MEASUREMENTS[name](parent / "room", float(scale))
    finally:
        shutil.rmtree(parent, ignore_errors=True)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
