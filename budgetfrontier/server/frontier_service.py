"""The RPCs of our own protocol: each decodes a call, lets the thread of its crawl do it, and encodes the reply."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import grpc
import msgspec

from budgetfrontier.core import protocol
from budgetfrontier.core.model import Lease
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError
from budgetfrontier.server import frontier_calls, tasks
from budgetfrontier.server.frontier_calls import DecodedCall
from budgetfrontier.server.long_poll import LongPoll
from budgetfrontier.server.rpc_calls import Handed, RpcCall
from budgetfrontier.server.server import HandOver, Offered
from budgetfrontier.server.sessions import PendingReply, Sessions
from budgetfrontier.server.status import status_of
from budgetfrontier.server.tasks import CallbackStep
from budgetfrontier.server.timers import Timers

LOOK_AGAIN = 0.5
"""Seconds after which a client that waits for URIs looks for changes by others than clients."""

_NOW = protocol.encode(0.0)
_decode_call: Callable[[bytes], protocol.Call] = protocol.decoder(protocol.Call)
_decode_leases: Callable[[bytes], list[Lease]] = protocol.decoder(protocol.LEASE.reply)
_decode_exchanged: Callable[[bytes], protocol.Exchanged] = protocol.decoder(protocol.EXCHANGE.reply)

MOST_LINES = 1000
"""Crawls with lines of clients that are kept although nobody waits."""

log = logging.getLogger("budgetfrontier.service")


class CrawlBackend(Protocol):
    """A crawl as this needs it: that of a frontier in this process, or of partitions."""

    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> Path: ...

    def run(self, work: DecodedCall, *, changes: bool = True) -> CallbackStep[Any]:
        """Return a step with the result of the work."""


class CrawlBackends(Protocol):
    """The crawls of a server."""

    @property
    def stopping(self) -> threading.Event: ...
    @property
    def active(self) -> bool:
        """Whether URIs are leased: SetActive of URLFrontier."""

    def get(self, crawl_id: str, /) -> CrawlBackend:
        """Return a crawl, created if need be."""


class FrontierService:
    """The RPCs: a coroutine for each call."""

    def __init__(self, crawls: CrawlBackends) -> None:
        self._crawls = crawls
        self._sessions = Sessions()
        self._timers = Timers()
        self._waiting: dict[str, LongPoll] = {}
        self._lock = threading.Lock()
        self._decoders = {method.name: frontier_calls.decode(method) for method in protocol.METHODS}

    def hand_over(self, turn: list[Handed]) -> None:
        """Take the calls that have arrived."""
        for call, body in turn:
            if body is not None:
                tasks.run(self._answer(call, body), partial(_end, call))

    async def _answer(self, call: RpcCall, body: bytes) -> bytes:
        name = call.method.name
        try:
            asked = _decode_call(body)
            arguments = self._decoders[name](asked.arguments)
        except (msgspec.DecodeError, UnicodeDecodeError) as e:
            raise ValueError(f"{name}: {e}") from e
        if name == protocol.LEASE.name:
            return await self._lease(call, asked, arguments)
        if name == protocol.LEAVE.name:
            return await self._leave(asked, arguments)
        if name == protocol.CONNECT.name:
            return await self._connect(asked, arguments)
        if name == protocol.LOOK.name:
            return await self._look(asked.crawl, arguments)
        return await self._remembered(asked, lambda: self._change(asked.crawl, name, arguments))

    # -- calls

    async def _change(self, crawl_id: str, name: str, arguments: Any) -> bytes:
        crawl = self._crawls.get(crawl_id)
        if name == protocol.EXCHANGE.name and not self._crawls.active:
            arguments.wanted.count = 0
        reply = await self._do(crawl, name, arguments)
        self._let_look(crawl)
        return reply

    async def _look(self, crawl_id: str, asked: protocol.MethodCall) -> bytes:
        reply = await self._do(self._crawls.get(crawl_id), protocol.LOOK.name, asked, changes=False)
        if asked.name == "next_ready_in" and reply == _NOW and not self._crawls.active:
            return protocol.encode(LOOK_AGAIN)  # as of a crawl that is paused
        return reply

    async def _do(self, crawl: CrawlBackend, name: str, arguments: Any, *, changes: bool = True) -> bytes:
        work = DecodedCall(name, arguments, _encoded(frontier_calls.CALLS[name]))
        reply: bytes = await crawl.run(work, changes=changes)
        return reply

    async def _connect(self, asked: protocol.Call, arguments: protocol.Connect) -> bytes:
        crawl = self._crawls.get(asked.crawl)

        def connect(frontier: Frontier, given: protocol.Connect) -> protocol.Connected:
            return frontier_calls.connected(given, folder=str(crawl.folder), settings=frontier.settings)

        reply: bytes = await crawl.run(DecodedCall(protocol.CONNECT.name, arguments, _encoded(connect)))
        return reply

    async def _lease(self, call: RpcCall, asked: protocol.Call, wanted: protocol.Wanted) -> bytes:
        end = monotonic() + min(wanted.wait, protocol.LONGEST_WAIT)
        reply, ready_in = await self._lease_now(asked, wanted)
        if ready_in == 0.0 or wanted.wait <= 0.0:
            return reply
        waiting = self._waiting_of(self._crawls.get(asked.crawl))
        if not await waiting.enter(end):
            return reply
        try:
            while True:
                changes = waiting.changes
                if call.ended:  # nobody would take them
                    return reply
                reply, ready_in = await self._lease_now(asked, wanted)
                left = end - monotonic()
                if ready_in == 0.0 or left <= 0.0 or self._crawls.stopping.is_set():
                    return reply
                await waiting.sleep(min(left, LOOK_AGAIN if ready_in is None else min(ready_in, LOOK_AGAIN)), changes)
        finally:
            waiting.leave()

    async def _lease_now(self, asked: protocol.Call, wanted: protocol.Wanted) -> tuple[bytes, float | None]:
        """Lease the URIs available now; return the reply, and the seconds until there are some if it is empty."""
        ready_in: float | None = 0.0

        async def do() -> bytes:
            nonlocal ready_in
            if not self._crawls.active:
                ready_in = None
                return protocol.encode([])
            found: tuple[bytes, float | None]
            found = await self._crawls.get(asked.crawl).run(
                DecodedCall(protocol.LEASE.name, wanted, frontier_calls.lease)
            )
            ready_in = found[1]
            return found[0]

        reply = await self._remembered(asked, do)
        if ready_in != 0.0:
            self._sessions.get(asked.crawl, asked.session).forget([asked.number])
        return reply, ready_in

    async def _leave(self, asked: protocol.Call, leases: list[int]) -> bytes:
        session = self._sessions.get(asked.crawl, asked.session)
        session.forget(asked.received)
        await self._give_back(asked.crawl, [*leases, *await _leased(session.leave())])
        return protocol.encode(None)

    # -- their parts

    async def _remembered(self, asked: protocol.Call, work: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        """Do the work of a call unless it was done before; return its reply."""
        if not asked.number:
            return await work()
        session = self._sessions.get(asked.crawl, asked.session)
        session.forget(asked.received)
        if asked.abandoned:
            await self._give_back(asked.crawl, await _leased(session.taken(asked.abandoned)))
        return await session.reply(asked.number, asked.after, work)

    async def _give_back(self, crawl_id: str, leases: list[int]) -> None:
        if leases:
            await self._change(crawl_id, protocol.GIVE_BACK.name, leases)

    def close(self) -> None:
        """End deferred work: no client waits any more."""
        self._timers.close()

    def changed(self, crawl_id: str) -> None:
        """Let clients look again that wait for URIs of a crawl."""
        self._let_look(self._crawls.get(crawl_id))

    def _let_look(self, crawl: CrawlBackend) -> None:
        waiting = self._waiting.get(crawl.name)
        if waiting is not None:  # otherwise nobody has waited
            waiting.changed()

    def _waiting_of(self, crawl: CrawlBackend) -> LongPoll:
        """Return the line of the clients that wait for a crawl; of too many, drop those without a client."""
        with self._lock:
            if crawl.name not in self._waiting:
                if len(self._waiting) >= MOST_LINES:
                    self._waiting = {name: each for name, each in self._waiting.items() if each.is_used}
                self._waiting[crawl.name] = LongPoll(self._timers)
            return self._waiting[crawl.name]


@contextmanager
def _hand_over(crawls: CrawlBackends, address: str) -> Iterator[HandOver]:
    with closing(FrontierService(crawls)) as service:
        yield service.hand_over


FRONTIER = Offered(protocol.SERVICE, tuple(protocol.METHODS), _hand_over)
"""The service as a server offers it."""


def _encoded(work: Callable[[Frontier, Any], Any]) -> Callable[[Frontier, Any], bytes]:
    """Return work with its result encoded in the thread of the crawl, before other calls change it."""
    return lambda frontier, arguments: protocol.encode(work(frontier, arguments))


async def _leased(replies: Iterable[PendingReply]) -> list[int]:
    found: list[int] = []
    for reply in replies:
        with suppress(Exception):  # a failed call has no leases
            encoded: bytes = await CallbackStep(reply.wait)
            found += [lease.id for lease in _leases_in(encoded)]
    return found


def _leases_in(reply: bytes) -> list[Lease]:
    with suppress(msgspec.DecodeError):
        return _decode_leases(reply)
    with suppress(msgspec.DecodeError):
        return _decode_exchanged(reply).leases
    return []  # the reply to another method


def _end(call: RpcCall, reply: bytes | None, error: BaseException | None) -> None:
    """Send the reply to a call, or the error that has ended it."""
    if error is None:
        call.reply([b"" if reply is None else reply])
        call.end()
        return
    name = next((each.__name__ for each in type(error).__mro__ if protocol.ERRORS.get(each.__name__) is each), None)
    if name is None:
        log.error("%s failed", call.method.name, exc_info=error)
    status = grpc.StatusCode.INVALID_ARGUMENT if name in ("ValueError", "TypeError") else status_of(error)
    call.context.set_trailing_metadata(((protocol.ERROR, name or FrontierError.__name__),))
    call.end(status, str(error) if name else f"{type(error).__name__}: {error}")
