"""`report --kind` of frontiers without a log, seeds of a log that is planted, and states without a limit."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import CrawlState, Directive, QueueState
from budgetfrontier.crawler.outputs.logs import stamp
from budgetfrontier.rules.run_history import CRAWL
from tests.support import make_settings
from tests.tools.cli.conftest import Cli


def rows_of(cli: Cli, job: Path, kind: str, *options: str) -> tuple[list[dict[str, Any]], str]:
    answer = cli("report", job, "--kind", kind, "--format", "json", *options)
    assert answer.code == 0
    told = json.loads(answer.out)
    return told["rows"], told["unknown"] or ""


def test_what_only_a_crawl_knows_is_said_to_be_unknown(stopped: Path, cli: Cli) -> None:
    for kind in ("crawl-summary", "hosts", "mimetypes", "responsecodes", "sourcetags"):
        _, unknown = rows_of(cli, stopped, kind)
        told = f"unknown: there is no {stopped / 'logs' / 'crawl.log'}, it was moved or deleted, or is not part of a"
        assert told in unknown, kind
        text = cli("report", stopped, "--kind", kind)
        assert told in text.err
    hosts = {row["host"]: row for row in rows_of(cli, stopped, "hosts")[0]}
    assert (hosts["capped.test"]["remaining"], hosts["capped.test"]["state"]) == (3, "RETIRED")
    assert hosts["dead.test"]["errors"] == 1 and hosts["dead.test"]["fetches"] is None
    (summary,) = rows_of(cli, stopped, "crawl-summary")[0]
    assert (summary["dead"], summary["fetches"], summary["distinct_bytes"]) == (1, None, None)
    assert summary["runs"] == 1 and summary["last_stop"] == "EXIT"


def test_the_summary_has_what_was_told_with_the_ends_of_fetches(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule_many(["http://a.test/", "http://b.test/"])
        a, b = f.lease(2)
        f.finish(a, Outcome.SUCCESS, size=36_000)
        f.finish(b, Outcome.DISREGARDED, reason="robots")
    (row,), unknown = rows_of(cli, tmp_path, "crawl-summary")
    assert (row["bytes"], row["robots_denials"], row["distinct_bytes"], row["fetches"]) == (36_000, 1, None, None)
    assert row["bytes_per_second"] > 0
    assert f"there is no {tmp_path / 'logs' / 'crawl.log'}; `budgetfrontier crawl` writes one" in unknown


def test_figures_from_between_two_totals_are_said_to_be_estimates(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 7200)
    settings = make_settings()  # commits an hour apart, so that two hours are no idle time
    with Frontier.open(tmp_path / "frontier", settings, clock=clock) as f:
        f.schedule("http://a.test/")
        (lease,) = f.lease(1, ttl=9000)
        clock.advance(7200)
        f.finish(lease, Outcome.SUCCESS, size=36_000)
    told = "its counts are estimates: where it begins or ends, totals are known 2h apart"
    (row,), unknown = rows_of(cli, tmp_path, "crawl-summary", "--since", "1h")
    assert row["bytes"] == pytest.approx(18_000, abs=100) and unknown.endswith(told)
    assert told not in rows_of(cli, tmp_path, "crawl-summary", "--since", "3h")[1]


def test_what_was_fetched_with_each_label(tmp_path: Path, cli: Cli) -> None:
    job, unlabelled = tmp_path / "labelled", tmp_path / "unlabelled"
    with Frontier.open(job / "frontier", make_settings(polite=False)) as f:
        for url, label in (("http://a.test/", "blogs"), ("http://b.test/", "blogs"), ("http://c.test/", "shops")):
            f.schedule(CrawlUri(url, source=label, directive=Directive.MEDIUM))
        one, other, _ = f.lease(3)
        f.finish(one, size=250, discovered=["http://a.test/1"])
        f.finish(other, Outcome.FAILURE, size=50)
    rows, unknown = rows_of(cli, job, "labels")
    assert [tuple(row.values()) for row in rows] == [("blogs", 2, 0, 1, 1, 300, 1, 250), ("shops", 1, 1, 0, 0, 0, 0, 0)]
    assert unknown == ""
    with Frontier.open(unlabelled / "frontier") as f:
        f.schedule("http://a.test/")
    assert "No seed has a label" in cli("report", unlabelled, "--kind", "labels").out


def test_what_the_scope_would_disregard_by_reason(tmp_path: Path, cli: Cli) -> None:
    chosen: dict[str, Any] = {
        "seeds": ["http://a.test/"],
        "scope": {"reject": ["regex:[.]zip$"]},
        "frontier": {"queue_total_budget": 0, "retire_when": "reached"},
    }
    job, without = tmp_path / "job", tmp_path / "without"
    with Frontier.open(job / "frontier", Settings.from_dict(chosen)) as f:
        links = [*(f"http://b.test/{n}" for n in range(3)), "http://a.test/a.zip", "http://a.test/b"]
        f.schedule_many(CrawlUri(url, via="http://a.test/", hops="L") for url in links)
        f.schedule(CrawlUri("http://b.test/4", via="http://a.test/", hops="L", not_before=2e9))
        assert f.lease(1) == [], "the queues are RETIRED, which changes nothing"
    rows, unknown = rows_of(cli, job, "scope")
    assert [tuple(row.values()) for row in rows] == [
        ("not accepted", 4, pytest.approx(4 / 6), "http://b.test/0"),
        ("reject regex:[.]zip$", 1, pytest.approx(1 / 6), "http://a.test/a.zip"),
    ]
    assert unknown == ""
    text = cli("report", job, "--kind", "scope").out
    assert text.startswith("5 of 6 URIs that wait are out of the scope: disregarded at their turns, and not charged.")
    with Frontier.open(without / "frontier") as f:
        f.schedule("http://a.test/")
    assert rows_of(cli, without, "scope") == ([], "the scope is not known here: none is stored")


def test_the_use_of_quotas(tmp_path: Path, cli: Cli) -> None:
    settings = Settings.from_dict({"frontier": {"quotas": {"host": {"urls": 2, "bytes": 1000}}}})
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.schedule("http://a.test/")
        f.finish(f.lease(1)[0], size=250)
    rows, unknown = rows_of(cli, tmp_path, "quotas")
    assert [tuple(row.values()) for row in rows] == [
        (0.5, 1, 2, "urls", "host", "a.test"), (0.25, 250, 1000, "bytes", "host", "a.test"),
    ]  # fmt: skip
    assert unknown == "" and "50%" in cli("report", tmp_path, "--kind", "quotas").out


def test_a_queue_is_shown_with_its_quotas_and_the_end_names_the_one_that_holds_it(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 60)
    settings = Settings.from_dict({"frontier": {"quotas": {"host": {"urls": 1}, "queue": {"bytes": 1000}}}})
    with Frontier.open(tmp_path / "frontier", settings, clock=clock) as f:
        f.schedule_many(["http://a.test/", "http://a.test/1"])
        f.finish(f.lease(1)[0], size=250)
        clock.advance(30)
        assert f.lease(1) == [] and f.state is CrawlState.FINISHED
    shown = [" ".join(line.split()) for line in cli("queue", tmp_path, "a.test").out.splitlines()]
    assert "quotas.host.urls: 1 of 1 (a.test)" in shown and "quotas.queue.bytes: 250 of 1,000 (a.test)" in shown
    as_json = json.loads(cli("queue", tmp_path, "a.test", "--format", "json").out)["quotas"]
    assert [(use["kind"], use["amount"], use["used"], use["limit"]) for use in as_json] == [
        ("host", "urls", 1, 1), ("queue", "bytes", 250, 1000),
    ]  # fmt: skip
    verdict = cli("report", tmp_path).out
    assert "the quota of host a.test, urls 1, is used up, with 1: `adjust` it or a budget" in " ".join(verdict.split())


def test_the_summary_of_a_time_has_what_was_told_in_it(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 7200)
    with Frontier.open(tmp_path / "frontier", clock=clock) as f:
        for n in range(120):
            f.schedule(f"http://{n}.test/")
            f.finish(f.lease(1)[0], size=10)
            clock.advance(60)
            f.commit()
    (row,), _ = rows_of(cli, tmp_path, "crawl-summary", "--since", "30m")
    assert 250 <= row["bytes"] <= 310 and row["robots_denials"] == 0


def crawled(job: Path, clock: ManualClock, *, program: str = CRAWL) -> list[str]:
    """Crawl ten pages, one a minute, and return the lines that `crawl` would have logged."""
    lines = []
    with Frontier.open(job / "frontier", make_settings(polite=False), clock=clock, program=program) as f:
        for _ in range(10):
            f.schedule(f"http://{clock.time():.0f}.test/")
            lines.append(
                f"{stamp(datetime.fromtimestamp(clock.time(), UTC))}   200   10 http://{clock.time():.0f}.test/ - - "
                f"text/html #001 - - - -\n"
            )
            f.finish(f.lease(1)[0], size=10)
            clock.advance(60)
            f.commit()
    return lines


FROM_LOG = ("crawl-summary", "hosts", "mimetypes", "responsecodes", "sourcetags")


@pytest.mark.parametrize("age", [7200.0, 3 * 86_400.0])
def test_a_log_that_begins_after_the_first_attempts_does_not_tell_all(tmp_path: Path, cli: Cli, age: float) -> None:
    clock = ManualClock(time.time() - age)
    log = tmp_path / "logs" / "crawl.log"
    log.parent.mkdir()
    first = crawled(tmp_path, clock)
    for kind in FROM_LOG:
        assert f"there is no {log}, it was moved" in rows_of(cli, tmp_path, kind)[1]
    log.write_text("")
    for kind in FROM_LOG:
        assert "has no line yet" in rows_of(cli, tmp_path, kind)[1]
    assert "--log FILE" in cli("explain", tmp_path, first[0].split()[3]).out
    clock.advance(120)
    second = crawled(tmp_path, clock)
    log.write_text("".join(second))
    (summary,), unknown = rows_of(cli, tmp_path, "crawl-summary")
    assert f"begins at {second[0].split()[0]}, and attempts were made before that" in unknown
    assert (summary["fetches"], summary["distinct_bodies"], summary["fetches_per_second"]) == (None, None, None)
    assert (summary["bytes"], summary["bytes_per_second"]) == (200, pytest.approx(200 / 1200, abs=0.001))
    hosts, unknown = rows_of(cli, tmp_path, "hosts")
    assert len(hosts) == 20 and {row["fetches"] for row in hosts} == {None} and "begins at" in unknown
    rows, unknown = rows_of(cli, tmp_path, "mimetypes")
    assert rows[0]["fetches"] == 10 and "rows are those of" in unknown
    since = f"{int(time.time() - datetime.fromisoformat(second[1].split()[0]).timestamp()) + 30}s"
    (summary,), unknown = rows_of(cli, tmp_path, "crawl-summary", "--since", since)
    assert (summary["fetches"], unknown) == (9, ""), "it has all of that time"
    log.write_text("".join(first + second))
    for kind in FROM_LOG:
        rows, unknown = rows_of(cli, tmp_path, kind)
        assert unknown == "", "it is whole again"


def test_rates_of_a_time_are_those_of_the_runs_in_it(tmp_path: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 7200)
    log = tmp_path / "logs" / "crawl.log"
    log.parent.mkdir()
    first = crawled(tmp_path, clock)
    clock.advance(5400)
    log.write_text("".join(first + crawled(tmp_path, clock)))
    (summary,), unknown = rows_of(cli, tmp_path, "crawl-summary", "--since", "1h")
    assert (summary["fetches"], unknown) == (10, "")
    assert summary["fetches_per_second"] == pytest.approx(10 / 600, abs=0.001)


def test_what_was_disregarded_is_no_fetch_of_a_source_tag(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier") as f:
        f.schedule("http://a.test/")
    (tmp_path / "logs").mkdir()
    line = "2026-11-20T22:00:00.000Z {} 10 http://a.test/{} L - text/html #1 - - news -\n"
    log = "".join(line.format(status, n) for n, status in enumerate((200, 404, -2, -9998, -5000)))
    (tmp_path / "logs" / "crawl.log").write_text(log)
    (row,) = rows_of(cli, tmp_path, "sourcetags")[0]
    assert (row["source"], row["fetches"]) == ("news", 3)
    assert len(rows_of(cli, tmp_path, "responsecodes")[0]) == 5


def test_threads_are_the_leases(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "job" / "frontier", Settings(), keep_leases=True) as frontier:
        frontier.schedule_many(["https://a.test/", "https://b.test/"])
        frontier.lease(2)
    rows, unknown = rows_of(cli, tmp_path / "job", "threads")
    assert (sorted(row["queue"] for row in rows), unknown) == (["a.test", "b.test"], "")
    assert "a.test" in cli("report", tmp_path / "job", "--kind", "threads-report.txt").out


LINE = "2026-11-20T22:00:0{n}.000Z {status:5d}        100 {url} {hops} {via} text/html #001 - - - -\n"


def test_seeds_that_were_imported_and_redirects_of_several_steps(tmp_path: Path, cli: Cli) -> None:
    """From the frontier's list; the log has only the status of what was known before."""
    settings = Settings.from_dict({"seeds": ["http://a.test/", "http://later.test/", "http://seen.test/", "not a url"]})
    with Frontier.open(tmp_path / "frontier", settings) as frontier:
        frontier.mark_seen(["http://seen.test/"])
        hosts = ("a", "imported", "refused", "later", "seen")
        frontier.schedule_many(CrawlUri(f"http://{host}.test/", directive=Directive.MEDIUM) for host in hosts)
        frontier.schedule(CrawlUri("http://forced.test/", queue="chosen", directive=Directive.MEDIUM))
        ends = {
            "http://a.test/": (Outcome.SUCCESS, "status 302"),
            "http://refused.test/": (Outcome.DISREGARDED, "robots"),
            "http://imported.test/": (Outcome.SUCCESS, "status 200"),
            "http://b.test/": (Outcome.SUCCESS, "status 301"),
            "http://c.test/": (Outcome.SUCCESS, "status 200"),
        }
        found = {"http://a.test/": ("http://b.test/", "R"), "http://b.test/": ("http://c.test/", "RR")}
        while leases := [one for one in frontier.lease(9) if one.uri.url in ends]:
            for lease in leases:
                outcome, reason = ends[lease.uri.url]
                url, hops = found.get(lease.uri.url, ("", ""))
                target = [CrawlUri(url, hops=hops, via=lease.uri.url, directive=Directive.MEDIUM)] if url else []
                frontier.finish(lease, outcome, reason=reason, discovered=target)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "crawl.log").write_text(
        LINE.format(n=1, url="http://seen.test/", hops="-", via="-", status=200)
    )
    rows = {row["seed"]: row for row in rows_of(cli, tmp_path, "seeds")[0]}
    assert {seed: row["status"] for seed, row in rows.items()} == {
        "http://a.test/": "REDIRECTED",
        "http://b.test/": "REDIRECTED",
        "http://c.test/": "CRAWLED",
        "http://imported.test/": "CRAWLED",
        "http://refused.test/": "DISREGARDED",
        "http://later.test/": "PENDING",
        "http://forced.test/": "PENDING",
        "http://seen.test/": "CRAWLED",
        "not a url": "INVALID",
    }
    queues = [rows[f"http://{host}.test/"]["queue"] for host in ("later", "imported", "forced")]
    assert queues == ["later.test", "imported.test", "chosen"]
    assert (rows["http://a.test/"]["redirect"], rows["http://a.test/"]["detail"]) == ("http://c.test/", "200 OK")


