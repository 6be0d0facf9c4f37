"""The parts that both clients share: the options of a connection, the numbers of calls, and the meaning of errors."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import grpc
import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.core.endpoints import addresses
from budgetfrontier.core.endpoints.addresses import NO_PROXY
from budgetfrontier.engine import arguments
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, SettingsError, WrongType
from budgetfrontier.remote import client_credentials
from budgetfrontier.remote.calls import Rpc
from budgetfrontier.remote.connecting import Connecting, reason
from budgetfrontier.settings import Settings

IN_FLIGHT = 4
"""Calls of one batch that are sent before the first is answered."""
TIMEOUT = 60.0
"""Seconds for one try of a call, besides those that it may wait for URIs."""
CONNECT_TIMEOUT = protocol.RETRY_FOR
"""The same for the first exchange, which opens the crawl."""
LEAVING = 5.0
"""Seconds for the last call of a client that is closed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0
"""Seconds between two tries; each pause is twice the one before."""

_LOST = {
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.INTERNAL,
}
_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),  # in which the connection is to be there; it delays no other try
    ("grpc.max_reconnect_backoff_ms", 1000),
    NO_PROXY,
    ("grpc.use_local_subchannel_pool", 1),  # clients of one process do not share a connection, and its errors
)

_decoders: dict[str, Callable[[bytes], Any]] = {
    method.name: protocol.decoder(method.reply) for method in protocol.METHODS
}

decode_settings: Callable[[bytes | msgspec.Raw], Settings] = protocol.decoder(Settings)
"""The decoder of the settings in the reply to `Connect`."""


