"""The benchmark of this part runs, and its table has what it promises."""

from __future__ import annotations

from pathlib import Path

from benchmarks import aio


def test_a_round_makes_a_table(tmp_path: Path) -> None:
    table = aio.run(tmp_path, rounds=1, count=50, seconds=0.05, known=20)
    assert [line.split(" | ")[0] for line in table.splitlines()[2:5]] == [
        "| asyncio.PriorityQueue and a set, in memory",
        "| add, from 1,000 tasks",
        "| add_many",
    ]
    assert "the loop was late by" in table
