"""What the pages besides the overview and the queues show."""

from __future__ import annotations

import csv
import json
import os
import re
import time
from pathlib import Path

import msgspec
import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.reports import log_index
from budgetfrontier.reports.alert_state import AlertDelivery, AlertFiles, AlertState
from budgetfrontier.reports.kinds import KINDS
from budgetfrontier.rules.alert_conditions import RaisedAlert
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.log_files import LARGEST, before, log_files
from budgetfrontier.tools.console.pages import audit
from budgetfrontier.tools.console.scan_schedule import Scanned
from tests.tools.console.conftest import TOKEN, Client, get, visit

pytestmark = pytest.mark.usefixtures("forked_programs")


def test_retired_queues_are_a_work_list_in_their_order(job: Path) -> None:
    _, text = get(job, "/retired")
    assert "2 retired queues" in text
    assert text.index(">named.test<") < text.index(">capped.test<")
    assert "by an operator" in text and "over its total budget" in text
    assert "budgetfrontier adjust" in text and "budgetfrontier unretire" in text
    assert "checkbox" not in text, "nothing can be changed without a token"


def test_a_scan_shows_no_queue_in_a_state_that_it_has_left_since(job: Path) -> None:
    async def scan(client: Client, console: Console) -> tuple[Scanned | None, str]:
        await console.jobs[0].scans.run()
        return console.jobs[0].scans.latest, await (await client.get("/queues?state=RETIRED")).text()

    async def look(client: Client, console: Console) -> list[str]:
        console.jobs[0].sample()  # else the frontier is taken for another one
        console.jobs[0].scans.latest = latest
        paths = ("/queues?state=RETIRED", "/retired", "/queues?q=zz")
        return [await (await client.get(path)).text() for path in paths]

    latest, before = visit(job, scan)
    with Frontier.open(job / "frontier") as frontier:
        frontier.unretire("named.test", reason="again", who="alice")
    after, work, none = visit(job, look)
    assert "Rows 1 to 2 of 2" in before and ">named.test<" in before and "as of the scan" not in before
    assert ">capped.test<" in after and ">named.test<" not in after and ">1 row</span>" in after
    assert "1 queue more was RETIRED as of the scan, and is not any more." in after
    held = r"1 retired queue <span class=\"stamp\">\(as of .{,120} UTC</time>: \d+ URIs in 2 queues\)</span>"
    assert re.search(held, work)
    assert "No queue matches" in none and "Rows 1 to 0" not in none


