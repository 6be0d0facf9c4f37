"""Crawl some hosts with threads: the main thread owns the frontier, and the threads of a pool fetch.

    python threads_crawler.py http://localhost:8000/ http://127.0.0.1:8000/

The frontier is in the folder `threads`. After Ctrl-C or a kill, the same command continues the crawl, and
`budgetfrontier report threads` shows it while it runs. No extra of the package is needed.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from html.parser import HTMLParser
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.request import Request, urlopen

from budgetfrontier import Finish, Frontier, Lease, Outcome, Settings

WORKERS = 8
SETTINGS = Settings.from_dict({
    "crawl": "threads",
    "frontier": {
        "queue_total_budget": 1000,  # pages of one host
        "politeness": {"min_delay": "100ms", "delay_factor": 1},
        "retry": {"delay": "1m", "max_retries": 5},
    },
})  # fmt: skip


class Links(HTMLParser):
    """The links of a page."""

    def __init__(self, base: str, text: str) -> None:
        super().__init__()
        self.base = base
        self.found: list[str] = []
        with suppress(AssertionError):  # some Pythons raise it for a declaration that they do not know
            self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the link of an `a`."""
        if tag == "a" and (href := dict(attrs).get("href")):
            with suppress(ValueError):  # not the form of a URL
                self.found.append(urljoin(self.base, href))


def fetch(lease: Lease, hosts: set[str | None]) -> Finish:
    """Fetch a page, and return how its lease is to be finished. The threads of the pool do not use the frontier."""
    start, outcome, status, body, reason = time.monotonic(), Outcome.SUCCESS, 0, b"", ""
    try:
        request = Request(lease.uri.url, headers={"User-Agent": "ExampleBot/1.0 (+https://example.org/bot)"})
        with urlopen(request, timeout=30) as response:
            status, body = response.status, response.read(1 << 20)
    except HTTPError as error:
        outcome, status = Outcome.RETRY if error.code >= 500 else Outcome.SUCCESS, error.code
    except OSError as error:  # no connection, or no answer in time
        outcome, reason = Outcome.RETRY, str(error)
    links = Links(lease.uri.url, body.decode(errors="replace")).found
    return Finish(
        lease,
        outcome,
        fetch_seconds=time.monotonic() - start,
        size=len(body),
        status=status,
        reason=reason,
        discovered=[link for link in links if urlsplit(link).hostname in hosts],
    )


def crawl(seeds: list[str]) -> None:
    """Crawl the hosts of the seeds until nothing is left that their budgets allow."""
    hosts = {urlsplit(seed).hostname for seed in seeds}
    with Frontier.open("threads/frontier", SETTINGS) as frontier, ThreadPoolExecutor(WORKERS) as pool:
        frontier.schedule_many(seeds)
        fetches: set[Future[Finish]] = set()
        while True:
            fetches |= {pool.submit(fetch, lease, hosts) for lease in frontier.lease(WORKERS - len(fetches))}
            ready_in = frontier.next_ready_in()
            if ready_in is None and not fetches:
                break
            frontier.commit()
            pause = 0.5 if ready_in is None or len(fetches) == WORKERS else min(ready_in, 0.5)
            if fetches:
                ended, fetches = wait(fetches, pause, FIRST_COMPLETED)
                frontier.finish_many(future.result() for future in ended)
            else:
                time.sleep(pause)
        total = frontier.summary()
        print(f"{total.succeeded} fetched, {total.dead} given up; hosts over their budget: {total.queues['RETIRED']}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python threads_crawler.py URL...")
    crawl(sys.argv[1:])
