"""Bandwidth of a queue, a group and the crawl: exact over ten minutes, however many fetches are in flight."""

from __future__ import annotations

import heapq
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Lease, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports import over_time
from budgetfrontier.reports.explain import explain
from tests.support import START, make_settings, opened

RATE = 10_000
MINUTES = 600.0


def frontier(clock: ManualClock, level: str, path: str | Path = ":memory:", **options: Any) -> Frontier:
    settings = make_settings(hold_queues=False, balance_replenish_amount=10**9, **options).to_dict()
    if level == "queue":
        settings["frontier"]["politeness"]["max_bandwidth"] = RATE
    elif level == "crawl":
        settings["frontier"]["max_bandwidth"] = RATE
    else:
        settings["groups"] = [{"name": "g", "match": "*", "max_bandwidth": RATE}]
    opened.append(Frontier.open(path, Settings.from_dict(settings), clock=clock))
    return opened[-1]


def received(f: Frontier, clock: ManualClock, *, workers: int, size: int, seconds: float) -> int:
    """Let workers fetch without a pause for ten minutes; return how many bytes they received meanwhile."""
    ends: list[tuple[float, int, Lease]] = []
    bytes_received = 0
    while clock.time() < START + MINUTES:
        for lease in f.lease(workers - len(ends)) if len(ends) < workers else []:
            heapq.heappush(ends, (clock.time() + seconds, lease.id, lease))
        waits = [ends[0][0] - clock.time()] if ends else []
        ready = f.next_ready_in() if len(ends) < workers else None
        clock.advance(min([*waits, *([] if ready is None else [max(ready, 1e-6)])]))
        while ends and ends[0][0] <= clock.time():
            f.finish(heapq.heappop(ends)[2], size=size, fetch_seconds=seconds)
            bytes_received += size
    return bytes_received


@pytest.mark.parametrize("level", ["queue", "group", "crawl"])
@pytest.mark.parametrize(
    ("workers", "size", "seconds"), [(1, 20_000, 0.3), (1, 15_000, 1.4), (5, 20_000, 0.5), (5, 15_000, 4.0)]
)
def test_ten_minutes_are_within_five_per_cent(level: str, workers: int, size: int, seconds: float) -> None:
    clock = ManualClock(START)
    f = frontier(clock, level, concurrency=8)
    hosts = 1 if level == "queue" else 7
    f.schedule_many(f"https://h{number % hosts}.test/{number}" for number in range(700))
    assert received(f, clock, workers=workers, size=size, seconds=seconds) == pytest.approx(RATE * MINUTES, rel=0.05)
    f.check()


def test_the_bandwidth_of_a_queue_leaves_the_others_alone() -> None:
    clock = ManualClock(START)
    f = frontier(clock, "queue")
    f.schedule_many(f"https://{host}.test/{page}" for host in "ab" for page in range(3))
    for lease in f.lease(9):
        f.finish(lease, size=RATE * (5 if lease.queue == "a.test" else 2))
    assert (f.lease(9), f.next_ready_in()) == ([], 2.0)
    clock.advance(2.0)
    assert [lease.queue for lease in f.lease(9)] == ["b.test"]
    f.check()


@pytest.mark.parametrize("level", ["queue", "group", "crawl"])
def test_the_debt_of_bytes_survives_a_restart_and_is_never_longer_than_a_day(tmp_path: Path, level: str) -> None:
    clock = ManualClock(START)
    with frontier(clock, level, tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 1000)
    with Frontier.open(tmp_path / "f", clock=clock) as f:
        assert f.lease(1) == []
        assert f.next_ready_in() == 1000.0
        clock.advance(1000.0)
        f.finish(f.lease(1)[0], size=RATE * 10**6)
        assert f.lease(1) == []
        assert f.next_ready_in() == 86400.0
        f.check()


def test_without_a_size_nothing_is_waited_for() -> None:
    f = frontier(ManualClock(START), "crawl")
    f.schedule_many(f"https://a.test/{page}" for page in range(3))
    for _ in range(3):
        f.finish(f.lease(1)[0])
    assert f.state == "FINISHED"


