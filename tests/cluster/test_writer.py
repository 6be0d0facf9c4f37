"""The writer of logs: it waits for a broker that is away, and ends when one refuses."""

from __future__ import annotations

import logging
from queue import Queue
from typing import Any, cast

import pytest

from budgetfrontier.bus.interface import Bus, BusAway, BusError
from budgetfrontier.bus.streams import Stream
from budgetfrontier.cluster.log.writer import Writer
from budgetfrontier.errors import FrontierClosed
from tests.support import PATIENCE


class Broker:
    """A bus and its producer, whose next calls fail."""

    def __init__(self, *failures: Exception | None) -> None:
        self.failures = list(failures)
        self.sent: list[tuple[int, bytes]] = []

    def producer(self, stream: Stream) -> Broker:
        return self

    def send(self, *messages: bytes, partition: int = 0) -> None:
        self._fail()
        self.sent += [(partition, message) for message in messages]

    def flush(self, timeout: float = 0.0) -> None:
        self._fail()

    def close(self) -> None:
        pass

    def _fail(self) -> None:
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure


def writer(broker: Broker) -> Writer:
    return Writer(cast("Bus", broker), Stream("s", 4, ("g",)))


def test_a_broker_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    broker = Broker(BusAway("gone"), BusAway("gone"), None, BusAway("gone"))
    one, told = writer(broker), Queue[Any]()
    ticket = one.write(2, b"a", lambda *answer: told.put(answer))
    assert told.get(timeout=PATIENCE) == (None, None)
    assert one.confirmed == ticket
    assert one.write(2, b"b", lambda *answer: told.put(answer)) > ticket
    assert told.get(timeout=PATIENCE) == (None, None)
    assert broker.sent == [(2, b"a"), (2, b"b")]
    mine = [record for record in caplog.records if record.name == "budgetfrontier.cluster"]
    assert [record.levelname for record in mine] == [
        "WARNING",
        "INFO",
    ] * 2
    one.close()


def test_what_a_broker_does_not_take_at_the_end_is_given_up() -> None:
    one, told = writer(Broker(*[BusAway("gone")] * 1_000_000)), Queue[Any]()
    one.write(2, b"a", lambda *answer: told.put(answer))
    one.close()
    assert isinstance(told.get(timeout=PATIENCE)[1], BusAway)
    assert one.confirmed == 0


def test_what_comes_after_the_end_is_refused() -> None:
    one, told = writer(Broker()), Queue[Any]()
    one.close()
    one.write(2, b"a", lambda *answer: told.put(answer))
    assert isinstance(told.get(timeout=PATIENCE)[1], FrontierClosed)


def test_a_refusal_ends_it() -> None:
    one, told = writer(Broker(BusError("not allowed"))), Queue[Any]()
    one.write(2, b"a", lambda *answer: told.put(answer))
    assert str(told.get(timeout=PATIENCE)[1]) == "not allowed"
    with pytest.raises(BusError, match="not allowed"):
        one.write(2, b"b")
    one.close()
