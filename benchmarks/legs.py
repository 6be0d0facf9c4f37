"""A contestant of `benchmarks.growth`: `python -m benchmarks.legs ours|floor FOLDER HOSTS` waits for orders.

Each line on standard input is an order and its arguments as JSON, each line of output the answer. The driver lets the
contestants run in turn, a leg each, so that whatever disturbs the machine disturbs all of them. Only the calls are
timed, not the making of what they are given.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from benchmarks import disk, ours
from benchmarks.floor import Floor
from benchmarks.rows import Rows
from benchmarks.streams import Pages
from benchmarks.timing import MIB, Calls, anonymous_memory, written
from budgetfrontier import Frontier

AT_ONCE = 20  # pages handed over without a look at how far it has come
NEW = 25  # links of a page that are new
A_SECOND = 8000  # pages that ours is not expected to reach
LEASES = 64  # of one call of lease


class Contestant(Protocol):
    """The interface of a contestant."""

    def ready(self, links: list[str]) -> Any:
        """Return the argument of `put`; not timed."""

    @property
    def put(self) -> Callable[[Any], object]:
        """Put the links of a page."""

    @property
    def commit(self) -> Callable[[], None]:
        """Commit and sync to disk."""

    @property
    def last_commit(self) -> Callable[[], int]:
        """Return the number of the last commit."""

    def sizes(self) -> dict[str, Any]:
        """Return how much is stored, and in how many bytes."""


class Ours:
    """Our frontier, which gets the links of each page in one `schedule_many`.

    Every host is in rotation, so that each URI leased is of another queue than the one before: the harder order.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ours" / "frontier"
        self._path.mkdir(parents=True)
        self.open()

    def open(self) -> None:
        """Open the storage, possibly again."""
        self._frontier = Frontier.open(self._path, ours.impatient(hold_queues=False))
        self.last_commit = ours.last_commit(self._path)
        self.put = self._frontier.schedule_many
        self.commit = self._frontier.commit

    def close(self) -> None:
        """Close the storage, so that another process can open it."""
        self._frontier.close()

    def ready(self, links: list[str]) -> list[str]:
        """Return the links unchanged."""
        return links

    def drain(self, count: int) -> dict[str, float]:
        """Return the URIs leased and finished, and the seconds that took."""
        frontier, done = self._frontier, 0
        cpu, start = time.process_time(), time.perf_counter()
        while done < count:
            leases = frontier.lease(LEASES)
            frontier.finish_many(leases)
            done += len(leases)
        frontier.commit()
        seconds, peak = time.perf_counter() - start, anonymous_memory() / MIB
        return {"taken": done, "seconds": seconds, "cpu_seconds": time.process_time() - cpu, "peak": peak}

    def sizes(self) -> dict[str, Any]:
        """Return how much is stored, and in how many bytes."""
        return ours.sizes(self._frontier, self._path)


