"""Quotas: how many URIs and bytes may be fetched in all of a host, a queue or a group, or with a label. Pure rules.

`Turns.stopped_before_lease` asks before each lease whether a quota of its URI is used up; `engine.tallies` counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.core.uris import host
from budgetfrontier.core.vocabulary import OF_GROUP

if TYPE_CHECKING:
    from budgetfrontier.settings.overrides import Limits, QueueSettings


_OF = {"host": "hosts", "queue": "queues", OF_GROUP: "groups"}
"""The kinds of quotas that count only while one of them is in force, in words."""


def counted_from_now(before: Set[str], after: Set[str]) -> list[str]:
    """Return the warnings about kinds of quotas that come into force in a crawl that has fetched something.

    >>> counted_from_now({"host"}, {"host", "queue"})
    ['quotas of queues count from now on: none was in force, and fetches before are not in the count']
    """
    kinds = (name for kind, name in _OF.items() if kind in after and kind not in before)
    text = "quotas of {} count from now on: none was in force, and fetches before are not in the count"
    return [*map(text.format, kinds)]


def first_reached(stats: object, quota: Limits) -> str:
    """Return the first amount of a quota that has reached its limit, "" if none has. `stats` has each as a field."""
    for name, limit in quota:
        if getattr(stats, name) >= limit:
            return name
    return ""


def share(stats: object, quota: Iterable[tuple[str, int]]) -> float:
    """Return the part of the fullest limit of a quota that is used; more than 1.0 by what was in flight."""
    return max(getattr(stats, name) / limit if limit else 1.0 for name, limit in quota)


def quotas_of(
    uri: CrawlUri, queue: str, settings: QueueSettings, group: tuple[str, Limits] | None
) -> list[tuple[str, str, Limits]]:
    """Return the quotas of a URI: the kind of each, what it is about, and its limits.

    `group` is the name of its queue's group, with its quota; None without a group.
    """
    found = []
    if settings.quota_host:
        found.append(("host", host(uri.url), settings.quota_host))
    if settings.quota_queue:
        found.append(("queue", queue, settings.quota_queue))
    if settings.quota_label and uri.source:
        found.append(("label", uri.source, settings.quota_label))
    if group is not None and group[1]:
        found.append((OF_GROUP, *group))
    return found
