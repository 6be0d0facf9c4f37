"""`report` on crawls in each state that one may be in: alive or not, why it stopped, and what it waits for."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import RunEnd
from budgetfrontier.errors import StorageFull
from budgetfrontier.storage.lock import LOCK, locked
from budgetfrontier.storage.start_command import note_crawl
from budgetfrontier.testing import crash
from tests.crash.disks import disk_or_skip
from tests.crash.processes import in_child
from tests.tools.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("stopped_time")

HOUR = 3600.0


@pytest.fixture
def job(tmp_path: Path) -> Path:
    return tmp_path / "job"


def opened(job: Path, *, ago: float = 0.0, **frontier: Any) -> Frontier:
    """The frontier of a job without delays, opened `ago` seconds ago by its own clock."""
    delays = {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}
    settings = Settings.from_dict({"crawl": "planted", "frontier": {"politeness": delays, **frontier}})
    return Frontier.open(job / "frontier", settings, clock=ManualClock(time.time() - ago), program="planted")


def fetch(frontier: Frontier, outcome: Outcome = Outcome.SUCCESS) -> None:
    """Fetch all that may be fetched."""
    while leases := frontier.lease(10):
        frontier.finish_many([lease for lease in leases if outcome is Outcome.SUCCESS])
        for lease in leases if outcome is not Outcome.SUCCESS else ():
            frontier.finish(lease, outcome, reason="planted")


def pages(*hosts: str, count: int = 2) -> list[str]:
    return [f"https://{host}.test/{page}" for host in hosts for page in range(count)]


def told(cli: Cli, job: Path) -> tuple[str, str, dict[str, Any]]:
    """The slug and the sentence of the verdict, the same in text, HTML and JSON, and the process in JSON."""
    report = json.loads(cli("report", job, "--format", "json").out)
    found = report["verdict"]
    text = cli("report", job).out.splitlines()
    (line,) = (line for line in text if line.startswith(" Verdict: "))
    without_ages = found["sentence"].partition(" ago")[0]
    assert without_ages in line and found["sentence"].split()[0] in cli("report", job, "--format", "html").out
    if found["remedy"]:
        assert f"   $ {found['remedy']}" in text
    assert text[-2].startswith("process: ") and " URI queues: " in text[-1]
    return found["slug"], found["sentence"], report["process"]


# -- what is over


def test_nothing_was_ever_scheduled(job: Path, cli: Cli) -> None:
    opened(job).close()
    slug, sentence, process = told(cli, job)
    assert (slug, sentence) == ("new", "Nothing was ever scheduled.")
    assert process["alive"] is False and process["pid"] is None


def test_everything_is_crawled(job: Path, cli: Cli) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a"))
        fetch(f)
    assert told(cli, job)[:2] == (
        "finished",
        "The crawl is finished: everything is crawled (2 URIs).",
    )


def test_only_dead_letters_are_left(job: Path, cli: Cli) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a", count=150))
        fetch(f, Outcome.DEAD)
    assert told(cli, job)[:2] == (
        "dead_letters",
        "The crawl is finished: nothing was crawled; of 150 URIs, 150 became dead letters.",
    )


def test_robots_forbids_all(job: Path, cli: Cli) -> None:
    with opened(job, pause_at_finish=True) as f:
        f.schedule_many(pages("a", count=20))
        for number in range(20):
            (lease,) = f.lease(1)
            f.finish(lease, Outcome.DISREGARDED, reason="robots" if number < 19 else "scope")
    slug, sentence, _ = told(cli, job)
    assert slug == "disregarded"
    assert sentence == (
        "The crawl is paused at its finish: nothing was crawled; of 20 URIs, 19 were disregarded because of robots.txt "
        "and 1 was disregarded for other reasons, such as the scope."
    )


def test_uris_for_later_that_come_after_the_finish_are_not_crawled(job: Path, cli: Cli) -> None:
    with opened(job, pause_at_finish=True) as f:
        f.schedule_many(pages("a", count=2))
        fetch(f)
        f.schedule(CrawlUri("http://b.test/", not_before=2e9))
    assert told(cli, job)[1] == "The crawl is paused at its finish: 1 URI is scheduled for later."


def test_only_retired_queues_are_left(job: Path, cli: Cli) -> None:
    with opened(job, queue_total_budget=1) as f:
        f.schedule_many(pages("a", "b", count=5))
        fetch(f)
    text = "The crawl is finished: only retired queues are left (2, with 6 URIs); `adjust` a budget to revive them. "
    assert told(cli, job)[:2] == ("retired", f"{text}Then start it again.")
    note_crawl(job, job / "gone.yaml")
    start = f"budgetfrontier crawl CONFIG --job {job}"
    assert told(cli, job)[:2] == ("retired", f"{text}Then start it again: `{start}`.")


def test_it_was_terminated(job: Path, cli: Cli) -> None:
    with opened(job, ago=2 * HOUR) as f:
        f.schedule_many(pages("a"))
        f.terminate(who="alice", reason="enough")
        f.commit()
        assert told(cli, job)[:2] == (
            "terminated",
            "The crawl was terminated by alice 2h ago: it hands out nothing again.",
        )


# -- no process, or one that does nothing


def test_its_process_was_killed(job: Path, cli: Cli) -> None:
    pid = os.fork()
    if pid == 0:
        f = opened(job, ago=HOUR)
        f.schedule_many(pages("a"))
        f.lease(1)
        f.commit()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(pid, 0)
    slug, sentence, process = told(cli, job)
    assert slug == "killed"
    assert sentence == (
        f"No process runs this crawl: planted (process {pid}) was killed, or crashed; the last commit was 1h ago."
    )
    assert (process["alive"], process["last_stop"]["end"], process["last_stop"]["pid"]) == (False, "KILLED", pid)
    assert process["last_stop"]["time"] == process["last_commit"]
    text = cli("report", job).out
    assert " Crawl state: RUNNING, but no process runs it" in text
    assert "RUNNING, but no process runs it" in cli("report", job, "--format", "html").out


def test_the_disk_was_full(tmp_path: Path, cli: Cli) -> None:
    with disk_or_skip(tmp_path, size=2 << 20) as disk:
        job = disk.folder / "job"

        def fill() -> None:
            f = opened(job)
            f.schedule_many(pages("a"))
            f.commit()
            disk.fill(0)
            with pytest.raises(StorageFull):
                for number in range(1000):
                    f.schedule_many(f"https://h{host}.test/{number}" for host in range(200))
                    f.commit()

        pid = os.fork()
        if pid == 0:
            fill()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        slug, sentence, process = told(cli, job)
        assert slug == "disk_full"
        assert f"planted (process {pid}) stopped just now, because the disk was full" in sentence
        assert process["last_stop"]["end"] == "DISK_FULL" and "full" in process["last_stop"]["reason"]
        disk.clear()
        cli("adjust", job, "--total-budget", "5")  # the next process stores it
        assert told(cli, job)[0] == "disk_full"
        rows = json.loads(cli("runs", job, "--format", "json").out)
        assert [(row["end"], row["pid"]) for row in rows] == [("DISK_FULL", pid)]


@pytest.mark.parametrize(
    ("end", "reason", "said"),
    [
        (RunEnd.LIMIT, "limits.max_time", "stopped at a limit just now (limits.max_time)"),
        (RunEnd.SIGNAL, "SIGTERM", "was stopped by a signal just now (SIGTERM)"),
        (RunEnd.ERROR, "ValueError: x", "stopped just now because of an error (ValueError: x)"),
    ],
)
def test_it_stopped_for_another_reason(job: Path, cli: Cli, end: RunEnd, reason: str, said: str) -> None:
    f = opened(job)
    f.schedule_many(pages("a"))
    f.close(end=end, reason=reason)
    slug, sentence, process = told(cli, job)
    assert slug == end.lower() and said in sentence
    assert (process["last_stop"]["end"], process["last_stop"]["reason"]) == (end, reason)
    note = cli("report", job).err
    assert (f"to go on: raise {reason} (it is reached), then " in note) is (end is RunEnd.LIMIT)
    assert ("with the same limit it stops at once" in sentence) is (end is RunEnd.LIMIT)
    explained = cli("explain", job, pages("a")[0]).out
    assert (f"Raise {reason} first: with the same limit it stops at once." in explained) is (end is RunEnd.LIMIT)


def test_it_ended_with_work_left(job: Path, cli: Cli) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a"))
        f.lease(1)
    assert told(cli, job)[:2] == (
        "stopped",
        f"No process runs this crawl: planted (process {os.getpid()}) ended just now; the last commit was just now.",
    )


def test_a_command_does_not_hide_why_it_stopped(job: Path, cli: Cli) -> None:
    f = opened(job)
    f.schedule_many(pages("a"))
    f.close(end=RunEnd.LIMIT, reason="limits.max_uris")
    assert cli("adjust", job, "--total-budget", "5").code == 0
    assert cli("pause", job, "--who", "bob", "--reason", "night").code == 0
    slug, sentence, _ = told(cli, job)
    assert slug == "limit" and sentence.endswith("The crawl is paused by bob just now (night).")


@contextmanager
def process(code: str, job: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has a frontier open and has printed a line."""
    command = [sys.executable, "-c", code, str(job / "frontier")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline()
            yield child
        finally:
            child.kill()


OPEN = """
import sys, time
from budgetfrontier import Frontier
with Frontier.open(sys.argv[1], program=PROGRAM) as f:
    f.schedule_many(["https://a.test/1", "https://b.test/1"])
    f.lease(1)
    f.commit()
    print("open", flush=True)
    time.sleep(600)
"""


def test_its_process_hangs(job: Path, cli: Cli) -> None:
    with process(OPEN.replace("PROGRAM", "'spider'"), job) as child:
        assert told(cli, job)[0] == "running"
        os.utime(job / "frontier" / LOCK, (time.time() - HOUR,) * 2)
        slug, sentence, found = told(cli, job)
        assert slug == "hung" and f"spider (process {child.pid}) has the frontier open, but has not used it" in sentence
        assert "for 1h; the last commit was " in sentence
        assert (found["alive"], found["pid"], found["hung"]) == (True, child.pid, True)
        assert " Crawl state: RUNNING, but its process hangs" in cli("report", job).out
        explained = cli("explain", job, "b.test").out
        assert "has not used it for 1h" in explained and f"$ kill {child.pid}" in explained


def test_its_process_is_suspended(job: Path, cli: Cli) -> None:
    with process(OPEN.replace("PROGRAM", "'spider'"), job) as child:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT)
        os.utime(job / "frontier" / LOCK, (time.time() - HOUR,) * 2)
        slug, sentence, _ = told(cli, job)
        assert slug == "hung" and "It was stopped by a signal, and goes on with SIGCONT" in sentence
        assert f"$ kill -CONT {child.pid}" in cli("explain", job, "b.test").out


