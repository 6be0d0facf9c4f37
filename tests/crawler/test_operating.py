"""A crawl as its operator sees it: from a first configuration to the end, and what may be done to it meanwhile."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlState, Report
from tests.crawler.conftest import Asked
from tests.crawler.process import COMMAND, forked_main
from tests.crawler.site import Site, linking, reopened, run, text
from tests.forked import ForkedProcess
from tests.support import PATIENCE, child_process, until

HOME = "http://a.test/"
FAST = {"politeness": {"min_delay": 0, "delay_factor": 0, "max_delay": 0}}
AGENT = "tester/1 (+http://a.test/about)"
WIDE = {"a.test/": linking(*map(str, range(9))), "b.test/": linking("/1"), "b.test/1": "x"}


def configure(site: Site, folder: Path, *seeds: str, frontier: dict[str, Any] | None = None, **sections: Any) -> Path:
    config = folder / "crawl.yaml"
    fetch = {"resolve": {"*.test": site.address}, "robots": "ignore", "user_agent": AGENT}
    chosen = {"crawl": "mine", "seeds": list(seeds) or [HOME], "fetch": fetch, "frontier": FAST | (frontier or {})}
    config.write_text(json.dumps(chosen | sections))
    return config


def pages(site: Site) -> set[str]:
    return {place for place in site.hits if "robots" not in place}


def test_a_first_crawl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Asked) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked("init", "crawl.yaml")[0] == 0
    config = Path("crawl.yaml")
    embedding = '<img src="http://cdn.test/i.png">' + linking("/1", "http://other.test/")
    with Site({"www.a.test/": embedding, "www.a.test/1": "x", "cdn.test/i.png": text("i")}) as site:
        written = config.read_text().replace("https://www.example.org/\n", "http://www.a.test/\n", 1)
        written = written.replace(
            "  user_agent: my-crawler/1.0", f'  user_agent: "{AGENT}"\n  resolve: {{"*": "{site.address}"}}'
        )
        config.write_text(written.replace("min_delay: 3s", "min_delay: 0s"))
        code, said = asked("check-config", config)
        assert code == 0 and "warning" not in said
        code, said = asked("crawl", config)
    archived = {"www.a.test/", "www.a.test/1", "cdn.test/i.png", "www.a.test/favicon.ico"}  # which can be replayed
    assert code == 0 and pages(site) == archived and "  my-crawl/warcs: 1 file, " in said
    lines = said.splitlines()
    assert any(line.startswith("crawl finished: ") for line in lines) and not any("warning" in line for line in lines)
    assert "  my-crawl/reports: 2 files, " in said and "  my-crawl/logs: " in said
    assert lines[-1].startswith("to crawl more: add seeds (budgetfrontier import my-crawl --seeds FILE), and run")
    assert lines[-1].endswith(" the same command: budgetfrontier crawl crawl.yaml")


@pytest.mark.parametrize(
    ("limits", "shown"), [({"max_uris": 4}, "4"), ({"max_bytes": 150}, "150 B"), ({"max_time": 0.001}, "0:00:00")]
)
def test_a_limit_counts_over_all_runs(tmp_path: Path, limits: dict[str, Any], shown: str) -> None:
    (name,) = limits
    fetch = {"robots": "ignore", "concurrency": 1}
    with Site({"a.test/": linking(*map(str, range(500)))}) as site:
        counts = []
        for _ in range(3):
            code, said = run(site.settings(HOME, fetch=fetch, limits=limits), tmp_path)
            assert code == 0
            assert f"stopped: limits.{name} is reached; raise limits.{name} (now {shown}) and run the same" in said
            counts.append(site.hits.total())
        assert counts[0] == counts[1] == counts[2] < 20  # the first run used it up
        run(site.settings(HOME, fetch=fetch, limits={"max_uris": 30}), tmp_path)
    assert site.hits.total() == 30 and set(site.hits.values()) == {1}


def test_what_the_end_says_can_be_pasted_and_goes_on(tmp_path: Path, asked: Asked) -> None:
    job = tmp_path / "the job's"
    frontier = {"queue_total_budget": 3, "pause_at_finish": True}
    with Site(WIDE) as site:
        config = configure(site, tmp_path, HOME, "http://b.test/", frontier=frontier)
        code, said = asked("crawl", config, "--job", job)
        assert code == 0 and "paused at finish: 1 queue is retired, with 6 URIs" in said
        assert site.hits.total() == 4 + 2
        commands = [line.strip() for line in said.splitlines() if line.startswith("    budgetfrontier ")]
        commands.append(said.splitlines()[-1].removeprefix("then run the same command: "))
        assert len(commands) == 2
        shell = f'budgetfrontier() {{ {sys.executable} -m budgetfrontier "$@"; }}\n' + "\n".join(commands)
        ended = subprocess.run(["sh", "-e", "-c", shell], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 0
    assert "paused at finish: 1 queue is retired, with 2 URIs" in ended.stderr  # one more session
    assert site.hits.total() == 8 + 2 and set(site.hits.values()) == {1}


def test_seeds_are_added_to_a_crawl_that_was_started_paused(tmp_path: Path, asked: Asked) -> None:
    listed = tmp_path / "seeds.txt"
    listed.write_text("http://b.test/\nhttp://new.test/\nnonsense\n")
    web = WIDE | {"new.test/": linking("/in", "http://out.test/"), "link.test/": linking("/out"), "c.test/": "x"}
    with Site(web) as site:
        config, job = configure(site, tmp_path), tmp_path / "job"
        with ForkedProcess(forked_main, "crawl", str(config), "--job", str(job), "--paused") as process:
            try:
                until(lambda: (job / "frontier/data.mdb").exists() and is_paused(job), process)
                assert asked("import", job, listed, "--seeds")[0] == 0
                assert asked("import", job, "http://link.test/")[0] == 0
                assert not site.hits
                assert asked("resume", job)[0] == 0
                _, said = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert process.returncode == 0, said
    assert f"the crawl is paused (started paused); `budgetfrontier resume {job}` goes on" in said
    seeds = {"b.test/", "b.test/1", "new.test/", "new.test/in"}
    assert pages(site) == {"a.test/", *(f"a.test/{n}" for n in range(9)), *seeds, "link.test/"}


def test_a_crawl_without_seeds_waits_for_those_that_are_imported(tmp_path: Path, asked: Asked) -> None:
    with Site(WIDE) as site:
        config, job = configure(site, tmp_path), tmp_path / "job"
        config.write_text(json.dumps(json.loads(config.read_text()) | {"seeds": []}))
        with ForkedProcess(forked_main, "crawl", str(config), "--job", str(job), "--paused") as process:
            try:
                until(lambda: (job / "frontier/data.mdb").exists() and is_paused(job), process)
                assert asked("import", job, "http://b.test/", "--seeds")[0] == 0
                assert asked("resume", job)[0] == 0
                _, said = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
    assert process.returncode == 0, said
    assert pages(site) == {"b.test/", "b.test/1"}


def is_paused(job: Path) -> bool:
    return Report.read(job / "frontier").state is CrawlState.PAUSED


def test_seeds_are_added_to_a_crawl_that_is_finished(tmp_path: Path, asked: Asked) -> None:
    with Site(WIDE) as site:
        config, job = configure(site, tmp_path), tmp_path / "job"
        assert asked("crawl", config, "--job", job)[0] == 0
        code, said = asked("import", job, "http://b.test/", "--seeds")
        assert code == 0 and said.splitlines() == [
            "http://b.test/: added",
            f"no process runs this crawl; to go on: budgetfrontier crawl {config} --job {job}",
        ]
        code, said = asked("crawl", config, "--job", job)
    assert code == 0 and "crawl finished" in said
    assert site.hits["b.test/1"] == 1 and set(site.hits.values()) == {1}


@contextmanager
def terminal(columns: int) -> Iterator[tuple[int, int]]:
    """Both ends of a terminal of so many columns."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        yield ours, theirs
    finally:
        os.close(ours)


