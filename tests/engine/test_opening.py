"""Opening a frontier: clocks that were ahead, settings and hooks that are stored, leases that are kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from budgetfrontier import (
    CrawlUri,
    Frontier,
    FrontierError,
    LeaseExpired,
    Outcome,
    QueueState,
    Reader,
    Settings,
    SettingsError,
)
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import opening
from budgetfrontier.storage import environment, lmdb_env
from budgetfrontier.testing import crash
from tests.crash.line_kills import killed_at_each_line
from tests.sizes import sized
from tests.support import START, crawl, kernel, memory, on_disk, one, pages, whole

pytestmark = pytest.mark.full_size


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("crawl.yaml", r"not str; write Settings\.from_yaml\(path\)"),
        (Path("crawl.yaml"), r"not PosixPath; write Settings\.from_yaml\(path\)"),
        ([], "a Settings or a dict, not list"),
        (Settings(frontier={"cost_policy": "wag"}), r"not dict; write Settings\.from_dict\(\{.frontier.: "),  # type: ignore[arg-type]
        ({"frontier": {"cost_polizy": "wag"}}, "cost_policy"),
    ],
    ids=str,
)
def test_what_are_no_settings_is_refused_with_the_call_that_makes_some(tmp_path: Path, given: Any, told: str) -> None:
    with pytest.raises(SettingsError, match=told) as refused:
        Frontier.open(tmp_path / "f", given)
    assert isinstance(refused.value, TypeError) is not isinstance(given, dict)
    assert not (tmp_path / "f").exists()


def test_a_dict_is_settings() -> None:
    data = {"frontier": {"cost_policy": "wag", "queue_total_budget": 7}}
    with Frontier.open(":memory:", data) as f:
        assert f.settings == Settings.from_dict(data)


def test_a_kill_at_its_creation_leaves_a_frontier_with_its_settings_or_none(tmp_path: Path) -> None:
    path, settings = tmp_path / "frontier", Settings.from_dict({"profile": "served"})
    outcomes = set()

    def create() -> None:
        Frontier.open(path, settings).close()

    for _ in killed_at_each_line(create, tmp_path, opening, environment, lmdb_env, every=sized(3, 1)):
        there = (path / "data.mdb").exists()
        outcomes.add(there)
        with Frontier.open(path, None if there else settings) as f:  # as the server opens it
            assert f.settings == settings
            assert f.audit() == []
            whole(f)
        shutil.rmtree(path)
    assert outcomes == {True, False}


def test_what_fails_at_its_creation_leaves_no_frontier(tmp_path: Path) -> None:
    with pytest.raises(FrontierError):
        Frontier.open(tmp_path / "f", Settings.from_dict({"frontier": {"politeness_policy": "nowhere:x"}}))
    assert not (tmp_path / "f" / "data.mdb").exists()
    with Frontier.open(tmp_path / "f", Settings.from_dict({"frontier": {"keep_urls": True}})) as f:
        assert f.audit() == []


@pytest.mark.parametrize("ahead", [3600.0, 365 * 86_400.0])
def test_a_clock_that_was_ahead_holds_nobody_up_after_a_restart(tmp_path: Path, ahead: float) -> None:
    clock = ManualClock(START + ahead)
    f = on_disk(tmp_path, clock, polite=True, hold_queues=False)
    f.schedule_many(pages("AB", 2))
    f.finish(one(f))
    f.lease(1)
    f.commit()
    crash(f)
    clock.set(START)
    with on_disk(tmp_path, clock) as f:
        assert [lease.queue for lease in f.lease(5)] == ["b.test"]
        clock.advance(901)
        assert len(f.lease(5)) == 2
        whole(f)


def test_a_clock_that_jumps_ahead_lets_leases_expire_and_loses_nothing() -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True) as f:
        f.schedule_many(pages("AB", 2))
        lease = one(f)
        clock.advance(365 * 86_400)
        with pytest.raises(LeaseExpired):
            f.finish(lease)
        assert [lease.delivery for lease in f.lease(5)] == [2, 1]
        whole(f)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 5e18])
def test_a_clock_that_gives_no_time_is_refused_and_nothing_of_it_is_stored(tmp_path: Path, wrong: float) -> None:
    told = [wrong]
    clock = SimpleNamespace(time=lambda: told[0])
    with pytest.raises(FrontierError, match=r"the clock says .*: it has to give the seconds since 1970"):
        Frontier.open(tmp_path / "f", clock=clock)
    told[0] = START
    frontier = Frontier.open(tmp_path / "f", clock=clock)
    frontier.schedule_many(pages("ab", 3))
    frontier.finish_many(frontier.lease(1))
    frontier.commit()
    told[0] = wrong
    with pytest.raises(FrontierError, match="the clock says"):
        frontier.lease(1)
    frontier.close()
    told[0] = START
    with Frontier.open(tmp_path / "f", clock=clock) as frontier:
        frontier.check()
        assert frontier.summary().queued == 5


def test_a_stored_wake_time_too_far_ahead_is_clipped(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START + 10_000_000), polite=True) as f:
        f.schedule_many(pages("A", 2))
        assert crawl(f, 1) == "A"
    with on_disk(tmp_path, ManualClock(START)) as f:
        assert f.lease(1) == []
        wait = f.next_ready_in()
        assert wait is not None and wait <= 900.0


def test_the_opening_that_shortens_delays_cuts_no_wait_but_the_next_one_does(tmp_path: Path) -> None:
    clock = ManualClock(START)  # stands still
    hour = {"min_delay": 3600.0, "max_delay": 3600.0, "respect_crawl_delay_up_to": 0.0}
    short = {"min_delay": 1.0, "max_delay": 30.0, "respect_crawl_delay_up_to": 0.0}
    retry = {"delay": 10.0}
    with on_disk(tmp_path, clock, politeness=hour, retry=retry) as f:
        f.schedule_many(pages("A", 2))
        f.finish(one(f))
        assert f.next_ready_in() == 3600.0
    with on_disk(tmp_path, clock, politeness=short, retry=retry) as f:
        assert f.next_ready_in() == 3600.0
    with on_disk(tmp_path, clock) as f:
        assert f.next_ready_in() == 30.0


NO_WAIT = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}


@pytest.mark.parametrize("killed", [False, True])
def test_leases_kept_and_retries_set_aside_by_a_clock_that_was_ahead_have_as_long_as_they_had(
    tmp_path: Path, killed: bool
) -> None:
    now, year = 1_000_000.0, 365 * 86_400.0
    clock = ManualClock(now + year)
    settings = Settings.from_dict({"frontier": {"politeness": NO_WAIT, "retry": {"scope": "uri", "delay": 900}}})
    frontier = Frontier.open(tmp_path / "f", settings, clock=clock, keep_leases=True)
    frontier.schedule_many(["http://a.test/retry", "http://b.test/kept"])
    frontier.schedule(CrawlUri("http://a.test/later", not_before=now + year + 5))
    frontier.finish(frontier.lease(1)[0], Outcome.RETRY)
    frontier.lease(1, ttl=2000.0)
    clock.advance(100.0)
    frontier.commit()
    if killed:
        crash(frontier)
    else:
        frontier.close()
    clock = ManualClock(now)
    with Frontier.open(tmp_path / "f", clock=clock, keep_leases=True) as frontier:
        assert frontier.next_ready_in() == pytest.approx(800.0)
        clock.advance(801.0)
        assert [lease.uri.url for lease in frontier.lease(9)] == ["http://a.test/retry"]
        clock.advance(1100.0)
        assert {lease.uri.url for lease in frontier.lease(9)} == {"http://a.test/retry", "http://b.test/kept"}
        frontier.check()
        clock.advance(year - 2000.0)
        assert "http://a.test/later" not in {lease.uri.url for lease in frontier.lease(9)}


def test_a_frontier_opens_where_address_space_is_limited(tmp_path: Path) -> None:
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (6 << 30,) * 2)\n"
        "from budgetfrontier import Frontier\n"
        "with Frontier.open(sys.argv[1]) as f:\n"
        "    print(f.schedule_many(f'http://a{i}.test/' for i in range(5000)).added)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "f")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("5000\n", "")
    with Frontier.open(tmp_path / "f") as frontier:
        assert frontier.summary().queued == 5000


def test_opening_that_fails_for_a_stored_hook_gives_no_lease_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("my_hooks")
    module.own = SimpleNamespace(on_finish=print)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_hooks", module)
    frontier = Frontier.open(tmp_path / "f", Settings.from_dict({"hooks": ["my_hooks:own"]}))
    frontier.schedule("http://a.test/1")
    assert frontier.lease(1)
    frontier.commit()
    crash(frontier)
    monkeypatch.delitem(sys.modules, "my_hooks")
    with pytest.raises(SettingsError, match="my_hooks"):
        Frontier.open(tmp_path / "f")
    with Reader(tmp_path / "f") as reader:
        assert reader.summary().in_process == 1


@pytest.mark.parametrize("how", ["arrival", "expiry"])
def test_no_queue_sleeps_beyond_its_delays_after_a_clock_that_was_ahead(tmp_path: Path, how: str) -> None:
    clock = ManualClock(1_000_000.0 + 86_400)
    frontier = Frontier.open(tmp_path / "f", Settings(), clock=clock, keep_leases=True)
    frontier.schedule("http://a.test/1")
    (lease,) = frontier.lease(1)
    frontier.landed(lease)  # the wake time is set, and nothing more may go out
    frontier.close()
    clock = ManualClock(1_000_000.0)
    with Frontier.open(tmp_path / "f", clock=clock, keep_leases=True) as frontier:
        if how == "arrival":
            frontier.schedule("http://a.test/2")
        else:
            frontier.renew(lease, 1.0)
            clock.advance(1.0)
            frontier.lease(1)
        queue = frontier.queue("a.test")
        assert queue is not None and queue.state is QueueState.SNOOZED
        assert queue.wake_time <= clock.time() + 900.0


def test_kept_urls_follow_what_the_opening_moves(tmp_path: Path) -> None:
    """A retry that a clock set back brings forward, and a URI whose process has died once too often."""
    clock = ManualClock(START)
    options: dict[str, Any] = {"retry": {"scope": "uri", "delay": 500}, "max_deliveries": 1, "hold_queues": False}
    f = on_disk(tmp_path, clock, keep_urls=True, **options)
    f.schedule_many(pages("AB", 1))
    f.finish(one(f), Outcome.RETRY)
    one(f)
    f.commit()
    crash(f)
    clock = ManualClock(START - 100)
    with on_disk(tmp_path, clock) as f:
        f.check()
        again, dead = f.find_url("https://a.test/0"), f.find_url("https://b.test/0")
        assert again is not None and again.due == START + 400
        assert dead is not None and dead.due is None


@pytest.mark.parametrize("retired", [False, True])
def test_a_host_that_was_overloaded_by_a_clock_that_was_ahead_does_not_rest_for_that_long(
    tmp_path: Path, retired: bool
) -> None:
    with on_disk(tmp_path, ManualClock(START + 365 * 86_400), hold_queues=False) as f:
        f.schedule_many(pages("A", 3))
        f.finish(one(f), Outcome.SUCCESS, status=503)
        if retired:
            f.retire("a.test")
    with on_disk(tmp_path, ManualClock(START), hold_queues=False) as f:
        if retired:
            f.unretire("a.test")
            f.lease(1)
        assert 0 < (f.next_ready_in() or 0) <= 900
        f.check()


def test_what_a_clock_that_was_ahead_has_stored_does_not_hide_that_nobody_asks(tmp_path: Path) -> None:
    with on_disk(tmp_path, ManualClock(START + 365 * 86_400), hold_queues=False) as f:
        f.schedule_many(pages("A", 3))
        f.renew(one(f))
    with on_disk(tmp_path, ManualClock(START)) as f:
        counters = kernel(f).counters
        assert max(counters.last_asked, counters.last_renewed) <= START
