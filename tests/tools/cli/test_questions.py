"""The questions of the operators' manual: the command and the page of each answer it, in a job where it comes up."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, RunEnd, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.reports.alert_state import AlertState
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.api import PREFIX
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.pages.table import PAGES
from tests.tools.cli.conftest import Cli
from tests.tools.console.conftest import TOKEN, Client, visit
from tests.tools.console.test_steering import Operator

MANUAL = Path(__file__).parents[3] / "docs" / "operators.md"
HOUR = 3600.0

ROW = re.compile(r"^\| ([^|]+\?) \| `([^`|]+)` \| ([^|]*) \| `([^`|]+)` \|$", re.MULTILINE)
ROWS = {found[1]: found.groups()[1:] for found in ROW.finditer(MANUAL.read_text())}
"""The command, the page and the call of each question."""


class Answer(NamedTuple):
    """Texts of a command's answer and of its page, what both are asked about, and more of the page's address."""

    command: tuple[str, ...]
    page: tuple[str, ...]
    about: str = "capped.test"
    query: str = ""


OTHER = "How does it differ from another crawl?"
"""The question about two jobs."""
OVER_BUDGET = "over budget, and will retire again"
DRY_RUN = "?op=adjust&match=queue:capped.test&total=10&reason=more"
"""The form of a dry run."""

ANSWERS = {
    "Why is nothing being crawled?": Answer(("Verdict: No process runs this crawl",), ("No process runs this crawl",)),
    "Is it alive, and how old are these figures?": Answer(
        ("Process: none", "last commit"), ("No process; last commit",)
    ),
    "When and why did it last stop?": Answer(("SIGNAL", "Ctrl-C"), ("was stopped by a signal", "(Ctrl-C)")),
    "Why is this URL not crawled?": Answer(
        ("the queue will be retired first", OVER_BUDGET),
        ("http://capped.test/9 INACTIVE", "the queue will be retired first", OVER_BUDGET),
        "http://capped.test/9",
    ),
    "What became of this URL?": Answer(
        ("no connection (-2); connection refused",),
        ("http://failed.test/", "no connection (-2); connection refused"),
        "http://failed.test/",
    ),
    "Why is this host retired?": Answer(
        ("it has spent 2, more than its total budget of 1", "--total-budget 3"),
        ("it has spent 2, more than its total budget of 1", "--total-budget 3"),
        "full.test",
    ),
    "Which override or adjustment gave it this budget?": Answer(
        ("queue_total_budget", "2", "override 1 (domain:capped.test)", "adjustment 1 (queue:capped.test) by alice"),
        ("queue_total_budget 2 override 1: domain:capped.test", "adjustment 1: queue:capped.test"),
    ),
    "Which hosts eat the budget?": Answer(
        ("leased_ago\nfailed.test ",),
        ("prec leased failed.test EXHAUSTED 0 51 / no limit",),
        query="?sort=expenditure",
    ),
    "Which hosts ate it in the last hour?": Answer(("failed.test     51  89%",), ("failed.test 51",), query="?span=1h"),
    "How many attempts did each host have in the last hour?": Answer(
        ("fetched", "capped.test      3  5%           3"), ("capped.test 3 5% 3",), query="/busiest.txt"
    ),
    "What would another budget change?": Answer(
        ("queue_total_budget 2 -> 10", "not retired now, with another budget: 1 queue"),
        (
            "nothing was changed",
            "queue_total_budget = 2 queue_total_budget = 10",
            "others whose budgets change 1 queue",
        ),
        query=DRY_RUN,
    ),
    "How many pages would it give, and for how much?": Answer(
        ("would fetch 8 of the URIs they hold now and spend 8, at most 8", "without the change: 0 of"),
        ("would spend 8 on 8 URIs of those they hold",),
        query=DRY_RUN,
    ),
    "How long until the crawl ends?": Answer(
        ("rate", "budgets", "15 URIs are in queues without a total budget"),
        ("No end is in sight", "15 URIs are in queues without a total budget"),
    ),
    "Which queue has the longest tail of politeness?": Answer(
        ("politeness  2h", "slow.test"), ("politeness 2h from 2h on", "slow.test at its shortest delay")
    ),
    "Who changed this queue?": Answer(
        ("alice", "too much of it"),
        ("alice Set error_penalty_amount to 1 (before: 50) for queue:capped.test", "too much of it yes adjust 1"),
    ),
    "How do I take that back?": Answer(
        ("undone 1, adjust: removed adjustment 1",),
        ("too much of it", "adjust 1 Undo"),
    ),
    "I deleted the wrong queue, how do I get it back?": Answer(
        ("undone 4, delete: returned 1 URI to 1 queue",), ("the wrong one", "delete 4 Undo"), "4"
    ),
    "What is kept for `undo`, and how much room does it take?": Answer(
        ("delete   20", "the wrong one"), ("kept for undo in all", "B kept for undo Discard"), query="?kept=1"
    ),
    "What lies in this retired queue?": Answer(("http://full.test/8",), ("http://full.test/8",), "full.test"),
    "What have its paths in common?": Answer(
        ("7  100%   /N", "http://full.test/2"), ("7 100% /N", "http://full.test/2"), "full.test"
    ),
    "Is it a trap, and what would hold it?": Answer(
        (
            "starved.test: 0.95",
            "  future-dates: 12 of 12 URLs",
            "--match queue:starved.test --total-budget 0 --dry-run",
        ),
        ("future-dates 12 of 12 URLs", "Hold at 0"),
    ),
    "Which queues are over budget, and will retire again?": Answer(
        ("capped.test", "full.test"), ("full.test 7 2 / 1", "Over budget, and will retire again", "capped.test 8 3 / 2")
    ),
    "What was spent on errors, and on prerequisites?": Answer(
        ("Failures:     51 (penalties: 50)", "Dead letters: 1 (attempts: 1)", "Prerequisites: 1"),
        ("FAILURE 1 2.1% 51 50 of it penalties", "DEAD 1 2.1% 1 1 dead letter", "1 URI of those that ended"),
    ),
    "How fast is it, and is it slower than before or than yesterday?": Answer(
        ("per_hour", "before", "yesterday", "fetched"),
        ("the 1h before", "yesterday", "fetched"),
        query="?span=1h",
    ),
    "Which queues have waited longest for a turn?": Answer(
        ("leased_ago\nstarved.test  INACTIVE", "\ncapped.test   INACTIVE"),
        ("leased ▲ starved.test INACTIVE 12 0 / no limit 0.0 0 0 12 9 never capped.test INACTIVE",),
        query="?state=INACTIVE&sort=last_lease_time&reverse=1",
    ),
    "Which fetches hang, and since when?": Answer(
        ("age", "http://slow.test/0"), ("1 lease out", "age", "http://slow.test/0")
    ),
    "Which errors, by reason?": Answer(
        ("poison        1       1  http://dead.test/",), ("poison 2", "Dead letters by reason 1 poison 1")
    ),
    "How many URIs were refused, and why?": Answer(
        ("Full:          5", "Invalid:       1 (scheme: 1)"),
        ("URIs refused by reason 6", "FULL by max_queue_size 5", "scheme 1"),
    ),
    "Which hosts answer with 4xx, with 5xx, or not at all?": Answer(
        ("48 attempts of 5 queues: 2 without an answer", "dead.test      0    0    0    0     1", "poison (1)"),
        ("no answer 2 100.0%", "1 100% poison (1)"),
    ),
    "Which kinds of errors are there?": Answer(("poison         2       2  dead.test",), ("poison 2",)),
    "Are the seeds done? Which of them wait?": Answer(
        ("DEAD         http://dead.test/", "NOT_REACHED  http://never.test/"),
        ("http://dead.test/ DEAD poison", "http://never.test/ NOT_REACHED never scheduled"),
    ),
    "Which hosts keep the crawl open?": Answer(
        ("leased_ago\nstarved.test  INACTIVE             9      12", "\nslow.test     IN_PROCESS"),
        ("leased starved.test INACTIVE 12", "slow.test IN_PROCESS 3", "Rows 1 to 3 of 3"),
        query="?state=unfinished&sort=queued",
    ),
    OTHER: Answer(
        ("job: fetched 48, spent 97", "5 only in the first, 1 only in the second, 0 in both", "\nfailed.test"),
        ("fetched 48", "old.test 40 0", "5 only in the first"),
        query="?with=JOB2",
    ),
    "What was changed lately, and by whom?": Answer(
        ("bob    the wrong one", "carol  not what we want", "alice  too much of it"),
        ("bob Deleted 1 URI from 1 queue", "carol Retired queue named.test", "alice Set error_penalty_amount"),
    ),
    "Has my adjustment given what it promised?": Answer(
        ("in 30m, fetched 4, spent 3, 0 of 1 queue RETIRED",), ("fetched 4, spent 3",), "1", "?id=1"
    ),
    "How do I block all queues of a domain for a time?": Answer(
        ("would be blocked until", "1 INACTIVE, with 8 URIs"),
        ("nothing was changed", "capped.test"),
        query="?op=snooze&match=queue:capped.test&for=2h&reason=night",
    ),
    "How do I try all dead letters of one reason again?": Answer(
        ("would replay 1 dead letter of 1 queue",), ("1 dead letter.", "poison", "Replay")
    ),
    "How do I have a URL crawled again when it is found?": Answer(
        ("would forget 1 URL",),
        ("nothing was changed", "forgotten 1"),
        "http://old.test/1",
        "?op=forget&urls=http://old.test/1&reason=again",
    ),
    "How would the crawl go on with another budget?": Answer(
        ("proposed", "URIs in retired queues                 15               1"),
        ("nothing was changed", "URIs in retired queues 15 1", "How sure it is"),
        query="?op=simulate&total=10&until=12h",
    ),
    "When is the disk full?": Answer(("\ndisk  ", "B left, ", "B an hour"), ("disk ", "B left, ", "B an hour")),
    "What is alarming, and who was told?": Answer(("disk_full_within", "warn"), ("disk_full_within", "is full in")),
    "What differs from the last run?": Answer(
        ("run 1: fetched 2", "run 2: fetched 1", "museum.test"), ("museum.test",), query="?run=1&run2=2"
    ),
    "Which settings does it crawl with?": Answer(
        ("frontier.politeness.min_delay      0s ", "alerts.disk_full_within            3650d "),
        ("frontier.politeness.min_delay 0s 3s",),
    ),
    "Which groups of queues are full?": Answer(("museums  open ",), ("museums",)),
    "How much of each quota is used?": Answer(("3    500  urls    group  museums",), ("museums", "500")),
    "What did the seeds with each label give?": Answer(("news       0        0          3",), ("news 0 0 3",)),
    "Is this host outside of its crawl windows?": Answer(
        ("it is outside its crawl windows",), ("crawl windows",), "night.test"
    ),
    "What does the scope discard of what waits?": Answer(
        (
            "2 of 3 URIs that wait are out of the scope: disregarded at their turns",
            "not accepted     2  67%    http://far.test/0",
        ),
        ("2 of 3 URIs that wait are out of the scope", "http://far.test/0"),
        query="/scope.txt",
    ),
    "Which of my jobs are ill?": Answer(
        (
            "level  job ",
            "/job  second  ",
            "/job         questions  ",
            "is full in",
            "No process runs this crawl",
        ),
        ("second", "questions", "No process runs this crawl", "is full in"),
    ),
}
IN_SECOND = [*ANSWERS][[*ANSWERS].index("What is alarming, and who was told?") :]
"""The questions about the job of `second_job`."""

OF_API: dict[str, tuple[str, ...]] = {
    "Why is nothing being crawled?": ("No process runs this crawl",),
    "Is it alive, and how old are these figures?": ('"alive":false', '"last_commit":1'),
    "When and why did it last stop?": ('"end":"SIGNAL","reason":"Ctrl-C"',),
    "Why is this URL not crawled?": ("the queue will be retired first", OVER_BUDGET),
    "What became of this URL?": ("connection_refused",),
    "Why is this host retired?": ("it has spent 2, more than its total budget of 1", "--total-budget 3"),
    "Which override or adjustment gave it this budget?": ('"match":"domain:capped.test"', '"who":"alice"'),
    "Which hosts eat the budget?": ('{"rows":[{"queue":"failed.test"',),
    "Which hosts ate it in the last hour?": ('{"rows":[{"queue":"failed.test","spent":51',),
    "How many attempts did each host have in the last hour?": ('{"queue":"capped.test","spent":3', '"fetched":3'),
    "What would another budget change?": ('"dry_run":true', '"queue_total_budget":10'),
    "How many pages would it give, and for how much?": ('"after":{"uris":8,"spend":8',),
    "How long until the crawl ends?": ("No end is in sight", "15 URIs are in queues without a total budget"),
    "Which queue has the longest tail of politeness?": ('"bound":"politeness"', "slow.test"),
    "Who changed this queue?": ('"who":"alice","reason":"too much of it"',),
    "How do I take that back?": ('"command":"undo"', '"id":1'),
    "I deleted the wrong queue, how do I get it back?": ('"command":"undo"', '"id":4'),
    "What is kept for `undo`, and how much room does it take?": ('"id":4,"command":"delete"', '"uris":1,"bytes":'),
    "What lies in this retired queue?": ('"url":"http://full.test/8"',),
    "What have its paths in common?": ('"pattern":"/N","uris":7',),
    "Is it a trap, and what would hold it?": ('"queue":"starved.test"', '"code":"future-dates"', '"total_budget":0'),
    "Which queues are over budget, and will retire again?": ('"queue":"full.test"', '"again":true'),
    "What was spent on errors, and on prerequisites?": ('"outcome":"FAILURE","attempts":1', "50 of it penalties"),
    "How fast is it, and is it slower than before or than yesterday?": ('"figure":"fetched"', '"yesterday":'),
    "Which queues have waited longest for a turn?": (
        '{"rows":[{"queue":"starved.test"',
        '"last_lease_time":0',
        '"queue":"capped.test"',
    ),
    "Which fetches hang, and since when?": ('"url":"http://slow.test/0"', '"began":'),
    "Which hosts answer with 4xx, with 5xx, or not at all?": ('"rows":[{"queue":"dead.test","classes":[0,0,0,0,1]',),
    "Which kinds of errors are there?": ('"kinds":[{"kind":"poison","attempts":2',),
    "Which errors, by reason?": ('"dead":{"poison":1}',),
    "How many URIs were refused, and why?": ('"FULL by max_queue_size":5', '"scheme":1'),
    "Are the seeds done? Which of them wait?": ('"status":"DEAD","seed":"http://dead.test/"', '"NOT_REACHED"'),
    "Which hosts keep the crawl open?": ('{"rows":[{"queue":"starved.test"', '"queue":"slow.test"'),
    OTHER: ('"fetched":{"count":48,', '"only_in_first":5', '"queue":"old.test"'),
    "What was changed lately, and by whom?": ('"who":"bob","reason":"the wrong one"', '"who":"carol"', '"who":"alice"'),
    "Has my adjustment given what it promised?": ("fetched 4, spent 3", '"fetched":4'),
    "How do I block all queues of a domain for a time?": ('"states":{"INACTIVE":1}', '"dry_run":true'),
    "How do I try all dead letters of one reason again?": ('"replayed":1', "http://dead.test/"),
    "How do I have a URL crawled again when it is found?": ('"forgotten":1', '"dry_run":true'),
    "How would the crawl go on with another budget?": ('"today":{', '"proposed":{'),
    "When is the disk full?": ('"bound":"disk","seconds":', "B left, ", "B an hour"),
    "What is alarming, and who was told?": ('"level":"warn"', '"told":['),
    "What differs from the last run?": ('"fetched":{"count":2,', '"fetched":{"count":1,', '"queue":"museum.test"'),
    "Which settings does it crawl with?": ('"setting":"frontier.politeness.min_delay","value":0.0,"default":3.0',),
    "Which groups of queues are full?": ('"group":"museums"',),
    "How much of each quota is used?": ('"used":3,"limit":500',),
    "What did the seeds with each label give?": ('"label":"news"', '"successes":3'),
    "Is this host outside of its crawl windows?": ("it is outside its crawl windows",),
    "What does the scope discard of what waits?": ('"why":"not accepted","urls":2', '"example":"http://far.test/0"'),
    "Which of my jobs are ill?": (
        '"crawl":"second"',
        '"crawl":"questions"',
        '"level":"warn"',
        "No process runs this crawl",
        "is full in",
    ),
}
"""Texts of the answer of the API to each question."""

IN_TWO_DAYS = time.strftime("%a", time.gmtime(time.time() + 48 * HOUR)).lower()
"""The day of the week on which night.test may be crawled."""
SETTINGS: dict[str, Any] = {
    "crawl": "questions",
    "seeds": ["http://dead.test/", "http://never.test/"],
    "frontier": {
        "commit_interval": HOUR,
        "error_penalty_amount": 50,
        "max_queue_size": 40,
        "politeness": {"min_delay": 0.0},
    },
    "overrides": [
        {"match": "domain:capped.test", "set": {"queue_total_budget": 2}},
        {"match": "domain:full.test", "set": {"queue_total_budget": 1, "precedence": 1}},
        {"match": "domain:slow.test", "set": {"precedence": 2, "politeness": {"min_delay": "1h", "max_delay": "1h"}}},
        {"match": "domain:starved.test", "set": {"precedence": 9}},
    ],
}


SECOND: dict[str, Any] = {
    "crawl": "second",
    "seeds": [{"url": "http://museum.test/", "label": "news"}, "http://night.test/"],
    "frontier": {"politeness": {"min_delay": 0.0}},
    "overrides": [{"match": "domain:night.test", "set": {"guards.windows": [f"{IN_TWO_DAYS} 02:00-05:00"]}}],
    "groups": [{"name": "museums", "match": "domain:museum.test", "total_budget": 1000, "quotas": {"urls": 500}}],
    "alerts": {"disk_below": 0, "disk_full_within": "3650d"},
}


def finish_some(frontier: Frontier, clock: ManualClock, count: int) -> None:
    """Lease so many URIs and end them as their hosts let them, one a minute."""
    outcomes = {"dead.test": Outcome.DEAD, "failed.test": Outcome.FAILURE}
    for _ in range(count):
        (lease,) = frontier.lease(1)
        frontier.finish(lease, outcomes.get(lease.queue, Outcome.SUCCESS), reason="poison")
        clock.advance(60)
        frontier.commit()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A crawl of yesterday and of the last hour, stopped.

    capped.test is over its budget, revived by an adjustment for another queue, and alice has changed another of its
    settings; full.test is retired for its budget, named.test by name, and bob has deleted its URI; slow.test has a URI
    out and rests for an hour between two; dead.test has a dead letter, failed.test a failure, and old.test was fetched
    yesterday; one URI was not valid, and five were beyond `max_queue_size`. starved.test, a calendar, has waited since
    yesterday, and never had a turn.
    """
    clock = ManualClock(time.time() - 25 * HOUR)
    settings = Settings.from_dict(SETTINGS)
    with Frontier.open(tmp_path / "job" / "frontier", settings, clock=clock, keep_leases=True) as f:
        f.schedule_many(f"http://old.test/{n}" for n in range(45))
        finish_some(f, clock, 40)
        f.schedule_many(f"http://starved.test/events/{year}/04" for year in range(2100, 2112))
        clock.set(time.time() - HOUR / 2)
        f.schedule("not a url")
        f.schedule_many(f"http://capped.test/{n}" for n in range(11))
        f.schedule(CrawlUri("http://dead.test/", directive=Directive.MEDIUM))
        f.schedule_many(["http://failed.test/", "http://named.test/"])
        f.schedule(CrawlUri("http://capped.test/robots.txt", hops="P", directive=Directive.HIGHEST, cost=0))
        f.adjust(match="queue:capped.test", error_penalty_amount=1, reason="too much of it", who="alice")
        f.retire("named.test", reason="not what we want", who="carol")
        finish_some(f, clock, 6)
        assert f.lease(0) == []
        f.adjust(match="queue:none.test", precedence=2, reason="revives all", who="bob")
        f.schedule_many(f"http://full.test/{n}" for n in range(9))
        finish_some(f, clock, 2)
        f.schedule_many(f"http://slow.test/{n}" for n in range(3))
        assert f.lease(1, ttl=7200.0)[0].queue == "slow.test"
        f.delete(queue="named.test", reason="the wrong one", who="bob")
        f.close(end=RunEnd.SIGNAL, reason="Ctrl-C")
    write_log(tmp_path / "job" / "logs")
    return tmp_path / "job"


