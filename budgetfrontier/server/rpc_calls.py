"""Calls of a gRPC server, read and written in bulk, as bytes.

gRPC's own handlers for Python wake a thread, or a task, for each message of a stream. Here the messages that have
arrived on all streams are handed over together, and replies are queued on their call: an order of magnitude less
processor time for each message. `grpc.server` does the rest: connections, TLS, interceptors, shutdown, other services.

For this the calls use the operations on which `grpc.server` itself is built, and which grpcio does not document:
`grpc._cython.cygrpc`, `_rpc_event` of a context, and handlers with `experimental_non_blocking`. No other module does.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Any, Final, Protocol

import grpc
from grpc._cython import cygrpc

from budgetfrontier.server.call_stats import MethodStats

Handed = tuple["RpcCall", bytes | None]

_LOG = logging.getLogger("budgetfrontier.service")
_MORE_FOLLOWS: Final = 1  # GRPC_WRITE_BUFFER_HINT: need not be written to the socket at once
_NOT_THE_LAST: Final = (None, ())  # result of a tag, for grpc.server, of an event that does not end its call

MOST_UNANSWERED: Final = 1024
"""The number of messages of a stream that are read before their replies are sent."""

MOST_UNANSWERED_BYTES: Final = 1 << 20
"""The size of messages of a stream, in bytes, from which on no more are read before all replies are sent."""

LONGEST_DETAILS: Final = 1000
"""Bytes of the details of a status, which may be three each on the wire: clients refuse trailers of 8 KiB."""

MOST_IN_A_TURN: Final = 256
"""The number of messages that are handed over together."""


class RpcMethod(Protocol):
    """An RPC of a service: does the client send any number of messages, or one?"""

    @property
    def name(self) -> str: ...

    @property
    def streams_requests(self) -> bool: ...


class RpcCall:
    """A call of an RPC: its requests are handed over as bytes, and its replies are given to it as bytes.

    A call that streams its requests has one reply for each request, in any order, and ends itself when the client has
    ended its requests and has all replies. Other calls have one request and any number of replies, and end by `end`.

    The methods can be called from any thread. After the client has gone, they do nothing.
    """

    __slots__ = (
        "_bytes",
        "_core",
        "_ended",
        "_ending",
        "_finish",
        "_last_read",
        "_lock",
        "_reading",
        "_replies",
        "_sending",
        "_stats",
        "_stopped",
        "_timed",
        "_timed_since",
        "_turns",
        "_unanswered",
        "context",
        "method",
        "on_room",
    )

    def __init__(
        self,
        turns: MessageTurns,
        method: RpcMethod,
        context: grpc.ServicerContext,
        finish: Callable[[None], None],
        stats: MethodStats,
    ) -> None:
        self.method = method
        self.context = context
        self.on_room: Callable[[], None] | None = None
        """Called when all replies are sent, for a handler that hands them over in parts."""
        self._turns = turns
        self._core: Any = context._rpc_event.call
        self._finish = finish
        self._lock = threading.Lock()
        self._replies: deque[bytes] = deque()
        self._unanswered = self._bytes = 0  # requests that were read, but not replied to yet
        self._reading = self._last_read = self._sending = self._ended = self._stopped = False
        self._stats = stats
        self._timed = 0  # replies to be sent until that to the message of a stream which is timed; 0: none is
        self._timed_since = 0.0  # for a call with one request: since it began
        self._ending: tuple[grpc.StatusCode, str] | None = None

    @property
    def ended(self) -> bool:
        """Whether the call has ended, or the client has gone."""
        return self._ended

    def reply(self, messages: Iterable[bytes], *, last: bool = False) -> None:
        """Send messages after those still queued; after the last ones, end the call with OK."""
        with self._lock:
            if not self._ended and self._ending is None:
                self._replies.extend(messages)
                if last:
                    self._ending = (grpc.StatusCode.OK, "")
                if not self._sending:
                    self._send_next()
                    self._end_if_done()

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, details: str = "") -> None:
        """End the call after the replies that are still queued, with a status."""
        with self._lock:
            if not self._ended and self._ending is None:
                shown = details.encode(errors="backslashreplace")[:LONGEST_DETAILS]
                self._ending = (code, shown.decode(errors="ignore"))
                if not self._sending:
                    self._end_if_done()

    def stop(self) -> None:
        """Read no more requests of a stream, and end it with UNAVAILABLE once all read ones are answered."""
        with self._lock:
            if self.method.streams_requests:
                self._stopped = True
                self._end_if_done()

    def _start(self) -> None:
        self.context.send_initial_metadata(())
        if not self.context.add_callback(self._gone):
            self._ended = True
            return
        self._stats.open += 1
        self._timed_since = monotonic()
        self._turns.open.add(self)
        with self._lock:
            self._read()
        if self._turns.stopped:
            self.stop()

    def _gone(self) -> None:
        """Forget the queued messages: nothing may be posted any more, because the server may be shut down next."""
        with self._lock:
            self._ended = True
            self._replies.clear()
            code = grpc.StatusCode.CANCELLED if self._ending is None else self._ending[0]
        self._turns.open.discard(self)
        self._stats.open -= 1
        self._stats.ended[code.name] += 1
        if not self.method.streams_requests:
            self._stats.took(monotonic() - self._timed_since)

    # The lock is held below, except by the tags, `_received` and `_sent`, which the server's thread calls.

    def _read(self) -> None:
        self._reading = True
        self._core.start_server_batch((cygrpc.ReceiveMessageOperation(0),), self._received)

    def _received(self, event: Any) -> tuple[None, tuple[()]]:
        message: bytes | None = event.batch_operations[0].message()
        with self._lock:
            self._reading = False
            if message is None:
                self._last_read = True
                if not self.method.streams_requests and not self._unanswered and self._ending is None:
                    self._ending = (grpc.StatusCode.INVALID_ARGUMENT, "the call has no request")
                self._end_if_done()
                return _NOT_THE_LAST
            if self._stopped:
                return _NOT_THE_LAST
            self._stats.received += 1
            self._unanswered += 1
            self._bytes += len(message)
            if not self._timed and self.method.streams_requests:
                self._timed, self._timed_since = self._unanswered, monotonic()
            if self.method.streams_requests and not self._ended and self._may_read_on(MOST_UNANSWERED):
                self._read()
        self._turns.add(self, message)
        return _NOT_THE_LAST

    def _send_next(self) -> None:
        if not self._replies:
            return
        message = self._replies.popleft()
        self._sending = True
        more = _MORE_FOLLOWS if self._replies else 0
        self._core.start_server_batch((cygrpc.SendMessageOperation(message, more),), self._sent)

    def _sent(self, event: Any) -> tuple[None, tuple[()]]:
        with self._lock:
            self._sending = False
            self._stats.sent += 1
            if self._ended:
                return _NOT_THE_LAST
            if self.method.streams_requests:
                self._unanswered -= 1
                if self._timed:
                    self._timed -= 1
                    if not self._timed:
                        self._stats.took(monotonic() - self._timed_since)
                if not self._unanswered:
                    self._bytes = 0
                if not self._reading and not self._last_read and self._may_read_on(MOST_UNANSWERED // 2):
                    self._read()
            self._send_next()
            drained = not self._sending and not self._end_if_done() and not self.method.streams_requests
        if drained:
            self._turns.add(self, None)
        return _NOT_THE_LAST

    def _may_read_on(self, most: int) -> bool:
        return not self._stopped and self._unanswered < most and self._bytes < MOST_UNANSWERED_BYTES

    def _end_if_done(self) -> bool:
        """Return whether the call has ended."""
        if self._ended or self._sending:
            return self._ended
        if self._ending is None and self.method.streams_requests and self._last_read and not self._unanswered:
            self._ending = (grpc.StatusCode.OK, "")
        if self._ending is None and self._stopped and not self._unanswered:
            self._ending = (grpc.StatusCode.UNAVAILABLE, "the server is being stopped")
        if self._ending is None:
            return False
        self._ended = True
        code, details = self._ending
        self.context.set_code(code)
        self.context.set_details(details)
        self._finish(None)
        return True


class MessageTurns:
    """The messages that arrive on all calls of a server, handed over together, in turns.

    A turn ends when everything that has arrived was read, or after `MOST_IN_A_TURN` messages. Then `hand_over` is given
    its messages, each with its call, in the order of arrival. For a call of one request, None is handed over once all
    replies are sent, unless it is ended: there is room for more. Disregard it if another thread has ended the call.

    `hand_over` is called on the server's thread, and all calls wait for it. If it raises, these end with INTERNAL.
    """

    def __init__(self, hand_over: Callable[[list[Handed]], None]) -> None:
        self.stats: dict[str, MethodStats] = {}
        """By the names of the RPCs that have a handler."""
        self.open: set[RpcCall] = set()
        """The calls in progress; only the server's thread changes it."""
        self.stopped = False
        """Whether streams of requests end, also those that begin now."""
        self._hand_over = hand_over
        self._turn: list[Handed] = []
        self._on_lap = False
        self._size = 0  # of the turn when the lap began

    def handler(self, method: RpcMethod) -> grpc.RpcMethodHandler:
        """Return the handler of an RPC, for a server of gRPC."""
        stats = self.stats[method.name] = MethodStats()

        def start(_: object, context: grpc.ServicerContext, finish: Callable[[None], None]) -> None:
            RpcCall(self, method, context, finish, stats)._start()

        start.experimental_non_blocking = True  # type: ignore[attr-defined]
        start.experimental_thread_pool = _ON_THE_SERVERS_THREAD  # type: ignore[attr-defined]
        return grpc.stream_stream_rpc_method_handler(start)  # on the wire, a single message is a stream of one

    def stop(self) -> None:
        """End all streams of requests once the requests read are answered; in any thread."""
        self.stopped = True
        for call in self.open.copy():
            call.stop()

    def add(self, call: RpcCall, message: bytes | None) -> None:
        """Add a message to the turn; only on the server's thread."""
        self._turn.append((call, message))
        if len(self._turn) >= MOST_IN_A_TURN:
            self._end()
        elif not self._on_lap:
            self._begin_lap(call)

    def _begin_lap(self, call: RpcCall) -> None:
        """Queue an event behind all that have arrived, or end the turn if the call cannot do that any more."""
        with call._lock:
            if not call._ended:
                self._on_lap, self._size = True, len(self._turn)
                call._core.start_server_batch((), self._lap_ends)
                return
        self._end()

    def _lap_ends(self, _: object) -> tuple[None, tuple[()]]:
        self._on_lap = False
        if len(self._turn) > self._size:
            self._begin_lap(self._turn[-1][0])
        else:
            self._end()
        return _NOT_THE_LAST

    def _end(self) -> None:
        turn, self._turn = self._turn, []
        if not turn:
            return
        try:
            self._hand_over(turn)
        except Exception:
            _LOG.exception("a turn of %d messages failed", len(turn))
            for call, _ in turn:
                call.end(grpc.StatusCode.INTERNAL, "the server failed")


class _ServersThread(ThreadPoolExecutor):
    """The thread of grpc.server as a pool: it runs each submitted call at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


_ON_THE_SERVERS_THREAD = _ServersThread(max_workers=1)