def test_a_seed_file_that_is_gone_is_told(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "seeds.txt").write_text("http://a.test/\nnot a url\nftp://b.test/\n")
    settings = Settings.from_dict({"crawl": "seeds", "seeds": [{"file": str(tmp_path / "seeds.txt")}]})
    Frontier.open(tmp_path / "frontier", settings).close()
    rows, _ = rows_of(cli, tmp_path, "seeds")
    bad = [(row["seed"], row["detail"]) for row in rows if row["status"] == "INVALID"]
    assert [row["seed"] for row in rows if row["status"] == "NOT_REACHED"] == ["http://a.test/"]
    assert bad[0] == (
        f"{tmp_path / 'seeds.txt'}:2",
        '"a url" follows a blank; write a blank in a URL as %20, and # before a comment',
    )
    assert [seed for seed, _ in bad[1:]] == ["ftp://b.test/"]
    (tmp_path / "seeds.txt").unlink()
    assert "seeds.txt: No such file" in rows_of(cli, tmp_path, "seeds")[1]


def test_the_bytes_of_hosts_are_known_without_a_log(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "frontier", Settings()) as frontier:
        frontier.schedule_many(["http://a.test/", "http://b.test/"])
        for lease in frontier.lease(2):
            frontier.finish(lease, size=700 if lease.queue == "a.test" else 0)
    rows, unknown = rows_of(cli, tmp_path, "hosts")
    assert {row["host"]: row["bytes"] for row in rows} == {"a.test": 700, "b.test": None}
    assert all(row["fetches"] is None for row in rows) and "crawl.log" in unknown


@pytest.mark.parametrize("count", [30])
def test_every_state_is_uncapped_on_request(tmp_path: Path, cli: Cli, count: int) -> None:
    with Frontier.open(tmp_path / "job" / "frontier", Settings()) as frontier:
        frontier.schedule_many(f"https://site{n}.test/" for n in range(count))
    section = f" -----===== {QueueState.INACTIVE} QUEUES =====-----\n"
    capped = cli("report", tmp_path / "job").out.partition(section)[2].partition("\n\n")[0]
    assert capped.count(".test") < 3 * count and "...and 10 more" in capped
    whole = cli("report", tmp_path / "job", "--all").out.partition(section)[2].partition("\n\n")[0]
    assert len(whole.splitlines()) == count + 1 and "more" not in whole
    assert cli("report", tmp_path / "job", "--limit", "0").out.partition(section)[2].partition("\n\n")[0] == whole
    html = cli("report", tmp_path / "job", "--all", "--format", "html").out
    assert all(f"site{n}.test" in html for n in range(count))