@pytest.fixture
def second_job(tmp_path: Path) -> Path:
    """A stopped crawl of two runs in two hours of the clock, whose disk fills up, as an alert says.

    museum.test is in a group with a quota, and found from a seed with the label news; night.test waits for its crawl
    windows; the two URIs of far.test are out of the scope.
    """
    folder, hour = tmp_path / "second" / "job", time.time() // HOUR * HOUR
    settings = Settings.from_dict(SECOND)
    for run in (1, 2):
        clock = ManualClock(hour - (3 - run) * HOUR)
        with Frontier.open(folder / "frontier", settings, clock=clock) as f:
            f.schedule_many(CrawlUri(f"http://museum.test/{run}/{n}", source="news") for n in range(3 - run))
            finish_some(f, clock, 3 - run)
            f.schedule("http://night.test/")
            if run == 2:
                f.schedule_many(CrawlUri(f"http://far.test/{n}", hops="L", via="http://museum.test/") for n in range(2))
            clock.advance(HOUR / 4)
            f.close(end=RunEnd.LIMIT, reason="limits.max_uris")
    for _ in range(2):
        main(["alerts", str(folder), "--once"])
        state = msgspec.json.decode((folder / "alerts.json").read_bytes(), type=AlertState)
        for sample in state.samples:  # as it was an hour ago, with more room
            sample.time -= HOUR - 60
            sample.free = {disk: free + (1 << 40) for disk, free in sample.free.items()}
        (folder / "alerts.json").write_bytes(msgspec.json.encode(state))
    return folder


