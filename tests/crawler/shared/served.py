"""Crawls on a frontier that a server in a thread of this process has open."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import Any

from rich.console import Console

from budgetfrontier import Settings
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.crawler.shared.shared_addresses import remote_crawl
from budgetfrontier.crawler.shared.shared_job import crawl
from tests.support import PATIENCE


def run(settings: Settings, folder: Path, address: str) -> tuple[int, str]:
    """Crawl; returns the exit code and what was said."""
    said = io.StringIO()
    progress = ProgressDisplay(console=Console(file=said, width=400))
    code = crawl(settings, folder, remote_crawl(address, crawl=settings.crawl), progress=progress)
    return code, said.getvalue()


class Crawler(threading.Thread):
    """A crawler in a thread, which heeds no signals. `join` it to have its `code` and what it `said`."""

    def __init__(self, settings: Settings, folder: Path, address: str) -> None:
        super().__init__(daemon=True)
        self._args = settings, folder, address
        self.code, self.said = -1, ""
        self.start()

    def run(self) -> None:
        self.code, self.said = run(*self._args)

    def ended(self) -> tuple[int, str]:
        """Wait for the end; returns the exit code and what was said."""
        self.join(PATIENCE)
        assert not self.is_alive()
        return self.code, self.said


def logged(folder: Path) -> list[tuple[str, str]]:
    """Statuses and URLs in the crawl.log of a job."""
    rows = [line.split() for line in (folder / "logs/crawl.log").read_text().splitlines()]
    return [(row[1], row[3]) for row in rows]


def pages_of(*folders: Path) -> list[str]:
    """The URLs in the logs of jobs without robots.txt files, sorted."""
    return sorted(url for folder in folders for _, url in logged(folder) if not url.endswith("/robots.txt"))


def served_settings(settings: Settings, **frontier: Any) -> Settings:
    """The settings of a server for a crawl."""
    return Settings.from_dict({"crawl": "other", "frontier": {**settings.to_dict()["frontier"], **frontier}})
