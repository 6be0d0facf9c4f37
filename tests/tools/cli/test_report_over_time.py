"""Reports over time of a frontier whose minutes are planted."""

from __future__ import annotations

import json
import re
import shutil
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.units import parse_duration
from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.reports import over_time
from budgetfrontier.storage.backup import CACHE
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.report import Report
from budgetfrontier.storage.series import SeriesRow
from tests.support import make_settings, pages
from tests.tools.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("stopped_time")

MINUTES = 90


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A crawl of ninety minutes until now: three pages of `a` and one of `b` are found each minute, three fetched."""
    clock = ManualClock(time.time() - MINUTES * 60)
    settings = make_settings(queue_total_budget=10_000)
    with Frontier.open(tmp_path / "frontier", settings, clock=clock) as f:
        for minute in range(MINUTES):
            f.schedule_many([*pages("A", 3, first=3 * minute), *pages("B", 1, first=minute)])
            for _ in range(3):
                f.finish_many(f.lease(1))
            f.commit()
            clock.advance(60)
    return tmp_path


def rows_of(cli: Cli, job: Path, *options: str) -> tuple[list[dict[str, Any]], str]:
    answer = cli("report", job, "--format", "json", *options)
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    return told["rows"], told["unknown"] or ""


@pytest.mark.parametrize("after", [0.0, 0.3, 0.9, 1.1, 30.0])
def test_the_minute_that_has_just_ended_counts(tmp_path: Path, after: float) -> None:
    end = int(time.time()) + 0.2
    clock = ManualClock(end - 122)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        for minute in range(3):
            f.schedule_many(pages("A", 100, first=100 * minute))
            f.commit()
            clock.advance(61 if minute < 2 else 0)
        now = end + after
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            rows = over_time.read(view, now - 3600, now)
        happened = over_time.between(rows)
        discovered = next(row for row in over_time.rate_rows(happened, now, 3600) if row[0] == "discovered")
        assert discovered[1] == 300


@pytest.mark.parametrize(("seconds", "sure"), [(0.1, False), (59, False), (61, True)])
def test_rates_an_hour_of_less_than_a_minute_are_not_told(seconds: float, sure: bool) -> None:
    rows = [SeriesRow(1000.0, begins=True), SeriesRow(1000.0 + seconds, scheduled=5)]
    happened = over_time.between(rows)
    told = over_time.rates_known(happened(0.0, 2000.0), 3600.0)
    assert ("and rates are those of it" in told) is sure and ("too short for rates an hour" not in told) is sure
    (rate,) = (row[2] for row in over_time.rate_rows(happened, 2000.0, 2000.0) if row[0] == "discovered")
    assert rate == (round(5 / seconds * 3600, 1) if sure else None)


@pytest.mark.parametrize(("since", "is_estimate"), [(3540.0, False), (3000.0, True), (1800.0, True), (0.0, False)])
def test_a_time_that_begins_between_totals_far_apart_is_said_to_be_an_estimate(since: float, is_estimate: bool) -> None:
    """Not if these are a small part of it, or a minute apart."""
    rows = [SeriesRow(1000.0, begins=True), SeriesRow(3500.0, scheduled=90), SeriesRow(3560.0, scheduled=95)]
    found = over_time.between(rows)(since, 3600.0)
    told = over_time.rates_known(found, 3600.0 - since)
    assert ("its counts are estimates: where it begins or ends, totals are known 41m40s apart" in told) is is_estimate


def test_rates_are_those_of_the_time_and_the_time_before(job: Path, cli: Cli) -> None:
    rows, unknown = rows_of(cli, job, "--since", "30m")
    figures = {row["figure"]: row for row in rows}
    assert figures["fetched"]["count"] == pytest.approx(90, abs=3)
    assert figures["fetched"]["per_hour"] == pytest.approx(180, rel=0.05)
    assert figures["discovered"]["per_hour"] == pytest.approx(240, rel=0.05)
    assert figures["fetched"]["before"] == pytest.approx(180, rel=0.05)
    assert (figures["fetched"]["yesterday"], unknown) == (None, "")
    text = cli("report", job, "--since", "30m")
    assert "per_hour" in text.out
    _, partly = rows_of(cli, job, "--since", "6h")
    assert "the crawl ran for 1h2" in partly.replace(" ", "") or "of that time" in partly


def test_yesterday_is_known_just_after_a_full_hour(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    noon = time.time() // 86_400 * 86_400 + 43_200
    clock = ManualClock(noon - 86_400 - 7_200)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        for minute in range(2 * 60):
            f.schedule_many(pages("A", 2, first=2 * minute))
            f.commit()
            clock.advance(60)
    clock = ManualClock(noon)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        f.schedule_many(pages("B", 1))
        clock.advance(60)
    monkeypatch.setattr(time, "time", lambda: noon + 60)
    rows, _ = rows_of(cli, tmp_path, "--since", "15m")
    assert {row["figure"]: row["yesterday"] for row in rows}["discovered"] == pytest.approx(120, rel=0.1)


def test_the_busiest_queues_under_a_clock_that_was_a_year_ahead_are_not_those_of_the_last_hour(
    tmp_path: Path, cli: Cli
) -> None:
    for host, start in (("A", time.time() + 365 * 86_400), ("B", time.time() - 300)):
        with Frontier.open(tmp_path / "frontier", make_settings(), clock=ManualClock(start)) as f:
            f.schedule_many(pages(host, 1))
            f.finish_many(f.lease(1))
    rows, _ = rows_of(cli, tmp_path, "--kind", "busiest")
    assert [row["queue"] for row in rows] == ["b.test"]


def test_nothing_is_known_of_no_time(job: Path, cli: Cli) -> None:
    rows, unknown = rows_of(cli, job, "--since", "0")
    assert rows == [] and unknown


def test_the_busiest_queues_have_their_share(job: Path, cli: Cli) -> None:
    rows, unknown = rows_of(cli, job, "--kind", "busiest", "--since", "3h")
    assert {row["queue"] for row in rows} == {"a.test", "b.test"}
    assert sum(row["fetched"] for row in rows) == 3 * MINUTES
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert "%" in cli("report", job, "--kind", "busiest", "--since", "3h").out
    assert unknown == ""


@pytest.mark.parametrize("since", ["1s", "5m", "1h", "90m", "2d"])
def test_the_busiest_queues_say_of_which_hours_they_are(job: Path, cli: Cli, since: str) -> None:
    now, asked = time.time(), float(parse_duration(since))
    first = (now - asked) // 3600 * 3600
    told = json.loads(cli("report", job, "--kind", "busiest", "--since", since, "--format", "json").out)
    assert told["period"] == [first, now]
    began = now - MINUTES * 60
    fetched = 3 * len([minute for minute in range(MINUTES) if began + 60 * minute >= first])
    assert abs(sum(row["fetched"] for row in told["rows"]) - fetched) <= 3, "a minute may count to the hour before"
    begins = time.strftime("from %Y-%m-%d %H:%M to ", time.gmtime(first))
    assert (
        f"{begins}{time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(now))}"
        in cli("report", job, "--kind", "busiest", "--since", since).out
    )


def test_that_nothing_was_spent_is_no_lack_of_knowledge(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=ManualClock(time.time() - 7300)) as f:
        f.schedule_many(pages("A", 1))
        f.finish_many(f.lease(1))
    answer = cli("report", tmp_path, "--kind", "busiest", "--since", "1s")
    assert answer.out.startswith("Nothing was spent from ") and "nothing is known" not in answer.err
    Frontier.open(tmp_path / "new" / "frontier", make_settings()).close()
    answer = cli("report", tmp_path / "new", "--kind", "busiest", "--since", "1s")
    assert "Nothing was spent" not in answer.out and "nothing is known" in answer.err


def test_counts_of_a_few_minutes_are_said_to_be_estimates(job: Path, cli: Cli) -> None:
    for since, estimated in (("330s", True), ("59m", False)):
        assert ("its counts are estimates" in rows_of(cli, job, "--since", since)[1]) is estimated, since


def test_forecasts_name_what_ends_the_crawl(job: Path, cli: Cli) -> None:
    rows, _ = rows_of(cli, job, "--kind", "forecast")
    found = {row["bound"]: row for row in rows}
    assert found["rate"]["seconds"] is None
    assert "an hour more are found than end" in found["rate"]["why"]
    spent = sum(queue.expenditure for queue in Report.read(job / "frontier").queues)
    assert found["budgets"]["seconds"] == pytest.approx((20_000 - spent) / 180 * 3600, rel=0.1)
    text = cli("report", job, "--kind", "forecast").out
    assert "budgets" in text
    assert re.match(
        r"No process runs the crawl\. (Once it goes on as it last ran, it ends after |No end is in sight: )", text
    )


def test_a_crawl_whose_pages_all_wait_for_their_time_is_not_at_its_end(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time())
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        for url, hours in zip(pages("A", 2), (1, 9), strict=True):
            f.schedule(CrawlUri(url, not_before=clock.time() + hours * 3600, force=True))
    text = cli("report", tmp_path, "--kind", "forecast").out
    assert "at its end" not in text and "Nothing waits" not in text
    rows = {row["bound"]: row for row in rows_of(cli, tmp_path, "--kind", "forecast")[0]}
    assert "2 URIs are in queues without a total budget" in rows["budgets"]["why"]
    assert rows["politeness"]["seconds"] > 32_000, "the last one is not due before"
    assert rows["politeness"]["why"].startswith("a.test, whose last URI for later is not due before")


def test_limits_are_forecast_and_the_first_bound_is_marked(job: Path, tmp_path: Path, cli: Cli) -> None:
    folder = shutil.copytree(job, tmp_path / "job")
    limits = {"max_uris": 100_000, "max_time": 7200, "max_bytes": 50_000}
    with Frontier.open(folder / "frontier", Settings.from_dict({"limits": limits})):
        pass
    rows, _ = rows_of(cli, folder, "--kind", "forecast")
    found = {row["bound"]: row for row in rows}
    assert found["max_time"]["sure"] == "unknown" and "only `budgetfrontier crawl`" in found["max_time"]["why"]
    assert found["max_bytes"]["why"].startswith("48.8 KiB left")
    assert found["max_uris"]["seconds"] is not None
    with closing(CrawlCache(folder / "frontier" / CACHE)) as cache:
        cache.put_used(7000.0, 20_000)
        cache.commit()
    rows, _ = rows_of(cli, folder, "--kind", "forecast")
    found = {row["bound"]: row for row in rows}
    assert (found["max_time"]["seconds"], found["max_time"]["sure"]) == (200, "exact")
    assert found["max_bytes"]["why"].startswith("29.3 KiB left")
    assert [row["bound"] for row in rows if row["first"]] == ["max_time"]
    assert re.search(r"max_time .* yes\n", cli("report", folder, "--kind", "forecast").out)


def test_a_disk_that_is_full_before_the_end_is_named_with_it(
    job: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job / "logs").mkdir()
    (job / "logs" / "crawl.log").write_bytes(bytes(100_000))
    free, usage = 10**6, shutil.disk_usage(job)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage._replace(free=free))
    rows, _ = rows_of(cli, job, "--kind", "forecast")
    (disk,) = (row for row in rows if row["bound"].startswith("disk"))
    frontier, logs = (
        sum(file.stat().st_blocks * 512 for file in (job / name).iterdir() if file.is_file())
        for name in ("frontier", "logs")
    )
    hourly = (frontier - 2**18) / (4 * MINUTES) * 240 + logs / (3 * MINUTES) * 180
    assert disk["seconds"] == pytest.approx(free / hourly * 3600, rel=0.1)
    assert not disk["first"], "there may be room again"
    assert "At that pace the disk is full after " in cli("report", job, "--kind", "forecast").out
    free = 0
    told = cli("report", job, "--kind", "forecast").out
    assert told.startswith("The disk is full: 0 B left. ") and "At that pace" not in told
    assert re.search(r"disk .* yes\n", told) and len(re.findall(" yes\n", told)) == 1
    assert "The disk is full: 0 B left. " in cli("report", job, "--format", "html").out
    free = 10**15
    assert "the disk is full" not in cli("report", job, "--kind", "forecast").out, "in more than ten years"


def test_the_file_of_a_new_frontier_is_no_growth(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 600)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        for host in "AB":
            f.schedule_many(pages(host, 1))
            f.commit()
            clock.advance(120)
    assert "At that pace" not in cli("report", tmp_path, "--kind", "forecast").out
    found = {row["bound"]: row for row in rows_of(cli, tmp_path, "--kind", "forecast")[0]}["disk"]
    assert found["sure"] == "unknown" and found["why"].endswith("how fast the crawl's files grow is not known yet")


def test_a_new_frontier_says_what_is_not_known(tmp_path: Path, cli: Cli) -> None:
    Frontier.open(tmp_path / "frontier", make_settings()).close()
    for kind in ("rates", "busiest"):
        rows, unknown = rows_of(cli, tmp_path, "--kind", kind)
        assert (rows, "nothing is known" in unknown) == ([], True)


def test_the_page_in_one_file_has_what_the_consoles_overview_has_over_time(job: Path, cli: Cli) -> None:
    rows = {row["bound"]: row for row in rows_of(cli, job, "--kind", "forecast")[0]}
    first = next(row for row in rows.values() if row["first"])
    page = cli("report", job, "--format", "html").out
    assert "Over time<small>per hour, in the last hour; times are UTC" in page
    assert page.count('<svg class="chart"') == 6 and page.count(" per hour, at most ") >= 3, "charts"
    assert f"<b>{first['bound']}</b>" in page and "it ends after" in page
    assert all(f">{bound}<" in page for bound in rows)
    assert re.search(r"fetched <b>1[78]\d<small>/h", page)
    with Frontier.open(job / "frontier", make_settings(queue_total_budget=1), clock=ManualClock(time.time())) as f:
        f.commit()
        f.retire("a.test")
    assert "of the queues are RETIRED, 1 of them by an operator." in cli("report", job, "--format", "html").out
