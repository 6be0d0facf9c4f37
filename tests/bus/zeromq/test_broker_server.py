"""The broker over ZeroMQ: any order of starts, kills, full partitions, a full disk, and requests that are none."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from io import FileIO
from pathlib import Path

import msgspec
import pytest
import zmq

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.zeromq import broker_client, broker_server, journal
from budgetfrontier.errors import FrontierLocked, WrongAddress
from tests.bus.conformance import data, messages, receive, send, stream
from tests.bus.conftest import zeromq_broker
from tests.support import PATIENCE


def command(folder: Path) -> list[str]:
    listen = f"ipc://{folder}/socket"
    return [sys.executable, "-m", "budgetfrontier", "bus-broker", str(folder / "journal"), "--listen", listen]


def started(folder: Path) -> subprocess.Popen[str]:
    """The broker's command, once it serves."""
    process = subprocess.Popen(command(folder), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "message bus at zmq+ipc://" in process.stderr.readline()
    return process


def ended(process: subprocess.Popen[str]) -> int:
    """The exit code of a process, once it has ended."""
    process.communicate(timeout=PATIENCE)
    return process.returncode


def test_clients_may_be_started_before_the_broker(tmp_path: Path) -> None:
    address, to = f"ipc://{tmp_path}/socket", stream()
    received: list[bytes] = []

    def consume() -> None:
        bus = broker_client.connect(address)
        consumer = bus.consumer(to, "g")
        received.extend(data(receive(consumer, 40)))
        consumer.close()
        bus.close()

    def produce() -> None:
        bus = broker_client.connect(address)
        send(bus, to, messages(40))
        bus.close()

    threads = [threading.Thread(target=consume), threading.Thread(target=produce)]
    for thread in threads:
        thread.start()
    with zeromq_broker(tmp_path / "journal", address=address):
        for thread in threads:
            thread.join()
    assert received == sorted(messages(40))


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_broker_that_was_ended_goes_on(tmp_path: Path, end: signal.Signals) -> None:
    """What producers were told is there, and what consumers have committed stays committed."""
    bus, to = broker_client.connect(f"ipc://{tmp_path}/socket"), stream()
    process = started(tmp_path)
    send(bus, to, messages(400))
    consumer, producer = bus.consumer(to, "g"), bus.producer(to)
    first = consumer.poll(100, PATIENCE)
    consumer.commit()
    for message in messages(100, first=400):
        producer.send(message)
    process.send_signal(end)
    assert ended(process) == (0 if end == signal.SIGTERM else -end)
    process = started(tmp_path)
    producer.close()
    rest = receive(consumer, 500 - len(first))
    assert data([*first, *rest]) == sorted(messages(500))
    consumer.commit()
    assert sum(bus.lag(to, "g")) == 0
    consumer.close()
    bus.close()
    process.terminate()
    assert ended(process) == 0


def test_a_broker_that_is_away_is_a_clear_error_and_nothing_is_lost(tmp_path: Path) -> None:
    address, to = f"ipc://{tmp_path}/socket", stream()
    bus = broker_client.connect(address)
    producer = bus.producer(to)
    producer.send(*messages(10))
    with pytest.raises(BusAway, match="bus-broker"):
        producer.flush(0.1)
    with zeromq_broker(tmp_path / "journal", address=address):
        producer.close()
        consumer = bus.consumer(to, "g")
        assert data(receive(consumer, 10)) == messages(10)
        consumer.close()
    bus.close()


def test_producers_wait_while_a_partition_is_full(tmp_path: Path) -> None:
    to = stream()
    with zeromq_broker(tmp_path / "journal", limit=1000) as address:
        bus = broker_client.connect(address)
        producer, consumer = bus.producer(to), bus.consumer(to, "g")
        producer.send(b"x" * 2000)
        producer.flush()
        producer.send(b"y")
        with pytest.raises(BusAway, match="has no room"):
            producer.flush(0.2)
        producer.send(b"z", partition=1)
        assert [message.data for message in receive(consumer, 1)] == [b"x" * 2000]
        consumer.commit()
        producer.close()
        assert data(receive(consumer, 2)) == [b"y", b"z"]
        consumer.close()
        bus.close()


def test_a_full_disk_is_told_and_nothing_is_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    to = stream()
    real = journal._write

    def full(file: FileIO, written: bytes) -> None:
        file.write(written[: len(written) // 2])
        raise OSError(28, "No space left on device")

    with zeromq_broker(tmp_path / "journal") as address:
        bus = broker_client.connect(address)
        send(bus, to, [b"before"])
        producer = bus.producer(to)
        producer.send(b"after")
        monkeypatch.setattr(journal, "_write", full)
        with pytest.raises(BusAway, match="No space left on device; free some space"):
            producer.flush()
        monkeypatch.setattr(journal, "_write", real)
        producer.flush()
        bus.close()
    with zeromq_broker(tmp_path / "journal") as address:
        bus = broker_client.connect(address)
        consumer = bus.consumer(to, "g")
        assert data(receive(consumer, 2)) == [b"after", b"before"]
        consumer.close()
        bus.close()


def test_requests_that_are_none_are_answered_with_an_error(tmp_path: Path) -> None:
    encode = msgspec.msgpack.encode
    named = ["s", 4, ["g"], None]
    hostile = [
        [b""],
        [b"\xc1"],
        [b"\x91" * 10_000],
        [encode(5)],
        [encode([1, ["Nothing"]])],
        [encode([1, ["Lag", named]])],
        [encode([1, ["Lag", ["s", 0, ["g"], None], "g"]])],
        [encode([1, ["Lag", ["s", 1 << 40, ["g"], None], "g"]])],
        [encode([1, ["Append", named, "p", 1, [[9, b"x"]]]])],
        [encode([1, ["Append", named, "p", 1, [[-1, b"x"]]]])],
        [encode([1, ["Seek", named, "g", 4, 1]])],
        [b"one", b"two"],
    ]
    with zeromq_broker(tmp_path / "journal") as address:
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.connect(address)
            for frames in hostile:
                socket.send_multipart(frames)
                reply = msgspec.msgpack.decode(socket.recv())
                assert reply[1], frames
        bus, to = broker_client.connect(address), stream()
        send(bus, to, messages(4))
        assert bus.lag(to, "g") == [1, 1, 1, 1]
        bus.close()


def test_one_broker_has_a_journal(tmp_path: Path) -> None:
    with zeromq_broker(tmp_path / "journal"), pytest.raises(FrontierLocked, match="stop it first"):
        broker_server.serve("tcp://127.0.0.1:*", tmp_path / "journal", stop=threading.Event())


def test_an_address_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    for wrong in ("nowhere", "tcp://nowhere", "http://127.0.0.1:5550", "tcp://127.0.0.1:99999"):
        with pytest.raises(WrongAddress, match="give tcp://ADDRESS:PORT"):
            broker_server.serve(wrong, tmp_path / "folder" / "journal", stop=threading.Event())
    with socket.create_server(("127.0.0.1", 0)) as busy, pytest.raises(BusError, match="--listen"):
        broker_server.serve(f"tcp://127.0.0.1:{busy.getsockname()[1]}", tmp_path / "journal", stop=threading.Event())
    assert not list(tmp_path.iterdir()), "no journal is made before the address is known to be free"
    with pytest.raises(WrongAddress, match="zmq"):
        broker_client.connect("nowhere")
