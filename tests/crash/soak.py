"""Random crawls of random length, closed, opened, checked and counted: `make soak`, or with `--help` for its options.

The other tests here kill a process, or go on, after transactions of a few hundred operations: LMDB uses the pages that
these free again, and the file had all its pages whenever it was opened. A transaction that takes new pages at the end
of the file and empties them again never writes them, and a close then leaves a file that is shorter than its number of
pages says. That takes a thousand URIs between two commits. So here a transaction may have any length, and each close is
followed by an opening. Prints its figures; ends with 1 if anything was refused, lost, or handed out once too often.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import lmdb.verify

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease, Summary
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import lock_table
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.verify import check_pages
from tests.support import START, make_settings

LEAK = re.compile("neither reachable nor in the freeDB")  # nobody reads such a page
FOREVER = 30 * 86400.0


class Figures(Counter[str]):
    """What was done, by name; and in `problems` what must not be."""

    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []


class SoakRun:
    """One frontier, and what it must hold: which URLs wait, are out, or have been finished or deleted."""

    def __init__(self, path: Path, chance: Random, size: int, figures: Figures) -> None:
        self.path, self._chance, self._size, self._figures = path, chance, size, figures
        self._hosts = int(size ** chance.uniform(0, 0.8))
        self._settings = make_settings(
            hold_queues=chance.random() < 0.5,
            concurrency=chance.choice((1, 1, 8)),
            commit_operations=chance.choice((1000, 1 << 30, 1 << 30)),
            retry={"max_retries": 65535, "delay": 1.0, "scope": chance.choice(("queue", "uri"))},
            max_deliveries=65535,
            lease_ttl=FOREVER,
        )
        self._clock = ManualClock(START)
        self._waiting: set[str] = set()
        self._out: dict[str, Lease] = {}
        self._ended: set[str] = set()
        self._named = self._deleted = 0
        self._open()

    def _open(self) -> None:
        self._keep = self._chance.random() < 0.5
        self._frontier = Frontier.open(self.path, self._settings, clock=self._clock, keep_leases=self._keep)
        self._drop_leases()

    def _drop_leases(self) -> None:
        """What is out comes back when it is closed or opened, unless leases are kept."""
        if not self._keep:
            self._waiting |= self._out.keys()
            self._out.clear()

    def _some(self) -> int:
        """How many: any order of magnitude is as likely as any other."""
        return int(self._size ** self._chance.random())

    def _problem(self, what: str) -> None:
        self._figures.problems.append(f"{self.path.name}: {what}")

    # -- what happens

    def step(self) -> None:
        """Do one thing, and sometimes commit it."""
        do = self._chance.choices((self.schedule, self.crawl, self.delete), (3, 4, 1))[0]
        do(self._some())
        if self._chance.random() < 0.3:
            self._frontier.commit()

    def schedule(self, count: int) -> None:
        """New URLs in batches, with some that are known."""
        batch = self._some()
        for first in range(0, count, batch):
            known = [url for url, _ in zip(self._ended, range(3), strict=False)]
            new = [self._url() for _ in range(min(batch, count - first))]
            tally = self._frontier.schedule_many(new + known)
            self._waiting.update(new)
            self._figures["URIs"] += len(new)
            if (tally.added, tally.duplicate) != (len(new), len(known)):
                self._problem(f"{len(new)} new URIs, {len(known)} known: {tally!r}")

    def _url(self) -> str:
        self._named += 1
        return f"https://host{self._chance.randrange(self._hosts)}.test/{self._named % 50}/{self._named}"

    def crawl(self, count: int) -> None:
        """Lease and finish so many, a few at a time; some come back later, some stay out."""
        at_once, forgotten = self._some(), self._chance.choice((0.0, 0.0, 0.01))
        while count > 0 and (leases := self._lease(min(at_once, count))):
            count -= len(leases)
            for lease in leases:
                if self._chance.random() >= forgotten:
                    self._finish(lease, retry=self._chance.random() < 0.05)

    def _lease(self, count: int) -> list[Lease]:
        leases = self._frontier.lease(count)
        for lease in leases:
            url = lease.uri.url
            if url not in self._waiting:
                self._problem(f"{url} was handed out, but {'was over' if url in self._ended else 'was out'}")
            self._waiting.discard(url)
            self._out[url] = lease
        return leases

    def _finish(self, lease: Lease, *, retry: bool = False) -> None:
        self._frontier.finish(lease, Outcome.RETRY if retry else Outcome.SUCCESS)
        del self._out[lease.uri.url]
        (self._waiting if retry else self._ended).add(lease.uri.url)

    def delete(self, count: int) -> None:
        """All that waits in a queue."""
        host = f"host{count % self._hosts}.test"
        gone = {url for url in self._waiting if url.startswith(f"https://{host}/")}
        deleted = self._frontier.delete(queue=host)
        self._deleted += deleted
        self._figures["deleted"] += deleted
        if deleted != len(gone):
            self._problem(f"{deleted} of {len(gone)} URIs were deleted")
        self._waiting -= gone
        self._ended |= gone

    def reopen(self) -> None:
        """Close it cleanly, look at what it left, and open it again."""
        self._frontier.close()
        self._drop_leases()
        self._figures["closes"] += 1
        missing = missing_pages(self.path)
        self._figures["ended before their last page"] += missing > 0
        try:
            check_pages(self.path)
            with Reader(self.path) as reader:
                reader.check()
                self._count(reader.summary())
            self._open()
        except CorruptFrontier as e:
            self._problem(f"closed, {missing} pages short, and then: {e}")
            raise

    def _count(self, summary: Summary) -> None:
        told = summary.queued + summary.future, summary.in_process, summary.succeeded
        held = len(self._waiting) + len(self._out), len(self._out), len(self._ended) - self._deleted
        if told != held:
            self._problem(f"waiting, out and finished: {told}, not {held}")

    def end(self) -> None:
        """Crawl all that is left, and close it."""
        for lease in list(self._out.values()):
            self._finish(lease)
        idle = 0
        while idle < 100 and (wait := self._frontier.next_ready_in()) is not None:
            self._clock.advance(wait)
            leases = self._lease(64)
            idle = 0 if leases else idle + 1
            for lease in leases:
                self._finish(lease)
        if self._waiting or self._out:
            self._problem(f"{len(self._waiting)} were never handed out")
        self.reopen()
        self._frontier.close()

    def drop(self) -> None:
        """Close it, whatever it holds."""
        self._frontier.close()


def missing_pages(path: Path) -> int:
    """How many pages the data file of a frontier at rest should have behind its end."""
    env = lmdb.open(str(path), readonly=True, max_dbs=0, lock=False)
    try:
        pages = int(env.info()["last_pgno"]) + 1
        return max(pages - (path / "data.mdb").stat().st_size // int(env.stat()["psize"]), 0)
    finally:
        lock_table.close(env)


def check(path: Path) -> None:
    """Raise CorruptFrontier unless the frontier at `path` adds up."""
    with Reader(path) as reader:
        reader.check()


def cut(
    path: Path, folder: Path, chance: Random, times: int, figures: Figures, *, look: Callable[[Path], None] = check
) -> None:
    """Cut a copy of a data file shorter and shorter: it opens exactly if py-lmdb's own audit misses no page.

    Whenever it opens, `look` at all of it: a page that is read and missing would end this process.
    """
    copy = folder / "cut"
    copy.mkdir()
    shutil.copyfile(path / "data.mdb", copy / "data.mdb")
    size = (copy / "data.mdb").stat().st_size
    sizes = [8192 + int((size - 8192) * chance.random() ** chance.choice((0.1, 1, 3))) for _ in range(times)]
    for size in sorted(sizes, reverse=True):
        with open(copy / "data.mdb", "r+b") as file:
            file.truncate(size)
        whole = _audited(copy)
        try:
            lock_table.close(open_lmdb(copy, readonly=True))
            opened = True
        except CorruptFrontier as e:
            opened = "is truncated" not in str(e)
        if opened and whole:
            look(copy)
        figures["cuts of free pages" if whole else "cuts of used pages"] += 1
        if opened != whole:
            figures.problems.append(f"{path.name} cut to {size} bytes: {'opened' if opened else 'refused'}, {whole=}")
    shutil.rmtree(copy)


def _audited(path: Path) -> bool:
    """Whether py-lmdb finds all pages that are in use. It reads the file without LMDB, and without our code."""
    try:
        found: list[str] = lmdb.verify.verify(str(path))  # type: ignore[no-untyped-call]
    except lmdb.verify.VerifyError:
        return False
    return all(LEAK.search(problem) for problem in found)


def soak(folder: Path, *, seed: int, closes: int, cuts: int, size: int) -> Figures:
    """Lives of at most `size` URIs a step until there were so many closes, and so many cuts of used pages."""
    figures = Figures()
    number = 0
    while not figures.problems and (figures["closes"] < closes or figures["cuts of used pages"] < cuts):
        number += 1
        chance = Random(f"{seed} {number}")
        soak_run = SoakRun(folder / f"seed-{seed}-run-{number}", chance, size, figures)
        try:
            for _ in range(chance.randint(1, 5)):
                for _ in range(chance.randint(1, 6)):
                    soak_run.step()
                soak_run.reopen()
            soak_run.end()
        except CorruptFrontier:
            soak_run.drop()  # and it is among the problems
        if figures["cuts of used pages"] < cuts:
            cut(soak_run.path, folder, chance, 10, figures)
        shutil.rmtree(soak_run.path)
    figures["runs"] = number
    return figures


def drained(path: Path, urls: int, done: int, *, seed: int = 0, look: Callable[[], None] = lambda: None) -> int:
    """Schedule URLs in two batches, finish some in one transaction, `look`, close: how many pages the file lacks."""
    chance = Random(seed)
    with Frontier.open(path, make_settings(commit_operations=1 << 30), clock=ManualClock(START)) as frontier:
        for first in range(0, urls, urls // 2):
            numbers = range(first, first + urls // 2)
            frontier.schedule_many(f"https://host{chance.randrange(30)}.test/path/{number}" for number in numbers)
            frontier.commit()
        while done > 0 and (leases := frontier.lease(min(64, done))):
            done -= len(leases)
            for lease in leases:
                frontier.finish(lease)
            frontier.report()  # deletions are made before it reads: pages come and go within the transaction
        frontier.commit()
        look()
    return missing_pages(path)


def main(argv: list[str] | None = None) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--closes", type=int, default=1000, help="how many closes, each followed by an opening")
    parser.add_argument("--cuts", type=int, default=1000, help="how many used pages to cut off")
    parser.add_argument("--size", type=int, default=20_000, help="most URIs that one step schedules or crawls")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="to do the same again")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to use")
    args = parser.parse_args(argv)
    print(f"--seed {args.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-", dir=args.folder) as folder:
        figures = soak(Path(folder), seed=args.seed, closes=args.closes, cuts=args.cuts, size=args.size)
    print(", ".join(f"{count:,} {name}" for name, count in figures.items()))
    print("\n".join(figures.problems), file=sys.stderr)
    return int(bool(figures.problems))


if __name__ == "__main__":
    sys.exit(main())
