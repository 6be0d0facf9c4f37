"""Whole crawls over a real loopback server."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from budgetfrontier import CrawlState, CrawlUri, Frontier, QueueState, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.crawler import links
from budgetfrontier.crawler.crawl_limits import CrawlLimits
from budgetfrontier.crawler.fetch.response import FetchResult
from budgetfrontier.crawler.main_loop import SHORTEST_SLEEP
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.robots import Robots
from budgetfrontier.engine import disk_guard
from budgetfrontier.engine.internals import Internals
from budgetfrontier.engine.remote import steer
from budgetfrontier.reports.explain import explain
from tests.crawler.site import Page, Site, linking, redirect, reopened, run, text
from tests.support import until

HOME = "http://a.test/"
SMALL = {
    "a.test/": linking("/1", "/2", "/none", "http://b.test/"),
    "a.test/1": linking("/2#x"),
    "a.test/2": linking("/"),
}


def test_a_site_is_crawled_once_and_charged_once(tmp_path: Path) -> None:
    with Site(SMALL) as site:
        code, said = run(site.settings(HOME), tmp_path)
    assert code == 0
    assert site.hits == {"a.test/robots.txt": 1, "a.test/": 1, "a.test/1": 1, "a.test/2": 1, "a.test/none": 1}
    with reopened(tmp_path) as frontier:
        summary, queue = frontier.summary(), frontier.queue("a.test")
        assert frontier.state is CrawlState.FINISHED
        assert (summary.succeeded, summary.expenditure, summary.in_process) == (5, 4, 0)
        assert queue is not None and queue.state is QueueState.EXHAUSTED and queue.expenditure == 4
    assert "crawl finished" in said and "\x1b" not in said
    log = [line.split() for line in (tmp_path / "logs/crawl.log").read_text().splitlines()]
    assert sorted((row[1], row[3], row[4]) for row in log) == [
        ("200", "http://a.test/", "-"),
        ("200", "http://a.test/1", "L"),
        ("200", "http://a.test/2", "L"),
        ("404", "http://a.test/none", "L"),
        ("404", "http://a.test/robots.txt", "P"),
    ]
    pages = [json.loads(line) for line in (tmp_path / "logs/pages.jsonl").read_text().splitlines()]
    assert {page["url"]: page["via"] for page in pages}["http://a.test/2"] in ("http://a.test/", "http://a.test/1")
    assert "Frontier report" in (tmp_path / "reports/frontier.txt").read_text()
    assert json.loads((tmp_path / "reports/frontier.json").read_text())["totals"]["succeeded"] == 5


def test_robots_txt_is_obeyed_free_and_its_delay_kept(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/robots.txt": text("User-agent: *\nDisallow: /no\nCrawl-delay: 0.3"),
        "a.test/": linking("/no", "/yes"),
    }
    with Site(pages) as site:
        run(site.settings(HOME), tmp_path)
    assert site.hits == {"a.test/robots.txt": 1, "a.test/": 1, "a.test/yes": 1}
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.disregarded, summary.expenditure, summary.succeeded) == (1, 2, 3)
    asked = site.times["a.test"]
    assert all(later - earlier >= 0.3 for earlier, later in pairwise(asked))
    assert "-9998" in (tmp_path / "logs/crawl.log").read_text()


def test_robots_txt_can_be_ignored(tmp_path: Path) -> None:
    with Site({"a.test/robots.txt": text("User-agent: *\nDisallow: /"), "a.test/": linking()}) as site:
        run(site.settings(HOME, fetch={"robots": "ignore"}), tmp_path)
    assert site.hits == {"a.test/": 1}


@pytest.mark.parametrize(
    ("fetch", "asked"),
    [
        ({"user_agent": "Mozilla/5.0 (X11) Safari/605.1 (ExampleBot/0.1; +https://example.org/bot)"}, set()),
        ({"user_agent": "Mozilla/5.0 (+https://example.org/bot)", "robots_name": "ExampleBot"}, set()),
        ({"user_agent": "Mozilla/5.0 (+https://example.org/bot)"}, {"a.test/", "a.test/1"}),
    ],
)
def test_the_name_of_the_crawler_in_its_user_agent_is_what_robots_txt_is_searched_for(
    tmp_path: Path, fetch: dict[str, str], asked: set[str]
) -> None:
    rules = text("User-agent: ExampleBot\nDisallow: /")
    with Site({"a.test/robots.txt": rules, "a.test/": linking("/1"), "a.test/1": linking()}) as site:
        run(site.settings(HOME, fetch=fetch | {"robots": True}), tmp_path)
    assert set(site.hits) == {"a.test/robots.txt"} | asked


@pytest.mark.parametrize("scope", ["queue", "uri"])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_without_a_robots_txt_that_answers_nothing_is_fetched(tmp_path: Path, scope: str, concurrency: int) -> None:
    frontier = {
        "retry": {"max_retries": 1, "delay": 0.1, "scope": scope},
        "politeness": {"min_delay": 0.0, "delay_factor": 0.0, "per_queue_concurrency": concurrency},
    }
    with Site({"a.test/robots.txt": text("", status=500), "a.test/": linking("/1")}) as site:
        run(site.settings(HOME, "http://a.test/2", "http://a.test/3", frontier=frontier), tmp_path)
    assert set(site.hits) == {"a.test/robots.txt"}
    with reopened(tmp_path) as opened:
        assert opened.state is CrawlState.FINISHED
        assert [letter.uri.url for letter in opened.dead_letters()][:1] == ["http://a.test/robots.txt"]


@pytest.mark.parametrize("concurrency", [1, 3])
def test_pages_that_an_unreachable_robots_txt_kept_out_come_back_with_a_replay(
    tmp_path: Path, concurrency: int
) -> None:
    frontier = {"politeness": {"min_delay": 0.0, "delay_factor": 0.0, "per_queue_concurrency": concurrency}}
    pages = {"a.test/1": "one", "a.test/2": "two"}
    seeds = [f"http://{place}" for place in pages]
    with Site(pages) as site:
        with socket.socket() as deaf:
            deaf.bind(("127.0.0.1", 0))
            down = {"*.test": f"127.0.0.1:{deaf.getsockname()[1]}"}
            run(site.settings(*seeds, frontier=frontier, fetch={"resolve": down}), tmp_path)
        assert not site.hits
        with reopened(tmp_path) as opened:
            reasons = {letter.uri.url: letter.reason for letter in opened.dead_letters()}
            assert opened.summary().failed == 0
        given_up = {"robots.txt unreachable: no connection (-2)"}
        late = {*given_up, "robots.txt did not answer yet"}  # retried until it was a retry too many
        assert {reasons[url] for url in seeds} <= (late if concurrency > 1 else given_up)
        assert (tmp_path / "logs/crawl.log").read_text().count("  -61 ") >= 2
        steer(tmp_path / "frontier", "replay", {"ids": None})
        run(site.settings(*seeds, frontier=frontier), tmp_path)
    assert site.hits == {"a.test/robots.txt": 1, "a.test/1": 1, "a.test/2": 1}
    with reopened(tmp_path) as opened:
        assert (opened.state, opened.summary().dead) == (CrawlState.FINISHED, 0)


def test_a_crawl_that_ends_waits_for_no_robots_txt_that_it_does_not_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if another page had asked for it, and somebody had deleted it from its queue.
    monkeypatch.setattr(Robots, "is_needed", lambda robots, url: robots.expect(url))
    with Site(SMALL) as site:
        settings = site.settings(HOME, fetch={"timeout": 20}, limits={"max_time": 0.2})
        code, _ = run(settings, tmp_path)
    assert code == 0 and not site.hits
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.queued, summary.retried, summary.expenditure) == (1, 0, 0)


@pytest.mark.parametrize("limit", ["max_queue_size", "max_queued"])
def test_a_full_queue_has_room_for_its_robots_txt(tmp_path: Path, limit: str) -> None:
    answers = iter([web.Response(status=500), web.Response(text="User-agent: *\nDisallow: /2")])
    frontier = {limit: 2, "retry": {"max_retries": 3, "delay": 0.0}}
    with Site({"a.test/robots.txt": lambda: next(answers)}) as site:
        run(site.settings("http://a.test/1", "http://a.test/2", frontier=frontier), tmp_path)
    assert site.hits == {"a.test/robots.txt": 2, "a.test/1": 1}
    lines = [line.split() for line in (tmp_path / "logs/crawl.log").read_text().splitlines()]
    assert [line[3] for line in lines if line[4] == "P"] == ["http://a.test/robots.txt"] * 2


def test_robots_redirects_are_followed(tmp_path: Path) -> None:
    pages = {"a.test/robots.txt": redirect("http://b.test/rules"), "b.test/rules": text("User-agent: *\nDisallow: /")}
    with Site(pages) as site:
        run(site.settings(HOME), tmp_path)
    assert site.hits == {"a.test/robots.txt": 1, "b.test/rules": 1}


def test_a_redirect_is_a_uri_of_its_own_and_paid_by_its_own_queue(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/": redirect("//b.test/x#y"),
        "b.test/x": linking("/z"),
        "b.test/z": redirect("/z"),
    }
    with Site(pages) as site:
        run(site.settings(HOME), tmp_path)
    assert (site.hits["b.test/x"], site.hits["b.test/z"]) == (
        1,
        1,
    )  # a seed's new place is in scope, what it links to too
    with reopened(tmp_path) as frontier:
        spent = {row.queue: row.expenditure for row in frontier.report().queues}
    assert spent == {"a.test": 1, "b.test": 2}
    rows = [line.split() for line in (tmp_path / "logs/crawl.log").read_text().splitlines()]
    assert {(row[3], row[4], row[5]) for row in rows} >= {("http://b.test/x", "R", "http://a.test/")}


def test_redirects_that_lead_nowhere_end(tmp_path: Path) -> None:
    pages = {
        "a.test/": redirect("http://www.a.test/"),
        "www.a.test/": redirect("http://a.test/"),
        "b.test/1": redirect("/2"),
        "b.test/2": redirect("http://b.test/1"),
        "c.test/": redirect("javascript:0"),
    }
    with Site(pages) as site:
        code, _ = run(site.settings(HOME, "http://b.test/1", "http://c.test/"), tmp_path)
    assert code == 0
    assert max(site.hits.values()) <= 2
    with reopened(tmp_path) as frontier:
        assert frontier.state is CrawlState.FINISHED


def test_a_redirect_to_www_finds_the_page(tmp_path: Path) -> None:
    with Site({"a.test/": redirect("http://www.a.test/"), "www.a.test/": linking("/1"), "www.a.test/1": "x"}) as site:
        run(site.settings(HOME), tmp_path)
    assert (site.hits["www.a.test/"], site.hits["www.a.test/1"]) == (1, 1)


@pytest.mark.parametrize(
    "chain",
    [
        ("a.test/", "www.a.test/"),
        ("a.test/", "b.test/login", "www.a.test/"),
        ("a.test/1", "a.test/1?utm_source=x", "www.a.test/1"),
        ("a.test/?b=1&a=2", "a.test/?a=2&b=1", "www.a.test/?a=2&b=1", "www2.a.test/?a=2&b=1"),
    ],
)
def test_a_page_is_found_through_every_form_of_its_url_that_redirects_lead_over(
    tmp_path: Path, chain: tuple[str, ...]
) -> None:
    hits: list[str] = []

    def page(at: int) -> Page:
        def answer() -> web.Response:
            hits.append(chain[at])
            if at + 1 == len(chain):
                return web.Response(text='<a href="/found">', content_type="text/html")
            return web.Response(status=302, headers={"Location": f"http://{chain[at + 1]}"})

        return answer

    pages: dict[str, Page] = {url: page(at) for at, url in enumerate(chain)}
    found = f"{chain[-1].partition('/')[0]}/found"
    with Site(pages | {found: "x"}) as site:
        run(site.settings(f"http://{chain[0]}", scope={"accept": ["all"]}), tmp_path)
    assert hits == list(chain) and site.hits[found] == 1


def test_a_loop_over_ever_new_forms_of_one_url_ends(tmp_path: Path) -> None:
    asked = count(1)

    def again() -> web.Response:
        return web.Response(status=302, headers={"Location": f"http://a.test/?utm_source={next(asked)}"})

    with Site({"a.test/": again} | {f"a.test/?utm_source={n}": again for n in range(1, 30)}) as site:
        code, _ = run(site.settings(HOME), tmp_path)
    assert code == 0 and 5 <= next(asked) - 1 <= 12


def test_hosts_that_do_not_answer_are_retried_then_dead(tmp_path: Path) -> None:
    with Site({HOME.removeprefix("http://"): "x"}) as site, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        resolve = {"down.test": f"127.0.0.1:{deaf.getsockname()[1]}", "*.test": site.address}
        settings = site.settings(HOME, "http://down.test/1", fetch={"resolve": resolve, "robots": "ignore"})
        run(settings, tmp_path)
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.succeeded, summary.retried, summary.dead) == (1, 1, 1)
        (letter,) = frontier.dead_letters()
        assert letter.uri.url == "http://down.test/1" and letter.reason == "no connection (-2)"
        down = frontier.queue("down.test")
        assert down is not None and down.expenditure == 2


def test_a_busy_host_is_asked_again_when_it_said(tmp_path: Path) -> None:
    answers = iter([web.Response(status=503, headers={"Retry-After": "1"}), web.Response(text="ok")])
    with Site({"a.test/": lambda: next(answers)}) as site:
        run(site.settings(HOME, fetch={"robots": "ignore"}, frontier={"retry": {"delay": 60.0}}), tmp_path)
    first, second = site.times["a.test"]
    assert second - first >= 1.0


def test_politeness_holds_between_requests_and_across_restarts(tmp_path: Path) -> None:
    polite = {"politeness": {"delay_factor": 0.0, "min_delay": 0.2, "max_delay": 1.0}}
    with Site({"a.test/": linking(*"123456")}) as site:
        for limit in (2, 5, 0):
            run(site.settings(HOME, frontier=polite, limits={"max_uris": limit}), tmp_path)
    asked = site.times["a.test"]
    assert len(asked) == 7 + 1  # the robots.txt counts for a day, across runs
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(asked))


def test_limits_stop_a_crawl_and_the_same_command_goes_on(tmp_path: Path) -> None:
    with Site({"a.test/": linking(*map(str, range(50)))}) as site:
        code, said = run(site.settings(HOME, fetch={"robots": "ignore"}, limits={"max_uris": 20}), tmp_path)
        assert (code, sum(site.hits.values())) == (0, 20)
        assert "limits.max_uris is reached; raise limits.max_uris (now 20) and run the same command" in said
        _, said = run(site.settings(HOME, fetch={"robots": "ignore"}, limits={"max_uris": 20}), tmp_path)
        assert "raise limits.max_uris (now 20)" in said
        assert sum(site.hits.values()) == 20
        run(site.settings(HOME, fetch={"robots": "ignore"}), tmp_path)
    assert len(site.hits) == 51 and set(site.hits.values()) == {1}


def test_a_crawl_waits_while_the_disk_of_its_outputs_is_nearly_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def usage(folder: Path) -> SimpleNamespace:
        asked.append(folder.name)
        return SimpleNamespace(free=1 if folder.name == "logs" and asked.count("logs") <= 20 else 5000)

    monkeypatch.setattr("shutil.disk_usage", usage)
    monkeypatch.setattr(disk_guard, "LOOK_EVERY", 0.0)
    with Site({"a.test/": linking("1", "2")}) as site:
        frontier = {"commit_interval": 0, "guards": {"min_free": 1000}}
        code, said = run(site.settings(HOME, frontier=frontier), tmp_path)
    assert (code, len(site.hits), "crawl finished" in said) == (0, 4, True)
    with Reader(tmp_path / "frontier") as reader:
        assert [(entry.command, entry.who) for entry in reader.audit()] == [("pause", "guard"), ("resume", "guard")]


def test_a_new_crawl_looks_at_the_disks_before_its_first_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[tuple[CrawlState, int]] = []
    with Site({"a.test/": linking("1")}) as site:

        def look(internals: Internals) -> None:
            looks.append((internals._kernel.counters.state, len(site.hits)))

        monkeypatch.setattr(Internals, "look_at_disks", look)
        assert run(site.settings(HOME), tmp_path)[0] == 0
    assert looks == [(CrawlState.NEW, 0), (CrawlState.RUNNING, 0)], "at the opening, and with the seeds"


def test_without_a_record_of_duplicates_a_second_run_does_not_fetch_the_seeds_again(tmp_path: Path) -> None:
    """Only new seeds are scheduled: the list of seeds has those of earlier runs."""
    pages = {"a.test/": linking("1"), "b.test/": linking()}
    with Site(pages) as site:
        for seeds in ((HOME,), (HOME,), (HOME, "http://b.test/", "http://B.test")):
            code, _ = run(site.settings(*seeds, frontier={"duplicates": "noop"}), tmp_path)
            assert code == 0
    assert {url: hits for url, hits in site.hits.items() if "robots" not in url} == {
        "a.test/": 1,
        "a.test/1": 1,
        "b.test/": 2,
    }


@pytest.mark.parametrize("limits", [{"max_bytes": 100}, {"max_time": 0.01}])
def test_limits_on_bytes_and_time(tmp_path: Path, limits: dict[str, float]) -> None:
    with Site({"a.test/": linking(*map(str, range(500)))}) as site:
        settings = site.settings(HOME, fetch={"robots": "ignore", "concurrency": 1}, limits=limits)
        code, said = run(settings, tmp_path)
    assert code == 0 and f"limits.{next(iter(limits))} is reached; raise limits.{next(iter(limits))}" in said
    assert sum(site.hits.values()) < 500


def test_the_first_failure_of_a_seed_is_said_at_once(tmp_path: Path) -> None:
    pages: dict[str, Page] = {
        "a.test/": text("", status=503),
        "a.test/robots.txt": "",
        "c.test/robots.txt": text("", status=503),
    }
    with Site(pages) as site:
        seeds = [HOME, "http://b.test/gone", "http://c.test/"]
        _, said = run(site.settings(*seeds, frontier={"retry": {"max_retries": 2, "delay": 0.0}}), tmp_path)
    lines = [line for line in said.splitlines() if line.startswith("seed ")]
    soon = "less than a second"
    again = f"tried again in {soon} at the earliest, attempt 1 of 3"
    assert sorted(lines) == [
        f"seed http://a.test/ failed: status 503; {again}",
        "seed http://b.test/gone failed: status 404",
        "seed http://c.test/ failed: robots.txt unreachable: status 503",
        f"seed http://c.test/: http://c.test/robots.txt failed: status 503; {again}",
    ]


def test_only_the_first_of_many_seeds_that_fail_are_said(tmp_path: Path) -> None:
    with Site({}) as site:
        _, said = run(site.settings(*[f"{HOME}{number}" for number in range(15)]), tmp_path)
    assert said.count("failed: status 404") == 10
    assert f"more seeds fail; `budgetfrontier report {tmp_path} --kind seeds` lists all" in said


def test_a_pause_at_finish_names_the_retired_and_a_raised_budget_goes_on(tmp_path: Path) -> None:
    frontier = {"queue_total_budget": 3, "pause_at_finish": True}
    with Site({"a.test/": linking(*map(str, range(9))), "b.test/": linking("/1")}) as site:
        settings = site.settings(HOME, "http://b.test/", frontier=frontier)
        code, said = run(settings, tmp_path)
        assert code == 0
        assert "paused at finish: 1 queue is retired, with 6 URIs" in said
        command = f"budgetfrontier adjust {tmp_path} --match queue:a.test --total-budget {4 + 3}"
        assert command in said
        with Reader(tmp_path / "frontier") as reader:
            assert command in explain(reader, "a.test", job=str(tmp_path)).text()
        before = site.hits.copy()
        run(settings, tmp_path)
        assert site.hits == before
        with reopened(tmp_path) as opened:
            opened.adjust(match="queue:a.test", queue_total_budget=100, reason="all of it")
        _, said = run(settings, tmp_path)
    assert "paused at finish: 2 were crawled of 12 URIs; 10 answered with an error status (404: 10)" in said
    assert (
        sum(count for place, count in site.hits.items() if place.startswith("a.test/") and "robots" not in place) == 10
    )


def test_what_is_out_of_scope_is_not_fetched(tmp_path: Path) -> None:
    pages = {
        "a.test/": linking("/1", "/x.zip", "http://other.test/"),
        "a.test/1": linking("/2"),
        "a.test/2": linking("/3"),
    }
    with Site(pages) as site:
        run(site.settings(HOME, scope={"reject": [r"regex:\.zip$"], "max_hops": 2}), tmp_path)
    assert {place for place in site.hits if "robots" not in place} == {"a.test/", "a.test/1", "a.test/2"}


def test_seeds_of_a_file_and_bad_ones(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("# mine\nhttp://a.test/  # the front page\n\nftp://a.test/\nnot a URL\n")
    with Site(SMALL) as site:
        settings = site.settings({"file": str(tmp_path / "seeds.txt"), "source": "list"})  # type: ignore[arg-type]
        code, said = run(settings, tmp_path / "job")
    assert code == 0 and all(f"seeds.txt:{place}: " in said for place in ("4:1", "5:5"))
    assert site.hits["a.test/2"] == 1
    assert " list " in (tmp_path / "job/logs/crawl.log").read_text()


def test_seeds_without_room_are_told(tmp_path: Path) -> None:
    with Site(SMALL) as site:
        settings = site.settings("http://a.test/1", "http://a.test/2", "mailto:a", frontier={"max_queued": 1})
        code, said = run(settings, tmp_path / "job")
    assert code == 0 and "1 seed found no room (1 max_queued)" in said
    assert "1 seed is not an http or https URL (1 scheme)" in said


def test_a_seed_file_from_windows(tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_bytes(b"\xef\xbb\xbfhttp://a.test/1\r\nhttp://a.test/2 \r\nmailto:a\r\n")
    with Site(SMALL) as site:
        settings = site.settings({"file": str(tmp_path / "seeds.txt")}, fetch={"robots": "ignore"})  # type: ignore[arg-type]
        code, said = run(settings, tmp_path / "job")
    assert code == 0 and 'seeds.txt:3:1: "mailto:a" cannot be crawled: scheme: mailto' in said
    assert {"a.test/1", "a.test/2"} <= set(site.hits)


@pytest.mark.parametrize(
    ("agent", "warning"),
    [
        ("budgetfrontier", "fetch.user_agent is the default, budgetfrontier, and names no contact"),
        ("ExampleBot/1.0", "fetch.user_agent, ExampleBot/1.0, names no contact"),
        ("ExampleBot/1.0 (+https://example.org/bot)", None),
        ("ExampleBot/1.0 (bot@example.org)", None),
    ],
)
def test_a_user_agent_without_a_contact_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, agent: str, warning: str | None
) -> None:
    with Site({"a.test/": "x"}) as site:
        _, said = run(site.settings(HOME, fetch={"user_agent": agent}), tmp_path)
    logged = [record.getMessage() for record in caplog.records if record.name == "budgetfrontier.crawl"]
    if warning is None:
        assert "warning:" not in said and not logged
    else:
        assert f"warning: {warning}" in said and len(logged) == 1 and warning in logged[0]


def test_a_crawl_without_its_cluster_says_so(tmp_path: Path) -> None:
    with Site({"a.test/": "x"}) as site:
        _, said = run(site.settings(HOME, cluster={"partitions": 4}), tmp_path)
    assert "warning: the section cluster is for workers" in said


def test_nothing_to_crawl(tmp_path: Path) -> None:
    with Site({}) as site:
        assert run(site.settings(), tmp_path)[0] == 1
        assert run(site.settings("mailto:a@b.c"), tmp_path)[0] == 1


def test_a_terminated_crawl_is_over(tmp_path: Path) -> None:
    with Site({}) as site:
        with Frontier.open(tmp_path / "frontier") as frontier:
            frontier.schedule(CrawlUri(HOME))
            frontier.terminate()
        code, said = run(site.settings(HOME), tmp_path)
    assert code == 1 and "terminated" in said and not site.hits


def test_reports_that_cannot_be_written_meanwhile_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def once_told(reason: str) -> web.StreamResponse:
        until(lambda: reason in caplog.text)
        return web.Response(text="")

    for broken, reason in (("/nonexistent/python", "No such file"), ("/bin/false", "not written")):
        monkeypatch.setattr(sys, "executable", broken)
        with Site(dict.fromkeys(("a.test/", "a.test/1"), partial(once_told, reason))) as site:
            settings = site.settings(HOME, "http://a.test/1", reports={"every": 0.01}, fetch={"robots": "ignore"})
            code, _ = run(settings, tmp_path / Path(broken).name)
        assert code == 0
        assert "Frontier report" in (tmp_path / Path(broken).name / "reports/frontier.txt").read_text()


def test_a_bug_in_one_visit_ends_that_visit_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(url: str, answer: FetchResult, *_: object, **__: object) -> links.PageLinks:
        if url.endswith("/1"):
            raise RuntimeError("a bug")
        return links.PageLinks(iter([("http://a.test/1", "L"), ("http://a.test/2", "L")]))

    monkeypatch.setattr(links, "discover", fail)
    with Site(SMALL) as site:
        code, _ = run(site.settings(HOME), tmp_path)
    assert code == 0 and "a bug" in caplog.text
    with reopened(tmp_path) as frontier:
        summary = frontier.summary()
        assert (summary.failed, summary.succeeded) == (1, 3)
    assert "RuntimeError:_a_bug" in (tmp_path / "logs/crawl.log").read_text()


def test_many_hosts_at_once_and_within_the_concurrency(tmp_path: Path) -> None:
    hosts = [f"h{number}.test" for number in range(30)]
    pages = {f"{host}/": linking("/1", "/2", f"http://{hosts[(n + 1) % 30]}/") for n, host in enumerate(hosts)}
    with Site(pages) as site:
        settings = site.settings(
            f"http://{hosts[0]}/", scope={"accept": ["domain:test"], "max_hops": -1}, fetch={"concurrency": 4}
        )
        run(settings, tmp_path)
    assert len(site.hits) == 30 * 4 and set(site.hits.values()) == {1}
    slots = {line.split()[7] for line in (tmp_path / "logs/crawl.log").read_text().splitlines()}
    assert slots <= {"#001", "#002", "#003", "#004"}


def test_the_disk_is_asked_to_sync_by_time_not_by_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = 0

    def count(outputs: Outputs) -> None:
        nonlocal synced
        synced += 1
        sync(outputs)

    sync = Outputs.sync
    monkeypatch.setattr(Outputs, "sync", count)
    monkeypatch.setattr("budgetfrontier.crawler.main_loop.time", SimpleNamespace(monotonic=lambda: 0.0, time=time.time))
    polite = {"politeness": {"delay_factor": 0.0, "min_delay": 0.01, "max_delay": 1.0}, "commit_interval": 60}
    with Site({"a.test/": linking(*(f"/{number}" for number in range(40)))}) as site:
        run(site.settings(HOME, frontier=polite), tmp_path)
    assert site.hits["a.test/39"] == 1
    assert synced < 10


def test_a_crawl_that_waits_does_not_spin_whatever_the_commit_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def count(limits: CrawlLimits, *, paused: bool) -> None:
        nonlocal looks
        looks += 1
        tick(limits, paused=paused)

    tick = CrawlLimits.tick
    monkeypatch.setattr(CrawlLimits, "tick", count)
    polite = {"politeness": {"delay_factor": 0.0, "min_delay": 0.5, "max_delay": 0.5}, "commit_interval": 0}
    began = time.monotonic()
    with Site({"a.test/": linking("/1")}) as site:
        run(site.settings(HOME, frontier=polite), tmp_path)
    assert site.hits["a.test/1"] == 1
    assert looks < 20 + (time.monotonic() - began) / SHORTEST_SLEEP  # however long the machine took


def test_a_visit_that_takes_longer_than_its_lease_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Time passes when the crawl looks around, and the page has links until it has done so often enough."""
    clock, looks, tick = ManualClock(time.time()), 0, CrawlLimits.tick

    def look_around(limits: CrawlLimits, *, paused: bool) -> None:
        nonlocal looks
        looks += 1
        clock.advance(300.0)
        tick(limits, paused=paused)

    def endless(url: str, *_: object, **__: object) -> links.PageLinks:
        def found() -> Iterator[tuple[str, str]]:
            for number in count() if url == HOME else ():
                if looks > 20:
                    return
                yield f"http://a.test/{number % 1000}", "L"

        return links.PageLinks(found())

    monkeypatch.setattr(links, "discover", endless)
    monkeypatch.setattr(CrawlLimits, "tick", look_around)
    monkeypatch.setattr("budgetfrontier.crawler.main_loop.time", SimpleNamespace(monotonic=clock.time, time=time.time))
    monkeypatch.setattr("budgetfrontier.engine.frontier.WallClock", lambda: clock)
    with Site({"a.test/": "a page with many links"}) as site:
        settings = site.settings(
            HOME,
            fetch={"robots": "ignore"},
            frontier={"lease_ttl": 1000.0, "commit_interval": 0.05},
            limits={"max_uris": 1},
        )
        code, _ = run(settings, tmp_path)
    assert clock.time() - time.time() > 5 * 1000.0
    assert code == 0 and site.hits["a.test/"] == 1 and "expired" not in caplog.text
    with reopened(tmp_path) as frontier:
        assert frontier.summary().succeeded == 1


