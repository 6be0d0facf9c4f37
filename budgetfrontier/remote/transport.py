"""The transport of the synchronous client: sends messages, some at a time, and repeats lost ones."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, TypeVar

import grpc

from budgetfrontier.core import protocol
from budgetfrontier.errors import FrontierBusy
from budgetfrontier.remote import link
from budgetfrontier.remote.calls import Rpc, Steps, Train
from budgetfrontier.remote.calls_in_progress import ThisThread, UnderWay

_T = TypeVar("_T")


class Transport:
    """Makes calls over the channel of one client, which threads may share; each waits in the thread that makes it."""

    def __init__(self, session: link.Link) -> None:
        self._link = session
        self._thread = ThisThread()
        self._waits = UnderWay()
        """The calls that wait for URIs on the server."""

    def open(self) -> None:
        """Open the channel, unless that was done. It connects with the first call."""
        self._link.open(grpc.secure_channel, grpc.insecure_channel)

    def check(self) -> None:
        """Raise FrontierClosed after `close`, and FrontierBusy in the middle of a call of this thread."""
        self._link.check()
        self._check_thread()

    def _check_thread(self) -> None:
        """Raise FrontierBusy in the middle of a call of this thread, which may hold a lock that gRPC takes again."""
        if self._thread.is_busy:
            raise FrontierBusy

    def interrupt(self) -> None:
        """End the waits of calls for URIs, now and from now on: each gets None for a reply."""
        self._waits.cancel()

    def close(self) -> None:
        """Close the channel. A second call does nothing."""
        if not self._link.is_closed:
            self._check_thread()
            self._link.is_closed = True
            self._link.channel.close()

    def run(self, steps: Steps[_T], under_way: UnderWay | None = None) -> _T:
        """Send the messages that a call of `calls` yields, and return its result. `under_way` may cancel it."""
        self.check()
        under_way = under_way or UnderWay()
        reply: Any = None
        while True:
            try:
                wanted = steps.send(reply)
            except StopIteration as e:
                result: _T = e.value
                return result
            if isinstance(wanted, Train):
                reply = self._send_all(wanted, under_way)
            elif wanted.wait:
                reply = self._wait(wanted)
            else:
                reply = self._send(wanted, under_way)

    def _wait(self, rpc: Rpc) -> Any:
        """Return the reply to a call that waits for URIs; None if `interrupt` has ended that."""
        try:
            return self._send(rpc, self._waits)
        except grpc.FutureCancelledError:
            return None

    def _send(self, rpc: Rpc, under_way: UnderWay) -> Any:
        number = self._link.number(rpc)
        try:
            self._thread.is_busy = True
            return self._tried(rpc, number, under_way)
        finally:
            self._thread.is_busy = False  # at once: a signal handler might raise in the midst of a function
            self._link.abandon(number)

    def _tried(self, rpc: Rpc, number: int, under_way: UnderWay) -> Any:
        """Return the reply to a call, repeated while the connection is lost. Raises ConnectionLost."""
        began, pause = time.monotonic(), link.FIRST_PAUSE
        body = self._link.body(rpc, number)
        while True:
            try:
                return self._link.answered(rpc, number, under_way.result(self._begin(rpc, body)))
            except grpc.RpcError as failure:
                self._link.raise_error(number, failure)
                passed = time.monotonic() - began
                if rpc.method is protocol.CONNECT:
                    self._link.connecting.check(failure)
                if passed >= self._link.retry_for:
                    raise self._link.lost(rpc, failure, passed) from None
                self._link.connecting.waiting(failure, self._link.retry_for - passed)
            time.sleep(min(pause, max(0.0, self._link.retry_for - passed)))
            under_way.check()
            pause = min(2 * pause, link.LONGEST_PAUSE)

    def _begin(self, rpc: Rpc, body: bytes) -> Any:
        """Send a call; return the future of its reply. Raises FrontierClosed."""
        self._link.check()
        return self._link.stubs[rpc.method].future(
            body, timeout=self._link.timeout_of(rpc), metadata=self._link.metadata
        )

    def _send_all(self, train: Train, under_way: UnderWay) -> list[Any]:
        """Send calls, some at a time, in order; return their replies."""
        replies: list[Any] = []
        sent: deque[tuple[Rpc, int, Any]] = deque()
        before = 0
        try:
            for rpc in train.calls:  # whose URIs may come from a generator that calls this client
                number = self._link.number(rpc)
                self._thread.is_busy = True
                sent.append((rpc, number, self._begin(rpc, self._link.body(rpc, number, before))))
                before = number
                if len(sent) == link.IN_FLIGHT:
                    replies.append(self._awaited(*sent[0], under_way))
                    sent.popleft()
                self._thread.is_busy = False
            self._thread.is_busy = True
            while sent:
                replies.append(self._awaited(*sent[0], under_way))
                sent.popleft()
        finally:
            try:
                self._thread.is_busy = True
                for _, number, begun in sent:
                    begun.cancel()
                    self._link.abandon(number)
            finally:
                self._thread.is_busy = False
        return replies

    def _awaited(self, rpc: Rpc, number: int, begun: Any, under_way: UnderWay) -> Any:
        """Return the reply to a call that was sent, repeated if the connection is lost."""
        try:
            return self._link.answered(rpc, number, under_way.result(begun))
        except grpc.RpcError as failure:
            self._link.raise_error(number, failure)
            self._link.connecting.waiting(failure, self._link.retry_for)
        return self._tried(rpc, number, under_way)
