"""The loop of a worker: step after step until it is to stop, with statistics, and patience with a bus that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import Protocol

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.counters import BusCounters, StatisticsSender
from budgetfrontier.bus.interface import Bus, BusAway
from budgetfrontier.bus.streams import Streams

WAIT = 0.1
"""Seconds that a step waits for messages."""
PAUSE = 1.0
"""Seconds before the next step after one without an answer from the bus."""

log = logging.getLogger("budgetfrontier.workers")


class BusWorker(Protocol):
    """A worker of any role."""

    counters: BusCounters

    def step(self, wait: float = 0.0) -> bool:
        """Do some work; return whether there was any. Raises BusAway: then it is called again."""

    @property
    def is_finished(self) -> bool:
        """Whether it is to end by itself."""

    def close(self) -> None:
        """Leave the bus."""


def run(
    worker: BusWorker, bus: Bus, streams: Streams, codec: Codec, *, every: float, stopped: Callable[[float], bool]
) -> None:
    """Step until the worker has finished, or until `stopped`, called with the seconds that it may wait, is true.

    Statistics are sent `every` so many seconds; 0: never. Raises all errors of a step but BusAway: those that do not
    pass by themselves end the worker.
    """
    statistics = StatisticsSender(bus.producer(streams.statistics))
    due = monotonic() + every
    away: BusAway | None = None
    while not stopped(0.0):
        try:
            worker.step(WAIT)
        except BusAway as error:
            if stopped(0.0):
                log.warning("ended without an answer of the message bus: %s", error)
                return
            if away is None:
                log.warning("waiting for the message bus: %s", error)
            away = error
            if stopped(PAUSE):
                return
        else:
            if away is not None:
                log.info("the message bus answers again")
            away = None
            if worker.is_finished:
                log.info("the strategy has reached its goal")
                return
        if every and monotonic() >= due and away is None:
            due = monotonic() + every
            statistics.send(codec.encode(worker.counters.message()))
