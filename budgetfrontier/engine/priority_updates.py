"""Duplicates that are more urgent than the URI that waits: with `frontier.update_priority` it takes their priority."""

from __future__ import annotations

from collections.abc import Callable

from budgetfrontier.engine.queue_settings import SettingsOfQueues
from budgetfrontier.engine.tables import Tables
from budgetfrontier.rules import uri_order
from budgetfrontier.storage import keys
from budgetfrontier.storage.kept_places import future_key


class PriorityUpdates:
    """Moves a waiting URI's record to the rank that a duplicate asks for, if that is further to the front.

    The record keeps everything else: its payload, cost, age, attempts, deliveries, queue, and due time. One look-up,
    and three puts for a move. `busy` returns whether a command is reading through the tables in the order of their
    keys: meanwhile nothing is moved.
    """

    def __init__(self, tables: Tables, settings: SettingsOfQueues, busy: Callable[[], bool]) -> None:
        self._tables = tables
        self._settings = settings
        self._busy = busy

    def update(self, fingerprint: bytes, directive: int, priority: int) -> None:
        """Take the directive and the priority of a duplicate. Nothing if its URI is leased, or waits for nothing."""
        tables = self._tables
        row = None if tables.urls is None else tables.urls.find(fingerprint)
        if row is None or not row.place or self._busy():
            return
        later = future_key(row.place)
        if later is not None:
            rank = uri_order.more_urgent(keys.rank.unpack(tables.future.rank(later)), directive, priority)
            if rank is not None:
                tables.future.replace_rank(later, keys.rank.pack_rank(*rank))
        elif row.place not in tables.pending.taken:
            queue_id, *before = keys.pending.unpack(row.place)
            rank = uri_order.more_urgent(tuple(before), directive, priority)
            if rank is not None:
                self._settings.refresh(tables.queues.get(queue_id))  # from the head of now, which may be another then
                tables.pending.move(queue_id, row.place, keys.pending.pack_rank(queue_id, *rank))
