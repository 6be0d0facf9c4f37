"""The history of a crawl's runs: each end as its operator would ask for it, and what `report` says then."""

from __future__ import annotations

import errno
import signal
import subprocess
from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.core.model import Run, RunEnd
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.engine.remote import steer
from budgetfrontier.tools.cli import main
from tests.crawler.process import end, started
from tests.crawler.site import Page, Site, linking, run, text
from tests.crawler.test_operating import configure
from tests.crawler.test_signals import Endless
from tests.support import until

HOME = "http://a.test/"
WEB = {"a.test/": linking("/1", "/2"), "a.test/1": "", "a.test/2": ""}


def last_run(job: Path) -> Run:
    with Reader(job / "frontier") as reader:
        return reader.runs()[-1]


def verdict(job: Path) -> tuple[str, str]:
    with Reader(job / "frontier") as reader:
        found = reader.verdict()
    return found.slug, found.text


def test_a_crawl_that_has_finished(tmp_path: Path) -> None:
    with Site(WEB) as site:
        code, said = run(site.settings(HOME), tmp_path)
    assert code == 0 and "verdict finished" in said
    found = last_run(tmp_path)
    assert (found.end, found.reason, found.program) == (RunEnd.EXIT, "finished", "budgetfrontier crawl")
    assert found.leased is not None and found.leased >= 3
    assert verdict(tmp_path)[0] == "finished"
    report = (tmp_path / "reports" / "frontier.txt").read_text()
    assert " Process: none; budgetfrontier crawl (process " in report and "ended just now (finished)" in report


def test_a_crawl_at_a_limit(tmp_path: Path) -> None:
    with Site(WEB) as site:
        run(site.settings(HOME, limits={"max_uris": 2}), tmp_path)
    found = last_run(tmp_path)
    assert (found.end, found.reason) == (RunEnd.LIMIT, "limits.max_uris")
    slug, sentence = verdict(tmp_path)
    assert slug == "limit" and "stopped at a limit just now (limits.max_uris)" in sentence


def test_a_crawl_that_everything_was_forbidden_says_so_at_its_end(tmp_path: Path) -> None:
    pages = {f"a.test/{n}": "" for n in range(5)} | {"a.test/robots.txt": "User-agent: *\nDisallow: /\n"}
    with Site(pages) as site:
        _, said = run(site.settings(*[f"{HOME}{n}" for n in range(5)]), tmp_path)
    assert "crawl finished: nothing was crawled; of 5 URIs, 5 were disregarded because of robots.txt" in said
    assert verdict(tmp_path)[0] == "disregarded"


@pytest.mark.parametrize(
    ("pages", "seeds", "slug", "told"),
    [
        ({}, ["1", "2", "3"], "error_answers", "of 3 URIs, 3 answered with an error status (404: 3)."),
        ({"a.test/robots.txt": text("", status=503)}, ["1", "2"], "dead_letters", "of 2 URIs, 2 became dead letters."),
        (
            {"a.test/robots.txt": "", "a.test/1": text("", status=503)},
            ["1"],
            "dead_letters",
            "of 1 URI, 1 became a dead letter.",
        ),
    ],
)
def test_a_crawl_that_crawled_nothing_says_so(
    pages: dict[str, Page], seeds: list[str], slug: str, told: str, tmp_path: Path
) -> None:
    with Site(pages) as site:
        _, said = run(site.settings(*[HOME + seed for seed in seeds]), tmp_path)
    assert verdict(tmp_path) == (slug, f"The crawl is finished: nothing was crawled; {told}")
    assert f"crawl finished: nothing was crawled; {told[:-1]}" in said and "done: 0 crawled, " in said


def test_a_crawl_that_was_asked_to_stop(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as process:
        until(lambda: len(site.hits) > 10, process)
        process.send_signal(signal.SIGTERM)
        end(process)
    found = last_run(tmp_path / "job")
    assert (found.end, found.reason, found.pid) == (RunEnd.SIGNAL, "SIGTERM", process.pid)
    assert verdict(tmp_path / "job")[0] == "signal"


def test_a_crawl_that_was_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as process:
        until(lambda: len(site.hits) > 10, process)
        with Reader(tmp_path / "job" / "frontier") as reader:
            assert reader.process().pid == process.pid and reader.verdict().slug == "running"
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert main(["report", str(tmp_path / "job")]) == 0
    assert f"budgetfrontier crawl (process {process.pid}) was killed, or crashed" in capsys.readouterr().out
    assert last_run(tmp_path / "job").end is RunEnd.KILLED


def test_a_crawl_that_was_terminated(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as process:
        until(lambda: len(site.hits) > 10, process)
        steer(tmp_path / "job" / "frontier", "terminate", {}, who="alice", reason="enough", timeout=None)
        end(process)
    found = last_run(tmp_path / "job")
    assert (found.end, found.reason) == (RunEnd.OPERATOR, "terminated by alice (enough)")
    assert verdict(tmp_path / "job")[1].startswith("The crawl was terminated by alice")


def test_a_crawl_whose_process_is_stopped_hangs(tmp_path: Path) -> None:
    with Endless() as site, started(site, tmp_path, "http://a.test/0") as process:
        until(lambda: len(site.hits) > 10, process)
        lock = tmp_path / "job" / "frontier" / "lock"
        process.send_signal(signal.SIGSTOP)
        threads = list(Path(f"/proc/{process.pid}/task").glob("*/stat"))
        until(lambda: all(stat.read_text().rpartition(") ")[2].startswith("T") for stat in threads), process)
        subprocess.run(["touch", "-d", "1 hour ago", lock], check=True)
        assert verdict(tmp_path / "job")[0] == "hung"


def test_a_crawl_whose_outputs_have_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(outputs: Outputs) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "logs" / "crawl.log"))

    monkeypatch.setattr(Outputs, "sync", full)
    with Site(WEB) as site, pytest.raises(OSError, match="No space left"):
        run(site.settings(HOME), tmp_path)
    found = last_run(tmp_path)
    assert found.end is RunEnd.DISK_FULL and "crawl.log" in found.reason
    assert verdict(tmp_path)[0] == "disk_full"


def test_commands_leave_no_runs(tmp_path: Path) -> None:
    with Site(WEB) as site:
        config = configure(site, tmp_path, HOME)
        assert main(["crawl", str(config), "--job", str(tmp_path / "job")]) == 0
        assert main(["import", str(tmp_path / "job"), "http://b.test/", "--seeds"]) == 0
        assert main(["adjust", str(tmp_path / "job"), "--total-budget", "5"]) == 0
    assert last_run(tmp_path / "job").number == 1
