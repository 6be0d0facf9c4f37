"""The web that the crawlers of `benchmarks.crawl` race on: a number of hosts, pages computed from their address.

`python -m benchmarks.crawl_site HOSTS PAGES CORE` serves it on a loopback port, which it prints, until its input ends.
A page is about 10 KB of HTML with 50 links: 10 that its whole host has in its navigation, 30 to other pages of the
host, three of which make a tree of all of them, and 10 to other hosts. Nothing is random: the same page every time.

The server also counts: `/-/counts` returns how many requests came, for which pages, and when. A page requested with
`?wait=50` is sent 50 ms later.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import select
import socket
import subprocess
import sys
import time
import urllib.request
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HOSTS = 200
NAVIGATION, OWN, OTHERS = 10, 30, 10
TREE = 3  # of the own links
BACKLOG = 4096  # connections that wait to be accepted: with fewer, the kernel repeats some a second later

_REQUEST = re.compile(rb"GET /(-/\w+|\d*)\S* HTTP/1\.1\r\n(?:[^\r\n]+\r\n)*?[Hh]ost: h?(\d+)[^\r\n]*\r\n", re.ASCII)
_WAIT = re.compile(rb"[^\r\n]*\?wait=(\d+) ", re.ASCII)
_TEXTS = 16
_HEAD = b"HTTP/1.1 200 OK\r\nServer: site\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n%b"
_MULTIPLIER, _INCREMENT, _MASK = 6364136223846793005, 1442695040888963407, (1 << 64) - 1  # Knuth's MMIX


class Web:
    """All pages: `page(host, number)` returns one as bytes and takes about 20 µs."""

    def __init__(self, hosts: int, pages: int, port: int) -> None:
        self.hosts, self.each = hosts, pages // hosts
        self._names = [f"http://{name(host)}:{port}" for host in range(hosts)]
        self._paths = ["/", *(f"/{number}.html" for number in range(1, self.each))]
        self._texts = [_text(number) for number in range(_TEXTS)]

    def page(self, host: int, number: int) -> bytes:
        """Return a page as it is sent, headers included."""
        each, hosts, names, paths = self.each, self.hosts, self._names, self._paths
        state = host * each + number + 1
        links = [paths[(TREE * number + child) % each] for child in range(1, TREE + 1)]
        for _ in range(OWN - TREE):
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            links.append(paths[(state >> 33) % each])
        for _ in range(OTHERS):
            state = (state * _MULTIPLIER + _INCREMENT) & _MASK
            links.append(names[(state >> 33) % hosts] + paths[(state >> 48) % each])
        body = (self._texts[number % _TEXTS] % (f"{name(host)}, {number}", *links)).encode()
        return _HEAD % (len(body), body)


def name(host: int) -> str:
    """Return the name of a host by its number."""
    return f"h{host}.test"


def seeds(port: int, hosts: int) -> list[str]:
    """Return the URLs of the front pages, from which all others can be reached."""
    return [f"http://{name(host)}:{port}/" for host in range(hosts)]


@cache
def _words() -> list[str]:
    letters = random.Random(7)
    return [
        "".join(letters.choices("etaoinshrdlucmfwypvbgkqjxz", range(26, 0, -1), k=length))
        for length in letters.choices(range(2, 12), k=3000)
    ]


def _text(number: int) -> str:
    """Return the template of a page: %s for its title and its links, navigation filled in."""
    rng = random.Random(number)

    def prose(count: int) -> str:
        return " ".join(rng.choices(_words(), k=count))

    navigation = "".join(
        f'<li class="nav-item"><a class="nav-link" href="{f"/{i}.html" if i else "/"}">{prose(1)}</a></li>\n'
        for i in range(NAVIGATION)
    )
    parts = [
        f'<section id="s{i}">\n<h2>{prose(3)}</h2>\n'
        f'<p>{prose(15)} <a href="%s">{prose(2)}</a> {prose(8)}.</p>\n</section>\n'
        for i in range(OWN)
    ]
    elsewhere = "".join(f'<li><a href="%s" title="{prose(3)}">{prose(3)}</a></li>\n' for _ in range(OTHERS))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>%s</title>\n'
        f'<meta name="description" content="{prose(12)}">\n</head>\n<body>\n<ul class="nav">\n{navigation}</ul>\n'
        f"<main>\n{''.join(parts)}</main>\n<footer><ul>\n{elsewhere}</ul><p>{prose(8)}</p></footer>\n</body>\n</html>\n"
    )


class Book:
    """A count of the requests since the last `reset`."""

    def __init__(self, hosts: int, each: int) -> None:
        self.hosts, self.each = hosts, each
        self.reset()

    def reset(self) -> None:
        """Reset all counts."""
        self.hits = bytearray(self.hosts * self.each)
        self.requests = self.unknown = 0
        self.first = self.last = 0.0

    def asked(self, host: int, number: int) -> bool:
        """Count a request; return whether the page exists."""
        self.last = time.monotonic()
        if not self.requests:
            self.first = self.last
        self.requests += 1
        if host >= self.hosts or number >= self.each:
            self.unknown += 1
            return False
        place = host * self.each + number
        self.hits[place] = min(self.hits[place] + 1, 255)
        return True

    def counts(self) -> dict[str, float]:
        """Return requests, distinct pages, requests for missing pages, and seconds from the first to the last."""
        pages = len(self.hits) - self.hits.count(0)
        return {
            "requests": self.requests,
            "pages": pages,
            "unknown": self.unknown,
            "seconds": self.last - self.first,
        }


class _Connection(asyncio.Protocol):
    def __init__(self, web: Web, book: Book) -> None:
        self._web, self._book = web, book
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        while (end := data.find(b"\r\n\r\n")) >= 0:
            head, data = data[: end + 2], data[end + 4 :]
            self._send(self._answer(head), _WAIT.match(head))
        self._rest = data

    def _send(self, answer: bytes, wait: re.Match[bytes] | None) -> None:
        if wait is None:
            self._transport.write(answer)
        else:
            asyncio.get_running_loop().call_later(int(wait[1]) / 1000, self._transport.write, answer)

    def _answer(self, head: bytes) -> bytes:
        found = _REQUEST.match(head)
        if found is None:
            self._book.unknown += 1
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        path, host = found[1], int(found[2])
        if path == b"-/counts":
            body = json.dumps(self._book.counts()).encode()
            return _HEAD % (len(body), body)
        if path == b"-/reset":
            self._book.reset()
            return _HEAD % (0, b"")
        number = int(path or b"0")
        if not self._book.asked(host, number):
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        return self._web.page(host, number)


async def _serve(hosts: int, pages: int) -> None:
    loop = asyncio.get_running_loop()
    listening = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    port = listening.getsockname()[1]
    web = Web(hosts, pages, port)
    book = Book(hosts, web.each)
    server = await loop.create_server(lambda: _Connection(web, book), sock=listening, backlog=BACKLOG)
    print(port, flush=True)
    async with server:
        await loop.run_in_executor(None, sys.stdin.read)


class Server:
    """The server in a process of its own, on a core of its own. Use with `with`."""

    def __init__(self, hosts: int, pages: int, core: int) -> None:
        self._command = [sys.executable, "-m", "benchmarks.crawl_site", str(hosts), str(pages), str(core)]
        self.hosts, self.pages = hosts, hosts * (pages // hosts)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=Path(__file__).parent.parent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.communicate()

    @property
    def seeds(self) -> list[str]:
        """Return the URLs of the front pages."""
        return seeds(self.port, self.hosts)

    def counts(self) -> dict[str, float]:
        """See `Book.counts`."""
        counts: dict[str, float] = json.loads(self._ask("counts"))
        return counts

    def reset(self) -> None:
        """Reset the counts of the server."""
        self._ask("reset")

    def _ask(self, what: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/{what}", timeout=10) as answer:
            return bytes(answer.read())

    def speed(self, seconds: float = 2.0, connections: int = 32) -> float:
        """Return the pages per second that the server delivers to a client that discards them."""
        sockets = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(connections)]
        waiting = select.epoll()
        by_number: dict[int, Any] = {one.fileno(): one for one in sockets}
        served, number, buffer = 0, 0, bytearray(1 << 16)
        begin = time.perf_counter()
        try:
            for one in sockets:
                waiting.register(one, select.EPOLLIN)
                one.sendall(self._request(number))
            while time.perf_counter() - begin < seconds:
                for descriptor, _ in waiting.poll(1):
                    size = by_number[descriptor].recv_into(buffer)
                    if buffer[:size].endswith(b"</html>\n"):
                        served, number = served + 1, number + 1
                        by_number[descriptor].sendall(self._request(number))
            return served / (time.perf_counter() - begin)
        finally:
            waiting.close()
            for one in sockets:
                one.close()

    def _request(self, number: int) -> bytes:
        path = number % (self.pages // self.hosts)
        return f"GET /{path}.html HTTP/1.1\r\nHost: {name(number % self.hosts)}\r\nAccept: */*\r\n\r\n".encode()


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[3])})
    asyncio.run(_serve(int(sys.argv[1]), int(sys.argv[2])))
