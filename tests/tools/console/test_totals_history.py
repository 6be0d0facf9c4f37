"""The totals over time on the overview: rates of the last hour, and what ends the crawl."""

from __future__ import annotations

import asyncio
import html
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.over_time import between, compared, forecast_rows, forecast_sentence
from budgetfrontier.rules.forecasts import Forecast
from budgetfrontier.tools.console import app, jobs
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.overview import foreseen
from budgetfrontier.tools.job_operator import JobOperator
from tests.support import make_settings, memory, pages
from tests.tools.console.conftest import Client, get, visit

pytestmark = pytest.mark.usefixtures("stopped_time")


def an_hour(folder: Path, settings: Settings, *, minutes: int = 60, links: int = 0) -> None:
    """Fetch a page of one host each minute until now, each with so many links."""
    clock = ManualClock(time.time() - 60 * minutes)
    with Frontier.open(folder / "frontier", settings, clock=clock) as f:
        f.schedule_many(pages("A", 180))
        for minute in range(minutes):
            for lease in f.lease(1):
                f.finish(lease, discovered=pages("A", links, first=1000 + links * minute))
            f.commit()
            clock.advance(60)


@pytest.fixture
def many_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "READ_AT_ONCE", 0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_FORESEEN", 0.0)


@pytest.mark.usefixtures("many_queues", "impatient")
def test_rates_of_the_last_hour_and_the_end_at_that_rate(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings(), links=3)
    status, text = get(tmp_path, "/")
    assert status == 200
    assert "Over time" in text and 'href="/?span=30d"' in text and text.count('<svg class="chart"') == 6
    assert "is not known before its queues are scanned; by its rate, no end is in sight: " in text
    assert "No end is in sight" not in text and "an hour more are found than end" in text
    assert "budgets and politeness follow" in text


def test_each_bound_is_named_with_how_sure_it_is(tmp_path: Path) -> None:
    frontier = {"queue_total_budget": 90, "politeness": {"min_delay": 30, "max_delay": 30}}
    limits = {"max_uris": 1000, "max_time": 99}
    an_hour(tmp_path, Settings.from_dict({"frontier": frontier, "limits": limits}))

    async def act(client: Client, console: Console) -> str:
        await (await client.get("/")).text()
        await console.jobs[0].scans.run()
        return await (await client.get("/")).text()

    text = visit(tmp_path, act)
    rows = {row[0]: row for row in re.findall(r'<tr><th scope="row">(?:<b>)?(\w+).*?<td class="tight">([\w ]+)<', text)}
    assert [*rows] == ["rate", "budgets", "politeness", "max_uris", "max_time", "disk"]
    assert dict(rows.values())["max_time"] == "unknown"


@pytest.mark.parametrize(("minutes", "partly"), [(20, True), (60, False)])
def test_rates_of_a_part_of_the_time_are_said_to_be_of_that_part(tmp_path: Path, minutes: int, partly: bool) -> None:
    an_hour(tmp_path, make_settings(), minutes=minutes)
    sentence = "The crawl ran for 20m of that time, and rates are those of it."
    for path in ("/?span=1h", "/rates?span=1h"):
        assert (sentence in get(tmp_path, path)[1]) is partly, path
    _, text = get(tmp_path, "/?span=1h")
    assert ("an hour, in the 20m that it ran in the last hour" in text) is partly
    assert ("an hour, in the last hour" in text) is not partly


def test_estimated_counts_are_no_part_of_the_time(tmp_path: Path) -> None:
    """The last pages of an hour before came some minutes after the hour began."""
    clock = ManualClock(time.time() - 4000)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        f.schedule_many(pages("A", 9))
        for pause in (10, 900, 3090):
            f.finish_many(f.lease(1))
            f.commit()
            clock.advance(pause)
        f.finish_many(f.lease(1))
    _, text = get(tmp_path, "/?span=1h")
    assert "Its counts are estimates" in text and "that it ran in" not in text


@pytest.mark.parametrize("is_open", [False, True])
def test_the_rate_of_the_overview_says_of_which_time_it_is(tmp_path: Path, is_open: bool) -> None:
    an_hour(tmp_path, make_settings(), minutes=20)
    now = ManualClock(time.time())
    with ExitStack() as stack:
        if is_open:
            stack.enter_context(Frontier.open(tmp_path / "frontier", clock=now, program="budgetfrontier crawl"))
        shown = " ".join(re.sub(r"<[^>]*>", " ", get(tmp_path, "/?span=1h")[1]).split())
    assert ("rate 0.0 /s now, without a process; " in shown) is not is_open
    assert (re.search(r"rate (-|0\.0 /s) in the last minute; ", shown) is not None) is is_open


