"""The ends of leases, as the results of spiders say."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.bus import request_meta
from budgetfrontier.bus.messages import PageCrawled, Request, Response
from budgetfrontier.bus.workers.results import ending_of


@pytest.mark.parametrize(
    ("meta", "novel", "address"),
    [
        ({}, None, ""),
        ({request_meta.NOVEL: False, request_meta.ADDRESS: "192.0.2.1"}, False, "192.0.2.1"),
        ({request_meta.NOVEL: 0, request_meta.ADDRESS: "nonsense"}, None, ""),
        ({request_meta.NOVEL: "no", request_meta.ADDRESS: 5}, None, ""),
    ],
)
def test_novelty_and_address_of_a_page(meta: dict[Any, Any], novel: bool | None, address: str) -> None:
    page = PageCrawled(Response("https://a.test/", 200, request=Request("https://a.test/", meta=meta)))
    ending = ending_of(page, 7, retries=True)
    assert (ending.novel, ending.address) == (novel, address)
