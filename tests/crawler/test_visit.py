"""What is requested after a redirect."""

from __future__ import annotations

from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlUri, Frontier
from tests.crawler.site import Site, run

FORM = {"Content-Type": "application/x-www-form-urlencoded", "X-Own": "1"}


class Redirecting(Site):
    """Redirects /301 to /301/target with the status 301, and so on; /307/self to itself."""

    def __init__(self) -> None:
        super().__init__({})
        self.asked: list[tuple[str, str, bytes, str, str]] = []

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = request.headers
        own = headers.get("X-Own", ""), headers.get("Content-Type", "")
        self.asked.append((request.method, request.path, await request.read(), *own))
        status = int(request.path[1:4])
        if request.path.endswith("/target"):
            return web.Response(text="page")
        there = request.path if request.path.endswith("self") else f"/{status}/target"
        return web.Response(status=status, headers={"Location": there})


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 301, "PUT"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("HEAD", 308, "HEAD"),
        ("GET", 307, "GET"),
    ],
)
def test_a_redirect_keeps_the_request_as_browsers_do(tmp_path: Path, method: str, status: int, then: str) -> None:
    body = b"a=1" if method in ("POST", "PUT") else b""
    with Redirecting() as site:
        settings = site.settings(fetch={"robots": "ignore"})
        with Frontier.open(tmp_path / "frontier", settings) as frontier:
            frontier.schedule(CrawlUri(f"http://a.test/{status}", method=method, body=body, headers=FORM))
        run(settings, tmp_path)
    (first, second) = site.asked
    assert first == (method, f"/{status}", body, "1", FORM["Content-Type"])
    assert second[:4] == (then, f"/{status}/target", body if then == method else b"", "")
    assert (second[4] == FORM["Content-Type"]) == (then == method != "GET")


def test_a_request_that_is_redirected_to_itself_is_not_repeated(tmp_path: Path) -> None:
    with Redirecting() as site:
        settings = site.settings(fetch={"robots": "ignore"})
        with Frontier.open(tmp_path / "frontier", settings) as frontier:
            frontier.schedule(CrawlUri("http://a.test/307/self", method="POST", body=b"1"))
        run(settings, tmp_path)
    assert len(site.asked) == 1
