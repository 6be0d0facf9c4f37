"""Pages of pending URIs: in the order of keys or of arrival, whatever the size of a part."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.storage import reader
from budgetfrontier.storage.reader import Reader
from tests.support import make_settings


@pytest.mark.parametrize("order", ["fifo", "lifo"])
def test_equals_come_in_the_order_of_their_arrival_a_part_at_a_time(
    tmp_path: Path, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [f"http://a.test/{n}" for n in range(7)]
    rest = [CrawlUri(f"http://a.test/{n}", cost=n % 2, priority=-1) for n in range(10, 17)]
    overrides = [{"match": "regex:[36]$", "set": {"order": "lifo"}}]
    with Frontier.open(tmp_path, make_settings(order=order, overrides=overrides)) as frontier:
        frontier.schedule_many([*urls, *rest, "http://b.test/"])
    for size in (1, 2, 3, 100):
        monkeypatch.setattr(reader, "_PART", size)
        with Reader(tmp_path) as frontier_read:
            found = [item.uri.url for item in frontier_read.each_pending("a.test", arrived=True)]
            assert {item.uri.url for item in frontier_read.each_pending("a.test")} == set(found)
        costs = [uri.url for uri in sorted(rest, key=lambda uri: uri.cost or 0)]
        expected = [url for group in (urls, costs[:4], costs[4:]) for url in by_order(group, order)]
        assert found == expected


def by_order(urls: list[str], order: str) -> list[str]:
    """Those that go first in, first out come before the others of equal rank."""
    last = [url for url in urls if order == "lifo" or url[-1] in "36"]
    return [url for url in urls if url not in last] + last


def test_what_is_scheduled_for_later_comes_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Frontier.open(tmp_path) as frontier:
        frontier.schedule_many(CrawlUri(f"http://a.test/{n}", not_before=4e9 + n // 2) for n in range(7))
    for size in (1, 2, 7, 100):
        monkeypatch.setattr(reader, "_PART", size)
        with Reader(tmp_path) as frontier_read:
            assert list(frontier_read.each_future()) == frontier_read.future()
