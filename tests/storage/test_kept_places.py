"""The places of kept URLs: told apart by their length, and checked against what is there."""

from __future__ import annotations

import pytest

from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.kept_places import future_key, place_in_future, waits_at
from budgetfrontier.storage.records import FutureRow, UrlRow

RANK = keys.rank.pack(3, 1 << 31, 1, 9)
PENDING = keys.u32.pack(7) + RANK
DUE = keys.due.pack(5.0, 2)
FUTURE = place_in_future(7, DUE)
STORED = {
    (keys.PENDING, PENDING): b"\xff/page",
    (keys.FUTURE, DUE): encode(FutureRow(7, RANK, b"\xff/page")),
}


def get(table: str, key: bytes) -> bytes | None:
    return STORED.get((table, key))


def test_a_place_is_that_of_one_of_two_tables() -> None:
    assert future_key(FUTURE) == DUE
    assert future_key(PENDING) is None and future_key(b"") is None


@pytest.mark.parametrize("place", [PENDING, FUTURE])
def test_what_waits_there_has_to_be_the_same_url_of_the_same_queue(place: bytes) -> None:
    assert waits_at(UrlRow(7, "\2/page", place, 1, 1), "a.test", get)
    assert waits_at(UrlRow(7, "https://a.test/page", place, 1, 1), "a.test", get)
    assert not waits_at(UrlRow(7, "\2/other", place, 1, 1), "a.test", get)
    assert not waits_at(UrlRow(8, "\2/page", place, 1, 1), "a.test", get)
    assert not waits_at(UrlRow(7, "\2/page", place[:-1] + b"\xee", 1, 1), "a.test", get)
