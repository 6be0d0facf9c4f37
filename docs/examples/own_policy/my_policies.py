"""Policies of one's own, which crawl.yaml names: a cost of URIs, and an assignment of URIs to queues.

    python -m http.server 8000 --bind 127.0.0.1            # in another terminal, in a folder with some pages
    PYTHONPATH=. budgetfrontier crawl crawl.yaml
    budgetfrontier queues own-policy

A policy is a function or a callable object. Its options come from the YAML file. The extra `crawl` is needed.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from budgetfrontier import CrawlUri


class CostOfDepth:
    """A cost of 1, and 1 more for each folder of the path below the first `free` ones, and for each parameter."""

    def __init__(self, *, free: int = 2) -> None:
        self._free = free

    def __call__(self, uri: CrawlUri) -> int:
        """Return the cost of a URI, a whole number of at least 0."""
        parts = urlsplit(uri.url)
        parameters = len(parts.query.split("&")) if parts.query else 0
        return 1 + max(parts.path.count("/") - 1 - self._free, 0) + parameters


class QueueOfOwner:
    """One queue for all hosts of an owner, which share its budget and its delay; other hosts have one each."""

    def __init__(self, *, owners: dict[str, list[str]]) -> None:
        self._owner = {host: owner for owner, hosts in owners.items() for host in hosts}

    def __call__(self, uri: CrawlUri) -> str:
        """Return the key of the URI's queue, always the same one for the same URI."""
        host = urlsplit(uri.url).hostname or ""
        return self._owner.get(host, host)
