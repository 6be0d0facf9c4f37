"""Routing of calls to the owners of partitions, without I/O, repeated when an owner changes.

Each is a generator of steps, which `ClusterFrontier` and `AsyncClusterFrontier` do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, Final, TypeVar

from budgetfrontier.bus.interface import BusError
from budgetfrontier.cluster.calls.steps import MOVED, Answers, Ask, GiveUp, LookUp, Pause, Steps, silent
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.engine import arguments
from budgetfrontier.errors import ConnectionLost
from budgetfrontier.remote import calls

_T = TypeVar("_T")
_R = TypeVar("_R")

PAUSE: Final = 0.1
"""Seconds before owners are looked up again."""
LOOK_AGAIN: Final = 2.0
"""Seconds after which the owners are looked up, if no reply has said that they have changed."""
PATIENCE: Final = 3.0
"""Seconds without an answer after which the owners are looked up: a worker may hang, and have lost its partitions."""
LOOK_PATIENCE: Final = 10.0
"""Seconds for which all workers are waited for that are asked how far they are."""
LEFT_OUT: Final = 4
"""The time for which a worker that was silent is asked for no leases, as a multiple of that for which it was."""
_MOST_SILENCES: Final = 4
FOREVER: Final = 1e6
"""Seconds from which on a caller does not give up."""

log = logging.getLogger("budgetfrontier.cluster")


class PartitionRouter:
    """The known owners of the partitions of a crawl, and the calls to them.

    Its state may be shared by threads.
    """

    def __init__(self, crawl: str, retry_for: float) -> None:
        self.crawl, self.retry_for = crawl, arguments.number(retry_for, "retry_for")
        self.owners: dict[int, str] = {}
        """The addresses of the workers, by partition."""
        self.found: Mapping[int, Owner] = {}
        self.partitions = 0
        self.interrupted = False
        self._read_at = -LOOK_AGAIN
        self._turn = 0
        self._silent: dict[str, tuple[int, float]] = {}
        """By address: how often in a row it gave no lease in time, and until when it is asked for none."""
        self._says_waiting = False

    def __repr__(self) -> str:
        return f"<PartitionRouter {self.told}>"

    @property
    def told(self) -> str:
        """The crawl and its known partitions, for the `repr` of clients."""
        return f"{self.crawl!r}: {len(self.owners)} of {self.partitions} partitions"

    # -- owners

    def forget(self, address: str) -> None:
        """Forget the owners at an address, so that they are looked up again."""
        self.owners = {number: each for number, each in self.owners.items() if each != address}

    def look_up(self, *, strict: bool = False, within: float = inf) -> Steps[Mapping[int, Owner]]:
        """Look up the owners; unless `strict`, those known before stay while the directory does not answer.

        Raises ConnectionLost if none are known so many seconds later.
        """
        look, end = LookUp(), monotonic() + within
        while True:
            yield Answers([look], PATIENCE)
            if look.ended or (self.partitions and not strict):
                break
            if monotonic() > end:
                raise ConnectionLost(f"the brokers of {self.crawl!r} have not answered for {within:.0f} s")
        if look.ended:
            self.note(look, strict=strict)
        else:
            self._read_at = monotonic()
        return self.found

    def note(self, look: LookUp, *, strict: bool = False) -> None:
        """Take the owners that a look has found. Raises its error if `strict`, or if nothing is known."""
        self._read_at = monotonic()
        if look.error is None:
            self.found = look.result
            self.partitions = max((owner.partitions for owner in self.found.values()), default=0)
        elif strict or not self.partitions or not isinstance(look.error, BusError):
            raise look.error
        self.owners = {number: owner.address for number, owner in self.found.items() if owner.address}

    def count(self, *, waits: bool = False) -> Steps[int]:
        """Return the number of partitions, once one has an owner; `waits`: once the directory answers, too."""
        began = monotonic()
        while not self.partitions:
            why: object = "start `budgetfrontier worker`; if some run, they log why they have none"
            try:
                yield from self.look_up(within=max(0.0, began + self.retry_for - monotonic()))
            except BusError as e:
                if not waits:
                    raise
                why = e
            if not self.partitions:
                left = began + self.retry_for - monotonic()
                if left < 0.0:
                    raise ConnectionLost(f"no partition of {self.crawl!r} has an owner: {why}")
                self._say_waiting("the workers", left, why)
                yield Pause(PAUSE)
        self._say_answered()
        return self.partitions

    @property
    def is_complete(self) -> bool:
        """Whether an owner of each partition is known, who has answered if he was asked."""
        return len(self.owners) >= max(1, self.partitions)

    def addresses(self) -> Steps[list[str]]:
        """Return the addresses of all workers, looked up if some are not known, or were not looked up for a while."""
        if not self.is_complete or monotonic() > self._read_at + LOOK_AGAIN:
            yield from self.look_up()
        return sorted(set(self.owners.values()))

    # -- questions

    def of_owners(
        self,
        items: Sequence[_T],
        partitions: Sequence[int],
        steps: Callable[[list[_T]], calls.Steps[_R]],
        results: list[tuple[list[int], _R]] | None = None,
    ) -> Steps[list[tuple[list[int], _R]]]:
        """Call the owners of the items' partitions, all at once; return the places and the result of each part.

        Each part is repeated until it is answered, by the next owner if a worker has lost a partition, is away, or is
        silent while the directory has another one. Raises ConnectionLost after `retry_for` seconds; `results` has the
        parts that were answered before.
        """
        results = [] if results is None else results
        waiting = _PendingQuestion()
        try:
            yield from self._answered(items, dict(enumerate(partitions)), steps, waiting, results)
        except BaseException:  # interrupts, too
            results += [(list(ask.places), ask.result) for ask in waiting.each_ended() if ask.error is None]
            raise
        if results:
            self._say_answered()
        return results

    def _answered(
        self,
        items: Sequence[_T],
        left: dict[int, int],
        steps: Callable[[list[_T]], calls.Steps[_R]],
        waiting: _PendingQuestion,
        results: list[tuple[list[int], _R]],
    ) -> Steps[None]:
        """Add parts to `results` until those of all items in `left`, each with its partition, are there."""
        began = monotonic()
        while left:
            waiting.asks += self._asks(items, left, waiting, steps)
            if waiting.asks or waiting.look:
                yield Answers(waiting.all(), PATIENCE)
            is_silent = not waiting.has_news
            for ask in waiting.each_ended():
                if ask.is_answered:
                    results.append((list(ask.places), ask.result))
                    for place in ask.places:
                        del left[place]
                else:
                    waiting.fail(ask)
                    self.forget(ask.address)
            if left:
                yield from self._look_on(left, waiting, is_silent)
                self._check_time(began, waiting, set(left.values()), is_silent)

    def _asks(
        self, items: Sequence[_T], left: Mapping[int, int], waiting: _PendingQuestion, steps: Callable[[list[_T]], Any]
    ) -> list[Ask]:
        """Return the calls to owners that are known, for the items that are not asked for yet."""
        under_way = {place for ask in waiting.asks for place in ask.places}
        parts: dict[str, list[int]] = {}
        for place, number in left.items():
            address = self.owners.get(number)
            if place not in under_way and address is not None:
                parts.setdefault(address, []).append(place)
        return [
            Ask(address, steps([items[place] for place in places]), places, {left[place] for place in places})
            for address, places in parts.items()
        ]

    def _look_on(self, left: Mapping[int, int], waiting: _PendingQuestion, is_silent: bool) -> Steps[None]:
        """Look up the owners if that may help; give up the calls to workers that have lost a partition."""
        numbers = set(left.values())
        if waiting.look is not None and waiting.look.ended:
            self.note(waiting.look)
            waiting.look = None
            if moved := [ask for ask in waiting.asks if any(self._has_moved(ask, number) for number in ask.numbers)]:
                yield GiveUp(moved)
                waiting.lost = silent(moved[0].address)
                waiting.asks = [ask for ask in waiting.asks if ask not in moved or ask.ended]
            if any(self.owners.get(number) in (None, waiting.failed.get(number)) for number in numbers):
                yield Pause(PAUSE)
                waiting.failed.clear()
        if waiting.look is None and (is_silent or not numbers <= self.owners.keys()):
            waiting.look = LookUp()

    def _has_moved(self, ask: Ask, number: int) -> bool:
        """Return whether a partition has no owner, or another one than the worker that was asked."""
        return self.owners.get(number) != ask.address

    def _check_time(self, began: float, waiting: _PendingQuestion, numbers: set[int], is_silent: bool) -> None:
        passed = monotonic() - began
        why = str(waiting.lost or "they have given no answer").partition(";")[0]
        if passed > self.retry_for and (is_silent or not waiting.asks):
            shown = ", ".join(map(str, sorted(numbers)[:10])) + (", ..." if len(numbers) > 10 else "")
            raise ConnectionLost(
                f"partitions {shown} of {self.crawl!r} have had no owner that answers for {passed:.0f} s ({why}); look "
                "whether their workers run"
            )
        if passed > PATIENCE:
            what = f"the workers of {len(numbers)} of the {self.partitions} partitions"
            self._say_waiting(what, self.retry_for - passed, why)

    def _say_waiting(self, what: str, left: float, why: object) -> None:
        """Log once which partitions are waited for, and for how long unless it is for ever."""
        if not self._says_waiting:
            self._says_waiting = True
            limit = "" if left > FOREVER else f", {max(1, round(left))} s at the most"
            log.warning("Waiting for %s of %r%s: %s", what, self.crawl, limit, why)

    def _say_answered(self) -> None:
        if self._says_waiting:
            self._says_waiting = False
            log.info("The workers of %r answer", self.crawl)

    def of_any(self, steps: Callable[[], calls.Steps[_R]]) -> Steps[_R]:
        """Ask workers one after the other until one answers. Raises ConnectionLost after `retry_for` seconds."""
        began, patience = monotonic(), PATIENCE
        while True:
            for address in (yield from self.addresses()):
                ask = Ask(address, steps())
                yield from self._ended([ask], patience)
                if ask.is_answered:
                    found: _R = ask.result
                    return found
                self.forget(address)
            if monotonic() > began + self.retry_for:
                raise ConnectionLost(f"no worker of {self.crawl!r} answers; look whether one runs")
            yield Pause(PAUSE)
            patience *= 2

    def of_each(
        self,
        steps: Callable[[], calls.Steps[_R]],
        *,
        addresses: Sequence[str] | None = None,
        within: float = LOOK_PATIENCE,
    ) -> Steps[list[_R]]:
        """Ask all workers at once; return the answers of those that answer within some seconds."""
        if addresses is None:
            addresses = yield from self.addresses()
        asks = [Ask(address, steps()) for address in addresses]
        yield from self._ended(asks, within)
        found: list[_R] = []
        for ask in asks:
            if ask.is_answered:
                found.append(ask.result)
            else:
                self.forget(ask.address)
        return found

    def in_turn(self, count: int, steps: Callable[[int], calls.Steps[list[_R]]], found: list[_R]) -> Steps[None]:
        """Call workers in turn and add their results to `found`, until there are `count`.

        A silent worker is waited for a little longer each time, and left out for a while if there are others.
        """
        addresses = yield from self.addresses()
        self._turn += 1
        first = self._turn % max(1, len(addresses))
        for address in addresses[first:] + addresses[:first]:
            silences, until = self._silent.get(address, (0, 0.0))
            if len(found) >= count or monotonic() < until:
                continue
            ask = Ask(address, steps(count - len(found)))
            patience = PATIENCE * (1 + silences)
            try:
                is_given_up = yield from self._ended([ask], patience)
            except GeneratorExit:
                found += ask.result if ask.is_answered else []
                raise
            if ask.ended and ask.error is None:
                self._silent.pop(address, None)
                found += ask.result
            elif is_given_up:
                out = LEFT_OUT * patience if addresses != [address] else 0.0
                self._silent[address] = min(silences + 1, _MOST_SILENCES), monotonic() + out
            elif isinstance(ask.error, MOVED):
                self.forget(address)
            elif ask.error is not None and not found:
                raise ask.error

    def _ended(self, asks: Sequence[Ask], within: float) -> Steps[bool]:
        """Wait until all calls have ended, or so many seconds have passed; return whether any was given up then."""
        end = monotonic() + within
        while left := [ask for ask in asks if not ask.ended]:
            remaining = end - monotonic()
            if remaining <= 0.0:
                yield GiveUp(left)
                return True
            yield Answers(left, remaining)
        return False


class _PendingQuestion:
    """The calls and the look that one question waits for."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []
        self.look: LookUp | None = None
        self.lost: BaseException | None = None
        """The last error with which a worker has not answered."""
        self.failed: dict[int, str] = {}
        """The addresses at which partitions were asked for in vain since the last look."""

    def all(self) -> list[Ask | LookUp]:
        """Return all that is under way."""
        return [*self.asks, *([] if self.look is None else [self.look])]

    @property
    def has_news(self) -> bool:
        """Whether anything has ended."""
        return any(each.ended for each in self.all())

    def each_ended(self) -> Iterator[Ask]:
        """Yield the calls that have ended, each of which is taken out before."""
        for ask in [ask for ask in self.asks if ask.ended]:
            self.asks.remove(ask)
            yield ask

    def fail(self, ask: Ask) -> None:
        """Note a call that was not answered."""
        self.lost = ask.error
        self.failed.update(dict.fromkeys(ask.numbers, ask.address))
