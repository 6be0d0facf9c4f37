"""The steps of a call to a crawl in partitions, done by a client for `partition_router` and `cluster_calls`.

A call is a generator that yields `Answers`, `GiveUp` and `Pause`, and returns its result.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from budgetfrontier.errors import ConnectionLost, FrontierClosed, NotOwner
from budgetfrontier.remote import calls

_T = TypeVar("_T")

MOVED = (NotOwner, ConnectionLost, FrontierClosed)
"""Errors of a call that is to be made again, to whoever has the partition then."""


class Ask:
    """A call to one worker, whose RPCs `steps` yields. `places` are the positions of the items that it is about."""

    def __init__(
        self, address: str, steps: calls.Steps[Any], places: Sequence[int] = (), numbers: Collection[int] = ()
    ) -> None:
        self.address, self.steps = address, steps
        self.places, self.numbers = places, numbers
        self.ended = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.begun: Any = None
        """What the client has begun for it."""

    def __repr__(self) -> str:
        return f"<Ask {self.address}{': ended' if self.ended else ''}>"

    @property
    def is_answered(self) -> bool:
        """Whether the worker has answered. Raises the error of a call that is not to be made again."""
        if self.error is None:
            return self.ended
        if isinstance(self.error, MOVED):
            return False
        raise self.error


class LookUp:
    """A look at the directory: at the owners, or at the suffix list of the crawl."""

    def __init__(self, *, suffix_list: bool = False) -> None:
        self.suffix_list = suffix_list
        self.ended = False
        self.result: Any = {}
        self.error: BaseException | None = None
        self.begun: Any = None

    def __repr__(self) -> str:
        return f"<LookUp{': ended' if self.ended else ''}>"


class Answers(NamedTuple):
    """Begin those calls that have not begun, and wait at most `within` seconds until any of the calls has ended."""

    of: Sequence[Ask | LookUp]
    within: float


class GiveUp(NamedTuple):
    """Cancel calls, and give back the leases in answers that still arrive."""

    asks: Sequence[Ask]


class Pause(NamedTuple):
    """Wait for so many seconds, or until `interrupt` if nothing but leases is waited for."""

    seconds: float
    for_leases: bool = False


Steps = Generator[Answers | GiveUp | Pause, None, _T]


def silent(address: str) -> ConnectionLost:
    """Return the error of a call that was given up."""
    return ConnectionLost(f"the worker at {address} has given no answer")
