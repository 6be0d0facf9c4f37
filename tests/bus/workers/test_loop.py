"""The loop of a worker: what it waits for, and what ends it."""

from __future__ import annotations

import logging

import pytest

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.counters import BusCounters
from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.streams import STATISTICS, streams
from budgetfrontier.bus.workers import loop
from tests.support import logged


class Steps:
    """A worker whose steps raise what is in a list."""

    counters = BusCounters("test")
    is_finished = False

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)

    def step(self, wait: float = 0.0) -> bool:
        if (error := self.errors.pop(0)) is not None:
            raise error
        return True

    def close(self) -> None: ...


def run(worker: Steps, *, partitions: int = 1, every: float = 0.0) -> None:
    bus, names = MemoryBroker().bus(), streams()
    bus.lag(names.statistics, STATISTICS)
    other = names.statistics.__class__(names.statistics.name, partitions, names.statistics.groups)
    names = names.__class__(names.spider_log, names.scoring_log, names.spider_feed, other, names.dead_letters)
    loop.run(worker, bus, names, Codec(), every=every, stopped=lambda seconds: not worker.errors)


def _said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return logged(caplog, "budgetfrontier.workers", level=logging.INFO)


def test_a_bus_that_is_away_is_waited_for_and_a_refusal_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    worker = Steps(BusAway("gone"), BusAway("still gone"), None, BusError("not allowed"), None)
    with pytest.raises(BusError, match="not allowed"):
        run(worker)
    assert worker.errors == [None]
    assert _said(caplog) == [
        "waiting for the message bus: gone",
        "the message bus answers again",
    ]


def test_a_step_that_was_ended_early_is_no_wait(caplog: pytest.LogCaptureFixture) -> None:
    run(Steps(BusAway("gone")))
    assert _said(caplog) == ["ended without an answer of the message bus: gone"]


def test_statistics_that_are_refused_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    run(Steps(None, None, None), partitions=2, every=1e-9)
    [line] = caplog.messages
    assert "no statistics from now on" in line and "1 partitions" in line