class Bare:
    """The floor, which gets the rows of each page."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "floor"
        self._rows = Rows()
        self._floor = Floor(self._path)
        self._turn = 0
        self.put = self._floor.put_sorted
        self.commit = self._floor.commit

    def ready(self, links: list[str]) -> list[Any]:
        """Return the rows of the links."""
        return [self._rows.of(url) for url in links]

    def last_commit(self) -> int:
        """Return the number of the last commit."""
        return int(self._floor.env.info()["last_txnid"])

    def sizes(self) -> dict[str, Any]:
        """Return how much is stored, and in how many bytes."""
        txn, tables = self._floor.txn, self._floor.tables
        entries = {name: txn.stat(table)["entries"] for name, table in tables.items()}
        return {**entries, "file": disk.file_size(self._path), "live": disk.live(txn, tables)}

    def drain(self, count: int) -> dict[str, float]:
        """Return the URIs taken per second, one of each queue in turn."""
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
    """Put batches while `more`, called with the number of links so far, returns True; commit at the end."""
    wall = cpu = 0.0
    done = links = peak = 0

    def timed(call: Callable[[], object]) -> None:
        nonlocal wall, cpu
        cpu_start, start = time.process_time(), time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        wall, cpu = wall + seconds, cpu + time.process_time() - cpu_start
        calls.add(seconds)
        if len(calls.committing) > len(committed):
            committed.append(written() - before - sum(committed))

    contestant.commit()  # nothing, but the next one is due half a second from now, not from the leg before
    calls = Calls(contestant.last_commit)
    committed: list[int] = []  # bytes that each of them wrote
    before = written()
    while (more(done) or not done) and (made := list(islice(batches, AT_ONCE))):
        for batch in [contestant.ready(links) for links in made]:
            timed(lambda batch=batch: contestant.put(batch))  # type: ignore[misc]
        done += len(made)
        links += sum(map(len, made))
        peak = max(peak, anonymous_memory())
    timed(contestant.commit)
    figures = {"batches": done, "links": links, "seconds": wall, "cpu_seconds": cpu, "peak": peak / MIB}
    commits = {"committing": list(calls.committing), "committed": committed}
    return {**figures, "written": written() - before, **calls.figures(), **commits, **contestant.sizes()}


def _in_memory() -> BinaryIO:
    return os.fdopen(os.memfd_create("pages"), "w+b")


class Ahead:
    """Pages created before the leg that uses them, in a file in memory, which does not count as anonymous memory.

    Our frontier commits by the clock: creating pages in between would make it commit more often per second of work.
    """

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._file = _in_memory()

    def make(self, count: int) -> None:
        """Create pages until there are that many: what an earlier leg has left would add up else."""
        old, self._file, left = self._file, _in_memory(), 0
        with old:
            while part := old.read(1 << 20):  # what is read at once would stay in the process
                left += part.count(b"\n")
                self._file.write(part)
        self._file.writelines(f"{' '.join(self._pages.page())}\n".encode() for _ in range(count - left))
        self._file.seek(0)

    def is_empty(self) -> bool:
        """Return whether no page is left."""
        return self._file.tell() == os.fstat(self._file.fileno()).st_size

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[list[str]]:
        while True:
            line = self._file.readline()
            if line:
                yield line.decode().split()
            else:
                self.make(AT_ONCE)


class Crawl:
    """The legs of a crawl of that many hosts, for one contestant."""

    def __init__(self, contestant: Contestant, hosts: int) -> None:
        self._contestant = contestant
        self._pages = Pages(hosts)
        self._ahead = Ahead(self._pages)

    def seed(self) -> dict[str, Any]:
        """Put the home pages of all hosts."""
        seeds = self._pages.seeds()
        return leg(self._contestant, iter(lambda: list(islice(seeds, 1000)), []), lambda _: True)

    def grow(self, count: int) -> dict[str, Any]:
        """Put that many pages."""
        self._ahead.make(count)
        return leg(self._contestant, iter(self._ahead), lambda done: done < count)

    def grow_to(self, size: int) -> dict[str, Any]:
        """Put pages until that many URLs are pending."""
        self._ahead.make(max(size - self._pending(), 0) // NEW)
        return leg(self._contestant, iter(self._ahead), lambda _: self._pending() < size)

    def grow_for(self, seconds: float) -> dict[str, Any]:
        """Put pages for that many seconds."""
        self._ahead.make(int(seconds * A_SECOND))
        end = time.perf_counter() + seconds
        return leg(self._contestant, iter(self._ahead), lambda _: time.perf_counter() < end)

    def _pending(self) -> int:
        return int(self._contestant.sizes()["pending"])


def main() -> None:
    """Carry out orders until the input ends."""
    name, folder, hosts = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    contestant = Ours(folder) if name == "ours" else Bare(folder)
    crawl = Crawl(contestant, hosts)
    for line in sys.stdin:
        order, arguments = json.loads(line)
        obey = getattr(crawl, order, None) or getattr(contestant, order)
        print(json.dumps(obey(**arguments)), flush=True)


if __name__ == "__main__":
    main()
