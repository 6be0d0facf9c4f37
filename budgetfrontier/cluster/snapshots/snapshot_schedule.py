"""The schedule of snapshots: by time, one at a time, and spread over the time between two of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GOLDEN: Final = 0.6180339887498949
"""Multiples of it, without their whole part, are spread evenly however many there are."""
RETRY: Final = 0.25
"""After this part of the time between two snapshots, one that has failed is tried again."""


class Schedule:
    """Chooses the partition of the next snapshot. The times are those of the caller's clock."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._due: dict[int, float] = {}
        self._stored: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"<Schedule of {len(self._due)} partitions, every {self._every:g} s>"

    def next(self, positions: Mapping[int, int], now: float) -> int | None:
        """Return the partition whose snapshot is due first, among those that this worker has, by their positions."""
        for number in self._due.keys() - positions.keys():
            del self._due[number]
            self._stored.pop(number, None)
        for number in positions.keys() - self._due.keys():
            self._due[number] = now + self._every * (number * GOLDEN % 1.0)
        due = [(at, number) for number, at in self._due.items() if at <= now]
        for _, number in sorted(due):
            if positions[number] > self._stored.get(number, -1):
                return number
            self._due[number] = now + self._every  # nothing has happened to it
        return None

    def taken(self, number: int, position: int, now: float) -> None:
        """Take note of a snapshot."""
        if number in self._due:
            self._due[number] = now + self._every
            self._stored[number] = position

    def failed(self, number: int, now: float) -> None:
        """Take note of a snapshot that could not be taken."""
        if number in self._due:
            self._due[number] = now + self._every * RETRY
