"""Commands of an operator: adjust, retire, snooze, wake, pause, terminate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import (
    Admission,
    CrawlState,
    Frontier,
    Reader,
    SettingsError,
)
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import PolicyError
from tests.support import START, crawl, crawl_state, memory, pages, record, state

URL = "https://c.test/"


def test_a_cost_policy_that_cannot_be_imported_is_refused(f: Frontier) -> None:
    with pytest.raises(PolicyError, match="cannot be imported"):
        f.adjust(cost_policy="no.such_module:policy")
    assert f.schedule(URL) is Admission.ADDED


def test_retiring_by_name_outlives_a_change_of_settings() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        assert f.retire("a.test", reason="a trap", who="me")
        assert not f.retire("unknown.test")
        f.adjust(queue_total_budget=1000)
        assert state(f, "A") == "RETIRED"
        assert crawl(f) == "BB"
        assert crawl_state(f) == "FINISHED"
        assert f.unretire("a.test")
        assert (state(f, "A"), f.state) == ("INACTIVE", CrawlState.RUNNING)
        assert crawl(f) == "AA"


def test_an_empty_queue_is_unretired_to_exhausted() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        assert crawl(f) == "A"
        f.retire("a.test")
        assert state(f, "A") == "RETIRED"
        f.unretire("a.test")
        assert state(f, "A") == "EXHAUSTED"


def test_a_changed_total_counts_at_once_and_a_changed_replenish_amount_later() -> None:
    with memory(balance_replenish_amount=4) as f:
        f.schedule_many(pages("A", 20))
        assert crawl(f, 1) == "A"
        f.adjust(balance_replenish_amount=10)
        assert record(f, "A").balance == 3
        assert crawl(f, 3) == "AAA"
        assert crawl(f, 1) == "A"
        assert record(f, "A").balance == 9
        f.adjust(queue_total_budget=4)
        assert crawl(f) == ""
        assert state(f, "A") == "RETIRED"


@pytest.mark.parametrize("wrong", [{"queue_total_budgte": 1}, {"queue_total_budget": "much"}, {"match": "what:ever"}])
def test_a_wrong_adjustment_changes_nothing(wrong: dict[str, Any]) -> None:
    with memory(queue_total_budget=0) as f:
        f.schedule_many(pages("A", 4))
        assert crawl(f) == "A"
        with pytest.raises(SettingsError):
            f.adjust(**{"queue_total_budget": 9, **wrong})
        assert state(f, "A") == "RETIRED"
        f.check()


def test_snooze_and_wake() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("AB", 2))
        assert f.snooze("a.test", until=START + 100)
        assert not f.snooze("unknown.test", until=START + 100)
        assert crawl(f) == "BB"
        assert state(f, "A") == "SNOOZED"
        assert f.next_ready_in() == pytest.approx(100)
        assert f.wake("a.test")
        assert crawl(f) == "AA"


def test_adjustments_that_are_set_again_do_not_pile_up(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f") as frontier:
        for budget in range(50):
            frontier.adjust(match="host:a.test", queue_total_budget=budget)
            frontier.adjust(queue_total_budget=budget)
        assert len(frontier.audit()) == 100
    with Reader(tmp_path / "f") as reader:
        assert [(one.match, one.set) for one in reader.adjustments] == [
            ("host:a.test", {"queue_total_budget": 49}),
            ("*", {"queue_total_budget": 49}),
        ]
