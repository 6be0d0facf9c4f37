"""A small web for tests: pages by host and path, what was asked for, and crawls of it."""

from __future__ import annotations

import asyncio
import io
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web
from rich.console import Console

from budgetfrontier import Frontier, Settings
from budgetfrontier.crawler.demo.loopback import Loopback
from budgetfrontier.crawler.job import crawl
from budgetfrontier.crawler.progress import ProgressDisplay
from tests.support import PATIENCE

Page = str | Callable[[], web.StreamResponse]


class Site(Loopback):
    """Serves `pages`, "host/path?query" to HTML or a function; all else is 404. `hits` counts what was asked.

    After `bound` requests it answers no more until a test raises that: a crawl that is to be killed or looked at cannot
    be over before.
    """

    def __init__(self, pages: Mapping[str, Page]) -> None:
        super().__init__(self._answer)
        self.pages = dict(pages)
        self.hits: Counter[str] = Counter()
        self.times: dict[str, list[float]] = {}
        self.bound = math.inf

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        place = request.host.partition(":")[0] + request.path_qs
        self.hits[place] += 1
        self.times.setdefault(request.host, []).append(time.monotonic())
        await self.turn()
        page = self.pages.get(place)
        if page is None:
            return web.Response(status=404)
        return page() if callable(page) else web.Response(text=page, content_type="text/html")

    async def turn(self) -> None:
        """Wait until one more request may be answered."""
        while self.hits.total() > self.bound:
            await asyncio.sleep(0.01)

    def settings(self, *seeds: str, frontier: Mapping[str, Any] | None = None, **sections: Any) -> Settings:
        """Settings of a crawl of this site without delays; `frontier` and sections are as in the YAML."""
        fast = {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}
        sections["fetch"] = {"resolve": {"*.test": self.address}, "timeout": PATIENCE, **sections.get("fetch", {})}
        chosen = {
            "politeness": fast,
            "retry": {"max_retries": 1, "delay": 0.0, "status_delay": 0.0},
            **(frontier or {}),
        }
        chosen.setdefault("backoff", {"delay": 0.01, "factor": 1})
        return Settings.from_dict({"crawl": "test", "seeds": list(seeds), "frontier": chosen, **sections})


def run(settings: Settings, folder: Path) -> tuple[int, str]:
    """Crawl; returns the exit code and what was said."""
    said = io.StringIO()
    code = crawl(settings, folder, progress=ProgressDisplay(console=Console(file=said, width=400)))
    return code, said.getvalue()


def reopened(folder: Path) -> Frontier:
    """The job's frontier, checked, with the settings that it stored."""
    frontier = Frontier.open(folder / "frontier")
    frontier.check()
    return frontier


def linking(*links: str) -> str:
    """A page with links."""
    return "".join(f'<a href="{link}">{link}</a>' for link in links)


def redirect(location: str, *, status: int = 301) -> Callable[[], web.StreamResponse]:
    """A page that leads elsewhere."""
    return lambda: web.Response(status=status, headers={"Location": location})


def text(body: str, *, status: int = 200) -> Callable[[], web.StreamResponse]:
    """A page that is no HTML."""
    return lambda: web.Response(status=status, text=body)
