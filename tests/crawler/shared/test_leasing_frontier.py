"""What the main loop has of a shared frontier: leases ahead, ends after their outputs, and nothing that waits."""

from __future__ import annotations

import asyncio
import gc
import io
import logging
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

from budgetfrontier import CrawlState, CrawlUri, Finish, Lease, ManualClock, Outcome, Settings
from budgetfrontier.core.leasing_ahead import SILENT
from budgetfrontier.crawler.fetch.response import PutBack
from budgetfrontier.crawler.progress import ProgressDisplay
from budgetfrontier.crawler.shared import leasing_frontier as shared_frontier
from budgetfrontier.crawler.shared.leasing_frontier import LeasingFrontier
from budgetfrontier.crawler.shared.resting_visits import Rests
from budgetfrontier.crawler.shared.server_calls import CrawlServer
from budgetfrontier.crawler.shared.shared_job import crawl
from budgetfrontier.errors import PolicyError, StorageFull
from tests.support import PATIENCE, logged, memory, pages

TTL = 60.0


class Remote:
    """A crawl of a server, which answers while `there` is set; `fails` maps a URL to the error of ending it."""

    name = "server/test"
    folder = Path("/jobs/test/frontier")
    in_partitions = False

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000.0)
        self.frontier = self
        self.own = memory(self.clock, concurrency=100)
        self.settings = self.own.settings
        self.settings_for = self.own.internals.settings_for
        self.there = asyncio.Event()
        self.there.set()
        self.calls: Counter[str] = Counter()
        self.journal: list[object] = []
        self.fails: dict[str, Exception] = {}
        self.away = ""
        """A queue whose partition has no worker, as long as `there` is not set."""
        self.closed = False

    async def _answer(self, name: str, *args: Any, **named: Any) -> Any:
        self.calls[name] += 1
        if not self.away:
            await self.there.wait()
        return getattr(self.own, name)(*args, **named)

    async def connect(self) -> None: ...

    async def refresh(self) -> None: ...

    async def close(self, *, within: float) -> None:
        self.closed = True

    async def resume(self, *, reason: str, who: str) -> None: ...

    async def lease(self, count: int, *, ttl: float | None, wait: float) -> list[Lease]:
        while not (found := await self._answer("lease", count, ttl=ttl)):
            await asyncio.sleep(0.001)
        return list(found)

    async def finish_many(self, finished: Iterable[Lease | Finish]) -> list[Lease]:
        given = [end for end in finished if isinstance(end, Finish)]
        for end in given:
            error = self.fails.get(end.lease.uri.url)
            if error and (len(given) > 1 or not isinstance(error, ValueError) or end.discovered):
                raise error
        self.journal.append([end.lease.uri.url for end in given])
        late = await self._answer("finish_many", [end for end in given if end.lease.queue != self.away])
        if stuck := [end for end in given if end.lease.queue == self.away]:
            await self.there.wait()
            late += self.own.finish_many(stuck)
        return list(late)

    async def finish_and_lease(
        self, finished: Iterable[Lease | Finish], count: int, *, ttl: float | None
    ) -> tuple[list[Lease], list[Lease]]:
        late = await self.finish_many(finished)
        self.journal.append(count)
        return late, list(await self._answer("lease", count, ttl=ttl)) if count else []

    def by_partition(self, leases: Iterable[Lease]) -> dict[int, list[Lease]]:
        found: dict[int, list[Lease]] = {}
        for lease in leases:
            found.setdefault(int(lease.queue == self.away), []).append(lease)
        return found

    async def renew_many(self, leases: Iterable[Lease], ttl: float | None) -> list[Lease]:
        given = list(leases)
        if self.away and all(lease.queue != self.away for lease in given):
            return list(await self._answer("renew_many", given, ttl))
        self.calls["renewed"] += len(given)
        await self.there.wait()
        return []

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return lambda *args, **named: self._answer(name, *args, **named)


@asynccontextmanager
async def shared(remote: Any, *, most: int = 4, ttl: float = TTL, sync: Callable[[], None] | None = None) -> Any:
    frontier = LeasingFrontier(
        remote, most_visits=most, most_resting=2, ttl=ttl, sync=sync or (lambda: remote.journal.append("sync"))
    )
    await frontier.begin(lambda: None)
    try:
        yield frontier
    finally:
        await frontier.close(within=1.0)


