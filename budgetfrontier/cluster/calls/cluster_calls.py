"""The methods of a cluster's client without I/O: the partitions that each calls, and its result from their replies."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from time import monotonic
from typing import Any, Final, TypeVar

from budgetfrontier.cluster.calls.partition_router import LOOK_AGAIN, PATIENCE, PAUSE, PartitionRouter
from budgetfrontier.cluster.calls.steps import Answers, LookUp, Pause, Steps
from budgetfrontier.cluster.partitions import partition_progress
from budgetfrontier.cluster.partitions.partition_progress import PartitionProgress
from budgetfrontier.cluster.partitions.routing import Router, partition_of_queue
from budgetfrontier.cluster.partitions.summed_totals import least
from budgetfrontier.core import protocol
from budgetfrontier.core.model import Admission, CrawlUri, DeadLetter, Finish, Lease, Outcome, QueueRecord, Tally
from budgetfrontier.engine import arguments
from budgetfrontier.errors import ConnectionLost, FrontierClosed, FrontierError, PolicyError, lease_ended
from budgetfrontier.remote import calls, lease_calls
from budgetfrontier.remote.calls import ClientLeases
from budgetfrontier.remote.link import decode_settings
from budgetfrontier.rules.admission_limits import MAXSIZE
from budgetfrontier.settings import Settings, policy_factory
from budgetfrontier.settings.schema import Override
from budgetfrontier.storage.keys import partition_of_lease

_T = TypeVar("_T")
_R = TypeVar("_R")

PART: Final = 1000
"""URIs that are routed at a time."""


class Calls:
    """The methods of one client. Those that change a crawl may be under way in several threads."""

    def __init__(self, crawl: str, retry_for: float) -> None:
        self.asking = PartitionRouter(crawl, retry_for)
        self.held = ClientLeases()
        self._router: Router | None = None
        self._settings: Settings | None = None
        self._spare: list[Lease] = []
        """Leases that were given to a call of `lease` which was cancelled."""

    def __repr__(self) -> str:
        return f"<Calls for {self.asking.crawl!r}>"

    # -- the crawl

    def connect(self) -> Steps[Router]:
        """Return the router; the first call asks any worker for the settings of the crawl."""
        if self._router is None:
            count = yield from self.asking.count(waits=True)
            connected: protocol.Connected = yield from self.asking.of_any(calls.connect)
            self._settings = decode_settings(connected.settings)
            look = LookUp(suffix_list=True)
            while policy_factory.wants_suffix_list(self._settings.frontier) and not look.ended:
                yield Answers([look], PATIENCE)
            if look.error is not None:
                raise look.error
            self._router = Router(self._settings, count, suffix_list=look.result or None)
        return self._router

    @property
    def settings(self) -> Settings:
        """The settings of the crawl when this client connected. Raises FrontierClosed if it has not."""
        if self._settings is None:
            raise FrontierClosed("this client is not connected; use it with `async with`, or await its `connect()`")
        return self._settings

    # -- URIs in

    def schedule_many(
        self, uris: Iterable[str | CrawlUri], tally: Tally | None = None, *, brought: bool = False
    ) -> Steps[Tally]:
        """Admit URIs; count the results, in `tally` as they come if that is given."""
        return self._tallied(uris, lambda part: calls.schedule_many(part, brought=brought), tally)

    def mark_seen(self, uris: Iterable[str | CrawlUri], charge: bool, tally: Tally | None = None) -> Steps[Tally]:
        """Mark URIs as seen; count the results like `schedule_many`."""
        return self._tallied(uris, lambda part: calls.mark_seen(part, charge=charge), tally)

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> Steps[list[Admission]]:
        """Admit URIs; return the result for each."""
        return self._each(_listed(uris), calls.schedule_each)

    def admit_many(self, uris: Iterable[str | CrawlUri], maxsize: int) -> Steps[Tally]:
        """Admit URIs while there is room; count the results."""
        given, tally = _listed(uris), Tally()
        while part := given[: (yield from self._room(maxsize, len(given)))]:
            tally.add((yield from self._tallied(part, lambda some: calls.admit_many(some, 0))))
            del given[: len(part)]
        for _ in given:
            tally.find_full(MAXSIZE)
        return tally

    def admit_each(
        self, uris: Iterable[str | CrawlUri], maxsize: int, again: bool
    ) -> Steps[list[Admission | PolicyError]]:
        """Admit URIs while there is room; return the result for each."""
        given = _listed(uris)
        results: list[Admission | PolicyError] = []
        while part := given[: (yield from self._room(maxsize, len(given)))]:
            results += yield from self._each(part, lambda some: calls.admit_each(some, 0, again))
            del given[: len(part)]
        return results + [Admission.FULL] * len(given)

    def _room(self, maxsize: int, wanted: int) -> Steps[int]:
        """Return how many of `wanted` URIs may be added, if `maxsize` URIs may be queued in all partitions."""
        if not maxsize or not wanted:
            return wanted
        return max(0, min(wanted, maxsize - (yield from self.waiting())))

    def _each(self, given: list[Any], steps: Callable[[list[Any]], calls.Steps[list[_R]]]) -> Steps[list[_R]]:
        found: dict[int, _R] = {}
        for places, results in (yield from self._by_uri(given, steps)):
            found.update(zip(places, results, strict=True))
        return [found[place] for place in range(len(given))]

    def _tallied(
        self, uris: Iterable[Any], steps: Callable[[list[Any]], calls.Steps[Tally]], tally: Tally | None = None
    ) -> Steps[Tally]:
        """Add the results to `tally` part by part, so that it has those before an error."""
        arguments.several(uris, "URIs")
        tally, remaining = Tally() if tally is None else tally, iter(uris)
        while batch := list(islice(remaining, PART)):
            answered: list[tuple[list[int], Tally]] = []
            try:
                yield from self._by_uri(batch, steps, answered)
            finally:
                for _, part in answered:
                    tally.add(part)
        return tally

    def _by_uri(
        self,
        given: list[Any],
        steps: Callable[[list[Any]], calls.Steps[_R]],
        results: list[tuple[list[int], _R]] | None = None,
    ) -> Steps[list[tuple[list[int], _R]]]:
        route = (yield from self.connect()).partition
        sendable = calls.sendable(given)
        return (yield from self.asking.of_owners(sendable, [route(uri) for uri in sendable], steps, results))

    def set_budgets(self, budgets: Iterable[tuple[CrawlUri, int]]) -> Steps[None]:
        """Set the total budgets of the queues of URIs."""
        given = list(budgets)
        route = (yield from self.connect()).partition
        yield from self.asking.of_owners(given, [route(uri) for uri, _ in given], calls.set_budgets)

    # -- URIs out

    def lease(self, count: int, ttl: float | None, wait: float) -> Steps[list[Lease]]:
        """Lease URIs, of workers in turn; look again for the first one for so many seconds."""
        count, ttl, wait = arguments.asked(count, ttl, wait)
        end = monotonic() + wait
        if count <= 0:
            return []
        while True:
            found, self._spare = self._spare[:count], self._spare[count:]
            try:
                yield from self.asking.in_turn(count, lambda left: calls.lease(left, ttl, 0.0), found)
            except BaseException:
                self._spare += found
                raise
            finally:
                self.held.add(found)
            left = end - monotonic()
            if found or left <= 0.0 or self.asking.interrupted:
                return found
            yield Pause(min(left, PAUSE), for_leases=True)

    def finish(self, lease: Lease, outcome: Outcome, options: dict[str, Any]) -> Steps[None]:
        """End a lease. Raises LeaseExpired."""
        if (yield from self.finish_many([Finish(lease, outcome, **options)])):
            raise lease_ended(lease.id, lease.uri.url)

    def finish_many(self, finished: Iterable[Lease | Finish]) -> Steps[list[Lease]]:
        """End leases; return those that had ended."""
        given = calls.endings(finished)
        late = yield from self._by_lease(given, calls.finish_many, calls.lease_of)
        self.held.drop(given)
        return late

    def renew(self, lease: Lease, ttl: float | None) -> Steps[None]:
        """Set another deadline. Raises LeaseExpired."""
        if (yield from self.renew_many([lease], ttl)):
            raise lease_ended(lease.id, lease.uri.url)

    def renew_many(self, leases: Iterable[Lease], ttl: float | None) -> Steps[list[Lease]]:
        """Set another deadline for leases; return those that had ended."""
        return self._by_lease(_listed(leases, "leases"), lambda part: lease_calls.renew_many(part, ttl), _itself)

    def give_back(self, leases: Iterable[Lease]) -> Steps[list[Lease]]:
        """Give leases back uncounted; return those that had ended."""
        given = _listed(leases, "leases")
        late = yield from self._by_lease(given, lease_calls.give_back, _itself)
        self.held.drop(given)
        return late

    def landed_many(self, downloads: Iterable[tuple[Lease, float | None]]) -> Steps[list[Lease]]:
        """Report that downloads are over, each with its seconds; return the leases that had ended."""
        given = _listed(downloads, "pairs of a lease and its seconds")
        return self._by_lease(given, lease_calls.landed_many, itemgetter(0))

    def _by_lease(
        self, given: list[_T], steps: Callable[[list[_T]], calls.Steps[list[Lease]]], lease_of: Callable[[_T], Lease]
    ) -> Steps[list[Lease]]:
        """Call the partitions that gave the leases; return the leases that had ended, unknown ones among them."""
        count = yield from self.asking.count()
        numbers = [_partition_of(lease_of(each)) for each in given]
        known = [place for place, number in enumerate(numbers) if number < count]
        late = [lease_of(given[place]) for place, number in enumerate(numbers) if number >= count]
        items = [given[place] for place in known]
        for _, part in (yield from self.asking.of_owners(items, [numbers[place] for place in known], steps)):
            late += part
        return late

    # -- looking

    def next_ready_in(self) -> Steps[float | None]:
        """Return the seconds until a worker may lease something; 0.0: now; None: never, as things stand.

        While a partition is without an owner that answers, it is some seconds, in place of None.
        """
        ready_in = least((yield from self.asking.of_each(lambda: calls.plain("next_ready_in"))))
        return ready_in if ready_in is not None or self.asking.is_complete else LOOK_AGAIN

    def waiting(self) -> Steps[int]:
        """Return how many URIs are queued and not leased."""
        return sum((yield from self._of_all("waiting")))

    def dead_letters(self, limit: int | None) -> Steps[list[DeadLetter]]:
        """Return the dead letters, oldest first. Raises ConnectionLost if a partition is without an owner for long."""
        answers: list[list[DeadLetter]] = yield from self._of_all("dead_letters", limit=limit)
        found = {(each.queue, each.id): each for answer in answers for each in answer}  # of one asked twice, too
        letters = sorted(found.values(), key=lambda letter: letter.time)
        return letters[: limit or None]

    def standings_now(self) -> Steps[tuple[list[PartitionProgress], set[int]]]:
        """Return the standings of the partitions whose owners answer soon, and the numbers of the others."""
        found = _newest((yield from self.asking.of_each(_standings)))
        return list(found.values()), set(range(self.asking.partitions)) - found.keys()

    def standings(self) -> Steps[list[PartitionProgress]]:
        """Return the standings of all partitions. Raises ConnectionLost if one is without an owner for long."""
        numbers = range((yield from self.asking.count()))
        began = monotonic()
        while True:
            answers = yield from self.asking.of_owners(numbers, numbers, lambda _: _standings())
            found = _newest(answer for _, answer in answers)
            if len(found) == len(numbers):
                return list(found.values())
            if monotonic() > began + self.asking.retry_for:
                missing = sorted(set(numbers) - found.keys())
                raise ConnectionLost(f"partitions {missing} of {self.asking.crawl!r} have no owner that answers")
            yield Pause(PAUSE)  # a partition was lost meanwhile
            yield from self.asking.look_up()

    def queue(self, key: str) -> Steps[QueueRecord | None]:
        """Return the record of a queue."""
        return self._of_queue(key, lambda: calls.plain("queue", key))

    def rest(self, uri: CrawlUri, key: str, fetch_seconds: float | None, crawl_delay: float | None) -> Steps[float]:
        """Return a politeness delay."""
        return self._of_queue(key, lambda: calls.rest(uri, key, fetch_seconds, crawl_delay))

    def queue_key(self, uri: CrawlUri) -> Steps[str]:
        """Return the key of the queue of a URI."""
        number = (yield from self.connect()).partition(uri)
        return (yield from self._of_one(number, lambda: calls.queue_key(uri)))

    def adjustments(self) -> Steps[list[Override]]:
        """Return the adjustments in force, as one of the partitions has them."""
        yield from self.asking.count()
        return (yield from self.asking.of_any(calls.adjustments))

    def _of_all(self, name: str, **named: Any) -> Steps[list[Any]]:
        """Return the results of a call to the owners of all partitions."""
        numbers = range((yield from self.asking.count()))
        answers: list[tuple[list[int], Any]] = yield from self.asking.of_owners(
            numbers, numbers, lambda _: calls.plain(name, **named)
        )
        return [answer for _, answer in answers]

    def _of_queue(self, key: str, steps: Callable[[], calls.Steps[_R]]) -> Steps[_R]:
        number = partition_of_queue(key, (yield from self.asking.count()))
        return (yield from self._of_one(number, steps))

    def _of_one(self, number: int, steps: Callable[[], calls.Steps[_R]]) -> Steps[_R]:
        [(_, result)] = yield from self.asking.of_owners([None], [number], lambda _: steps())
        return result

    # -- steering

    def steer(self, op: str, reason: str, who: str | None) -> Steps[None]:
        """Append a command to the logs of all partitions, once to each even if it is sent again.

        Each applies it when its owner reads it.
        """
        yield from self.asking.count()
        args = {"reason": reason} if op == "pause" else {}
        command, order = os.urandom(8), [op, args, who or "api", reason, ""]
        yield from self.asking.of_any(lambda: calls.plain("give_command", command, order))

    def refuse_replay(self) -> FrontierError:
        """Return the error that refuses to replay dead letters."""
        return FrontierError(
            f"dead letters of {self.asking.crawl!r}, a crawl in partitions, are not put back: schedule their URIs "
            "with `force=True`"
        )

    # -- the end

    def leave(self, keep_leases: bool, addresses: Sequence[str]) -> Steps[None]:
        """Give back all leases, unless they are kept, and end the sessions with workers that answer."""
        self.asking.retry_for = min(self.asking.retry_for, PATIENCE)
        held = [] if keep_leases else [each for each in self.held.ids() if self._is_known(each)]
        with suppress(ConnectionLost):  # leases of workers that are away expire
            yield from self.asking.of_owners(held, [partition_of_lease(each) for each in held], _given_back)
        yield from self.asking.of_each(lambda: calls.leave([]), addresses=addresses, within=PATIENCE)

    def _is_known(self, lease_id: int) -> bool:
        return partition_of_lease(lease_id) < self.asking.partitions


def _itself(lease: Lease) -> Lease:
    return lease


def _listed(items: Iterable[_T], what: str = "URIs") -> list[_T]:
    arguments.several(items, what)
    return list(items)


def _given_back(ids: list[int]) -> calls.Steps[None]:
    for start in range(0, len(ids), protocol.MOST_ITEMS):
        yield calls.Rpc(protocol.GIVE_BACK, protocol.encode(ids[start : start + protocol.MOST_ITEMS]))


def _partition_of(lease: Lease) -> int:
    """Return the partition that has given a lease; for any other value the first one, which refuses it."""
    lease_id = getattr(lease, "id", None)
    return partition_of_lease(lease_id) if isinstance(lease_id, int) else 0


def _standings() -> calls.Steps[list[PartitionProgress]]:
    answer: Any = yield from calls.plain("standings")
    return partition_progress.to_standings(answer)


def _newest(answers: Iterable[list[PartitionProgress]]) -> dict[int, PartitionProgress]:
    """Return the standings in the order of partitions; of two of a partition, that of its later owner."""
    found: dict[int, PartitionProgress] = {}
    for one in (one for answer in answers for one in answer):
        if one.partition not in found or one.epoch > found[one.partition].epoch:
            found[one.partition] = one
    return dict(sorted(found.items()))