def test_a_command_has_it_open(job: Path, cli: Cli) -> None:
    with process(OPEN.replace("PROGRAM", "'budgetfrontier import'"), job) as child:
        assert told(cli, job)[:2] == (
            "command",
            f"No process crawls: budgetfrontier import (process {child.pid}) has the frontier open.",
        )


def test_a_repair_has_it_locked(job: Path, cli: Cli) -> None:
    def die() -> None:
        f = opened(job)
        f.schedule_many(pages("a"))
        f.commit()
        crash(f)

    in_child(die)
    with locked(job / "frontier"):
        slug, sentence, _ = told(cli, job)
    assert slug == "command"
    assert sentence.startswith(f"No process crawls: process {os.getpid()} has the frontier open; planted (process ")
    assert sentence.endswith("was killed, or crashed.")


# -- a process that works


def test_it_is_paused(job: Path, cli: Cli) -> None:
    with opened(job, ago=2 * HOUR) as f:
        f.schedule_many(pages("a"))
        (lease,) = f.lease(1)
        f.pause(who="alice", reason="night")
        f.commit()
        assert told(cli, job)[:2] == (
            "pausing",
            "The crawl is paused by alice 2h ago (night); 1 lease is still out, the oldest for 2h: https://a.test/0.",
        )
        f.finish(lease)
        f.commit()
        assert told(cli, job)[:2] == ("paused", "The crawl is paused by alice 2h ago (night).")
        assert "The crawl is paused by alice 2h ago (night)" in cli("explain", job, "a.test").out


