"""The server of the broker: one thread and one ROUTER socket, which clients connect to in any order."""

from __future__ import annotations

import errno
import re
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import zmq

from budgetfrontier.bus.broker import Append, Broker, BrokerReply, Fetch, Operation
from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.bus.log import LIMIT, Log
from budgetfrontier.bus.zeromq.journal import Journal
from budgetfrontier.core.endpoints.addresses import HostPort, check_reach
from budgetfrontier.core.endpoints.sockets import owner_only
from budgetfrontier.errors import WrongAddress

TICK = 20
"""Milliseconds between two looks at operations that wait."""
PATIENCE = 10.0
"""Seconds that an append waits for room; its client repeats it."""

_TCP = re.compile(r"tcp://(.+):([^:]+)")
_LAST_PORT = 65535
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[int, Operation]).decode
_number = msgspec.msgpack.Decoder(tuple[int, msgspec.Raw]).decode


class _PendingOperation(msgspec.Struct):
    """An operation that is answered later: when there is a message or room, or at its deadline."""

    client: bytes
    request: int
    operation: Operation
    until: float


def serve(
    address: str,
    journal: Path,
    *,
    limit: int = LIMIT,
    anybody: bool = False,
    started: Callable[[str, int], None] = lambda address, dropped: None,
    stop: threading.Event,
) -> None:
    """Serve at a ZeroMQ address such as tcp://127.0.0.1:5550 until `stop` is set, and close the journal.

    `limit` is the number of bytes in a partition above which producers wait. `started` gets the address, with the port
    that was chosen if it was *, and the bytes of the journal that could not be read. Raises WrongAddress, BusError if
    the address cannot be used, FrontierError if other machines reach it and not `anybody` may use it, FrontierLocked if
    another broker has the journal open.
    """
    _check_reach(address, anybody=anybody)
    log = Log(limit=limit)
    with ExitStack() as opened:
        context = zmq.Context()
        opened.callback(context.term)
        socket = opened.enter_context(closing(context.socket(zmq.ROUTER)))
        socket.setsockopt(zmq.LINGER, 1000)  # the last answers
        _bind(socket, address)
        written = opened.enter_context(closing(Journal(journal, log)))
        endpoint = socket.getsockopt(zmq.LAST_ENDPOINT)
        assert isinstance(endpoint, bytes)
        started(endpoint.decode().rstrip("\0"), written.dropped)
        _loop(socket, Broker(log, written.append), stop)


def _bind(socket: zmq.Socket[bytes], address: str) -> None:
    """Let a socket listen. Raises BusError, and WrongAddress."""
    wrong = WrongAddress(
        f"{address!r} is no address: give tcp://ADDRESS:PORT, such as tcp://127.0.0.1:5550, or ipc://PATH"
    )
    found = _TCP.fullmatch(address)
    if found and found[2].isdecimal() and int(found[2]) > _LAST_PORT:  # which ZeroMQ would wrap
        raise wrong
    try:
        with owner_only():  # of the socket of an ipc://PATH
            socket.bind(address)
    except zmq.ZMQError as error:
        if error.errno in (errno.EINVAL, errno.EPROTONOSUPPORT):
            raise wrong from error
        raise BusError(f"{address}: {error.strerror}; choose another address with --listen") from error


def _check_reach(address: str, *, anybody: bool) -> None:
    found = _TCP.fullmatch(address)
    if found:
        host = HostPort("0.0.0.0" if found[1] == "*" else found[1].strip("[]"), 0)
        check_reach(host, option="--listen", protected=False, anybody=anybody, remedy="")


def _loop(socket: zmq.Socket[bytes], broker: Broker, stop: threading.Event) -> None:
    waiting: list[_PendingOperation] = []
    while not stop.is_set():
        arrived = socket.poll(TICK if waiting else 10 * TICK)
        while arrived:
            try:
                client, *frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            if (later := _received(socket, broker, client, frames)) is not None:
                waiting.append(later)
        waiting = [one for one in waiting if not _answered(socket, broker, one)]


def _received(
    socket: zmq.Socket[bytes], broker: Broker, client: bytes, frames: list[bytes]
) -> _PendingOperation | None:
    """Perform an operation of a client, or return it to be tried again; answer invalid ones with an error."""
    request = 0
    try:
        (data,) = frames
        request = _number(data)[0]
        _, operation = _decode(data)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        _reply(socket, client, BrokerReply(request, f"the broker cannot read this request: {error}"[:300]))
        return None
    wait = operation.wait if isinstance(operation, Fetch) else PATIENCE
    one = _PendingOperation(client, request, operation, time.monotonic() + wait)
    return None if _answered(socket, broker, one) else one


def _answered(socket: zmq.Socket[bytes], broker: Broker, one: _PendingOperation) -> bool:
    """Perform an operation and answer it; False if it has to wait."""
    try:
        complete, result = broker.perform(one.operation, time.time())
    except BusError as error:
        _reply(socket, one.client, BrokerReply(one.request, str(error), passes=isinstance(error, BusAway)))
        return True
    late = time.monotonic() >= one.until
    if not complete and not late:
        return False
    if complete or not isinstance(one.operation, Append):  # an append that found no room is repeated by its client
        _reply(socket, one.client, BrokerReply(one.request, None, msgspec.Raw(_encode(result))))
    return True


def _reply(socket: zmq.Socket[bytes], client: bytes, reply: BrokerReply) -> None:
    with suppress(zmq.Again):  # a client that reads no answers will ask again
        socket.send_multipart([client, _encode(reply)], zmq.NOBLOCK)
