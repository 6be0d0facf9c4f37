"""The totals as pages show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome, Summary, Tally
from budgetfrontier.reports import html, text
from budgetfrontier.reports.totals import by_outcome, refusals, refused_in, refused_line, tiles
from tests.support import make_settings


@pytest.fixture
def ended(tmp_path: Path) -> Path:
    """A job in which an attempt has ended in each way, and URIs were refused for two reasons and as FULL."""
    settings = make_settings(error_penalty_amount=7, max_queue_size=7, retry={"max_retries": 5, "delay": 0})
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.schedule_many(f"http://a.test/{n}" for n in range(9))
        f.schedule_many(["ftp://a.test/", "ftp://b.test/", "http://"])
        outcomes = [*Outcome, Outcome.DEAD]
        for outcome in outcomes:
            f.finish(f.lease(1)[0], outcome, reason="robots", size=512)
    return tmp_path


def summary(folder: Path) -> Summary:
    with Frontier.open(folder / "frontier") as f:
        return f.summary()


def test_each_outcome_has_its_attempts_and_its_spend(ended: Path) -> None:
    totals = summary(ended)
    rows = {row.name: row for row in by_outcome(totals)}
    assert {name: row.attempts for name, row in rows.items()} == {
        "SUCCESS": 1, "FAILURE": 1, "RETRY": 1, "DEAD": 2, "DISREGARDED": 1, "DEFERRED": 1,
    }  # fmt: skip
    assert rows["FAILURE"].spent == 8 and rows["FAILURE"].note == "7 of it penalties"
    assert rows["DEAD"].share == 0.4 and rows["DEAD"].note == "2 dead letters ever made, 2 there now"
    assert rows["DISREGARDED"].note == "1 by robots.txt"
    assert sum(row.spent for row in rows.values()) == totals.expenditure


def test_refusals_are_counted_by_reason(ended: Path) -> None:
    totals = summary(ended)
    found = dict(refusals(totals))
    assert found["FULL by max_queue_size"] == 2 and sum(found.values()) == totals.full + totals.invalid == 5
    assert refused_line(totals).startswith("5 refused (") and "FULL by max_queue_size: 2" in refused_line(totals)
    assert dict(tiles(totals))["refused"] == "5" and dict(tiles(totals))["bytes"] == "3.5 KiB"


def test_nothing_is_said_of_refusals_if_there_were_none(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings()) as f:
        assert (refused_line(f.summary()), refusals(f.summary())) == ("", [])
        assert [row.share for row in by_outcome(f.summary())] == [None] * 6


def test_a_tally_tells_the_limits_apart_from_what_is_not_valid() -> None:
    tally = Tally()
    assert refused_in(tally) == {"full": "full 0", "invalid": "invalid 0"}
    tally.refuse("scheme")
    tally.find_full("max_queued", 1200)
    tally.find_full("max_queue_size")
    told = {"full": "full 1,201 (max_queue_size 1, max_queued 1,200)", "invalid": "invalid 1 (scheme 1)"}
    assert refused_in(tally) == told


def test_the_text_report_has_them_by_reason(ended: Path) -> None:
    with Frontier.open(ended / "frontier") as f:
        page = text.render(f.report())
    assert " Full:          2 (max_queue_size: 2)\n" in page and " Invalid:       3 (" in page


def test_the_html_report_has_them(ended: Path) -> None:
    with Frontier.open(ended / "frontier") as f:
        page = html.render(f.report())
    assert "Attempts by outcome" in page and "7 of it penalties" in page and "URIs refused by reason" in page
