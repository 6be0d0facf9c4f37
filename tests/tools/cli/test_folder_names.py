"""Jobs in folders whose names are not text: file systems take any bytes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.tools.cli import main


@pytest.mark.parametrize(
    "command",
    [
        "report",
        "report --format json",
        "report --format html",
        "queues",
        "runs",
        "audit",
        "verify",
        "retire JOB a.test",
    ],
)
def test_a_job_in_a_folder_with_any_name_is_shown_and_steered(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    folder = tmp_path / os.fsdecode(b"not \xff text")
    with Frontier.open(folder / "frontier") as frontier:
        frontier.schedule("http://a.test/")
    name, *rest = command.split()
    args = [str(folder) if word == "JOB" else word for word in rest]
    assert main([name, *args] if "JOB" in rest else [name, str(folder), *args]) == 0, capfd.readouterr().err
    assert capfd.readouterr().out
    with Reader(folder / "frontier") as reader:
        assert reader.summary().queues["RETIRED"] == (name == "retire")
