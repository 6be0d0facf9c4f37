"""The main loop: leases ended by the batch, and commits whose outputs a thread has synced before."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Lease, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Finish
from budgetfrontier.crawler import main_loop, unwritten_results
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.crawler.fetch.response import FetchResult, PutBack
from budgetfrontier.crawler.main_loop import MainLoop
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile
from budgetfrontier.crawler.policy_failures import PolicyFailures
from budgetfrontier.crawler.threads import in_disk_thread
from budgetfrontier.crawler.unwritten_results import Result, UnwrittenResults
from budgetfrontier.crawler.visit import Visit
from budgetfrontier.errors import StorageFull
from budgetfrontier.storage.environment import Environment
from tests.crawler.held_up import FEW_WORKERS, HELD_UP, held_up
from tests.crawler.site import Site, linking, reopened, run

UNLUCKY = 13.0
"""The policy of this module fails after a fetch of so many seconds."""


def rest(settings: Any, fetch_seconds: float | None, **_: Any) -> Any:
    return "long" if fetch_seconds == UNLUCKY else 0.0


POLICY = {"frontier": {"politeness_policy": f"{__name__}:rest", "hold_queues": False}}
PAGES = 40
WEB = {f"{'abc'[number % 3]}.test/{number}": f"page {number}" for number in range(PAGES)}
FRONT = {"a.test/": linking(*(f"http://{page}" for page in WEB))}
SECTIONS: dict[str, Any] = {"scope": {"accept": ["all"]}, "output": {"warc": True}, "fetch": {"robots": "ignore"}}


def crawl_all(folder: Path) -> None:
    """Crawl the whole site; every page is in the logs and done."""
    with Site(FRONT | WEB) as site:
        assert run(site.settings("http://a.test/", **SECTIONS), folder)[0] == 0
    assert site.hits == dict.fromkeys([*FRONT, *WEB], 1)
    with reopened(folder) as frontier:
        assert frontier.summary().succeeded == PAGES + 1
        assert frontier.summary().bytes == sum(queue.bytes for queue in frontier.report().queues) > 9 * PAGES


def logged(folder: Path) -> list[str]:
    return [line.split()[3] for line in (folder / "logs/crawl.log").read_text().splitlines()]


def test_what_ends_in_one_turn_is_finished_in_one_call_in_the_order_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[list[str]] = []
    turns: list[list[Result]] = []
    finish_many, take_unwritten = Frontier.finish_many, MainLoop._take_unwritten

    def noted_finish(frontier: Frontier, finished: Iterable[Lease | Finish]) -> list[Lease]:
        given = list(finished)
        batches.append([one.lease.uri.url for one in given if isinstance(one, Finish)])
        return finish_many(frontier, given)

    def noted_turn(loop: MainLoop) -> list[Result]:
        turns.append(take_unwritten(loop))
        return turns[-1]

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(Frontier, "finish_many", noted_finish)
    monkeypatch.setattr(Frontier, "finish", refused)
    monkeypatch.setattr(MainLoop, "_take_unwritten", noted_turn)
    crawl_all(tmp_path)
    assert [url for batch in batches for url in batch] == logged(tmp_path)
    assert [len(batch) for batch in batches] == [len(turn) for turn in turns if turn]


@pytest.fixture
def syncing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits are always due, so that there is hardly a turn without a sync in the thread."""
    monkeypatch.setattr(CrawlCache, "due", property(lambda _: True))


@pytest.mark.usefixtures("syncing")
def test_what_has_ended_while_the_outputs_were_synced_does_not_wait_for_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, held, loops = MainLoop._wait, 0, list[MainLoop]()

    async def watched(loop: MainLoop, free: int) -> None:
        nonlocal held
        loops[:] = [loop]
        held += bool(loop._unwritten)
        assert not loop._unwritten or loop._wake.is_set() or loop._syncing is not None, "it would sleep"
        await wait(loop, free)

    def slowly(work: Callable[[], None]) -> asyncio.Future[None]:
        async def later() -> None:
            while any(loop._visits and not loop._unwritten for loop in loops):  # until a visit has ended
                await asyncio.sleep(0)
            await in_disk_thread(work)

        return asyncio.ensure_future(later())

    monkeypatch.setattr(MainLoop, "_wait", watched)
    monkeypatch.setattr(main_loop, "in_disk_thread", slowly)
    crawl_all(tmp_path)
    assert held


@pytest.mark.usefixtures("syncing")
def test_workers_go_on_while_a_sync_is_held_up_and_nothing_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Site(WEB) as site:
        finished = held_up(monkeypatch, Frontier, until=lambda _: site.hits.total() == PAGES)
        settings = site.settings(*(f"http://{page}" for page in WEB), frontier=HELD_UP, **FEW_WORKERS)
        assert run(settings, tmp_path)[0] == 0
    assert finished[0] == finished[1] < PAGES
    assert sorted(logged(tmp_path)) == sorted(f"http://{page}" for page in WEB)
    with reopened(tmp_path) as frontier:
        assert frontier.summary().succeeded == PAGES


@pytest.mark.usefixtures("syncing")
def test_results_are_held_up_to_a_number_of_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwritten_results, "MOST_HELD", 5 * 2048)  # five results, of a few bytes each
    most = 0

    def at_rest(loop: MainLoop) -> bool:
        nonlocal most
        most = max(most, len(loop._unwritten))
        return loop._unwritten.full and len(loop._done) == len(loop._visits)

    with Site(WEB) as site:
        finished = held_up(monkeypatch, Frontier, until=at_rest)
        settings = site.settings(*(f"http://{page}" for page in WEB), frontier=HELD_UP, **FEW_WORKERS)
        assert run(settings, tmp_path)[0] == 0
    assert finished[0] == finished[1] and most == 5
    assert sorted(logged(tmp_path)) == sorted(f"http://{page}" for page in WEB)


