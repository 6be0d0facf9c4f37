"""A contestant of `benchmarks.growth`: `python -m benchmarks.legs ours|floor FOLDER HOSTS` waits for orders.

Each line on standard input is an order and its arguments as JSON, each line of output the answer. The driver lets the
contestants run in turn, a leg each, so that whatever disturbs the machine disturbs all of them. Only the calls are
timed, not the making of what they are given.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from benchmarks import disk, ours
from benchmarks.floor import Floor
from benchmarks.rows import Rows
from benchmarks.streams import Pages
from benchmarks.timing import MIB, Calls, anonymous_memory
from budgetfrontier import Frontier

AT_ONCE = 20  # pages made before they are handed over
LEASES = 64  # of one call of lease


class Contestant(Protocol):
    """What a leg needs."""

    def ready(self, links: list[str]) -> Any:
        """What `put` takes; not timed."""

    @property
    def put(self) -> Callable[[Any], object]:
        """Takes the links of a page."""

    @property
    def commit(self) -> Callable[[], None]:
        """Syncs to disk."""

    @property
    def last_commit(self) -> Callable[[], int]:
        """The number of the last commit."""

    def sizes(self) -> dict[str, Any]:
        """What is stored, and in how many bytes."""


class Ours:
    """The frontier, given the links of each page in one `schedule_many`.

    Every host is in rotation: the harder of the two orders, for each URI that is leased is of another queue.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ours" / "frontier"
        self._path.mkdir(parents=True)
        self.open()

    def open(self) -> None:
        """Open, or open again."""
        self._frontier = Frontier.open(self._path, ours.impatient(hold_queues=False))
        self.last_commit = ours.last_commit(self._path)
        self.put = self._frontier.schedule_many
        self.commit = self._frontier.commit

    def close(self) -> None:
        """Let another process open it."""
        self._frontier.close()

    def ready(self, links: list[str]) -> list[str]:
        """The links as they are."""
        return links

    def sizes(self) -> dict[str, Any]:
        """What is stored, and in how many bytes."""
        return ours.sizes(self._frontier, self._path)


class Bare:
    """The floor, given the rows of each page."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "floor"
        self._rows = Rows()
        self._floor = Floor(self._path)
        self._turn = 0
        self.put = self._floor.put_sorted
        self.commit = self._floor.commit

    def ready(self, links: list[str]) -> list[Any]:
        """The rows of the links."""
        return [self._rows.of(url) for url in links]

    def last_commit(self) -> int:
        """The number of the last commit."""
        return int(self._floor.env.info()["last_txnid"])

    def sizes(self) -> dict[str, Any]:
        """What is stored, and in how many bytes."""
        txn, tables = self._floor.txn, self._floor.tables
        entries = {name: txn.stat(table)["entries"] for name, table in tables.items()}
        return {**entries, "file": disk.file_size(self._path), "live": disk.live(txn, tables)}

    def drain(self, count: int) -> dict[str, float]:
        """URIs taken per second, a queue after the other, one of each in turn."""
        queues, done = self._rows.queues, 0
        start = time.perf_counter()
        while done < count:
            started = time.perf_counter()
            for _ in range(LEASES):
                self._turn = self._turn % queues + 1
                done += self._floor.take(self._turn)
            self._floor.tick(started)
        self._floor.commit()
        return {"taken": done, "seconds": time.perf_counter() - start}

    def close(self) -> None:
        """End."""
        self._floor.close()


def leg(contestant: Contestant, batches: Iterator[list[str]], more: Callable[[int], bool]) -> dict[str, Any]:
    """Hand over batches as long as `more`, asked with how many there were, says so; commit at the end."""
    wall = cpu = 0.0
    done = links = peak = 0

    def timed(call: Callable[[], object]) -> None:
        nonlocal wall, cpu
        cpu_start, start = time.process_time(), time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        wall, cpu = wall + seconds, cpu + time.process_time() - cpu_start
        calls.add(seconds)

    contestant.commit()  # nothing, but the next one is due half a second from now, not from the leg before
    calls = Calls(contestant.last_commit)
    while (more(done) or not done) and (made := list(islice(batches, AT_ONCE))):
        for batch in [contestant.ready(links) for links in made]:
            timed(lambda batch=batch: contestant.put(batch))  # type: ignore[misc]
        done += len(made)
        links += sum(map(len, made))
        peak = max(peak, anonymous_memory())
    timed(contestant.commit)
    figures = {"batches": done, "links": links, "seconds": wall, "cpu_seconds": cpu, "peak": peak / MIB}
    return {**figures, **calls.figures(), "committing": list(calls.committing), **contestant.sizes()}


def _seeds(pages: Pages) -> Iterator[list[str]]:
    seeds = pages.seeds()
    while batch := list(islice(seeds, 1000)):
        yield batch


def _pages(pages: Pages) -> Iterator[list[str]]:
    while True:
        yield pages.page()


def _until(end: float) -> Callable[[int], bool]:
    return lambda _: time.perf_counter() < end


def main() -> None:
    """Obey until the input ends."""
    name, folder, hosts = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    pages = Pages(hosts)
    contestant = Ours(folder) if name == "ours" else Bare(folder)
    orders: dict[str, Callable[..., Any]] = {
        "seed": lambda: leg(contestant, _seeds(pages), lambda _: True),
        "grow": lambda count: leg(contestant, _pages(pages), lambda done: done < count),
        "grow_to": lambda size: leg(contestant, _pages(pages), lambda _: contestant.sizes()["pending"] < size),
        "grow_for": lambda seconds: leg(contestant, _pages(pages), _until(time.perf_counter() + seconds)),
    }
    for line in sys.stdin:
        order, arguments = json.loads(line)
        obey = orders.get(order) or getattr(contestant, order)
        print(json.dumps(obey(**arguments)), flush=True)


if __name__ == "__main__":
    main()
