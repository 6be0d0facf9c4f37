"""A process that takes URIs from a shared frontier: `python -m tests.remote.worker ADDRESS FILE`.

It writes a line `leased URL` or `done URL` for each, before and after it ends the lease, until nothing is left.
"""

from __future__ import annotations

import sys

from budgetfrontier import CrawlState
from budgetfrontier.remote import RemoteFrontier


def main(address: str, file: str) -> None:
    """Take URIs until the crawl is finished."""
    with RemoteFrontier(address) as frontier, open(file, "a", encoding="utf-8") as lines:

        def write(word: str, urls: list[str]) -> None:
            lines.writelines(f"{word} {url}\n" for url in urls)
            lines.flush()

        while True:
            leases = frontier.lease(7, ttl=3.0, wait=1.0)
            write("leased", [lease.uri.url for lease in leases])
            late = {id(lease) for lease in frontier.finish_many(leases)}
            write("done", [lease.uri.url for lease in leases if id(lease) not in late])
            if not leases and frontier.state is CrawlState.FINISHED:
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
