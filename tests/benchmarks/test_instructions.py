"""The workloads whose instructions are counted do what they say, in small."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import instructions
from budgetfrontier import Reader


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instructions, "COUNT", 50)
    monkeypatch.setattr(instructions, "PENDING", 120)
    monkeypatch.setattr(instructions, "HOSTS", 10)
    monkeypatch.setattr(instructions, "COLD_HOSTS", 10)


@pytest.mark.parametrize("call", instructions.DRAIN_CALLS)
@pytest.mark.parametrize("name", instructions.DRAINS)
def test_as_many_uris_end_as_are_counted(name: str, call: str, tmp_path: Path) -> None:
    instructions.prepare(name, tmp_path / "f")
    instructions.drain(name, call, tmp_path / "f", 100)
    with Reader(tmp_path / "f") as reader:
        assert reader.summary().succeeded == 100


@pytest.mark.parametrize("name", instructions.SCHEDULES)
def test_as_many_uris_are_new_as_are_counted(name: str, tmp_path: Path) -> None:
    instructions.prepare_pages(name, tmp_path / instructions.PAGES_FILE)
    instructions.schedule(name, tmp_path / "f", 100)
    with Reader(tmp_path / "f") as reader:
        scheduled = reader.summary().scheduled
        if name.endswith("pages"):  # two of them, after the seeds, with links that are known in part
            assert instructions.HOSTS < scheduled < instructions.HOSTS + 100
        else:
            assert 10 < scheduled < 100 if name.endswith("full") else scheduled == 100
