"""Names in the arguments of commands: of queues, people and dead letters. One that names nothing is an error.

A pattern that matches nothing is none, but that is said.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.reports.operators import CrawlOperator
    from budgetfrontier.storage.view import PendingUri

_T = TypeVar("_T")
_MOST_NAMES = 10


def queue_to_show(
    operator: CrawlOperator, key: str, *, limit: int | None = 1, spread: bool = False
) -> tuple[QueueRecord, list[PendingUri]]:
    """Return the queue of a key, or the one that is surely meant, with a note, and with some of its URIs."""
    from budgetfrontier.reports.format import clean

    record, pending = operator.queue(key, limit=limit, spread=spread)
    if record.queue != key:
        note(f"{clean(key)} is in queue {clean(record.queue)}")
    return record, pending


def note_unknown(operator: CrawlOperator, match: str | None) -> None:
    """Print the keys that a pattern lists and no queue has."""
    from budgetfrontier.reports.operators import unknown_queues

    if told := unknown_queues(operator, match):
        note(told)


def nobody(who: str, people: Collection[str]) -> FrontierError:
    """Return the error for a `who` without an entry in the audit; `people` have entries."""
    some = sorted(people)[:_MOST_NAMES]
    known = did_you_mean(who, people) or (f"; it has entries by {', '.join(some)}" if some else "")
    return FrontierError(f"the audit has nothing by {who!r}{known or '; it is empty'}")


def noting_none(rows: Iterable[_T], told: str, operator: CrawlOperator) -> Iterator[_T]:
    """Yield rows; if there was none, and no partition may have any, print `told`, unless it is empty."""
    none = True
    for row in rows:
        none = False
        yield row
    if none and told and not operator.missing:
        note(told)
