"""Patterns of paths, which tell directories apart whatever alphabet they are written in."""

from __future__ import annotations

import pytest

from budgetfrontier.reports.path_patterns import path_patterns


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("/%E6%97%A5/2026", "/%E6%97%A5/N"),
        ("/%E6%97%A512/x", "/%E6%97%A5N/x"),
        ("/%e6%9C%88?%E6%97=1&id7=2", "/%e6%9C%88?%E6%97&id7"),
        ("/" + "%E6%97%A5" * 5, "/" + "%E6%97%A5" * 5),
        ("/" + "%E6%97%A5" * 14, "/*"),
        ("/%E6abcdef0123456789", "/%E6*"),
        ("/100%/5%2", "/N%/N%N"),
        ("/" + "%" * 40 + "/7", "/*/N"),
        ("/item-0123456789ab/" + "x" * 39 + "/" + "x-" * 20, "/item-*/" + "x" * 39 + "/*"),
        ("/p?0123456789abcdef=1&b=0", "/p?*&b"),
    ],
)
def test_digits_and_long_parts_are_replaced_and_escapes_stay(url: str, pattern: str) -> None:
    assert path_patterns([f"http://a.test{url}"])[0].pattern == pattern


def test_directories_in_other_alphabets_are_counted_apart() -> None:
    urls = [f"http://a.test/{directory}/{n}" for directory in ("%E6%97%A5", "%E6%9C%88") for n in range(3)]
    assert [(row.pattern, row.urls) for row in path_patterns(urls)] == [("/%E6%97%A5/N", 3), ("/%E6%9C%88/N", 3)]
