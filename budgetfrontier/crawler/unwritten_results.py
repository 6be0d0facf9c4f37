"""The results of visits that wait to be written to the outputs while these are synced."""

from __future__ import annotations

from typing import NamedTuple

from budgetfrontier.core.model import Lease
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.visit import Visit

MOST_HELD = 64 << 20
"""Bytes of results from which on no further visits end, and none begin, until the outputs are synced."""
_OWN, _PER_URI = 2048, 512  # bytes that a result and each URI found in it take in memory besides the body, about


class Result(NamedTuple):
    """The result of the visit of a lease by the worker `slot`: a visit to write, or a lease to put back."""

    lease: Lease
    visit: Visit | PutBack
    slot: int


class UnwrittenResults:
    """Results in the order of their visits' ends, and about how many bytes of memory they take."""

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._results)

    @property
    def full(self) -> bool:
        """Whether these are as many bytes as may be held."""
        return self._size >= MOST_HELD

    @property
    def leases(self) -> list[Lease]:
        """The leases of the results, which have not ended."""
        return [result.lease for result in self._results]

    def add(self, result: Result) -> None:
        """Hold a result."""
        self._results.append(result)
        self._size += _OWN
        if isinstance(result.visit, Visit):
            raw, body = result.visit.response.raw, result.visit.response.body
            self._size += len(raw) + (len(body) if body is not raw else 0) + _PER_URI * len(result.visit.discovered)

    def take(self) -> list[Result]:
        """Return all results, and hold none."""
        results, self._results, self._size = self._results, [], 0
        return results
