"""One host in Scrapy: `python -m benchmarks.one_host_spider CASE PORT SCHEDULER` crawls it, and prints the seconds.

The cases are those in which a request is not over when its page is there: see `benchmarks.one_host`. All else is as
Scrapy has it without settings: 16 requests at a time, 8 of a host.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from typing import Any

PAGES, FILES = "h0.test", "h1.test"
SLOW = 1.0  # seconds that a pipeline or a callback takes

CASES: dict[str, dict[str, Any]] = {
    "plain": {"pages": 400, "wait": 20},
    "pipeline": {"pages": 160, "wait": 50, "ITEM_PIPELINES": {"benchmarks.one_host_spider.Slow": 1}},
    "files": {"pages": 96, "wait": 400, "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 1}},
    "slots": {"pages": 240, "wait": 500, "DOWNLOAD_SLOTS": {PAGES: {"concurrency": 40, "delay": 0}}},
    "callback": {"pages": 160, "wait": 50},
}
"""By name: how many pages, the milliseconds that each takes, and settings of Scrapy."""


class Slow:
    """A slow pipeline, like one that writes to a remote database."""

    async def process_item(self, item: Any, spider: Any = None) -> Any:
        """Wait, then return the item."""
        await asyncio.sleep(SLOW)
        return item


def main() -> None:
    """Crawl one case to its end. Fails unless every page was fetched."""
    from scrapy import Request, Spider
    from scrapy.crawler import CrawlerProcess
    from scrapy.http import Response
    from scrapy.resolver import dnscache

    case, port, scheduler = sys.argv[1], sys.argv[2], sys.argv[3]
    given = dict(CASES[case])
    pages, wait = given.pop("pages"), given.pop("wait")

    class OneHost(Spider):  # type: ignore[misc]
        name = "one-host"

        async def start(self) -> AsyncIterator[Request]:
            for number in range(pages):
                yield Request(f"http://{PAGES}:{port}/{number}.html?wait={wait}")

        async def parse(self, response: Response) -> AsyncIterator[dict[str, Any]]:
            if case == "callback":
                await asyncio.sleep(SLOW)
            elif case == "files":
                yield {"file_urls": [response.url.replace(PAGES, FILES)]}
            else:
                yield {"url": response.url}

    dnscache.limit = 2
    dnscache.update({PAGES: "127.0.0.1", FILES: "127.0.0.1"})
    with tempfile.TemporaryDirectory() as folder:
        process = CrawlerProcess(
            {
                "SCHEDULER": scheduler,
                "LOG_LEVEL": "ERROR",
                "TELNETCONSOLE_ENABLED": False,
                "REMOTE_CONTROL_ENABLED": False,
                "ROBOTSTXT_OBEY": False,
                "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
                "FILES_STORE": folder,
                "JOBDIR": f"{folder}/job",
                **given,
            }
        )
        crawler = process.create_crawler(OneHost)
        process.crawl(crawler)
        process.start()
    stats = crawler.stats.get_stats()
    expected = pages * 2 if case == "files" else pages
    if stats.get("downloader/response_status_count/200") != expected:
        sys.exit(f"not every page came: {stats}")
    print(json.dumps({"seconds": stats["elapsed_time_seconds"]}))


if __name__ == "__main__":
    main()