def test_pages_show_that_there_is_no_limit(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        for budget in (3, -1):
            frontier.adjust(match="queue:named.test", queue_total_budget=budget, max_queue_size=0)
    paths = ("/queue/named.test", "/adjustments", "/audit", "/audit/2", "/retired")
    shown = {path: re.sub(r"<style.*?</style>|<[^>]*>", "", get(job, path)[1], flags=re.DOTALL) for path in paths}
    for path, text in shown.items():
        assert not re.search(r"(?<!--total-budget) -1\b", text), path
    assert (
        "queue_total_budget = no limit" in shown["/adjustments"]
        and "max_queue_size = no limit" in shown["/adjustments"]
    )
    assert "queue_total_budget to no limit (before: 3)" in shown["/audit"]
    assert "no limit" in shown["/queue/named.test"]


def test_traps_are_listed_with_what_would_hold_each(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(f"http://cal.test/events/{year}/04" for year in range(2100, 2130))

    async def look(client: Client, console: Console) -> list[str]:
        await client.post("/sign-in", data={"token": TOKEN})
        await console.jobs[0].scans.run()
        return [await (await client.get(path)).text() for path in ("/traps", "/api/v1/jobs/job/traps")]

    page, answer = visit(job, look)
    assert "1 queue of those whose URIs were read looks like a trap" in page
    assert "<b>future-dates</b> <bdi>30 of 30 URLs are of" in page and "in scope.reject: <code><bdi>regex:^" in page
    assert "a total budget of 0" in page and "snoozed.test" not in page
    (row,) = json.loads(answer)["rows"]
    assert (row["queue"], row["total_budget"]) == ("cal.test", 0)


def test_leases_are_listed_with_their_age(job: Path) -> None:
    assert "0 leases out" in get(job, "/leases")[1]
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(["http://out.test/1", "http://other.test/1"])
        frontier.lease(2)
        frontier.commit()
        _, text = get(job, "/leases")
        _, one = get(job, "/leases?queue=out.test")
    assert "2 leases out" in text and "http://out.test/1" in text and "http://other.test/1" in text
    assert "http://out.test/1" in one and "http://other.test/1" not in one


def test_the_history_of_a_queue_has_what_was_done_to_its_dead_letters(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        (letter,) = frontier.dead_letters()
        frontier.drop_dead_letters([letter.id], reason="of no use", who="bob")
        frontier.schedule(f"http://{letter.queue}/more")
        frontier.delete(queue="d*.test", pattern="nothing", reason="in vain", who="bob")
        frontier.delete(queue="d*.test", pattern="more", reason="a glob", who="bob")
    history = get(job, f"/queue/{letter.queue}")[1].partition("History")[2]
    assert "Dropped 1 dead letter" in history and "of no use" in history and ">named</td>" in history
    assert "a glob" in history and "in vain" not in history
    assert "of no use" not in get(job, "/queue/named.test")[1].partition("History")[2]


def test_dead_letters_are_listed_by_reason_and_in_pages(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(f"http://h{n}.test/" for n in range(60))
        for n, lease in enumerate(frontier.lease(60)):
            frontier.finish(lease, Outcome.DEAD, reason="dns" if n % 2 else "timeout")
    _, text = get(job, "/dead-letters")
    assert "61 dead letters" in text and text.count('data-label="since"') == 50
    following = text.partition('rel="next" href="')[2].partition('"')[0]
    _, rest = get(job, following)
    assert rest.count('data-label="since"') == 11
    _, dns = get(job, "/dead-letters?reason=dns")
    assert dns.count('data-label="since"') == 30
    _, errors = get(job, "/errors")
    assert ">dns<" in errors and ">timeout<" in errors and ">poison<" in errors


def test_seeds_are_shown_with_their_fate(job: Path) -> None:
    _, text = get(job, "/seeds")
    assert "2 seeds" in text and 'href="/seeds?fate=SUCCEEDED">crawled 1</a>' in text
    assert ">CRAWLED<" in text and ">DEAD<" in text and ">poison<" in text and ">NOT_REACHED<" in text
    _, dead = get(job, "/seeds?fate=DEAD")
    assert (
        "http://dead.test/" in dead
        and "http://snoozed.test/0" not in dead
        and '<b aria-current="true">dead letters 1</b>' in dead
    )
    status, text = get(job, "/seeds?fate=GONE")
    assert status == 400 and "fate is one of WAITING, SUCCEEDED" in text


def test_a_seed_that_was_known_before_has_the_fate_that_the_report_tells(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://forbidden.test/"
    with Frontier.open(job / "frontier") as frontier:
        frontier.mark_seen([url])
        frontier.schedule(CrawlUri(url, directive=Directive.MEDIUM))
    log = job / "logs" / "crawl.log"
    log.parent.mkdir(exist_ok=True)
    line = f"2026-11-20T22:00:00.000Z -9998          0 {url} - - text/html #001 - - - -\n"
    log.write_text(3 * line)
    monkeypatch.setattr(log_index, "SEGMENT", 2)  # lines that a page indexes at the most
    assert "is being indexed" in get(job, "/seeds")[1]
    text = get(job, "/seeds")[1]
    row = text.partition(f"{url}<")[2].partition("</tr>")[0]
    assert "<td>DISREGARDED</td>" in row and "-9998" in row and "is being indexed" not in text
    (told,) = [row for row in csv.DictReader(get(job, "/reports/seeds.csv")[1].splitlines()) if row["seed"] == url]
    assert (told["status"], told["code"]) == ("DISREGARDED", "-9998")


def test_seeds_are_listed_page_by_page(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(
            CrawlUri(f"http://seed{n}.test/", directive=Directive.MEDIUM, source="more") for n in range(60)
        )
    _, text = get(job, "/seeds?fate=WAITING")
    assert "wait 60" in text and "http://seed49.test/" in text and "http://seed50.test/" not in text
    following = text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    _, rest = get(job, following)
    assert "http://seed50.test/" in rest and "http://seed49.test/" not in rest and 'rel="next"' not in rest


def test_the_audit_is_listed_searched_and_shown_in_full(job: Path) -> None:
    _, text = get(job, "/audit")
    assert "alice" in text and "not what we want" in text
    assert "alice" in get(job, "/audit?command=retire&who=alice&q=named")[1]
    assert "No command" in get(job, "/audit?who=bob")[1]
    assert "Retired queue named.test: state " in text and "what was asked" not in text.lower()
    _, one = get(job, "/audit?id=1")
    assert "entry 1" in one and "not what we want" in one
    assert get(job, "/audit?id=7")[0] == 404
    assert get(job, "/audit?id=x")[0] == 400


def test_the_audit_goes_back_page_by_page(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        for n in range(70):
            frontier.snooze("snoozed.test", until=time.time() + 9000, reason=f"number {n}")
    _, text = get(job, "/audit")
    assert "number 69" in text and "number 20<" in text and "number 19<" not in text
    following = text.partition('rel="next" href="')[2].partition('"')[0]
    _, rest = get(job, following)
    assert "number 19<" in rest and "number 20<" not in rest and "not what we want" in rest
    assert 'rel="next"' not in rest and 'rel="next"' not in get(job, "/audit?before=51")[1], "50 are left"


def test_logs_are_shown_from_their_end_and_searched(job: Path) -> None:
    assert "has no logs" in get(job, "/logs")[1]
    logs = job / "logs"
    logs.mkdir()
    (logs / "crawl.log").write_text("".join(f"line {n} <b>\n" for n in range(1000)))
    (logs / "other.log").write_text("another\n")
    _, text = get(job, "/logs")
    assert "line 999 &lt;b&gt;" in text and "line 800 " in text and "line 799 " not in text
    earlier = text.partition('rel="prev" href="')[2].partition('"')[0].replace("&amp;", "&")
    _, older = get(job, earlier)
    assert "line 799 " in older and "line 600 " in older and "line 599 " not in older and "line 800 " not in older
    _, found = get(job, "/logs?q=line+7+")
    assert "line 7 " in found and "line 8 " not in found
    assert "another" in get(job, "/logs?file=other.log")[1]


def test_errors_and_statuses_are_of_the_whole_crawl_by_kind_and_by_class(tmp_path: Path) -> None:
    answer_with(tmp_path, {"good.test": (200, 200, 301), "gone.test": (404, 404, 404), "ill.test": (500, 0)})
    paths = ("/errors", "/statuses", "/statuses?status=5xx")
    errors, statuses, servers = scanned(tmp_path, *paths)
    assert "<bdi>status 404</bdi>" in errors and "<bdi>timed out" in errors
    assert "/logs?file=crawl.log&amp;q=+404+" in errors, "the log is for the lines alone"
    assert 'aria-label="attempts by status: 2xx 2, 3xx 1, 4xx 3, 5xx 1, no answer 1"' in statuses
    assert 'aria-label="answers: 4xx 3"' in statuses and "good.test" not in statuses, "it has no errors"
    assert statuses.index("<bdi>gone.test<") < statuses.index("<bdi>ill.test<")
    assert "ill.test" in servers and "gone.test" not in servers.partition("Kinds of errors")[0]


def test_statuses_over_time_are_drawn_by_class(tmp_path: Path) -> None:
    clock = ManualClock(time.time() - 1800)
    answer_with(tmp_path, {"a.test": (200, 404)}, clock)
    text = get(tmp_path, "/statuses?span=1h")[1]
    assert 'aria-label="attempts per hour, by class of status, at most' in text
    assert "<title>2xx</title>" in text and "<title>4xx</title>" in text and "<title>5xx</title>" not in text


def answer_with(folder: Path, statuses: dict[str, tuple[int, ...]], clock: ManualClock | None = None) -> None:
    """Crawl pages of some hosts that answer so; 0 is no answer. Each takes a minute of the clock, if one is given."""
    settings = {"frontier": {"politeness": {"min_delay": 0, "max_delay": 0}, "retry": {"max_retries": 0}}}
    with Frontier.open(folder / "frontier", settings, clock=clock) as frontier:
        frontier.schedule_many(f"http://{host}/{at}" for host, all_ in statuses.items() for at in range(len(all_)))
        rest = {host: list(all_) for host, all_ in statuses.items()}
        while leases := frontier.lease(1):
            status = rest[leases[0].queue].pop(0)
            outcome = Outcome.SUCCESS if 0 < status < 500 else Outcome.FAILURE
            frontier.finish(
                leases[0], outcome, status=status, reason="" if status else "timed out after 20s", delay=0.0
            )
            if clock is not None:
                clock.advance(60.0)
                frontier.commit()


def scanned(folder: Path, *paths: str) -> list[str]:
    """The texts of pages once the queues have been scanned."""

    async def look(client: Client, console: Console) -> list[str]:
        await console.jobs[0].scans.run()
        return [await (await client.get(path)).text() for path in paths]

    return visit(folder, look)


def test_dead_letters_of_one_cause_are_one_group_whatever_their_hosts(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(f"http://gone{n}.test/" for n in range(9))
        for lease in frontier.lease(9):
            frontier.finish(lease, Outcome.DEAD, reason=f"no address for {lease.queue}: unknown")
    _, text = get(job, "/errors")
    assert "no address for (host): unknown" in text and "no address for gone1.test" not in text
    _, listed = get(job, "/dead-letters?reason=no+address+for+(host):+unknown")
    assert listed.count('data-label="since"') == 9


@pytest.mark.parametrize("name", ["../frontier/data.mdb", "/etc/passwd", "..", "link", "pipe", "folder", "x%00y"])
def test_only_files_of_the_folder_are_shown(job: Path, name: str) -> None:
    for folder in (job / "logs", job / "reports"):
        folder.mkdir()
        (folder / "plain.log").write_text("plain")
        (folder / "link").symlink_to("/etc/passwd")
        os.mkfifo(folder / "pipe")
        (folder / "folder").mkdir()
    assert [file.name for file in log_files(job / "logs")] == ["plain.log"]
    for path in (f"/logs?file={name}", f"/reports/file?name={name}"):
        status, text = get(job, path)
        assert status == 404 and "root:" not in text


def test_a_file_that_becomes_a_link_or_a_pipe_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError):
            before(tmp_path, name, None)


def test_a_long_line_is_cut_and_the_reading_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"x" * (2 * LARGEST) + b"\nlast\n")
    piece = before(tmp_path, "log", None)
    assert piece.lines == ["last"] and piece.start == 2 * LARGEST + 1
    assert len(before(tmp_path, "log", 2 * LARGEST).lines[0]) <= LARGEST
    assert before(tmp_path, "log", 0).lines == [""]


@pytest.mark.parametrize(
    ("ending", "begins"), [("txt", "Frontier report"), ("json", "{"), ("csv", "queue,"), ("html", "<!doctype html>")]
)
def test_the_report_can_be_downloaded(job: Path, ending: str, begins: str) -> None:
    status, text = get(job, f"/reports/frontier.{ending}")
    assert status == 200 and text.startswith(begins) and "snoozed.test" in text
    assert get(job, "/reports/frontier.exe")[0] == 404


def test_all_kinds_of_reports_can_be_downloaded(job: Path) -> None:
    page = get(job, "/reports")[1]
    assert all(f'/reports/{kind}.csv"' in page for kind in KINDS)
    assert "http://never.test/" in get(job, "/reports/seeds.csv")[1]
    assert '"rows": []' in get(job, "/reports/threads.json")[1]
    assert get(job, "/reports/threads.html")[0] == 404 and get(job, "/reports/luck.txt")[0] == 404


def test_reports_of_the_crawl_can_be_downloaded(job: Path) -> None:
    assert "None:" in get(job, "/reports")[1]
    (job / "reports").mkdir()
    (job / "reports" / "frontier.txt").write_text("as it was\n")
    assert "frontier.txt" in get(job, "/reports")[1]
    assert get(job, "/reports/file?name=frontier.txt") == (200, "as it was\n")


def test_queues_that_an_adjustment_has_revived_are_on_the_work_list_until_they_retire_again(job: Path) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.adjust(match="queue:none.test", precedence=2)
    _, text = get(job, "/retired")
    again = text.partition("Over budget, and will retire again")[2]
    assert ">capped.test<" in again and ">named.test<" not in again and "--match queue:capped.test" in again


def test_the_overview_shows_how_full_the_bloom_filter_is(tmp_path: Path, job: Path) -> None:
    settings = {"frontier": {"duplicates": "bloom", "bloom": {"expected": 50, "error": 1e-9}}}
    with Frontier.open(tmp_path / "bloom" / "frontier", settings) as frontier:
        frontier.schedule_many(f"http://a.test/{number}" for number in range(20))
    page = get(tmp_path / "bloom", "/")[1]
    assert "<dt>Bloom filter</dt><dd>40% of 50 URIs; its error is " in page
    assert "Bloom filter" not in get(job, "/")[1]


def test_queues_and_the_page_of_groups_show_groups(tmp_path: Path) -> None:
    job = tmp_path / "grouped"
    group = {"name": "domain", "by": "registered-domain", "politeness": True, "total_budget": 70}
    slowly = {"politeness": {"min_delay": 3600, "max_delay": 3600}}
    with Frontier.open(job / "frontier", {"groups": [group], "frontier": slowly}) as frontier:
        frontier.schedule_many(["http://a.example.org/", "http://b.example.org/"])
        frontier.finish(frontier.lease(2)[0], size=10)
        frontier.lease(2)
    text = get(job, "/queue/b.example.org")[1]
    assert (
        "<bdi>domain/example.org</bdi>: waits until " in text
        and "2 queues, 1 waiting; 0 in flight of 1" in text
        and "1 of 70" in text
    )

    async def act(client: Client, console: Console) -> str:
        await console.jobs[0].scans.run()
        return await (await client.get("/groups")).text()

    page = " ".join(visit(job, act).split())
    assert "<h2>Groups<small>1, the fullest first; 1 waits</small></h2>" in page
    assert "<bdi>domain/example.org</bdi></th>" in page and ">1 <small>/ 70</small>" in page


def test_a_queue_is_shown_with_the_use_of_its_quotas(tmp_path: Path) -> None:
    job = tmp_path / "quotas"
    quotas = {"host": {"urls": 4}, "queue": {"bytes": 1000}}
    with Frontier.open(job / "frontier", {"frontier": {"quotas": quotas}}) as frontier:
        frontier.schedule_many(["http://a.test/", "http://a.test/1"])
        frontier.finish(frontier.lease(1)[0], size=250)

    async def act(client: Client, console: Console) -> str:
        await console.jobs[0].scans.run()
        return await (await client.get("/groups")).text()

    listed = visit(job, act).partition("<h2>Quotas")[2]
    assert ">urls<" in listed and ">bytes<" in listed and ">250<" in listed
    text = " ".join(get(job, "/queue/a.test")[1].split())
    assert "<dt>quota of its host, urls</dt><dd>1 of 4" in text
    assert "<dt>quota of its queue, bytes</dt><dd>250 of 1,000" in text
    assert re.findall(r'data-label="place">(\d+)<', text) == ["1"], "places are counted from 1, as `queue` does"


def test_a_queue_shows_the_interval_and_the_limit_of_its_own(tmp_path: Path) -> None:
    job = tmp_path / "paced"
    with Frontier.open(job / "frontier", {"frontier": {"keep_urls": True}}) as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        frontier.set_queue("a.test", interval=5400, max_completed=3)
    text = " ".join(get(job, "/queue/a.test")[1].split())
    assert "<dt>interval of its own</dt><dd>1h30m between two leases, at least</dd>" in text
    assert "<dt>completed URLs</dt><dd>0 of 3, its limit" in text
    assert "interval of its own" not in get(job, "/queue/b.test")[1]
    for command in "set-queue", "set_queue":
        assert ">set-queue 1</a>" in get(job, f"/audit?command={command}")[1]
    assert "No command matches" in get(job, "/audit?command=retire")[1]


def test_sheets_and_seeds_with_settings_are_sources_of_values(tmp_path: Path) -> None:
    job = tmp_path / "sheets"
    settings = {
        "sheets": {"small": {"queue_total_budget": 20, "precedence": 5}},
        "associations": [{"sheet": "small", "domain": "a.test"}],
        "overrides": [{"match": "host:b.test", "set": {"precedence": 1}}],
        "seeds": [{"url": "http://c.test/", "budget": 7}],
    }
    with Frontier.open(job / "frontier", with_seed_settings(Settings.from_dict(settings))) as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/", "http://c.test/"])
        frontier.adjust(match="queue:c.test", sheet="small", sheet_order=2)
    text = get(job, "/adjustments")[1]
    table = text.partition("<h2>Sheets<small>")[2].partition("</table>")[0]
    assert "domain:a.test" in table and "queue:c.test" in table and "b.test" not in table
    assert "they apply before the overrides of the settings" in table
    assert "sheet small: domain:a.test" in get(job, "/queue/a.test")[1]
    assert "override 1: host:b.test" in get(job, "/queue/b.test")[1]
    text = get(job, "/queue/c.test")[1]
    assert "the seed http://c.test/: queue:c.test" in text and "sheet small: queue:c.test" in text


def test_retired_queues_are_listed_by_a_pattern_with_their_number(job: Path) -> None:
    text = get(job, "/retired?match=queue:c*")[1]
    assert ">capped.test<" in text and ">named.test<" not in text and "<b>Matching: 1.</b>" in text
    status, text = get(job, "/retired?match=label:x")
    assert status == 400 and "match: " in text


@pytest.mark.parametrize(
    "row",
    ['["retire", 1]', '["adjust", "a.test"]', '["pause", "x"]', '{"op": "retire"}', "[]", '["retire", "a", 1, 2]'],
)
def test_a_button_that_no_page_has_is_refused(job: Path, row: str) -> None:
    async def act(client: Client, console: Console) -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": "text/plain"}
        async with client.post("/steer", data={"row": row}, headers=headers) as answer:
            return answer.status, await answer.text()

    assert visit(job, act, token=TOKEN) == (400, "Bad request: This form is not one of the console.\n")


def test_labels_are_listed_with_what_was_fetched(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://a.test/", directive=Directive.MEDIUM, source="news"))
        frontier.finish(frontier.lease(1)[0], size=2048)
    text = get(tmp_path, "/groups")[1].partition("Labels of seeds")[2]
    assert "<bdi>news</bdi>" in text and "2.0 KiB" in text


def test_runs_are_listed_the_newest_first(job: Path) -> None:
    with Frontier.open(job / "frontier", program="second"):
        _, text = get(job, "/runs")
    assert "2 runs" in text and text.index(">running<") < text.index(">EXIT<") and "<bdi>second</bdi>" in text


def test_a_queue_shows_the_classes_of_its_answers_and_the_kinds_of_its_errors(tmp_path: Path) -> None:
    at_once = {"politeness": {"min_delay": 0, "max_delay": 0}}
    with Frontier.open(tmp_path / "frontier", {"frontier": at_once}) as frontier:
        frontier.schedule_many(f"http://a.test/{number}" for number in range(3))
        for status in (200, 404, 0):
            (lease,) = frontier.lease(1)
            outcome = Outcome.SUCCESS if status else Outcome.FAILURE
            frontier.finish(lease, outcome, status=status, reason="timed out after 20s", delay=0.0)
    text = get(tmp_path, "/queue/a.test")[1]
    assert 'aria-label="answers: 2xx 1, 4xx 1, no answer 1"' in text
    assert "<bdi>status 404</bdi>" in text and "timed out" in text


def test_an_adjustment_is_shown_with_what_it_promised_and_what_followed(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Frontier.open(job / "frontier") as frontier:
        frontier.adjust(match="queue:capped.test", queue_total_budget=5, who="alice", reason="more")
    _, listed = get(job, "/audit")
    assert '<p class="followed"><bdi>In ' in listed and "of 1 queue RETIRED, 1 before" in listed
    number = re.findall(r"/audit\?id=(\d+)", listed)[0]
    assert "<h2>What followed</h2>" in get(job, f"/audit?id={number}")[1]
    monkeypatch.setattr(audit, "AT_ONCE", 1)
    _, listed = get(job, "/audit")
    assert "RETIRED, 1 before" not in listed and f'href="/audit?id={number}&amp;outcome=1">what followed' in listed
    assert "<h2>What followed</h2>" not in get(job, f"/audit?id={number}")[1]
    assert "<h2>What followed</h2>" in get(job, f"/audit?id={number}&outcome=1")[1]


def test_a_change_of_which_nothing_can_follow_has_no_link_to_it(job: Path) -> None:
    """The undo of a list's undo is of no pattern, but of those of the list."""
    with Frontier.open(job / "frontier") as frontier:
        for place in (1, 2):
            args = {"match": f"queue:h{place}.test", "set": {"precedence": 5}}
            listed = {"list": {"name": "both", "place": place, "of": 2}}
            last = frontier.internals.apply(Command("adjust", args | listed, "alice", "more")).id
        undone = frontier.internals.apply(Command("undo", {"id": last, "list": True}, "alice", "no"))
        again = frontier.internals.apply(Command("undo", {"id": undone.id}, "alice", "yes")).id
    for query in (f"id={again}", f"id={again}&outcome=1", ""):
        assert "hat followed</a>" not in get(job, f"/audit?{query}")[1], query


def test_alerts_are_listed_with_who_was_told_and_the_overview_links_to_them(job: Path) -> None:
    assert "nobody has watched this crawl yet" in get(job, "/alerts")[1]
    about = RaisedAlert(level="bad", text="No process runs the crawl <now>.", since=time.time() - 60)
    failed = AlertDelivery(
        id="1", sink="mail:ops", condition="stopped", raised=True, time=time.time(), about=about, attempts=2,
        error="refused", done=time.time(),
    )  # fmt: skip
    state = AlertState(looked=time.time(), raised={"stopped": about}, deliveries=[failed])
    AlertFiles.of_job(job).state.write_bytes(msgspec.json.encode(state))
    _, text = get(job, "/alerts")
    assert "1 alert raised" in text and '<span class="level bad">stopped</span>' in text
    assert (
        "No process runs the crawl &lt;now&gt;." in text
        and '<b class="bad">not mail:ops: <bdi>refused</bdi></b>' in text
    )
    assert text.count("mail:ops") == 2, "the delivery is listed, too"
    overview = get(job, "/")[1]
    assert overview.count('<a class="mend" href="/alerts">Who was told</a>') == 2


def test_two_runs_and_two_jobs_are_compared(job: Path, tmp_path: Path) -> None:
    with Frontier.open(job / "frontier", program="second"):
        _, text = get(job, "/compare?run=1&run2=2")
    assert "<h2>Figures<small>run 1 and run 2" in text and "both runs were in the same one" in text
    assert "There is no run 9" in get(job, "/compare?run=1&run2=9")[1].replace("there", "There")
    other = tmp_path / "other"
    answer_with(other, {"snoozed.test": (200,) * 4, "new.test": (404,)})
    _, text = get((job, other), "/job/compare?with=other&by=fetched")
    assert 'href="/job/queue/snoozed.test"' in text and '"n" data-label="difference">+3<' in text
    assert "<bdi>new.test</bdi></th>" in text, "there is no page of it in this job"
    assert get((job, other), "/job/compare?with=nothing")[0] == 400
