"""Samples of the URIs of one queue: at random places of all of it, so that kinds that take turns are all in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier.reports import queue_sample
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.view import PendingUri
from tests.support import on_disk


def sample(folder: Path, count: int) -> list[PendingUri]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        queue = view.find_queue("a.test")
        assert queue is not None
        return queue_sample.spread(view, queue, count)


def fill(folder: Path, length: int, period: int) -> None:
    frontier = on_disk(folder, queue_total_budget=-1)
    frontier.schedule_many(f"http://a.test/{number}/kind{number % period}" for number in range(length))
    frontier.close()


@pytest.mark.parametrize("walked", [100_000, 500])
@pytest.mark.parametrize("period", [2, 3, 4, 5, 10])
def test_kinds_that_take_turns_have_their_shares(
    tmp_path: Path, period: int, walked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every tenth URI would be of one kind. So would one of each range of keys, in a queue that is not walked."""
    monkeypatch.setattr(queue_sample, "WALKED", walked)
    fill(tmp_path, 3000, period)
    found = sample(tmp_path, 300)
    assert 285 <= len(found) <= 300
    for kind in range(period):
        share = sum(one.uri.url.endswith(f"kind{kind}") for one in found) / len(found)
        assert abs(share - 1 / period) < 0.1


def test_a_sample_is_the_same_again_and_has_one_of_each_part(tmp_path: Path) -> None:
    fill(tmp_path, 838, 4)
    found = sample(tmp_path, 300)
    assert found == sample(tmp_path, 300) and len(found) == 300
    assert all(one.uri.url.startswith(f"http://a.test/{one.place}/") for one in found)
    assert all(838 * part // 300 <= one.place < 838 * (part + 1) // 300 for part, one in enumerate(found))


@pytest.mark.parametrize("count", [7, 8, 1000])
def test_all_of_a_short_queue_is_its_sample(tmp_path: Path, count: int) -> None:
    fill(tmp_path, 7, 2)
    assert [one.place for one in sample(tmp_path, count)] == list(range(7))


def test_a_queue_that_is_not_walked_is_sampled_by_its_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part that is walked counts no more than it holds."""
    monkeypatch.setattr(queue_sample, "WALKED", 300)
    fill(tmp_path, 3000, 1)
    numbers = [int(one.uri.url.split("/")[3]) for one in sample(tmp_path, 300)]
    assert 25 <= sum(number < 300 for number in numbers) <= 35