def one_lease(f: Frontier) -> None:
    f.schedule_many(pages("a", "b"))
    f.lease(1)


def all_leased(f: Frontier) -> None:
    f.schedule_many(pages("a"))
    f.lease(2, ttl=10 * HOUR)


def asleep(f: Frontier) -> None:
    f.schedule_many(pages("a"))
    f.snooze("a.test", until=time.time() + HOUR + 30)


def asleep_for_robots(f: Frontier) -> None:
    f.schedule_many(pages("a", "b"))
    f.schedule(CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST))
    for host in "ab":
        f.snooze(f"{host}.test", until=time.time() + HOUR + 30)


def over_budget(f: Frontier) -> None:
    f.adjust(queue_total_budget=0)
    f.schedule_many(pages("a", "b"))
    fetch(f)
    f.adjust(match="queue:nobody.test", precedence=2)


def for_later(f: Frontier) -> None:
    f.schedule(CrawlUri("https://a.test/", not_before=time.time() + 2 * HOUR + 30))


def nobody_asks(f: Frontier) -> None:
    f.schedule_many(pages("a"))


@pytest.mark.parametrize(
    ("plant", "ago", "settings", "slug", "said"),
    [
        (one_lease, 0.0, {}, "running", "The crawl is running, 1 URI leased."),
        (nobody_asks, HOUR, {}, "not_asked", "1 queue is inactive, but planted (process "),
        (
            all_leased,
            48 * HOUR,
            {"max_queue_size": 1},
            "leased",
            "All that may be handed out is leased: 1 URI, the oldest for 2d: https://a.test/0.",
        ),
        (asleep, 0.0, {}, "snoozed", "All active queues are snoozed (1): the next one wakes in 1h"),
        (asleep_for_robots, 0.0, {}, "snoozed", "; 1 of them waits for its robots.txt"),
        (for_later, 0.0, {}, "later", "All that is left is scheduled for later: 1 URI, the first in 2h"),
        (
            one_lease,
            0.0,
            {"max_queued": 4},
            "full",
            "The frontier is full (4 of max_queued 4): new URIs are refused. The crawl is running, 1 URI leased.",
        ),
    ],
)
def test_a_process_is_at_work(
    job: Path,
    cli: Cli,
    plant: Callable[[Frontier], None],
    ago: float,
    settings: dict[str, Any],
    slug: str,
    said: str,
) -> None:
    with opened(job, ago=ago, hold_queues=plant in (nobody_asks, one_lease), **settings) as f:
        plant(f)
        f.commit()
        found, sentence, process = told(cli, job)
        assert found == slug and said in sentence
        assert process["alive"] and process["pid"] == os.getpid() and process["program"] == "planted"


