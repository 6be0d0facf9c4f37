"""Floods: what a hostile web can pour into a frontier, at any size. `python -m tests.fuzz floods` runs the full one.

Each looks at what must come of it (nothing raises, the right queue pays, others are left alone) and returns figures:
how many, seconds, and by how many MiB the anonymous memory of the process grew at the most.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core import uris
from tests.support import START, make_settings

_T = TypeVar("_T")
MIB = 1 << 20


def anonymous() -> int:
    """The anonymous memory of this process in bytes: what it cannot give back to the page cache."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10


class Figures(NamedTuple):
    """What a flood took: so many things, seconds, MiB of anonymous memory at the most, bytes on disk for each."""

    number: int
    seconds: float
    mib: float
    bytes_each: float


class Flood:
    """A frontier on disk to be flooded, and what it grew to.

    The floods commit by number: by time, a fast machine would hold more between two commits than a slow one.
    """

    def __init__(self, **options: Any) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="flood-"))
        settings = make_settings(**{"commit_interval": 3600.0, "hold_queues": False} | options)
        self.frontier = Frontier.open(self._folder / "frontier", settings, clock=ManualClock(START))
        self.frontier.schedule("https://first.test/")
        self._before = self._most = anonymous()
        self._began = time.monotonic()

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *error: object) -> None:
        self.frontier.close()
        shutil.rmtree(self._folder)

    def watched(self, items: Iterable[_T], *, every: int = 2000) -> Iterator[_T]:
        """The same items; looks at the memory now and then."""
        for number, item in enumerate(items):
            if not number % every:
                self.look()
            yield item

    def look(self) -> None:
        """Look at the memory."""
        self._most = max(self._most, anonymous())

    def figures(self, number: int) -> Figures:
        """What came of it, once all of it is on disk."""
        self.frontier.commit()
        self.look()
        size = (self._folder / "frontier" / "data.mdb").stat().st_size
        return Figures(number, time.monotonic() - self._began, (self._most - self._before) / MIB, size / number)

    def crawl(self, number: int | None = None) -> int:
        """Crawl so many URIs, or all that may be had."""
        done = 0
        while (number is None or done < number) and (leases := self.frontier.lease(64)):
            for lease in leases:
                self.frontier.finish(lease)
            done += len(leases)
            self.look()
        return done

    def spent(self, key: str) -> int:
        """The expenditure of a queue."""
        queue = self.frontier.queue(key)
        assert queue is not None
        return queue.expenditure


# -- how many URIs, hosts, spellings


def one_host(number: int) -> Figures:
    """A host with a trap: URIs that differ in their last characters alone, and budgets."""
    others = [f"https://other{host}.test/{page}" for host in range(10) for page in range(5)]
    trap = "https://trap.test/" + "calendar/" * 20
    with Flood(queue_total_budget=100) as flood:
        tally = flood.frontier.schedule_many(flood.watched(f"{trap}{page:09}" for page in range(number)))
        assert (tally.added, tally.duplicate, tally.invalid) == (number, 0, 0)
        assert flood.frontier.schedule_many(others).added == len(others)
        assert flood.crawl() == 1 + 101 + len(others)
        assert [flood.spent(f"other{host}.test") for host in range(10)] == [5] * 10
        queue = flood.frontier.queue("trap.test")
        assert queue is not None and (str(queue.state), queue.expenditure, queue.queued) == (
            "RETIRED",
            101,
            number - 101,
        )
        assert flood.frontier.summary().queued == 0
        return flood.figures(number)


def many_hosts(number: int, *, hold_queues: bool = True) -> Figures:
    """Hosts that nobody has seen before, one page each."""
    with Flood(hold_queues=hold_queues) as flood:
        tally = flood.frontier.schedule_many(flood.watched(f"https://h{host}.flood.test/" for host in range(number)))
        assert (tally.added, tally.duplicate) == (number, 0)
        summary = flood.frontier.summary()
        assert (summary.queued, sum(summary.queues.values())) == (number + 1, number + 1)
        assert flood.crawl(1000) >= 1000
        assert flood.spent("h0.flood.test") == 1
        assert flood.spent(f"h{number - 1}.flood.test") == 0
        return flood.figures(number)


def ready_hosts(number: int) -> Figures:
    """The same in rotation all at once: each READY queue is 40 bytes in memory."""
    return many_hosts(number, hold_queues=False)


