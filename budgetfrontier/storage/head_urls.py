"""The URLs and labels at the heads of queues, by which settings in force are looked up."""

from __future__ import annotations

from functools import cached_property

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.storage import keys
from budgetfrontier.storage.uri_values import subject_of, tries, url_of
from budgetfrontier.storage.view import View

NO_URL = "http://none.invalid/"
"""The URL that settings are looked up by for a queue without a known URL."""


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
        value = self._value(queue)
        return None if value is None else url_of(value, queue.queue)

    def subject(self, queue: QueueRecord) -> tuple[str | None, str | None]:
        """Return the URL and the label of a queue's head; both None if the queue is empty."""
        value = self._value(queue)
        return (None, None) if value is None else subject_of(value, queue.queue)

    def attempts(self, queue: QueueRecord) -> int:
        """Return how many attempts of a queue's head have failed; 0 if the queue is empty."""
        value = self._value(queue)
        return 0 if value is None else tries(value)[0]

    def _value(self, queue: QueueRecord) -> bytes | None:
        prefix, cursor = keys.u32.pack(queue.id), self._cursor
        if not queue.queued or not cursor.set_range(prefix):
            return None
        if not queue.out:
            return cursor.value()
        key, first = cursor.item()
        value = first
        while key in self._out:
            key, value = cursor.item() if cursor.next() else (b"", b"")
        if key[:4] != prefix:  # all are leased
            value = first
        return value
