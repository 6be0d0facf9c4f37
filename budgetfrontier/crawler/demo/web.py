"""The synthetic web of the demo: 45 hosts under .test, with traps and failures that budgets have to deal with."""

from __future__ import annotations

import asyncio
import itertools

from aiohttp import web

SITES = [f"site-{number:02d}.test" for number in range(1, 37)]
"""Ordinary sites of 4 to 12 pages, which a crawl should fetch completely."""

CALENDAR, SHOP = "calendar.test", "shop.test"
"""The traps: an endless calendar with a page for every month, and a shop with a new session id in every link."""

SLOW, BROKEN, DOWN, PATIENT, PRIVATE, MOVED = (
    f"{name}.test" for name in ("slow", "broken", "down", "patient", "private", "moved")
)
PORTAL = "portal.test"
HOSTS = [PORTAL, *SITES, CALENDAR, SHOP, SLOW, BROKEN, DOWN, PATIENT, PRIVATE, MOVED]

_ROBOTS = {
    PATIENT: "User-agent: *\nCrawl-delay: 1.2\n",
    PRIVATE: "User-agent: *\nDisallow: /\n",
}
_SLOWNESS = 0.4
_session = itertools.count(1)


async def respond(request: web.BaseRequest) -> web.StreamResponse:
    """Return the response for any of the hosts, selected by the Host header."""
    host, path = request.host.partition(":")[0], request.path
    if path == "/robots.txt":
        return web.Response(text=_ROBOTS[host]) if host in _ROBOTS else web.Response(status=404)
    if host == MOVED:
        raise web.HTTPMovedPermanently(f"http://{SITES[0]}/")
    if host == BROKEN and path != "/":
        return _break(request)
    if host == SLOW:
        await asyncio.sleep(_SLOWNESS)
    links = _links(host, path, request)
    if links is None:
        return web.Response(status=404, text="no such page")
    listed = "".join(f'<li><a href="{link}">{link}</a>' for link in links)
    return web.Response(
        text=f"<!doctype html><title>{host}{path}</title><h1>{host}</h1><ul>{listed}</ul>", content_type="text/html"
    )


def _links(host: str, path: str, request: web.BaseRequest) -> list[str] | None:
    """Return the links of a page, None if there is no such page."""
    if host == PORTAL:
        return [f"http://{other}/" for other in HOSTS[1:]] if path == "/" else None
    if host == CALENDAR:
        return _months(request)
    if host == SHOP:
        return [f"/item/{number}?visit={next(_session)}" for number in range(3)]
    if host == BROKEN:
        return ["/overloaded", "/hangs-up", "/error"]
    number = SITES.index(host) if host in SITES else 3
    pages = 4 + number % 9
    if path == "/":
        return [f"/page/{page}" for page in range(1, pages)]
    page = path.removeprefix("/page/")
    if not page.isdigit() or not 0 < int(page) < pages:
        return None
    near = [f"/page/{int(page) + 1}", "/", "/missing"] if int(page) == pages - 1 else ["/", f"/page/{int(page) + 1}"]
    return [*near, f"http://{SITES[(number + 1) % len(SITES)]}/"]


def _months(request: web.BaseRequest) -> list[str]:
    year, month = (int(request.query.get(name, default)) for name, default in (("year", "2026"), ("month", "1")))
    count = year * 12 + month - 1
    return [f"/?year={near // 12}&month={near % 12 + 1}" for near in (count - 1, count + 1, count + 12)]


def _break(request: web.BaseRequest) -> web.StreamResponse:
    if request.path == "/hangs-up" and request.transport is not None:
        request.transport.abort()
    return web.Response(status=503 if request.path == "/overloaded" else 500)
