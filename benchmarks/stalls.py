"""What `benchmarks.growth` measures in fresh processes: `python -m benchmarks.stalls NAME ARGUMENTS` prints JSON.

How long it takes to open a frontier, how fast it is drained, and the longest time that a single call takes when
hundreds of thousands of queues change at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks import streams
from benchmarks.legs import LEASES
from benchmarks.ours import impatient, last_commit
from benchmarks.timing import MIB, Calls, anonymous_memory, written
from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock

HOUR = 3600.0
BATCH = 1000


class Watched:
    """A frontier whose calls are timed, and whose memory is measured."""

    def __init__(self, path: str, clock: ManualClock | None = None) -> None:
        Settings()  # imports are not what is measured
        start = time.perf_counter()
        self.frontier = Frontier.open(path, clock=clock)
        self._figures = {"reopen": time.perf_counter() - start, "reopened_memory": anonymous_memory() / MIB}
        self._calls = Calls(last_commit(path))
        self._cpu = self._wall = self._peak = 0.0
        self._done = 0
        self._longest: dict[str, float] = {}

    def call(self, name: str, *args: Any, **options: Any) -> Any:
        """Call the frontier, and time the call."""
        method = getattr(self.frontier, name)
        cpu, start = time.process_time(), time.perf_counter()
        answer = method(*args, **options)
        seconds = time.perf_counter() - start
        self._wall, self._cpu = self._wall + seconds, self._cpu + time.process_time() - cpu
        self._calls.add(seconds)
        self._longest[name] = max(self._longest.get(name, 0.0), seconds)
        return answer

    def drain(self, count: int | None = None) -> None:
        """Lease and finish `count` URIs, or all."""
        done = 0
        while count is None or done < count:
            leases = self.call("lease", LEASES)
            for lease in leases:
                self.call("finish", lease)
            done += len(leases)
            self._peak = max(self._peak, anonymous_memory())
            if not leases and self.frontier.next_ready_in() != 0.0:
                break
        self._done += done

    def figures(self) -> dict[str, float]:
        """Close the frontier; return all figures."""
        self.call("commit")
        self.frontier.close()
        figures = {"finished": self._done, "seconds": self._wall, "cpu_seconds": self._cpu, "peak": self._peak / MIB}
        longest = {f"longest {name}": seconds for name, seconds in self._longest.items()}
        return {**self._figures, **figures, "longest": max(self._longest.values()), **longest, **self._calls.figures()}


def _schedule(f: Frontier, urls: Iterator[str]) -> None:
    while batch := list(islice(urls, BATCH)):
        f.schedule_many(batch)


def reopen(path: str, count: int) -> dict[str, float]:
    """Open an existing frontier and drain a part of it. Single calls are not timed: that would cost 10 %."""
    Settings()
    start = time.perf_counter()
    with Frontier.open(path) as f:
        figures = {"reopen": time.perf_counter() - start, "reopened_memory": anonymous_memory() / MIB}
        before = written()
        start, cpu, done = time.perf_counter(), time.process_time(), 0
        while done < count:
            leases = f.lease(LEASES)
            assert leases
            for lease in leases:
                assert lease.uri.url
                f.finish(lease)
            done += len(leases)
        f.commit()
        figures |= {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
        return figures | {"finished": done, "written": written() - before, "peak": anonymous_memory() / MIB}


def snooze(path: str, count: int) -> dict[str, float]:
    """Create `count` SNOOZED queues of two URLs: one has been fetched, and the politeness delay is an hour."""
    polite = {"min_delay": HOUR, "delay_factor": 0, "max_delay": HOUR}
    peak = 0
    with Frontier.open(path, impatient(hold_queues=False, politeness=polite)) as f:
        _schedule(f, (url + page for url in streams.hosts(count) for page in ("", "second")))
        while leases := f.lease(LEASES):
            for lease in leases:
                f.finish(lease)
            peak = max(peak, anonymous_memory())
        snoozed = f.summary().queues["SNOOZED"]
    assert snoozed == count, snoozed
    return {"peak": peak / MIB}


def wake(path: str, count: int) -> dict[str, float]:
    """Open the frontier of `snooze` when all wake times have just passed, and drain it."""
    clock = ManualClock(time.time())
    watched = Watched(path, clock)
    clock.advance(2 * HOUR)
    watched.drain(count)
    return watched.figures()


def retire(path: str, count: int) -> dict[str, float]:
    """Create `count` queues that are RETIRED, because their budget is 0."""
    with Frontier.open(path, impatient(hold_queues=False, queue_total_budget=0, retire_when="reached")) as f:
        _schedule(f, streams.hosts(count))
        while f.lease(LEASES) or f.next_ready_in() == 0.0:
            pass
        retired = f.summary().queues["RETIRED"]
    assert retired == count, retired
    return {}


def revive(path: str, count: int) -> dict[str, float]:
    """Open the frontier of `retire`, raise the budget, and drain it."""
    watched = Watched(path)
    watched.call("adjust", queue_total_budget=100)
    watched.drain()
    figures = watched.figures()
    assert figures["finished"] == count, figures
    return figures


def ready(path: str, count: int) -> dict[str, float]:
    """Create `count` READY queues."""
    with Frontier.open(path, impatient(hold_queues=False)) as f:
        _schedule(f, streams.hosts(count))
        found = f.summary().queues["READY"]
    assert found == count, found
    return {}


def overspend(path: str, count: int) -> dict[str, float]:
    """Open the frontier of `ready`, lower the budget below the expenditure, and lease until every queue is RETIRED."""
    watched = Watched(path)
    watched.call("adjust", queue_total_budget=0, retire_when="reached")
    watched.drain()
    retired = watched.frontier.summary().queues["RETIRED"]
    assert retired == count, retired
    return watched.figures()


def report(path: str, seconds: int) -> dict[str, float]:
    """Run `budgetfrontier report` on another core repeatedly for some seconds; return the slowest run."""
    job = str(Path(path).parent)
    command = [sys.executable, "-m", "budgetfrontier", "report", job]
    taken = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - begun)
    return {"reports": len(taken), "slowest": max(taken)}


MEASUREMENTS: dict[str, Callable[[str, int], dict[str, float]]] = {
    function.__name__: function for function in (reopen, snooze, wake, retire, revive, ready, overspend, report)
}

if __name__ == "__main__":
    name, path, count, core = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})
    print(json.dumps(MEASUREMENTS[name](path, int(count))))