async def happens(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.001)


async def leased(frontier: LeasingFrontier, count: int = 4) -> list[Lease]:
    found: list[Lease] = []

    def enough() -> bool:
        found.extend(frontier.lease(count - len(found)))
        return len(found) == count

    await happens(enough)
    return found


def finished(leases: Iterable[Lease], **options: Any) -> list[Lease | Finish]:
    return [Finish(lease, **options) for lease in leases]


def test_the_server_is_told_after_the_outputs_are_synced() -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 20))
        async with shared(remote) as frontier:
            leases = await leased(frontier)
            remote.journal.clear()
            assert frontier.finish_many(finished(leases)) == []
            await asyncio.sleep(0.01)
            assert remote.journal == []
            frontier.commit()
            assert remote.journal == ["sync"] and frontier.state is CrawlState.RUNNING
            await happens(lambda: len(remote.journal) > 2)
            assert remote.journal[1] == [lease.uri.url for lease in leases]
            assert len(await leased(frontier)) == 4 and remote.own.summary().succeeded == 4

    asyncio.run(main())


def test_nothing_is_told_whose_output_cannot_be_synced() -> None:
    def full() -> None:
        raise StorageFull

    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 20))
        async with shared(remote, sync=full) as frontier:
            frontier.finish_many(finished(await leased(frontier)))
            with pytest.raises(StorageFull):
                frontier.commit()
        assert remote.own.summary().succeeded == remote.own.summary().in_process == 0
        assert remote.closed and not any(remote.journal)

    asyncio.run(main())


def test_more_is_leased_only_while_there_is_room_for_the_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_frontier, "MOST_WAITING", 8)

    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("ab", 50))
        async with shared(remote) as frontier:
            leases = await leased(frontier, 4)
            await happens(lambda: frontier.next_ready_in() is None)  # all four places are taken
            remote.there.clear()
            frontier.finish_many([Finish(lease, discovered=["http://c.test/"]) for lease in leases])
            frontier.commit()
            while frontier.lease(4):  # what was leased ahead
                pass
            asked = remote.calls["lease"]
            await asyncio.sleep(0.01)
            assert remote.calls["lease"] == asked and remote.calls["finish_many"] == 1
            remote.there.set()
            assert len(await leased(frontier, 2)) == 2
            assert 0 in remote.journal  # with the ends, none was asked for

    asyncio.run(main())


def test_a_lease_that_has_expired_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 5))
        async with shared(remote) as frontier:
            leases = await leased(frontier)
            remote.clock.advance(TTL + 1)
            frontier.finish_many(finished(leases[:1]))
            frontier.commit()
            await happens(lambda: frontier.late)
        assert f"1 lease had expired before the end was told, such as that of {leases[0].uri.url}:" in caplog.text

    asyncio.run(main())


