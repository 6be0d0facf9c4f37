"""Measure the asyncio scheduler: `python -m benchmarks.aio` prints requests per second, and the delays of the loop.

A request is an `add`, a `get` and a `task_done`; with our scheduler the time includes the last commit to disk. For
comparison, the same run measures asyncio's PriorityQueue with a set of seen URLs, which stores nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import machine
from benchmarks.timing import Stopwatch, quantile
from budgetfrontier import Frontier, Lease
from budgetfrontier.aio import Scheduler

HOSTS = 200
TASKS = 1000  # number of tasks that add, and of tasks that get
BEAT = 0.001  # seconds between two measurements of the delay of the loop
RATE = 10_000  # requests a second while the loop is watched
KNOWN = 300_000  # URIs on MANY hosts that are queued already then
MANY = 5000


def urls(count: int, hosts: int = HOSTS) -> Iterator[str]:
    return (f"https://www.host-{number % hosts}.test/page/{number}" for number in range(count))


class Peer:
    """asyncio's queue with the methods of the scheduler."""

    def __init__(self) -> None:
        self._queue: asyncio.PriorityQueue[tuple[int, int, str]] = asyncio.PriorityQueue()
        self._seen: set[str] = set()
        self._count = 0

    async def add(self, url: str) -> bool:
        if url in self._seen:
            return False
        self._seen.add(url)
        self._count += 1
        await self._queue.put((0, self._count, url))
        return True

    async def get(self) -> Any:
        return await self._queue.get()

    def task_done(self, _: object) -> None:
        self._queue.task_done()

    async def join(self) -> None:
        await self._queue.join()


async def rates(scheduler: Scheduler | Peer, feed: Callable[[], Awaitable[object]], count: int) -> dict[str, float]:
    """Feed the scheduler while TASKS tasks consume; return when all is done and on disk."""

    async def consume() -> None:
        while True:
            scheduler.task_done(await scheduler.get())

    consumers = [asyncio.create_task(consume()) for _ in range(TASKS)]
    watch = Stopwatch()
    await feed()
    await scheduler.join()
    if isinstance(scheduler, Scheduler):
        await scheduler.call(Frontier.commit)
    figures = watch.rates(count)
    for consumer in consumers:
        consumer.cancel()
    await asyncio.gather(*consumers, return_exceptions=True)
    return figures


async def singly(scheduler: Scheduler | Peer, count: int) -> dict[str, float]:
    """Let TASKS tasks add one URI after another."""
    remaining = urls(count)

    async def add() -> None:
        for url in remaining:
            await scheduler.add(url)

    async def feed() -> None:
        await asyncio.gather(*(add() for _ in range(TASKS)))

    return await rates(scheduler, feed, count)


async def together(scheduler: Scheduler, count: int) -> dict[str, float]:
    """Let one task add all URIs with `add_many`."""
    return await rates(scheduler, lambda: scheduler.add_many(urls(count)), count)


async def lateness(scheduler: Scheduler, seconds: float, known: int) -> dict[str, float]:
    """Return the delays of the loop, in seconds, at RATE requests per second, and the longest commit meanwhile."""
    late: list[float] = []
    commits: list[float] = []
    requests = done = 0

    def watch_commits(frontier: Frontier) -> None:
        env = frontier._guard.kernel.tables.env
        commit = env.commit

        def timed() -> None:
            watch = Stopwatch()
            commit()
            commits.append(watch.seconds())

        env.commit = timed  # type: ignore[method-assign]

    async def beat() -> None:
        while True:
            watch = Stopwatch()
            await asyncio.sleep(BEAT)
            late.append(watch.seconds() - BEAT)

    async def consume() -> None:
        nonlocal done
        while True:
            request: Lease = await scheduler.get()
            scheduler.task_done(request, fetch_seconds=0.1)
            done += 1

    await scheduler.add_many(urls(known, MANY))
    await scheduler.call(watch_commits)
    heart = asyncio.create_task(beat())
    await asyncio.sleep(seconds / 4)
    idle, late[:] = max(late), []
    consumers = [asyncio.create_task(consume()) for _ in range(TASKS // 10)]
    adding: set[asyncio.Task[Any]] = set()
    start = time.perf_counter()
    while (elapsed := time.perf_counter() - start) < seconds:
        while requests < elapsed * RATE:
            new = asyncio.create_task(scheduler.add(f"https://www.host-{requests % MANY}.test/new/{requests}"))
            adding.add(new)
            new.add_done_callback(adding.discard)
            requests += 1
        await asyncio.sleep(BEAT)
    figures = {"added": requests / elapsed, "done": done / elapsed, "idle": idle}
    figures |= {"p99": quantile(late, 0.99), "longest": max(late), "commit": max(commits, default=0.0)}
    await asyncio.gather(*adding)
    for task in (heart, *consumers):
        task.cancel()
    await asyncio.gather(heart, *consumers, return_exceptions=True)
    return figures


async def measured(folder: Path, count: int, seconds: float, known: int) -> dict[str, dict[str, float]]:
    """Run one round."""
    found = {"asyncio.PriorityQueue and a set, in memory": await singly(Peer(), count)}
    for name, load in (("add, from 1,000 tasks", singly), ("add_many", together)):
        async with Scheduler(folder / name) as scheduler:
            found[name] = await load(scheduler, count)
    async with Scheduler(folder / "lateness", grace=0) as scheduler:
        found["lateness"] = await lateness(scheduler, seconds, known)
    return found


def run(folder: Path, *, rounds: int, count: int, seconds: float, known: int) -> str:
    """Measure, and return the table; a figure is the median of its rounds."""
    every = []
    for number in range(rounds):
        every.append(asyncio.run(measured(folder / str(number), count, seconds, known)))
    found = {
        name: {figure: median(each[name][figure] for each in every) for figure in every[0][name]} for name in every[0]
    }
    late = found.pop("lateness")
    lines = ["| add + get + done | a second | a processor second |", "| --- | ---: | ---: |"]
    lines += [f"| {name} | {f['per_second']:,.0f} | {f['per_cpu_second']:,.0f} |" for name, f in found.items()]
    longest, p99, idle, commit = (f"{late[name] * 1e3:.1f} ms" for name in ("longest", "p99", "idle", "commit"))
    lines += [
        "",
        f"At {late['added']:,.0f} added and {late['done']:,.0f} done a second, {known:,} queued before: the loop was "
        f"late by {longest} at the most (99 %: {p99}; with nothing to do: {idle}), the longest commit took {commit}.",
    ]
    return "\n".join(lines)


def main() -> None:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.aio", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="rounds (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the workload")
    parser.add_argument("--folder", type=Path, default=Path(), help="where temporary data goes: a real disk")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="benchmarks-", dir=options.folder))
    scale = options.scale
    try:
        table = run(
            folder, rounds=options.runs, count=int(100_000 * scale), seconds=10 * scale, known=int(KNOWN * scale)
        )
    finally:
        shutil.rmtree(folder)
    print(f"{machine.processor()}, {machine.file_system(options.folder)}, load now {machine.load()}\n\n{table}")


if __name__ == "__main__":
    main()
