"""Dead letters: malformed messages are set apart with the reason, and the others go on."""

from __future__ import annotations

import pytest

from budgetfrontier.bus.codecs.codec import Codec
from budgetfrontier.bus.dead_letters import (
    CUT_DATA,
    MAX_DATA,
    MAX_REASON,
    NOT_SENT,
    SAY_EVERY,
    DeadLetters,
    read_dead_letter,
)
from budgetfrontier.bus.interface import Received
from budgetfrontier.bus.memory import MemoryBroker
from budgetfrontier.bus.messages import BadMessage, Offset
from budgetfrontier.bus.streams import DATABASE, OPERATORS, streams
from budgetfrontier.testing import ManualClock
from tests.bus.limited import LimitedBus
from tests.support import logged


def test_malformed_messages_are_set_apart_and_the_others_go_on() -> None:
    bus, names, codec = MemoryBroker().bus(), streams(), Codec()
    huge = b"\xc1" * (MAX_DATA + 5)
    producer = bus.producer(names.spider_log)
    producer.send(codec.encode(Offset(0, 1)), b"\x93 truncated", huge, codec.encode(Offset(0, 2)))
    producer.close()
    consumer, letters = bus.consumer(names.spider_log, DATABASE), DeadLetters(bus, names.dead_letters)
    received = consumer.poll()
    good = [message for _, message in letters.decoded(received, names.spider_log, codec.decode)]
    assert good == [Offset(0, 1), Offset(0, 2)]
    letters.flush()
    consumer.commit()
    letters.close()

    operator = bus.consumer(names.dead_letters, OPERATORS)
    short, long = (read_dead_letter(message.data) for message in operator.poll())
    assert (short.stream, short.partition, short.offset) == ("frontier-done", 0, received[1].offset)
    assert short.data == b"\x93 truncated" and "malformed" in short.reason
    assert long.size == len(huge) and long.data == huge[:MAX_DATA]
    for one in (consumer, operator):
        one.close()


def test_the_log_has_the_first_and_then_their_number(caplog: pytest.LogCaptureFixture) -> None:
    """With a wrong codec every message is a dead letter: one line says why, and not one for each."""

    def said() -> list[str]:
        return logged(caplog, "budgetfrontier.bus")

    bus, names, clock = MemoryBroker().bus(), streams(), ManualClock(0.0)
    letters = DeadLetters(bus, names.dead_letters, now=clock.time)
    for offset in range(100):
        letters.reject(Received(0, offset, b"x"), names.spider_log, f"no {offset}")
    [line] = said()
    assert "frontier-dead" in line and "frontier-done, partition 0, offset 0: no 0" in line
    letters.flush()
    clock.advance(SAY_EVERY)
    letters.flush()
    assert "99 more messages" in said()[1] and "no 99" in said()[1]
    letters.flush()
    letters.reject(Received(0, 100, b"x"), names.spider_log, "no" * MAX_REASON)
    assert len(said()) == 2
    letters.close()
    assert "1 more message " in said()[2]
    *_, last = bus.consumer(names.dead_letters, OPERATORS).poll()
    assert read_dead_letter(last.data).reason == ("no" * MAX_REASON)[:MAX_REASON]


def test_a_dead_letter_is_cut_if_the_broker_takes_no_more(caplog: pytest.LogCaptureFixture) -> None:
    bus, names = LimitedBus(MemoryBroker().bus(), 5000), streams()
    letters = DeadLetters(bus, names.dead_letters)
    letters.reject(Received(0, NOT_SENT, b"x" * 9000), names.spider_log, "too large")
    letters.flush()
    bus.limit = 500
    letters.reject(Received(0, NOT_SENT, b"x" * 9000), names.spider_log, "still too large")
    letters.close()
    assert "a dead letter is lost: too large; it said: still too large" in caplog.text
    [found] = map(read_dead_letter, (each.data for each in bus.consumer(names.dead_letters, OPERATORS).poll()))
    assert (found.size, found.data, found.offset) == (9000, b"x" * CUT_DATA, NOT_SENT)


def test_an_error_in_what_is_done_with_a_message_is_no_dead_letter() -> None:
    bus, names, codec = MemoryBroker().bus(), streams(), Codec()
    producer = bus.producer(names.spider_log)
    producer.send(codec.encode(Offset(0, 1)))
    producer.close()
    received = bus.consumer(names.spider_log, DATABASE).poll()
    letters = DeadLetters(bus, names.dead_letters)
    with pytest.raises(BadMessage):
        for _ in letters.decoded(received, names.spider_log, codec.decode):
            raise BadMessage("of the worker's own")
    letters.close()
    assert bus.lag(names.dead_letters, OPERATORS) == [0]


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x80", b"\x91\x01"])
def test_what_is_no_dead_letter_is_a_bad_message(data: bytes) -> None:
    with pytest.raises(BadMessage):
        read_dead_letter(data)
