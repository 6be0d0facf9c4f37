"""The decoding of calls: a URI that is none is refused alone, and what else is wrong refuses the call."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from budgetfrontier.core import protocol
from budgetfrontier.core.model import CrawlUri, Outcome
from budgetfrontier.server.frontier_calls import decode

GOOD = CrawlUri("http://a.test/", cost=2)
WRONG = [
    ["http://a.test/", "GET", "cost of another type"] + [[]] * 9,
    7,
    {"url": "http://a.test/"},
    msgspec.Raw(b"\xa2\xff\xfe"),  # text that is not UTF-8
]
URIS: list[Any] = ["http://b.test/", *WRONG, GOOD]
DECODED = ["http://b.test/", *[None] * len(WRONG), GOOD]


def decoded(method: protocol.Method, arguments: Any) -> Any:
    return decode(method)(msgspec.Raw(protocol.encode(arguments)))


@pytest.mark.parametrize("method", [protocol.SCHEDULE_MANY, protocol.ADMIT_EACH])
def test_a_uri_that_is_none_affects_no_other_of_its_batch(method: protocol.Method) -> None:
    assert decoded(method, [URIS, True, 3]) == protocol.Uris(DECODED, charge=True, maxsize=3)
    assert decoded(method, [URIS[:1], True, 3, True, False, "a field of a later version"]).uris == URIS[:1]


def test_a_uri_discovered_that_is_none_affects_no_end() -> None:
    given = [7, [8, "FAILURE"], [9, "SUCCESS", None, 1.5, URIS, "why"], [10]]
    expected: list[int | protocol.Ended] = [
        7,
        protocol.Ended(8, Outcome.FAILURE),
        protocol.Ended(9, crawl_delay=1.5, discovered=DECODED, reason="why"),
        protocol.Ended(10),
    ]
    assert decoded(protocol.FINISH_MANY, given) == expected
    assert decoded(protocol.EXCHANGE, [given, [5, 2.0]]) == protocol.Exchange(expected, protocol.Wanted(5, 2.0))


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        (protocol.SCHEDULE_MANY, 7),
        (protocol.SCHEDULE_MANY, []),
        (protocol.SCHEDULE_MANY, [URIS, "charge of another type"]),
        (protocol.FINISH_MANY, [[9, "SUCCESS", None, None, 7]]),
        (protocol.FINISH_MANY, [[9, "an outcome of a later version", None, None, URIS]]),
        (protocol.FINISH_MANY, ["id of another type"]),
        (protocol.EXCHANGE, [[7]]),
        (protocol.RENEW, [["id of another type"]]),
    ],
)
def test_anything_else_of_another_type_refuses_the_call(method: protocol.Method, arguments: Any) -> None:
    with pytest.raises(msgspec.DecodeError):
        decoded(method, arguments)