def read(end: int) -> bytes:
    """What the other end of a terminal wrote; nothing once it is closed."""
    try:
        return os.read(end, 65536)
    except OSError:
        return b""


@pytest.mark.parametrize("columns", [80, 40])
def test_on_a_terminal_a_table_is_shown_until_the_end(tmp_path: Path, columns: int) -> None:
    wide = {"a.test/0": linking(*(f"/{n}" for n in range(1, 5000)))}
    variables = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    with Site(wide) as site, terminal(columns) as (ours, theirs):
        config = configure(site, tmp_path, "http://a.test/0", limits={"max_uris": 5000})
        command = [*COMMAND, "crawl", str(config), "--job", str(tmp_path / "job")]
        process = subprocess.Popen(command, stderr=theirs, env=variables | {"TERM": "xterm-256color"})
        os.close(theirs)
        seen = b""
        bound = threading.Timer(PATIENCE, process.kill)
        bound.start()
        try:
            while chunk := read(ours):
                seen += chunk
                if b"max_uris" in seen and process.poll() is None:
                    process.send_signal(signal.SIGINT)
                    break
            while chunk := read(ours):
                seen += chunk
            assert process.wait(timeout=PATIENCE) == 0, seen.decode()
        finally:
            bound.cancel()
            process.kill()
            process.wait()
    assert b"stopped: interrupted" in seen and b"in flight" in seen and b"fetched" in seen and b"Traceback" not in seen
    after = seen[seen.rindex(b"\x1b[?25h") :]  # the cursor is back
    assert b"\x1b[2K" in after


def test_a_crawl_goes_on_when_the_reader_of_its_progress_goes_away(tmp_path: Path) -> None:
    with Site(WIDE) as site:
        config = configure(site, tmp_path)
        command = [*COMMAND, "crawl", str(config), "--job", str(tmp_path / "job")]
        with child_process(command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            process.stderr.close()
            assert process.wait(timeout=PATIENCE) == 0
    assert len(pages(site)) == 10
    with reopened(tmp_path / "job") as frontier:
        assert frontier.state is CrawlState.FINISHED
