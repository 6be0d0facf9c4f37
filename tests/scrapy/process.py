"""Spiders in a process of their own, on a loopback site, as `scrapy crawl` runs them."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import scrapy.crawler  # noqa: F401 # which takes most of the time that a process needs to begin
from scrapy.utils.log import DEFAULT_LOGGING

import budgetfrontier.scrapy  # noqa: F401
from budgetfrontier.crawler.demo.loopback import Loopback
from tests.forked import ForkedProcess
from tests.support import PATIENCE

RUNNER = """
import json, sys, warnings
import scrapy
from scrapy import Request, Spider, signals
from scrapy.crawler import CrawlerProcess
from scrapy.exceptions import ScrapyDeprecationWarning
from scrapy.resolver import dnscache

warnings.simplefilter("error", ScrapyDeprecationWarning)

PORT, SETTINGS, RESULT = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
for name in "abcdef":
    dnscache[f"{name}.test"] = "127.0.0.1"

def url(place):
    host, slash, path = place.partition("/")
    return f"http://{host}.test:{PORT}/{path}"

class Links(Spider):
    name = "links"
    seeds = ()

    async def start(self):
        for place in self.seeds:
            yield Request(url(place), dont_filter=True)

    def parse(self, response):
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)

%s

def save(spider, reason):
    stats = {k: v for k, v in spider.crawler.stats.get_stats().items() if isinstance(v, int | str)}
    told = getattr(spider, "told", None)
    with open(RESULT, "w") as file:
        json.dump({"stats": stats, "reason": reason, "told": told}, file)

process = CrawlerProcess({
    "SCHEDULER": "budgetfrontier.scrapy.Scheduler",
    "ROBOTSTXT_OBEY": False,
    "RETRY_TIMES": 1,
    "LOG_LEVEL": "INFO",
    "TELNETCONSOLE_ENABLED": False,
    **SETTINGS,
})
crawler = process.create_crawler(Mine)
crawler.signals.connect(save, signal=signals.spider_closed)
process.crawl(crawler)
process.start()
sys.exit(process.bootstrap_failed)
"""


class Result(NamedTuple):
    """How a spider ended: `told` is what it left in its attribute of this name."""

    code: int
    reason: str
    stats: dict[str, Any]
    told: Any
    log: str


def crawl(site: Loopback, folder: Path, spider: str, forked: bool = True, /, **settings: Any) -> Result:
    """Run the class Mine that `spider` defines to its end."""
    with started(site, folder, spider, forked, **settings) as process:
        _, log = process.communicate(timeout=PATIENCE)
    try:
        result = json.loads((folder / "result.json").read_text())
    except FileNotFoundError:
        result = {"reason": "", "stats": {}, "told": None}
    return Result(process.wait(), result["reason"], result["stats"], result["told"], log)


def _run_spider(program: str, *arguments: str) -> None:
    DEFAULT_LOGGING["disable_existing_loggers"] = False  # in a process that is started, ours are made later
    sys.argv = [program, *arguments]
    sys.path.insert(0, str(Path(program).parent))
    runpy.run_path(program, run_name="__main__")


@contextmanager
def started(
    site: Loopback, folder: Path, spider: str, forked: bool = True, /, **settings: Any
) -> Iterator[ForkedProcess | subprocess.Popen[str]]:
    """Run it in the background, and kill what is left of it at the end."""
    (folder / "result.json").unlink(missing_ok=True)
    (folder / "spider.py").write_text(RUNNER % spider)
    port = site.address.rpartition(":")[2]
    if not settings.keys() & {"BUDGETFRONTIER_URL", "BUDGETFRONTIER_BUS"}:  # there, others have the settings
        settings.setdefault("BUDGETFRONTIER_SETTINGS", {"frontier": {"backoff": {"delay": 0.01, "factor": 1}}})
    command = [str(folder / "spider.py"), port, json.dumps(settings), str(folder / "result.json")]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        ForkedProcess(_run_spider, *command) if forked else subprocess.Popen([sys.executable, *command], **pipes)
    ) as process:
        try:
            yield process
        finally:
            process.kill()