def colliding_hosts(number: int) -> Figures:
    """Hosts whose fingerprints begin alike, found among so many names, with the same paths."""
    found = [hosts for hosts in collisions(number) if len(hosts) > 1]
    assert found, f"among {number} names no two collide"
    hosts = [host for group in found for host in group]
    with Flood() as flood:
        urls = [f"https://{host}/{page}" for page in range(20) for host in hosts]
        assert flood.frontier.schedule_many(urls).added == len(urls)
        assert flood.frontier.schedule_many(urls).duplicate == len(urls)
        flood.crawl()
        assert [flood.spent(host) for host in hosts] == [20] * len(hosts)
        return flood.figures(number)


def collisions(number: int) -> Iterable[list[str]]:
    """So many host names, together with those whose fingerprints begin with the same bytes."""
    found: dict[bytes, list[str]] = defaultdict(list)
    for host in range(number):
        found[uris.authority_hash(f"https://c{host}.test")].append(f"c{host}.test")
    return found.values()


def long_keys(number: int) -> Figures:
    """Queues of one's own whose keys are as long as can be, and differ at their end, or at their beginning, alone."""
    keys = [f"{'q' * 245}{n:010}" if n % 2 else f"{n:010}{'q' * 245}" for n in range(number)]
    with Flood() as flood:
        given = (CrawlUri(f"https://one.test/{n}", queue=key) for n, key in enumerate(keys))
        assert flood.frontier.schedule_many(flood.watched(given)).added == number
        assert flood.frontier.summary().queues["READY"] == number + 1
        assert flood.frontier.queue("q" * 245) is None
        assert flood.frontier.schedule(CrawlUri("https://one.test/x", queue=keys[0])).value == "ADDED"
        flood.crawl()
        assert [flood.spent(key) for key in (keys[0], keys[1], keys[-1])] == [2, 1, 1]
        return flood.figures(number)


