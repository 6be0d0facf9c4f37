"""A panic in the kernel, wherever it is called, is an error of the frontier: nothing uncommitted stays, and it opens
again.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Finish, Frontier, Lease, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import native, pending, queue_cache
from budgetfrontier.errors import FrontierError
from tests.support import PATIENCE, START, kernel, memory, on_disk, pages

pytestmark = pytest.mark.skipif(native.kernel is None, reason=native.described())

UNUSED = (
    *("LiveQueue.__repr__", "LiveQueue.encode", "PlainBatch.__len__", "QueueIds.__iter__", "ReadAhead.held"),
    *("Ring.__iter__", "TakenKeys.__len__", "read_found"),
)
"""What tests, debuggers and servers need, and no call of a frontier."""
SPECIAL = ("__len__", "__iter__", "__repr__")


class PanicException(BaseException):
    """As PyO3 raises it."""


def entry_points() -> list[str]:
    """The methods and functions of the kernel."""
    found = []
    for name, item in vars(native.kernel).items():
        if isinstance(item, type):
            methods = [method for method, what in vars(item).items() if callable(what)]
            found += [f"{name}.{method}" for method in methods if method in SPECIAL or not method.startswith("_")]
        elif callable(item):
            found.append(name)
    return found


def everything(path: Path, clock: ManualClock) -> None:
    """Use all of the kernel: admission in batches and one by one, turns, ends, moves, commits and openings."""
    for concurrency in (2, 3, 3):
        with on_disk(path, clock, concurrency=concurrency, balance_replenish_amount=4) as frontier:
            for url in pages("efg", 6):
                frontier.schedule(url)
            frontier.schedule_many([*pages("ab", 9), "http://a.test/%7e", "no url", *pages("b", 2)])
            frontier.schedule_each(pages("cd", 3))
            frontier.commit()
            frontier.finish_many(frontier.lease(4))
            for turn in range(9):
                leases = frontier.lease(6)
                for number, lease in enumerate(leases[:4]):
                    end(frontier, lease, (turn + number) % 6)
                frontier.finish_many(leases[4:])
                frontier.snooze("b.test", until=clock.time() + 3)
                frontier.wake("b.test")
                frontier.report()
                clock.advance(5.0)
            frontier.finish_many(frontier.lease(1))
            frontier.finish_many(frontier.lease(2))
            frontier.next_ready_in()
            frontier.schedule(CrawlUri("http://a.test/first", priority=9, force=True))
            frontier.retire("a.test")
            frontier.undo(kernel(frontier).counters.audit)
            frontier.schedule_many(pages("c", 9, first=20 + frontier.summary().scheduled))
            frontier.delete(queue="c.test")
            frontier.undo(kernel(frontier).counters.audit)
            frontier.adjust(queue_total_budget=5, dry_run=True)
            frontier.check()
    with memory(keep_urls=True, max_queue_size=4) as frontier:
        frontier.schedule_many(pages("abcd", 9))
        frontier.internals.forget_urls([frontier.internals.kept_urls()[0].fingerprint])
        frontier.schedule_many(pages("abcd", 9))
    with memory(max_bandwidth=9) as frontier:
        frontier.schedule_many(pages("a", 2))
        frontier.lease(1)


def end(frontier: Frontier, lease: Lease, way: int) -> None:
    """End a lease in one of six ways."""
    if way == 0:
        frontier.finish(lease, discovered=pages("hia", 9))
    elif way == 1:
        frontier.finish(lease)
    elif way == 2:
        frontier.landed(lease)
        frontier.finish(lease, Outcome.RETRY, delay=9.0)
    elif way == 3:
        frontier.finish_many([Finish(lease, size=7, status=200, digest=b"x", fetch_seconds=0.5)])
    elif way == 4:
        frontier.give_back([lease])
    else:
        frontier.finish(lease, Outcome.FAILURE)


@pytest.mark.parametrize("name", entry_points() if native.kernel is not None else ())
def test_a_panic_is_an_error_of_the_frontier(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: Any, **__: Any) -> Any:
        raise PanicException("index out of bounds")

    monkeypatch.setattr(pending, "MOST_RUNS", 3)
    monkeypatch.setattr(queue_cache, "CACHE", 8)
    clock, owner, _, method = ManualClock(START), *name.rpartition(".")
    with monkeypatch.context() as broken:
        broken.setattr(getattr(native.kernel, owner) if owner else native.kernel, method, panic)
        if name in UNUSED:
            everything(tmp_path, clock)
        else:
            with pytest.raises(FrontierError, match=r"kernel failed: index out of.*BUDGETFRONTIER_KERNEL=python"):
                everything(tmp_path, clock)
    with on_disk(tmp_path, clock) as frontier:
        frontier.check()


RUN_OUT = """
import resource, sys
from pathlib import Path
from budgetfrontier import Frontier, FrontierError

frontier = Frontier.open(sys.argv[1])
frontier.schedule("https://a.test/")
[lease] = frontier.lease(1)
frontier.commit()
links = [f"https://a.test/{number}" for number in range(300_000)]
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (8 << 20), resource.RLIM_INFINITY))
try:
    frontier.finish(lease, discovered=links)
except MemoryError:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    try:
        frontier.commit()
    except FrontierError as error:
        print(error)
"""


def test_a_batch_for_which_there_is_no_room_is_a_memory_error(tmp_path: Path) -> None:
    program = [sys.executable, "-c", RUN_OUT, str(tmp_path / "frontier")]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0 and "closed by an error (MemoryError" in done.stdout, done.stderr
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.check()
        assert frontier.summary().queued == 1
