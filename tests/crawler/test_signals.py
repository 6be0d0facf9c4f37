"""A crawl as its operator runs it: from a YAML file, in a process of its own, interrupted and steered."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from aiohttp import web

from budgetfrontier import CrawlState, Frontier, QueueRecord, Reader, Report
from budgetfrontier.engine.remote import steer
from tests.crawler.process import COMMAND, UNDER_NOHUP, end, started
from tests.crawler.site import Site, linking, reopened, run
from tests.forked import ForkedProcess
from tests.support import PATIENCE, child_process, make_settings, until


class Endless(Site):
    """Every page links to the next two; "/slow" is not answered before it is `released`."""

    def __init__(self) -> None:
        super().__init__({})
        self.released = threading.Event()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.hits[request.path] += 1
        if request.path == "/slow":
            while not self.released.is_set():
                await asyncio.sleep(0.01)
            return web.Response(text="at last")
        number = int(request.path[1:]) if request.path[1:].isdigit() else 0
        return web.Response(text=linking(f"/{2 * number + 1}", f"/{2 * number + 2}"), content_type="text/html")


def look(frontier: Path, queue: str) -> QueueRecord | None:
    """A queue as of the last commit."""
    with Reader(frontier) as reader:
        return reader.queue(queue)


def until_said(words: str, process: subprocess.Popen[str] | ForkedProcess) -> None:
    """Read what a process says on stderr, up to the line with these words; an early end fails."""
    assert process.stderr is not None
    while words not in (line := process.stderr.readline()):
        assert line, f"it ended without saying {words!r}"


def test_interrupted_once_it_finishes_what_is_in_flight(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://slow.test/slow", "http://a.test/0") as process:
        until(lambda: site.hits["/slow"] > 0 and len(site.hits) > 10, process)
        process.send_signal(signal.SIGINT)
        until_said("in flight; Ctrl-C or SIGTERM again stops at once", process)
        site.released.set()
        code, said = end(process)
        fetched = sum(site.hits.values())
    assert code == 0 and "stopped: interrupted" in said
    assert "Traceback" not in said and "\x1b" not in said
    with reopened(tmp_path / "job") as frontier:
        summary = frontier.summary()
        assert (summary.succeeded, summary.in_process, summary.state) == (fetched, 0, CrawlState.RUNNING)
        slow = frontier.queue("slow.test")
        assert slow is not None and slow.expenditure == 1
    assert json.loads((tmp_path / "job/reports/frontier.json").read_text())["totals"]["succeeded"] == fetched


def test_interrupted_twice_it_stops_at_once_and_goes_on_later(tmp_path: Path) -> None:
    seeds = ("http://slow.test/slow", "http://a.test/0")
    with Endless() as site:
        with started(site, tmp_path, *seeds) as process:
            until(lambda: site.hits["/slow"] > 0 and len(site.hits) > 10, process)
            process.send_signal(signal.SIGINT)
            until_said("in flight; Ctrl-C or SIGTERM again stops at once", process)
            process.send_signal(signal.SIGINT)
            code, said = end(process)
        assert code == 1 and "stopped at once" in said and "Traceback" not in said
        with reopened(tmp_path / "job") as frontier:
            done = frontier.summary().succeeded
            slow = frontier.queue("slow.test")
            assert slow is not None and (slow.queued, slow.expenditure) == (1, 0)
        site.released.set()
        before = site.hits.copy()
        with started(site, tmp_path, *seeds, limits={"max_uris": done + 10}) as process:
            code, said = end(process)
        assert code == 0 and "limits.max_uris" in said
        again = {path for path in before if site.hits[path] > before[path]}
    # Only what was in flight, at most the concurrency, is fetched again.
    assert "/slow" in again and len(again) <= 4
    with reopened(tmp_path / "job") as frontier:
        assert frontier.summary().succeeded == done + 10


def test_a_lookup_that_hangs_holds_up_no_stop(tmp_path: Path) -> None:
    (tmp_path / "crawl.yaml").write_text("seeds: [http://a.example/]\n")
    hanging = "import socket, time; socket.getaddrinfo = lambda *_, **__: print(flush=True) or time.sleep(600); "
    command = [*COMMAND[:2], hanging + COMMAND[2], "crawl", str(tmp_path / "crawl.yaml"), "--job"]
    command.append(str(tmp_path / "job"))
    with child_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            until_said("again stops at once", process)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 1 and "stopped at once" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_stop_it_as_ctrl_c_does(tmp_path: Path, number: signal.Signals) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as process:
        until(lambda: len(site.hits) > 5, process)
        process.send_signal(number)
        code, said = end(process)
    assert code == 0 and "stopped: interrupted" in said


def test_under_nohup_it_goes_on_when_its_terminal_is_closed(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0", command=UNDER_NOHUP) as process:
        until(lambda: len(site.hits) > 5, process)
        process.send_signal(signal.SIGHUP)
        before = len(site.hits)
        until(lambda: len(site.hits) > before + 10, process)
        process.send_signal(signal.SIGINT)
        code, said = end(process)
    assert code == 0 and "stopped: interrupted" in said


SIGNALLED = """
import atexit, os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
moment, name, times = sys.argv[1], sys.argv[2], int(sys.argv[3])
del sys.argv[1:4]

