"""Fetch pages again and again: one that changes sooner and sooner, one that does not later and later.

    python recrawler.py --shortest 1 http://localhost:8000/ http://localhost:8000/news.html

The next visit of a page is scheduled in the same transaction that ends the last one, so that a kill loses none. The
frontier is in the folder `recrawl`; the same command continues with the dates that it has stored. No extra is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from urllib.request import Request, urlopen

from budgetfrontier import CrawlUri, Frontier, Lease, Outcome, Settings

SETTINGS = Settings.from_dict({
    "crawl": "recrawl",
    "frontier": {"politeness": {"min_delay": "100ms", "delay_factor": 1}, "retry": {"delay": "1m", "max_retries": 5}},
})  # fmt: skip


def next_visit(uri: CrawlUri, body: bytes, *, shortest: float, longest: float) -> CrawlUri:
    """Return the next visit of a page: after half the last interval if it has changed, else after twice as long."""
    digest = hashlib.sha256(body).hexdigest()
    interval = shortest
    if uri.meta:
        interval = uri.meta["interval"] * (2.0 if digest == uri.meta["digest"] else 0.5)
    interval = min(max(interval, shortest), longest)
    meta = {"digest": digest, "interval": interval}
    return CrawlUri(uri.url, force=True, not_before=time.time() + interval, meta=meta)


def visit(frontier: Frontier, lease: Lease, *, shortest: float, longest: float) -> None:
    """Fetch a page, and schedule its next visit. A page that cannot be fetched is tried again, and given up at last."""
    start = time.monotonic()
    try:
        request = Request(lease.uri.url, headers={"User-Agent": "ExampleBot/1.0 (+https://example.org/bot)"})
        with urlopen(request, timeout=30) as response:
            status, body = response.status, response.read(1 << 20)
    except OSError as error:  # an answer with an error status, too
        frontier.finish(lease, Outcome.RETRY, status=getattr(error, "code", 0), reason=str(error))
        return
    again = next_visit(lease.uri, body, shortest=shortest, longest=longest)
    print(f"{again.url} was fetched, and will be again in {again.meta['interval']:g} s")
    seconds = time.monotonic() - start
    frontier.finish(lease, fetch_seconds=seconds, status=status, size=len(body), discovered=[again])


def recrawl(urls: list[str], *, visits: int, shortest: float, longest: float) -> None:
    """Visit pages so many times in all (0: for ever), each when its interval is over."""
    with Frontier.open("recrawl/frontier", SETTINGS) as frontier:
        frontier.schedule_many(urls)
        made = 0
        while not visits or made < visits:
            leases = frontier.lease(1)
            for lease in leases:
                visit(frontier, lease, shortest=shortest, longest=longest)
                made += 1
            ready_in = frontier.next_ready_in()
            if ready_in is None:
                break
            if not leases:
                frontier.commit()
                time.sleep(min(ready_in, 0.5))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fetch pages again and again, as often as they change.")
    parser.add_argument("urls", metavar="URL", nargs="+")
    parser.add_argument("--visits", type=int, default=0, help="end after so many fetches (default: never)")
    parser.add_argument("--shortest", type=float, default=60.0, help="the shortest interval, in seconds (default: 60)")
    parser.add_argument("--longest", type=float, default=7 * 86400.0, help="the longest interval (default: 7 days)")
    given = parser.parse_args()
    recrawl(given.urls, visits=given.visits, shortest=given.shortest, longest=given.longest)
