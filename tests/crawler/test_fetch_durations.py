"""How long a fetch took: what its server took, not what this process did meanwhile."""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.crawler.fetch import durations, http_connections
from budgetfrontier.crawler.fetch.durations import TICK, seconds_in, seconds_of_exchange
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.raw import ManualLoop, RawServer

HOUR = 3600.0
LARGE = 3_000_000


async def handler(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/large":
            return web.Response(body=b"x" * LARGE)
        case "/unchanged":
            return web.Response(status=304)
        case "/closing":
            return web.Response(text="page", headers={"Connection": "close"})
        case "/chunked" | "/chunked-closing":
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            if request.path == "/chunked-closing":
                response.force_close()
            await response.prepare(request)
            for _ in range(3):
                await response.write(b"part")
            return response
    return web.Response(text="page")


def fetch(*paths: str, busy: float = HOUR, **more: Any) -> list[FetchResult]:
    """Fetch paths by a clock that an hour passes on whenever a header has come."""
    loop = ManualLoop()

    async def run(address: str) -> list[FetchResult]:
        settings = FetchSettings(resolve={"*.test": address}, timeout=0, first_byte_timeout=0, min_speed=0)
        async with Fetcher(settings) as fetcher:
            uris = [CrawlUri(f"http://a.test{path}") for path in paths]
            return [await fetcher.get(uri, accept=lambda _: loop.advance(busy), **more) for uri in uris]

    with Loopback(handler) as server, asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(run(server.address))


@pytest.fixture
def never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets that a busy machine sends twice do not count."""

    def once(info: bytes, *, round_trips: int) -> float | None:
        return seconds_in(info[:100] + bytes(4) + info[104:], round_trips=round_trips)

    monkeypatch.setattr(durations, "seconds_in", once)


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when the last byte came")


@linux
@pytest.mark.parametrize("path", ["/", "/large", "/chunked", "/closing", "/chunked-closing", "/unchanged"])
def test_what_this_process_is_busy_with_is_no_part_of_it(path: str, never_repeated: None) -> None:
    for answer in fetch(path, path):
        assert answer.status in (200, 304) and not answer.notes
        assert answer.seconds is not None and 0 <= answer.seconds < HOUR


@linux
def test_a_response_that_ends_with_its_connection_is_measured_then(never_repeated: None) -> None:
    def get(server: RawServer) -> FetchResult:
        loop = ManualLoop()

        async def run() -> FetchResult:
            settings = FetchSettings(resolve={"*.test": server.address}, timeout=0, first_byte_timeout=0, min_speed=0)
            async with Fetcher(settings) as fetcher:
                return await fetcher.get(CrawlUri("http://a.test/"), accept=lambda _: loop.advance(HOUR))

        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(run())

    with RawServer({"/": (b"HTTP/1.1 200 OK\r\n\r\n", b"some ", b"body")}) as server:
        answer = get(server)
    assert answer.body == b"some body" and answer.seconds is not None and 0 <= answer.seconds < HOUR


def test_what_was_not_received_to_its_end_took_as_long_as_it_seems() -> None:
    (answer,) = fetch("/large", max_body=1000)
    assert answer.notes == ["lenTrunc"] and answer.seconds == HOUR


def test_the_clock_of_the_loop_counts_where_the_kernel_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_connections, "seconds_of_exchange", lambda transport, **more: None)
    assert [answer.seconds for answer in fetch("/", "/")] == [HOUR, HOUR]


def test_the_set_up_of_a_connection_counts_once_and_the_loops_clock_is_the_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(transport: object, *, round_trips: int) -> float:
        assert transport is not None
        return 1.5 + round_trips

    monkeypatch.setattr(http_connections, "seconds_of_exchange", told)
    assert [answer.seconds for answer in fetch("/", "/")] == [2.5, 1.5]
    assert [answer.seconds for answer in fetch("/", "/", busy=0.0)] == [0.0, 0.0]


def kernel(*, sent: int, received: int, round_trip: int = 0, repeated: int = 0) -> bytes:
    """What the kernel says of a connection, with ones in all other fields."""
    fields = [1] * 24
    fields[9], fields[11], fields[15], fields[23] = sent, received, round_trip, repeated
    return b"\1" * 8 + struct.pack("=24I", *fields)


def test_what_the_kernel_says() -> None:
    assert seconds_in(kernel(sent=520, received=20), round_trips=0) == pytest.approx(0.5 + TICK)
    info = kernel(sent=520, received=20, round_trip=30_000)
    assert seconds_in(info, round_trips=2) == pytest.approx(0.5 + 0.06 + TICK)


def test_what_cannot_be_told() -> None:
    assert seconds_in(kernel(sent=520, received=20, repeated=1), round_trips=0) is None
    assert seconds_in(kernel(sent=20, received=520), round_trips=0) is None, "the answer came before the request"
    assert seconds_in(kernel(sent=520, received=20)[:50], round_trips=0) is None
    assert seconds_of_exchange(None) is None
