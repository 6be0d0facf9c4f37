"""Settings at open: those given replace those stored, and what the frontier was begun with stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from budgetfrontier.policies import assignment
from tests.support import START, crawl, make_settings, on_disk, pages, state


def test_a_frontier_from_before_the_default_rule_keeps_its_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = ["https://a.b.test/", "https://c.b.test/"]
    with monkeypatch.context() as earlier:
        earlier.setattr(assignment, "with_default_rule", str)
        with on_disk(tmp_path / "old", queue_assignment_policy="registered-domain") as f:
            f.schedule(urls[0])
    with on_disk(tmp_path / "old") as f:
        f.schedule(urls[1])
        assert f.queue("a.b.test") is not None and f.queue("c.b.test") is not None and f.queue("b.test") is None
    with on_disk(tmp_path / "new", queue_assignment_policy="registered-domain") as f:
        f.schedule_many(urls)
        queue = f.queue("b.test")
        assert queue is not None and queue.queued == 2


def test_the_suffix_list_is_that_of_the_first_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, queue_assignment_policy="registered-domain") as f:
        f.schedule("https://www.a.co.uk/")
        assert f.queue("a.co.uk") is not None
    monkeypatch.setattr(assignment, "bundled_suffix_list", lambda: "uk\n")
    with on_disk(tmp_path) as f:
        f.schedule_many(["https://www.a.co.uk/2", "https://www.b.co.uk/"])
        assert f.queue("b.co.uk") is not None
        assert f.queue("co.uk") is None


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
