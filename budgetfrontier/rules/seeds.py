"""Which URIs are seeds, where they come from, and their states."""

from __future__ import annotations

from enum import StrEnum

from budgetfrontier.core.model import CrawlUri, Directive

MOST_REDIRECTS = 5
"""The number of redirects from a seed to a URI that still counts as a seed."""


class SeedOrigin(StrEnum):
    """Where a seed comes from."""

    SCHEDULED = "scheduled"  # by the crawl, from its settings, or by a program
    IMPORTED = "imported"
    REDIRECTED = "redirected"  # the target of another seed's redirect


class SeedFate(StrEnum):
    """The fate of a seed. WAITING seeds are queued, leased or scheduled for later; KNOWN ones are duplicates."""

    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    DISREGARDED = "DISREGARDED"
    DEAD = "DEAD"
    DELETED = "DELETED"
    KNOWN = "KNOWN"


def is_seed(uri: CrawlUri) -> bool:
    """Return whether a URI is a seed: it comes before links, and nothing but redirects lead from a seed to it."""
    return uri.directive <= Directive.MEDIUM and len(uri.hops) <= MOST_REDIRECTS and not uri.hops.strip("R")


def origin_of(uri: CrawlUri) -> SeedOrigin:
    """Return where a seed comes from; `import --seeds` marks its seeds in their `meta`."""
    if uri.hops:
        return SeedOrigin.REDIRECTED
    marked = isinstance(uri.meta, dict) and "seed" in uri.meta
    return SeedOrigin.IMPORTED if marked else SeedOrigin.SCHEDULED
