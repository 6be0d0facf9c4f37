"""The reports, from Report objects that are made here: text, HTML, tables, and the figures behind them."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from budgetfrontier.core.model import ROW_FIELDS, CrawlState, Process, QueueRecord, QueueState, Run, RunEnd, Summary
from budgetfrontier.core.units import format_duration
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.reports import html, listings, text
from budgetfrontier.reports.overview import ORDER, Overview, gini
from budgetfrontier.reports.suggested_commands import revival_commands
from budgetfrontier.rules.verdict import Standing
from budgetfrontier.storage.group_listing import SpentGroup
from budgetfrontier.storage.holds import Holds
from budgetfrontier.storage.quota_use import QuotaUse
from budgetfrontier.storage.report import Report, row

NOW = 1_700_000_000.0
RUNNING = Process(alive=True, pid=7, program="crawler", last_call=NOW - 1, last_commit=NOW - 2)
KILLED = Process(
    alive=False,
    pid=None,
    last_commit=NOW - 3600,
    last_stop=Run(
        kernel="native",
        number=3,
        program="crawler",
        pid=6,
        host="a.test",
        began=NOW - 7200,
        ended=NOW - 3600,
        end=RunEnd.KILLED,
        reason="",
        leased=None,
    ),
)


def queue(name: str, state: QueueState = QueueState.READY, **fields: Any) -> QueueRecord:
    return QueueRecord(name, fields.pop("id", 1), state, **fields)


def make_report(
    *queues: QueueRecord,
    state: CrawlState = CrawlState.RUNNING,
    pause_reason: str | None = None,
    future: int = 0,
    process: Process | None = None,
) -> Report:
    counts = {str(s): sum(q.state is s for q in queues) for s in QueueState}
    totals = Summary(
        state=state,
        pause_reason=pause_reason,
        queued=sum(q.queued for q in queues if q.state not in (QueueState.INELIGIBLE, QueueState.RETIRED)),
        in_process=sum(q.out for q in queues),
        future=future,
        dead=2,
        seen=100,
        scheduled=101,
        succeeded=7,
        failed=2,
        retried=3,
        deferred=4,
        disregarded=1,
        duplicates=50,
        expenditure=sum(q.expenditure for q in queues),
        queues=counts,
    )
    return Report(
        crawl="news",
        generated=NOW,
        state=state,
        pause_reason=pause_reason,
        totals=totals,
        queues=list(queues),
        standing=Standing(now=NOW, totals=totals, process=process or RUNNING, job="job", start="crawl it"),
    )


def section(rendered: str, title: str) -> list[str]:
    """The lines of one section of the text report."""
    body = rendered.partition(f" -----===== {title} =====-----\n")[2].partition("\n\n")[0]
    return body.splitlines()


# -- text


def test_summary_line_is_heritrix_s() -> None:
    exhausted = [queue(f"{n}.test", QueueState.EXHAUSTED) for n in range(35)]
    expected = (
        "RUN - 35 URI queues: 0 active (0 in-process; 0 ready; 0 snoozed); "
        "0 inactive; 0 ineligible; 0 retired; 35 exhausted"
    )
    report = make_report(*exhausted)
    assert text.summary_line(report) == expected
    assert text.summary_line(report.totals) == expected


def test_summary_line_counts_each_state() -> None:
    queues = [queue(f"{state}.test", state) for state in QueueState]
    line = text.summary_line(make_report(*queues, state=CrawlState.PAUSED, pause_reason="finish"))
    assert line == (
        "PAUSE - 7 URI queues: 3 active (1 in-process; 1 ready; 1 snoozed); "
        "1 inactive; 1 ineligible; 1 retired; 1 exhausted"
    )


def test_sections_come_in_heritrix_s_order() -> None:
    titles = re.findall(r"^ -----===== (.+) =====-----$", text.render(make_report(), now=NOW), re.MULTILINE)
    assert titles == [
        "STATS",
        "QUEUES",
        "20 LONGEST QUEUES",
        "IN-PROCESS QUEUES",
        "READY QUEUES",
        "SNOOZED QUEUES",
        "INACTIVE QUEUES",
        "RETIRED QUEUES",
        "SPEND",
    ]


def test_ineligible_queues_have_a_line_and_a_section_where_there_are_any() -> None:
    rendered = text.render(make_report(queue("far.test", QueueState.INELIGIBLE, precedence=300, queued=2)), now=NOW)
    assert "         Ineligible queues: 1\n" in rendered
    assert section(rendered, "INELIGIBLE QUEUES")[1].startswith("far.test 300 2 ")
    assert "neligible queues" not in text.render(make_report(), now=NOW)


def test_a_queue_s_line_follows_the_legend() -> None:
    record = queue(
        "netarkivet.test",
        QueueState.SNOOZED,
        precedence=2,
        queued=42,
        enqueued=50,
        balance=2943,
        last_cost=1,
        charges=10,
        expenditure=61,
        penalties=50,
        total_budget=-1,
        errors=1,
        wake_time=NOW + 2.017,
        last_leased="http://netarkivet.test/a",
        last_lease_time=1_400_000_000,
        last_enqueued="http://netarkivet.test/b",
    )
    line = text.queue_line(record, now=NOW)
    assert line == (
        "netarkivet.test 2 42 50 2943 1(1.1) 20140513165320000 2s17ms 61/-1 1 http://netarkivet.test/a http://netarkivet.test/b"
    )
    assert len(line.split(" ")) == len(text.LEGEND.split(" ")) - 1  # cost and average are one token
    assert section(text.render(make_report(record), now=NOW), "SNOOZED QUEUES") == [text.LEGEND, line]


def test_nothing_is_a_dash_and_a_wake_time_that_is_past_is_none() -> None:
    line = text.queue_line(queue("a.test", wake_time=NOW - 1), now=NOW)
    assert line == "a.test 3 0 0 0 0(0.0) - - 0/-1 0 - -"


def test_inactive_queues_are_counted_by_precedence_and_listed_in_the_order_of_their_turns() -> None:
    report = make_report(
        queue("late.test", QueueState.INACTIVE, precedence=3, position=2, queued=1),
        queue("soon.test", QueueState.INACTIVE, precedence=3, position=1, queued=1),
        queue("first.test", QueueState.INACTIVE, precedence=1, position=9, queued=1),
    )
    rendered = text.render(report, now=NOW)
    assert "           Inactive queues: 3 (p1: 1; p3: 2)\n" in rendered
    names = [line.split()[0] for line in section(rendered, "INACTIVE QUEUES")[1:]]
    assert names == ["first.test", "soon.test", "late.test"]


def test_sections_are_capped_and_say_how_many_more() -> None:
    retired = [queue(f"{n}.test", QueueState.RETIRED, position=n, queued=1, expenditure=1) for n in range(12_033)]
    rendered = text.render(make_report(*retired), limit=2, now=NOW)
    lines = section(rendered, "RETIRED QUEUES")
    assert [line.split()[0] for line in lines[1:3]] == ["0.test", "1.test"]
    assert lines[3] == "...and 12,031 more"
    assert " Stranded: 12,033 URIs in 12,033 retired queues" in section(rendered, "SPEND")


def test_spend_section_names_the_top_spenders_and_what_is_stranded() -> None:
    report = make_report(
        queue("big.test", QueueState.RETIRED, expenditure=75, penalties=5, total_budget=70, queued=9),
        queue("small.test", expenditure=25, total_budget=-1),
        queue("none.test", QueueState.EXHAUSTED),
    )
    assert section(text.render(report, now=NOW), "SPEND") == [
        " Spent: 100 by 2 queues, 5 of it in error penalties",
        " Spread: Gini 0.50; the ten biggest spenders have 100%",
        " Top spenders: totalSpend/totalBudget share queue",
        "  75/70 75.0% big.test",
        "  25/no limit 25.0% small.test",
        " Stranded: 9 URIs in 1 retired queue",
        "  9 big.test",
    ]


def test_a_small_share_is_not_nothing() -> None:
    queues = [queue(f"{n}.test", expenditure=1) for n in range(3000)]
    lines = section(text.render(make_report(*queues, queue("none.test")), limit=1, now=NOW), "SPEND")
    assert lines[1:4] == [
        " Spread: Gini 0.00; the ten biggest spenders have <1%",
        " Top spenders: totalSpend/totalBudget share queue",
        "  1/no limit <0.1% 0.test",
    ]
    assert "the ten biggest spenders have <1%." in Page(html.render(make_report(*queues), now=NOW)).text


def test_hostile_values_cannot_write_to_the_terminal_or_shift_columns() -> None:
    hostile = queue("a\x1b[2J\nb c", queued=1, last_enqueued="http://a/\u202egnp.exe", expenditure=1)
    rendered = text.render(make_report(hostile), now=NOW)
    assert "\x1b" not in rendered and "\u202e" not in rendered
    line = section(rendered, "READY QUEUES")[1]
    assert line.split(" ")[0] == r"a\x1b[2J\nb\x20c"
    assert line.endswith(r" http://a/\u202egnp.exe")


def head(report: Report) -> list[str]:
    """The lines of the text report above its sections."""
    return text.render(report, now=NOW).partition("\n -----")[0].splitlines()


def test_the_report_says_which_process_runs_the_crawl_and_what_the_verdict_is() -> None:
    report = make_report(queue("a.test", QueueState.READY))
    assert head(report)[2:] == [
        " Crawl state: RUNNING",
        " Process: crawler (process 7), last commit 2s ago",
        " Verdict: The crawl is running.",
    ]
    page = html.render(report, now=NOW)
    assert "Process: crawler (process 7), last commit 2s ago" in page and "The crawl is running." in page
    data = report.to_dict()
    assert data["process"] == {
        "alive": True,
        "pid": 7,
        "host": "",
        "program": "crawler",
        "began": None,
        "last_call": NOW - 1,
        "last_commit": NOW - 2,
        "last_stop": None,
        "server": None,
        "suspended": False,
        "hung": False,
    }
    assert data["verdict"] == {
        "slug": "running",
        "level": "good",
        "sentence": "The crawl is running.",
        "remedy": None,
    }


def test_a_killed_crawl_never_says_running_without_that() -> None:
    report = make_report(queue("a.test", QueueState.READY, last_leased="https://a.test/\x1b[31m"), process=KILLED)
    told = "crawler (process 6) was killed, or crashed"
    assert head(report)[2:] == [
        " Crawl state: RUNNING, but no process runs it",
        f" Process: none; {told}; last commit 1h ago",
        f" Verdict: No process runs this crawl: {told}; the last commit was 1h ago.",
        "   $ crawl it",
    ]
    last = text.render(report, now=NOW).splitlines()[-2:]
    assert last[0] == f"process: none; {told}; last commit 1h ago" and last[1].startswith("RUN - 1 URI queues")
    page = html.render(report, now=NOW)
    assert "RUNNING, but no process runs it" in page and told in page and "<code>crawl it</code>" in page
    data = json.loads("".join(listings.json_report(report, report.queues)))
    assert (data["state"], data["process"]["alive"], data["verdict"]["slug"]) == ("RUNNING", False, "killed")
    assert data["process"]["last_stop"]["time"] == NOW - 3600 and data["process"]["last_stop"]["end"] == "KILLED"


def test_a_hung_crawl_never_says_running_without_that() -> None:
    hung = Process(alive=True, pid=7, program="crawler", last_call=NOW - 1000, last_commit=NOW - 2000)
    lines = head(make_report(queue("a.test", QueueState.READY), process=hung))
    assert lines[2:4] == [
        " Crawl state: RUNNING, but its process hangs",
        " Process: crawler (process 7), not used by it for 16m40s, last commit 33m20s ago",
    ]


def test_what_the_web_wrote_is_escaped_in_the_verdict() -> None:
    report = make_report(state=CrawlState.PAUSED, pause_reason="<b>\x1b[31m")
    assert "\x1b" not in "".join(head(report)) and r"\x1b" in "".join(head(report))
    page = html.render(report, now=NOW)
    assert r"<b>\x1b" not in page and r"&lt;b&gt;\x1b" in page


# -- figures


def test_an_overview_is_what_sorting_everything_would_give() -> None:
    rng = random.Random(11)
    states = list(QueueState)
    queues = [
        queue(
            f"{n}.test",
            rng.choice(states),
            id=n,
            queued=rng.randrange(6),
            expenditure=rng.randrange(40),
            penalties=rng.randrange(2),
            precedence=rng.randrange(3),
            position=rng.randrange(10_000),
            wake_time=NOW + rng.randrange(500),
        )
        for n in range(3000)
    ]
    seen = Overview(7)
    assert list(seen.through(queues)) == queues

    def most(key: str, some: list[QueueRecord]) -> list[QueueRecord]:
        return sorted((q for q in some if getattr(q, key)), key=lambda q: -getattr(q, key))

    assert seen.longest(7) == most("queued", queues)[:7]
    assert seen.longest(10) == most("queued", queues)[:10]
    for state, order in ORDER.items():
        assert seen.listed(state) == sorted((q for q in queues if q.state is state), key=order)[:7]
    retired = [q for q in queues if q.state is QueueState.RETIRED and q.queued]
    spend = seen.spend()
    assert (spend.top, spend.stranding) == (most("expenditure", queues)[:7], most("queued", retired)[:7])
    assert (spend.stranded, spend.stranding_count) == (sum(q.queued for q in retired), len(retired))
    assert spend.total == sum(q.expenditure for q in queues)
    assert spend.spenders == sum(q.expenditure > 0 for q in queues)
    assert spend.penalties == sum(q.penalties for q in queues if q.expenditure)
    assert spend.top10_share == sum(q.expenditure for q in most("expenditure", queues)[:10]) / spend.total
    assert seen.next_wake == min(q.wake_time for q in queues if q.state is QueueState.SNOOZED)


def test_an_overview_without_rows_still_adds_up() -> None:
    seen = Overview(0).gather([queue(f"{n}.test", QueueState.RETIRED, queued=1, expenditure=2) for n in range(300)])
    assert (seen.longest(0), seen.listed(QueueState.RETIRED), seen.spend().top) == ([], [], [])
    assert (seen.spend().total, seen.spend().stranded, seen.spend().top10_share) == (600, 300, 20 / 600)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [([], 0.0), ([0, 0], 0.0), ([5, 5, 5], 0.0), ([0, 0, 0, 8], 0.75), ([1, 3], 0.25)],
)
def test_gini(amounts: list[int], expected: float) -> None:
    assert gini(Counter(amounts)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fields", "command"),
    [
        ({"total_budget": 61, "expenditure": 61, "balance_replenish_amount": 32, "reached": False}, "unretire JOB"),
        ({"total_budget": 60, "expenditure": 61, "balance_replenish_amount": 32}, "adjust JOB --total-budget 93"),
        ({"total_budget": 61, "expenditure": 61, "balance_replenish_amount": 32}, "adjust JOB --total-budget 93"),
        ({"total_budget": -1, "expenditure": 61, "balance_replenish_amount": 0}, "adjust JOB --replenish 7"),
        (
            {"total_budget": 1, "expenditure": 61, "balance_replenish_amount": 0},
            "adjust JOB --total-budget 62 --replenish 7",
        ),
        ({"total_budget": -1, "expenditure": 61, "balance_replenish_amount": 32}, "unretire JOB"),
        ({"by_name": True, "balance_replenish_amount": 32}, "unretire JOB"),
        ({"max_completed": 3, "completed": 2, "total_budget": -1, "balance_replenish_amount": 32}, "unretire JOB"),
    ],
)
def test_what_revives_a_queue(fields: dict[str, Any], command: str) -> None:
    reached = fields.get("reached", True)
    record = queue("a b", QueueState.RETIRED, **{name: value for name, value in fields.items() if name != "reached"})
    where = "'a b'" if command.startswith("unretire") else "--match 'queue:a b'"
    suggested = revival_commands(record, "JOB", replenish=7, reached=reached)
    assert suggested == [f"budgetfrontier {command}".replace("JOB", f"JOB {where}")]


def test_a_queue_that_several_things_hold_needs_a_command_for_each() -> None:
    record = queue(
        "-a", QueueState.RETIRED, max_completed=2, completed=2, total_budget=1, expenditure=61, by_name=True,
        balance_replenish_amount=32,
    )  # fmt: skip
    held = Holds(SpentGroup("g/x.test", 70, 70, None), [(QuotaUse("label", "news", "urls", 2, 2), (("urls", 2),))])
    assert revival_commands(record, "JOB", replenish=7, reached=True, held=held) == [
        "budgetfrontier adjust JOB --match queue:-a --total-budget 62",
        "budgetfrontier adjust JOB --match group:g/x.test --set group.total_budget=102",
        "budgetfrontier adjust JOB --match label:news --set 'quotas.label={urls: 4}'",
        "budgetfrontier set-queue JOB --limit 0 -- -a",
        "budgetfrontier unretire JOB -- -a",
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0, "0ms"), (-3, "0ms"), (0.017, "17ms"), (2.017, "2s17ms"), (200, "3m20s"), (3600, "1h"), (100_800, "1d4h")],
)
def test_duration(seconds: float, expected: str) -> None:
    assert format_duration(seconds) == expected


@pytest.mark.parametrize("seconds", [1e13, 1e308, float("inf")])
def test_a_duration_without_end(seconds: float) -> None:
    assert format_duration(seconds) == "11574074d1h"


def test_duration_skips_no_unit() -> None:
    assert format_duration(3601) == "1h"  # not 1h1s: the two largest units in a row


# -- HTML


class Page(HTMLParser):
    """What a browser would make of a page: its tags, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_shows_every_state_and_fetches_nothing() -> None:
    page = Page(html.render(make_report(*(queue(f"{s.lower()}.test", s, queued=1) for s in QueueState)), now=NOW))
    for state in ORDER:
        assert f"{state.lower()}.test" in page.text
    assert "RUN - 7 URI queues" in page.text
    names = {tag for tag, _ in page.tags}
    assert "svg" in names and not names & {"script", "link", "img", "iframe", "a", "object"}
    assert not any("src" in attributes or "href" in attributes for _, attributes in page.tags)


