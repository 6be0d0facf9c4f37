"""What budgetfrontier.testing offers to users' tests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Frontier, FrontierClosed, StorageFull, WrongThread
from budgetfrontier.testing import crash, crawl_uris, fail_commit


def test_a_crash_keeps_what_was_committed(tmp_path: Path) -> None:
    frontier = Frontier.open(tmp_path / "f")
    frontier.schedule("http://a.test/kept")
    frontier.commit()
    frontier.schedule("http://a.test/lost")
    crash(frontier)
    with Frontier.open(tmp_path / "f") as again:
        assert again.schedule("http://a.test/kept") is Admission.DUPLICATE
        assert again.schedule("http://a.test/lost") is Admission.ADDED


def test_a_commit_that_fails_closes_the_frontier_as_of_the_last_one(tmp_path: Path) -> None:
    frontier = Frontier.open(tmp_path / "f")
    frontier.schedule("http://a.test/1")
    frontier.commit()
    fail_commit(frontier, nth=2)
    frontier.schedule("http://a.test/2")
    frontier.commit()
    frontier.schedule("http://a.test/3")
    with pytest.raises(StorageFull):
        frontier.commit()
    with pytest.raises(FrontierClosed, match="StorageFull"):
        frontier.lease(1)
    with Frontier.open(tmp_path / "f") as again:
        again.check()
        assert again.summary().queued == 2


@settings(max_examples=30)
@given(st.lists(crawl_uris(), max_size=30))
def test_the_strategy_gives_uris_that_can_be_admitted(uris: list[CrawlUri]) -> None:
    with Frontier.open(":memory:") as frontier:
        tally = frontier.schedule_many(uris)
        assert (tally.invalid, tally.full) == (0, 0)
        assert frontier.summary().queued == tally.added
        frontier.check()


def test_a_frontier_of_another_thread_is_not_crashed(tmp_path: Path) -> None:
    with Frontier.open(tmp_path) as frontier, ThreadPoolExecutor() as threads:
        with pytest.raises(WrongThread):
            threads.submit(crash, frontier).result()
        assert frontier.schedule("https://a.test/") is Admission.ADDED
    crash(frontier)  # it is closed already


def test_commits_are_counted_from_one(tmp_path: Path) -> None:
    with Frontier.open(tmp_path) as frontier, pytest.raises(ValueError, match="from 1, not 0"):
        fail_commit(frontier, nth=0)
