"""Scrapy on the web of the race: `python -m benchmarks.crawl_scrapy SEEDS CONCURRENCY PER_HOST [JOBDIR [SCHEDULER]]`.

SEEDS is a file of URLs, SCHEDULER the class to use instead of Scrapy's own. All else is as its documentation recommends
for broad crawls (https://docs.scrapy.org/en/latest/topics/broad-crawls.html). Links are extracted with its
LinkExtractor, and nothing is kept: no items, no pipelines. Names are in its DNS cache from the beginning.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def settings(
    concurrency: int, per_host: int, jobdir: str | None = None, scheduler: str = "scrapy.core.scheduler.Scheduler"
) -> dict[str, Any]:
    """Return the settings that differ from Scrapy's defaults."""
    return {
        "SCHEDULER": scheduler,
        "CONCURRENT_REQUESTS": concurrency,
        "CONCURRENT_REQUESTS_PER_DOMAIN": per_host,
        "DOWNLOAD_DELAY": 0,
        "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
        "REACTOR_THREADPOOL_MAXSIZE": 20,
        "LOG_LEVEL": "INFO",
        "COOKIES_ENABLED": False,
        "RETRY_ENABLED": False,
        "DOWNLOAD_TIMEOUT": 15,
        "REDIRECT_ENABLED": False,
        "ROBOTSTXT_OBEY": False,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "JOBDIR": jobdir,
    }


def main() -> None:
    """Crawl until nothing is left."""
    from scrapy import Request, Spider
    from scrapy.crawler import CrawlerProcess
    from scrapy.http import Response
    from scrapy.linkextractors import LinkExtractor
    from scrapy.resolver import dnscache

    urls = Path(sys.argv[1]).read_text().split()

    class Everything(Spider):  # type: ignore[misc]
        name = "everything"
        links = LinkExtractor()

        async def start(self) -> AsyncIterator[Request]:
            for url in urls:
                yield Request(url)  # start_urls would not be deduplicated

        def parse(self, response: Response) -> Iterator[Request]:
            for link in self.links.extract_links(response):
                yield Request(link.url)

    process = CrawlerProcess(settings(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
    process.crawl(Everything)
    dnscache.limit = len(urls)
    dnscache.update({urlsplit(url).hostname: "127.0.0.1" for url in urls})
    process.start()


if __name__ == "__main__":
    main()