def ask():
    for _ in range(times):
        os.kill(os.getpid(), signal.Signals[name])

def between(owner, function, before=True):
    original = getattr(owner, function)
    def wrapped(*arguments, **options):
        if before:
            ask()
        result = original(*arguments, **options)
        if not before:
            ask()
        return result
    setattr(owner, function, wrapped)

def at_exit():
    if moment == "exit":
        ask()

atexit.register(at_exit)  # what is registered later is called earlier
from budgetfrontier import __main__ as program
if moment == "import":
    from budgetfrontier.crawler import interrupts
    between(interrupts, "install_for_process", before=False)
elif moment != "exit":
    from budgetfrontier.crawler import job
    owner, function, before = {
        "opening": (job.Frontier, "open", True),
        "seeds": (job, "scheduled_seeds", True),
        "closing": (job.Outputs, "close", True),
        "report": (job.report_files, "write", True),
        "told": (job.Job, "_summarize", False),
    }[moment]
    between(owner, function, before)
sys.exit(program.main())
"""


def signalled(folder: Path, moment: str, number: signal.Signals, times: int) -> tuple[int, str]:
    """Crawl one page in a process that sends signals to itself; its exit code and what was said."""
    with Site({"a.test/": "the page"}) as site, started(site, folder, "http://a.test/") as process:
        process.kill()  # its configuration is all that is wanted
        process.wait()
        command = [sys.executable, "-c", SIGNALLED, moment, number.name, str(times), "crawl", f"{folder}/crawl.yaml"]
        ended = subprocess.run(
            [*command, "--job", str(folder / "own")], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("moment", "number", "said"),
    [
        ("import", signal.SIGTERM, "stopped: interrupted"),
        ("opening", signal.SIGHUP, "stopped: interrupted"),
        ("seeds", signal.SIGINT, "stopped: interrupted"),
        ("closing", signal.SIGTERM, "crawl finished"),
        ("report", signal.SIGINT, "crawl finished"),
        ("told", signal.SIGINT, "crawl finished"),
        ("exit", signal.SIGTERM, "crawl finished"),
    ],
)
def test_a_signal_at_any_moment_ends_a_crawl_with_0(
    tmp_path: Path, moment: str, number: signal.Signals, said: str
) -> None:
    code, told = signalled(tmp_path, moment, number, times=1)
    assert code == 0 and said in told
    with reopened(tmp_path / "own") as frontier:
        assert frontier.summary().scheduled == 1


@pytest.mark.parametrize(
    ("moment", "number", "code", "said"),
    [
        ("opening", signal.SIGTERM, 1, "stopped at once"),
        ("seeds", signal.SIGINT, 1, "stopped at once"),
        ("closing", signal.SIGTERM, 0, "crawl finished"),
        ("report", signal.SIGHUP, 1, "stopped at once"),
        ("exit", signal.SIGINT, 0, "crawl finished"),
    ],
)
def test_two_signals_stop_it_at_once_where_there_is_more_to_do(
    tmp_path: Path, moment: str, number: signal.Signals, code: int, said: str
) -> None:
    ended, told = signalled(tmp_path, moment, number, times=2)
    assert ended == code and said in told
    Frontier.open(tmp_path / "own" / "frontier", make_settings()).close()  # whatever was there, it can go on


def test_a_crawl_in_a_program_of_ones_own_gives_the_signals_back(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    with Site({"a.test/": "the page"}) as site:
        assert run(site.settings("http://a.test/", fetch={"robots": "ignore"}), tmp_path)[0] == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_reports_are_written_while_it_crawls_and_are_whole_at_any_time(tmp_path: Path) -> None:
    folder = tmp_path / "job/reports"
    seen: set[float] = set()
    with Endless() as site, started(site, tmp_path, "http://a.test/0", reports={"every": 0.05}) as process:

        def read() -> bool:
            if (folder / "frontier.json").exists():
                report = json.loads((folder / "frontier.json").read_text())
                assert report["state"] == "RUNNING" and [row["queue"] for row in report["queues"]] == ["a.test"]
                assert "RUN - 1 URI queues" in (folder / "frontier.txt").read_text()
                seen.add(report["generated"])
            return len(seen) == 3

        until(read, process)
        process.send_signal(signal.SIGINT)
        code, said = end(process)
    assert code == 0 and "Traceback" not in said
    last = json.loads((folder / "frontier.json").read_text())
    assert last["generated"] > max(seen) and last["totals"]["in_process"] == 0
    assert sorted(path.name for path in folder.iterdir()) == ["frontier.json", "frontier.txt"]


def test_commands_reach_a_running_crawl(tmp_path: Path) -> None:
    frontier = tmp_path / "job/frontier"
    with Endless() as site:
        with started(site, tmp_path, "http://a.test/0") as process:
            until(lambda: len(site.hits) > 5, process)
            entry = steer(frontier, "adjust", {"match": "queue:a.test", "set": {"queue_total_budget": 3}}, who="me")
            assert entry.effect["after"] == {"queue_total_budget": 3}
            code, said = end(process)
        assert code == 0 and "crawl finished" in said
        with started(site, tmp_path, "http://a.test/0", "http://b.test/0") as process:
            until(lambda: (queue := look(frontier, "b.test")) is not None and queue.expenditure > 5, process)
            steer(frontier, "pause", {"reason": "lunch"}, who="me")
            until(lambda: Report.read(frontier).state is CrawlState.PAUSED, process)
            fetched = Report.read(frontier).totals.succeeded
            steer(frontier, "resume", {}, who="me")
            until(lambda: Report.read(frontier).totals.succeeded > fetched, process)
            steer(frontier, "terminate", {}, who="me")
            code, said = end(process)
    assert code == 0 and "crawl terminated" in said


def test_a_second_crawl_of_a_job_is_refused(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as first:
        until(lambda: len(site.hits) > 2, first)
        with started(site, tmp_path, "http://a.test/0") as second:
            code, said = end(second)
        assert code == 5 and str(first.pid) in said
        first.send_signal(signal.SIGINT)
        assert end(first)[0] == 0


def test_the_job_is_named_after_the_crawl(tmp_path: Path) -> None:
    (tmp_path / "crawl.yaml").write_text("crawl: news 2026/11\nseeds: []\n")
    command = [*COMMAND, "crawl", "crawl.yaml", "--paused"]
    with child_process(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            frontier = tmp_path / "news-2026-11/frontier"
            until(lambda: (frontier / "data.mdb").exists() and Report.read(frontier).state == "PAUSED", process)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["crawl.yaml", "news-2026-11"]
        finally:
            process.kill()


@pytest.mark.parametrize("seeds", ["[]", "[{file: seeds.txt}]"])
def test_a_crawl_of_nothing_leaves_no_folder(tmp_path: Path, seeds: str) -> None:
    (tmp_path / "crawl.yaml").write_text(f"crawl: news\nseeds: {seeds}\n")
    (tmp_path / "seeds.txt").write_text("# none yet\n")
    ended = subprocess.run([*COMMAND, "crawl", "crawl.yaml"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and "nothing to crawl" in ended.stderr and "--paused" in ended.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["crawl.yaml", "seeds.txt"]
