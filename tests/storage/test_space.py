"""The space of a data file, and the lag of readers."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Frontier, Reader, Report
from tests.support import pages


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


def test_what_is_kept_for_undo_is_told(tmp_path: Path) -> None:
    path = tmp_path / "frontier"
    with Frontier.open(path) as frontier, Reader(path) as reader:
        frontier.schedule_many(pages("AB", 5))
        assert frontier.report().removed == 0
        frontier.delete(queue="a.test")
        kept = frontier.audit()[0].effect["kept"]["bytes"]
        assert frontier.report().removed == kept > 0
        frontier.commit()
        assert Report.read(path).to_dict()["removed_bytes"] == reader.report().removed == kept
        frontier.internals.discard(1)
        frontier.commit()
        assert reader.report().removed == 0
