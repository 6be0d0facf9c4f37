"""The head of a queue is its first URI that is not leased, or the first of all."""

from __future__ import annotations

from pathlib import Path

from budgetfrontier import Reader
from budgetfrontier.storage.head_urls import HeadUrls
from budgetfrontier.storage.queue_listing import queues
from tests.support import crawl, on_disk, pages


def test_the_head_is_what_would_be_leased_next(tmp_path: Path) -> None:
    def heads() -> dict[str, str | None]:
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            found = HeadUrls(view)
            return {queue.queue: found.url(queue) for queue in queues(view)}

    with on_disk(tmp_path, concurrency=3) as f:
        f.schedule_many(pages("A", 2))
        f.schedule_many(pages("B", 1))
        assert heads() == {"a.test": "https://a.test/0", "b.test": "https://b.test/0"}
        f.lease(1)
        assert heads() == {"a.test": "https://a.test/1", "b.test": "https://b.test/0"}
        f.lease(3)
        assert heads() == {"a.test": "https://a.test/0", "b.test": "https://b.test/0"}, "all are leased"
    with on_disk(tmp_path) as f:
        crawl(f)
        assert heads() == {"a.test": None, "b.test": None}
