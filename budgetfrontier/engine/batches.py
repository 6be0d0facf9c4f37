"""Batches of URIs, admitted or marked as seen: part by part, each an operation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TypeGuard

from budgetfrontier.core.model import Admission, CrawlUri, Tally
from budgetfrontier.engine import arguments
from budgetfrontier.engine.admission.admit import Admitter
from budgetfrontier.engine.guard import Guard

BATCH = 1000
"""URIs taken from a caller's iterable at a time, and between two looks at the clock."""
PART = 8 << 20
"""Bytes of payloads and bodies in one operation."""
_EMPTY = b""  # there is only one


class Batches:
    """Admits batches of URIs in order. Memory is bounded, whatever the length of the iterable."""

    def __init__(self, guard: Guard, admitter: Admitter) -> None:
        self._guard = guard
        self._admitter = admitter

    def schedule(self, uris: Iterable[str | CrawlUri], found: bool | None = None) -> Tally:
        """Admit a batch; count the results. `found` is that of `Tables.count_found`."""
        guard = self._guard

        def take(part: list[str | CrawlUri], tally: Tally) -> None:
            before = tally.added
            self._admitter.take(part, tally, guard.now())
            guard.tables.count_found(tally.added - before, found)

        return self._count(uris, take)

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool) -> Tally:
        """Mark a batch as seen; with `charge`, charge the queues of URIs not seen before."""
        mark, now = self._admitter.mark_seen, self._guard.now
        return self._count(uris, lambda part, tally: mark(part, tally, now(), charge=charge))

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch; return the result for each URI. The whole batch is in memory."""
        guard = self._guard
        guard.enter()
        admissions: list[Admission] = []

        def take(part: list[str | CrawlUri]) -> None:
            found = self._admitter.take_each(part, guard.now())
            guard.tables.count_found(found.count(Admission.ADDED))
            admissions.extend(found)

        for part in parts(guard.materialize(uris)):
            guard.operate(partial(take, part), changes=len(part))
        return admissions

    def _count(self, uris: Iterable[str | CrawlUri], take: Callable[[list[str | CrawlUri], Tally], None]) -> Tally:
        guard = self._guard
        guard.enter()
        arguments.several(uris)
        tally = Tally()
        remaining = iter(uris)
        while batch := guard.materialize(islice(remaining, BATCH)):
            for part in parts(batch):
                guard.operate(partial(take, part, tally), changes=len(part))
        return tally


def parts(batch: list[str | CrawlUri]) -> Iterator[list[str | CrawlUri]]:
    """Yield a batch in parts that carry no more than PART bytes each, unless one URI alone does."""
    if set(map(type, batch)) <= {str} or not any(map(carries, batch)):  # the common cases
        yield batch
        return
    part: list[str | CrawlUri] = []
    size = 0
    for uri in batch:
        if isinstance(uri, CrawlUri):
            carried = bytes_carried(uri)
            if part and size + carried > PART:
                yield part
                part, size = [], 0
            size += carried
        part.append(uri)
    yield part


def carries(uri: object) -> TypeGuard[CrawlUri]:
    """Return whether a URI has a payload or a body."""
    return isinstance(uri, CrawlUri) and (uri.payload is not None or uri.body is not _EMPTY)


def bytes_carried(uri: CrawlUri) -> int:
    """Return the bytes of the payload and the body of a URI."""
    try:
        return len(uri.payload or b"") + len(uri.body or b"")
    except (TypeError, ValueError):
        return 0  # not bytes, or an array with a truth value that raises: it will be INVALID