def test_page_api_and_command_forecast_the_same_at_once(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings(queue_total_budget=60))

    async def shown(client: Client, console: Console) -> tuple[str, Any]:
        answer = await client.get(f"/api/v1/jobs/{console.jobs[0].slug}/forecast")
        return await (await client.get("/")).text(), await answer.json()

    async def act(client: Client, console: Console) -> list[tuple[str, Any, list[Any]]]:
        found = []
        for budget in (60, 500, 1):
            words = ("-m", "budgetfrontier", "adjust", str(tmp_path), "--total-budget", str(budget))
            process = await asyncio.create_subprocess_exec(sys.executable, *words)
            assert await process.wait() == 0
            with Reader(tmp_path / "frontier") as reader:
                by_command = JobOperator(tmp_path, tmp_path / "frontier", reader=reader).forecasts(time.time(), 3600.0)
            found.append((*await shown(client, console), compared(by_command)))
        return found

    whys = []
    for page, answer, by_command in visit(tmp_path, act):
        assert answer["as_of"] is None and "as of" not in page.partition('id="bounds"')[2].partition("</summary>")[0]
        told = [(row["bound"], row["why"], row["first"]) for row in answer["rows"]]
        assert told == [(row.bound, row.why, row.first) for row in by_command]
        assert answer["note"] in html.unescape(page)
        whys.append({bound: why for bound, why, _ in told}["budgets"].partition(" may")[0])
    assert whys == ["1", "441", "0"]


@pytest.mark.usefixtures("many_queues")
def test_what_waits_and_what_may_be_spent_are_of_one_moment(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings(queue_total_budget=100), minutes=90)

    async def act(client: Client, console: Console) -> list[Any]:
        async def asked() -> Any:
            return await (await client.get(f"/api/v1/jobs/{console.jobs[0].slug}/forecast")).json()

        found = [await asked()]  # it waits for the scan
        for last in (False, True):
            console.jobs[0].close()
            with Frontier.open(tmp_path / "frontier", clock=ManualClock(time.time() + 30)) as f:
                while (leases := f.lease(1)) and (last or f.summary().succeeded < 95):
                    f.finish_many(leases)
                f.give_back(leases)
            found.append(await asked())
        return found

    before, later, over = visit(tmp_path, act)
    assert before["as_of"] is not None and later["as_of"] == before["as_of"]
    rows = [{row["bound"]: row["why"] for row in answer["rows"]} for answer in (before, later, over)]
    assert rows[1]["budgets"].startswith("11 may") and rows[1]["budgets"] == rows[0]["budgets"]
    assert rows[1]["rate"].startswith("90 wait")
    assert over["as_of"] is None and over["note"].startswith("Nothing waits outside of 1 retired queue")
    assert rows[2]["budgets"].startswith("0 may still be spent") and "politeness" not in rows[2]


def test_the_api_says_of_which_hours_the_busiest_queues_are(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings())

    async def act(client: Client, console: Console) -> tuple[Any, Any]:
        url = f"/api/v1/jobs/{console.jobs[0].slug}"
        found = await client.get(f"{url}/busiest?since=5m")
        return await found.json(), await (await client.get(f"{url}/report?kind=busiest&since=5m")).json()

    busiest, report = visit(tmp_path, act)
    hour = (time.time() - 300) // 3600 * 3600
    assert (busiest["since"], busiest["until"]) == (hour, time.time())
    assert report["since"] == hour and report["rows"] == busiest["rows"]


@pytest.mark.usefixtures("many_queues", "impatient")
def test_budgets_as_of_a_scan_before_a_change_of_settings_are_not_forecast(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings(queue_total_budget=60), links=3)

    async def page(client: Client) -> str:
        return await (await client.get("/")).text()

    async def act(client: Client, console: Console) -> list[tuple[str, Any]]:
        url, found = f"/api/v1/jobs/{console.jobs[0].slug}/forecast", list[tuple[str, Any]]()
        await console.jobs[0].scans.run()
        for budget in (0, 500):
            if budget:
                words = ("-m", "budgetfrontier", "adjust", str(tmp_path), "--total-budget", str(budget))
                process = await asyncio.create_subprocess_exec(sys.executable, *words)
                assert await process.wait() == 0
                found.append((await page(client), None))
            answer = await (await client.get(url)).json()  # the first waits for a scan since the change
            found.append((await page(client), answer))
        return found

    before, changed, after = visit(tmp_path, act)
    assert "is not known before its queues are scanned" in changed[0]
    left = []
    for text, answer in (before, after):
        assert f"As of {time.strftime('%H:%M:%S', time.gmtime(answer['as_of']))} UTC." in html.unescape(text)
        assert "is not known before its queues are scanned" not in text and answer["note"].endswith(" UTC.")
        left += [row["why"] for row in answer["rows"] if row["bound"] == "budgets"]
    assert len(left) == 2 and left[0] != left[1]


@pytest.mark.usefixtures("many_queues")
def test_the_overview_waits_for_the_first_scan(tmp_path: Path) -> None:
    an_hour(tmp_path, make_settings(queue_total_budget=60))
    status, text = get(tmp_path, "/")
    assert status == 200
    assert "is not known before its queues are scanned" not in text and ">budgets<" in text


def test_a_new_frontier_has_no_curves(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "frontier", make_settings()).close()
    status, text = get(tmp_path, "/")
    assert status == 200
    assert "Nothing is known of the last 10 minutes" in text and "Nothing waits" in text


