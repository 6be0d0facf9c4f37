"""The frontier of a server for the main loop: URIs are leased ahead, and ends of leases are sent in batches.

No call of the main loop waits for the network. Tasks talk to the server: one leases ahead, one sends the ends of leases
by the batch, one renews the leases, and one looks at the counters. Ends that wait for a
partition that does not answer hold up later ones for seconds only. `commit` syncs the outputs before the gathered ends
are sent, so that the server has no URI as finished without its output on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from budgetfrontier.core.leasing_ahead import LastSummary, LeaseTable
from budgetfrontier.core.model import CrawlState, Finish, Lease, Outcome, Summary
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.shared.resting_visits import Rests
from budgetfrontier.crawler.shared.served_crawl import ServedCrawl
from budgetfrontier.crawler.shared.server_calls import CrawlServer, Questions
from budgetfrontier.errors import PolicyError
from budgetfrontier.reports.format import counted
from budgetfrontier.rules import crawl_states
from budgetfrontier.rules.verdict import Verdict
from budgetfrontier.settings.overrides import QueueSettings

LOOK_EVERY = 2.0
"""Seconds between two looks at the counters."""
MOST_UNSYNCED = 1.0
"""Seconds between two syncs of the outputs if no URI was finished."""
MOST_SENT = 1000
"""Ends sent together."""
STUCK_AFTER = 3.0
"""Seconds after which ends that are sent keep others back no more, if the crawl is in partitions."""
SOON = 0.2
"""The same while others are stuck: most of these have the same cause."""
MOST_WAITING = 100_000
"""Ends, and URIs discovered, that wait to be sent, from which on no more URIs are leased."""

_OVER = (CrawlState.NEW, CrawlState.FINISHED)
_PAUSED = (CrawlState.PAUSED, CrawlState.PAUSING)

log = logging.getLogger("budgetfrontier.crawl")


class LeasingFrontier:
    """A crawl that other processes use, too. Use its methods in the event loop in which `begin` was awaited.

    Half as many URIs as may be visited at a time are leased before a fetcher is free. A lease lasts `ttl` seconds, and
    is renewed as long as this process holds it. `sync` makes the outputs durable.
    """

    def __init__(
        self, remote: ServedCrawl, *, most_visits: int, most_resting: int, ttl: float, sync: Callable[[], None]
    ) -> None:
        self._remote = remote
        self._server = CrawlServer(remote.name, in_partitions=remote.in_partitions)
        self._ttl, self._sync = ttl, sync
        self._held = LeaseTable(ttl, ahead=max(most_visits // 2, 1))
        self._visited: set[int] = set()
        """The leases whose visits have not ended, by id."""
        self.rests = Rests(
            most_visits=most_visits,
            most_resting=most_resting,
            visited=lambda: len(self._visited),
            wake=self._wake_up,
        )
        self._last = LastSummary()
        self.questions = Questions(remote, self._server, sent=self._last.note_sent)
        self._asked = 0  # URIs that were asked for, and are not here yet
        self._gathered: list[Finish] = []  # since the last commit
        self._to_send: deque[Finish] = deque()
        self._sending: dict[asyncio.Task[None], list[Finish]] = {}
        self._renewing: dict[int, asyncio.Task[None]] = {}  # by partition
        self._waiting = 0  # ends and URIs discovered in these three
        self._paused_for: str | None = None
        self._synced = 0.0
        self._error: Exception | None = None
        self._halted = self._stopping = False
        self._wake: Callable[[], object] = lambda: None
        self._tasks: list[asyncio.Task[None]] = []
        self.late = 0
        """The number of leases that had expired before their end was sent."""

    # -- for the main loop

    @property
    def state(self) -> CrawlState:
        """The state of the crawl; RUNNING as long as this process has something that the server does not know."""
        summary = self.summary()
        over = summary.state in _OVER or summary.pause_reason == crawl_states.FINISH
        return CrawlState.RUNNING if over and not self._is_settled else summary.state

    def next_ready_in(self) -> float | None:
        """Return 0.0 if a URI is here; None if it is not known when there will be one. Raises what ended the tasks."""
        self._raise_error()
        return 0.0 if self._held.ready and self.rests.places else None

    def lease(self, count: int = 1, *, ttl: float | None = None) -> list[Lease]:
        """Return up to `count` of the URIs that are here; their leases are renewed, whatever `ttl` is."""
        taken, _ = self._held.take(min(count, self.rests.places), time.monotonic())
        self._visited.update(lease.id for lease in taken)
        self._more.set()
        return taken

    def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        """Gather ends, to be sent after the next commit. Returns nothing: leases that have expired are logged later."""
        for each in finished:
            end = each if isinstance(each, Finish) else Finish(each)
            self._gathered.append(end)
            self._waiting += _weight(end)
            self.visit_ended(end.lease)
        return []

    def visit_ended(self, lease: Lease) -> None:
        """Give the place of a visit to another; its lease is held until its end is sent."""
        self._visited.discard(lease.id)
        self.rests.place_freed()
        self._more.set()

    def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Do nothing: all leases are renewed together."""

    def check_lease(self, lease: Lease) -> None:
        """Raise PutBack unless a lease lasts for a request to its host: the frontier may give it to others then."""
        if not self._held.has_time(lease, time.monotonic()):
            raise PutBack(0.0, "its lease could not be renewed in time")

    def settings_for(self, lease: Lease) -> QueueSettings:
        """Return the settings in force for a leased URI, as of the last look."""
        return self._remote.settings_for(lease)

    def lacks_address(self, lease: Lease) -> bool:
        """Return False: the server learns the addresses of hosts from the ends of leases."""
        return False

    def summary(self) -> Summary:
        """Return the counters of all processes, as of the last look."""
        summary = self._last.summary
        assert summary is not None, "begin it first"
        return summary

    def verdict(self, *, rate: float | None = None) -> Verdict | None:
        """Return None: `budgetfrontier explain` knows it where the frontier is."""
        return None

    def pause(self, *, reason: str = "operator", who: str | None = None) -> CrawlState:
        """Lease nothing more in this process; the crawl goes on for the others."""
        self.halt()
        return self.state

    def commit(self) -> None:
        """Sync the outputs, and let the gathered ends be sent. Raises what ended the tasks, and StorageFull."""
        if not isinstance(self._error, PolicyError):  # `next_ready_in` raises that
            self._raise_error()
        now = time.monotonic()
        if self._gathered or now - self._synced >= MOST_UNSYNCED:
            self._sync()
            self._synced = now
        if self._gathered:
            self._to_send.extend(self._gathered)
            self._gathered = []
            self._sendable.set()
        self._server.watch()

    def postpone_commit(self, seconds: float) -> None:
        """Do nothing: it commits when `commit` is called."""

    # -- beginning and end

    async def begin(self, wake: Callable[[], object]) -> None:
        """Look at the crawl, and begin to lease. `wake` is called when the main loop has something to do."""
        self._more, self._sendable, self._look_soon = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._wake = wake
        await self._look_around()
        work = (self._lease_ahead, self._send_ends, self._renew_leases, self._keep_looking)
        self._tasks = [asyncio.create_task(self._guarded(each)) for each in work]

    def halt(self) -> None:
        """Lease nothing more, and give back the leases that wait for a fetcher."""
        if self._halted:
            return
        self._halted = True
        self.rests.stop()
        self.questions.stop()
        if self._tasks and self._remote.in_partitions:
            self._more.set()  # `_lease_ahead` gives back the leases under way
        elif self._tasks:
            self._tasks[0].cancel()  # the server takes back what it has leased in this call
        if ready := self._held.take_back():
            self._tasks.append(asyncio.create_task(self._guarded(partial(self._give_back, ready))))

    async def close(self, *, within: float) -> int:
        """Send the ends that were committed, give back all leases, and disconnect; wait so many seconds for the server.

        Returns the number of URIs whose end could not be sent: they are fetched again. It may be higher than that if
        some partitions of a crawl have not answered.
        """
        self.halt()
        self._stopping = True
        if self._tasks:
            self._sendable.set()
            self._server.leaving = True
            done, _ = await asyncio.wait(self._tasks[:2], timeout=within)
            told = self._tasks[1] in done
            tasks = [*self._tasks, *self._sending, *self._renewing.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if told:
                with suppress(Exception):
                    async with asyncio.timeout(within):
                        await self._remote.frontier.give_back(self._held.all())
                        self._last.put(self._last.sent, await self._remote.frontier.summary())
        await self._remote.close(within=1.0)
        return sum(map(len, self._sending.values())) + len(self._to_send) + len(self._gathered)

    # -- tasks

    async def _guarded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Do work, which begins here: a task may be cancelled before it has begun. An error ends the run."""
        try:
            await work()
        except Exception as error:
            self._fail(error)

    def _is_halted(self) -> bool:
        """Return whether nothing more is leased: mypy takes `_halted` for what it was before an await."""
        return self._halted

    async def _lease_ahead(self) -> None:
        wait = self._held.lease_wait
        while True:
            while not self._halted and (self._wanted <= 0 or not self._held.is_low):
                self._more.clear()
                await self._more.wait()
            if self._halted:
                return
            wanted, asked_at = self._wanted, time.monotonic()
            self._asked += wanted
            try:
                call = partial(self._remote.frontier.lease, wanted, ttl=self._ttl, wait=wait)
                leases = await self._server.answer(call, wait=wait)
            finally:
                self._asked -= wanted
            if self._is_halted():
                await self._give_back(leases)
            elif leases:
                self._arrived(leases, asked_at)
            else:
                self._look_soon.set()

    async def _send_ends(self) -> None:
        while True:
            while not self._to_send:
                if self._stopping:
                    await asyncio.gather(*self._sending)
                    return
                self._sendable.clear()
                await self._sendable.wait()
            count = min(len(self._to_send), MOST_SENT)
            ends = [self._to_send.popleft() for _ in range(count)]
            patience = None if not self._remote.in_partitions else SOON if self._sending else STUCK_AFTER
            sending = asyncio.create_task(self._send(ends))
            self._sending[sending] = ends
            sending.add_done_callback(self._note_sent)
            await asyncio.wait([sending], timeout=patience)
            if sending.done():
                sending.result()  # an error ends this task

    def _note_sent(self, sending: asyncio.Task[None]) -> None:
        """Note that ends were sent; those of a task that has failed, or was cancelled, were not."""
        if sending.cancelled():
            return
        if (error := sending.exception()) is None:
            del self._sending[sending]
        elif isinstance(error, Exception):
            self._fail(error)

    async def _send(self, ends: list[Finish]) -> None:
        fetched = {end.lease.id for end in ends if end.outcome is not Outcome.DEFERRED}
        late = [lease for lease in await self._exchange(ends) if lease.id in fetched]
        for end in ends:
            self._held.drop(end.lease)
            self._waiting -= _weight(end)
        if late:
            self.late += len(late)
            log.warning(
                "%s had expired before the end was told, such as that of %s: the output stays, and it is fetched again",
                counted(len(late), "lease"),
                late[0].uri.url,
            )
        self._last.note_sent()
        self._more.set()
        if not self._held:
            self._look_soon.set()

    async def _exchange(self, ends: list[Finish]) -> list[Lease]:
        """Send ends, and lease as many URIs as are wanted; return the leases that had ended.

        Ends that may be stuck keep no leases back: those are asked for elsewhere.
        """
        wanted, asked_at = 0 if self._remote.in_partitions else max(self._wanted, 0), time.monotonic()
        self._asked += wanted
        try:
            call = partial(self._remote.frontier.finish_and_lease, ends, wanted, ttl=self._ttl)
            late, leases = await self._server.answer(call)
        except (PolicyError, ValueError):
            await self._send_one_by_one(ends)
            return []
        finally:
            self._asked -= wanted
        self._arrived(leases, asked_at)
        return late

    async def _send_one_by_one(self, ends: list[Finish]) -> None:
        """Send ends of which one cannot be carried out; those before it may have been carried out already."""
        for end in ends:
            try:
                await self._server.answer(partial(self._remote.frontier.finish_many, [end]))
            except PolicyError as error:  # its lease is given back at the end
                self._fail(error)
            except ValueError:  # too many bytes of URIs for a message
                await self._server.answer(partial(self._remote.frontier.schedule_many, end.discovered))
                rest = msgspec.structs.replace(end, discovered=[])
                await self._server.answer(partial(self._remote.frontier.finish_many, [rest]))

    async def _renew_leases(self) -> None:
        while True:
            await asyncio.sleep(self._held.renew_every)
            for number, leases in self._remote.by_partition(self._held.all()).items():
                if number not in self._renewing:
                    renewing = asyncio.create_task(self._guarded(partial(self._renew, leases)))
                    self._renewing[number] = renewing
                    renewing.add_done_callback(partial(self._note_renewed, number))

    def _note_renewed(self, number: int, _: asyncio.Task[None]) -> None:
        del self._renewing[number]

    async def _renew(self, leases: list[Lease]) -> None:
        asked_at = time.monotonic()
        late = await self._server.answer(partial(self._remote.frontier.renew_many, leases, self._ttl))
        self._held.renew(leases, late, asked_at)

    async def _keep_looking(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look_soon.wait()
            self._look_soon.clear()
            await self._look_around()

    async def _look_around(self) -> None:
        sent = self._last.sent
        await self._server.answer(self._remote.refresh)
        summary = await self._server.answer(self._remote.frontier.summary)
        self._last.put(sent, summary)
        reason = summary.pause_reason if summary.state in _PAUSED else None
        if self._tasks and reason not in (None, crawl_states.FINISH, self._paused_for):  # logged before, otherwise
            log.warning("%s is paused (%s): nothing is leased until it goes on", self._remote.name, reason)
        self._paused_for = reason
        self._wake()

    async def _give_back(self, leases: list[Lease]) -> None:
        await self._server.answer(partial(self._remote.frontier.give_back, leases))

    # -- parts

    @property
    def _wanted(self) -> int:
        """The number of URIs to ask for now."""
        if self._halted or self._waiting >= MOST_WAITING:
            return 0
        return self.rests.places + self._held.room - self._asked

    @property
    def _is_settled(self) -> bool:
        """Whether the last look was after all that this process has sent, and nothing waits to be sent."""
        return not self._held and not self._waiting and self._last.current is not None

    def _arrived(self, leases: list[Lease], asked_at: float) -> None:
        self._held.add(leases, asked_at)
        if self._halted:
            self._tasks.append(asyncio.create_task(self._guarded(partial(self._give_back, self._held.take_back()))))
        elif leases:
            self._wake()

    def _wake_up(self) -> None:
        self._wake()

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        self._wake()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error


def _weight(end: Finish) -> int:
    """Return how many places an end takes among those that wait to be sent."""
    return 1 + len(end.discovered)  # type: ignore[arg-type]  # the main loop gives a list
