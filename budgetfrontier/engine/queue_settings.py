"""The settings of a queue: those of the URI placed last, or of its head at activation and after a change of settings.

A queue stores the values (replenish amount, total budget, precedence) with the revision of the settings. At an older
revision they are read again: by a turn, and before any change of the head (a finish, the loss of a lease, a deletion).
So the head is that of the change. `Turns.arrived` takes the values from arrivals.
"""

from __future__ import annotations

from budgetfrontier.core.model import CrawlUri, QueueRecord
from budgetfrontier.engine.live_queue import record_of
from budgetfrontier.engine.tables import Tables
from budgetfrontier.errors import PolicyError
from budgetfrontier.rules import budgets
from budgetfrontier.settings.overrides import QueueSettings
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.records import expanded
from budgetfrontier.storage.uri_values import decode_uri


class SettingsOfQueues:
    """Lets queues take budgets and precedence from their URIs. O(1), and a look at the head where it is needed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def asked(self, queue: QueueRecord, uri: CrawlUri) -> tuple[QueueSettings, int]:
        """Return the settings in force for a URI of a queue, and the precedence it asks for. Raises PolicyError."""
        in_force = self._tables.in_force
        settings = in_force.for_uri(uri.url, queue.queue, uri.source)
        return settings, in_force.precedence(uri, settings)

    def take_budgets(
        self, queue: QueueRecord, settings: QueueSettings, precedence: int | None, lowest: int | None = None
    ) -> None:
        """Set replenish amount, total budget and precedence of a queue.

        `precedence` is the result of a policy for the URI; None: that of the settings. `lowest` is as for `of_queue`.
        """
        budgets.take_budgets(queue, settings, self._tables.counters.settings_revision)
        if precedence is None:
            precedence = settings.precedence
        if self._tables.in_force.ranks_queues:
            precedence = self.of_queue(queue, precedence, lowest)
        if precedence != queue.precedence:
            self._tables.rotation.set_precedence(queue, precedence)

    def of_queue(self, queue: QueueRecord, precedence: int, lowest: int | None = None) -> int:
        """Return the precedence of a queue that takes `precedence` from a URI.

        `lowest` is the lowest precedence of URIs that arrive and are not in the table yet.
        """
        in_force = self._tables.in_force
        if in_force.ranks_by_uris:
            stored = self._tables.pending.lowest_precedence(queue.id)
            lowest = stored if lowest is None or (stored is not None and stored < lowest) else lowest
        return in_force.of_queue(queue, precedence, lowest)

    def steps_back(self, queue: QueueRecord, precedence: int) -> bool:
        """Move the front INACTIVE queue to the FIFO of its precedence if that is beyond the one it is in.

        So it is if the URIs with the lowest precedence were deleted. `precedence` is the one its head asks for.
        """
        if not self._tables.in_force.ranks_by_uris or (found := self.of_queue(queue, precedence)) <= queue.precedence:
            return False
        self._tables.rotation.set_precedence(queue, found)
        self._tables.rotation.apply_floor(queue)
        return True

    def refresh(self, queue: QueueRecord) -> None:
        """Set budgets and precedence to those of the head URI, if settings have changed since they were read.

        If a policy cannot compute the precedence, the old one stays, and so does the revision: it is called again on
        the queue's turn, and `lease` raises.
        """
        if queue.revision != self._tables.counters.settings_revision:
            settings, precedence = self._asked_by_head(queue)
            if settings is not None and precedence is not None:
                self.take_budgets(queue, settings, precedence)
            elif settings is not None:
                budgets.take_budgets(queue, settings, queue.revision)

    def rank(self, queue: QueueRecord) -> None:
        """Evaluate the precedence of a queue again, which depends on the queue itself; its head is asked for the rest.

        If a policy cannot compute it, the old one stays.
        """
        _, precedence = self._asked_by_head(queue)
        if precedence is not None:
            self._tables.rotation.set_precedence(queue, self.of_queue(queue, precedence))

    def look_up(self, key: str) -> QueueRecord | None:
        """Return a copy of the record of a queue key as it stands now; None if there is no such queue."""
        queue = self._tables.queues.look_up(key)
        return None if queue is None else expanded(self.as_it_stands(queue))

    def as_it_stands(self, queue: QueueRecord) -> QueueRecord:
        """Return a copy with the current settings; the queue itself is not moved."""
        shown = record_of(queue)
        if queue.revision != self._tables.counters.settings_revision:
            settings, precedence = self._asked_by_head(queue)
            if settings is not None:
                budgets.take_budgets(shown, settings, queue.revision)
            if precedence is not None:
                shown.precedence = self.of_queue(shown, precedence)
        return shown

    def _asked_by_head(self, queue: QueueRecord) -> tuple[QueueSettings | None, int | None]:
        """Return the settings of the head URI, as far as they can be computed; without one, those of any URI."""
        in_force, head = self._tables.in_force, self._tables.pending.head(queue.id)
        if head is None:
            return (in_force.base if in_force.trivial else None), None
        uri = decode_uri(head[1], queue.queue)
        settings = in_force.for_uri(uri.url, queue.queue, uri.source)
        try:
            return settings, in_force.precedence(uri, settings)
        except PolicyError:
            return settings, None

    def settings_of(self, queue: QueueRecord) -> QueueSettings:
        """Return the settings in force for the head URI of a queue that has one."""
        head = self.head_uri(queue)
        return self._tables.in_force.for_uri(head.url, queue.queue, head.source)

    def head_uri(self, queue: QueueRecord) -> CrawlUri:
        """Return the head URI of a queue that has one."""
        head = self._tables.pending.head(queue.id)
        if head is None:
            raise Damage(f"queue {queue.queue} counts {queue.queued} URIs, and holds none")
        return decode_uri(head[1], queue.queue)
