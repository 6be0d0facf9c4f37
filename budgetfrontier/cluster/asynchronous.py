"""The asyncio client of a crawl in partitions: `Frontier`'s methods, answered by the owners of the partitions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

from budgetfrontier.cluster.calls.async_cluster_transport import AsyncClusterTransport
from budgetfrontier.cluster.calls.cluster_calls import Calls
from budgetfrontier.cluster.directory.owners import Directory, Owner
from budgetfrontier.cluster.partitions.partition_progress import (
    PartitionProgress,
    crawl_state,
    crawl_summary,
    limit_reached,
)
from budgetfrontier.cluster.partitions.routing import Router
from budgetfrontier.core import protocol
from budgetfrontier.core.model import (
    Admission,
    CrawlState,
    CrawlUri,
    DeadLetter,
    Finish,
    Lease,
    Outcome,
    QueueRecord,
    RunEnd,
    Summary,
    Tally,
)
from budgetfrontier.engine import arguments
from budgetfrontier.engine.arguments import Letters
from budgetfrontier.errors import FrontierError, PolicyError
from budgetfrontier.remote import elsewhere
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import Override


class AsyncClusterFrontier:
    """A crawl in partitions with the everyday methods of `Frontier`. Tasks may share one client.

    It is for one event loop: use it with `async with`, or `await connect()` and `await close()`.

    It finds the owner of each partition in the directory, and looks again when one does not answer for some seconds, or
    has lost it: then the call is given up, and made to the next owner. A call is repeated for `retry_for` seconds, then
    ConnectionLost is raised. A call that was applied although its answer was lost is applied again by a later owner: a
    lease that had been ended is returned as late, a URI that had been added is a DUPLICATE, and leases are handed out
    again after they expire. Calls to several workers are made at once.
    A task that is cancelled while it waits for leases loses none.
    """

    def __init__(
        self,
        crawl: str,
        directory: Directory,
        *,
        token: str | None = None,
        tls: bool | str | os.PathLike[str] = False,
        retry_for: float = 2 * protocol.RETRY_FOR,
        keep_leases: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Take the crawl's name and directory, and the options of `RemoteFrontier`. Does not connect yet."""
        self._calls = Calls(crawl, retry_for)
        self._asking = self._calls.asking
        self.transport = AsyncClusterTransport(
            self._asking, directory, {"token": token, "tls": tls, "timeout": timeout}
        )
        """The connections to workers, and the way of calls to them."""
        self._keep_leases = arguments.flag(keep_leases, "keep_leases")

    def __repr__(self) -> str:
        return f"<AsyncClusterFrontier {self._asking.told}{' closed' if self.transport.is_closed else ''}>"

    if not TYPE_CHECKING:  # so that type checkers report names that are missing

        def __getattr__(self, name: str) -> NoReturn:
            raise elsewhere.missing(self, name, job="--cluster kafka://HOST:PORT/CRAWL")

    @property
    def retry_for(self) -> float:
        """Seconds for which a call is repeated; calls under way notice a change."""
        return self._asking.retry_for

    @retry_for.setter
    def retry_for(self, seconds: float) -> None:
        self._asking.retry_for = seconds

    async def connect(self) -> Self:
        """Find a worker, and the settings of the crawl. Raises ConnectionLost if none answers for `retry_for` seconds.

        Other methods connect, too, but raise the directory's error if it does not answer at first.
        """
        await self.transport.run(self._calls.connect())
        return self

    # -- URIs in

    async def schedule(self, uri: str | CrawlUri) -> Admission:
        """Admit one URI; `schedule_many` takes many. Raises TypeError for other types."""
        arguments.uri(uri)
        [admission] = await self.schedule_each([uri])
        return admission

    async def schedule_many(
        self, uris: Iterable[str | CrawlUri], *, tally: Tally | None = None, brought: bool = False
    ) -> Tally:
        """Admit a batch; count the results.

        Counts are added to `tally`, if given, as they come, so that it is right after an error or Ctrl-C, too. URIs
        that are `brought` from outside of the crawl, as by an import, do not count as found.
        """
        return await self.transport.run(self._calls.schedule_many(uris, tally, brought=brought))

    async def schedule_each(self, uris: Iterable[str | CrawlUri]) -> list[Admission]:
        """Admit a batch; return the result for each URI."""
        return await self.transport.run(self._calls.schedule_each(uris))

    async def mark_seen(
        self, uris: Iterable[str | CrawlUri], *, charge: bool = False, tally: Tally | None = None
    ) -> Tally:
        """Mark URIs that were fetched elsewhere as seen; count them like `schedule_many`."""
        return await self.transport.run(self._calls.mark_seen(uris, charge, tally))

    async def admit_many(self, uris: Iterable[str | CrawlUri], *, maxsize: int) -> Tally:
        """Admit a batch while fewer than `maxsize` URIs (0: any) are queued and not leased; the others are FULL.

        The count is read before URIs are sent: URIs that other processes add meanwhile come on top.
        """
        return await self.transport.run(self._calls.admit_many(uris, maxsize))

    async def admit_each(
        self, uris: Iterable[str | CrawlUri], *, maxsize: int, again: bool = False
    ) -> list[Admission | PolicyError]:
        """Admit a batch like `admit_many`; return the result for each URI, the error if a policy failed for it."""
        return await self.transport.run(self._calls.admit_each(uris, maxsize, again))

    # -- URIs out

    async def lease(self, count: int = 1, *, ttl: float | None = None, wait: float = 0.0) -> list[Lease]:
        """Lease up to `count` URIs, of workers in turn. Waits up to `wait` seconds for the first one."""
        return await self.transport.run(self._calls.lease(count, ttl, wait))

    # sync: def interrupt(self) -> None:
    # sync:     """Let calls of `lease` that wait in other threads return nothing now, and later ones not wait."""
    # sync:     self.transport.interrupt()

    async def finish(self, lease: Lease, outcome: Outcome = Outcome.SUCCESS, **options: Any) -> None:
        """End a lease; `options` are those of `Frontier.finish`. Raises LeaseExpired for one that has ended."""
        await self.transport.run(self._calls.finish(lease, outcome, options))

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """End many leases; return those that had already ended."""
        return await self.transport.run(self._calls.finish_many(finished))

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int = 1, *, ttl: float | None = None, wait: float = 0.0
    ) -> tuple[list[Lease], list[Lease]]:
        """End leases like `finish_many`, then lease URIs like `lease`; return what both return."""
        count, ttl, wait = arguments.asked(count, ttl, wait)
        late = await self.finish_many(finished)
        return late, await self.lease(count, ttl=ttl, wait=wait)

    async def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Set the deadline of a lease to `ttl` seconds from now (None: the setting). Raises LeaseExpired."""
        await self.transport.run(self._calls.renew(lease, ttl))

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None = None) -> list[Lease]:
        """Set the deadlines of leases; return those that had ended."""
        return await self.transport.run(self._calls.renew_many(leases, ttl))

    async def give_back(self, leases: Iterable[Lease]) -> list[Lease]:
        """End leases as if they had never been given; return those that had already ended."""
        return await self.transport.run(self._calls.give_back(leases))

    async def landed_many(self, downloads: Iterable[tuple[Lease, float | None]]) -> list[Lease]:
        """Report that downloads are over, each a lease with the seconds that it took; return leases that had ended."""
        return await self.transport.run(self._calls.landed_many(downloads))

    async def next_ready_in(self) -> float | None:
        """Return the seconds until something may be leased; 0.0: now; None: never, as things stand.

        While a partition is without an owner that answers, it is not None.
        """
        return await self.transport.run(self._calls.next_ready_in())

    # -- looking

    @property
    def settings(self) -> Settings:
        """The settings of the crawl when this client connected, without the adjustments."""
        # sync: self.connect()
        self.transport.check()
        return self._calls.settings

    @property
    def folder(self) -> Path:
        """The name of the crawl, as the frontiers are in the folders of its workers."""
        return Path(self._asking.crawl)

    async def standings(self) -> tuple[list[PartitionProgress], set[int]]:
        """Return the standings of the partitions whose owners answer, and the numbers of the others."""
        return await self.transport.run(self._calls.standings_now())

    async def summary(self) -> Summary:
        """Return the counters of all partitions. Raises ConnectionLost if one is without an owner for long."""
        return crawl_summary(await self.transport.run(self._calls.standings()))

    async def waiting(self) -> int:
        """Return how many URIs are queued and not leased by any client.

        Raises ConnectionLost if a partition is without an owner for long.
        """
        return await self.transport.run(self._calls.waiting())

    async def state(self) -> CrawlState:
        """Return the state of the crawl: FINISHED once all partitions are, and nothing is under way between them.

        It is PAUSED, with the reason "limit", once `cluster.max_uris` or `cluster.max_spend` is used up, and PAUSING
        before, while URIs are out.
        """
        return crawl_state(await self.transport.run(self._calls.standings()))

    async def limit(self) -> str | None:
        """Return the setting whose total is used up: "cluster.max_uris" or "cluster.max_spend"; None if none is."""
        return limit_reached(await self.transport.run(self._calls.standings()))

    async def owners(self) -> Mapping[int, Owner]:
        """Return the owners of the partitions as the directory has them now."""
        return await self.transport.run(self._asking.look_up(strict=True))

    async def partitions(self) -> int:
        """Return the number of partitions. Raises ConnectionLost if none has had an owner for long."""
        return await self.transport.run(self._asking.count())

    async def router(self) -> Router:
        """Return the partitions of URLs, by the settings of the crawl."""
        return await self.transport.run(self._calls.connect())

    async def queue(self, key: str) -> QueueRecord | None:
        """Return a copy of a queue's record as of now, None if no URI was ever placed there."""
        return await self.transport.run(self._calls.queue(key))

    async def queue_key(self, uri: CrawlUri) -> str:
        """Return the key of the queue that a URI would be placed on, by its `url`, a normalized href, and `queue`."""
        return await self.transport.run(self._calls.queue_key(uri))

    async def rest(
        self, uri: CrawlUri, key: str, *, fetch_seconds: float | None = None, crawl_delay: float | None = None
    ) -> float:
        """Return the politeness delay in seconds of a queue after a fetch of one of its URIs, by its `url`."""
        return await self.transport.run(self._calls.rest(uri, key, fetch_seconds, crawl_delay))

    async def adjustments(self) -> list[Override]:
        """Return the adjustments in force, as one of the partitions has them."""
        return await self.transport.run(self._calls.adjustments())

    async def dead_letters(self, *, limit: int | None = None) -> list[DeadLetter]:
        """Return the dead letters, oldest first; the `id` of each is that in its partition.

        Raises ConnectionLost if a partition is without an owner for long.
        """
        return await self.transport.run(self._calls.dead_letters(limit))

    # -- steering

    async def pause(self, *, reason: str = "operator", who: str | None = None) -> None:
        """Lease nothing more, to no client; each partition is PAUSED once its leases have ended."""
        await self.transport.run(self._calls.steer("pause", reason, who))

    async def resume(self, *, reason: str = "", who: str | None = None) -> None:
        """Resume a paused crawl. Each partition is resumed when its owner reads that in its log."""
        await self.transport.run(self._calls.steer("resume", reason, who))

    async def terminate(self, *, reason: str = "", who: str | None = None) -> None:
        """End the crawl permanently: nothing is leased again.

        Leases that are out may be finished, and URIs are ADDED all the same, for an `export` of what is left.
        """
        await self.transport.run(self._calls.steer("terminate", reason, who))

    async def set_budgets(self, budgets: Iterable[tuple[CrawlUri, int]]) -> None:
        """Set the total budgets of the queues of URIs with normalized URLs, as `regulate` does."""
        await self.transport.run(self._calls.set_budgets(budgets))

    async def replay(self, letters: Letters = None) -> int:
        """Refuse: dead letters of a crawl in partitions are scheduled again, with `force`."""
        raise self._calls.refuse_replay()

    # -- the connection

    @property
    def held(self) -> int:
        """The number of leases that this client holds."""
        return len(self._calls.held.ids())

    async def commit(self) -> None:
        """Return at once: all that was acknowledged is in the logs."""
        self.transport.check()

    async def close(self, *, end: RunEnd | str | None = None, reason: str = "") -> None:
        """Give this client's leases back uncounted, unless `keep_leases`, and disconnect. A second close does nothing.

        Leases of workers that do not answer within some seconds expire. `end` and `reason` are ignored.
        """
        if self.transport.is_closed:
            return
        self.transport.check()
        # sync: self.interrupt()
        try:
            with suppress(FrontierError):
                await self.transport.run(self._calls.leave(self._keep_leases, [*self.transport.connected()]))
        finally:
            await self.transport.close()

    async def __aenter__(self) -> Self:
        await self.connect()  # async
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
