"""The space of a data file, and the lag of readers."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Frontier, Reader


def test_the_file_grows_and_a_snapshot_that_is_held_lags(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    with Frontier.open(path) as frontier:
        frontier.commit()
        with Reader(path) as reader:
            before = reader.space()
            with reader.view():
                for n in range(3):
                    frontier.schedule_many(f"http://a.test/{n}/{m}" for m in range(500))
                    frontier.commit()
                held = reader.space()
            after = reader.space()
    assert held.used > before.used > 0
    assert held.reader_lag >= 3 and before.reader_lag == after.reader_lag == 0
    assert after.used <= (path / "data.mdb").stat().st_size
