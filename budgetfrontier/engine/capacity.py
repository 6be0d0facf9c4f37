"""Admission where only so many URIs may be queued: for interfaces with a `maxsize`, in this process or served."""

from __future__ import annotations

from budgetfrontier.core.model import Admission, CrawlUri, Tally
from budgetfrontier.engine.batches import parts
from budgetfrontier.engine.frontier import Frontier
from budgetfrontier.errors import PolicyError
from budgetfrontier.rules.admission_limits import MAXSIZE

Result = Admission | PolicyError
"""An admission, or the error of a policy, which affects no other URI."""


def admit_each(
    frontier: Frontier, uris: list[str | CrawlUri], maxsize: int = 0, *, again: bool = False
) -> list[Result]:
    """Admit URIs in order, while fewer than `maxsize` (0: no limit) are queued and not leased; the others are FULL.

    `again` is for URIs that were FULL before: another try that is in vain is not counted as a refusal.
    """
    results: list[Result] = []
    if again:
        for uri in uris:
            if _room(frontier, 1, maxsize) <= 0:
                break
            results.append(_admit(frontier, uri) if _has_room(frontier, uri) else Admission.FULL)
    else:
        while (room := _room(frontier, len(uris) - len(results), maxsize)) > 0:
            fitting = uris[len(results) : len(results) + room]
            for part in parts(fitting):  # each is one operation: all are admitted, or none
                try:
                    results += frontier.schedule_each(part)
                except PolicyError:  # raised for one URI; the others must not fail with it
                    results += [_admit(frontier, each) for each in part]
    return results + [Admission.FULL] * (len(uris) - len(results))


def admit_many(frontier: Frontier, uris: list[str | CrawlUri], maxsize: int = 0) -> Tally:
    """Admit URIs like `admit_each`; count the results. Raises PolicyError."""
    tally, rest = Tally(), uris
    while rest and (room := _room(frontier, len(rest), maxsize)) > 0:
        tally.add(frontier.schedule_many(rest[:room]))
        rest = rest[room:]
    for _ in rest:
        tally.find_full(MAXSIZE)
    return tally


def _room(frontier: Frontier, wanted: int, maxsize: int) -> int:
    """Return how many of `wanted` URIs may be admitted together: each of them takes the room of one at the most."""
    return min(wanted, maxsize - frontier.waiting()) if maxsize else wanted


def _admit(frontier: Frontier, uri: str | CrawlUri) -> Result:
    try:
        return frontier.schedule(uri)
    except PolicyError as e:
        return e


def _has_room(frontier: Frontier, uri: str | CrawlUri) -> bool:
    try:
        return frontier.internals.has_room(uri)
    except PolicyError:
        return True  # `schedule` says so
