"""One fetch over a real socket: what comes back, and whose fault it is when nothing does."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier.crawl.demo.loopback import Loopback
from budgetfrontier.crawl.fetch.answer import BROKEN, CONNECT_FAILED, CONNECTION_LOST, DNS_FAILED, TIMED_OUT, Answer
from budgetfrontier.crawl.fetch.fetcher import Fetcher
from budgetfrontier.model import CrawlUri, Outcome
from budgetfrontier.settings.schema import FetchSettings


async def handler(request: web.BaseRequest) -> web.StreamResponse:
    match request.path:
        case "/echo":
            headers = {name: request.headers.get(name, "") for name in ("Host", "User-Agent", "Cookie")}
            return web.json_response(headers, headers={"Set-Cookie": "a=b"})
        case "/missing":
            return web.Response(status=404, text="no")
        case "/moved":
            return web.Response(status=302, headers={"Location": "/echo"})
        case "/busy":
            return web.Response(status=503, headers={"Retry-After": "7"})
        case "/error":
            return web.Response(status=500)
        case "/large":
            return web.Response(body=b"x" * 300_000)
        case "/bomb":
            return web.Response(body=gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
        case "/no-gzip":
            return web.Response(body=b"plain", headers={"Content-Encoding": "gzip"})
        case "/silent":
            await asyncio.sleep(5)
        case "/trickle":
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(50):
                await response.write(b".")
                await asyncio.sleep(0.1)
            return response
        case "/hangs-up":
            assert request.transport is not None
            request.transport.abort()
        case "/long-header":
            return web.Response(headers={"X-Long": "x" * 100_000})
        case "/charset":
            return web.Response(body=b"\xe9", headers={"Content-Type": 'Text/HTML; charset="ISO-8859-1"'})
    return web.Response(text=request.path)


def fetch(*paths: str, host: str = "www.example.test", **settings: Any) -> list[Answer]:
    async def run(address: str) -> list[Answer]:
        chosen = FetchSettings(**{"resolve": {"*.example.test": address}, "timeout": 5.0, **settings})
        async with Fetcher(chosen) as fetcher:
            return [await fetcher.get(CrawlUri(f"http://{host}{path}")) for path in paths]

    with Loopback(handler) as server:
        return asyncio.run(run(server.address))


def test_resolve_changes_the_address_and_nothing_else() -> None:
    (answer,) = fetch("/echo", host="www.example.test:8081", user_agent="ExampleBot/1.0")
    assert (answer.status, answer.outcome) == (200, Outcome.SUCCESS)
    assert b'"Host": "www.example.test:8081"' in answer.body
    assert b'"User-Agent": "ExampleBot/1.0"' in answer.body
    assert answer.seconds is not None and answer.started > 0


def test_no_cookie_is_kept() -> None:
    _, second = fetch("/echo", "/echo")
    assert b'"Cookie": ""' in second.body


def test_no_redirect_is_followed() -> None:
    (answer,) = fetch("/moved")
    assert (answer.status, answer.location, answer.outcome) == (302, "/echo", Outcome.SUCCESS)


def test_any_answer_is_a_success_except_those_that_ask_to_come_back() -> None:
    missing, error, busy = fetch("/missing", "/error", "/busy")
    assert [a.outcome for a in (missing, error, busy)] == [Outcome.SUCCESS, Outcome.SUCCESS, Outcome.RETRY]
    assert (busy.retry_after, missing.retry_after) == (7.0, None)


def test_a_long_body_is_cut() -> None:
    (answer,) = fetch("/large", max_body=1000)
    assert (len(answer.body), answer.notes, answer.outcome) == (1000, ["lenTrunc"], Outcome.SUCCESS)
    (answer,) = fetch("/large", max_body=0)
    assert (len(answer.body), answer.notes) == (300_000, [])


def test_a_compressed_bomb_is_cut() -> None:
    (answer,) = fetch("/bomb", max_body=10_000)
    assert (len(answer.body), answer.notes) == (10_000, ["lenTrunc"])


def test_a_slow_body_is_cut() -> None:
    (answer,) = fetch("/trickle", timeout=0.5)
    assert (answer.status, answer.notes, answer.outcome) == (200, ["timeTrunc"], Outcome.SUCCESS)
    assert answer.body.startswith(b".")


@pytest.mark.parametrize(
    ("path", "status", "outcome"),
    [
        ("/silent", TIMED_OUT, Outcome.RETRY),
        ("/hangs-up", CONNECTION_LOST, Outcome.RETRY),
        ("/long-header", BROKEN, Outcome.FAILURE),
        ("/no-gzip", BROKEN, Outcome.FAILURE),
    ],
)
def test_what_is_no_answer(path: str, status: int, outcome: Outcome) -> None:
    (answer,) = fetch(path, timeout=0.5)
    assert (answer.status, answer.outcome) == (status, outcome), answer.reason
    assert answer.reason


def test_connection_refused() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        (answer,) = fetch("/", resolve={"*": f"127.0.0.1:{deaf.getsockname()[1]}"})
    assert (answer.status, answer.outcome) == (CONNECT_FAILED, Outcome.RETRY)


def test_dns_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Callable[..., Any]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with Loopback(handler) as server:

        async def run() -> Answer:
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
            async with Fetcher(FetchSettings(resolve={"*.other.test": server.address})) as fetcher:
                return await fetcher.get(CrawlUri("http://nowhere.test/"))

        answer = asyncio.run(run())
    assert (answer.status, answer.outcome) == (DNS_FAILED, Outcome.RETRY)


def test_content_type() -> None:
    (answer,) = fetch("/charset")
    assert (answer.mime, answer.charset) == ("text/html", "ISO-8859-1")