def test_html_escapes_what_came_from_the_web() -> None:
    attack = '"><script>alert(1)</script>&\x1b'
    hostile = queue(attack, QueueState.RETIRED, queued=3, expenditure=2, last_enqueued=attack, last_leased=attack)
    report = make_report(hostile, state=CrawlState.PAUSED, pause_reason=attack)
    report.crawl = attack
    page = Page(html.render(report, now=NOW))
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count("<script>alert(1)</script>") >= 6
    assert "\x1b" not in page.text
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_html_tables_are_capped() -> None:
    ready = [queue(f"{n}.test", position=n) for n in range(1005)]
    page = html.render(make_report(*ready), limit=5, now=NOW)
    assert page.partition("READY queues")[2].count("<tr>") == 6
    assert "…and 1,000 more" in page


# -- tables


COLUMNS = ("name", "n", "why")


def written(rows: list[dict[str, Any]], **options: Any) -> str:
    out = io.StringIO()
    listings.write([tuple(row[name] for name in COLUMNS) for row in rows], COLUMNS, out, **options)
    return out.getvalue()


ROWS: list[dict[str, Any]] = [
    {"name": "a", "n": 5, "why": None},
    {"name": "long,er", "n": 1234, "why": {"before": {"x": 1}, "y": 2}},
]


