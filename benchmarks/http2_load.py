"""A gRPC client that costs next to nothing: ready-made messages in frames of HTTP/2, replies only counted.

It exists because a client of grpcio takes more processor time than the servers that are to be measured.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

FRAME = 9  # bytes of a frame's head
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM = ACK = 1
END_HEADERS = 4
LARGE = (1 << 31) - 1
FIRST_WINDOW = 65535
TIMEOUT = 300  # seconds; only ends a hang


def message(encoded: bytes) -> bytes:
    """Return a message as gRPC frames it, not compressed."""
    return b"\0" + struct.pack(">I", len(encoded)) + encoded


class Stream:
    """A call: how many replies have come, and whether it has ended. The replies are added to `kept`, if it is given."""

    def __init__(self, window: int, kept: list[bytes] | None = None) -> None:
        self.window = window
        self.replies = 0
        self.kept = kept
        self.ended = False
        self._partly = bytearray()

    def received(self, data: bytes) -> None:
        """Count the messages in a piece of the replies."""
        self._partly += data
        at = 0
        while len(self._partly) - at >= 5:
            size = 5 + int.from_bytes(self._partly[at + 1 : at + 5], "big")
            if len(self._partly) - at < size:
                break
            if self.kept is not None:
                self.kept.append(bytes(self._partly[at + 5 : at + size]))
            at += size
            self.replies += 1
        del self._partly[:at]


class Connection:
    """A connection to a server on this machine, with plain HTTP/2."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        settings = struct.pack(">HI", 4, LARGE)  # INITIAL_WINDOW_SIZE: the server may send as much as it likes
        more = struct.pack(">I", LARGE - FIRST_WINDOW)
        hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(SETTINGS, 0, 0, settings) + _frame(WINDOW, 0, 0, more)
        self._socket.sendall(hello)
        self._input = bytearray()
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._window = self._first_window = FIRST_WINDOW
        self._unreported = 0  # bytes received since the last update of the window

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def call(self, path: str, request: bytes, kept: list[bytes] | None = None) -> int:
        """Make a call with one request; return the number of replies, which are added to `kept`."""
        number, stream = self._open(path, kept)
        self._send(number, stream, request, END_STREAM)
        self._finish(number, stream)
        return stream.replies

    def stream(self, path: str) -> tuple[int, Stream]:
        """Begin a call that streams its requests."""
        return self._open(path)

    def exchange(self, opened: tuple[int, Stream], messages: Sequence[bytes], in_flight: int, at_once: int) -> None:
        """Send messages and wait until each has a reply.

        At most `in_flight` are without a reply at any time; `at_once` of them go into one write.
        """
        number, stream = opened
        before, sent = stream.replies, 0
        while stream.replies - before < len(messages):
            while sent < len(messages) and sent - (stream.replies - before) < in_flight:
                data = b"".join(messages[sent : sent + at_once])
                if len(data) > min(self._window, stream.window):
                    break
                self._send(number, stream, data)
                sent = min(len(messages), sent + at_once)
            self._receive()

    def end(self, opened: tuple[int, Stream]) -> None:
        """End the requests of a call, and wait for its end."""
        number, stream = opened
        self._send(number, stream, b"", END_STREAM)
        self._finish(number, stream)

    def _open(self, path: str, kept: list[bytes] | None = None) -> tuple[int, Stream]:
        number, self._next = self._next, self._next + 2
        stream = self._streams[number] = Stream(self._first_window, kept)
        self._socket.sendall(_frame(HEADERS, END_HEADERS, number, _headers(path.encode())))
        return number, stream

    def _send(self, number: int, stream: Stream, data: bytes, flags: int = 0) -> None:
        self._window -= len(data)
        stream.window -= len(data)
        pieces = [data[at : at + 16384] for at in range(0, len(data), 16384)] or [b""]
        frames = [_frame(DATA, 0, number, piece) for piece in pieces[:-1]]
        self._socket.sendall(b"".join([*frames, _frame(DATA, flags, number, pieces[-1])]))

    def _finish(self, number: int, stream: Stream) -> None:
        while not stream.ended:
            self._receive()
        del self._streams[number]

    def _receive(self) -> None:
        data = self._socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has closed the connection")
        self._input += data
        at = 0
        while len(self._input) - at >= FRAME:
            size = int.from_bytes(self._input[at : at + 3], "big")
            if len(self._input) - at < FRAME + size:
                break
            kind, flags = self._input[at + 3], self._input[at + 4]
            number = int.from_bytes(self._input[at + 5 : at + FRAME], "big")
            self._handle(kind, flags, number, bytes(self._input[at + FRAME : at + FRAME + size]))
            at += FRAME + size
        del self._input[:at]

    def _handle(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        stream = self._streams.get(number)
        if kind == DATA and stream is not None:
            stream.received(payload)
            self._unreported += len(payload)
            if self._unreported > LARGE // 4:
                self._socket.sendall(_frame(WINDOW, 0, 0, struct.pack(">I", self._unreported)))
                self._unreported = 0
        elif kind == WINDOW:
            more = int.from_bytes(payload, "big")
            if stream is not None:
                stream.window += more
            elif number == 0:
                self._window += more
        elif kind == SETTINGS and not flags & ACK:
            self._adopt(payload)
        elif kind == PING and not flags & ACK:
            self._socket.sendall(_frame(PING, ACK, 0, payload))
        elif kind in (RESET, GOAWAY):
            raise ConnectionError(f"the server has ended the call: {payload!r}")
        if stream is not None and kind in (DATA, HEADERS) and flags & END_STREAM:
            stream.ended = True

    def _adopt(self, settings: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", settings):
            if name == 4:
                for stream in self._streams.values():
                    stream.window += value - self._first_window
                self._first_window = value
        self._socket.sendall(_frame(SETTINGS, ACK, 0, b""))


def _frame(kind: int, flags: int, number: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, number) + payload


def _headers(path: bytes) -> bytes:
    """Return the fields of a call: POST and http by their numbers in HPACK's table, the others as literals."""
    fields = {b"te": b"trailers", b"content-type": b"application/grpc"}
    literals = b"".join(b"\x00" + _text(name) + _text(value) for name, value in fields.items())
    return b"\x83\x86\x04" + _text(path) + b"\x01" + _text(b"localhost") + literals


def _text(value: bytes) -> bytes:
    return bytes([len(value)]) + value
