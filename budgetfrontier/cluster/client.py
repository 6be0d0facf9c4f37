"""The client of a crawl in partitions: `Frontier`'s methods, each call answered by the owners of the partitions."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from budgetfrontier.bus.interface import BusError
from budgetfrontier.client import RemoteFrontier, calls
from budgetfrontier.cluster.owners import Directory, Owner
from budgetfrontier.cluster.partition import partition_of_lease
from budgetfrontier.cluster.routing import Router, partition_of_queue
from budgetfrontier.cluster.standing import Standing, crawl_state, crawl_summary, limit_reached
from budgetfrontier.errors import ConnectionLost, FrontierClosed, LeaseExpired, NotOwner
from budgetfrontier.model import (
    Admission,
    CrawlState,
    CrawlUri,
    Finish,
    Lease,
    Outcome,
    QueueRecord,
    Summary,
    Tally,
)
from budgetfrontier.settings import Settings

_T = TypeVar("_T")
_R = TypeVar("_R")

PART: Final = 1000
"""URIs that are routed at a time."""
PAUSE: Final = 0.1
"""Seconds before owners are looked up again."""
LOOK_AGAIN: Final = 2.0
"""Seconds after which the owners are looked up, if nothing has told that they have changed."""
SHORT: Final = 1.0
"""Seconds for which a call to one worker is repeated, before its partitions are looked for elsewhere."""


class ClusterFrontier:
    """A crawl in partitions with the methods, results and errors of `Frontier`; for one thread.

    It finds the owner of each partition in the directory, and looks again when one does not answer or has lost it. A
    call is repeated for `retry_for` seconds, then ConnectionLost is raised. A call that was applied although its answer
    was lost is applied again by a later owner: a lease that had been ended is returned as late, a URI that had been
    added is a DUPLICATE.
    """

    def __init__(
        self,
        crawl: str,
        directory: Directory,
        *,
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = 60.0,
        keep_leases: bool = False,
        timeout: float | None = None,
    ) -> None:
        self._crawl, self._directory = crawl, directory
        self._options: dict[str, Any] = {"token": token, "tls": tls, "keep_leases": keep_leases, "timeout": timeout}
        self._retry_for = retry_for
        self._remotes: dict[str, RemoteFrontier] = {}
        self._owners: dict[int, str] = {}
        self._partitions = 0
        self._router: Router | None = None
        self._turn = 0
        self._read_at = -LOOK_AGAIN
        self._found: Mapping[int, Owner] = {}
        self._closed = False

    def __repr__(self) -> str:
        return f"<ClusterFrontier {self._crawl!r}: {len(self._owners)} of {self._partitions} partitions>"

    # -- URIs in

    def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI; `schedule_many` takes many."""
        return self.schedule_each([uri])[0]

    def schedule_many(self, uris: Iterable[str | CrawlUri]) -> Tally:
        """Admit a batch; count the results."""
        return self._tallied(uris, lambda remote, part: remote.schedule_many(part))

    def mark_seen(self, uris: Iterable[str | CrawlUri], *, charge: bool = False) -> Tally:
        """Mark URIs that were fetched elsewhere as seen."""
        return self._tallied(uris, lambda remote, part: remote.mark_seen(part, charge=charge))

    def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch; return the result for each URI."""
        found: dict[int, Admission] = {}
        given = list(uris)
        routes = self._routes()
        for places, results in self._routed(given, routes.partition, lambda remote, part: remote.schedule_each(part)):
            found.update(zip(places, results, strict=True))
        return [found[place] for place in range(len(given))]

    # -- URIs out

    def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, of workers in turn. Waits up to `wait` seconds for the first one."""
        deadline = time.monotonic() + wait
        leases: list[Lease] = []
        while True:
            addresses = self._addresses()
            self._turn += 1
            for place in range(len(addresses)):
                address = addresses[(self._turn + place) % len(addresses)]
                try:
                    leases += self.remote(address).lease(count - len(leases), ttl=ttl)
                except (NotOwner, ConnectionLost, FrontierClosed):
                    self.forget(address)
                if len(leases) >= count:
                    break
            left = deadline - time.monotonic()
            if leases or left <= 0:
                return leases
            time.sleep(min(left, PAUSE))

    def finish(self, lease: Lease, outcome: Outcome = Outcome.SUCCESS, **options: Any) -> None:
        """End a lease; `options` are those of `Frontier.finish`. Raises LeaseExpired for one that has ended."""
        if self.finish_many([Finish(lease, outcome, **options)]):
            raise LeaseExpired

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases; return those that had already ended."""
        given = calls.endings(finished)
        late: list[Lease] = []
        for _, ended in self._routed(given, partition_of, lambda remote, part: remote.finish_many(part)):
            late += ended
        return late

    def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases; return those that had ended."""
        late: list[Lease] = []
        for _, ended in self._routed(list(leases), partition_of, lambda remote, part: remote.renew_many(part, ttl)):
            late += ended
        return late

    def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        late: list[Lease] = []
        for _, ended in self._routed(list(leases), partition_of, lambda remote, part: remote.give_back(part)):
            late += ended
        return late

    # -- looking

    @property
    def settings(self) -> Settings:
        """The settings of the crawl, without the adjustments."""
        return self._any().settings

    def standings(self) -> tuple[list[Standing], set[int]]:
        """Return the standings of the partitions whose owners answer, and the numbers of the others."""
        found: dict[int, Standing] = {}
        for address in self._addresses():
            try:
                answer = self.remote(address).standings()
            except (NotOwner, ConnectionLost, FrontierClosed):
                self.forget(address)
            else:
                for one in msgspec.convert(answer, list[Standing]):
                    if one.partition not in found or one.epoch > found[one.partition].epoch:
                        found[one.partition] = one
        return [found[number] for number in sorted(found)], set(range(self._partitions)) - found.keys()

    def summary(self) -> Summary:
        """Return the counters of all partitions. Raises ConnectionLost if one is without an owner for long."""
        return crawl_summary(self._all_standings())

    @property
    def state(self) -> CrawlState:
        """The state of the crawl: FINISHED once all partitions are, and nothing is under way between them.

        It is PAUSED, with the reason "limit", once `cluster.max_uris` or `cluster.max_spend` is used up, and PAUSING
        before, while URIs are out.
        """
        return crawl_state(self._all_standings())

    def owners(self) -> Mapping[int, Owner]:
        """Return the owners of the partitions as the directory has them now."""
        return self._refresh(strict=True)

    @property
    def partitions(self) -> int:
        """The number of partitions. Raises ConnectionLost if none has had an owner for long."""
        return self._count()

    @property
    def router(self) -> Router:
        """The partitions of URLs, by the settings of the crawl."""
        return self._routes()

    @property
    def limit(self) -> str | None:
        """The setting whose total is used up: "cluster.max_uris" or "cluster.max_spend"; None if none is."""
        return limit_reached(self._all_standings())

    def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        number = partition_of_queue(key, self._count())
        for _, record in self._routed([key], lambda _: number, lambda remote, part: remote.queue(part[0])):
            return record
        raise AssertionError

    # -- the connection

    def close(self) -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect."""
        if not self._closed:
            self._closed = True
            for remote in self._remotes.values():
                with suppress(NotOwner):  # those of partitions that have moved expire
                    remote.close()
            self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- their parts

    def _tallied(self, uris: Iterable[Any], call: Callable[[RemoteFrontier, list[Any]], Tally]) -> Tally:
        tally = Tally()
        if isinstance(uris, str | bytes):
            raise TypeError("this takes an iterable of URIs; one alone goes into a list")
        routes = self._routes()
        batch: list[Any] = []
        for uri in uris:
            batch.append(uri)
            if len(batch) == PART:
                for _, part in self._routed(batch, routes.partition, call):
                    tally.add(part)
                batch = []
        for _, part in self._routed(batch, routes.partition, call):
            tally.add(part)
        return tally

    def _routed(
        self,
        items: list[_T],
        partition_of: Callable[[_T], int],
        call: Callable[[RemoteFrontier, list[_T]], _R],
    ) -> list[tuple[list[int], _R]]:
        """Make calls to the owners of the items' partitions; return the places of each part, and its result."""
        self._check()
        results: list[tuple[list[int], _R]] = []
        left = list(range(len(items)))
        partitions = [partition_of(item) for item in items]
        deadline = time.monotonic() + self._retry_for
        lost: Exception = NotOwner()
        while left:
            by_address: dict[str, list[int]] = {}
            waiting: list[int] = []
            for place in left:
                address = self._owners.get(partitions[place])
                if address is None:
                    waiting.append(place)
                else:
                    by_address.setdefault(address, []).append(place)
            for address, places in by_address.items():
                try:
                    results.append((places, call(self.remote(address), [items[place] for place in places])))
                except (NotOwner, ConnectionLost, FrontierClosed) as e:
                    lost = e
                    self.forget(address)
                    waiting += places
            left = waiting
            if left:
                if time.monotonic() > deadline:
                    raise ConnectionLost(
                        f"{len({partitions[place] for place in left})} partitions of {self._crawl!r} have had no owner "
                        f"for {self._retry_for:.0f} s ({lost}); look whether their workers run"
                    )
                self._refresh()
                if any(self._owners.get(partitions[place]) is None for place in left):
                    time.sleep(PAUSE)
        return results

    def _all_standings(self) -> list[Standing]:
        deadline = time.monotonic() + self._retry_for
        while True:
            found, missing = self.standings()
            if found and not missing:
                return found
            if time.monotonic() > deadline:
                raise ConnectionLost(f"partitions {sorted(missing)} of {self._crawl!r} have no owner that answers")
            time.sleep(PAUSE)
            self._refresh()

    def _count(self) -> int:
        """Return the number of partitions, once one has an owner."""
        deadline = time.monotonic() + self._retry_for
        while not self._partitions:
            self._refresh()
            if not self._partitions:
                if time.monotonic() > deadline:
                    raise ConnectionLost(f"no partition of {self._crawl!r} has an owner; start `budgetfrontier worker`")
                time.sleep(PAUSE)
        return self._partitions

    def _routes(self) -> Router:
        if self._router is None:
            self._router = Router.of(self._any().settings, self._count(), self._directory)
        return self._router

    def _any(self) -> RemoteFrontier:
        """Return a connection to some owner."""
        self._count()
        deadline = time.monotonic() + self._retry_for
        while True:
            for address in self._addresses():
                try:
                    return self.remote(address)
                except (NotOwner, ConnectionLost, FrontierClosed):
                    self.forget(address)
            if time.monotonic() > deadline:
                raise ConnectionLost(f"no worker of {self._crawl!r} answers; look whether one runs")
            time.sleep(PAUSE)

    def _addresses(self) -> list[str]:
        self._check()
        if len(self._owners) < max(1, self._partitions) or time.monotonic() > self._read_at + LOOK_AGAIN:
            self._refresh()
        return sorted(set(self._owners.values()))

    def _refresh(self, *, strict: bool = False) -> Mapping[int, Owner]:
        """Look up the owners; unless `strict`, those known before stay while the directory does not answer."""
        self._read_at = time.monotonic()
        try:
            self._found = found = self._directory.read()
        except BusError:
            if strict or not self._partitions:
                raise
            return self._found
        self._owners = {number: owner.address for number, owner in found.items() if owner.address}
        self._partitions = max((owner.partitions for owner in found.values()), default=0)
        return found

    def remote(self, address: str) -> RemoteFrontier:
        """Return the connection to a worker, made if need be. Raises ConnectionLost."""
        remote = self._remotes.get(address)
        if remote is None:
            remote = self._remotes[address] = RemoteFrontier(
                address, crawl=self._crawl, retry_for=SHORT, **self._options
            )
        return remote

    def connected(self, address: str) -> RemoteFrontier | None:
        """Return the connection to a worker, if there is one."""
        return self._remotes.get(address)

    def forget(self, address: str) -> None:
        """Look up the owners anew of the partitions that were at an address."""
        self._owners = {number: each for number, each in self._owners.items() if each != address}
        self._refresh()

    def _check(self) -> None:
        if self._closed:
            raise FrontierClosed(f"this client of {self._crawl!r} was closed; make another")


def partition_of(item: Lease | Finish) -> int:
    """Return the partition of a lease, or of the lease that an ending ends."""
    return partition_of_lease((item.lease if isinstance(item, Finish) else item).id)
