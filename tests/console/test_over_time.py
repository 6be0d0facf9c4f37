"""The totals over time on the overview."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.clock import ManualClock
from tests.console.conftest import get
from tests.support import make_settings, pages

pytestmark = pytest.mark.usefixtures("stopped_time")


def test_rates_of_the_last_hour_and_the_end_at_that_rate(tmp_path: Path) -> None:
    clock = ManualClock(time.time() - 3600)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        f.schedule_many(pages("A", 180))
        for _ in range(60):
            f.finish_many(f.lease(1))
            f.commit()
            clock.advance(60)
    status, text = get(tmp_path, "/")
    assert status == 200
    assert "Over time" in text and "in the last 30 days" in text
    assert "an hour more are scheduled than end" in text and "No end at this rate" in text


def test_a_new_frontier_has_no_curves(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "frontier", make_settings()).close()
    status, text = get(tmp_path, "/")
    assert status == 200
    assert "Over time" not in text