def test_a_result_counts_with_its_body_and_its_links() -> None:
    results, full = UnwrittenResults(), list[bool]()
    lease = Lease(1, "a.test", CrawlUri("http://a.test/"), cost=1, expires=0.0, delivery=1)
    body = b"x" * (unwritten_results.MOST_HELD // 2)
    plain = Visit(lease.uri, FetchResult(status=200, raw=body, body=body), Outcome.SUCCESS)
    for visit in (PutBack(1.0, "later"), plain, plain):
        results.add(Result(lease, visit, 1))
        full.append(results.full)
    assert full == [False, False, True] and results.leases == [lease] * 3
    assert len(results.take()) == 3 and not len(results)
    linked = Visit(
        lease.uri, FetchResult(status=200), Outcome.SUCCESS, [lease.uri] * (unwritten_results.MOST_HELD // 512)
    )
    full = [results.full]
    results.add(Result(lease, linked, 1))
    assert [*full, results.full] == [False, True]


def test_a_slow_disk_leaves_half_of_the_time_to_the_crawl(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = object.__new__(MainLoop)
    clock, postponed = ManualClock(1000.0), list[float]()
    monkeypatch.setattr(time, "monotonic", clock.time)
    loop._frontier = SimpleNamespace(commit=lambda: clock.advance(2))
    loop._internals = SimpleNamespace(postpone_commit=postponed.append)
    loop._commit_interval, loop._lead, loop._sync_began = 0.5, 0.25, 999.0
    loop._commit()
    assert loop._next_commit == 1005.0 and postponed == [3.25]


@pytest.mark.usefixtures("syncing")
def test_all_outputs_are_on_disk_before_each_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs: list[Outputs] = []
    written: dict[str, int] = {}
    commit, write, fsync = Environment.commit, Outputs.write, os.fsync
    threads = set()

    def noted_write(self: Outputs, *given: Any, **more: Any) -> None:
        outputs[:] = [self]
        write(self, *given, **more)

    def noted_fsync(fd: int) -> None:
        size = os.fstat(fd).st_size
        fsync(fd)
        written[os.readlink(f"/proc/self/fd/{fd}")] = size
        threads.add(threading.current_thread().name.partition("_")[0])

    def checked(env: Environment) -> None:
        for file in outputs[0]._files() if outputs else ():
            assert written.get(str(file._path)) == file.size
        commit(env)

    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to tell which file a descriptor is")
    monkeypatch.setattr(Outputs, "write", noted_write)
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Environment, "commit", checked)
    crawl_all(tmp_path)
    assert "disk" in threads


@pytest.mark.usefixtures("syncing")
def test_a_disk_that_is_full_while_the_thread_syncs_ends_the_crawl_and_nothing_is_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def failing(fd: int) -> None:
        if threading.current_thread().name.startswith("disk"):
            raise OSError(28, "No space left on device")
        fsync(fd)

    with Site(FRONT | WEB) as site, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(StorageFull):
            run(site.settings("http://a.test/", **SECTIONS), tmp_path)
    with reopened(tmp_path) as frontier:
        assert frontier.summary().succeeded == 0


# The files


def test_what_is_written_while_a_file_is_synced_is_synced_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, synced = GrowingFile(tmp_path / "x"), []
    fsync = os.fsync

    def counted(fd: int) -> None:
        synced.append((tmp_path / "x").read_bytes())
        fsync(fd)

    monkeypatch.setattr(os, "fsync", counted)
    assert file.begin_sync() is None
    file.write(b"one")
    rest = file.begin_sync()
    assert rest is not None and (tmp_path / "x").read_bytes() == b"one"
    file.write(b"two")
    rest()
    assert synced == [b"one"]
    file.sync()
    file.sync()
    assert synced == [b"one", b"onetwo"] and file.begin_sync() is None
    file.write(b"three")
    rest = file.begin_sync()
    file.sync()  # the frontier commits meanwhile
    assert rest is not None
    rest()
    assert synced[2:] == [b"onetwothree"]
    file.close()


def test_a_sync_that_failed_in_a_thread_fails_for_all_that_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = GrowingFile(tmp_path / "x")
    file.write(b"one")
    rest = file.begin_sync()
    assert rest is not None

    def failing(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match="Input"):
            rest()
    for attempt in (rest, file.sync, file.begin_sync, file.close):
        with pytest.raises(OSError, match="Input"):
            attempt()


def test_a_lease_that_expired_beside_a_page_for_which_a_policy_fails_is_not_counted_as_finished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = object.__new__(MainLoop)
    clock = ManualClock(time.time() - 100)
    frontier = Frontier.open(":memory:", Settings.from_dict(POLICY), clock=clock)
    with frontier:
        frontier.schedule_many(f"http://{letter}.test/" for letter in "abcd")
        expired = frontier.lease(1, ttl=50)
        clock.advance(100)
        leases = [frontier.lease(1, ttl=900)[0], *expired, *frontier.lease(2, ttl=900)]
        seconds = (1.0, 1.0, UNLUCKY, 1.0)
        counted: list[Outcome] = []
        loop._frontier, loop._policy_failures = frontier, PolicyFailures()
        loop._written = [
            (Finish(lease, fetch_seconds=took), FetchResult(status=200))
            for lease, took in zip(leases, seconds, strict=True)
        ]
        loop._count = lambda outcome, response: counted.append(outcome)  # type: ignore[method-assign]
        loop._finish_written()
        assert frontier.summary().succeeded == len(counted) == 2
        assert [record.args for record in caplog.records if "expired" in record.msg] == [(expired[0].uri.url,)]
        assert loop._policy_failures.failure is not None
