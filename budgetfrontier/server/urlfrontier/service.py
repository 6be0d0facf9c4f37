"""The RPCs of URLFrontier: messages in, work for the threads of crawls, replies out.

PutURLs is handled by the turn: all items that have arrived for a crawl are one piece of work. The other RPCs are
coroutines, one for each call (`budgetfrontier.server.tasks`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from budgetfrontier.errors import FrontierError
from budgetfrontier.server import crawls, tasks
from budgetfrontier.server.crawl_thread import CrawlThread
from budgetfrontier.server.crawls import Crawls, InvalidCrawlId
from budgetfrontier.server.rpc_calls import Handed, RpcCall
from budgetfrontier.server.server import HandOver, Offered
from budgetfrontier.server.status import status_of
from budgetfrontier.server.tasks import CallbackStep
from budgetfrontier.server.urlfrontier import engine_calls, put_items
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as messages
from budgetfrontier.server.urlfrontier.discovered_batches import DiscoveredBatches
from budgetfrontier.server.urlfrontier.log_once import FailureLog
from budgetfrontier.server.urlfrontier.methods import METHODS, SERVICE

STEP = 1000
"""URLs or queues that a list, a count or a deletion looks at, or GetURLs hands out, in one call to a crawl."""
PAGE = 100
"""Items that a list has if its size is not given."""
_ANY = 1 << 30

_Item = tuple[RpcCall, str, Any]
"""An item of PutURLs: its call, the ID with which it is acknowledged, and the item as `put_items.read` returns it."""

_LEVELS = {"TRACE": logging.DEBUG, "WARN": logging.WARNING}

log = logging.getLogger("budgetfrontier.urlfrontier")


class StatusError(Exception):
    """A call ends with a status of gRPC."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class UrlFrontierService:
    """The RPCs, by their names: a coroutine each, but for PutURLs."""

    def __init__(self, crawls: Crawls, address: str) -> None:
        self._crawls = crawls
        self._address = address
        self._first = 0
        self._batches = DiscoveredBatches(self._discovered)
        self._failure_log = FailureLog()

    def hand_over(self, turn: list[Handed]) -> None:
        """Take the messages that have arrived on all calls."""
        puts: dict[str, list[_Item]] = {}
        for call, data in turn:
            if data is None:
                if call.on_room is not None:
                    call.on_room()
                continue
            try:
                if call.method.name == "PutURLs":
                    crawl_id, item_id, item = put_items.read(data)
                    puts.setdefault(crawl_id, []).append((call, item_id, item))
                    continue
                request: Any = METHODS[call.method.name].request.FromString(data)
            except DecodeError:
                kind = METHODS[call.method.name].request.DESCRIPTOR.name
                call.end(grpc.StatusCode.INVALID_ARGUMENT, f"this is no {kind}")
                continue
            handler = getattr(self, call.method.name)
            tasks.run(handler(request, call), partial(_end, call))
        for crawl_id, items in puts.items():
            done = partial(self._put, crawl_id, items)
            lost = partial(self._failure_log.lost, crawl_id)
            work = partial(engine_calls.put, items=[item for _, _, item in items], lost=lost)
            try:
                self._to_fill(crawl_id).submit(work, done)
            except (FrontierError, OSError) as e:
                done(None, e)

    # -- URLs in

    def _to_fill(self, crawl_id: str) -> CrawlThread:
        """Return a crawl for URLs, created if need be. Raises as `Crawls.get` does, and UrlsNotKept."""
        if not self._crawls.new_keep_urls and self._crawls.find(crawl_id) is None:
            raise engine_calls.UrlsNotKept  # a crawl that is created would be of no use
        return self._crawls.get(crawl_id)

    def _put(self, crawl_id: str, items: list[_Item], statuses: list[int] | None, error: BaseException | None) -> None:
        try:
            if statuses is None:
                statuses = self._refused(crawl_id, len(items), error)
            else:
                self._failure_log.all_right(crawl_id)
            _acknowledge(items, statuses)
        except BaseException as e:
            for call in {call for call, _, _ in items}:
                call.end(status_of(e), str(e))

    def _refused(self, crawl_id: str, count: int, error: BaseException | None) -> list[int]:
        """Return the status of a crawl's items that an error has refused: items of other crawls are put.

        Raises the error if it ends the calls: a full disk, the end of the server, a crawl without kept URLs, or a bug.
        """
        error = error or FrontierError()
        full = status_of(error) is grpc.StatusCode.RESOURCE_EXHAUSTED
        ends_calls = full or isinstance(error, engine_calls.UrlsNotKept)
        if ends_calls or self._crawls.stopping.is_set() or not isinstance(error, FrontierError | OSError):
            raise error
        if isinstance(error, InvalidCrawlId):
            self._failure_log.no_crawl(crawl_id, error)
            return [engine_calls.SKIPPED] * count  # to send them again would not help
        self._failure_log.failed(crawl_id, "its URLs are answered with FAIL", error)
        return [engine_calls.FAIL] * count

    async def PutDiscovered(self, batch: Any, call: RpcCall) -> None:
        """Schedule a batch of URLs that were found; answer with their statuses."""
        await self._batches.take(batch, call)

    async def _discovered(self, crawl_id: str, infos: Sequence[Any]) -> list[int]:
        work = partial(engine_calls.discovered, infos=infos, lost=partial(self._failure_log.lost, crawl_id))
        try:
            statuses: list[int] = await self._to_fill(crawl_id).run(work)
        except BaseException as e:
            return self._refused(crawl_id, len(infos), e)
        return statuses

    # -- URLs out

    async def GetURLs(self, request: Any, call: RpcCall) -> None:
        """Lease URLs of a crawl, or of any."""
        if not self._crawls.active:
            return
        of_any = request.WhichOneof("item") != "crawlID"
        if not of_any:
            found = self._crawls.find(request.crawlID)
            chosen = [] if found is None else [found]
        else:
            chosen = [] if request.key else self._crawls.all()  # a key needs a crawlID
            self._first += 1
            start = self._first % max(len(chosen), 1)
            chosen = chosen[start:] + chosen[:start]
        infos: list[bytes]
        left = request.max_queues or _ANY
        for crawl in chosen:
            full, queues = not (of_any and crawl.is_resting), 0
            while full and left > 0 and not call.ended:
                work = partial(engine_calls.lease, crawl_id=crawl.name, request=request, queues=left, limit=STEP)
                try:
                    infos, queues = await crawl.run(work, uses=not of_any, soon=True)
                except FrontierError as e:
                    if not of_any:
                        raise
                    self._failure_log.failed(crawl.name, "GetURLs leaves it out", e)  # the others are served
                    break
                left -= queues
                if infos:
                    crawl.use()
                room = _Room(call)
                call.reply(infos)
                full = len(infos) >= STEP
                if full:
                    await room.step()

    # -- looking

    async def GetStats(self, request: Any, call: RpcCall) -> Any:
        """Count the URLs of a crawl, or of one of its queues."""
        crawl = self._crawls.find(request.crawlID)
        name = request.crawlID or crawls.DEFAULT
        if crawl is None:
            return engine_calls.stats(None, name, "")
        return await crawl.run(partial(engine_calls.stats, crawl_id=name, key=request.key), changes=False)

    async def GetURLStatus(self, request: Any, call: RpcCall) -> Any:
        """Return the state of a URL."""
        if not request.url:
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, "a URL is needed")
        crawl = self._crawls.find(request.crawlID)
        found = None
        if crawl is not None:
            work = partial(engine_calls.status, crawl_id=crawl.name, request=request)
            found = await crawl.run(work, changes=False)
        if found is None:
            raise StatusError(grpc.StatusCode.NOT_FOUND, f"the URL is not known: {request.url}")
        return found

    async def ListURLs(self, request: Any, call: RpcCall) -> None:
        """List the URLs of a crawl, of a queue, or with a text."""
        crawl = self._crawls.find(request.crawlID)
        skip, left = request.start, request.size or PAGE
        async for found in _pages(crawl, partial(engine_calls.page, wanted=_wanted(request)), call):
            shown = found[skip : skip + left]
            skip, left = max(skip - len(found), 0), left - len(shown)
            if shown and crawl is not None:
                items = await crawl.run(partial(engine_calls.items, crawl_id=crawl.name, found=shown), changes=False)
                room = _Room(call)
                call.reply(items)
                await room.step()
            if not left:
                return

    async def CountURLs(self, request: Any, call: RpcCall) -> Any:
        """Count the URLs that ListURLs would list."""
        crawl = self._crawls.find(request.crawlID)
        count = 0
        async for found in _pages(crawl, partial(engine_calls.page, wanted=_wanted(request)), call):
            count += len(found)
        return messages.Long(value=count)

    async def ListQueues(self, request: Any, call: RpcCall) -> Any:
        """List the keys of the queues of a crawl that have URLs to hand out, or of all."""
        crawl = self._crawls.find(request.crawlID)
        skip, left = request.start, request.size or PAGE
        reply = messages.QueueList(start=skip, size=left, crawlID=request.crawlID or crawls.DEFAULT)
        async for keys in _pages(crawl, partial(engine_calls.queue_page, inactive=request.include_inactive), call):
            shown = keys[skip : skip + left]
            skip, left = max(skip - len(keys), 0), left - len(shown)
            reply.values.extend(shown)
            if not left:
                break
        if crawl is not None:
            total = partial(engine_calls.queue_count, inactive=request.include_inactive)
            reply.total = await crawl.run(total, changes=False)
        return reply

    async def ListCrawls(self, request: Any, call: RpcCall) -> Any:
        """List the crawlIDs."""
        self._crawls.check_folder()
        return messages.StringList(values=self._crawls.names())

    async def ListNodes(self, request: Any, call: RpcCall) -> Any:
        """List this server alone."""
        return messages.StringList(values=[self._address])

    async def GetActive(self, request: Any, call: RpcCall) -> Any:
        """Return whether URLs are handed out."""
        return messages.Boolean(state=self._crawls.active)

    # -- steering

    async def SetActive(self, request: Any, call: RpcCall) -> Any:
        """Hand URLs out, or none until further notice."""
        self._crawls.set_node(active=request.state)
        return messages.Empty()

    async def BlockQueueUntil(self, request: Any, call: RpcCall) -> Any:
        """Block a queue until a time; 0 unblocks it."""
        crawl = self._crawls.find(request.crawlID)
        if crawl is not None:
            await crawl.run(partial(engine_calls.block, key=request.key, until=float(request.time)))
        return messages.Empty()

    async def SetDelay(self, request: Any, call: RpcCall) -> Any:
        """Set the time between two serves of a queue; without a key, of all that have none of their own."""
        delay = float(request.delay_requestable)
        if not request.key:
            await self._crawls.set_delay(delay)
        elif (found := self._crawls.find(request.crawlID)) is not None:
            await found.run(partial(engine_calls.set_delay, key=request.key, delay=delay))
        return messages.Empty()

    async def SetCrawlLimit(self, request: Any, call: RpcCall) -> Any:
        """Limit the completed URLs of a queue; 0 removes the limit."""
        crawl = self._crawls.find(request.crawlID)
        work = partial(engine_calls.set_limit, key=request.key, limit=request.limit)
        if crawl is None or not await crawl.run(work):
            raise StatusError(grpc.StatusCode.UNKNOWN, f"there is no queue {request.key!r}")
        return messages.Empty()

    async def SetLogLevel(self, request: Any, call: RpcCall) -> Any:
        """Set the level of a logger."""
        if request.level not in messages.LogLevelParams.Level.values():
            raise StatusError(grpc.StatusCode.INVALID_ARGUMENT, f"there is no level {request.level}")
        name = messages.LogLevelParams.Level.Name(request.level)
        logging.getLogger(request.package or None).setLevel(_LEVELS.get(name) or logging.getLevelName(name))
        return messages.Empty()

    # -- deletion

    async def DeleteQueue(self, request: Any, call: RpcCall) -> Any:
        """Forget all URLs and values of a queue; return the number of URLs."""
        crawl = self._crawls.find(request.crawlID) if request.key else None
        if crawl is None:
            return messages.Long(value=0)
        count = await _forget(crawl, request.key, None)
        await crawl.run(partial(engine_calls.reset, key=request.key))
        return messages.Long(value=count)

    async def PurgeURLs(self, request: Any, call: RpcCall) -> Any:
        """Forget the URLs of a crawl, or of a queue, that became known so many days ago or earlier."""
        crawl = self._crawls.find(request.crawlID)
        before = int(time.time()) - request.days * 86_400 + 1
        return messages.Long(value=0 if crawl is None else await _forget(crawl, request.key or None, before))

    async def DeleteCrawl(self, request: Any, call: RpcCall) -> Any:
        """Delete a crawl; return the number of its URLs."""
        return messages.Long(value=await self._crawls.delete(request.value))


