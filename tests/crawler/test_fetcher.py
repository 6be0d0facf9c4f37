"""One fetch over a real socket: what comes back, and whose fault it is when nothing does."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict

from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.crawler.fetch import descriptors
from budgetfrontier.crawler.fetch.encodings import ACCEPTED
from budgetfrontier.crawler.fetch.fetcher import Fetcher
from budgetfrontier.crawler.fetch.response import (
    BROKEN,
    CONNECT_FAILED,
    CONNECTION_LOST,
    DNS_FAILED,
    TIMED_OUT,
    FetchResult,
)
from budgetfrontier.crawler.main_loop import finish_reason
from budgetfrontier.settings.schema import FetchSettings
from tests.crawler.raw import RawServer
from tests.support import PATIENCE

PAGE = b"".join(b"<p>%d</p>" % number for number in range(2000))


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
            await asyncio.sleep(3600)
        case "/trickle":
            response = web.StreamResponse()
            await response.prepare(request)
            for _ in range(50):
                await response.write(b".")
                await asyncio.sleep(0.1)
            return response
        case "/gzip":
            assert request.headers["Accept-Encoding"] == ACCEPTED
            response = web.StreamResponse(headers={"Content-Encoding": "gzip", "Content-Type": "text/html"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            packed = gzip.compress(PAGE, mtime=0)
            for start in range(0, len(packed), 50):
                await response.write(packed[start : start + 50])
            return response
        case "/post":
            return web.Response(body=request.method.encode() + b" " + await request.read())
        case "/unchanged":
            return web.Response(status=304, headers={"ETag": request.headers.get("If-None-Match", "")})
        case "/hangs-up":
            assert request.transport is not None
            request.transport.abort()
        case "/long-header":
            return web.Response(headers={"X-Long": "x" * 100_000})
        case "/charset":
            return web.Response(body=b"\xe9", headers={"Content-Type": 'Text/HTML; charset="ISO-8859-1"'})
    return web.Response(text=request.path)


def fetch(*paths: str, host: str = "www.example.test", **settings: Any) -> list[FetchResult]:
    async def run(address: str) -> list[FetchResult]:
        chosen = FetchSettings(**{"resolve": {"*.example.test": address}, "timeout": PATIENCE, **settings})
        async with Fetcher(chosen) as session:
            return [await session.get(CrawlUri(f"http://{host}{path}")) for path in paths]

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
    with RawServer({}) as server:
        server.endless("/", b"HTTP/1.1 200 OK\r\n\r\n", b".", pace=0.125)
        answer = server.fetch_by_its_clock("/", timeout=0.5)
    assert (answer.status, answer.notes, answer.outcome) == (200, ["timeTrunc"], Outcome.SUCCESS)
    assert answer.body.startswith(b".")


@pytest.mark.parametrize(
    ("path", "status", "outcome"),
    [
        ("/silent", TIMED_OUT, Outcome.RETRY),
        ("/hangs-up", CONNECTION_LOST, Outcome.RETRY),
        ("/long-header", BROKEN, Outcome.FAILURE),
    ],
)
def test_what_is_no_answer(path: str, status: int, outcome: Outcome) -> None:
    (answer,) = fetch(path, timeout=0.5 if status == TIMED_OUT else PATIENCE)
    assert (answer.status, answer.outcome) == (status, outcome), answer.reason
    assert answer.reason


def test_a_plain_page_that_calls_itself_compressed_is_kept() -> None:
    (answer,) = fetch("/no-gzip")
    assert (answer.status, answer.body, answer.notes) == (200, b"plain", ["notEncoded"])
    assert answer.raw is answer.body and "gzip" in answer.reason


def test_connection_refused() -> None:
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        (answer,) = fetch("/", resolve={"*": f"127.0.0.1:{deaf.getsockname()[1]}"})
    assert (answer.status, answer.outcome) == (CONNECT_FAILED, Outcome.RETRY)


def test_dns_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Callable[..., Any]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with Loopback(handler) as server:

        async def run() -> FetchResult:
            monkeypatch.setattr(socket, "getaddrinfo", unknown)
            async with Fetcher(FetchSettings(resolve={"*.other.test": server.address})) as session:
                return await session.get(CrawlUri("http://nowhere.test/"))

        answer = asyncio.run(run())
    assert (answer.status, answer.outcome) == (DNS_FAILED, Outcome.RETRY)


def get(uri: CrawlUri, *, accept: Callable[[FetchResult], str | None] | None = None, **settings: Any) -> FetchResult:
    async def run(address: str) -> FetchResult:
        async with Fetcher(FetchSettings(resolve={"*.example.test": address}, **settings)) as session:
            return await session.get(uri, accept=accept)

    with Loopback(handler) as server:
        return asyncio.run(run(server.address))


def test_the_body_as_it_was_sent_and_decompressed() -> None:
    (answer,) = fetch("/gzip")
    assert (answer.status, answer.version, answer.phrase, answer.address) == (200, "1.1", "OK", "127.0.0.1")
    assert (answer.body, answer.raw, answer.notes) == (PAGE, gzip.compress(PAGE, mtime=0), [])
    assert answer.digest() == hashlib.sha1(answer.raw).digest()
    assert (b"Content-Encoding", b"gzip") in answer.raw_headers


def test_a_body_that_is_not_compressed_is_kept_once() -> None:
    small, large, none = fetch("/", "/large", "/moved")
    assert small.raw is small.body and large.raw is large.body
    assert (none.raw, none.digest()) == (b"", b"")


def test_what_is_not_wanted_is_not_read() -> None:
    seen: list[FetchResult] = []

    def accept(answer: FetchResult) -> str | None:
        seen.append(answer)
        return None if answer.mime == "text/html" else f"{answer.mime} is out of scope"

    refused = get(CrawlUri("http://www.example.test/large"), accept=accept)
    taken = get(CrawlUri("http://www.example.test/gzip"), accept=accept)
    assert (refused.status, refused.notes, refused.raw) == (200, ["midFetchAbort"], b"")
    assert refused.reason == "application/octet-stream is out of scope"
    assert (taken.notes, taken.body) == ([], PAGE)
    assert seen == [refused, taken] and dict(refused.headers)["Content-Length"] == "300000"


def test_a_conditional_request() -> None:
    answer = get(CrawlUri("http://www.example.test/unchanged", headers={"If-None-Match": '"1"'}))
    assert (answer.status, answer.headers["ETag"], answer.body) == (304, '"1"', b"")


def test_a_method_and_a_body() -> None:
    assert get(CrawlUri("http://www.example.test/post", method="POST", body=b"a=b")).body == b"POST a=b"
    assert get(CrawlUri("http://www.example.test/large", method="HEAD")).status == 200


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        ("Thu, 01 Jan 1970 00:17:40 GMT", 60.0),
        ("Thursday, 01-Jan-70 00:17:40 GMT", 60.0),
        ("Thu Jan  1 00:17:40 1970", 60.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", None),  # it has passed
        ("0", None),
        ("000", None),
        ("", None),
        ("Thu, 01 Jan 1970 00:16:40 GMT", None),  # now
        ("Thu, 01 Jan 99999 00:00:00 GMT", None),
        ("soon", None),
        ("-1", None),
        ("9" * 5000, 999_999_999.0),  # the frontier decides how much of that it obeys
    ],
)
def test_retry_after(value: str, seconds: float | None) -> None:
    answer = FetchResult(status=503, headers=CIMultiDict({"retry-after": value}), started=999.5, seconds=0.5)
    assert answer.retry_after == seconds
    answer.status = 200
    assert answer.retry_after is None


@pytest.mark.parametrize("verify", [True, False])
def test_certificates_are_checked(verify: bool) -> None:
    async def page(request: web.BaseRequest) -> web.Response:
        return web.Response(body=b"page")

    async def run() -> FetchResult:
        runner = web.ServerRunner(web.Server(page))
        await runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(Path(__file__).with_name("selfsigned.pem"))
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        address = f"127.0.0.1:{runner.addresses[0][1]}"
        settings = FetchSettings(resolve={"*.test": address}, verify_tls=verify)
        async with Fetcher(settings) as session:
            answer = await session.get(CrawlUri("https://www.example.test/"))
        await runner.cleanup()
        return answer

    answer = asyncio.run(run())
    if verify:
        assert (answer.status, answer.outcome) == (BROKEN, Outcome.FAILURE)
        assert answer.reason.startswith("TLS: certificate not trusted: self")
        assert answer.reason.endswith("; fetch.verify_tls: false accepts any")
        told = finish_reason(CrawlUri("https://www.example.test/"), answer.outcome, answer)
        assert told == f"{answer.reason} (-5)"
    else:
        assert (answer.status, answer.body, answer.address) == (200, b"page", "127.0.0.1")


def test_idle_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_IDLE", 2)
    connections: list[asyncio.BaseTransport] = []

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        if request.transport not in connections:
            connections.append(request.transport)
        return web.Response(body=b"page")

    async def run(address: str) -> None:
        async with Fetcher(FetchSettings(resolve={"*.test": address}, concurrency=1)) as session:
            for host in "abcdcdab":
                assert (await session.get(CrawlUri(f"http://{host}.test/"))).status == 200

    with Loopback(note) as server:
        asyncio.run(run(server.address))
    assert len(connections) == 6, "those to a and b are used again, those to c and d are not"


def test_idle_connections_to_one_host_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptors, "_IDLE", 2)
    connections: set[asyncio.BaseTransport] = set()
    here: list[asyncio.Future[None]] = []

    async def together(request: web.BaseRequest) -> web.StreamResponse:
        """Answer when four ask at a time."""
        assert request.transport is not None
        connections.add(request.transport)
        here.append(asyncio.get_running_loop().create_future())
        if len(here) == 4:
            for one in here:
                one.set_result(None)
            here.clear()
        else:
            await here[-1]
        return web.Response(body=b"page")

    async def run(address: str) -> None:
        async with Fetcher(FetchSettings(resolve={"*.test": address}, concurrency=4)) as session:
            for _ in range(3):
                answers = await asyncio.gather(*(session.get(CrawlUri("http://a.test/")) for _ in range(4)))
                assert [answer.status for answer in answers] == [200] * 4

    with Loopback(together) as server:
        asyncio.run(run(server.address))
    assert len(connections) == 4 + 2 + 2, "of four, two are kept"


def test_cancellation_goes_through() -> None:
    async def run(address: str) -> None:
        task = asyncio.current_task()
        assert task is not None

        def accept(answer: FetchResult) -> None:
            task.cancel()

        async with Fetcher(FetchSettings(resolve={"*.test": address})) as session:
            with pytest.raises(asyncio.CancelledError):
                await session.get(CrawlUri("http://www.example.test/trickle"), accept=accept)
            task.uncancel()

    with Loopback(handler) as server:
        asyncio.run(run(server.address))


def test_content_type() -> None:
    (answer,) = fetch("/charset")
    assert (answer.mime, answer.charset) == ("text/html", "ISO-8859-1")


@pytest.mark.parametrize(
    ("sent", "mime", "charset"),
    [
        (["text/html, text/html"], "text/html", None),
        (["text/html,text/html; charset=utf-8"], "text/html", "utf-8"),
        (["text/html; charset=utf-8, text/html"], "text/html", "utf-8"),
        (["text/html", "TEXT/HTML;;charset=a;charset=b"], "text/html", "a"),
        (["text/plain; charset=a", "text/html"], "text/html", None),
        (["text/html", "*/*", "html", ""], "text/html", None),
        (['text/html; x=",text/plain"'], "text/html", None),
        (['text/html; x="\\",text/plain'], "text/html", None),
        (["text/html ;charset=a"], "text/html", "a"),
        (["text/html:charset=a"], "", "a"),
        (["text/html charset=a"], "", "a"),
        (['"text/html"'], "", None),
        (["html"], "", None),
        (["*/*"], "", None),
        (["/"], "", None),
        ([""], "", None),
        ([], "", None),
    ],
)
def test_of_several_content_types_the_last_valid_one_counts(sent: list[str], mime: str, charset: str | None) -> None:
    answer = FetchResult(status=200, headers=CIMultiDict(("Content-Type", value) for value in sent))
    assert (answer.mime, answer.charset) == (mime, charset)
