from __future__ import annotations

from pathlib import Path

from benchmarks import operating
from benchmarks.console import change_settings, fill
from budgetfrontier import Reader


def test_each_command_of_operators_is_measured_and_taken_back(tmp_path: Path) -> None:
    fill(tmp_path / "frontier", 200)
    with Reader(tmp_path / "frontier") as reader:
        before, filled = reader.summary(), len(reader.audit())
    commands = tuple(command for command in operating.LOOKS if not command.startswith("top "))
    found = operating.run(tmp_path / "frontier", commands + operating.CHANGES)
    with Reader(tmp_path / "frontier") as reader:
        assert reader.summary().queued == before.queued
        assert [entry.command for entry in reader.audit()[filled:]][1::2] == ["undo"] * (len(operating.CHANGES) // 2)
    change_settings(tmp_path / "frontier")
    found |= operating.run(tmp_path / "frontier", operating.PASSES[:1], ", with overrides")
    with Reader(tmp_path / "frontier") as reader:
        assert (len(reader.settings.overrides), len(reader.adjustments)) == (10, 3)
        assert {queue.total_budget for queue in reader.queues()} >= {5, 9, 50}
    rows = operating.table(found).splitlines()
    assert len(rows) == 2 + len(found) and all(cost.processor > 0 for cost in found.values())