def test_all_that_is_left_is_over_budget_and_retires_again(job: Path, cli: Cli) -> None:
    with opened(job, queue_total_budget=1, pause_at_finish=True) as f:
        f.schedule_many(pages("a", "b", count=5))
        fetch(f)
        f.pause()  # else they stay RETIRED, as the crawl is over
        f.adjust(match="queue:nobody.test", precedence=2)  # every RETIRED queue is reconsidered
        f.resume()
        f.commit()
        slug, sentence, _ = told(cli, job)
        assert slug == "over_budget"
        assert sentence.startswith(
            "All queues left are over their budget or limit, and retire on their turn: 2 queues; "
        )
        assert f.verdict().slug == "over_budget"


def test_a_process_that_only_schedules_has_asked_for_nothing(job: Path, cli: Cli) -> None:
    clock = ManualClock(time.time() - 300)
    with Frontier.open(job / "frontier", clock=clock, program="planted") as f:
        for host in "abcde":
            f.schedule_many(pages(host))
            f.commit()
            clock.advance(60)
        slug, sentence, _ = told(cli, job)
        assert slug == "not_asked" and sentence.startswith("5 queues are inactive, but planted (process ")
        assert f"{sentence}\nWhen: once the reasons above no longer hold" in cli("explain", job, "a.test").out
        told_end = cli("report", job, "--kind", "forecast").out
        assert re.match(r"Nobody has asked for a URI for \dm[\ds]*\. When the crawl ends is not known: ", told_end)


