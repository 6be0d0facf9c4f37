"""The crawls of a server: one job folder and one frontier for each crawlID."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import FrontierError
from budgetfrontier.service import node
from budgetfrontier.service.crawl_thread import CrawlThread
from budgetfrontier.settings import Settings

DEFAULT = "DEFAULT"
"""The crawlID of calls that give none."""
FRONTIER = "frontier"
LONGEST = 200
"""Bytes of the name of a folder."""


def folder_name(crawl_id: str) -> str:
    """Return the name of the job folder of a crawlID: itself, with percent signs for what a path cannot have.

    Raises FrontierError for one that is too long.
    """
    name = quote(crawl_id, safe=" !#$&'()+,;=@[]{}~")
    if name.startswith("."):
        name = "%2E" + name[1:]
    if len(name.encode()) > LONGEST:
        raise FrontierError(f"the crawlID {crawl_id[:50]!r}... is too long: its folder may have {LONGEST} bytes")
    return name


class Crawls:
    """The crawls in a folder, opened when they are first asked for. Only for the thread of the event loop."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings
        self._open: dict[str, asyncio.Future[CrawlThread]] = {}
        self.node = node.read(folder)

    def __repr__(self) -> str:
        return f"<Crawls in {self.folder}: {len(self._open)} open>"

    def names(self) -> list[str]:
        """Return the crawlIDs that there are, in order."""
        return sorted(unquote(path.name) for path in self.folder.iterdir() if (path / FRONTIER).is_dir())

    async def find(self, crawl_id: str) -> CrawlThread | None:
        """Return a crawl that exists, None if there is none. Raises FrontierError if it cannot be opened."""
        crawl_id = crawl_id or DEFAULT
        if crawl_id not in self._open and not (self.folder / folder_name(crawl_id) / FRONTIER).is_dir():
            return None
        return await self.get(crawl_id)

    async def get(self, crawl_id: str) -> CrawlThread:
        """Return a crawl, created if need be. Raises FrontierError."""
        crawl_id = crawl_id or DEFAULT
        opening = self._open.get(crawl_id)
        if opening is None:
            opening = self._open[crawl_id] = asyncio.ensure_future(self._start(crawl_id))
        try:
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done():
                self._open.pop(crawl_id, None)
            raise

    async def _start(self, crawl_id: str) -> CrawlThread:
        job = self.folder / folder_name(crawl_id)
        exists = (job / FRONTIER).is_dir()
        crawl = CrawlThread(crawl_id, job / FRONTIER, None if exists else self._settings, asyncio.get_running_loop())
        job.mkdir(parents=True, exist_ok=True)
        await crawl.open()
        if not exists and self.node.delay != self._settings.frontier.politeness.min_interval:
            delay = self.node.delay
            await crawl.run(lambda frontier: set_default_delay(frontier, delay))
        return crawl

    async def all(self) -> list[CrawlThread]:
        """Return all crawls, opened."""
        return [await self.get(name) for name in self.names()]

    async def delete(self, crawl_id: str) -> int:
        """Delete a crawl with all that its folder holds; return the number of its URLs, 0 if there is none."""
        crawl = await self.find(crawl_id)
        if crawl is None:
            return 0
        totals = await crawl.run(lambda frontier: frontier.kept_totals(), changes=False)
        self._open.pop(crawl.name, None)
        await crawl.close()
        await asyncio.get_running_loop().run_in_executor(None, shutil.rmtree, crawl.folder.parent)
        return 0 if totals is None else totals.active + totals.completed

    def save_node(self) -> None:
        """Store what holds for all crawls."""
        node.write(self.folder, self.node)

    async def close(self) -> None:
        """Close all crawls; their leases stay."""
        for opening in self._open.values():
            if opening.done() and not opening.cancelled() and opening.exception() is None:
                await opening.result().close()


def set_default_delay(frontier: Frontier, delay: float) -> None:
    """Set the least time between two serves of each queue that has none of its own."""
    settings: dict[str, Any] = {"politeness.min_interval": delay}
    frontier.adjust(who="urlfrontier", **settings)