@pytest.fixture
def asked_of(request: pytest.FixtureRequest, question: str) -> Path:
    """The job that a question is about."""
    folder: Path = request.getfixturevalue("second_job" if question in IN_SECOND else "job")
    return folder


def write_log(folder: Path) -> None:
    """Write the crawl log that there would be of one failure."""
    folder.mkdir()
    line = "2026-11-20T22:00:00.000Z    -2          - http://failed.test/ L - - #001 - - - connection_refused\n"
    (folder / "crawl.log").write_text(line)


def test_every_question_has_an_answer_here_and_a_page_that_exists() -> None:
    assert ROWS.keys() == ANSWERS.keys()
    assert {page for _, page, _ in ROWS.values()} <= {page.title for page in PAGES} | {"Jobs"}


@pytest.fixture
def asked(asked_of: Path, request: pytest.FixtureRequest, question: str) -> tuple[Path, ...]:
    """The jobs that a question is about, for a console."""
    if question == OTHER:
        return asked_of, request.getfixturevalue("second_job")
    return (asked_of, request.getfixturevalue("job")) if ROWS[question][1] == "Jobs" else (asked_of,)


@pytest.mark.parametrize("question", ANSWERS)
def test_the_command_answers(asked: tuple[Path, ...], cli: Cli, question: str) -> None:
    about = ANSWERS[question].about
    names = dict.fromkeys(("KEY", "URL"), about) | {"JOB": str(asked[0]), "JOB2": str(asked[-1])}
    names["PATTERN"] = f"queue:{about}"
    names["AUDIT_ID"] = about if "deleted" in question else "1"
    answer = cli(*(names.get(word, word) for word in shlex.split(ROWS[question][0])))
    assert answer.code == 0, answer.err
    for text in ANSWERS[question].command:
        assert text in answer.out, answer.out


