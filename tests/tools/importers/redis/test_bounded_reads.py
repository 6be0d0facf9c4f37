"""Sorted sets and lists that change between two pages: what stays is read. The server is a model of one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from budgetfrontier.tools.importers.redis import bounded_reads


class Changing:
    """A sorted set, as a mapping, or a list, that something is done to before each page."""

    def __init__(self, members: Any, change: Callable[[Any], None]) -> None:
        self.members, self._change = members, change
        self.most = 0

    def zrange(self, key: str, start: int, stop: int, *, desc: bool, withscores: bool) -> list[tuple[bytes, float]]:
        self._change(self.members)
        ordered = sorted(self.members.items(), key=lambda item: (item[1], item[0]), reverse=desc)
        return self._page(ordered[start : stop + 1])

    def lrange(self, key: str, start: int, stop: int) -> list[bytes]:
        self._change(self.members)
        size = len(self.members)
        first, last = (at + size if at < 0 else at for at in (start, stop))
        return self._page(self.members[max(0, first) : last + 1] if last >= 0 else [])

    def _page(self, page: list[Any]) -> list[Any]:
        self.most = max(self.most, len(page))
        return page


def test_the_model_answers_as_redis_does() -> None:
    model = Changing([b"%d" % n for n in range(10)], lambda members: None)
    assert model.lrange("", -3, -1) == [b"7", b"8", b"9"] and model.lrange("", -30, -9) == [b"0", b"1"]
    assert model.lrange("", -30, -11) == [] and model.lrange("", 8, 20) == [b"8", b"9"]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("descending", [False, True])
def test_a_sorted_set_is_read_once_and_in_order_while_requests_come_and_go(seed: int, descending: bool) -> None:
    random = Random(seed)
    stay = {b"stay%05d" % n: float(random.randrange(5)) for n in range(3000)}
    go = {b"go%05d" % n: float(random.randrange(5)) for n in range(3000)}
    left = 3000

    def change(members: dict[bytes, float]) -> None:
        nonlocal left
        front = sorted(go, key=lambda m: (go[m], m), reverse=descending)[: random.randrange(400)]
        for member in front:
            del go[member], members[member]
        for number in range(random.randrange(min(left, 200) + 1)):
            left -= 1
            members[b"new%d.%d" % (left, number)] = float(random.randrange(5))

    model = Changing(stay | go, change)
    read = list(bounded_reads.sorted_set(model, "", descending=descending))
    assert len(read) == len(set(read)), "a member was read twice"
    assert read == sorted(read, key=lambda item: (item[1], item[0]), reverse=descending)
    assert stay.items() <= set(read)
    assert model.most <= bounded_reads.MAX_PAGE


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("from_tail", [False, True])
def test_a_list_loses_nothing_that_stays_while_both_of_its_ends_change(seed: int, from_tail: bool) -> None:
    random = Random(seed)
    added = 0

    def change(members: list[bytes]) -> None:
        nonlocal added
        for _ in range(random.randrange(600)):
            what = random.randrange(4)
            if what < 2 and len(members) > 4000:
                members.pop(-what)
            elif added < 3000:
                added += 1
                members.insert(0 if what % 2 else len(members), b"new%d" % added)

    model = Changing([b"%d" % n for n in range(8000)], change)
    read = list(bounded_reads.linked_list(model, "", from_tail=from_tail))
    stayed = {member for member in model.members if not member.startswith(b"new")}
    assert stayed and stayed <= set(read)
    assert model.most <= bounded_reads.MAX_PAGE


@pytest.mark.parametrize("from_tail", [False, True])
def test_a_list_at_rest_is_read_once_and_in_order(from_tail: bool) -> None:
    members = [b"%d" % n for n in range(5000)]
    model = Changing(members, lambda members: None)
    assert list(bounded_reads.linked_list(model, "", from_tail=from_tail)) == (members[::-1] if from_tail else members)


def test_equal_elements_of_a_list_are_all_read() -> None:
    model = Changing([b"same"] * 5000, lambda members: None)
    assert len(list(bounded_reads.linked_list(model, ""))) == 5000


def test_pages_of_large_members_are_small() -> None:
    model = Changing([b"%06d" % n + bytes(1 << 20) for n in range(60)], lambda members: None)
    assert len(list(bounded_reads.linked_list(model, ""))) == 60
    assert model.most <= bounded_reads.MIN_PAGE
