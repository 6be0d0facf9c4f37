"""The simulation of a crawl in partitions: of each partition, from its newest snapshot, all of them taken together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from budgetfrontier.core.units import describe_duration
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.simulation import Simulated, SimulationRequest, Step, together
from budgetfrontier.settings import Settings
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.simulation.job_simulation import simulate
from budgetfrontier.tools.simulation.simulation_process import Steps

NO_STORE = (
    "a crawl in partitions is simulated from its snapshots, and this configuration names no store: give that of its "
    "workers, with `cluster.snapshots`"
)


def simulate_partitions(
    settings: Settings, asked: SimulationRequest, say: Callable[[str], object], steps: Steps
) -> list[Simulated]:
    """Simulate each partition, one after the other, with its part of the fetchers; return the sums.

    Raises FrontierError if a partition has no snapshot, and SnapshotError. No worker is asked.
    """
    from budgetfrontier.cluster.snapshot_restore import FRONTIER, Restorer
    from budgetfrontier.cluster.snapshots import store_of

    cluster = settings.cluster
    if (store := store_of(cluster.snapshots)) is None:
        raise FrontierError(NO_STORE)
    restore, partitions = Restorer(store, settings.crawl, cluster.partitions), cluster.partitions
    fetchers = asked.fetchers or settings.fetch.concurrency
    found: list[list[Simulated]] = []
    ages = []
    for number in range(partitions):
        with tempfile.TemporaryDirectory(prefix="budgetfrontier-snapshot-") as room:
            restore(number, Path(room))
            if not (Path(room) / FRONTIER).is_dir():
                raise FrontierError(
                    f"there is no snapshot of partition {number} of {settings.crawl!r} in {store!r} yet: its worker "
                    f"takes one every {describe_duration(cluster.snapshot_every)}"
                )
            with Reader(Path(room) / FRONTIER) as reader:
                with reader.view() as view:
                    ages.append(time.time() - view.counters().time)
                of_it = replace(asked, fetchers=max(1, round(fetchers / partitions)), seed=asked.seed + number * 1000)
                found.append(simulate(reader, of_it, _first(say, number), partial(_of_all, steps, number, partitions)))
    say(f"simulated from snapshots of {partitions} partitions; the oldest is {describe_duration(max(ages))} old")
    if cluster.max_uris or cluster.max_spend:
        say("the totals of the crawl, cluster.max_uris and cluster.max_spend, are not simulated")
    return [together(of_question) for of_question in zip(*found, strict=True)]


def _first(say: Callable[[str], object], number: int) -> Callable[[str], object]:
    """Return the function that says what concerns the first partition, and nothing of the others: it is the same."""
    return say if number == 0 else lambda text: None


def _of_all(steps: Steps, before: int, partitions: int, done: Sequence[Step]) -> None:
    """Pass on how far the simulations of a partition are, as parts of all partitions."""
    steps([replace(step, share=(before + step.share) / partitions) for step in done])