@pytest.mark.parametrize("question", ANSWERS)
def test_the_page_answers(asked: tuple[Path, ...], question: str) -> None:
    shown = visible(visit(asked, partial(page_of, question=question), token=TOKEN))
    for text in ANSWERS[question].page:
        assert text in shown, shown


def test_every_question_has_a_call() -> None:
    assert ROWS.keys() == OF_API.keys()


@pytest.mark.parametrize("question", OF_API)
def test_the_call_answers(asked: tuple[Path, ...], question: str) -> None:
    body = visit(asked, partial(called, question=question), token=TOKEN)
    for text in OF_API[question]:
        assert text in body, body


async def called(client: Client, console: Console, question: str) -> str:
    """The answer of the API to a question, after a pass over all queues."""
    call, about = ROWS[question][2], ANSWERS[question].about if question in ANSWERS else ""
    await console.jobs[0].scans.run()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    if call.startswith("POST "):
        path = call.removeprefix("POST ").replace("JOB", "job")
        body = body_for(call.rpartition("/")[2], about)
        request = client.post(f"{PREFIX}/jobs/{path}", headers=headers, json=body)
    else:
        path = (
            call.replace("JOB2", console.jobs[-1].slug)
            .replace("JOB", "job")
            .replace("KEY", about)
            .replace("URL", quote(about, safe=""))
        )
        path = path.replace("AUDIT_ID", about).removeprefix(f"{PREFIX}/jobs")
        request = client.get(f"{PREFIX}/jobs/{path}".rstrip("/"), headers=headers)
    async with request as answer:
        assert answer.status in (200, 202), await answer.text()
        text, place = await answer.text(), answer.headers.get("Location")
    while place is not None and '"ended":false' in text:
        async with client.get(place, headers=headers) as answer:
            text = await answer.text()
    return text


