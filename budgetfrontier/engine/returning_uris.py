"""URIs that come back to their queues: those scheduled for later that are due, and dead letters that are replayed."""

from __future__ import annotations

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.tables import Tables
from budgetfrontier.engine.turns import Turns
from budgetfrontier.engine.url_table import Arrival
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.rules.uri_order import arrival
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import decode_uri, short_url

MAX_DUE = 500  # URIs that waited for their time, in one call


class Returns:
    """Puts URIs that come back on their queues. Only `asked_precedence` calls a policy."""

    def __init__(self, tables: Tables, turns: Turns) -> None:
        self._tables = tables
        self._turns = turns

    def asked_precedence(self, queue_id: int, value: bytes) -> int | None:
        """Return the precedence for `place`, if a policy determines it. Raises PolicyError."""
        if not self._tables.in_force.asks_precedence:
            return None
        queue = self._tables.queues.look(queue_id)
        return self._turns.settings.asked(queue, decode_uri(value, queue.queue))[1]

    def place(
        self, queue: QueueRecord, rank: bytes, value: bytes, precedence: int | None, now: float, why: Arrival
    ) -> None:
        """Put one URI on its queue. An ordinal of 0 in `rank` means that it arrives now."""
        tables = self._tables
        directive, priority, precedence_or_cost, ordinal, *cost = keys.rank.unpack(rank)
        uri = decode_uri(value, queue.queue)
        settings = tables.in_force.for_uri(uri.url, queue.queue, uri.source)
        if not ordinal:
            tables.counters.ordinal = ordinal = tables.counters.ordinal + 1
            ordinal = arrival(ordinal, lifo=settings.lifo)
        key = keys.pending.pack_rank(queue.id, directive, priority, precedence_or_cost, ordinal, *cost)
        tables.pending.insert([(key, value)], None, why)
        if why is not Arrival.MOVED:
            tables.seeds.moved(directive, value, queue.queue, SeedFate.WAITING, now)
        hold = why is Arrival.RETURNED
        self._turns.arrived(queue, 1, short_url(value), settings, precedence, now, hold=hold)

    def place_due(self, now: float) -> None:
        """Put the URIs scheduled for later that are due on their queues, by due time; a few hundred in one call."""
        tables, future = self._tables, self._tables.future
        if future.held or now < future.next_due:
            return
        precedences = iter(self._asked_precedences(now))
        rows = future.take_due(now, MAX_DUE)
        for queue, row in zip(tables.queues.each(row.queue for row in rows), rows, strict=True):
            self.place(queue, row.rank, row.value, next(precedences, None), now, Arrival.MOVED)
        self._turns.cut_short |= len(rows) == MAX_DUE

    def _asked_precedences(self, now: float) -> list[int | None]:
        """Return the precedences of the URIs that are due, before any of them is placed."""
        if not self._tables.in_force.asks_precedence:
            return []
        return [self.asked_precedence(row.queue, row.value) for row in self._tables.future.due(now, MAX_DUE)]