def test_a_limit_that_is_taken_away_ends_the_wait(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with frontier(clock, "crawl", tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 1000)
        assert f.internals.lease_queues(1) == []
    with Frontier.open(tmp_path / "f", make_settings(), clock=clock) as f:
        assert f.next_ready_in() == 0.0
        assert len(f.lease(1)) == 1


def test_a_wake_ends_the_wait_for_a_queue_s_bytes() -> None:
    f = frontier(ManualClock(START), "queue", concurrency=3)
    f.schedule_many(f"https://a.test/{page}" for page in range(4))
    first, second, third = f.lease(3)
    f.finish(first, size=RATE * 14)
    assert f.next_ready_in() == 14.0
    f.wake("a.test")
    f.finish(second)
    assert f.next_ready_in() == 0.0
    f.finish(third, size=RATE)
    assert f.next_ready_in() == 1.0
    f.check()


def test_another_limit_of_the_crawl_begins_with_a_clock_of_its_own(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with frontier(clock, "crawl", tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 1000)
    with Frontier.open(tmp_path / "f", make_settings(max_bandwidth=RATE * 10), clock=clock) as f:
        assert len(f.lease(1)) == 1


def waiting_for_its_group(path: Path, clock: ManualClock) -> Frontier:
    f = frontier(clock, "group", path)
    f.schedule_many(f"https://{host}.test/{page}" for host in "ab" for page in range(3))
    f.finish(f.lease(1)[0], size=RATE * 1000)
    assert (f.lease(9), f.next_ready_in()) == ([], 1000.0)
    return f


def test_a_limit_of_a_group_that_is_taken_away_ends_its_wait_at_once(tmp_path: Path) -> None:
    with waiting_for_its_group(tmp_path / "f", clock := ManualClock(START)) as f:
        f.adjust(match="group:g", **{"group.max_bandwidth": RATE * 2})  # type: ignore[arg-type]
        assert (f.lease(9), f.next_ready_in()) == ([], 1000.0)
        f.adjust(match="group:g", **{"group.max_bandwidth": 0})  # type: ignore[arg-type]
        assert f.next_ready_in() == 0.0
        assert len(f.lease(9)) == 2
        f.check()
    with waiting_for_its_group(tmp_path / "g", clock):
        pass
    with Frontier.open(tmp_path / "g", make_settings(), clock=clock) as f:
        assert len(f.lease(9)) == 2
        f.check()


def test_a_wake_of_a_queue_ends_the_wait_of_its_group(tmp_path: Path) -> None:
    with waiting_for_its_group(tmp_path / "f", ManualClock(START)) as f:
        f.wake("b.test")
        assert {lease.queue for lease in f.lease(9)} == {"a.test", "b.test"}
        f.check()


def test_a_crawl_that_rests_for_its_bandwidth_says_so_in_its_verdict_and_in_explanations(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with frontier(clock, "crawl", tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 75)
        f.commit()
        rests = "Nothing is leased for 1m15s more: what was received takes so long by frontier.max_bandwidth "
        rests += f"({RATE:,} bytes a second)."
        assert (f.verdict().slug, f.verdict().text) == ("bandwidth", rests)
        with Reader(tmp_path / "f") as reader:
            found = explain(reader, "a.test", job="job", now=START)
        assert rests in [reason.text for reason in found.reasons] and found.when == START + 75.0
        clock.advance(74.0)
        assert f.verdict().level == "good"
        clock.advance(1.0)
        assert f.verdict().slug == "running"


@pytest.mark.parametrize("level", ["queue", "group", "crawl"])
def test_a_forecast_waits_for_the_bytes_received(tmp_path: Path, level: str) -> None:
    clock = ManualClock(START)
    with frontier(clock, level, tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 75)
        assert f.lease(1) == []
        f.commit()
        with Reader(tmp_path / "f") as reader, reader.view() as view:
            assert over_time.held(view, START + 5.0).tail == 70.0


def test_a_group_waits_as_long_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with waiting_for_its_group(tmp_path / "f", clock):
        pass
    with Frontier.open(tmp_path / "f", clock=clock) as f:
        assert f.next_ready_in() == 1000.0


@pytest.mark.parametrize("level", ["queue", "group"])
def test_explanations_name_the_bandwidth_and_the_command_that_ends_the_wait(tmp_path: Path, level: str) -> None:
    clock = ManualClock(START)
    with frontier(clock, level, tmp_path / "f") as f:
        f.schedule_many(f"https://a.test/{page}" for page in range(3))
        f.finish(f.lease(1)[0], size=RATE * 1000)
        assert f.lease(1) == []
        f.commit()
        with Reader(tmp_path / "f") as reader:
            found = explain(reader, "a.test", job="job", now=START)
    [reason] = [reason for reason in found.reasons if "bandwidth" in reason.text]
    assert reason.command == "budgetfrontier wake job a.test"
