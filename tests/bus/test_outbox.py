"""The outbox: everything arrives in order, or is given back because it is too large for the broker."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from budgetfrontier.bus.interface import BusAway, TooLarge
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.outbox import Item, Outbox
from budgetfrontier.bus.streams import DATABASE, streams
from tests.bus.limited import LimitedBus


def test_what_is_too_large_is_replaced_however_often_the_bus_is_away() -> None:
    bus, stream = LimitedBus(MemoryBroker().bus(), 10), streams().scoring_log
    given: list[TooLarge] = []

    def too_large(message: TooLarge) -> Iterable[Item]:
        given.append(message)
        if len(given) == 2:
            raise BusAway("the dead letter cannot be sent yet")
        return [(message.partition, message.data[:12])] if len(message.data) > 12 else []

    outbox = Outbox(bus, stream, too_large=too_large)
    outbox.add([(0, b"first"), (0, b"x" * 20), (0, b"y" * 30), (0, b"last")])
    for away in (1, 0):
        bus.away = away
        with pytest.raises(BusAway):
            outbox.flush()
    outbox.flush()
    assert [len(each.data) for each in given] == [20, 30, 30, 12, 12] and not len(outbox)
    assert [each.data for each in bus.consumer(stream, DATABASE).poll(10, 0.0)] == [b"first", b"last"]
    outbox.close()
