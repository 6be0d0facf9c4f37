"""What is said at the end of a run, and that the commands in it do what they say."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from budgetfrontier import CrawlState, CrawlUri, Frontier, Outcome, QueueState, Settings
from budgetfrontier.core.model import Lease
from budgetfrontier.crawler.closing_summary import StopReason, closing_summary
from budgetfrontier.crawler.crawl_limits import CrawlLimit
from budgetfrontier.reports import report_files
from budgetfrontier.tools.cli import main


def exhaust(frontier: Frontier) -> None:
    """Fetch all that may be fetched."""
    while leases := frontier.lease(10):
        for lease in leases:
            frontier.finish(lease, Outcome.SUCCESS)


def settings(**frontier: object) -> Settings:
    politeness = {"min_delay": 0, "delay_factor": 0, "max_delay": 0}
    return Settings.from_dict({"frontier": {"politeness": politeness, **frontier}})


def said(
    job: Path,
    settings: Settings,
    *,
    stop: StopReason = StopReason.NONE,
    limit: CrawlLimit | None = None,
    command: str = "",
) -> list[str]:
    report, overview = report_files.write(job / "frontier", job / "reports")
    return list(
        closing_summary(report, overview, folder=job, settings=settings, stop=stop, limit=limit, command=command)
    )


def test_what_was_refused_charged_as_penalties_and_received_is_said(tmp_path: Path) -> None:
    chosen = settings(error_penalty_amount=9, max_queue_size=2)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule_many(["ftp://a.test/", *(f"http://a.test/{n}" for n in range(3))])
        frontier.finish(frontier.lease(1)[0], Outcome.FAILURE)
        frontier.finish(frontier.lease(1)[0], Outcome.DISREGARDED, reason="robots")
    lines = said(tmp_path, chosen)
    assert lines[1] == (
        "  done: 0 crawled, 1 failed, 0 retried, 1 disregarded (1 by robots.txt); spend 10 (9 in penalties)"
    )
    assert lines[2].startswith("  2 refused (") and "FULL by max_queue_size: 1" in lines[2]


def commands(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines if line.startswith("    budgetfrontier ")]


@pytest.mark.parametrize("pause", [True, False])
def test_every_command_that_revives_a_queue_revives_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pause: bool
) -> None:
    job = tmp_path / "it's a job"
    chosen = settings(pause_at_finish=pause, queue_total_budget=2)
    keys = ["a.test", "[::1]:8080", "a 'quoted' $KEY", "with*star", "-dash.test"]
    with Frontier.open(job / "frontier", chosen) as frontier:
        for key in keys:
            frontier.schedule_many(CrawlUri(f"http://a.test/{key}/{n}", queue=key) for n in range(5))
        frontier.schedule_many(f"http://named.test/{n}" for n in range(2))
        frontier.retire("named.test")
        frontier.schedule_many(f"http://-named.test/{n}" for n in range(2))
        frontier.retire("-named.test")
        frontier.adjust(match="queue:broke.test", balance_replenish_amount=0)
        frontier.schedule("http://broke.test/")
        exhaust(frontier)
    lines = said(job, chosen, command="budgetfrontier crawl 'my crawl.yaml'")
    how = "paused at finish" if pause else "crawl finished"
    assert lines[0] == f"{how}: 8 queues are retired, with 15 URIs"
    assert lines[-1] == "then run the same command: budgetfrontier crawl 'my crawl.yaml'"
    assert said(job, chosen) == lines[:-1], "the demo goes on by itself"
    assert "  -named.test: 2 URIs, retired by an operator" in lines and "  a.test: 2 URIs, spent 3 of 2" in lines
    found = commands(lines)
    assert len(found) == 8
    for command in found:
        assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    with Frontier.open(job / "frontier", chosen) as frontier:
        if pause:
            assert frontier.state is CrawlState.PAUSED
            frontier.resume()
        exhaust(frontier)
        assert [row.queue for row in frontier.report().queues if row.state is QueueState.RETIRED] == []


def test_a_queue_that_an_adjustment_retires_when_its_budget_is_reached_is_revived_by_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = settings(queue_total_budget=2, pause_at_finish=True)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.adjust(retire_when="reached")
        frontier.schedule_many(f"http://a.test/{n}" for n in range(5))
        exhaust(frontier)
    lines = said(tmp_path, chosen)
    assert "  a.test: 3 URIs, spent 2 of 2" in lines
    (command,) = commands(lines)
    assert " adjust " in command and "--total-budget" in command
    assert main(shlex.split(command)[1:]) == 0, capsys.readouterr().err
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.resume()
        exhaust(frontier)
        (queue,) = frontier.report().queues
        assert (queue.expenditure, queue.queued, queue.state) == (4, 1, QueueState.RETIRED)  # one more session of 2


def test_many_retired_queues_are_counted_and_the_fullest_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = settings(pause_at_finish=True, queue_total_budget=0)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule_many(f"http://h{host}.test/{n}" for host in range(15) for n in range(host + 2))
        exhaust(frontier)
    lines = said(tmp_path, chosen)
    assert len(commands(lines)) == 10 and "queue:h14.test" in commands(lines)[0]
    more = next(line for line in lines if "and 5 more: " in line).partition(": ")[2]
    capsys.readouterr()
    assert main(shlex.split(more)[1:]) == 0
    assert capsys.readouterr().out.count(".test") >= 15


def interrupted(job: Path, chosen: Settings) -> None:
    with Frontier.open(job / "frontier", chosen) as frontier:
        frontier.schedule_many(f"http://a.test/{n}" for n in range(5))
        lease: Lease
        (lease,) = frontier.lease(1)
        frontier.finish(lease, Outcome.DEAD, reason="poison")
        frontier.schedule(CrawlUri("http://b.test/", not_before=4e9))


@pytest.mark.parametrize(
    ("stop", "limit", "first"),
    [
        (StopReason.INTERRUPTED, None, "stopped: interrupted; to go on, run the same command: x"),
        (
            StopReason.FORCED,
            None,
            "stopped at once; all that was finished is kept, what was in flight is fetched again; to go on, "
            "run the same command: x",
        ),
        (
            StopReason.LIMIT,
            CrawlLimit("max_uris", 1000, 1001),
            "stopped: limits.max_uris is reached; raise limits.max_uris (now 1,000) and run the same command: x",
        ),
        (
            StopReason.LIMIT,
            CrawlLimit("max_bytes", 100, 101),
            "stopped: limits.max_bytes is reached; raise limits.max_bytes (now 100 B) and run the same command: x",
        ),
        (
            StopReason.INTERRUPTED,
            CrawlLimit("max_time", 43_200.0, 43_201.0),
            "stopped: interrupted; to go on, raise limits.max_time (now 12:00:00) and run the same command: x",
        ),
    ],
)
def test_a_crawl_that_is_not_done_says_how_it_stands_and_how_to_go_on(
    tmp_path: Path, stop: StopReason, limit: CrawlLimit | None, first: str
) -> None:
    chosen = settings()
    interrupted(tmp_path, chosen)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/crawl.log").write_bytes(b"x" * 2048)
    (tmp_path / "warcs/old").mkdir(parents=True)
    for name in ("a.warc.gz", "old/b.warc.gz"):
        (tmp_path / "warcs" / name).write_bytes(b"x" * 512)
    lines = said(tmp_path, chosen, stop=stop, limit=limit, command="x")
    assert lines[:3] == [
        first,
        "  done: 0 crawled, 0 failed, 0 retried, 0 disregarded; spend 1",
        "  left: 4 queued, 1 for later, 1 dead; queues: 1 ready, 1 exhausted",
    ]
    assert lines[3] == f"  dead letters: budgetfrontier dead-letters {tmp_path}"
    assert lines[4:6] == [f"  {tmp_path}/warcs: 2 files, 1.0 KiB", f"  {tmp_path}/logs: 1 file, 2.0 KiB"]
    assert lines[6].startswith(f"  {tmp_path}/reports: 2 files, ") and len(lines) == 7


def test_a_crawl_that_an_operator_paused_names_the_command_that_resumes_it(tmp_path: Path) -> None:
    chosen = settings()
    interrupted(tmp_path, chosen)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.pause(reason="lunch")
    lines = said(tmp_path, chosen, stop=StopReason.INTERRUPTED)
    assert lines[0] == "stopped: interrupted; to go on, run the same command"
    assert lines[1] == f"  it stays paused (lunch) until: budgetfrontier resume {tmp_path}"
    assert main(shlex.split(lines[1].partition(": ")[2])[1:]) == 0
    with Frontier.open(tmp_path / "frontier") as frontier:
        assert frontier.state is CrawlState.RUNNING


@pytest.mark.parametrize(
    ("pause", "how"),
    [
        (True, "paused at finish: everything is crawled (1 URI)"),
        (False, "crawl finished: everything is crawled (1 URI)"),
    ],
)
def test_a_crawl_that_crawled_everything(tmp_path: Path, pause: bool, how: str) -> None:
    chosen = settings(pause_at_finish=pause, queue_total_budget=0)  # exceeded with the last URI: nothing is held back
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule("http://a.test/")
        exhaust(frontier)
        assert frontier.report().totals.queues[QueueState.RETIRED] == 1
    lines = said(tmp_path, chosen, command="x")
    assert lines[0] == how and not commands(lines)
    assert (
        lines[-1]
        == f"to crawl more: add seeds (budgetfrontier import {tmp_path} --seeds FILE), and run the same command: x"
    )


def test_a_crawl_that_was_terminated_is_told_of_no_way_on(tmp_path: Path) -> None:
    chosen = settings(queue_total_budget=0)
    interrupted(tmp_path, chosen)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        exhaust(frontier)
        frontier.terminate()
    lines = said(tmp_path, chosen, command="x")
    assert lines[0] == "crawl terminated: 1 queue is retired, with 4 URIs"
    assert not commands(lines) and not any("run the same" in line for line in lines)


def test_uris_that_quotas_have_denied_are_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = settings(quotas={"host": {"urls": 1}, "label": {"urls": 9}, "force_retire": False})
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule_many(f"http://a.test/{page}" for page in range(3))
        while leases := frontier.lease():
            frontier.finish(leases[0])
    lines = said(tmp_path, chosen)
    assert lines[0] == "crawl finished: 1 was crawled of 3 URIs; 2 were disregarded because a quota was used up"
    assert "2 disregarded (2 by quotas)" in lines[1]
    assert main(["explain", str(tmp_path), "http://a.test/2"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "it was disregarded because a quota was used up when its turn came" in out
    assert "disregarded if it were scheduled again: the quota of host a.test, urls 1, is used up, with 1" in out
    assert "--set 'quotas.host={urls: 2}'" in out and "--force" not in out
    assert main(["adjust", str(tmp_path), "--match", "host:a.test", "--set", "quotas.host={urls: 2}"]) == 0
    assert main(["explain", str(tmp_path), "http://a.test/2"]) == 0
    assert "import" in (out := capsys.readouterr().out) and "--force" in out and "is used up, with" not in out


@pytest.mark.parametrize("pause", [True, False])
def test_every_command_that_makes_a_queue_eligible_does_so(tmp_path: Path, pause: bool) -> None:
    policy = {"success-counts": {"tiers": [2, 3]}}
    chosen = settings(pause_at_finish=pause, precedence_floor=5, precedence_policy=policy, queue_total_budget=6)
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule_many(f"http://{host}.test/{page}" for host in "ab" for page in range(6))
        frontier.schedule_many(CrawlUri("http://c.test/", queue="c*") for _ in range(1))
        frontier.adjust(match='queues:["c*"]', precedence=9)
        exhaust(frontier)
    lines = said(tmp_path, chosen, command="x")
    assert "  a.test: 1 URI, precedence 5" in lines and lines[-1] == "then run the same command: x"
    assert "ineligible queues, with a precedence_floor of 5, and what makes them eligible:" in lines
    found = commands(lines)
    assert len(found) == 3
    for command in found:
        assert main(shlex.split(command)[1:]) == 0
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        if pause:
            frontier.resume()
        exhaust(frontier)
        assert frontier.summary().queues[QueueState.INELIGIBLE] == 0


def test_queues_that_no_precedence_makes_eligible_have_no_command(tmp_path: Path) -> None:
    chosen = settings(precedence_floor=5, precedence_policy={"success-counts": {"base": 7}})
    with Frontier.open(tmp_path / "frontier", chosen) as frontier:
        frontier.schedule_many(f"http://a{host}.test/" for host in range(12))
        assert not frontier.lease()
    lines = said(tmp_path, chosen)
    assert not commands(lines) and "  a0.test: 1 URI, precedence 7" in lines
    assert lines[-1] == f"  ...and 2 more: budgetfrontier queues {tmp_path} --state INELIGIBLE"
