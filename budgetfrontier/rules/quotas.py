"""Quotas: how many URIs and bytes may be fetched in all of a host, of a queue, or with a label. Pure rules.

`Turns.stopped_before_lease` asks before each lease whether a quota of its URI is used up; `engine.tallies` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.uris import host

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import Limits, QueueSettings


def first_reached(stats: object, quota: Limits) -> str:
    """Return the first amount of a quota that has reached its limit, "" if none has. `stats` has each as a field."""
    for name, limit in quota:
        if getattr(stats, name) >= limit:
            return name
    return ""


def quotas_of(uri: CrawlUri, queue: str, settings: QueueSettings) -> list[tuple[str, str, Limits]]:
    """Return the quotas of a URI: the kind of each, what it is about, and its limits."""
    found = []
    if settings.quota_host:
        found.append(("host", host(uri.url), settings.quota_host))
    if settings.quota_queue:
        found.append(("queue", queue, settings.quota_queue))
    if settings.quota_label and uri.source:
        found.append(("label", uri.source, settings.quota_label))
    return found
