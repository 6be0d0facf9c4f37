"""The client of the broker: a DEALER socket, and requests that are repeated until the broker answers."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import zmq

from budgetfrontier.bus.broker import BrokerReply, Fetch, Operation
from budgetfrontier.bus.interface import SESSION, BusAway, BusError
from budgetfrontier.bus.log_client import LogBus
from budgetfrontier.bus.patience import STEP, Patience
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.errors import WrongAddress

REPEAT = 2.0
"""Seconds after which a request is sent again, to a broker that may have been restarted. None has an effect twice."""

_encode = msgspec.msgpack.Encoder().encode
_reply = msgspec.msgpack.Decoder(BrokerReply).decode


def connect(address: str, *, session: float = SESSION, patience: Patience | None = None) -> LogBus:
    """Return a bus at a broker's ZeroMQ address, such as tcp://127.0.0.1:5550; the broker may be started later.

    Raises WrongAddress.
    """
    connection = _Connection(address, patience or Patience())
    return LogBus(connection.call, connection.close, session=session)


def _wrong(address: str) -> WrongAddress:
    return WrongAddress(f"zmq+{address} is no address: give zmq+tcp://HOST:PORT or zmq+ipc://PATH")


class _Connection:
    def __init__(self, address: str, patience: Patience) -> None:
        self._address, self._patience = address, patience
        if address.startswith("tcp://"):  # ZeroMQ wraps the number of a port, and looks up the name of one, for ever
            try:
                addresses.parsed(address.removeprefix("tcp://"))
            except WrongAddress:
                raise _wrong(address) from None
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 50)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 1000)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise _wrong(address) from error
        self._request = 0

    def call(self, operation: Operation, timeout: float) -> Any:
        """Send an operation, again and again until it is answered or `timeout` seconds are over."""
        self._request += 1
        data = _encode((self._request, operation))
        repeat = REPEAT + (operation.wait if isinstance(operation, Fetch) else 0.0)
        wait = self._patience.wait(timeout)
        while (left := wait.left()) > 0:
            self._send(data)
            until = time.monotonic() + min(left, repeat)
            while (rest := min(until - time.monotonic(), wait.left())) > 0:
                if not self._socket.poll(int(min(rest, STEP) * 1000) + 1):
                    continue
                reply = _reply(self._socket.recv())
                if reply.request != self._request:
                    continue  # to a request that was repeated
                if reply.error is not None:
                    raise (BusAway if reply.passes else BusError)(reply.error)
                return msgspec.msgpack.decode(reply.result)
        raise BusAway(
            f"the broker at {self._address} has not answered for {wait.waited:.0f} s, or has no room; look whether "
            "`budgetfrontier bus-broker` runs, and whether consumers do"
        )

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()
        self._context.term()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.send(data, zmq.NOBLOCK)
        except zmq.Again:  # no broker has been there yet, and the queue of the socket is full
            time.sleep(0.05)
