"""Batches of ended leases, for interfaces that gather them: a lease that cannot be ended affects no other."""

from __future__ import annotations

from collections.abc import Sequence

from budgetfrontier.core.model import Finish, Lease
from budgetfrontier.engine.api import SyncFrontier
from budgetfrontier.errors import (
    ConnectionLost,
    FrontierClosed,
    FrontierError,
    FrontierLocked,
    LeaseExpired,
    PolicyError,
    StorageFull,
    lease_ended,
)

OPTIONS = tuple(name for name in Finish.__struct_fields__ if name not in ("lease", "outcome"))

Failure = tuple[Lease, Exception]
"""A lease that could not be ended, and why: LeaseExpired, PolicyError, or the error of an argument."""


def end_leases(frontier: SyncFrontier, endings: Sequence[Lease | Finish], now: float) -> list[Failure]:
    """End leases in order; return those that failed. `now` is the time by the clock of the frontier.

    Raises only errors that have closed the frontier, or cut it off.
    """
    if len(endings) == 1:  # `finish` costs less than a batch of one
        return _end_each(frontier, endings, None)
    try:
        late = frontier.finish_many(endings)
    except Exception as e:  # raised for one of them
        if is_cut_off(frontier, e):
            raise
        return _end_each(frontier, endings, now if isinstance(e, PolicyError) else None)
    return [(lease, lease_ended(lease.id, lease.uri.url)) for lease in late]


def _end_each(frontier: SyncFrontier, endings: Sequence[Lease | Finish], tried: float | None) -> list[Failure]:
    """End leases one by one. `tried` is when `finish_many` ended those before one for which a policy failed, if so."""
    failures: list[Failure] = []
    for ending in endings:
        finish = ending if isinstance(ending, Finish) else Finish(ending)
        lease = finish.lease
        try:
            frontier.finish(lease, finish.outcome, **{name: getattr(finish, name) for name in OPTIONS})
        except LeaseExpired as e:
            if tried is None or lease.expires <= tried:  # else that call has ended it
                failures.append((lease, e))
            continue
        except Exception as e:
            if is_cut_off(frontier, e):
                raise
            failures.append((lease, e))
        tried = None  # the call came no further than this lease
    return failures


def is_cut_off(frontier: SyncFrontier, error: Exception) -> bool:
    """Return whether an error of a call has closed a frontier, or a served one cannot be reached, or not be changed."""
    return isinstance(error, ConnectionLost | FrontierLocked | StorageFull) or is_closed(frontier)


def is_closed(frontier: SyncFrontier) -> bool:
    """Return whether a frontier is closed, by an error for example."""
    try:
        frontier.summary()
    except FrontierError as e:
        return isinstance(e, FrontierClosed)  # otherwise a call from another thread
    return False