def body_for(command: str, about: str) -> dict[str, Any]:
    """The body of a dry run of a command, or of a simulation."""
    settings = {"match": f"queue:{about}", "set": {"queue_total_budget": 10}}
    bodies: dict[str, dict[str, Any]] = {
        "adjust": settings,
        "snooze": {"match": f"queue:{about}", "for": "2h"},
        "replay": {"ids": None, "why": "poison"},
        "forget": {"uris": [about]},
        "undo": {"id": int(about) if about.isdigit() else 1},
    }
    if command == "simulate":
        return {"set": {"queue_total_budget": 10}, "until": "12h"}
    return bodies[command] | {"reason": "more", "dry_run": True}


async def page_of(client: Client, console: Console, question: str) -> str:
    """The page beside a question, for one who has signed in, after a pass over all queues."""
    title, (_, _, about, query) = ROWS[question][1], ANSWERS[question]
    await console.jobs[0].scans.run()
    operator = Operator(client)
    await operator.sign_in()
    if title == "Jobs":
        return await operator.get("/")
    path = next(page.path for page in PAGES if page.title == title and "{" not in page.path)
    if "op" in (form := dict(parse_qsl(query[1:]))):
        assert f'value="{form["op"]}"' in await operator.get(path), f"the page {title} has a form for {form['op']}"
        return await operator.send(form)
    path, query = console.jobs[0].base + path, query.replace("JOB2", console.jobs[-1].slug)
    if title == "Queue":
        query = "?" + urlencode({"key": about})
    while "looks again by itself" in (text := await operator.get((path or "/") + query)):
        await asyncio.sleep(0.05)
    return text


def visible(page: str) -> str:
    """The text of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page.partition("<main")[2] or page)).split())
