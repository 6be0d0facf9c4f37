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


@pytest.mark.parametrize(
    ("paths", "patterns"),
    [
        (["/a/b/a/b", "/b/a", "/a/b"], [("/{a,b}", 3)]),
        (["/a/b/" * n for n in range(1, 9)], [("/{a,b}/", 8)]),
        (["/a/" + "x/" * n + "p7" for n in range(1, 9)], [("/{a,x,pN}", 8)]),
        (["/red/large/7", "/large/red/8", "/large/red/9"], [("/{red,large,N}", 3)]),
        (["/a/2026/a/2027", "/a/2026"], [("/{a,N}", 2)]),
        (["/b/c/d/e/f", "/c/b/d/e/g"], [("/{b,c,d,e}/...", 2)]),
        (["/2026/news", "/news/2026", "/news/2027"], [("/news/N", 2), ("/N/news", 1)]),
        (["/2026/11/28", "/2026/11/29"], [("/N/N/N", 2)]),
        (["/a/b", "/a/b/", "/a/c"], [("/a/b", 1), ("/a/b/", 1), ("/a/c", 1)]),
        (["/0123456789ab/0123456789cd/x"], [("/*/*/x", 1)]),
        (["/a/b?x=1", "/b/a?x=2", "/b/a?y=2"], [("/{a,b}?x", 2), ("/b/a?y", 1)]),
        (["/", "//", "/N"], [("/", 1), ("//", 1), ("/N", 1)]),
    ],
)
def test_repeated_and_permuted_segments_are_one_pattern(paths: list[str], patterns: list[tuple[str, int]]) -> None:
    assert [row[:2] for row in path_patterns(f"http://a.test{path}" for path in paths)] == patterns