def test_a_forecast_is_told_in_whole_seconds() -> None:
    found = [Forecast("budgets", 0.27, None, None, "rough", "little is left")]
    assert "ends in 1s (rough), by budgets: little is left." in forecast_sentence(found).replace("1 second", "1s")


@pytest.mark.parametrize("paused", [True, False])
def test_the_forecast_of_a_crawl_that_does_not_run_has_no_time_of_its_end(tmp_path: Path, paused: bool) -> None:
    frontier = {"queue_total_budget": 1000, "politeness": {"min_delay": 30, "max_delay": 30}}
    an_hour(tmp_path, Settings.from_dict({"frontier": frontier}))
    if paused:
        with Frontier.open(tmp_path / "frontier") as f:
            f.pause(reason="lunch")

    async def act(client: Client, console: Console) -> tuple[str, str]:
        await console.jobs[0].scans.run()
        page = await (await client.get("/")).text()
        return page, await (await client.get(f"/api/v1/jobs/{console.jobs[0].slug}/forecast")).text()

    why = "The crawl is paused" if paused else "No process runs the crawl"
    for shown in visit(tmp_path, act):
        assert f"{why}. Once it goes on as it last ran, it ends after " in shown
        assert "While it runs" not in shown and 'class="ends"' not in shown


@pytest.mark.parametrize(
    ("rate", "sentence"),
    [
        (
            Forecast("rate", 90.0, None, None, "rough", "9 wait"),
            "The disk is full: 0 B left. Once it goes on as it last ran, it ends after 1m30s (rough), by rate: 9 wait.",
        ),
        (Forecast("rate", 0.0, 0.0, 0.0, "exact", "nothing waits"), "The disk is full: 0 B left. Nothing waits."),
        (
            Forecast("rate", None, None, None, "unknown", "9 wait"),
            "The disk is full: 0 B left. When the crawl ends is not known: 9 wait.",
        ),
    ],
)
@pytest.mark.parametrize("standstill", ["", "no process runs the crawl"])
def test_a_full_disk_comes_before_all_other_bounds(rate: Forecast, sentence: str, standstill: str) -> None:
    found = [rate, Forecast("disk", 0.0, 0.0, 0.0, "exact", "0 B left")]
    assert forecast_sentence(found, standstill=standstill) == sentence
    assert [one.bound for one in compared(found) if one.first] == ["disk"]


def test_an_end_that_is_not_known_is_not_said_to_be_out_of_sight() -> None:
    found = [Forecast("rate", None, None, None, "unknown", "rates are known after a minute of crawling")]
    assert forecast_sentence(found).startswith("When the crawl ends is not known: rates are known after")
    still = forecast_sentence(found, standstill="no process runs the crawl")
    assert still.startswith("No process runs the crawl. When the crawl ends is not known: rates are known after")


def test_an_end_of_which_the_earliest_time_alone_is_known_is_not_said_to_come_then() -> None:
    unknown = Forecast("rate", None, None, None, "unknown", "rates are known after a minute of crawling")
    tail = Forecast("politeness", 0.5, 0.5, None, "at least", "a.test at its shortest delay")
    told = (
        "When the crawl ends is not known: rates are known after a minute of crawling. It takes 1s at least, by "
        "politeness: a.test at its shortest delay."
    )
    assert forecast_sentence([unknown, tail]) == told
    assert forecast_sentence([unknown, tail], standstill="no process runs it") == f"No process runs it. {told}"
    assert foreseen([unknown, tail], "", None)["binding"] is None
    known = [Forecast("rate", 0.1, None, None, "rough", "9 wait"), tail]
    assert "the crawl ends in 1s (at least), by politeness: a.test" in forecast_sentence(known)
    assert foreseen(known, "", None)["binding"] is tail


def test_a_terminated_crawl_has_no_forecast() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 3))
        f.terminate()
        found = forecast_rows(between([]), f.summary(), None, {}, now=time.time())
    assert forecast_sentence(found) == "The crawl has ended: it was terminated, and hands out nothing again."


def test_the_forecast_of_a_crawl_that_is_over_names_the_queues_that_hold_uris_still() -> None:
    with memory(precedence_floor=9) as f:
        f.schedule_many(pages("ABC", 2))
        f.retire("a.test")
        f.retire("b.test")
        f.adjust(match="queue:c.test", precedence=9)
        f.commit()
        found = forecast_rows(between([]), f.summary(), None, {}, now=time.time())
    assert forecast_sentence(found) == "Nothing waits outside of 2 retired queues and 1 ineligible queue."


def test_the_verdict_and_the_card_have_one_rate(tmp_path: Path) -> None:
    clock = ManualClock(time.time() - 180)
    with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as f:
        f.schedule_many(pages("AB", 600))
        for finished in 300, 300, 30:  # a minute each
            for _ in range(finished):
                f.finish_many(f.lease(1))
            clock.advance(60)
            f.commit()
        text = get(tmp_path, "/")[1]
    assert "The crawl is running, 0.5 URIs/s" in text and "0.5<small>/s</small>" in text
