"""Readers of sorted sets, lists, sets and hashes that may change meanwhile, in pages of bounded size.

A sorted set or a list has a front, where its crawler takes requests out, so that those behind move forward between two
pages. The reader finds its place again by the members it read last: each member that is there from the beginning to the
end is read, in order, and no member of a sorted set twice. Members that are added behind the place are read, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

MIN_PAGE, MAX_PAGE = 16, 1000
"""Members in one page: the first has MIN_PAGE, the next ones as many as make PAGE_SIZE."""
PAGE_SIZE = 4 << 20
"""Bytes of a page, roughly; its smallest size is MIN_PAGE members, however large."""
_ANCHOR = 8  # members that mark the place in a list, to find it again

Scored = tuple[bytes, float]
Member = TypeVar("Member")


def sorted_set(client: Any, key: str, *, descending: bool = False) -> Iterator[Scored]:
    """Yield the members of a sorted set with their scores, in its order: by score, then by the bytes of the member."""
    place: tuple[float, bytes] | None = None

    def read(start: int, count: int) -> list[Scored]:
        found = client.zrange(key, start, start + count - 1, desc=descending, withscores=True)
        return [(member, float(score)) for member, score in found]

    def behind(page: list[Scored]) -> int | None:
        if place is None:
            return 0
        passed = operator.ge if descending else operator.le
        return sum(passed((score, member), place) for member, score in page) or None

    for page in _pages(read, behind, overlap=1):
        for member, score in page:
            place = score, member
            yield member, score


def linked_list(client: Any, key: str, *, from_tail: bool = False) -> Iterator[bytes]:
    """Yield the elements of a list from its head or its tail, the end where they are taken out.

    An element is read again if many are added at that end between two pages.
    """
    anchor: list[bytes] = []

    def read(start: int, count: int) -> list[bytes]:
        if from_tail:
            return list(reversed(client.lrange(key, -start - count, -start - 1)))
        return list(client.lrange(key, start, start + count - 1))

    def behind(page: list[bytes]) -> int | None:
        size = len(anchor)
        return next((at + size for at in range(len(page) - size + 1) if page[at : at + size] == anchor), None)

    for page in _pages(read, behind, overlap=_ANCHOR):
        for element in page:
            anchor = [*anchor[1 - _ANCHOR :], element]
            yield element


def _pages(
    read: Callable[[int, int], list[Member]], behind: Callable[[list[Member]], int | None], *, overlap: int
) -> Iterator[list[Member]]:
    """Yield the new members of each page.

    `read(start, count)` returns members; `behind(page)` the number of those up to the place that was reached, None if
    the page does not contain that place: then it is nearer to the front, or gone.
    """
    start, count, back = 0, MIN_PAGE, MIN_PAGE
    while True:
        page = read(start, count)
        known = behind(page)
        if known is None and start:
            start, back = max(0, start - back), 2 * back
            continue
        new = page[known or 0 :]
        yield new
        if len(page) < count:
            return
        start, count = start + len(page) - overlap, _next_count(new, count)
        back = count


def _next_count(page: list[Any], count: int) -> int:
    """Return how many members to ask for, so that a page has PAGE_SIZE bytes at the most if they stay as large."""
    sizes = [len(member[0] if isinstance(member, tuple) else member) for member in page]
    fit = PAGE_SIZE * len(sizes) // (sum(sizes) + 1) if sizes else MAX_PAGE
    return max(MIN_PAGE, min(MAX_PAGE, 2 * count, fit))


def plain_set(client: Any, key: str) -> Iterator[bytes]:
    """Yield the members of a set, in no order; some perhaps twice."""
    yield from client.sscan_iter(key, count=MAX_PAGE)


def indexed(client: Any, index: str, values: str) -> Iterator[tuple[bytes, float, bytes | None]]:
    """Yield ids from a sorted set, in its order, with their scores and their values from a hash.

    The value is None if the hash has none although the id is still in the index; ids taken out meanwhile are left out.
    """
    members = sorted_set(client, index)
    count = MIN_PAGE
    while page := list(islice(members, count)):
        found = client.hmget(values, [member for member, _ in page])
        count = _next_count([value or b"" for value in found], count)
        for (member, score), value in zip(page, found, strict=True):
            if value is not None or client.zscore(index, member) is not None:
                yield member, score, value
