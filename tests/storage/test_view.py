"""What one transaction sees: the engine's own changes before a commit, URIs in their order, and damage by its name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.storage import keys
from budgetfrontier.storage.damage import Damage
from budgetfrontier.storage.last_commit import LastCommit
from tests.support import on_disk


def test_uris_of_a_queue_come_in_their_order_with_places_and_those_that_are_out(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False, concurrency=2) as frontier:
        frontier.schedule_many(CrawlUri(f"https://a.test/{cost}", cost=cost) for cost in (3, 1, 2))
        frontier.schedule(CrawlUri("https://b.test/later", not_before=2_000_000))
        frontier.lease(1)
        frontier.commit()
        with closing(LastCommit(tmp_path / "frontier")) as last, last.view() as view:
            queue = view.find_queue("a.test")
            assert queue is not None
            rows = list(view.pending(queue, out=frozenset(view.leased_keys())))
            assert [(row.place, row.uri.url[-1], row.leased) for row in rows] == [
                (0, "1", True),
                (1, "2", False),
                (2, "3", False),
            ]
            assert list(view.costs(queue, 2)) == [1, 2]
            assert [lease.uri.url for lease in view.leases()] == ["https://a.test/1"]
            assert [row.when for row in view.future()] == [2_000_000]
            assert sorted(uri.url[-1] for uri in view.waiting()) == ["1", "2", "3", "r"]
            assert (view.first_url("a.test"), view.first_url("b.test"), view.first_url("no")) == (
                "https://a.test/1",
                None,
                None,
            )


@pytest.mark.parametrize("key", ["none.test", "", "x" * 300, "a\0b"])
def test_what_is_the_key_of_no_queue_finds_none(path: Path, key: str) -> None:
    with closing(LastCommit(path)) as last, last.view() as view:
        assert view.find_queue(key) is None


def test_a_queue_without_a_record_is_damage_and_a_view_says_what_it_sees(path: Path) -> None:
    with closing(LastCommit(path)) as last:
        with last.begin() as view:
            assert "URIs pending" in repr(view)
            assert len(list(view.items(keys.QUEUES))) == len(list(view.stored_queues()))
            with pytest.raises(Damage, match="has no record"):
                view.queue_by_id(99_999)
        assert "has ended" in repr(view)
