"""A broker that does not answer: for how long it is waited for, and what is said meanwhile."""

from __future__ import annotations

import socket
from contextlib import closing
from math import inf
from pathlib import Path

import pytest

from budgetfrontier.bus import patience, redis_streams
from budgetfrontier.bus.connect import connect
from budgetfrontier.bus.interface import BusAway
from budgetfrontier.bus.patience import GRACE, SAY_AFTER, Patience, Wait
from budgetfrontier.clock import ManualClock
from tests.bus.conformance import stream
from tests.support import PATIENCE


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of waits."""
    clock = ManualClock()
    monkeypatch.setattr(patience, "monotonic", clock.time)
    return clock


def test_once_it_is_stopped_each_operation_has_a_moment_left(clock: ManualClock) -> None:
    patient = Patience()
    begun = patient.wait(30.0)
    clock.advance(10.0)
    assert begun.left() == pytest.approx(20.0)
    patient.stop()
    assert begun.left() == pytest.approx(GRACE)
    assert patient.wait(0.5).left() == pytest.approx(0.5), "no operation has more than it had"
    clock.advance(GRACE)
    patient.stop()
    assert begun.left() == pytest.approx(0.0), "it has had its moment"
    assert patient.wait(30.0).left() == pytest.approx(GRACE), "a broker that answers may end the step in progress"
    patient.stop(at_once=True)
    assert 0.0 < patient.wait(30.0).left() < GRACE


def test_the_first_long_wait_is_said(clock: ManualClock) -> None:
    said: list[str] = []
    patient = Patience(said.append)
    for _ in range(2):
        waiting = patient.wait(30.0)
        waiting.left()
        clock.advance(SAY_AFTER)
        waiting.left()
    assert said == ["waiting for the message bus: no answer for 5 s"]


def test_a_redis_that_hangs_is_not_waited_for_once_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_streams, "TIMEOUT", PATIENCE)
    patient = Patience()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,  # takes connections, and never answers
        closing(connect(f"redis://127.0.0.1:{server.getsockname()[1]}", patience=patient)) as bus,
    ):
        pool = bus._server.client.connection_pool  # type: ignore[attr-defined]
        pool._available_connections.append(pool.make_connection())  # as if it had been used
        patient.stop(at_once=True)
        with pytest.raises(BusAway, match="Timeout"):
            bus.lag(stream(), "g")
        assert pool.connection_kwargs["socket_timeout"] < GRACE


class Endless(Patience):
    """A patience without end until it is stopped."""

    def wait(self, timeout: float) -> Wait:
        return Wait(self, inf)


@pytest.mark.parametrize("url", ["kafka://127.0.0.1:1", "zmq+ipc://{}/nobody", "unix://{}/nobody"])
def test_operations_of_each_transport_end_when_it_is_stopped(url: str, tmp_path: Path) -> None:
    patient = Endless()
    with closing(connect(url.format(tmp_path), patience=patient)) as bus:
        patient.stop(at_once=True)
        producer, consumer = bus.producer(stream()), bus.consumer(stream(), "g", partitions=(1,))
        with pytest.raises(BusAway):
            consumer.poll()
        with pytest.raises(BusAway):
            producer.send(b"x")  # Kafka declares the topic first
            producer.flush()
        with pytest.raises(BusAway):
            bus.lag(stream(), "g")
