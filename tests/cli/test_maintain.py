"""Commands that look after the files: compact, backup."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from budgetfrontier import Frontier
from tests.cli.conftest import Cli


def report(cli: Cli, job: Path) -> object:
    answer = cli("report", job, "--format", "json")
    assert answer.code == 0
    found = json.loads(answer.out)
    del found["generated"]
    return found


# -- compact


def test_compact_prints_bytes_before_and_after(stopped: Path, cli: Cli) -> None:
    before = report(cli, stopped)
    size = (stopped / "frontier" / "data.mdb").stat().st_size
    answer = cli("compact", stopped)
    after = (stopped / "frontier" / "data.mdb").stat().st_size
    assert (answer.code, answer.out, answer.err) == (0, f"before {size:,} bytes, after {after:,} bytes\n", "")
    assert after < size
    assert report(cli, stopped) == before
    assert cli("verify", stopped).code == 0


def test_compact_names_the_process_that_is_in_the_way(running: Path, cli: Cli) -> None:
    answer = cli("compact", running)
    assert answer.code == 5
    assert f"in use by process {(running / 'frontier' / 'lock').read_text().strip()}" in answer.err


# -- backup


def test_a_backup_is_a_job(job: Path, tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "backups" / "monday"
    answer = cli("backup", job, folder)
    size = (folder / "frontier" / "data.mdb").stat().st_size
    assert (answer.code, answer.out, answer.err) == (0, f"{folder / 'frontier'}: {size:,} bytes\n", "")
    assert report(cli, folder) == report(cli, job)
    assert cli("verify", folder).code == 0
    with Frontier.open(folder / "frontier") as frontier:
        assert frontier.settings.crawl == "resting"


def test_a_restore_is_a_copy(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("backup", stopped, tmp_path / "backup").code == 0
    before = report(cli, stopped)
    shutil.rmtree(stopped / "frontier")
    shutil.copytree(tmp_path / "backup", stopped, dirs_exist_ok=True)
    assert report(cli, stopped) == before
    assert cli("retire", stopped, "snoozed.test").code == 0


def test_a_backup_takes_the_place_of_one_that_was_killed(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    partial = tmp_path / "backup" / "frontier.partial"
    partial.mkdir(parents=True)
    (partial / "data.mdb").write_bytes(b"half of it")
    (partial / "lock").write_text("12345\n")
    assert cli("backup", stopped, tmp_path / "backup").code == 0
    assert [item.name for item in (tmp_path / "backup").iterdir()] == ["frontier"]
    assert cli("verify", tmp_path / "backup").code == 0


@pytest.mark.parametrize("held", ["frontier", "dear.txt"])
def test_a_folder_that_holds_something_is_refused(stopped: Path, tmp_path: Path, cli: Cli, held: str) -> None:
    folder = tmp_path / "backup"
    folder.mkdir()
    (folder / held).mkdir()
    (folder / held / "mine").touch()
    answer = cli("backup", stopped, folder)
    assert answer.code == 1 and "holds something" in answer.err
    assert [item.name for item in folder.iterdir()] == [held]
    (tmp_path / "file").touch()
    assert cli("backup", stopped, tmp_path / "file").code == 1


def test_a_backup_says_what_a_size_is(stopped: Path, tmp_path: Path, cli: Cli) -> None:
    answer = cli("backup", stopped, tmp_path / "backup", "--max-growth", "lots")
    assert answer.code == 2 and "a size" in answer.err
    assert cli("backup", stopped, tmp_path / "backup", "--max-growth", "64KiB").code == 0
