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
from budgetfrontier.model import CrawlUri, QueueRecord
from budgetfrontier.settings import Settings, policy_factory, policy_results
from budgetfrontier.settings.schema import Seed
from budgetfrontier.store import keys, meta
from budgetfrontier.store.kept_places import future_key
from budgetfrontier.store.records import UrlRow, decode_dead, decode_future, decode_url
from budgetfrontier.store.uri_values import encode_url, short_url, shorten
from budgetfrontier.store.view import View

ROWS = 50
_LOOKED_AT = 2000  # URIs at the head of a seed's queue, those for later, and dead letters

_QUEUED, _LATER = "queued", "scheduled for later"
_WAITS = "scheduled more than once: it waits, in its queue or another"
_DONE = "succeeded, failed or disregarded, as the crawl log knows"


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
        self._keeps = frontier.keep_urls
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
        fingerprint = uris.fingerprint(self._canonical(href))
        kept = self._view.txn.get(fingerprint, db=self._view.db[keys.URLS]) if self._keeps else None
        found = None if kept is None else decode_url(kept)
        key = seed.queue or self._key(CrawlUri(href))
        queue = self._view.find_queue(key) if found is None else self._view.queue_by_id(found.queue)
        row |= {
            "queue": queue.queue if queue else key,
            "known": queue is not None,
            "state": queue.state if queue else "",
        }
        if found is not None:
            return row | {"fate": self._kept_fate(found, href)}
        seen = self._view.txn.get(fingerprint, db=self._view.db[keys.SEEN]) is not None
        return row | {"fate": self._fate(queue, href) if seen else "never scheduled"}

    def _kept_fate(self, found: UrlRow, href: str) -> str:
        """Return the fate of a seed that the frontier keeps."""
        if found.place:
            return _QUEUED if future_key(found.place) is None else _LATER
        if found.more:
            return _WAITS
        return self._death(href) or f"done: {_DONE}"

    def _fate(self, queue: QueueRecord | None, href: str) -> str:
        """Return the fate of a seed that was seen; it is looked for in the queue that it belongs to."""
        if queue is not None and queue.queued and self._is_pending(queue, href):
            return _QUEUED
        if queue is not None and queue.future and self._is_for_later(queue, href):
            return _LATER
        if death := self._death(href):
            return death
        behind = queue is not None and max(queue.queued, queue.future) > _LOOKED_AT
        return f"not {'at the head of' if behind else 'in'} its queue any more: {_DONE}, or it waits elsewhere"

    def _is_pending(self, queue: QueueRecord, href: str) -> bool:
        plain, short = encode_url(href, queue.queue), shorten(href, queue.queue)
        items = islice(self._view.pending_items(keys.u32.pack(queue.id)), _LOOKED_AT)
        return any(value == plain or short_url(value) == short for _, value in items)

    def _is_for_later(self, queue: QueueRecord, href: str) -> bool:
        short = shorten(href, queue.queue)
        rows = (decode_future(value) for _, value in islice(self._view.items(keys.FUTURE), _LOOKED_AT))
        return any(row.queue == queue.id and short_url(row.value) == short for row in rows)

    def _death(self, href: str) -> str:
        """Return that a seed is a dead letter, and why; "" if it is none of the oldest."""
        for _, value in islice(self._view.items(keys.DEAD), _LOOKED_AT):
            row = decode_dead(value)
            if short_url(row.value) == shorten(href, row.name):
                return f"dead letter: {row.reason or 'no reason'}"
        return ""