def one_uri(number: int) -> Figures:
    """One URI, found again and again: in one batch, on many pages, and spelled in many ways."""
    spellings = (
        "https://a.test/p?b=1&utm_source={}", "HTTPS://a.test:443/p?b=1#{}", "https://a.test/{}/../p?b=1",
        "https://www.a.test/%70?gclid={}&b=1", "https://u{}@a.test/p?b=1&", " https://A.test/./p?&b=1&fbclid={}\n",
    )  # fmt: skip
    with Flood() as flood:
        frontier = flood.frontier
        url = "https://a.test/p?b=1"
        same = frontier.schedule_many([url] * number)
        assert (same.added, same.duplicate) == (1, number - 1)
        spelled = frontier.schedule_many(flood.watched(spellings[n % 6].format(n) for n in range(number)))
        assert (spelled.added, spelled.duplicate, spelled.invalid) == (0, number, 0)
        for _ in range(number // 50):
            assert frontier.schedule_many([url] * 50).duplicate == 50
        (lease,) = frontier.lease(1)
        frontier.finish(lease, discovered=[url] * number)
        summary = frontier.summary()
        assert (summary.seen, summary.duplicates) == (2, 4 * number - 1 - number % 50)
        assert flood.crawl() == 1
        assert flood.spent("a.test") == 1
        return flood.figures(number)


# -- hostile pages


def one_page(number: int) -> Figures:
    """A page with so many links, to itself and to a hundred hosts."""
    with Flood() as flood:
        links = [f"https://h{n % 100}.test/{n}" for n in range(number)]
        (lease,) = flood.frontier.lease(1)
        flood.frontier.finish(lease, discovered=links)
        flood.look()
        summary = flood.frontier.summary()
        assert (summary.queued, summary.scheduled) == (number, number + 1)
        return flood.figures(number)


def chain(number: int) -> Figures:
    """Pages each of which was found on the one before."""
    with Flood() as flood:
        frontier = flood.frontier
        for page in range(number):
            (lease,) = frontier.lease(1)
            frontier.finish(lease, discovered=[f"https://first.test/{page}"])
            if not page % 1000:
                flood.look()
                frontier.commit()
        (lease,) = frontier.lease(1)
        assert len(lease.uri.hops) <= 1024
        return flood.figures(number)


def payloads(number: int) -> Figures:
    """URIs with as much with them as may be, and hours between commits: scheduled, retried, dead, for later."""
    with Flood(commit_interval=3600.0) as flood:
        frontier = flood.frontier
        for again in range(number // 20):
            large = (large_uri(f"https://h{n}.test/{again}", later=n == 1) for n in range(20))
            assert frontier.schedule_many(flood.watched(large, every=1)).added == 20
            for lease in frontier.lease(10):
                outcome = (Outcome.RETRY, Outcome.DEAD, Outcome.SUCCESS)[lease.id % 3]
                frontier.finish(lease, outcome, delay=0.0, discovered=[large_uri(f"{lease.uri.url}/x")])
                flood.look()
        return flood.figures(number)


def large_uri(url: str, *, later: bool = False) -> CrawlUri:
    """A URI just small enough to be taken."""
    return CrawlUri(
        url,
        meta={"a": ["x" * 1000] * 200},
        payload=bytes(500_000),
        body=bytes(300_000),
        method="POST",
        not_before=START + 5 if later else None,
    )


def long_urls(number: int) -> Figures:
    """The longest URLs over so many hosts, each found on the longest there."""
    with Flood() as flood:
        longest = (f"https://h{host}.test/{'a' * 8150}" for host in range(number))
        assert flood.frontier.schedule_many(flood.watched(longest)).added == number
        done = 0
        while done < number:
            for lease in flood.frontier.lease(64):
                flood.frontier.finish(
                    lease, discovered=[f"https://{lease.queue}/{'b' * 8150}"] if done < number else ()
                )
                done += 1
            flood.look()
        return flood.figures(number)


def long_authorities(number: int) -> Figures:
    """Names and passwords, as long as can be, before the same host; and ports."""
    with Flood() as flood:
        given = (f"https://{'u' * 400}{n}:p@h.test:{n % 60_000 + 1}/{n}" for n in range(number))
        assert flood.frontier.schedule_many(flood.watched(given)).added == number
        return flood.figures(number)


class Case(NamedTuple):
    """A flood, at the size of CI and at full size, and by how many MiB the memory may grow: there, and at any size.

    The bound of the small size is about twice what it takes: half a KiB more for each thing is noticed there, too.
    """

    run: Callable[[int], Figures]
    small: int
    full: int
    small_limit: int
    limit: int


FLOODS = {
    "one-host": Case(one_host, 40_000, 1_000_000, 45, 200),
    "many-hosts": Case(many_hosts, 20_000, 10_000_000, 45, 250),
    "ready-hosts": Case(ready_hosts, 15_000, 1_000_000, 40, 250),
    "colliding-hosts": Case(colliding_hosts, 300_000, 2_000_000, 20, 50),
    "long-keys": Case(long_keys, 10_000, 300_000, 30, 200),
    "one-uri": Case(one_uri, 40_000, 1_000_000, 30, 200),
    "one-page": Case(one_page, 40_000, 1_000_000, 45, 400),
    "chain": Case(chain, 8_000, 200_000, 10, 50),
    "payloads": Case(payloads, 80, 2_000, 110, 150),
    "long-urls": Case(long_urls, 3_000, 100_000, 100, 350),
    "long-authorities": Case(long_authorities, 12_000, 1_000_000, 70, 400),
}


def measure(name: str, size: int) -> Figures:
    """The figures of a flood, run in a new process: what was freed before would hide what it takes."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(FLOODS[name].run, size).result()


def main(arguments: list[str]) -> int:
    """Run floods by name (default: all), at full size or `--size N`, and print their figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz floods", description=__doc__)
    parser.add_argument("floods", nargs="*", metavar="FLOOD", help=", ".join(FLOODS))
    parser.add_argument("--size", type=int, help="how many (default: %(default)s, the full size)")
    args = parser.parse_args(arguments)
    if unknown := set(args.floods) - FLOODS.keys():
        parser.error(f"there is no flood {', '.join(unknown)}; there are {', '.join(FLOODS)}")
    print(f"{'flood':17} {'number':>10} {'seconds':>8} {'each us':>8} {'MiB':>6} {'bytes each':>10}")
    for name in args.floods or FLOODS:
        f = measure(name, args.size or FLOODS[name].full)
        each = 1e6 * f.seconds / f.number
        line = f"{name:17} {f.number:10,} {f.seconds:8.1f} {each:8.1f} {f.mib:6.0f} {f.bytes_each:10,.0f}"
        print(line, "more than it may take" if f.mib > FLOODS[name].limit else "", flush=True)
    return 0
