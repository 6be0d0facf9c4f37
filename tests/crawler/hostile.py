"""Hosts that do harm, on one loopback port: each is a function that writes what it likes to whoever asks for a path."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from budgetfrontier.crawler.demo.loopback import LoopThread

Host = Callable[[str, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
NOTHING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


class HostileWeb:
    """Serves `hosts` by name; `hits` counts what was asked of whom. Use with `with`."""

    def __init__(self, hosts: dict[str, Host]) -> None:
        self.hosts = hosts
        self.hits: Counter[str] = Counter()
        self._thread = LoopThread()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = self._thread.run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._thread.stop()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ", 2)[1]
            host = head.lower().partition("\r\nhost:")[2].partition("\r\n")[0].strip().partition(":")[0]
            self.hits[host + path] += 1
            answer = self.hosts.get(host, nothing)
            if path == "/robots.txt" and not getattr(answer, "has_robots", False):
                answer = nothing
            await answer(path, writer)
            await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await writer.wait_closed()


def page(*links: str, charset: str = "") -> bytes:
    """An HTML answer with links, which are written as they are."""
    body = b"".join(b'<a href="' + link.encode("utf-8", "surrogateescape") + b'">x</a>' for link in links)
    kind = f"Content-Type: text/html; charset={charset}\r\n".encode() if charset else b"Content-Type: text/html\r\n"
    return b"HTTP/1.1 200 OK\r\n" + kind + b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def moved(location: str) -> bytes:
    """A redirect."""
    return f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


def says(answer: bytes) -> Host:
    """A host that always gives this answer."""

    async def host(path: str, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)

    return host


async def nothing(path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(NOTHING)


async def endless_redirects(path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(moved(f"/{int(path[1:] or 0) + 1}"))


async def endless_header(path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(OK)
    while True:
        writer.write(b"X-Filler: " + b"x" * 1000 + b"\r\n")
        await writer.drain()


async def gzip_of_zeros(path: str, writer: asyncio.StreamWriter) -> None:
    """10 GB of zeros in 10 MB."""
    packer = zlib.compressobj(wbits=31)
    writer.write(OK + b"Content-Encoding: gzip\r\nConnection: close\r\n\r\n")
    for _ in range(10_000):
        writer.write(packer.compress(bytes(1_000_000)))
        await writer.drain()


async def a_byte_at_a_time(path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(OK + b"Connection: close\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.5)


async def never_answers(path: str, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3600)


async def calendar(path: str, writer: asyncio.StreamWriter) -> None:
    day = int(path.rpartition("/")[2] or 0)
    writer.write(page(f"/day/{day + 1}", f"/day/{day + 2}", f"/day/{day + 31}", f"/day/{day + 365}"))


_sessions = itertools.count()


async def sessions(path: str, writer: asyncio.StreamWriter) -> None:
    writer.write(page(*(f"/{name}?PHPSESSID={next(_sessions):032x}" for name in "abc")))


async def cookies(path: str, writer: asyncio.StreamWriter) -> None:
    flood = b"".join(b"Set-Cookie: c%d=%b\r\n" % (number, b"v" * 100) for number in range(10_000))
    writer.write(OK + flood + b"Content-Length: 0\r\nConnection: close\r\n\r\n")


async def huge_robots(path: str, writer: asyncio.StreamWriter) -> None:
    """100 MB of rules; the first forbids /no."""
    if path != "/robots.txt":
        writer.write(page("/no", "/yes") if path == "/" else page())
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
    writer.write(b"User-agent: *\nDisallow: /no\n")
    rules = b"".join(b"Disallow: /%d/*/x\n" % number for number in range(5000))
    for _ in range(100_000_000 // len(rules)):
        writer.write(rules)
        await writer.drain()


huge_robots.has_robots = True  # type: ignore[attr-defined]
