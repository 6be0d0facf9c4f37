"""Commands that only look: report, queues, queue, explain, audit, verify."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import lmdb
import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import ROW_FIELDS, Summary
from budgetfrontier.reports.effect_text import as_told
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.rendering import utc
from tests.support import PATIENCE
from tests.tools.cli.conftest import Cli


def rows(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(text)
    return found


# -- report


def test_report_as_text(job: Path, cli: Cli) -> None:
    answer = cli("report", job)
    assert answer.code == 0
    assert "Job being crawled: resting" in answer.out
    assert "Stranded: 5 URIs in 2 retired queues" in answer.out
    assert answer.out.endswith(
        "RUN - 6 URI queues: 1 active (0 in-process; 0 ready; 1 snoozed); 0 inactive; 0 ineligible; "
        "2 retired; 3 exhausted\n"
    )


def test_report_tells_how_a_frontier_that_is_no_crawls_goes_on(tmp_path: Path, cli: Cli) -> None:
    for folder in ("jobdir/frontier", "queue", "job/frontier"):
        with Frontier.open(tmp_path / folder) as frontier:
            frontier.schedule("http://a.test/")
    (tmp_path / "jobdir" / "budgetfrontier.json").write_text(
        '{"spider": "news", "key": "", "command": ["crawl", "news"]}'
    )
    (tmp_path / "job" / "frontier" / "crawl").mkdir()
    jobdir, job = tmp_path / "jobdir", tmp_path / "job"
    for asked, start in (
        (jobdir, f"scrapy crawl news -s JOBDIR={jobdir}"),
        (tmp_path / "queue", "start the program that opened it again, as before"),
        (job, f"budgetfrontier crawl CONFIG --job {job}"),
        (job / "frontier", f"budgetfrontier crawl CONFIG --job {job}"),
    ):
        assert cli("report", asked).err == f"no process runs this crawl; to go on: {start}\n"
        assert start in cli("explain", asked, "http://a.test/").out


def test_report_tells_that_nobody_runs_the_crawl(stopped: Path, request: pytest.FixtureRequest, cli: Cli) -> None:
    for form in ("text", "json", "csv", "html"):
        note = cli("report", stopped, "--format", form).err
        assert note == f"no process runs this crawl; to go on: budgetfrontier crawl CONFIG --job {stopped}\n"
    cli("pause", stopped)
    assert cli("report", stopped).err == ""
    cli("resume", stopped)
    request.getfixturevalue("running")
    assert cli("report", stopped).err == ""


def test_report_as_json_has_the_fixed_fields(job: Path, cli: Cli) -> None:
    report = json.loads(cli("report", job, "--format", "json").out)
    assert list(report) == [
        *("format", "crawl", "generated", "state", "pause_reason"),
        *("process", "verdict", "removed_bytes", "bloom", "totals", "groups", "queues"),
    ]
    assert (report["format"], report["crawl"], report["state"]) == (1, "resting", "RUNNING")
    assert tuple(report["totals"]) == Summary.__struct_fields__
    assert report["totals"]["queued"] == 2 and report["totals"]["dead"] == 1 and report["totals"]["future"] == 1
    assert all(tuple(row) == ROW_FIELDS for row in report["queues"])
    assert {row["queue"]: row["state"] for row in report["queues"]} == {
        "snoozed.test": "SNOOZED",
        "capped.test": "RETIRED",
        "named.test": "RETIRED",
        "dead.test": "EXHAUSTED",
        "gone.test": "EXHAUSTED",
        "later.test": "EXHAUSTED",
    }


def test_report_as_csv_and_html(job: Path, cli: Cli) -> None:
    table = list(csv.DictReader(io.StringIO(cli("report", job, "--format", "csv").out)))
    assert len(table) == 6 and tuple(table[0]) == ROW_FIELDS
    page = cli("report", job, "--format", "html").out
    assert page.startswith("<!doctype html>") and "capped.test" in page


def test_report_limits_its_rows(stopped: Path, cli: Cli) -> None:
    assert "...and 1 more" in cli("report", stopped, "--limit", 1).out
    assert len(json.loads(cli("report", stopped, "--limit", 2, "--format", "json").out)["queues"]) == 2


# -- queues


def test_queues_lists_all_longest_first(job: Path, cli: Cli) -> None:
    header, *lines = cli("queues", job).out.splitlines()
    assert header.split()[:4] == ["queue", "state", "precedence", "queued"]
    assert lines[0].split()[:4] == ["capped.test", "RETIRED", "3", "3"]
    assert len(lines) == 6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--state", "retired"], {"capped.test", "named.test"}),
        (["--state", "RETIRED", "--state", "snoozed"], {"capped.test", "named.test", "snoozed.test"}),
        (["--match", "*a*.test"], {"capped.test", "named.test", "dead.test", "later.test"}),
        (["--match", "domain:test"], {"capped.test", "named.test", "snoozed.test", "dead.test", "gone.test"}),
        (["--match", "queue:gone.test"], {"gone.test"}),
        (["--match", "host:na*.test"], {"named.test"}),
        (["--match", "surt:(test,ca"], {"capped.test"}),
        (["--match", "regex:snoozed.test/2$"], {"snoozed.test"}),
        (["--match", "*", "--state", "READY"], set()),
    ],
)
def test_queues_are_chosen(job: Path, cli: Cli, options: list[str], expected: set[str]) -> None:
    answer = cli("queues", job, "--format", "json", *options)
    assert answer.code == 0
    assert {row["queue"] for row in rows(answer.out)} == expected


def test_queues_are_sorted_and_paged(stopped: Path, cli: Cli) -> None:
    def names(*options: object) -> list[str]:
        return [row["queue"] for row in rows(cli("queues", stopped, "--format", "json", *options).out)]

    by_name = ["capped.test", "dead.test", "gone.test", "later.test", "named.test", "snoozed.test"]
    assert names("--sort", "queue") == by_name
    assert names("--sort", "queue", "--reverse") == by_name[::-1]
    assert names("--sort", "queue", "--limit", 2) == by_name[:2]
    assert names("--sort", "queue", "--limit", 2, "--offset", 3) == by_name[3:5]
    assert names("--sort", "queue", "--offset", 4) == by_name[4:]
    assert names("--sort", "queued", "--limit", 1) == ["capped.test"]
    assert names("--sort", "queue", "--limit", 0) == by_name, "all"
    assert names("--sort", "queue", "--limit", 0, "--offset", 4) == by_name[4:]


def test_queues_as_csv(job: Path, cli: Cli) -> None:
    table = list(csv.DictReader(io.StringIO(cli("queues", job, "--format", "csv", "--match", "capped.test").out)))
    assert [(row["queue"], row["queued"], row["total_budget"]) for row in table] == [("capped.test", "3", "0")]


# -- queue


def test_queue_shows_one_queue_and_what_is_next_in_it(job: Path, cli: Cli) -> None:
    out = cli("queue", job, "capped.test", "--limit", 2).out
    assert "state:                    RETIRED\n" in out
    assert "http://capped.test/1\n" in out and "http://capped.test/2\n" in out
    assert "...and 1 more" in out
    shown = json.loads(cli("queue", job, "capped.test", "--format", "json").out)
    assert tuple(shown)[: len(ROW_FIELDS)] == ROW_FIELDS
    assert [item["url"] for item in shown["pending"]] == [f"http://capped.test/{n}" for n in (1, 2, 3)]
    assert [item["place"] for item in shown["pending"]] == [1, 2, 3]
    (line,) = csv.DictReader(io.StringIO(cli("queue", job, "capped.test", "--format", "csv").out))
    assert line["queue"] == "capped.test"


def test_queue_shows_the_interval_and_the_limit_of_its_own(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as frontier:
        frontier.schedule_many(f"http://{host}.test/" for host in "ab")
        frontier.set_queue("a.test", interval=5400, max_completed=3)
    own, plain = (" ".join(cli("queue", tmp_path, f"{host}.test").out.split()) for host in "ab")
    assert "interval: 1h30m max_completed: 3 completed: 0" in own
    assert "interval: of the settings max_completed: none completed: 0" in plain
    shown = json.loads(cli("queue", tmp_path, "a.test", "--format", "json").out)
    assert (shown["interval"], shown["max_completed"], shown["completed"]) == (5400.0, 3, 0)


@pytest.mark.parametrize("operation", ["set-queue", "set_queue"])
def test_the_audit_names_commands_as_they_are_given(tmp_path: Path, cli: Cli, operation: str) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as frontier:
        frontier.schedule("http://a.test/")
        frontier.retire("a.test")
    assert cli("set-queue", tmp_path, "--match", "*", "--interval", "1h").code == 0
    assert cli("audit", tmp_path, "--operation", operation).out.splitlines()[1].split()[:3:2] == ["2", "set-queue"]
    (entry,) = json.loads(cli("audit", tmp_path, "--operation", operation, "--format", "json").out)
    assert entry["command"] == "set_queue", "programs have the name of the operation"
    assert cli("removed", tmp_path).out.splitlines()[1].split()[1] == "set-queue"
    (kept,) = json.loads(cli("removed", tmp_path, "--format", "json").out)
    assert kept["command"] == "set_queue"


@pytest.mark.parametrize("command", ["queue", "explain", "retire", "unretire", "snooze", "wake"])
def test_a_queue_that_has_a_port_is_suggested(tmp_path: Path, cli: Cli, command: str) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(["http://a.test:8801/", "http://a.tester/"])
    options = ["--for", "1h"] if command == "snooze" else []
    answer = cli(command, job, "a.test", *options)
    assert "did you mean a.test:8801?" in answer.out + answer.err
    assert "did you mean a.test:8801?" in (answer := cli(command, job, "a.tset:8801", *options)).out + answer.err
    assert "did you mean" not in (answer := cli(command, job, "something.else", *options)).out + answer.err
    assert "JOB" not in answer.err
    if command != "explain":
        assert (answer.code, f"`budgetfrontier queues {job}` lists them" in answer.err) == (1, True)


def test_an_unknown_queue_is_an_error(job: Path, cli: Cli) -> None:
    answer = cli("queue", job, "nowhere.test")
    assert (answer.code, answer.out) == (1, "")
    assert "no queue 'nowhere.test'" in answer.err


# -- explain


def codes(job: Path, cli: Cli, target: str) -> tuple[str, list[str]]:
    """The verdict, and the codes of the reasons without what only a stopped job adds."""
    answer = json.loads(cli("explain", job, target, "--format", "json").out)
    found = [reason["code"] for reason in answer["reasons"]]
    if "not-running" in found:
        found.remove("not-running")
        answer["verdict"] = "later" if answer["verdict"] == "blocked" else answer["verdict"]
    return answer["verdict"], found


def test_explain_names_each_reason(job: Path, cli: Cli) -> None:
    assert codes(job, cli, "http://snoozed.test/2") == ("later", ["queued", "snoozed"])
    assert codes(job, cli, "snoozed.test") == ("later", ["snoozed"])
    assert codes(job, cli, "gone.test") == ("never", ["exhausted"])
    assert codes(job, cli, "http://later.test/") == ("later", ["future", "exhausted"])
    assert codes(job, cli, "http://gone.test/") == ("never", ["done"])
    assert codes(job, cli, "ftp://gone.test/") == ("never", ["invalid"])
    assert codes(job, cli, "no such thing") == ("never", ["invalid"])
    assert codes(job, cli, "http://capped.test/2")[1] == ["queued", "over-total-budget"]
    assert codes(job, cli, "named.test")[1] == ["retired-by-name"]
    assert codes(job, cli, "http://dead.test/")[1] == ["dead-letter"]
    assert codes(job, cli, "http://new.test/")[1] == ["never-scheduled"]


LOG = "2026-07-04T10:00:00.000Z   200        100 http://a1.test/ - - text/html #001 - - - -\n"


@pytest.mark.parametrize("duplicates", ["noop", "bloom"])
def test_explain_asks_the_log_where_the_frontier_does_not_know_what_was_seen(
    tmp_path: Path, cli: Cli, duplicates: str
) -> None:
    """With `noop`, with a Bloom filter that is missing, and after a repair: it may have been fetched all the same."""
    way = {"duplicates": duplicates, "bloom": {"expected": 16, "error": 1e-9}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": way})) as frontier:
        for number in range(3):
            frontier.schedule(f"http://a{number}.test/")
            frontier.finish(frontier.lease(1)[0], Outcome.SUCCESS)
            frontier.commit()
    told = {"noop": "with `duplicates: noop`", "bloom": "No such file or directory"}[duplicates]
    for bloom in (tmp_path / "frontier").glob("*.bloom"):
        bloom.unlink()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "crawl.log").write_text(LOG)
    assert codes(tmp_path, cli, "http://a1.test/") == ("never", ["fetched"])
    assert codes(tmp_path, cli, "http://a9.test/")[1] == ["seen-unknown"]
    assert told in cli("explain", tmp_path, "http://a9.test/").out
    if duplicates == "bloom":
        assert cli("verify", tmp_path, "--repair").code in (0, 1)
        assert codes(tmp_path, cli, "http://a1.test/") == ("blocked", ["fetched"])
        assert codes(tmp_path, cli, "http://a9.test/")[1] == ["never-scheduled"]


def test_explain_says_where_and_who_and_how(stopped: Path, cli: Cli) -> None:
    out = cli("explain", stopped, "http://capped.test/2").out
    assert "URIs before it: 1" in out
    assert "it has spent 1, more than its total budget of 0" in out
    assert f"$ budgetfrontier adjust {stopped} --match queue:capped.test --total-budget 3001" in out
    out = cli("explain", stopped, "named.test").out
    assert "(alice, " in out and ": not what we want)" in out
    assert f"$ budgetfrontier unretire {stopped} named.test" in out
    assert "When: after the commands above" in out


def test_explain_tells_of_the_limits_and_intervals_of_queues(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time())
    politeness = {"delay_factor": 0, "min_delay": 0, "max_delay": 0, "min_interval": 90}
    settings = {"frontier": {"keep_urls": True, "hold_queues": False, "politeness": politeness}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings), clock=clock) as frontier:
        frontier.schedule_many(f"http://{host}.test/{n}" for host in "abc" for n in range(4))
        frontier.set_queue("a.test", interval=0, max_completed=2)
        frontier.set_queue("b.test", interval=300)
        for _ in range(2):
            for lease in frontier.lease(4):
                frontier.finish(lease)
        frontier.commit()
        assert codes(tmp_path, cli, "a.test")[1] == ["ready", "over-budget"]
        assert frontier.lease(4) == []
    assert codes(tmp_path, cli, "a.test")[1] == ["completed"]
    out = cli("explain", tmp_path, "a.test").out
    assert "Queue a.test is RETIRED: its limit of 2 completed URLs is reached, with 2." in out
    helps = re.search(r"\$ budgetfrontier (set-queue .*)", out)
    assert helps is not None
    out = cli("explain", tmp_path, "b.test").out
    assert "Queue b.test is SNOOZED for" in out and "at most once in 5m, its interval" in out
    assert "at most once in 1m30s, its interval" in cli("explain", tmp_path, "c.test").out
    work = json.loads(cli("queues", tmp_path, "--state", "RETIRED", "--format", "json").out)
    assert [(row["queue"], row["raise_to"], row["floor"], row["ceiling"]) for row in work] == [("a.test", None, 0, 0)]
    over = json.loads(cli("queues", tmp_path, "--over-budget", "--format", "json").out)
    assert [row["queue"] for row in over] == ["a.test"]
    assert cli(*shlex.split(helps[1])).code == 0
    assert "completed" not in codes(tmp_path, cli, "a.test")[1]


def test_explain_finds_urls_that_are_kept_in_a_queue_other_than_their_hosts(tmp_path: Path, cli: Cli) -> None:
    url, later, done = (f"http://www.a.test/{name}" for name in ("waits", "later", "done"))
    settings = Settings.from_dict({"frontier": {"keep_urls": True}})
    with Frontier.open(tmp_path / "frontier", settings) as frontier:
        frontier.schedule_many(CrawlUri(each, queue="a.test") for each in (done, url))
        frontier.schedule(CrawlUri(later, queue="a.test", not_before=time.time() + 3600))
        frontier.lease(1)
        frontier.commit()
        leased = cli("explain", tmp_path, done).out
        assert "a worker has it" in leased and leased.endswith("When: now; again if its lease expires.\n")
        assert codes(tmp_path, cli, done) == ("leased", ["leased"])
        frontier.internals.fetched([(CrawlUri(done, queue="a.test"), None)])
    assert codes(tmp_path, cli, url)[1][0] == "queued"
    assert "It is queued in a.test. URIs before it: 0" in cli("explain", tmp_path, url).out
    assert codes(tmp_path, cli, later)[1][0] == "future"
    assert codes(tmp_path, cli, done) == ("never", ["done"])
    assert "It is completed, in queue a.test; it is known since 20" in cli("explain", tmp_path, done).out
    assert codes(tmp_path, cli, "http://www.a.test/other")[1] == ["never-scheduled"]


def test_explain_says_of_a_url_that_waits_where_is_not_known_that_it_waits(tmp_path: Path, cli: Cli) -> None:
    url = "http://a.test/twice"
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as frontier:
        frontier.schedule(url)
        frontier.schedule(CrawlUri(url, force=True, queue="other"))
        frontier.delete(queue="other")
    assert codes(tmp_path, cli, url) == ("later", ["waits-elsewhere"])
    assert "It waits, and where is not known: it was scheduled more than once" in cli("explain", tmp_path, url).out


@pytest.mark.parametrize("rule", ["exceeded", "reached"])
def test_explain_says_what_each_of_two_budgets_is_for(tmp_path: Path, cli: Cli, rule: str) -> None:
    settings = {"frontier": {"queue_total_budget": 0, "retire_when": rule}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule_many(CrawlUri(f"http://a.test/{n}", cost=1) for n in (1, 2, 3))
        while leases := frontier.lease(1):
            frontier.finish(leases[0])
        frontier.schedule("http://c.test/")  # else the crawl is over, and a.test stays RETIRED
        frontier.adjust(match="queue:b.test", precedence=2)  # which revives a.test
    last = cli("explain", tmp_path, "http://a.test/3", "--format", "json")
    by_code = {reason["code"]: reason for reason in json.loads(last.out)["reasons"]}
    ahead, session = by_code["budget-ahead"], by_code["over-budget"]
    assert ahead["text"].endswith("The command raises it so far that this URL is reached.")
    spent = 0 if rule == "reached" else 1
    assert session["text"].endswith(f"The command raises it to {3000 + spent:,}.")
    assert ahead["command"].endswith("--total-budget 3") and session["command"].endswith(f" {3000 + spent}")


@pytest.mark.parametrize("scope", ["queue", "uri"])
def test_explain_names_the_failure_that_a_queue_or_a_uri_waits_for(tmp_path: Path, cli: Cli, scope: str) -> None:
    retry = {"delay": 900, "max_retries": 4, "scope": scope}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"retry": retry}})) as frontier:
        frontier.schedule("http://a.test/1")
        frontier.finish(frontier.lease(1)[0], Outcome.RETRY, reason="host name not found (-1)")
    told = cli("explain", tmp_path, "http://a.test/1").out
    assert "host name not found (-1)" in told and "attempt 1 of 5; if all fail, it is given up in 1h" in told
    assert ("With `retry.scope: uri`, the other URIs of the queue would go on" in told) is (scope == "queue")
    verdict = json.loads(cli("report", tmp_path, "--format", "json").out)["queues"][0]
    assert verdict["errors"] == 1
    assert "failure:                  host name not found (-1)" in cli("queue", tmp_path, "a.test").out


def test_explain_says_which_attempt_an_overloaded_host_has_failed(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/1")
        frontier.finish(frontier.lease(1)[0], Outcome.RETRY, reason="status 503", status=503)
    told = cli("explain", tmp_path, "http://a.test/1").out
    assert "answered 429 or 503" in told and "http://a.test/1 failed" in told and "attempt 1 of 31" in told


@pytest.mark.parametrize("scope", ["queue", "uri"])
def test_explain_counts_the_attempts_of_a_page_that_was_answered_with_an_error(
    tmp_path: Path, cli: Cli, scope: str
) -> None:
    settings = {"frontier": {"retry": {"scope": scope}}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule("http://a.test/1")
        frontier.finish(frontier.lease(1)[0], Outcome.RETRY, reason="status 500", status=500)
    told = cli("explain", tmp_path, "http://a.test/1").out
    assert ("attempt 1 of 3;" in told) is (scope == "queue")
    assert ("or after attempt 3 if that gets an error page" in told) is (scope == "uri")


def test_explain_does_not_advise_the_scope_of_retries_where_the_whole_queue_waits(tmp_path: Path, cli: Cli) -> None:
    robots = CrawlUri("http://b.test/robots.txt", directive=Directive.HIGHEST, cost=0)
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/1", "http://b.test/1", robots])
        for lease in frontier.lease(2):
            status = 0 if lease.uri.url == robots.url else 503
            frontier.finish(lease, Outcome.RETRY, reason="why", status=status)
    for queue in ("a.test", "b.test"):
        told = cli("explain", tmp_path, queue).out
        assert "That was attempt 1 of 31" in told and "retry.scope" not in told


@pytest.mark.parametrize("outcome", [Outcome.SUCCESS, Outcome.FAILURE, Outcome.RETRY])
def test_a_queue_waits_for_a_retry_only_if_its_first_uri_is_tried_again(
    tmp_path: Path, cli: Cli, outcome: Outcome
) -> None:
    settings = {"frontier": {"politeness": {"min_delay": 900, "max_delay": 900}, "retry": {"delay": 900}}}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings)) as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        status = 0 if outcome is Outcome.RETRY else 404
        frontier.finish(frontier.lease(1)[0], outcome, reason="why", status=status)
        frontier.commit()
        verdict = frontier.verdict().text
    told = cli("explain", tmp_path, "a.test").out
    assert ("waits because an attempt failed" in verdict) is (outcome is Outcome.RETRY)
    assert (": politeness towards its host" in told) is (outcome is not Outcome.RETRY)


def test_explain_says_why_a_queue_waits(job: Path, cli: Cli) -> None:
    assert ": politeness towards its host" in cli("explain", job, "snoozed.test").out
    cli("snooze", job, "snoozed.test", "--for", "2h", "--reason", "their admin asked", "--who", "bob")
    for target in ("snoozed.test", "http://snoozed.test/2"):
        out = cli("explain", job, target).out
        assert ": an operator snoozed it (bob, 20" in out and "UTC: their admin asked)." in out
    cli("snooze", job, "snoozed.test", "--for", "1h", "--who", "carol")
    assert "snoozed it (bob, " in cli("explain", job, "snoozed.test").out, "the shorter block changed nothing"


def test_explain_tells_the_delay_that_a_worker_asked_for_from_an_operators(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        frontier.finish(frontier.lease(1)[0], delay=3600)
    assert "more: a worker asked for this delay." in cli("explain", tmp_path, "a.test").out


def test_explain_blames_no_operator_for_the_block_of_a_crawler(tmp_path: Path, cli: Cli) -> None:
    def told() -> str:
        return " ".join(cli("explain", tmp_path, "a.test").out.split())

    until = time.time() + 7200
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/1", "http://a.test/2"])
        frontier.internals.regulate("a.test", blocked_until=until)
    assert (
        "more: it is blocked, and the audit has no `snooze` for that: clients of a service set such blocks." in told()
    )
    cli("snooze", tmp_path, "a.test", "--for", "9h", "--who", "bob")
    assert "an operator snoozed it (bob" in told()
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.internals.regulate("a.test", blocked_until=until)
    assert "it is blocked, and" in told() and "bob" not in told()
    snooze, wake = cli("snooze", tmp_path, "a.test", "--for", "9h", "--who", "bob"), cli("wake", tmp_path, "a.test")
    assert (snooze.code, wake.code) == (0, 0)
    cli("undo", tmp_path, "3")
    assert "an operator snoozed it (bob" in told()


def test_explain_tells_a_running_job_from_a_stopped_one(
    stopped: Path, request: pytest.FixtureRequest, cli: Cli
) -> None:
    assert "Nothing runs this frontier" in cli("explain", stopped, "snoozed.test").out
    request.getfixturevalue("running")
    answer = cli("explain", stopped, "snoozed.test").out
    assert "Nothing runs" not in answer
    assert re.search("When: when its turn comes, in (59m|1h)", answer), answer


def test_explain_of_a_paused_and_of_a_terminated_crawl(job: Path, cli: Cli) -> None:
    cli("pause", job, "--reason", "night")
    answer = cli("explain", job, "snoozed.test").out
    assert "The crawl is paused by " in answer and "(night). Nothing is handed out." in answer
    assert f"$ budgetfrontier resume {job}" in answer
    cli("terminate", job)
    assert codes(job, cli, "snoozed.test") == ("never", ["snoozed", "terminated"])


def test_explain_sends_nobody_to_resume_what_the_same_crawl_command_resumes(tmp_path: Path, cli: Cli) -> None:
    job = tmp_path / "job"
    settings = {"frontier": {"pause_at_finish": True, "queue_total_budget": 0, "retire_when": "reached"}}
    program = "budgetfrontier crawl crawl.yaml"
    with Frontier.open(job / "frontier", Settings.from_dict(settings), program=program) as frontier:
        frontier.schedule("http://a.test/")
        assert not frontier.lease(1)
    out = cli("explain", job, "http://a.test/").out
    assert "The crawl is paused at its finish." in out and "resume" not in out
    commands = [line.split()[2] for line in out.splitlines() if line.startswith("     $ ")]
    assert commands == ["adjust", "crawl"]


def test_what_explain_advises_works(job: Path, cli: Cli) -> None:
    """Each command that it gives removes the reason that it is given for."""
    for target in ("capped.test", "named.test", "http://dead.test/"):
        reason = json.loads(cli("explain", job, target, "--format", "json").out)["reasons"][0]
        assert cli(*reason["command"].split()[1:]).code == 0
        assert reason["code"] not in codes(job, cli, target)[1]


# -- audit


def test_audit_lists_the_newest_last(job: Path, cli: Cli) -> None:
    cli("snooze", job, "gone.test", "--for", "2h", "--reason", "their admin asked", "--who", "bob")
    cli("wake", job, "gone.test", "--who", "carol")
    listed = rows(cli("audit", job, "--format", "json").out)
    assert [(e["command"], e["who"], e["reason"]) for e in listed] == [
        ("retire", "alice", "not what we want"),
        ("snooze", "bob", "their admin asked"),
        ("wake", "carol", ""),
    ]
    assert listed[0]["effect"]["after"]["state"] == "RETIRED"
    newest = rows(cli("audit", job, "--limit", 1, "--format", "json").out)
    assert [e["command"] for e in newest] == ["wake"]
    before = rows(cli("audit", job, "--limit", 1, "--offset", 1, "--format", "json").out)
    assert [e["command"] for e in before] == ["snooze"]
    header, first, *_ = cli("audit", job).out.splitlines()
    assert header.split()[:4] == ["id", "when", "command", "who"]
    assert "  Retired queue named.test: state INACTIVE -> RETIRED." in first and "{" not in first


# -- verify


def test_verify_finds_no_damage(job: Path, cli: Cli) -> None:
    answer = cli("verify", job)
    assert (answer.code, answer.err) == (0, "")
    assert "no damage found" in answer.out


def test_verify_finds_damage_and_writes_nothing(stopped: Path, cli: Cli) -> None:
    with lmdb.open(str(stopped / "frontier"), max_dbs=32, lib_version=0) as env:
        queues = env.open_db(b"queues", create=False)
        with env.begin(write=True) as txn:
            txn.delete(txn.cursor(queues).item()[0] or b"\0\0\0\1", db=queues)
    before = (stopped / "frontier" / "data.mdb").read_bytes()
    answer = cli("verify", stopped)
    assert (answer.code, answer.out) == (6, "")
    assert "does not exist" in answer.err or "differ" in answer.err
    assert (stopped / "frontier" / "data.mdb").read_bytes() == before


def test_verify_survives_records_that_cannot_be_read(stopped: Path, cli: Cli) -> None:
    with lmdb.open(str(stopped / "frontier"), max_dbs=32, lib_version=0) as env:
        queues = env.open_db(b"queues", create=False)
        with env.begin(write=True) as txn:
            txn.put(b"\0\0\0\1", b"\xc1 nothing that msgpack knows", db=queues)
    answer = cli("verify", stopped)
    assert answer.code == 6 and "Traceback" not in answer.err


def test_a_file_cut_short_is_damage(stopped: Path, cli: Cli) -> None:
    data = stopped / "frontier" / "data.mdb"
    data.write_bytes(data.read_bytes()[:10_000])
    for command in ("verify", "report"):
        assert cli(command, stopped).code == 6


# -- the reader of stdout


def test_a_reader_that_goes_away_is_no_traceback(stopped: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "budgetfrontier", "report", str(stopped)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE), errors) == (141, b"")


def test_ctrl_c_is_no_traceback(
    stopped: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("budgetfrontier.storage.reader.Reader.scan", interrupted)
    assert main(["report", str(stopped), "--format", "json"]) == 130
    assert capsys.readouterr().err == ""


# -- queues over budget, and listings by state


def test_an_adjustment_does_not_empty_the_list_of_queues_over_budget(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(OVER)) as frontier:
        frontier.schedule_many(f"http://{letter}.test/{n}" for letter in "abcde" for n in range(3))
        while leases := frontier.lease(1):
            frontier.finish(leases[0], Outcome.SUCCESS)
        frontier.retire("e.test")
        frontier.schedule("http://later.test/")
        frontier.adjust(match="queue:a.test", queue_total_budget=50)
    listed = cli("queues", tmp_path, "--over-budget", "--sort", "queue", "--format", "csv").out.splitlines()[1:]
    assert [line.split(",")[:2] for line in listed] == [[f"{letter}.test", "INACTIVE"] for letter in "bcd"]
    answer = cli("explain", tmp_path, "b.test")
    assert "It is over budget, and will retire again on its turn without a fetch" in answer.out
    assert "--total-budget" in answer.out
    assert "over budget" not in cli("explain", tmp_path, "a.test").out
    rows = json.loads(cli("explain", tmp_path, "b.test", "--format", "json").out)
    assert rows["verdict"] == "blocked" and "over-budget" in [reason["code"] for reason in rows["reasons"]]


OVER = {"frontier": {"queue_total_budget": 0, "politeness": {"min_delay": 0, "max_delay": 0}}}


@pytest.mark.parametrize("options", [("--over-budget",), ("--state", "RETIRED")])
def test_queues_over_budget_are_listed_with_what_another_session_would_cost(
    tmp_path: Path, cli: Cli, options: tuple[str, ...]
) -> None:
    frontier = {"queue_total_budget": 5, "balance_replenish_amount": 10} | OVER["frontier"]
    frontier["queue_total_budget"] = 5
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": frontier})) as f:
        f.schedule_many(f"http://{letter}.test/{n}" for letter, most in (("a", 40), ("b", 8)) for n in range(most))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.SUCCESS)
        f.adjust(match="queue:b.test", queue_total_budget=-1, balance_replenish_amount=0)
        assert f.lease(1) == []
    rows = json.loads(cli("queues", tmp_path, *options, "--sort", "queue", "--format", "json").out)
    told = [(row["queue"], row["raise_to"], row["floor"], row["ceiling"]) for row in rows]
    assert told == [("a.test", 11, 6, 6), ("b.test", None, 2, None)]
    text = cli("queues", tmp_path, *options, "--sort", "queue").out
    assert text.split("\n")[0].endswith("raise_to  floor  ceiling")
    with Frontier.open(tmp_path / "frontier") as f:
        f.adjust(match="queue:a.test", queue_total_budget=11)
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.SUCCESS)
        queue = f.queue("a.test")
        assert queue is not None and queue.expenditure == 6 + 6
    assert "raise_to" not in cli("queues", tmp_path).out


def test_queues_can_be_sorted_by_what_is_listed_on_request_only(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule_many(["http://a.test/", "http://b.test/", "http://c.test/"])
        for lease in f.lease(3):
            f.finish(lease, Outcome.SUCCESS, size={"a.test": 7, "b.test": 40_000, "c.test": 300}[lease.queue])
    lines = cli("queues", tmp_path, "--sort", "bytes").out.splitlines()
    assert lines[0].endswith("bytes") and [line.split()[0][0] for line in lines[1:4]] == ["b", "c", "a"]
    assert [line.split()[-1] for line in lines[1:4]] == ["40000", "300", "7"]
    assert "bytes" not in cli("queues", tmp_path).out and "bytes" in cli("queues", tmp_path, "--wide").out


# -- filters of the audit


def test_the_audit_tells_what_concerns_a_queue_and_who_did_it(stopped: Path, cli: Cli) -> None:
    for match in ("domain:capped.test", "regex:/1$", "queue:other*", "host:*.test"):
        cli("adjust", stopped, "--match", match, "--set", "precedence=2", "--who", "anna")
    cli("snooze", stopped, "capped.test", "--for", "1h", "--who", "bob")

    def listed(*options: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(cli("audit", stopped, "--format", "json", *options).out)
        return found

    assert [(row["id"], row["covers"]) for row in listed("--queue", "capped.test")] == [
        (2, "yes"), (3, "partly"), (5, "yes"), (6, "named"),
    ]  # fmt: skip
    assert [row["id"] for row in listed("--queue", "capped.test", "--limit", 1)] == [6]
    assert [row["id"] for row in listed("--queue", "capped.test", "--limit", 1, "--offset", 1)] == [5]
    assert [row["id"] for row in listed("--who", "bob")] == [6]
    assert [row["id"] for row in listed("--operation", "retire", "--operation", "snooze")] == [1, 6]
    assert len(listed("--since", "1h")) == 6 and listed("--until", "1h") == []
    assert listed("--since", "2999-01-01") == [] and len(listed("--until", "2999-01-01T00:00:00")) == 6
    assert cli("audit", stopped, "--since", "soon").code == 2


def test_a_queue_is_looked_at_all_over_and_by_the_patterns_of_its_paths(tmp_path: Path, cli: Cli) -> None:
    job = tmp_path / "job"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(f"http://trap.test/day/{n}?d={n}" for n in range(90))
        frontier.schedule_many(f"http://trap.test/about/{n}" for n in range(10))
    spread = json.loads(cli("queue", job, "trap.test", "--spread", "--limit", 10, "--format", "json").out)["pending"]
    assert [(row["place"] - 1) // 10 for row in spread] == list(range(10))
    assert spread[-1]["url"] == f"http://trap.test/about/{spread[-1]['place'] - 91}"
    patterns = json.loads(cli("queue", job, "trap.test", "--patterns", "--format", "json").out)
    assert [(row["uris"], row["share"], row["pattern"]) for row in patterns] == [
        (90, "90%", "/day/N?d"),
        (10, "10%", "/about/N"),
    ]
    assert cli("queue", job, "trap.test", "--patterns", "--limit", 1).out.count("/N") == 1
    assert cli("queue", job, "trap.test", "--patterns", "--spread").code == 2


def test_the_patterns_of_a_queue_with_nothing_in_it(stopped: Path, cli: Cli) -> None:
    answer = cli("queue", stopped, "gone.test", "--patterns")
    assert (answer.code, answer.out.splitlines()) == (0, ["uris  share  pattern  example"])
    assert "gone.test holds no URI, and so has no patterns" in answer.err
    assert "http" not in cli("queue", stopped, "gone.test", "--spread").out.partition("\n\n")[2]


def test_queues_that_wait_longest_for_a_turn_come_first(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 1000)
    settings = {"overrides": [{"match": "domain:last.test", "set": {"precedence": 9}}]}
    with Frontier.open(tmp_path / "frontier", Settings.from_dict(settings), clock=clock) as frontier:
        for host in ("b", "last", "a"):
            frontier.schedule_many(f"http://{host}.test/{n}" for n in range(2))
            if host != "last":
                frontier.finish(frontier.lease(1)[0], Outcome.SUCCESS, delay=5000)
                clock.advance(100)
        last = frontier.queue("a.test")
        assert last is not None and last.last_lease_time == int(clock.time()) - 100
    table = cli("queues", tmp_path, "--sort", "last_lease_time").out.splitlines()
    assert [line.split()[0] for line in table[1:]] == ["last.test", "b.test", "a.test"]
    assert [line.split()[-1][:2] for line in table[1:]] == ["-", "16", "15"]
    assert "lastDequeueTime" in cli("report", tmp_path).out


def test_a_queue_that_is_due_is_not_said_to_be_snoozed_for_no_time(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 3600)
    with Frontier.open(tmp_path / "frontier", clock=clock) as f:
        f.schedule_many(
            ["http://a.test/0", "http://a.test/1", CrawlUri("http://b.test/", not_before=clock.time() + 60)]
        )
        f.finish(f.lease(1)[0], fetch_seconds=1.0)
        assert f.lease(1) == []
    assert json.loads(cli("explain", tmp_path, "a.test", "--format", "json").out)["when"] is None
    said = cli("explain", tmp_path, "a.test").out
    assert "Queue a.test is SNOOZED and due: it joins the READY queues at the next lease." in said
    assert "comes to queue b.test with the next lease: it is due" in cli("explain", tmp_path, "http://b.test/").out


@pytest.mark.parametrize("until", [253402300800.0, 2.0**64])
def test_a_queue_that_is_blocked_until_a_time_without_a_date(tmp_path: Path, cli: Cli, until: float) -> None:
    """Crawlers block queues until any time, of the year 10000 on, too."""
    job = tmp_path / "job"
    with Frontier.open(job / "frontier") as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        frontier.internals.regulate("a.test", blocked_until=until)
    assert "after the year 9999" in cli("queue", job, "a.test").out
    assert cli("snooze", job, "b.test", "--until", until).out.endswith(", until after the year 9999\n")
    others = [("explain", "a.test"), ("queues",), ("audit",), ("undo", "1", "--dry-run"), ("report",)]
    assert [cli(name, job, *rest).code for name, *rest in others] == [0] * len(others)
    assert as_told("block", until) == utc(until) == "after the year 9999"
