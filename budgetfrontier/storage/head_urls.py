"""The URLs at the heads of queues, by which settings in force are looked up."""

from __future__ import annotations

from functools import cached_property

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import tries, url_of
from budgetfrontier.storage.view import View

_u32 = keys.u32.pack

NO_URL = "http://none.invalid/"
"""The URL whose settings are those of a queue of which no URL is known."""


class HeadUrls:
    """The head URLs of queues: of each, the first URI that is not leased, or the first of all if all are."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._cursor = view.txn.cursor(view.db[keys.PENDING])

    @cached_property
    def _out(self) -> frozenset[bytes]:
        return frozenset(self._view.leased_keys())

    def url(self, queue: QueueRecord) -> str | None:
        """Return the URL of a queue's head; None if the queue is empty."""
        cursor = self._cursor
        if not queue.queued or not cursor.set_range(_u32(queue.id)):
            return None
        return url_of(self._not_leased(queue.id) if queue.out else cursor.value(), queue.queue)

    def attempts(self, queue: QueueRecord) -> int:
        """Return how many attempts of a queue's head have failed; 0 if the queue is empty."""
        if not queue.queued or not self._cursor.set_range(_u32(queue.id)):
            return 0
        return tries(self._not_leased(queue.id))[0]

    def _not_leased(self, queue_id: int) -> bytes:
        """Return the value of the first URI of a queue, at which the cursor is, or after it, that is not leased."""
        prefix, cursor = _u32(queue_id), self._cursor
        key, first = cursor.item()
        value = first
        while key in self._out:
            key, value = cursor.item() if cursor.next() else (b"", b"")
        return value if key[:4] == prefix else first
