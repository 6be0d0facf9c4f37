"""When a commit is due: after an interval, so many operations, or queues, or a lease that finds nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.engine import queue_cache
from budgetfrontier.storage import environment
from budgetfrontier.testing import crash
from tests.support import on_disk, pages


def test_many_queues_touched_are_committed_before_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MOST_QUEUES", 500)
    settings = Settings.from_dict({"frontier": {"commit_interval": 3600}})
    frontier = Frontier.open(tmp_path / "f", settings)
    frontier.schedule_many(f"http://h{i}.test/" for i in range(3000))
    crash(frontier)
    with Frontier.open(tmp_path / "f") as again:
        assert again.summary().queued == 3000


def test_queues_that_leave_the_memory_before_a_commit_count_towards_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "MOST_QUEUES", 1000)
    monkeypatch.setattr(queue_cache, "CACHE", 400)
    f = on_disk(tmp_path, commit_interval=3600)
    for part in range(4):
        f.schedule_many(f"http://h{i}.test/" for i in range(300 * part, 300 * part + 300))
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == 1200


@pytest.mark.parametrize(("operations", "kept"), [(3, 7), (4, 5), (10, 1)])
def test_a_commit_is_due_after_so_many_operations(tmp_path: Path, operations: int, kept: int) -> None:
    f = on_disk(tmp_path, commit_interval=3600, commit_operations=operations)
    first, *others = pages("A", 8)
    f.schedule(first)
    f.commit()
    for url in others:
        f.schedule(url)
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == kept


def test_a_commit_is_due_once_the_interval_is_over(tmp_path: Path) -> None:
    f = on_disk(tmp_path, commit_interval=0)
    f.schedule("https://a.test/")
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == 1


@pytest.mark.parametrize(("wanted", "kept"), [(1, 1), (0, 0)])
def test_a_lease_that_finds_nothing_commits_if_it_wanted_something(tmp_path: Path, wanted: int, kept: int) -> None:
    f = on_disk(tmp_path, commit_interval=3600)
    f.pause()
    f.commit()
    f.schedule("https://a.test/")
    assert f.lease(wanted) == []
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == kept