def test_no_request_is_made_with_a_lease_that_could_not_be_renewed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may give the host to others before the request has ended."""
    now = 0.0
    monkeypatch.setattr(shared_frontier, "time", SimpleNamespace(monotonic=lambda: now))

    async def main() -> None:
        nonlocal now
        remote = Remote()
        remote.own.schedule_many(pages("a", 5))
        async with shared(remote) as frontier:
            (lease,) = await leased(frontier, 1)
            now = TTL * 0.7
            frontier.check_lease(lease)
            remote.there.clear()
            now = TTL * 0.8
            with pytest.raises(PutBack, match="could not be renewed"):
                frontier.check_lease(lease)
            remote.clock.advance(TTL + 1)
            frontier.finish_many(finished([lease], outcome=Outcome.DEFERRED))
            frontier.commit()
            remote.there.set()
            await happens(lambda: remote.own.summary().expired)
            await happens(lambda: lease not in frontier._held.all())
            assert frontier.late == 0  # nothing was fetched

    asyncio.run(main())
    assert "had expired before the end was told" not in caplog.text


def test_a_policy_that_fails_for_a_page_ends_the_run_after_the_other_pages() -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 5))
        remote.fails["https://a.test/1"] = PolicyError("cost")
        remote.fails["https://a.test/2"] = ValueError("too long")
        async with shared(remote) as frontier:
            leases = await leased(frontier)
            frontier.finish_many(finished(leases, discovered=["http://b.test/"]))
            frontier.commit()
            with pytest.raises(PolicyError, match="cost"):
                await happens(lambda: frontier.next_ready_in() == 1.0)
            await happens(lambda: remote.own.summary().succeeded == 3)
            frontier.commit()  # the visits in flight go on
        assert remote.own.summary().queued == 3

    asyncio.run(main())


def test_leases_are_renewed_as_long_as_they_are_held() -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 5))
        async with shared(remote, ttl=0.05) as frontier:
            await leased(frontier)
            await happens(lambda: remote.calls["renewed"] >= 8)

    asyncio.run(main())


def test_leases_are_renewed_while_another_partition_is_without_a_worker() -> None:
    async def main() -> None:
        remote = Remote()
        remote.in_partitions = True
        remote.own.schedule_many(pages("ab", 2))
        async with shared(remote, ttl=0.05) as frontier:
            await leased(frontier)
            remote.there.clear()
            remote.away = "a.test"
            await happens(lambda: remote.calls["renew_many"] >= 3)

    asyncio.run(main())


def test_the_end_waits_for_the_server_no_longer_than_it_may() -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule_many(pages("a", 5))
        async with shared(remote) as frontier:
            leases = await leased(frontier)
            remote.there.clear()
            frontier.finish_many(finished(leases[:2], outcome=Outcome.FAILURE))
            frontier.commit()
            assert await frontier.close(within=0.01) == 2
            remote.there.set()

    asyncio.run(main())


def test_what_is_leased_from_partitions_at_the_end_is_given_back() -> None:
    async def main() -> None:
        remote = Remote()
        remote.in_partitions = True
        remote.own.schedule_many(pages("ab", 5))
        remote.there.clear()
        remote.away = "nowhere"  # so that all but leases is answered
        asked = remote.lease

        async def later(count: int, **options: Any) -> list[Lease]:
            found = await asked(count, **options)
            await remote.there.wait()
            return found

        remote.lease = later  # type: ignore[method-assign]
        async with shared(remote) as frontier:
            await happens(lambda: remote.own.summary().in_process)
            frontier.halt()
            remote.there.set()
        assert remote.calls["lease"] == 1 and remote.own.summary().in_process == 0

    asyncio.run(main())


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_partition_without_a_worker_keeps_no_other_ends_back(
    monkeypatch: pytest.MonkeyPatch, comes_back: bool
) -> None:
    async def main() -> None:
        monkeypatch.setattr(shared_frontier, "STUCK_AFTER", 0.0)
        monkeypatch.setattr(shared_frontier, "SOON", 0.0)
        remote = Remote()
        remote.in_partitions = True
        remote.own.schedule_many(pages("ab", 20))
        async with shared(remote, most=40) as frontier:
            leases = sorted(await leased(frontier, 40), key=lambda lease: lease.queue)
            remote.away = "a.test"
            remote.there.clear()
            for part in leases[:39], leases[39:]:
                frontier.finish_many(finished(part))
                frontier.commit()
                await asyncio.sleep(0.0)
            await happens(lambda: remote.own.summary().succeeded == 20)
            assert frontier.state is CrawlState.RUNNING
            if comes_back:
                remote.there.set()
                await happens(lambda: frontier.state is CrawlState.FINISHED)
                assert frontier.late == 0
            assert await frontier.close(within=0.01) == (0 if comes_back else 39)  # with those sent together

    asyncio.run(main())


def test_the_crawl_is_over_when_nobody_has_anything() -> None:
    async def main() -> None:
        remote = Remote()
        remote.own.schedule(CrawlUri("http://a.test/"))
        async with shared(remote) as frontier:
            (lease,) = await leased(frontier, 1)
            remote.own.schedule(CrawlUri("http://b.test/"))
            (theirs,) = remote.own.lease() or [frontier.lease()[0]]
            frontier.finish_many(finished([lease]))
            frontier.commit()
            await happens(lambda: remote.own.summary().succeeded)
            assert frontier.state is CrawlState.RUNNING
            remote.own.finish(theirs)
            frontier.finish_many(finished([theirs]))
            frontier.commit()
            await happens(lambda: frontier.state is CrawlState.FINISHED)

    asyncio.run(main())


# -- its parts


def test_who_rests_leaves_the_place_to_another_and_waits_for_one_then() -> None:
    async def main() -> None:
        visits = 2
        rests = Rests(most_visits=2, most_resting=2, visited=lambda: visits, wake=lambda: None)
        assert rests.places == 0
        first = asyncio.create_task(rests.rest(0.0))
        await asyncio.sleep(0)
        assert rests.places == 1
        visits = 3
        await asyncio.sleep(0.01)
        assert rests.places == 0 and not first.done()
        visits = 2
        rests.place_freed()
        assert await first
        endless = [asyncio.create_task(rests.rest(PATIENCE)) for _ in range(3)]
        await asyncio.sleep(0)
        assert rests.places == 2  # the third keeps its place
        rests.stop()
        assert await asyncio.gather(*endless) == [False] * 3

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(20))
def test_all_visits_end_whatever_the_times_of_their_rests(seed: int) -> None:
    """Visits begin when there is a place, rest a few times, and end, in orders that nobody chose."""
    chance = random.Random(seed)
    most = chance.randint(1, 5)

    async def main() -> None:
        visits, changed = 0, asyncio.Event()
        rests = Rests(most_visits=most, most_resting=chance.randint(1, 30), visited=lambda: visits, wake=changed.set)

        async def visit() -> None:
            nonlocal visits
            for _ in range(chance.randint(0, 3)):
                await asyncio.sleep(0)
                assert await rests.rest(chance.choice([0.0, 0.0, 0.001, 0.005]))
                assert rests.places >= 0
            visits -= 1
            rests.place_freed()
            changed.set()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for _ in range(100):
                while not rests.places:
                    changed.clear()
                    await changed.wait()
                visits += 1
                tasks.create_task(visit())

    asyncio.run(main())


def test_who_begins_to_rest_gives_the_place_to_one_that_has_rested() -> None:
    async def main() -> None:
        visits = 2
        rests = Rests(most_visits=2, most_resting=10, visited=lambda: visits, wake=lambda: None)
        first = [asyncio.create_task(rests.rest(0.0)) for _ in range(2)]
        await asyncio.sleep(0)
        visits = 4  # two more begin, before the first two have rested
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in first)
        later = [asyncio.create_task(rests.rest(PATIENCE)) for _ in range(2)]
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(*first) == [True, True]
        rests.stop()
        await asyncio.gather(*later)

    asyncio.run(main())


def test_an_outage_is_logged_once_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        now = 0.0
        server = CrawlServer("there", now=lambda: now)
        back = asyncio.Event()

        fails: list[Exception] = []

        async def call() -> int:
            if fails:
                raise fails.pop()
            await back.wait()
            return 7

        async def nothing() -> int:
            return 0

        answers = [asyncio.create_task(server.answer(call)) for _ in range(2)]
        await asyncio.sleep(0)
        server.watch()
        assert not logged(caplog, "budgetfrontier")
        now = SILENT
        server.watch()
        server.watch()
        assert await server.answer(nothing) == 0  # by one that has nothing to say
        fails.append(StorageFull("full"))
        answers.append(asyncio.create_task(server.answer(call)))
        await asyncio.sleep(0)
        back.set()
        assert await asyncio.gather(*answers) == [7, 7, 7]

    caplog.set_level(logging.WARNING)
    asyncio.run(main())
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2 and "there cannot be used now" in said[0] and said[1] == "there answers again, after 5 s"


# -- the run


@pytest.mark.parametrize("waits_in", ["connect", "schedule_many"])
def test_a_signal_ends_the_wait_for_the_first_answer(tmp_path: Path, waits_in: str) -> None:
    async def never(*args: object, **named: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    remote: Any = Remote()
    setattr(remote, waits_in, never)
    said = io.StringIO()
    progress = ProgressDisplay(console=Console(file=said, width=400))
    assert crawl(Settings(), tmp_path / "job", remote, progress=progress) == 0
    assert "stopped before server/test has answered" in said.getvalue() and remote.closed


def test_work_that_is_cancelled_before_it_has_begun_leaves_no_coroutine_behind() -> None:
    async def work() -> None:
        """What begins with the task."""

    async def act() -> None:
        task = asyncio.create_task(LeasingFrontier._guarded(mock.Mock(), work))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(act())
    gc.collect()  # a coroutine that was made and never awaited would warn
