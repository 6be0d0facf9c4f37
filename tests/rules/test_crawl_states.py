"""The states of the crawl."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlState
from budgetfrontier.core.model import Summary
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


def total(state: CrawlState, reason: str | None, *, queued: int = 0, future: int = 0) -> Summary:
    zeros: dict[str, Any] = dict.fromkeys(Summary.__struct_fields__[: -len(Summary.__struct_defaults__)], 0)
    zeros |= {"state": state, "pause_reason": reason, "queues": {}, "queued": queued, "future": future}
    return Summary(**zeros)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (total(CrawlState.PAUSED, "finish", queued=1), True),
        (total(CrawlState.PAUSED, "finish", future=1), True),
        (total(CrawlState.PAUSED, "finish"), False),
        (total(CrawlState.PAUSED, "operator", queued=1), False),
        (total(CrawlState.PAUSED, "scope", queued=1), False),
        (total(CrawlState.PAUSING, "finish", queued=1), False),
        (total(CrawlState.RUNNING, None, queued=1), False),
        (total(CrawlState.TERMINATED, None, queued=1), False),
    ],
)
def test_a_crawl_that_paused_at_its_finish_goes_on_when_there_is_more(found: Summary, expected: bool) -> None:
    assert crawl_states.goes_on_after_finish(found) is expected


@pytest.mark.parametrize(
    ("state", "reason", "after"),
    [
        (CrawlState.RUNNING, None, "lunch"),
        (CrawlState.RUNNING, "", "lunch"),
        (CrawlState.PAUSED, "maintenance", "maintenance"),
        (CrawlState.PAUSED, "finish", "lunch"),
        (CrawlState.PAUSED, "scope", "lunch"),
        (CrawlState.PAUSED, "policy: cost failed", "lunch"),
        (CrawlState.PAUSED, "the policy: none", "the policy: none"),
        (CrawlState.TERMINATED, "finish", "finish"),
        (CrawlState.TERMINATED, None, None),
    ],
)
def test_the_first_reason_of_an_operator_stays(state: CrawlState, reason: str | None, after: str | None) -> None:
    assert crawl_states.reason_after_pause(state, reason, "lunch") == after


def test_a_crawl_begins_with_its_first_uri() -> None:
    def after(state: CrawlState, **given: Any) -> CrawlState:
        usual: dict[str, Any] = {"scheduled": 0, "leases": 0, "empty": True, "busy": False, "pause_at_finish": False}
        return crawl_states.next_crawl_state(state, **(usual | given))

    assert after(CrawlState.NEW) is CrawlState.NEW
    assert after(CrawlState.NEW, empty=False) is CrawlState.RUNNING
    assert after(CrawlState.NEW, scheduled=1) is CrawlState.FINISHED
    assert after(CrawlState.NEW, scheduled=1, busy=True) is CrawlState.RUNNING
    assert after(CrawlState.NEW, scheduled=1, pause_at_finish=True) is CrawlState.PAUSED
