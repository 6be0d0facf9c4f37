"""The states of the crawl."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlState
from budgetfrontier.rules import crawl_states


@pytest.mark.parametrize(
    ("state", "found", "expected"),
    [
        (CrawlState.NEW, {"scheduled": 0, "empty": True}, CrawlState.NEW),
        (CrawlState.NEW, {}, CrawlState.RUNNING),
        (CrawlState.RUNNING, {"empty": True}, CrawlState.FINISHED),
        (CrawlState.RUNNING, {"empty": True, "busy": True}, CrawlState.RUNNING),
        (CrawlState.RUNNING, {"empty": True, "pause_at_finish": True}, CrawlState.PAUSED),
        (CrawlState.PAUSING, {"leases": 1}, CrawlState.PAUSING),
        (CrawlState.PAUSING, {}, CrawlState.PAUSED),
        (CrawlState.PAUSED, {"empty": True}, CrawlState.PAUSED),
        (CrawlState.FINISHED, {}, CrawlState.RUNNING),
        (CrawlState.TERMINATED, {}, CrawlState.TERMINATED),
    ],
)
def test_the_state_of_the_crawl_follows(state: CrawlState, found: dict[str, Any], expected: CrawlState) -> None:
    usual = {"scheduled": 5, "leases": 0, "empty": False, "busy": False, "pause_at_finish": False}
    assert crawl_states.next_crawl_state(state, **(usual | found)) is expected


def test_what_waits_for_retired_queues_keeps_no_crawl_going() -> None:
    assert crawl_states.is_empty(queued=0, leases=0, future=3, future_retired=3)
    assert not crawl_states.is_empty(queued=0, leases=0, future=3, future_retired=2)
    assert not crawl_states.is_empty(queued=0, leases=1, future=0, future_retired=0)


def test_a_pause_waits_for_leases_and_a_terminated_crawl_never_goes_on() -> None:
    assert crawl_states.after_pause(CrawlState.RUNNING, 1) is CrawlState.PAUSING
    assert crawl_states.after_pause(CrawlState.RUNNING, 0) is CrawlState.PAUSED
    assert crawl_states.after_resume(CrawlState.PAUSED, 5) is CrawlState.RUNNING
    assert crawl_states.after_resume(CrawlState.PAUSED, 0) is CrawlState.NEW
    for after in (
        crawl_states.after_pause(CrawlState.TERMINATED, 0),
        crawl_states.after_resume(CrawlState.TERMINATED, 5),
        *map(crawl_states.after_terminate, CrawlState),
    ):
        assert after is CrawlState.TERMINATED
