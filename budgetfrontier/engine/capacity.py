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
    if not maxsize and not again:
        for part in parts(uris):  # each is one operation: if a policy fails for one of its URIs, none is admitted
            try:
                results += frontier.schedule_each(part)
            except PolicyError:  # raised for one URI; the others must not fail with it
                results += [_admit(frontier, uri) for uri in part]
        return results
    for uri in uris:
        if is_full(frontier, maxsize):
            return results + [Admission.FULL] * (len(uris) - len(results))
        if again and not _has_room(frontier, uri):
            results.append(Admission.FULL)
        else:
            results.append(_admit(frontier, uri))
    return results


def admit_many(frontier: Frontier, uris: list[str | CrawlUri], maxsize: int = 0) -> Tally:
    """Admit URIs like `admit_each`; count the results. Raises PolicyError."""
    if not maxsize:
        return frontier.schedule_many(uris)
    tally = Tally()
    for uri in uris:
        if is_full(frontier, maxsize):
            tally.find_full(MAXSIZE)
        else:
            tally.add(frontier.schedule_many([uri]))
    return tally


def is_full(frontier: Frontier, maxsize: int) -> bool:
    """Return whether `maxsize` URIs (0: no limit) are queued, not counting leased ones."""
    return maxsize > 0 and frontier.waiting() >= maxsize


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
