"""The RPCs of URLFrontier: each handler takes messages, lets the thread of a crawl do the work, and sends replies."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import grpc

from budgetfrontier.errors import FrontierError, FrontierLocked, StorageFull
from budgetfrontier.service import crawls
from budgetfrontier.service.crawl_thread import CrawlThread
from budgetfrontier.service.crawls import Crawls
from budgetfrontier.urlfrontier import engine_calls as calls
from budgetfrontier.urlfrontier import urlfrontier_pb2 as messages
from budgetfrontier.urlfrontier.methods import METHODS, SERVICE

Context: TypeAlias = Any  # grpc.aio.ServicerContext, which has no types

MOST_UNANSWERED = 1000
"""Items of a stream that may wait for their acknowledgements: then no more is read from it."""
STEP = 1000
"""URLs or queues that a list, a count or a deletion looks at in one call to a crawl."""
PAGE = 100
"""Items that a list has if its size is not given."""

_LEVELS = {"TRACE": logging.DEBUG, "WARN": logging.WARNING}

log = logging.getLogger("budgetfrontier.urlfrontier")


class Service:
    """The handlers of all RPCs, by their names. `address` is what ListNodes says."""

    def __init__(self, crawls: Crawls, address: str) -> None:
        self._crawls = crawls
        self._address = address
        self._turn = 0

    def __repr__(self) -> str:
        return f"<Service of {self._crawls!r} at {self._address}>"

    # -- URLs in

    async def PutURLs(self, _: Any, context: Context) -> None:
        """Take URLItems; acknowledge each once it is on disk."""
        await _stream(context, self._put, lambda item: [item], _acks)

    async def PutDiscovered(self, _: Any, context: Context) -> None:
        """Take batches of URLs that were found; answer each with its statuses."""
        await _stream(context, self._put_batches, lambda batch: batch.items, _batch_acks)

    async def _put(self, items: list[Any]) -> list[int]:
        return await self._by_crawl(items, lambda item: _info(item).crawlID, calls.put)

    async def _put_batches(self, batches: list[Any]) -> list[list[int]]:
        infos = [info for batch in batches for info in batch.items]
        statuses = iter(await self._by_crawl(infos, lambda info: info.crawlID, calls.discovered))
        return [[next(statuses) for _ in batch.items] for batch in batches]

    async def _by_crawl(
        self, items: list[Any], crawl_of: Callable[[Any], str], work: Callable[[Any, list[Any]], list[int]]
    ) -> list[int]:
        """Let each crawl do its part of the work; return the statuses in the order of the items."""
        places: dict[str, list[int]] = {}
        for number, item in enumerate(items):
            places.setdefault(crawl_of(item), []).append(number)
        statuses = [calls.FAIL] * len(items)
        for crawl_id, numbers in places.items():
            part = items if len(places) == 1 else [items[number] for number in numbers]
            crawl = await self._crawls.get(crawl_id)
            for number, status in zip(numbers, await crawl.run(partial(_with, work, part)), strict=True):
                statuses[number] = status
        return statuses

    # -- URLs out

    async def GetURLs(self, request: Any, context: Context) -> AsyncIterator[bytes]:
        """Lease URLs of a crawl, or of any."""
        if not self._crawls.node.active:
            return
        if request.WhichOneof("item") == "crawlID":
            found = await self._crawls.find(request.crawlID)
            chosen = [] if found is None else [found]
        elif request.key:
            chosen = []  # a key needs a crawlID
        else:
            chosen = await self._crawls.all()
            if chosen:
                self._turn = (self._turn + 1) % len(chosen)
                chosen = chosen[self._turn :] + chosen[: self._turn]
        left = request.max_queues
        for crawl in chosen:
            infos, queues = await crawl.run(partial(_lease, name=crawl.name, request=request, queues=left))
            for info in infos:
                yield info
            if request.max_queues:
                left -= queues
                if left <= 0:
                    return

    # -- looking

    async def GetStats(self, request: Any, context: Context) -> Any:
        """Count the URLs of a crawl, or of one of its queues."""
        crawl = await self._crawls.find(request.crawlID)
        name = request.crawlID or crawls.DEFAULT
        if crawl is None:
            return calls.stats(None, name, "")
        return await crawl.run(partial(calls.stats, crawl_id=name, key=request.key), changes=False)

    async def GetURLStatus(self, request: Any, context: Context) -> Any:
        """Return what is known of a URL."""
        if not request.url:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "a URL is needed")
        crawl = await self._crawls.find(request.crawlID)
        found = None
        if crawl is not None:
            found = await crawl.run(partial(calls.status, crawl_id=crawl.name, request=request), changes=False)
        if found is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"the URL is not known: {request.url}")
        return found

    async def ListURLs(self, request: Any, context: Context) -> AsyncIterator[bytes]:
        """List the URLs of a crawl, those of a queue, or those that contain a text."""
        crawl = await self._crawls.find(request.crawlID)
        if crawl is None:
            return
        left, skip = request.size or PAGE, request.start
        async for found in _kept(crawl, request):
            if skip:
                skip -= 1
                continue
            shown = await crawl.run(lambda frontier, url=found.url: frontier.find_url(url), changes=False)  # type: ignore[misc]
            if shown is not None:
                yield calls.item(shown, crawl.name).SerializeToString()
            left -= 1
            if not left:
                return

    async def CountURLs(self, request: Any, context: Context) -> Any:
        """Count the URLs that `ListURLs` would list."""
        crawl = await self._crawls.find(request.crawlID)
        count = 0
        if crawl is not None:
            async for _ in _kept(crawl, request):
                count += 1
        return messages.Long(value=count)

    async def ListQueues(self, request: Any, context: Context) -> Any:
        """List the keys of the queues of a crawl that have URLs to hand out, or of all."""
        crawl = await self._crawls.find(request.crawlID)
        size = request.size or PAGE
        reply = messages.QueueList(start=request.start, size=size, crawlID=request.crawlID or crawls.DEFAULT)
        skip, after = request.start, ""
        while crawl is not None and len(reply.values) < size:
            page = partial(calls.queue_page, after=after, limit=STEP, inactive=request.include_inactive)
            keys, last = await crawl.run(page, changes=False)
            reply.values.extend(keys[skip : skip + size - len(reply.values)])
            skip = max(skip - len(keys), 0)
            if last is None:
                break
            after = last
        return reply

    async def ListCrawls(self, request: Any, context: Context) -> Any:
        """List the crawlIDs."""
        return messages.StringList(values=self._crawls.names())

    async def ListNodes(self, request: Any, context: Context) -> Any:
        """List this server alone."""
        return messages.StringList(values=[self._address])

    async def GetActive(self, request: Any, context: Context) -> Any:
        """Tell whether URLs are handed out."""
        return messages.Boolean(state=self._crawls.node.active)

    # -- steering

    async def SetActive(self, request: Any, context: Context) -> Any:
        """Hand URLs out, or none until further notice."""
        self._crawls.node.active = request.state
        self._crawls.save_node()
        return messages.Empty()

    async def BlockQueueUntil(self, request: Any, context: Context) -> Any:
        """Block a queue until a time; 0 unblocks it."""
        crawl = await self._crawls.find(request.crawlID)
        if crawl is not None:
            await crawl.run(partial(calls.block, key=request.key, until=float(request.time)))
        return messages.Empty()

    async def SetDelay(self, request: Any, context: Context) -> Any:
        """Set the time between two serves of a queue; without a key, of all that have none of their own."""
        delay = float(request.delay_requestable)
        if not request.key:
            self._crawls.node.delay = delay
            self._crawls.save_node()
            for crawl in await self._crawls.all():
                await crawl.run(partial(crawls.set_default_delay, delay=delay))
        elif (found := await self._crawls.find(request.crawlID)) is not None:
            await found.run(lambda frontier: frontier.set_queue(request.key, interval=delay, who=calls.WHO))
        return messages.Empty()

    async def SetCrawlLimit(self, request: Any, context: Context) -> Any:
        """Limit the completed URLs of a queue; 0 removes the limit."""
        crawl = await self._crawls.find(request.crawlID)
        if crawl is None:
            await context.abort(grpc.StatusCode.UNKNOWN, f"there is no crawl {request.crawlID or crawls.DEFAULT!r}")
            raise AssertionError  # `abort` raises
        try:
            await crawl.run(partial(calls.set_limit, key=request.key, limit=request.limit))
        except FrontierError as e:
            await context.abort(grpc.StatusCode.UNKNOWN, str(e))
        return messages.Empty()

    async def SetLogLevel(self, request: Any, context: Context) -> Any:
        """Set the level of a logger."""
        name = messages.LogLevelParams.Level.Name(request.level)
        level = _LEVELS.get(name) or logging.getLevelName(name)
        logging.getLogger(request.package or None).setLevel(level)
        return messages.Empty()

    # -- deletion

    async def DeleteQueue(self, request: Any, context: Context) -> Any:
        """Forget all URLs of a queue; return their number."""
        crawl = await self._crawls.find(request.crawlID)
        if crawl is None or not request.key:
            return messages.Long(value=0)
        return messages.Long(value=await _forget(crawl, request.key, None))

    async def PurgeURLs(self, request: Any, context: Context) -> Any:
        """Forget the URLs of a crawl, or of a queue, that became known so many days ago or earlier."""
        crawl = await self._crawls.find(request.crawlID)
        if crawl is None:
            return messages.Long(value=0)
        before = int(time.time()) - request.days * 86_400 + 1
        return messages.Long(value=await _forget(crawl, request.key or None, before))

    async def DeleteCrawl(self, request: Any, context: Context) -> Any:
        """Delete a crawl; return the number of its URLs."""
        return messages.Long(value=await self._crawls.delete(request.value))


# -- the parts of handlers


def _info(item: Any) -> Any:
    return item.known.info if item.WhichOneof("item") == "known" else item.discovered.info


def _with(work: Callable[[Any, list[Any]], list[int]], part: list[Any], frontier: Any) -> list[int]:
    return work(frontier, part)


def _lease(frontier: Any, *, name: str, request: Any, queues: int) -> tuple[list[bytes], int]:
    limited = messages.GetParams()
    limited.CopyFrom(request)
    limited.max_queues = queues
    found = calls.lease(frontier, name, limited)
    served = len({messages.URLInfo.FromString(info).key for info in found}) if request.max_queues else 0
    return found, served


def _acks(item: Any, status: int) -> bytes:
    info_id = item.ID or _info(item).url
    return bytes(messages.AckMessage(ID=info_id, status=status).SerializeToString())  # type: ignore[arg-type]


def _batch_acks(batch: Any, statuses: list[int]) -> bytes:
    ack = messages.BatchAck(ID=batch.ID)
    ack.statuses.extend(statuses)  # type: ignore[arg-type]
    return bytes(ack.SerializeToString())


async def _stream(
    context: Context,
    work: Callable[[list[Any]], Awaitable[list[Any]]],
    parts: Callable[[Any], Any],
    reply: Callable[[Any, Any], bytes],
) -> None:
    """Read a stream, work on all that has come while the work before was done, and answer each item in order.

    At most MOST_UNANSWERED items wait: a client that does not read its answers is not read from.
    """
    waiting: list[Any] = []
    changed = asyncio.Event()
    room = asyncio.Event()
    ended = False

    async def read() -> None:
        nonlocal ended
        try:
            while (item := await context.read()) is not grpc.aio.EOF:
                waiting.append(item)
                changed.set()
                if len(waiting) >= MOST_UNANSWERED:
                    room.clear()
                    await room.wait()
        finally:
            ended = True
            changed.set()

    reader = asyncio.ensure_future(read())
    try:
        while not ended or waiting:
            await changed.wait()
            changed.clear()
            batch, waiting = waiting, []
            room.set()
            if batch:
                for item, result in zip(batch, await work(batch), strict=True):
                    await context.write(reply(item, result))
        await reader
    finally:
        reader.cancel()


async def _kept(crawl: CrawlThread, request: Any) -> AsyncIterator[Any]:
    """Yield the kept URLs that a request asks for, in steps that let other calls pass."""
    text = request.filter.lower() if request.ignoreCase else request.filter
    after: bytes | None = b""
    while after is not None:
        page = await crawl.run(lambda frontier, last=after: frontier.kept_urls(last, limit=STEP), changes=False)  # type: ignore[misc]
        for found in page:
            if request.key and found.queue != request.key:
                continue
            if text and text not in (found.url.lower() if request.ignoreCase else found.url):
                continue
            yield found
        after = page[-1].fingerprint if len(page) == STEP else None


async def _forget(crawl: CrawlThread, key: str | None, before: int | None) -> int:
    count = 0
    after: bytes | None = b""
    while after is not None:
        found, after = await crawl.run(partial(calls.forget, after=after, limit=STEP, key=key, before=before))
        count += found
    return count


# -- errors


def status_of(error: FrontierError) -> grpc.StatusCode:
    """Return the status with which an RPC ends that an error of the engine has ended."""
    if isinstance(error, StorageFull):
        return grpc.StatusCode.RESOURCE_EXHAUSTED
    if isinstance(error, FrontierLocked):
        return grpc.StatusCode.UNAVAILABLE
    return grpc.StatusCode.FAILED_PRECONDITION


def handlers(crawls: Crawls, address: str) -> grpc.GenericRpcHandler:
    """Return the handlers of all RPCs for a server of `grpc.aio`."""
    service = Service(crawls, address)
    found: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
    for method in METHODS.values():
        call = _guarded(getattr(service, method.name), streams=method.streams_replies and not method.streams_requests)
        read = method.request.FromString
        if method.streams_requests:
            found[method.name] = grpc.stream_stream_rpc_method_handler(call, read, None)
        elif method.streams_replies:
            found[method.name] = grpc.unary_stream_rpc_method_handler(call, read, None)
        else:
            found[method.name] = grpc.unary_unary_rpc_method_handler(call, read, method.reply.SerializeToString)
    return grpc.method_handlers_generic_handler(SERVICE, found)


def _guarded(call: Callable[..., Any], *, streams: bool) -> Callable[..., Any]:
    """Let an error of the engine end the RPC with a status and its message."""
    if streams:

        async def stream(request: Any, context: Context) -> AsyncIterator[bytes]:
            try:
                async for reply in call(request, context):
                    yield reply
            except FrontierError as e:
                await context.abort(status_of(e), str(e))

        return stream

    async def unary(request: Any, context: Context) -> Any:
        try:
            return await call(request, context)
        except FrontierError as e:
            await context.abort(status_of(e), str(e))

    return unary
