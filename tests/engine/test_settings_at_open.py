"""Settings at open: those given replace those stored."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from tests.support import START, crawl, make_settings, on_disk, pages, state


def test_only_a_difference_of_settings_counts_as_a_change(tmp_path: Path) -> None:
    with on_disk(tmp_path, queue_total_budget=0) as f:
        f.schedule_many(pages("A", 3))
        assert crawl(f) == "A"
    with on_disk(tmp_path, queue_total_budget=0) as f:
        assert state(f, "A") == "RETIRED"
    with on_disk(tmp_path) as f:
        assert state(f, "A") == "RETIRED"
    with on_disk(tmp_path, queue_total_budget=5) as f:
        assert state(f, "A") == "INACTIVE"
        assert crawl(f) == "AA"


def test_adjustments_stay_on_top_of_new_settings(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.adjust(match="queue:a.test", queue_total_budget=1)
    with on_disk(tmp_path, queue_total_budget=0) as f:
        f.schedule_many(pages("AB", 5))
        assert crawl(f) == "AAB"


def test_settings_given_to_open_are_stored(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "frontier", make_settings(hold_queues=False), clock=ManualClock(START)).close()
    with on_disk(tmp_path) as f:
        f.schedule_many(pages("A", 1))
        assert state(f, "A") == "READY"
