"""Offers of copies: which worker takes a partition whose own worker has no copy that fits its log. Pure rules.

The worker that Kafka has given such a partition to searches for another one, which it says every few seconds. Workers
whose folders have a copy that fits offer it, by its position; the one with the latest takes the partition. Nothing is
said while no partition is searched for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

EVERY: Final = 5.0
"""Seconds between two steps of a worker."""
_DECIDED: Final = 1.5 * EVERY
"""Seconds after an offer in which others may be made."""
_OVER: Final = 3 * EVERY
"""Seconds without a word after which a search is over."""
_BEATS: Final = 12
"""The number of times that a search is said: then another begins, for whoever has taken the partition may be gone."""

Search = tuple[int, bytes]
"""A partition, and the random name of one search for it."""


class CopyNotice(msgspec.Struct, array_like=True, frozen=True):
    """A worker's word on a partition: `position` is that of the copy that it offers; None: it searches for one."""

    partition: int
    worker: str
    search: bytes
    """The random name of the search; empty: the worker searches no more."""
    beat: int
    """The number of times that the search was said: one that is not said again is of a worker that is gone."""
    position: int | None
    why: str = ""
    """Why the worker does not serve the partition that it was given; empty in an offer, and once it does."""
    at: float = 0.0
    """When the broker has stored it (epoch seconds of its clock)."""

    @property
    def key(self) -> str:
        """The name of the row that this notice replaces."""
        return f"{self.partition}/{'search' if self.position is None else 'offer'}/{self.worker}"


class _OtherSearch:
    """A search of another worker."""

    def __init__(self, worker: str, beat: int, now: float) -> None:
        self.worker, self.beat, self.at = worker, beat, now
        self.is_alive = False
        self.offers: dict[str, int] = {}
        self.offered_at: float | None = None
        self.is_decided = False


class CopyOffers:
    """The searches and offers of one worker."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._mine: dict[int, tuple[bytes, int]] = {}
        """By partition that this worker searches for: the name of the search, and how often it was said."""
        self._waiting: set[int] = set()
        self._heard: dict[Search, _OtherSearch] = {}

    def __repr__(self) -> str:
        return f"<CopyOffers of {self._worker}: searches for {sorted(self._mine)}>"

    def step(
        self,
        now: float,
        lacking: Mapping[int, str],
        found: Iterable[CopyNotice],
        position: Callable[[int], int | None],
        waiting: Mapping[int, str],
    ) -> tuple[list[CopyNotice], list[int]]:
        """Return the notices to publish, and the partitions that this worker adopts. Called every few seconds.

        `lacking` are partitions that this worker was given without a copy here, each with the reason, `waiting` those
        whose copies it waits for; `found` are the last notices of all. `position(partition)` is that of a copy here
        that fits, None if there is none.
        """
        self._hear(now, found)
        said, taken = self._search(lacking, waiting), list[int]()
        for search, heard in self._heard.items():
            number, name = search
            if not heard.is_alive or heard.is_decided:
                continue
            if heard.offered_at is None:
                offered = position(number)
                if offered is not None:
                    heard.offered_at = now
                    heard.offers[self._worker] = offered
                    said.append(CopyNotice(number, self._worker, name, heard.beat, offered))
            elif now - heard.offered_at >= _DECIDED:
                heard.is_decided = True
                if max(heard.offers, key=lambda worker: (heard.offers[worker], worker)) == self._worker:
                    taken.append(number)
        return said, taken

    def _search(self, lacking: Mapping[int, str], waiting: Mapping[int, str]) -> list[CopyNotice]:
        """Return the own searches, each said once more, what is waited for, and the ends of those that are over."""
        others = (self._mine.keys() | self._waiting | waiting.keys()) - lacking.keys()
        self._waiting = {*waiting}
        told = [CopyNotice(number, self._worker, b"", 0, None, waiting.get(number, "")) for number in sorted(others)]
        before = {number: search for number, search in self._mine.items() if search[1] < _BEATS}
        self._mine = {
            number: (name, beat + 1) for number in lacking for name, beat in [before.get(number) or (os.urandom(8), 0)]
        }
        return told + [
            CopyNotice(number, self._worker, *search, None, lacking[number]) for number, search in self._mine.items()
        ]

    def _hear(self, now: float, found: Iterable[CopyNotice]) -> None:
        for notice in found:
            search = notice.partition, notice.search
            if notice.worker == self._worker:
                continue
            if not notice.search:
                self._end(notice)
            elif notice.position is None:
                heard = self._heard.setdefault(search, _OtherSearch(notice.worker, notice.beat, now))
                if notice.beat > heard.beat:
                    heard.beat, heard.at, heard.is_alive = notice.beat, now, True
            elif search in self._heard:
                self._heard[search].offers[notice.worker] = notice.position
        for heard in self._heard.values():
            heard.is_alive &= now - heard.at <= _OVER

    def _end(self, notice: CopyNotice) -> None:
        for (number, _), heard in self._heard.items():
            if (number, heard.worker) == (notice.partition, notice.worker):
                heard.is_alive = False
