"""The bounded cache: what it keeps, what it drops, and in which order."""

from __future__ import annotations

from budgetfrontier.core.bounded_cache import BoundedCache


def test_the_oldest_quarter_makes_room() -> None:
    cache: BoundedCache[int, str] = BoundedCache(8)
    for number in range(8):
        cache.put(number, str(number))
    assert list(cache) == list(range(8))
    cache.put(8, "8")
    assert list(cache) == [2, 3, 4, 5, 6, 7, 8]


def test_it_never_holds_more_than_its_limit() -> None:
    for limit in 1, 2, 3, 10:
        cache: BoundedCache[int, int] = BoundedCache(limit)
        for number in range(50):
            cache.put(number, number)
            assert cache[number] == number and len(cache) <= limit


def test_an_entry_that_is_put_again_or_refreshed_is_the_youngest() -> None:
    cache: BoundedCache[str, int] = BoundedCache(3)
    for key in "abc":
        cache.put(key, 1)
    cache.put("a", 2)
    cache.refresh("b")
    assert cache == {"c": 1, "a": 2, "b": 1} and list(cache) == ["c", "a", "b"]
    cache.put("d", 1)
    assert list(cache) == ["a", "b", "d"]


def test_entries_that_weigh_together_too_much_make_room() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10, len)
    for key, value in (("a", "1234"), ("b", "123"), ("c", "12")):
        cache.put(key, value)
    assert cache.weight == 9
    cache.put("b", "1234")
    assert list(cache) == ["a", "c", "b"] and cache.weight == 10
    cache.put("d", "123456")
    assert list(cache) == ["b", "d"] and cache.weight == 10
    cache.put("e", "x" * 100)  # too much alone, and yet what was asked for last
    assert list(cache) == ["e"] and cache.weight == 100
    cache.put("f", "")
    assert list(cache) == ["f"] and cache.weight == 0


def test_nothing_is_left_when_it_is_cleared() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10, len)
    cache.put("a", "1234")
    cache.clear()
    assert not cache and cache.weight == 0
