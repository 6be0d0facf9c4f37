"""Calls of operators to the owners of partitions, all workers at a time, each with a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, sleep
from typing import Any, Final, NamedTuple, Self

from budgetfrontier.cluster.calls.partition_router import PAUSE
from budgetfrontier.cluster.client import ClusterFrontier
from budgetfrontier.cluster.operators.merging import named_partitions
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, NotOwner, WrongCredentials
from budgetfrontier.remote import RemoteFrontier

PATIENCE: Final = 3.0
"""Seconds for which the owner of a partition is looked for, before the partition counts as missing."""
SOON: Final = 0.5
"""Seconds for an answer for which there is a summary instead, and the patience of pages."""
SIGN_OF_LIFE: Final = 3.0
"""Seconds within which a worker has to answer at all, before it is asked for what takes longer."""
LONGEST: Final = 60.0
"""Seconds for one answer."""
AGAIN: Final = 5.0
"""Seconds for which later looks do not wait for a worker that was silent."""
OPTIONS: Final = {"token": "--token-file", "tls": "--tls-ca"}
"""The options of commands by what a client calls them."""

Call = Callable[[RemoteFrontier, int], Any]
"""Takes the connection to a worker, and the number of one of its partitions."""
_Reply = dict[int, Any] | BaseException | None
"""Answers of a worker, the error that ends the look, or None for a sign of life."""


class Silence(NamedTuple):
    """Why a worker does not answer, and until when (monotonic seconds) no later look waits for it."""

    why: str
    until: float
    refuses: bool = False
    """Whether it lets nobody in with these credentials."""


class OwnerCalls:
    """Asks the owners of a crawl, for one look. A worker that has not answered is not asked again.

    `missing` has the partitions without an answer so far; `silent` the workers that do not answer, by address.
    """

    def __init__(
        self,
        frontier: ClusterFrontier,
        *,
        patience: float | None = None,
        lately: dict[str, Silence] | None = None,
        is_quiet: Callable[[Collection[int]], bool] = lambda numbers: False,
    ) -> None:
        """Ask the workers, but those that were silent `lately`, which gets those that are.

        `is_quiet(partitions)` returns whether their owner has published nothing for a while: one that does not answer
        `SOON` then is not waited for.
        """
        self.missing: set[int] = set()
        self._lately = {} if lately is None else lately
        self.silent = {address: one for address, one in self._lately.copy().items() if one.until > monotonic()}
        self._frontier = frontier
        self._is_quiet, self._own_patience = is_quiet, patience
        self._patience = PATIENCE if patience is None else patience
        self._there: set[str] = set()
        self._late: set[str] = set()
        """The addresses of workers that have given no sign of life soon; `soon` does not ask them again."""

    def __repr__(self) -> str:
        return f"<OwnerCalls of {self._frontier!r}>"

    def again(self) -> Self:
        """Return calls for another look: no partition is missing yet, and who was silent just now is not waited for."""
        return type(self)(self._frontier, patience=self._own_patience, lately=self._lately, is_quiet=self._is_quiet)

    def soon(self, call: Call, numbers: Iterable[int]) -> dict[int, Any]:
        """Call the owners of partitions once; return the answers that have come within `SOON` seconds."""
        return self._replies(call, self._by_address(set(numbers)), within=SOON)

    def each(self, call: Call, numbers: Iterable[int]) -> dict[int, Any]:
        """Call the owners of partitions; return the answers of those that have given one, by partition, in order.

        The owner of a partition that has none, or another one now, is looked for until the patience is over.
        """
        left = set(numbers) - self.missing
        found: dict[int, Any] = {}
        deadline = monotonic() + self._patience
        while left:
            found |= self._replies(call, self._by_address(left))
            left -= found.keys()
            if left and (monotonic() > deadline or self._are_silent(left)):
                self.missing |= left
                break
            if left:
                sleep(PAUSE)
        return dict(sorted(found.items()))

    def any(self, call: Callable[[RemoteFrontier], Any], *, within: float | None = None) -> Any:
        """Return the answer of any worker; ask the next one if one does not answer. Raises ConnectionLost."""
        deadline = monotonic() + (self._patience if within is None else within)
        while True:
            addresses = {owner.address for owner in self._frontier.owners().values() if owner.address}
            for address in sorted(addresses, key=lambda one: (one not in self._there, one)):
                if found := self._replies(lambda remote, _: call(remote), {address: [0]}):
                    return found[0]
            if monotonic() > deadline or (addresses and all(self._refuses(one) for one in addresses)):
                why = self.why()
                raise ConnectionLost(
                    f"no worker of this crawl answers{f' ({why})' if why else ''}; look whether one runs"
                )
            sleep(PAUSE)

    def why(self, addresses: Collection[str] | None = None) -> str:
        """Return why workers do not answer; "" if nothing is known of it."""
        silent = sorted(self.silent.copy().items())
        return "; ".join(one.why for address, one in silent if addresses is None or address in addresses)

    def sentence(self, numbers: Collection[int], partitions: int) -> str:
        """Return the sentence that the owners of partitions do not answer, with the last ones known, and why."""
        owners = self._frontier.owners()
        last = [owners[number] for number in numbers if number in owners]
        who = f" (last with {', '.join(sorted({one.worker for one in last}))})" if last else ""
        why = self.why({one.address for one in last})
        verb = "does" if len(numbers) == 1 else "do"
        named = named_partitions(numbers)
        reason = f": {why}" if why else ""
        return f"{named} of {partitions} {verb} not answer{who}{reason}; look whether enough workers run"

    def _by_address(self, numbers: Collection[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, owner in self._frontier.owners().items():
            if owner.address and number in numbers:
                found.setdefault(owner.address, []).append(number)
        return found

    def _are_silent(self, numbers: Collection[int]) -> bool:
        """Return whether all of these partitions are with workers that do not answer."""
        return sum(map(len, (of for one, of in self._by_address(numbers).items() if one in self.silent))) == len(
            numbers
        )

    def _refuses(self, address: str) -> bool:
        return address in self.silent and self.silent[address].refuses

    def _replies(
        self, call: Call, asked: Mapping[str, Sequence[int]], *, within: float | None = None
    ) -> dict[int, Any]:
        """Ask workers, each in a thread of its own; return the answers. Raises the first error of `call`.

        Answers are waited for as long as they take, or `within` so many seconds if they are given, once a worker has
        given a sign of life in time. What comes later is dropped.
        """
        replies = SimpleQueue[tuple[str, _Reply]]()
        longest = SIGN_OF_LIFE if self._own_patience is None else min(SIGN_OF_LIFE, self._own_patience)
        limit = longest if within is None else within
        soon = min(limit, SOON)
        unasked = self.silent.keys() if within is None else self.silent.keys() | self._late
        waiting = {address: monotonic() + soon for address in asked if address not in unasked}
        alive, later = set[str](), set[str]()
        for address in waiting:
            ask = partial(self._ask, replies, call, address, asked[address])
            threading.Thread(target=ask, name="an operator's call", daemon=True).start()
        found: dict[int, Any] = {}
        while waiting:
            first = min(waiting, key=lambda address: waiting[address])
            left = waiting[first] - monotonic()
            try:
                address, reply = replies.get(timeout=None if left == inf else max(0.0, left))
            except Empty:
                if first in alive:
                    del waiting[first]
                elif soon < limit and first not in later and not self._is_quiet(asked[first]):
                    later.add(first)
                    waiting[first] += limit - soon
                else:
                    del waiting[first]
                    if within is None or limit >= longest:
                        self._lose(first, f"{first} has not answered for {limit if first in later else soon:g} s")
                    else:
                        self._late.add(first)
                continue
            if isinstance(reply, BaseException):
                raise reply
            if reply is not None:
                found |= reply
                waiting.pop(address, None)
            else:
                alive.add(address)
                if within is None and address in waiting:
                    waiting[address] = inf  # each answer has a limit of its own
        return found

    def _ask(self, replies: SimpleQueue[tuple[str, _Reply]], call: Call, address: str, numbers: Sequence[int]) -> None:
        found: dict[int, Any] = {}
        try:
            remote = self._frontier.transport.remote(address)
            if address not in self._there:
                remote.timeout = SIGN_OF_LIFE
                with suppress(NotOwner):
                    remote.plain("state")
                remote.timeout = LONGEST
                self._there.add(address)
                self._lately.pop(address, None)
            replies.put((address, None))
            for number in numbers:
                with suppress(NotOwner):
                    found[number] = call(remote, number)
        except (ConnectionLost, FrontierClosed, WrongCredentials) as e:
            self._lose(address, e)
        except BaseException as e:
            replies.put((address, e))
        replies.put((address, found))

    def _lose(self, address: str, error: FrontierError | str) -> None:
        """Ask a worker no more."""
        refuses = isinstance(error, WrongCredentials)
        why = error.on_command_line(OPTIONS) if isinstance(error, WrongCredentials) else str(error).partition(";")[0]
        self._there.discard(address)
        self.silent[address] = self._lately[address] = Silence(why, monotonic() + AGAIN, refuses)
        if (remote := self._frontier.transport.connected().get(address)) is not None:
            remote.timeout = SIGN_OF_LIFE  # also when it leaves
