"""The last commit: seen through the engine's own environment or one for readers, and errors of LMDB have names."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from budgetfrontier.errors import CorruptFrontier, FrontierClosed, NotAFrontier
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.last_commit import LastCommit
from tests.support import on_disk, pages


def test_what_is_not_committed_is_not_seen(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as frontier, closing(LastCommit(tmp_path / "frontier")) as last:
        frontier.schedule_many(pages("A", 3))
        with last.view() as view:
            assert view.summary().queued == 0
        frontier.commit()
        with last.view() as view:
            assert view.summary().queued == 3


def test_it_ends_with_the_engine_of_this_process(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False):
        last = LastCommit(tmp_path / "frontier")
        with last.view() as view:
            assert view.summary().queued == 0
    assert last.is_closed
    with pytest.raises(FrontierClosed), last.view():
        pass
    last.close()


def test_a_stopped_frontier_is_read_until_it_is_closed(path: Path) -> None:
    last = LastCommit(path)
    with last.view() as view:
        assert view.summary().queues["RETIRED"] > 0
    last.close()
    last.close()
    assert last.is_closed


def test_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotAFrontier, match="there is no frontier at"):
        LastCommit(tmp_path / "none")


@pytest.mark.parametrize("error", [lmdb.CorruptedError("a page"), Damage("a record")])
def test_damage_in_the_block_of_a_view_has_a_name_and_other_errors_are_their_own(path: Path, error: Exception) -> None:
    with closing(LastCommit(path)) as last:
        with pytest.raises(CorruptFrontier, match=r"a page|a record"), last.view():
            raise error
        with pytest.raises(ValueError, match="of a caller"), last.view():
            raise ValueError("of a caller")
        with pytest.raises(type(error)), last.begin():
            raise error
