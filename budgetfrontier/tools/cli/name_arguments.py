"""Names in the arguments of commands: of queues, people and dead letters. One that names nothing is an error.

A pattern that matches nothing is none, but that is said.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from budgetfrontier.core.spelling import did_you_mean
from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.cli.sentences import note

if TYPE_CHECKING:
    from budgetfrontier.core.model import QueueRecord
    from budgetfrontier.storage.reader import Reader
    from budgetfrontier.storage.view import View

_T = TypeVar("_T")
_MOST_NAMES = 10


def queue_to_show(reader: Reader, job: Path, key: str) -> QueueRecord:
    """Return the queue of a key, or the one that is surely meant, which is said. Raises FrontierError."""
    from budgetfrontier.reports.format import clean
    from budgetfrontier.reports.near_queues import meant

    found = reader.queue(key)
    if found is None:
        with reader.view() as view:
            name = meant(view, key)
        found = None if name is None else reader.queue(name)
    if found is not None and found.queue != key:
        note(f"{clean(key)} is in queue {clean(found.queue)}")
    if found is None:
        with reader.view() as view:
            raise no_queue(view, job, key)
    return found


def check_queue(view: View, job: Path, key: str) -> str:
    """Return the key of a queue that is given in any spelling of its host. Raises FrontierError if there is none.

    What changes a queue guesses none.
    """
    name = view.named(key)
    if view.find_queue(name) is None:
        raise no_queue(view, job, key)
    return name


def no_queue(view: View, job: Path, key: str) -> FrontierError:
    """Return the error that there is no queue of this key, with those that were probably meant."""
    from budgetfrontier.reports import near_queues

    meant = near_queues.did_you_mean(view, key)
    return FrontierError(f"there is no queue {key!a}{meant or ';'} {_listing('queues', job)} lists them")


def check_glob(view: View, job: Path, glob: str) -> None:
    """Raise FrontierError if a glob without wildcards is the key of no queue."""
    from budgetfrontier.settings.matching import may_select_several

    if not may_select_several(glob):
        check_queue(view, job, glob)


def matches_a_queue(view: View, glob: str) -> bool:
    """Tell whether a glob matches the key of any queue. O(queues whose keys begin like it)."""
    from budgetfrontier.settings.matching import selects

    beginning = re.split(r"[*?[]", glob)[0]
    same = beginning.isascii() and beginning == beginning.lower()
    return any(selects(glob, name) for name in view.names(beginning if same else ""))


def check_letters(view: View, job: Path, ids: Iterable[int]) -> None:
    """Raise FrontierError if any of these is the id of no dead letter."""
    unknown = [number for number in dict.fromkeys(ids) if not view.has_dead_letter(number)]
    if unknown:
        named = ", ".join(map(str, unknown[:_MOST_NAMES])) + ", ..." * (len(unknown) > _MOST_NAMES)
        raise FrontierError(
            f"there is no dead letter {named}; {_listing('dead-letters', job)} lists them, and nothing was changed"
        )


def nobody(who: str, people: Collection[str]) -> FrontierError:
    """Return the error that the audit has nothing by `who`; `people` are those that it has."""
    some = sorted(people)[:_MOST_NAMES]
    known = did_you_mean(who, people) or (f"; it has entries by {', '.join(some)}" if some else "")
    return FrontierError(f"the audit has nothing by {who!a}{known or '; it is empty'}")


def noting_none(rows: Iterable[_T], told: str) -> Iterator[_T]:
    """Yield rows; if there was none, print `told`, unless it is empty."""
    none = True
    for row in rows:
        none = False
        yield row
    if none and told:
        note(told)


def _listing(command: str, job: Path) -> str:
    return f"`{shlex.join(('budgetfrontier', command, str(job)))}`"
