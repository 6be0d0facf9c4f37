"""The identity of start requests of processes that share a frontier."""

from __future__ import annotations

from datetime import date
from typing import Any

from budgetfrontier.scrapy.remote.start_requests import StartRequests, request_digest
from tests.scrapy.crawler import start


def digest(value: Any, **options: Any) -> bytes:
    return request_digest(start(meta={"value": value}), **options)


def test_the_digest_does_not_depend_on_the_order_of_sets_and_dicts() -> None:
    assert list({0, 8}) != list({8, 0}), "the premise"
    assert digest({0, 8}) == digest({8, 0}) and digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    text = "".join(["x", "y"])
    assert digest([text, text]) == digest(["xy", "".join(["x", "y"])]), "as pickles do not"


def test_the_digest_tells_values_apart() -> None:
    values = [1, True, 1.0, "1", b"1", None, [1], (1,), {1}, [[1], 2], [1, [2]], {"a": 1}, {"a": 2}, [], ["", ""], [""]]
    values += [date(2026, 1, 1), date(2026, 1, 2), date, len, "\ud800"]
    assert len({digest(value) for value in values}) == len(values)


def test_cycles_and_objects_that_cannot_be_pickled_have_digests() -> None:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in cycle, deep, (each for each in [1]), lambda: None:
        assert digest(value) == digest(value)
    assert digest(date(2026, 1, 1), with_objects=False) == digest(date(2026, 1, 2), with_objects=False)


def test_equal_requests_are_told_apart_by_their_number() -> None:
    one, other = StartRequests(), StartRequests()
    made = [one.identity(start("a"), storable=True) for _ in range(3)]
    assert len(set(made)) == 3 and made == [other.identity(start("a"), storable=True) for _ in range(3)]
