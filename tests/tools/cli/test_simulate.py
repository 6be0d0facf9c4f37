"""`simulate`: how a crawl goes on, without a change to the job."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from budgetfrontier.rules.simulation import Step
from budgetfrontier.tools.cli import simulate
from budgetfrontier.tools.simulation import copies
from tests.cluster.log import Log, Owner
from tests.support import until
from tests.tools.cli.conftest import Cli


def files(job: Path) -> dict[str, bytes]:
    """Return what the files of a job contain, those aside in which readers register."""
    return {str(path): path.read_bytes() for path in job.rglob("*") if path.is_file() and path.name != "lock.mdb"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the copies, which is empty after each test."""
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr(copies, "MEMORY", folder)
    yield folder
    assert not list(folder.iterdir())


def test_the_files_of_the_job_stay_as_they_are(stopped: Path, cli: Cli) -> None:
    before = files(stopped)
    answer = cli("simulate", stopped, "--format", "json")
    assert answer.code == 0
    assert list(json.loads(answer.out)) == ["today"]
    assert files(stopped) == before


def test_a_running_crawl_goes_on(running: Path, cli: Cli) -> None:
    answer = cli("simulate", running, "--set", "queue_total_budget=1", "--until", "2h", "--format", "json")
    assert answer.code == 0
    found = json.loads(answer.out)
    assert list(found) == ["today", "proposed"]
    assert found["proposed"]["retired"] > found["today"]["retired"]
    assert cli("audit", running, "--operation", "adjust", "--format", "json").out == "[]\n"


def test_the_table_has_both_beside_each_other(stopped: Path, cli: Cli) -> None:
    answer = cli("simulate", stopped, "--set", "queue_total_budget=1", "--match", "host:snoozed.test")
    lines = answer.out.splitlines()
    assert lines[0].split() == ["today's", "settings", "proposed"]
    assert ["ends", "of", "3", "draws"] in [line.split()[:4] for line in lines]
    assert lines[-1].startswith("New hosts are not simulated: ")
    assert ["retired", "queues", "2", "3"] in [line.split() for line in lines]
    assert "simulated on a copy of " in answer.err and str(copies.MEMORY) in answer.err


def test_a_pattern_that_matches_no_queue_is_said(stopped: Path, cli: Cli) -> None:
    settings = "--set", "queue_total_budget=1"
    said = cli("simulate", stopped, *settings, "--match", "host:nosuch.test")
    assert said.code == 0 and "host:nosuch.test matches no URI that is next in its queue" in said.err
    assert "matches the next" not in cli("simulate", stopped, *settings, "--match", "domain:test").err


def test_nothing_fetched_so_far_is_said(tmp_path: Path, cli: Cli) -> None:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("http://a.test/")
    said = cli("simulate", tmp_path / "job")
    assert said.code == 0 and "nothing was fetched in this crawl so far" in said.err
    assert "its interface" not in said.err


def test_how_far_it_is_and_how_long_it_will_take_is_said() -> None:
    done = [Step(300, 60.0, 0.75), Step(200, 40.0, 0.5)]
    assert simulate._how_far(done, 20.0) == "50%, about 20s left: simulated 300 fetches in 1m | 200 fetches in 40s"
    assert "left" not in simulate._how_far([Step()], 20.0)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--set", "no_such=1"), "no_such"),
        (("--set", "queue_total_budget=x"), "queue_total_budget"),
        (("--match", "host:a.test"), "--match is for --set"),
        (("--set", "cost_policy=wag", "--cost-policy", "unit"), "set twice"),
        (("--until", "soon"), "expected a duration"),
        (("--draws", "101"), "101 is more than 100"),
        (("--set", "label=x"), 'unknown setting "label"'),
    ],
)
def test_wrong_options_are_refused(stopped: Path, cli: Cli, options: tuple[str, ...], why: str) -> None:
    answer = cli("simulate", stopped, *options)
    assert answer.code in (2, 4)
    assert why in answer.err


def test_a_terminated_crawl_is_refused(stopped: Path, cli: Cli) -> None:
    with Frontier.open(stopped / "frontier") as frontier:
        frontier.terminate()
    answer = cli("simulate", stopped)
    assert answer.code == 1
    assert "terminated" in answer.err


def test_a_partition_is_simulated_while_its_worker_has_it(tmp_path: Path, cli: Cli) -> None:
    with closing(Owner(tmp_path / "partition-0000", Log())) as owner:
        owner.schedule(*(f"https://host.test/{page}" for page in range(5)))
        owner.lease(1)
        owner.commit()
        answer = cli("simulate", owner.partition.folder, "--fetchers", "2", "--draws", "1", "--format", "json")
        assert answer.code == 0
        assert json.loads(answer.out)["today"]["succeeded"] == 5
        assert len(owner.lease(1)) + owner.partition.frontier.summary().queued == 5


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_and_remove_the_copies(tmp_path: Path, number: signal.Signals) -> None:
    endless = tmp_path / "job" / "frontier"
    with Frontier.open(endless, {"frontier": {"revisit": {"after": "1m"}}}) as frontier:
        frontier.schedule_many(f"http://host{host}.test/" for host in range(1000))
    place = tmp_path / "there"
    place.mkdir()
    code = (
        "import sys, pathlib; from budgetfrontier.tools.simulation import copies; "
        f"copies.MEMORY = pathlib.Path({str(place)!r}); from budgetfrontier.tools.cli import main; sys.exit(main())"
    )
    command = [sys.executable, "-c", code, "simulate", str(tmp_path / "job")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            until(lambda: any(place.glob("*/0/mailbox")), process)
            process.send_signal(number)
            process.communicate()
        finally:
            process.kill()
    assert process.returncode == 130
    assert not list(place.iterdir())