def test_large_pages_are_read_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[str, set[int]] = {}

    def watched(url: str, answer: FetchResult, *given: Any, **options: Any) -> links.PageLinks:
        page = discover(url, answer, *given, **options)

        def each() -> Iterator[tuple[str, str]]:
            for link in page.links:
                threads.setdefault(url, set()).add(threading.get_ident())
                yield link

        return links.PageLinks(each())

    discover = links.discover
    monkeypatch.setattr(links, "discover", watched)
    large = linking(*(f"/{number % 700}" for number in range(30_000)))
    with Site({"a.test/": linking("/large"), "a.test/large": large}) as site:
        code, _ = run(site.settings(HOME), tmp_path)
    assert code == 0 and site.hits["a.test/699"] == 1
    assert threads[HOME] == {threading.get_ident()}
    assert threading.get_ident() not in threads[HOME + "large"]


def test_a_server_error_that_passes_costs_its_page_a_retry_and_holds_up_nobody(tmp_path: Path) -> None:
    codes = (408, 429, 500, 502, 503, 504, 522, 524)

    def failing_once(code: int) -> Any:
        answers = iter([web.Response(status=code)])
        return lambda: next(answers, web.Response(text="ok"))

    def stays() -> web.Response:
        return web.Response(status=500)

    with Site({f"a.test/{code}": failing_once(code) for code in codes} | {"a.test/stays": stays}) as site:
        seeds = [f"http://a.test/{code}" for code in codes]
        frontier = {"retry": {"delay": 900.0, "status_delay": 0.01}}
        code, _ = run(site.settings(*seeds, "http://a.test/stays", frontier=frontier), tmp_path)
    assert code == 0
    assert {page: site.hits[f"a.test/{page}"] for page in codes} == dict.fromkeys(codes, 2)
    assert site.hits["a.test/stays"] == 3
    with reopened(tmp_path) as f:
        summary = f.summary()
        assert (summary.failed, summary.retried, f.dead_letters()) == (1, len(codes) + 2, [])
