"""The simulation of a crawl in partitions: of each partition, from its newest snapshot, all of them taken together."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from budgetfrontier.core.units import describe_duration
from budgetfrontier.errors import FrontierError
from budgetfrontier.rules.simulation import Simulated, SimulationRequest, middles, together
from budgetfrontier.settings import Settings
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.simulation.copies import room
from budgetfrontier.tools.simulation.job_simulation import draws, part_of_all
from budgetfrontier.tools.simulation.simulation_process import Steps

NO_STORE = (
    "a crawl in partitions is simulated from its snapshots, and this configuration names no store: give that of its "
    "workers, with `cluster.snapshots`"
)


def simulate_partitions(
    settings: Settings, asked: SimulationRequest, say: Callable[[str], object], steps: Steps
) -> list[Simulated]:
    """Simulate each partition, one after the other, with its part of the fetchers; return the sums, as `simulate` does.

    Raises FrontierError if a partition has no snapshot, and SnapshotError. No worker is asked, and nothing in the store
    changes: damaged snapshots are passed over.
    """
    from budgetfrontier.cluster.log.state import FRONTIER
    from budgetfrontier.cluster.snapshots.snapshot_restore import Restorer
    from budgetfrontier.cluster.snapshots.snapshot_store import store_of

    cluster = settings.cluster
    if (store := store_of(cluster)) is None:
        raise FrontierError(NO_STORE)
    partitions = cluster.partitions
    restore = Restorer(store, settings.crawl, partitions, read_only=True)
    fetchers = asked.fetchers or settings.fetch.concurrency
    found: list[list[list[Simulated]]] = []
    ages = []
    for number in range(partitions):
        with room(Path(tempfile.gettempdir())) as folder:
            restore(number, folder)
            if not (folder / FRONTIER).is_dir():
                raise FrontierError(
                    f"there is no snapshot of partition {number} of {settings.crawl!r} in {cluster.snapshots} yet: its "
                    f"worker takes one every {describe_duration(cluster.snapshot_every)}"
                )
            with Reader(folder / FRONTIER) as reader:
                with reader.view() as view:
                    ages.append(time.time() - view.counters().time)
                of_it = replace(asked, fetchers=max(1, round(fetchers / partitions)), seed=asked.seed + number * 1000)
                of_all = partial(part_of_all, steps, number, partitions)
                found.append(draws(reader, of_it, _first(say, number), of_all))
    say(f"simulated from snapshots of {partitions} partitions; the oldest is {describe_duration(max(ages))} old")
    if cluster.max_uris or cluster.max_spend:
        say("the totals of the crawl, cluster.max_uris and cluster.max_spend, are not simulated")
    return middles([[*map(together, zip(*of_draw, strict=True))] for of_draw in zip(*found, strict=True)])


def _first(say: Callable[[str], object], number: int) -> Callable[[str], object]:
    """Return the function that says what concerns the first partition, and nothing of the others: it is the same."""
    return say if number == 0 else lambda text: None
