"""What `explain` tells of a URL that is not pending any more: from crawl.log and pages.jsonl, by their index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.core.vocabulary import NO_ROBOTS
from budgetfrontier.crawler.fetch.response import BLOCKED, FetchResult, cause_of
from budgetfrontier.reports.explain import explain
from budgetfrontier.settings import Settings
from budgetfrontier.tools.cli import main
from tests.crawler.site import Page, Site, linking, redirect, run, text

SEEDS = ("http://a.test/", "http://moved.test/", "http://secret.test/private", "http://dead.invalid/")


@pytest.fixture
def crawled(tmp_path: Path) -> Path:
    """A crawl that has ended."""
    pages: dict[str, Page] = {
        "a.test/": linking("/1", "/away", "http://other.test/"),
        "a.test/1": text("plain"),
        "moved.test/": redirect('/new?say="yes\\no"'),
        "a.test/away": redirect("http://elsewhere.test/"),
        "secret.test/robots.txt": text("User-agent: *\nDisallow: /private\n"),
    }
    with Site(pages) as site:
        assert run(site.settings(*SEEDS), tmp_path / "job")[0] == 0
    return tmp_path / "job"


def explained(capsys: pytest.CaptureFixture[str], job: Path, url: str, *options: str) -> tuple[str, str, Any]:
    """The code and the text of the last reason, and the past."""
    capsys.readouterr()
    assert main(["explain", str(job), url, "--format", "json", *options]) == 0
    answer = json.loads(capsys.readouterr().out)
    return answer["reasons"][-1]["code"], answer["reasons"][-1]["text"], answer["past"]


def test_what_became_of_a_url(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, past = explained(capsys, crawled, "http://a.test/1")
    assert (code, past["total"], past["page"]["outcome"]) == ("fetched", 1, "SUCCESS")
    assert "200 OK, text/plain, 5 bytes. Found on http://a.test/." in told
    code, told, past = explained(capsys, crawled, "http://moved.test/")
    assert code == "fetched" and "301 Moved Permanently to /new?say=" in told
    (target,) = (line for line in (crawled / "logs/crawl.log").read_text().split() if "/new?" in line)
    code, told, _ = explained(capsys, crawled, target)
    assert code == "fetched" and "404 Not Found" in told
    code, told, _ = explained(capsys, crawled, "http://secret.test/private")
    assert code == "robots" and "robots.txt forbids it" in told and "It would be again" in told
    code, _, past = explained(capsys, crawled, "http://dead.invalid/")
    assert (code, past) == ("dead-letter", None)


def test_what_a_redirect_leads_to_out_of_the_scope(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told, _ = explained(capsys, crawled, "http://a.test/away")
    assert code == "redirect-out-of-scope"
    assert told == "What it redirects to is not crawled: http://elsewhere.test/ is out of scope: not accepted."
    assert explained(capsys, crawled, "http://moved.test/")[0] == "fetched"


def test_what_the_log_does_not_have(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Frontier.open(crawled / "frontier") as frontier:
        frontier.mark_seen(["http://imported.test/"])
        frontier.drop_dead_letters()
    code, told, past = explained(capsys, crawled, "http://imported.test/")
    assert (code, past["attempts"]) == ("done", []) and "does not name it" in told and "which begins at 20" in told
    code, told, past = explained(capsys, crawled, "http://dead.invalid/")
    assert code == "gave-up" and "`audit` lists both" in told and past["attempts"][-1]["status"] == -61
    log = crawled / "logs" / "crawl.log"
    log.rename(crawled / "moved.log")
    code, told, past = explained(capsys, crawled, "http://a.test/1")
    assert (code, past) == ("done", None) and "unknown: there is no crawl.log here; " in told and "--log" in told
    assert explained(capsys, crawled, "http://a.test/1", "--log", str(crawled / "moved.log"))[0] == "fetched"
    assert main(["explain", str(crawled), "http://a.test/1", "--log", str(crawled / "nothing.log")]) == 1
    with Reader(crawled / "frontier") as reader:
        (told,) = explain(reader, "http://a.test/1", job="job").text().splitlines()[1:2]
    assert "unknown" not in told and "as `explain` tells from the log" in told, "nobody has searched"


def test_attempts_are_counted_and_the_last_one_is_told(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = crawled / "logs" / "crawl.log"
    (line,) = (line for line in log.read_text().splitlines() if " http://a.test/1 " in line)
    assert explained(capsys, crawled, "http://a.test/1")[2]["total"] == 1
    with log.open("a") as file:
        file.write(line.replace(" 200 ", "  -5 ") + "\n")
    code, told, past = explained(capsys, crawled, "http://a.test/1")
    assert (code, past["total"]) == ("failed", 2) and "Attempts in the log: 2." in told


@pytest.mark.parametrize(
    ("status", "notes", "code", "told"),
    [
        (500, "3t", "failed", "it was answered 500 Internal Server Error, attempt 3 of 3, the last. It was given up."),
        (502, "3t,lenTrunc", "failed", "it was answered 502 Bad Gateway; lenTrunc, attempt 3 of 3, the last."),
        (501, "-", "failed", "it was answered 501 Not Implemented. It was given up."),
        (503, "2t", "gave-up", "503 Service Unavailable. It is not pending in its queue any more"),
        (500, "2t", "gave-up", "500 Internal Server Error. It is not pending in its queue any more"),
        (404, "-", "fetched", "404 Not Found"),
        (-5001, "a.test_is_at_::1,_which_is_a_private_address", "failed", "its host has a private address (-5001). It"),
        (
            -5001,
            "a.test:25_is_a_port_that_browsers_refuse_to_open,_and_no_seed_names_it",
            "failed",
            "browsers refuse to open its port (-5001). It would be again, unless a seed in the YAML names its host",
        ),
        (
            -61,
            "robots.txt_unreachable:_private_address_or_blocked_port_(-5001)",
            "gave-up",
            "It would be again, unless `fetch.allow_private` is true",
        ),
        (-5, "TLS:_no_agreement", "failed", "no valid response (-5); TLS: no agreement"),
    ],
)
def test_an_error_that_failed_for_good_was_not_fetched(
    crawled: Path, capsys: pytest.CaptureFixture[str], status: int, notes: str, code: str, told: str
) -> None:
    log = crawled / "logs" / "crawl.log"
    (line,) = (line for line in log.read_text().splitlines() if " http://a.test/1 " in line)
    with log.open("a") as file:
        file.write(line.replace(" 200 ", f" {status} ").rsplit(" ", 1)[0] + f" {notes}\n")
    settings = Settings.from_dict({"crawl": "test"})
    Frontier.open(crawled / "frontier", settings).close()
    found, text, _ = explained(capsys, crawled, "http://a.test/1")
    assert found == code and told in text
    assert (found == "fetched") is ("It was fetched" in text)


@pytest.mark.parametrize("scope", ["queue", "uri"])
def test_a_page_that_waits_for_a_failing_robots_txt_names_the_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], scope: str
) -> None:
    job, frontier = tmp_path / "job", {"retry": {"scope": scope, "delay": 900.0, "max_retries": 4}}
    with Site({"a.test/robots.txt": text("", status=500)}) as site:
        run(site.settings("http://a.test/", frontier=frontier, limits={"max_time": 0.3}), job)
    assert main(["explain", str(job), "http://a.test/", "--format", "json"]) == 0
    (waits,) = (one["text"] for one in json.loads(capsys.readouterr().out)["reasons"] if one["code"] == "snoozed")
    assert "http://a.test/robots.txt" in waits and "status 500. That was attempt 1 of 5" in waits


def test_a_page_names_what_its_robots_txt_was_given_up_for_and_both_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, frontier = tmp_path / "job", {"retry": {"max_retries": 0}}
    with Site({"a.test/robots.txt": text("", status=500)}) as site:
        run(site.settings("http://a.test/", frontier=frontier), job)
    assert main(["explain", str(job), "http://a.test/", "--format", "json"]) == 0
    (dead,) = (one for one in json.loads(capsys.readouterr().out)["reasons"] if one["code"] == "dead-letter")
    assert "It is a dead letter: robots.txt unreachable: status 500 (" in dead["text"]
    with Reader(job / "frontier") as reader:
        ids = {letter.uri.url: letter.id for letter in reader.dead_letters()}
    both = f"{ids['http://a.test/robots.txt']} {ids['http://a.test/']}"
    assert dead["command"] == f"budgetfrontier dead-letters {job} --replay {both}"


@pytest.mark.parametrize("allowed", [False, True])
def test_a_replay_is_suggested_only_if_the_private_address_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], allowed: bool
) -> None:
    settings = Settings.from_dict({"crawl": "test", "fetch": {"allow_private": allowed}})
    with Frontier.open(tmp_path / "job" / "frontier", settings) as frontier:
        frontier.schedule("http://a.test/")
        reason = f"{NO_ROBOTS}: {cause_of(FetchResult(status=BLOCKED))}"
        frontier.finish(frontier.lease(1)[0], Outcome.DEAD, reason=reason)
    assert main(["explain", str(tmp_path / "job"), "http://a.test/", "--format", "json"]) == 0
    (dead,) = (one for one in json.loads(capsys.readouterr().out)["reasons"] if one["code"] == "dead-letter")
    assert ("--replay" in (dead["command"] or "")) is allowed
    assert ("would end in the same way, unless `fetch.allow_private` is true" in dead["text"]) is not allowed


def test_a_page_whose_line_was_cut_is_left_out(crawled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (crawled / "logs/pages.jsonl").open("ab") as file:
        file.write(b'{"url":"http://a.test/1","title":"cu\n{"url":"http://a.test/1"\n[1]"url":"http://a.test/1"\n')
    code, _, past = explained(capsys, crawled, "http://a.test/1")
    assert code == "fetched" and past["page"]["outcome"] == "SUCCESS"