def test_text_table_is_aligned() -> None:
    assert written(ROWS).splitlines() == [
        "name        n  why",
        "a           5  -",
        "long,er  1234  before.x=1 y=2",
    ]


def test_json_is_one_array() -> None:
    assert json.loads(written(ROWS, format="json")) == ROWS
    assert json.loads(written([], format="json")) == []


def test_csv_quotes_and_keeps_plain_data() -> None:
    header, first, second = csv.reader(io.StringIO(written(ROWS, format="csv")))
    assert header == ["name", "n", "why"]
    assert first == ["a", "5", ""]
    assert second[:2] == ["long,er", "1234"] and json.loads(second[2]) == ROWS[1]["why"]


HOSTILE: list[Any] = [
    "a,b",
    'a"b',
    "a\nb",
    "a\rb",
    "None",
    None,
    "{}",
    {"x": [1, None]},
    [],
    "[1",
    "",
    " a ",
    "é",
    0.1,
    "\\",
    "true",
    "a\x85b\u2028c",
    False,
    -3,
    True,
]


def test_csv_is_what_the_csv_module_writes() -> None:
    rng = random.Random(3)
    rows = [tuple(rng.choices(HOSTILE, k=3)) for _ in range(2500)]
    out, expected = io.StringIO(), io.StringIO()
    listings.write(rows, COLUMNS, out, format="csv")
    table = csv.writer(expected, lineterminator="\n")
    quoting_all = csv.writer(expected, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    table.writerow(COLUMNS)
    for values in rows:
        cells = ["" if v is None else json.dumps(v) if isinstance(v, dict | list) else v for v in values]
        (quoting_all if "a\rb" in cells else table).writerow(cells)
    assert out.getvalue() == expected.getvalue()
    for newline in ("", None):  # with None, a carriage return alone ends a line, as spreadsheets have it
        assert len([*csv.reader(io.StringIO(out.getvalue(), newline=newline))]) == 1 + len(rows)


def test_json_keeps_every_value_and_is_ascii() -> None:
    rng = random.Random(3)
    rows = [tuple(rng.choices(HOSTILE, k=3)) for _ in range(2500)]
    rows.append(("\U0001f577", "\u2028", "\x7f\x80"))
    out = io.StringIO()
    listings.write(rows, COLUMNS, out, format="json")
    assert json.loads(out.getvalue()) == [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert out.getvalue().isascii() and len(out.getvalue().splitlines()) == len(rows) + 2


def test_a_long_text_table_is_aligned_to_its_widest_row() -> None:
    rows = [{"name": "x" * (n % 50), "n": n, "why": "a\tb" if n == 2047 else "-"} for n in range(4000)]
    header, *lines = written(rows).splitlines()
    assert {line.index(str(n)) + len(str(n)) for n, line in enumerate(lines) if n > 1000} == {header.index(" n ") + 2}
    assert lines[2047].endswith(r"a\tb")


@pytest.mark.parametrize("format", ["text", "json", "csv"])
def test_nothing_is_printed_before_all_is_read(format: str) -> None:
    out = io.StringIO()

    def rows(good: bool) -> Iterator[tuple[object, ...]]:
        for n in range(5000):
            yield "a", n, "b"
        assert not out.getvalue()
        if not good:
            raise CorruptFrontier("a record cannot be read")

    with pytest.raises(CorruptFrontier):
        listings.write(rows(good=False), COLUMNS, out, format=format)
    assert out.getvalue() == ""
    listings.write(rows(good=True), COLUMNS, out, format=format)
    assert out.getvalue().count("4999") == 1


def test_a_report_in_pieces_is_the_report() -> None:
    report = make_report(*(queue(f"{n}.test", queued=n, last_enqueued="http://é/") for n in range(2500)))
    assert json.loads("".join(listings.json_report(report, report.queues))) == report.to_dict()
    assert json.loads("".join(listings.json_report(report, []))) == {**report.to_dict(), "queues": []}


def test_queue_rows_have_the_columns_of_every_report() -> None:
    assert tuple(row(queue("a.test"))) == ROW_FIELDS
