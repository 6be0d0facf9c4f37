"""The looks at a partition for the kinds of reports besides that of the frontier: what is merged by the operator."""

from __future__ import annotations

from typing import Any

import msgspec

from budgetfrontier.model import DeadLetter, Run
from budgetfrontier.reports import over_time
from budgetfrontier.rules.forecasts import Held
from budgetfrontier.store.reader import Reader
from budgetfrontier.store.seed_places import Place, seed_places
from budgetfrontier.store.series import Busiest, SeriesRow
from budgetfrontier.store.view import PendingUri


class SeedPlace(msgspec.Struct):
    """The place of a seed: the fields of `store.seed_places.Place`, with a record of either kind."""

    queue: str
    seen: bool
    pending: PendingUri | None
    letter: DeadLetter | None
    may_wait: bool
    waits: bool

    def place(self) -> Place:
        """Return the place itself."""
        return Place(self.queue, self.seen, self.pending or self.letter, self.may_wait, self.waits)


def series(reader: Reader, *, since: float, now: float) -> list[SeriesRow]:
    """Return the totals over a time until now. O(minutes, at most 2,200)."""
    with reader.view() as view:
        return over_time.read(view, since, now)


def busiest(reader: Reader, *, since: float, until: float) -> Busiest:
    """Return the busiest queues of a time. O(hours)."""
    return reader.busiest(since, until)


def held(reader: Reader) -> Held:
    """Return what queues hold. O(queues)."""
    with reader.view() as view:
        return over_time.held(view)


def runs(reader: Reader) -> list[Run]:
    """Return when workers had the partition, as far as this copy of it knows."""
    return reader.runs()


def seeds(reader: Reader, *, queues: dict[str, str]) -> dict[str, SeedPlace]:
    """Return the places of seeds, which are given with the queues forced on them. O(queues + seeds)."""
    with reader.view() as view:
        found = seed_places(view, queues, queues=queues)
    return {url: _seed_place(place) for url, place in found.items()}


def _seed_place(place: Place) -> SeedPlace:
    record: Any = place.record
    letter = record if isinstance(record, DeadLetter) else None
    pending = None if letter is not None else record
    return SeedPlace(place.queue, place.seen, pending, letter, place.may_wait, place.waits)
