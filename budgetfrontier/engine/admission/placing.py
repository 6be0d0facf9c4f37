"""The placing of new URIs: their pending records, and the queues they arrive on."""

from __future__ import annotations

from typing import Any

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.admission.read_batch import UriCandidate
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.engine.url_table import New
from budgetfrontier.rules import uri_order
from budgetfrontier.rules.uri_order import NORMAL, PRIORITY_ZERO
from budgetfrontier.storage import keys

EARLIEST = 1.0  # epoch seconds: keys sort only positive times


class Placer:
    """Puts new URIs on their queues one after the other: each may change the queue for the next. O(1) each.

    Only their pending records wait, for `write`: all of a batch are written together.
    """

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns
        self._records: list[tuple[bytes, bytes]] = []
        self._urls: list[New] = []
        self._lowest: dict[int, int] = {}
        """By queue, the lowest precedence of its URIs that wait to be written."""

    def place(self, candidates: dict[Any, UriCandidate], now: float) -> None:
        """Put candidates on their queues, given by fingerprint."""
        for fingerprint, candidate in candidates.items():
            self.add(fingerprint, candidate, now)
        self.write()

    def add(self, fingerprint: Any, candidate: UriCandidate, now: float) -> None:
        """Put a candidate on its queue, or schedule it for later if it has a `not_before` ahead.

        `fingerprint` is a number if none is recorded.
        """
        tables, uri = self._tables, candidate.uri
        if uri is not None and _is_for_later(tables, uri, now):
            _postpone(tables, candidate, uri)
            return
        queue = tables.queues.find_or_create(candidate.queue)
        tables.counters.ordinal = ordinal = tables.counters.ordinal + 1
        key = _key(queue.id, candidate, ordinal)
        self._records.append((key, candidate.value))
        if tables.urls is not None:
            self._urls.append((fingerprint, queue.id, candidate.short, key))
        lowest = self._lowest_of(queue.id, candidate) if tables.in_force.ranks_by_uris else None
        self._turns.arrived(queue, 1, candidate.short, candidate.settings, candidate.precedence, now, lowest=lowest)

    def _lowest_of(self, queue_id: int, candidate: UriCandidate) -> int:
        """Return the lowest precedence of the URIs of a queue that wait to be written, with one more."""
        own = candidate.cost if candidate.own_precedence is None else candidate.own_precedence
        self._lowest[queue_id] = lowest = min(own, self._lowest.get(queue_id, own))
        return lowest

    def write(self) -> None:
        """Write the pending records: once, at the end."""
        self._records.sort()
        urls = self._urls
        has_all = not urls or all(isinstance(fingerprint, bytes) for fingerprint, *_ in urls)
        self._tables.pending.insert(self._records, urls if has_all else None)
        self._records, self._urls = [], []
        self._lowest.clear()

    def bury(self, candidate: UriCandidate, fingerprint: bytes, reason: str, now: float) -> None:
        """Add a candidate to the dead letters of its queue, with the rank that it takes if it is replayed."""
        tables = self._tables
        queue = tables.queues.find_or_create(candidate.queue)
        tables.counters.ordinal = ordinal = tables.counters.ordinal + 1
        tables.counters.buried += 1
        tables.dead_letters.add(queue, _key(queue.id, candidate, ordinal), candidate.value, reason, now)
        if tables.urls is not None:
            tables.urls.completed(fingerprint, candidate.queue, candidate.short)


def _key(queue_id: int, candidate: UriCandidate, ordinal: int) -> bytes:
    uri = candidate.uri
    arrival = uri_order.arrival(ordinal, lifo=candidate.settings.lifo)
    if uri is None and candidate.own_precedence is None:  # as of most: saves a fifth of a batch
        return keys.pending.pack(queue_id, NORMAL, PRIORITY_ZERO, candidate.cost, arrival)
    directive, priority = (NORMAL, 0) if uri is None else (uri.directive, uri.priority)
    rank = uri_order.rank(directive, priority, candidate.cost, arrival, candidate.own_precedence)
    return keys.pending.pack_rank(queue_id, *rank)


def _is_for_later(tables: Tables, uri: CrawlUri, now: float) -> bool:
    """Return whether a URI has a `not_before` ahead.

    In a frontier that keeps its URLs, a past one counts, too: URLs go to their queues in the order of their dates.
    """
    return uri.not_before is not None and (uri.not_before > now or tables.urls is not None)


def _postpone(tables: Tables, candidate: UriCandidate, uri: CrawlUri) -> None:
    """Schedule a candidate for later: when its `not_before` has come, it goes where its rank says."""
    numbers = uri_order.rank(uri.directive, uri.priority, candidate.cost, 0, candidate.own_precedence)
    queue = tables.queues.find_or_create(candidate.queue)
    due = max(EARLIEST, uri.not_before or 0.0)
    tables.future.add(queue, keys.rank.pack_rank(*numbers), candidate.value, due)
