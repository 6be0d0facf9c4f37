"""`jobs`: several jobs with the verdict on each, the ill ones first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.testing import crash
from tests.tools.cli.conftest import Cli


@pytest.fixture
def jobs(tmp_path: Path) -> Path:
    """A folder of jobs: `a` is finished, the process of `b` was killed, `c` is damaged, and `notes` is no job."""
    for name in ("a", "b"):
        frontier = Frontier.open(tmp_path / name / "frontier", Settings.from_dict({"crawl": f"crawl-{name}"}))
        frontier.schedule(f"http://{name}.test/")
        frontier.commit()
        if name == "b":
            crash(frontier)
        else:
            frontier.finish(frontier.lease(1)[0])
            frontier.close()
    (tmp_path / "c" / "frontier").mkdir(parents=True)
    (tmp_path / "c" / "frontier" / "data.mdb").write_bytes(b"x" * 10_000)
    (tmp_path / "notes").mkdir()
    return tmp_path


def test_the_ill_ones_come_first_with_why(jobs: Path, cli: Cli) -> None:
    answer = cli("jobs", jobs, "--format", "json")
    assert answer.code == 0
    rows = json.loads(answer.out)
    assert [(Path(row["job"]).name, row["level"], row["crawl"], row["verdict"]) for row in rows] == [
        ("b", "bad", "crawl-b", "killed"),
        ("c", "bad", None, None),
        ("a", "good", "crawl-a", "finished"),
    ]
    killed, damaged, finished = rows
    assert "was killed, or crashed" in killed["text"] and (killed["state"], killed["queued"]) == ("RUNNING", 1)
    assert damaged["text"] and damaged["queued"] is damaged["last_commit"] is None
    assert finished["rate"] is None and finished["last_commit"]


def test_a_table_for_people(jobs: Path, cli: Cli) -> None:
    answer = cli("jobs", jobs / "a", jobs / "b", "--limit", "1")
    assert (answer.code, len(answer.out.splitlines())) == (0, 2)
    assert answer.out.startswith("level  job ") and "killed" in answer.out and "crawl-a" not in answer.out


def test_present_problems_count_beside_a_good_verdict(jobs: Path, cli: Cli) -> None:
    done = jobs / "a" / "action" / "done"
    done.mkdir(parents=True)
    (done / "x.urls.1.error.json").write_text("{}")
    (row,) = json.loads(cli("jobs", jobs / "a", "--format", "json").out)
    assert (row["level"], row["verdict"]) == ("warn", "finished") and "1 file of action/ failed" in row["text"]


def test_folders_without_a_job(jobs: Path, cli: Cli) -> None:
    assert "passed over, for there is no frontier" in cli("jobs", jobs / "notes", jobs / "a").err
    assert cli("jobs", jobs / "notes").code == 1