def _hand_over(crawls: Crawls, address: str) -> AbstractContextManager[HandOver]:
    return nullcontext(UrlFrontierService(crawls, address).hand_over)


URLFRONTIER = Offered(SERVICE, tuple(METHODS.values()), _hand_over)
"""The service as a server offers it."""


# -- the parts of handlers


def _acknowledge(items: list[_Item], statuses: list[int]) -> None:
    acks: dict[RpcCall, list[bytes]] = {}
    ack = messages.AckMessage()  # one for all: to make it costs more than to encode it
    for (call, item_id, _), status in zip(items, statuses, strict=True):
        ack.ID = item_id
        ack.status = status  # type: ignore[assignment]
        acks.setdefault(call, []).append(ack.SerializeToString())
    for call, replies in acks.items():
        call.reply(replies)


def _end(call: RpcCall, reply: Message | None, error: BaseException | None) -> None:
    """Send the reply of a handler, and end its call, unless it goes on to take requests."""
    if error is not None:
        status = error.code if isinstance(error, StatusError) else status_of(error)
        if status is grpc.StatusCode.INTERNAL:
            log.error("%s failed", call.method.name, exc_info=error)
        call.end(status, str(error))
        return
    if reply is not None:
        call.reply([reply.SerializeToString()])
    if not call.method.streams_requests:
        call.end()