class Link:
    """The session of one client, without I/O. Its methods may be called from any thread."""

    def __init__(
        self,
        address: str,
        crawl: str,
        token: str | None,
        tls: bool | str | os.PathLike[str],
        *,
        retry_for: float = protocol.RETRY_FOR,
        timeout: float | None = None,
        quiet: bool = False,
    ) -> None:
        """Take the options of `RemoteFrontier`."""
        self.address = addresses.of_server(_text(address, "address"))
        self.crawl = _text(crawl, "crawl")
        if not crawl:
            raise ValueError("`crawl` is empty: give the name of a crawl, or leave it out for DEFAULT")
        token = None if token is None else _text(token, "token")
        self.metadata = client_credentials.metadata(token)
        self.credentials = client_credentials.certificates(tls)
        self.connecting = Connecting(
            self.address, tls=tls is not False, token=token is not None, quiet=arguments.flag(quiet, "quiet")
        )
        self.retry_for = arguments.number(retry_for, "retry_for")
        self.timeout = None if timeout is None else arguments.number(timeout, "timeout")
        self.channel: Any = None
        self.stubs: dict[protocol.Method, Any] = {}
        """The functions that send a call of a method over the channel."""
        self.is_closed = False
        """Whether the client was closed, or could not connect."""
        self._name = os.urandom(16)
        self._numbers = count(1)
        self._open: set[int] = set()
        self._received: deque[int] = deque()
        self._abandoned: deque[int] = deque()
        self._named: dict[int, tuple[list[int], list[int]]] = {}
        """By the number of a call that is not answered: the calls that it names as received, and as abandoned."""

    @property
    def is_open(self) -> bool:
        """Whether calls may be made: the channel was opened, and not closed."""
        return self.channel is not None and not self.is_closed

    def open(self, secure: Any, insecure: Any) -> None:
        """Open the channel by the functions of `grpc` or `grpc.aio`, unless that was done; the first call connects."""
        if self.channel is not None:
            return
        if self.credentials is None:
            self.channel = insecure(self.address, options=_OPTIONS)
        else:
            self.channel = secure(self.address, self.credentials, options=_OPTIONS)
        self.stubs = {method: self.channel.unary_unary(method.path) for method in protocol.METHODS}

    def check(self) -> None:
        """Raise FrontierClosed if no call can be made."""
        if self.is_closed:
            raise FrontierClosed(f"this client of {self.address} was closed; make another")
        if self.channel is None:
            raise FrontierClosed("this client is not connected; use it with `async with`, or await its `connect()`")

    def number(self, rpc: Rpc) -> int:
        """Return the number of a new call; 0 if it changes nothing."""
        if not rpc.method.changes:
            return 0
        number = next(self._numbers)
        self._open.add(number)
        return number

    def body(self, rpc: Rpc, number: int, after: int = 0) -> bytes:
        """Return the body of a call, which is to be applied after the call `after`."""
        received, abandoned = self._named.get(number) or ([], [])
        if number:
            received, abandoned = received + _drained(self._received), abandoned + _drained(self._abandoned)
            self._named[number] = received, abandoned
        given = msgspec.Raw(rpc.arguments)
        return protocol.encode(protocol.Call(self.crawl, self._name, number, received, after, given, abandoned))

    def abandon(self, number: int) -> None:
        """Note that nobody waits for a call any more; nothing if it was answered."""
        if number in self._open:
            self._open.discard(number)
            received, abandoned = self._named.pop(number, ([], []))  # the server may not know of these
            self._received.extend(received)
            self._abandoned.extend([*abandoned, number])

    def answered(self, rpc: Rpc, number: int, reply: bytes) -> Any:
        """Return a reply, which the server need not remember any more. Raises FrontierError if it cannot be read."""
        self._close(number)
        self.connecting.answered()
        try:
            return _decoders[rpc.method.name](reply)
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise FrontierError(
                f"the reply of {self.address} to {rpc.method.name} cannot be read ({e}): use the same release of "
                "budgetfrontier for the server and its clients"
            ) from e

    def raise_error(self, number: int, failure: Any) -> None:
        """Raise the error that has ended a call; return if the connection was lost, so that it is to be repeated.

        Raises FrontierClosed if the client was closed meanwhile.
        """
        error = self._error_of(failure)
        if error is not None:
            self._close(number)
            raise error from None
        self.check()  # the connection that was lost may have been closed here, in another thread or task

    def _close(self, number: int) -> None:
        if number:
            self._open.discard(number)
            self._named.pop(number, None)
            self._received.append(number)

    def timeout_of(self, rpc: Rpc) -> float:
        """Return the seconds that a try of a call may take."""
        if self.timeout is not None:
            return self.timeout + rpc.wait
        return CONNECT_TIMEOUT if rpc.method is protocol.CONNECT else TIMEOUT + rpc.wait

    def _error_of(self, failure: Any) -> Exception | None:
        code, details = failure.code(), failure.details() or ""
        name = dict(failure.trailing_metadata() or ()).get(protocol.ERROR)
        if name is not None:
            kind = protocol.ERRORS.get(name, FrontierError)
            if issubclass(kind, SettingsError):
                return kind(details.split("\n"))
            return kind(details)
        if code in _LOST:
            return None
        if code is grpc.StatusCode.UNAUTHENTICATED:
            return self.connecting.refused()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return FrontierError(
                f"{self.address} does not serve {protocol.SERVICE}: start `budgetfrontier serve` there, of this release"
            )
        return FrontierError(f"{self.address}: {code.name}: {details}")

    def lost(self, rpc: Rpc, failure: Any, seconds: float) -> ConnectionLost:
        """Return the error for a connection that did not come back, or was never there."""
        why = f"{self.address} has not answered for {seconds:.0f} s ({reason(failure)})"
        if rpc.method is protocol.CONNECT:
            return ConnectionLost(f"{why}; start `budgetfrontier serve` there, or correct the address")
        return ConnectionLost(
            f"{why}; look whether `budgetfrontier serve` runs there. What it has acknowledged is on its disk"
        )


def _text(value: object, name: str) -> str:
    """Return an argument that is a text. Raises WrongType."""
    if not isinstance(value, str):
        raise WrongType(f"`{name}` is a str, not {type(value).__name__}")
    return value


def _drained(numbers: deque[int]) -> list[int]:
    found: list[int] = []
    while numbers:
        try:
            found.append(numbers.popleft())
        except IndexError:  # another thread has taken the last
            break
    return found
