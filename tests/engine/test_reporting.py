"""Reports from the engine itself: as of now, and by the process that runs the frontier."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from budgetfrontier.clock import ManualClock
from tests.support import START, memory, on_disk, pages


def test_a_report_is_as_of_now_and_names_this_process(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=False) as f:
        f.schedule_many(pages("AB", 2))
        clock.advance(5)
        report = f.report()
        assert report.generated == START + 5 and report.totals.queued == 4
        assert report.standing.process.alive and report.standing.process.pid == os.getpid()
        assert report.standing.job == str(tmp_path)


def test_the_verdict_is_as_of_now_and_has_the_rate_that_is_given() -> None:
    with memory() as f:
        assert f.verdict().slug == "new"
        f.schedule_many(pages("A", 2))
        assert f.verdict(rate=2.5).text == "The crawl is running, 2.5 URIs/s."
        f.pause(who="alice", reason="night")
        assert (f.verdict().slug, f.verdict().remedy) == ("paused", None)


@pytest.mark.parametrize("hold_queues", [True, False])
def test_a_verdict_may_be_asked_for_between_any_two_calls(tmp_path: Path, hold_queues: bool) -> None:
    """Queues, leases and the ring change in memory before they are written."""
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, hold_queues=hold_queues, queue_total_budget=3, polite=True) as f:
        for round in range(6):
            f.schedule_many(pages("ABCDEFG"[round:], 5, first=5 * round))
            f.verdict()
            leases = f.lease(3)
            f.verdict()
            f.finish_many(leases[:2])
            f.verdict()
            f.snooze("b.test", until=clock.time() + 50)
            f.verdict()
            clock.advance(10)
            f.commit()
            assert f.verdict().slug in ("running", "snoozed")
        f.check()
