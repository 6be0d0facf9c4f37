"""A broad crawl beside a host without end, under Scrapy's own schedulers and ours: `python -m tests.scrapy.broad`.

The spider is the one of docs/howto/scrapy.md. Forty hosts have 25 pages each; one is a calendar, each page of which
leads to twenty more. Each run is stopped at 4,000 pages, unless it ends before. Prints a table: the pages fetched,
those of the calendar among them, how many of the others' thousand were fetched, and the page at which the last of them
came.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from aiohttp import web

from budgetfrontier.crawler.demo.loopback import Loopback
from tests.crawler.site import linking

MANUAL = Path(__file__).parents[2] / "docs" / "howto" / "scrapy.md"
HOSTS, PAGES, MOST = 40, 25, 4000
LATENCY = 0.02  # seconds of every answer
CALENDAR = "calendar.test"

RUNNER = """
import json, sys
from scrapy.crawler import CrawlerProcess
from scrapy.resolver import dnscache
from broad import Broad

hosts, seeds, settings = map(json.loads, sys.argv[1:])
for host in hosts:
    dnscache[host] = "127.0.0.1"
Broad.start_urls = seeds
Broad.custom_settings = {**Broad.custom_settings, **settings}
process = CrawlerProcess({"LOG_LEVEL": "WARNING", "TELNETCONSOLE_ENABLED": False})
process.crawl(Broad)
process.start()
"""

OWN = "scrapy.core.scheduler.Scheduler"
LEGS: dict[str, dict[str, Any]] = {
    "Scrapy, ScrapyPriorityQueue": {
        "SCHEDULER": OWN,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.ScrapyPriorityQueue",
    },
    "Scrapy, DownloaderAwarePriorityQueue": {
        "SCHEDULER": OWN,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    },
    "budgetfrontier, no budget": {"BUDGETFRONTIER_SETTINGS": {}},
    "budgetfrontier, the example": {},
}


class Outcome(NamedTuple):
    """What came of one run: pages in all, of the calendar, of the others, and when the last of those came."""

    fetched: int
    calendar: int
    others: int
    complete: int | None


def run(folder: Path, settings: dict[str, Any], *, most: int = MOST, hosts: int = HOSTS) -> Outcome:
    """Crawl the site once with the manual's spider and these settings on top of its own."""
    order: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        host, number = request.host.partition(":")[0], int(request.path.strip("/") or 0)
        order.append(host)
        await asyncio.sleep(LATENCY)
        if host == CALENDAR:
            links = [f"/{number * 20 + child}" for child in range(1, 21)]
        else:
            links = [f"/{page}" for page in (number * 2 + 1, number * 2 + 2) if page < PAGES]
        return web.Response(text=linking(*links), content_type="text/html")

    names = [CALENDAR, *(f"host{number}.test" for number in range(hosts))]
    block = re.search(r"^```python\n(# broad\.py\n.*?)^```$", MANUAL.read_text(), re.MULTILINE | re.DOTALL)
    assert block
    (folder / "broad.py").write_text(block[1])
    (folder / "run.py").write_text(RUNNER)
    with Loopback(answer) as site:
        port = site.address.rpartition(":")[2]
        seeds = [f"http://{name}:{port}/" for name in names]
        arguments = [names, seeds, {"CLOSESPIDER_PAGECOUNT": most, **settings}]
        command = [sys.executable, "run.py", *map(json.dumps, arguments)]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
    # Seeds are fetched a second time where pages link back to them; no page here does.
    others = [place for place, host in enumerate(order, start=1) if host != CALENDAR]
    complete = others[-1] if len(others) == hosts * PAGES else None
    return Outcome(len(order), len(order) - len(others), len(others), complete)


def main() -> None:
    """Run every leg, and print the table."""
    print(f"| scheduler | pages | calendar | others, of {HOSTS * PAGES} | others complete at page |\n|-|-|-|-|-|")
    for name, settings in LEGS.items():
        with tempfile.TemporaryDirectory() as folder:
            outcome = run(Path(folder), settings)
        print("|", " | ".join(map(str, (name, *outcome[:3], outcome.complete or "-"))), "|", flush=True)


if __name__ == "__main__":
    main()
