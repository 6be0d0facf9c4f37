"""The limits in force for admissions: whether a whole batch has room, and whether one URI has."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from budgetfrontier.core.model import CrawlUri
from budgetfrontier.engine.admission.read_batch import UriCandidate
from budgetfrontier.engine.tables import Tables
from budgetfrontier.rules import admission_limits
from budgetfrontier.rules.queue_states import INELIGIBLE

_NONE = float("inf")


class Limits:
    """Compares totals with `max_queued` and `bloom.expected`, and the size of a queue with its `max_queue_size`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def have_room(self, candidates: Collection[UriCandidate]) -> bool:
        """Return whether all candidates fit in, even if all are new: then none of them can be FULL."""
        tables = self._tables
        in_force = tables.in_force
        if not in_force.has_limits:
            return True
        if tables.filter is not None and not tables.filter.has_room(len(candidates)):
            return False
        if not self._has_room(len(candidates), (one.queue for one in candidates)):
            return False
        if not (in_force.base.max_queue_size or in_force.effective.limits_queues):
            return True
        more: dict[str, int] = {}
        least: dict[str, int] = {}  # of the limits that its URIs have, where overrides give them different ones
        for candidate in candidates:
            name, limit = candidate.queue, candidate.settings.max_queue_size
            more[name] = more.get(name, 0) + 1
            if limit and limit < least.get(name, _NONE):
                least[name] = limit
        return all(
            admission_limits.has_room(limit, self._queue_size(name), more[name]) for name, limit in least.items()
        )

    def have_room_for(self, more: dict[str, int]) -> bool:
        """Return the same for URIs that all have the same settings, given by the number for each queue."""
        limit = self._tables.in_force.base.max_queue_size
        return self._has_room(sum(more.values()), more) and (
            limit <= 0 or all(admission_limits.has_room(limit, self._queue_size(name), n) for name, n in more.items())
        )

    def _has_room(self, count: int, names: Iterable[str]) -> bool:
        """Return whether `max_queued` leaves room for so many URIs of some queues."""
        limit, queued = self._tables.in_force.frontier.max_queued, self._tables.counters.queued
        if limit and self._tables.counters.ineligible:
            queued += self._may_be_revived(names)
        return admission_limits.has_room(limit, queued, count)

    def reached(self, candidate: UriCandidate, via: CrawlUri | None) -> str | None:
        """Return the limit for which there is no room for a URI that is new, as of now; None if there is room."""
        tables = self._tables
        name, settings, uri = candidate.queue, candidate.settings, candidate.uri
        queued, frontier = tables.counters.queued, tables.in_force.frontier
        limit = admission_limits.limit_reached(
            frontier, settings, queued=queued, queue_size=lambda: self._queue_size(name)
        )
        if limit is not None and not admission_limits.may_overfill(uri, via):
            return limit
        if tables.filter is not None and not (uri is not None and uri.force) and not tables.filter.has_room(1):
            return admission_limits.BLOOM_EXPECTED
        return None

    def _may_be_revived(self, names: Iterable[str]) -> int:
        """Return how many URIs count as queued again if others make some INELIGIBLE queues INACTIVE."""
        queues = (self._tables.queues.look_up(name) for name in set(names))
        return sum(queue.queued for queue in queues if queue is not None and queue.state is INELIGIBLE)

    def _queue_size(self, name: str) -> int:
        queue = self._tables.queues.look_up(name)
        return 0 if queue is None else queue.queued
