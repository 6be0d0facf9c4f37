"""A server that speaks any bytes it likes: for answers that no honest server gives."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.demo.loopback import LoopThread
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.settings.schema import FetchSettings
from tests.support import PATIENCE

Speak = Callable[[asyncio.StreamWriter], Awaitable[None]]
MOST = 1 << 30
"""Bytes after which a server stops sending what ought to be endless: a client that took so many is broken."""


class ManualLoop(asyncio.SelectorEventLoop):
    """A loop whose clock moves only when told to: nothing times out because the machine is busy."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move on its clock."""
        self._now += seconds


class RawServer:
    """Listens on a free loopback port, in a thread of its own; gives each request to what its path names.

    An answer is bytes, some bytes to be sent one after the other, or a function of the writer. The connection is closed
    after it. `requests` holds what came in, `sent` how many bytes went out by path, `gone` is set when a client hung
    up in the middle. Use with `with`.
    """

    def __init__(self, answers: dict[str, bytes | tuple[bytes, ...] | Speak]) -> None:
        self._answers = answers
        self._thread = LoopThread()
        self._tasks: list[asyncio.Task[None]] = []
        self._writers: list[asyncio.StreamWriter] = []
        self.requests: list[bytes] = []
        self.sent: dict[str, int] = {}
        self.gone = threading.Event()
        self._client: ManualLoop | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._thread.run(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._stop())
        self._thread.stop()

    def fetch(
        self, *paths: str, scheme: str = "http", host: str = "www.example.test", **settings: Any
    ) -> list[FetchResult]:
        """Fetch paths, one after the other, with these settings."""
        answers: list[FetchResult] = []
        asyncio.run(self._fetch(answers, *(f"{scheme}://{host}{path}" for path in paths), **settings))
        return answers

    def fetch_by_its_clock(self, path: str, **settings: Any) -> FetchResult:
        """Fetch a path with a client whose clock is moved on by what is answered alone."""
        with asyncio.Runner(loop_factory=ManualLoop) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, ManualLoop)
            self._client = loop
            answers: list[FetchResult] = []
            runner.run(self._fetch(answers, f"http://www.example.test{path}", **settings))
        self._client = None
        return answers[0]

    async def pass_time(self, seconds: float) -> None:
        """Let the client's clock move on, and the client do what is due then.

        Does not return if the client has ended meanwhile: it waits until the server stops.
        """
        client, here = self._client, asyncio.get_running_loop()
        moved = here.create_future()

        def move() -> None:
            assert client is not None
            client.advance(seconds)
            here.call_soon_threadsafe(end)

        def end() -> None:
            if not moved.done():
                moved.set_result(None)

        with suppress(RuntimeError):  # its loop is closed
            if client is not None:
                client.call_soon_threadsafe(move)
        await moved

    async def _fetch(self, answers: list[FetchResult], *urls: str, **settings: Any) -> None:
        """Fetch URLs into `answers`: what it returned would be printed in full, inside of asyncio, and discarded."""
        chosen = FetchSettings(**{"resolve": {"*.example.test": self.address}, "timeout": PATIENCE, **settings})
        async with Fetcher(chosen) as fetcher:
            for url in urls:
                answer = await fetcher.get(CrawlUri(url))
                # This server closes each connection without saying so: a crawl, too, would try again.
                answers.append(await fetcher.get(CrawlUri(url)) if answer.stale else answer)

    async def _stop(self) -> None:
        await _rounds()  # accept what has connected: once the server is closed, asyncio would forget it half open
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await _rounds()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._tasks.append(asyncio.get_running_loop().create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(request)
            path = request.split(b" ", 2)[1].decode()
            answer = self._answers[path]
            if callable(answer):
                await answer(writer)
            else:
                for part in (answer,) if isinstance(answer, bytes) else answer:
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0.02)  # so that the parts arrive one by one
            writer.close()
        except (asyncio.IncompleteReadError, ConnectionError):
            self.gone.set()
            writer.close()

    def endless(self, path: str, start: bytes, again: bytes | Iterable[bytes], pace: float = 0.0) -> None:
        """Respond to a path with `start` and then with `again` and again, `pace` seconds of the client's clock each."""

        async def speak(writer: asyncio.StreamWriter) -> None:
            writer.write(start)
            self.sent[path] = 0
            while self.sent[path] < MOST:
                for part in (again,) if isinstance(again, bytes) else again:
                    writer.write(part)
                    await writer.drain()
                    self.sent[path] += len(part)
                    if pace:
                        await self.pass_time(pace)

        self._answers[path] = speak


async def _rounds() -> None:
    """Let the loop do what it has begun: transports open and close over a few of its rounds."""
    for _ in range(10):
        await asyncio.sleep(0)


async def reset(writer: asyncio.StreamWriter) -> None:
    """Send half an answer and reset the connection."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
    await writer.drain()
    await asyncio.sleep(0.05)  # a client that is quick enough has read it by then
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Say nothing."""
    await asyncio.sleep(3600)
