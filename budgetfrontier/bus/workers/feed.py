"""The sender of requests to the spider feed, as long as spiders keep up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from budgetfrontier.bus.interface import Bus, TooLarge
from budgetfrontier.bus.outbox import Item, Outbox
from budgetfrontier.bus.streams import SPIDERS, Stream

LOOK_AGAIN = 0.25
"""Seconds between two looks at the lag, as long as a partition is filling."""


class Feed:
    """The spider feed. A partition has room for `limit` requests that its spider has not taken yet.

    Requests sent since the last look count as not taken, so that the lag is asked for only when room runs out.
    """

    def __init__(
        self,
        bus: Bus,
        stream: Stream,
        limit: int,
        now: Callable[[], float],
        *,
        too_large: Callable[[TooLarge], Iterable[Item]],
    ) -> None:
        self.partitions = stream.partitions
        self._bus, self._stream, self._limit, self._now = bus, stream, limit, now
        self._outbox = Outbox(bus, stream, too_large=too_large)
        self._not_taken: list[int] | None = None
        self._looked = 0.0

    def room(self) -> list[int]:
        """Return the number of requests that each partition has room for. Raises BusError."""
        if self._not_taken is None or (max(self._not_taken) > self._limit // 2 and self._may_look()):
            self._not_taken = self._bus.lag(self._stream, SPIDERS)
            self._looked = self._now()
        return [max(0, self._limit - waiting) for waiting in self._not_taken]

    def send(self, requests: Sequence[Item]) -> None:
        """Send requests, each to its partition, after those left from earlier calls.

        Returns once the broker has them. Raises BusError; with BusAway, call it again, without requests.
        """
        self._outbox.add(requests)
        for partition, _ in requests:
            if self._not_taken is not None:
                self._not_taken[partition] += 1
        self._outbox.flush()

    def close(self) -> None:
        """Send waiting requests, and close. Raises BusError."""
        self._outbox.close(1.0)

    def _may_look(self) -> bool:
        return not 0.0 <= self._now() - self._looked < LOOK_AGAIN
