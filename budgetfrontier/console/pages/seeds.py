"""The seeds and what has become of each."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from budgetfrontier import uris
from budgetfrontier.console.jobs import Job
from budgetfrontier.console.query import Query
from budgetfrontier.console.rendering import key_path
from budgetfrontier.errors import InvalidUrl
from budgetfrontier.model import CrawlUri
from budgetfrontier.settings import Settings, policy_factory, policy_results
from budgetfrontier.settings.schema import Seed
from budgetfrontier.store import keys, meta
from budgetfrontier.store.records import decode_dead
from budgetfrontier.store.uri_values import encode_url, short_url, shorten
from budgetfrontier.store.view import View

ROWS = 50
_LOOKED_AT = 2000  # URIs at the head of a seed's queue, and dead letters


def build(job: Job, query: Query) -> dict[str, Any]:
    """Return a page of the seeds in the settings, each with its queue and its fate."""
    start = query.number("start", 0, most=10_000_000)
    with job.view() as view:
        settings = view.settings()[0]
        page = settings.seeds[start : start + ROWS]
        rows = [row | _link(job, row) for row in _Fates(view, settings).rows(page)]
    return {
        "rows": rows,
        "count": len(settings.seeds),
        "next": {"start": start + ROWS} if len(settings.seeds) > start + ROWS else None,
        "first": {"start": max(start - ROWS, 0) or None} if start else None,
    }


def _link(job: Job, row: dict[str, Any]) -> dict[str, str]:
    return {"link": job.base + key_path(row["queue"]) if row["known"] else ""}


class _Fates:
    """The fates of seeds, as of a snapshot. What is asked of each is bounded."""

    def __init__(self, view: View, settings: Settings) -> None:
        frontier = settings.frontier
        self._view = view
        policy = policy_factory.canonicalization(frontier)
        self._canonical = partial(policy_results.form, policy, frontier.canonicalization_policy)
        assign = policy_factory.assignment(frontier, meta.read_suffixes(view.txn, view.db[keys.META]))
        self._key = partial(policy_results.queue_key, assign, frontier.queue_assignment_policy)

    def rows(self, seeds: tuple[Seed, ...]) -> list[dict[str, Any]]:
        return [self._row(seed) for seed in seeds]

    def _row(self, seed: Seed) -> dict[str, Any]:
        row: dict[str, Any] = {
            "seed": seed.url or f"file {seed.file}",
            "source": seed.source,
            "queue": "",
            "known": False,
        }
        if not seed.url:
            return row | {"fate": "a file, which is not read here", "state": ""}
        try:
            href = uris.parse(seed.url)
        except InvalidUrl as error:
            return row | {"fate": f"no URL that can be crawled: {error}", "state": ""}
        key = seed.queue or self._key(CrawlUri(href))
        queue = self._view.find_queue(key)
        row |= {"queue": key, "known": queue is not None, "state": queue.state if queue else ""}
        seen = self._view.txn.get(uris.fingerprint(self._canonical(href)), db=self._view.db[keys.SEEN]) is not None
        if not seen:
            return row | {"fate": "never scheduled"}
        if queue is not None and queue.queued and self._is_pending(queue.id, href, key):
            return row | {"fate": "queued"}
        if (reason := self._death(href)) is not None:
            return row | {"fate": f"dead letter: {reason or 'no reason'}"}
        looked_at = "" if queue is None or queue.queued <= _LOOKED_AT else ", or queued further behind"
        return row | {"fate": f"done: succeeded, failed or disregarded, as the crawl log knows{looked_at}"}

    def _is_pending(self, number: int, href: str, key: str) -> bool:
        plain, short = encode_url(href, key), shorten(href, key)
        items = islice(self._view.pending_items(keys.u32.pack(number)), _LOOKED_AT)
        return any(value == plain or short_url(value) == short for _, value in items)

    def _death(self, href: str) -> str | None:
        for _, value in islice(self._view.items(keys.DEAD), _LOOKED_AT):
            row = decode_dead(value)
            if short_url(row.value) == shorten(href, row.name):
                return row.reason
        return None