class _Room:
    """A step that ends when all replies of a call are sent that are given to it next; never, if the client has gone."""

    def __init__(self, call: RpcCall) -> None:
        self._lock = threading.Lock()
        self._done: tasks.Done | None = None
        self._made = False
        call.on_room = self._make

    def _make(self) -> None:
        with self._lock:
            self._made, done = True, self._done
        if done is not None:
            done(None, None)

    def step(self) -> CallbackStep[None]:
        return CallbackStep(self._start)

    def _start(self, done: tasks.Done) -> None:
        with self._lock:
            self._done = done
            made = self._made
        if made:
            done(None, None)


def _wanted(request: Any) -> engine_calls.UrlFilter:
    text = request.filter.lower() if request.ignoreCase else request.filter
    return engine_calls.UrlFilter(request.key, text, request.ignoreCase)


async def _pages(
    crawl: CrawlThread | None, work: Callable[..., Any], call: RpcCall | None = None, *, changes: bool = False
) -> AsyncIterator[Any]:
    """Yield the results of `work` for each page of a crawl, between other calls, until a client has gone.

    `work(frontier, after=..., limit=...)` also returns where the next page begins, None after the last.
    """
    after: Any = b""
    while crawl is not None and after is not None and not (call is not None and call.ended):
        found, after = await crawl.run(partial(work, after=after, limit=STEP), changes=changes)
        yield found


async def _forget(crawl: CrawlThread, key: str | None, before: int | None) -> int:
    work = partial(engine_calls.forget, key=key, before=before)
    count = 0
    async for forgotten in _pages(crawl, work, changes=True):
        count += forgotten
    return count
