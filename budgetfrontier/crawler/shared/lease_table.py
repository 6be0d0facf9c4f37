"""The table of the leases that a crawler holds, with their deadlines by its own clock."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from budgetfrontier.core.model import Lease


class LeaseTable:
    """The leases of one process: those that wait for a fetcher, those of visits, and those whose end is not sent yet.

    Times are those of `time.monotonic`, because the clock of the server may be another one.
    """

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._leases: dict[int, Lease] = {}
        self._ready: deque[Lease] = deque()
        self._visited: set[int] = set()

    def __repr__(self) -> str:
        return f"<LeaseTable: {len(self._ready)} ready, {len(self._visited)} visited, {len(self._leases)} in all>"

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def ready(self) -> int:
        """The number of leases that wait for a fetcher."""
        return len(self._ready)

    @property
    def visited(self) -> int:
        """The number of leases whose visits have not ended."""
        return len(self._visited)

    def add(self, leases: Iterable[Lease], until: float) -> None:
        """Add leases that have arrived, and last until a time."""
        for lease in leases:
            self._until[lease.id], self._leases[lease.id] = until, lease
            self._ready.append(lease)

    def take(self, count: int, now: float) -> list[Lease]:
        """Return up to `count` leases for visits. Those that have expired while they waited are dropped."""
        taken: list[Lease] = []
        while self._ready and len(taken) < count:
            lease = self._ready.popleft()
            if self._until[lease.id] > now:
                self._visited.add(lease.id)
                taken.append(lease)
            else:
                self.drop(lease)
        return taken

    def take_back(self) -> list[Lease]:
        """Return all leases that wait for a fetcher, and forget them."""
        ready, self._ready = [*self._ready], deque()
        for lease in ready:
            self.drop(lease)
        return ready

    def lasts(self, lease: Lease, until: float) -> bool:
        """Tell whether a lease lasts until a time, as far as is known."""
        return self._until.get(lease.id, 0.0) >= until

    def visit_ended(self, lease: Lease) -> None:
        """Note that a visit has ended; its lease lasts until that is sent."""
        self._visited.discard(lease.id)

    def drop(self, lease: Lease) -> None:
        """Forget a lease that has ended."""
        self._visited.discard(lease.id)
        self._until.pop(lease.id, None)
        self._leases.pop(lease.id, None)

    def all(self) -> list[Lease]:
        """Return all leases."""
        return [*self._leases.values()]

    def renew(self, leases: Iterable[Lease], late: Iterable[Lease], until: float) -> None:
        """Note that leases last until a later time, but for those that were too late."""
        ended = {lease.id for lease in late}
        for lease in leases:
            if lease.id in self._until:
                self._until[lease.id] = 0.0 if lease.id in ended else until
