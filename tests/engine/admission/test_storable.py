"""Fields and meta that cannot be stored and read back: the URI is INVALID, and poisons no batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, Outcome
from tests.support import memory, nested, one, whole

URL = "https://c.test/"


class Array:
    """As those of numpy: it has a length, and is neither true nor false."""

    def __len__(self) -> int:
        return 2

    def __bool__(self) -> bool:
        raise ValueError("the truth value of an array is ambiguous")


BAD_FIELDS: list[dict[str, Any]] = [
    {"cost": 0.0},
    {"cost": 1.5},
    {"cost": ""},
    {"cost": []},
    {"not_before": 10**400},
    {"not_before": math.nan},
    {"not_before": math.inf},
    {"not_before": "soon"},
    {"priority": "high"},
    {"priority": 1.0},
    {"directive": 7},
    {"directive": None},
    {"queue": 5},
    {"queue": ""},
    {"queue": "x" * 256},
    {"queue": "a\0b"},
    {"queue": "\ud800"},
    {"via": 5},
    {"hops": 5},
    {"hops": Decimal(5)},
    {"method": 5},
    {"method": "\ud800"},
    {"headers": {1: 2}},
    {"body": "text"},
    {"payload": "text"},
    {"meta": object()},
    {"meta": 10**30},
    {"meta": {"key": "\ud800"}},
    {"payload": bytes(2 << 20)},
    {"force": "yes"},
    {"force": Array()},
    {"body": Array()},
    {"payload": Array()},
]


@pytest.mark.parametrize("fields", BAD_FIELDS, ids=lambda fields: repr(fields)[:30])
def test_a_field_that_cannot_be_stored_is_invalid(f: Frontier, fields: dict[str, Any]) -> None:
    bad = CrawlUri(URL, **fields)
    assert f.schedule(bad) is Admission.INVALID
    tally = f.schedule_many([bad, "https://d.test/"])
    assert (tally.added, tally.invalid) == (1, 1)
    f.finish(one(f), Outcome.SUCCESS, discovered=[bad, "https://e.test/"])
    assert (f.queue("c.test"), f.summary().seen) == (None, 8)
    whole(f)


def test_meta_without_end_is_invalid(f: Frontier) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert f.schedule_many([CrawlUri(URL, meta=endless), CrawlUri(URL, meta=nested(100_000))]).invalid == 2
    whole(f)


def test_meta_deeper_than_a_stack_is_invalid() -> None:
    """Leased from a deeper stack than it was scheduled from, it could never be read again."""

    def deeper(frames: int, call: Callable[[], Any]) -> Any:
        return deeper(frames - 1, call) if frames else call()

    with memory(hold_queues=False) as f:
        f.schedule_many(CrawlUri(f"{URL}{depth}", meta=nested(depth)) for depth in range(0, 1000, 10))
        while leases := deeper(100, f.lease):
            f.finish(leases[0])
        whole(f)