def test_the_leases_of_a_killed_process_are_out_no_more(job: Path, cli: Cli) -> None:
    f = opened(job)
    f.schedule_many(pages("a"))
    (lease,) = f.lease(1)
    f.commit()
    assert "for 5m more at the most" in cli("explain", job, lease.uri.url).out
    crash(f)
    gone = "a process that is gone: the next start takes back what it had leased."
    found = cli("explain", job, lease.uri.url).out
    assert f"It was being crawled, by {gone}" in found and "at the most" not in found
    found = cli("explain", job, "a.test").out
    assert f"a.test is IN_PROCESS: 1 URI is out, with {gone}" in found and "finished." not in found


# -- the history


def test_runs_are_listed_oldest_first_with_how_they_ended(job: Path, cli: Cli) -> None:
    for end, reason in (RunEnd.LIMIT, "limits.max_uris"), (RunEnd.SIGNAL, "SIGTERM"), (RunEnd.EXIT, "finished"):
        opened(job).close(end=end, reason=reason)
    rows = json.loads(cli("runs", job, "--format", "json").out)
    assert [(row["number"], row["end"], row["reason"]) for row in rows] == [
        (1, "LIMIT", "limits.max_uris"),
        (2, "SIGNAL", "SIGTERM"),
        (3, "EXIT", "finished"),
    ]
    assert rows[0]["program"] == "planted" and rows[0]["ended"] >= rows[0]["began"]
    assert [row["number"] for row in json.loads(cli("runs", job, "--format", "json", "--limit", 1).out)] == [3]
    answer = cli("runs", job, "--limit", 1, "--offset", 1)
    assert "SIGTERM" in answer.out and "limits" not in answer.out and "finished" not in answer.out
    assert answer.err.startswith("process: none; planted (process ")
    assert cli("runs", job, "--format", "csv").out.splitlines()[0].startswith("number,began,ended,lasted,end,reason")
    with opened(job):
        assert "running" in cli("runs", job).out


@pytest.mark.parametrize("command", [("undo", 77), ("adjust", "--remove", 77), ("delete", "--pattern", "regex:(")])
def test_a_command_that_was_refused_is_no_stop_of_the_crawl(job: Path, cli: Cli, command: tuple[object, ...]) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a"))
        f.close(end=RunEnd.SIGNAL, reason="SIGTERM")
    name, *options = command
    assert cli(name, job, *options).code != 0
    assert [row["reason"] for row in json.loads(cli("runs", job, "--format", "json").out)] == ["SIGTERM"]
    assert "was stopped by a signal" in cli("report", job).out


def test_the_command_that_is_suggested_works(job: Path, cli: Cli) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a"))
        f.pause(who="alice")
        f.commit()
        remedy = json.loads(cli("report", job, "--format", "json").out)["verdict"]["remedy"]
    assert cli(*shlex.split(remedy)[1:]).code == 0


def test_explain_says_what_helps_after_the_failure_of_a_policy(job: Path, cli: Cli) -> None:
    with opened(job) as f:
        f.schedule_many(pages("a", count=1))
        f.pause(reason="policy: the cost policy m:cost raised KeyError")
    found = cli("explain", job, "a.test").out
    assert "Fix the policy, and start the crawl again: it goes on by itself." in found and "resume" not in found
