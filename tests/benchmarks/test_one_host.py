"""The measurement of one host in Scrapy: its lines, and the pages that come later."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks import one_host, table
from benchmarks.crawl_site import Book, Web, _Connection
from benchmarks.one_host_spider import CASES


def test_every_case_has_a_line_and_says_whether_it_took_too_long() -> None:
    assert set(one_host.TITLES) == set(CASES)
    figures = {f"{case} {name}": {"seconds": 10.0} for case in CASES for name in one_host.SCHEDULERS}
    figures["pipeline ours"] = {"seconds": 12.0}
    found = {row["figure"]: row["reached"] for row in table.results(one_host.ROWS, [figures])}
    assert [figure for figure, reached in found.items() if not reached] == ["a pipeline of a second: time / Scrapy's"]
    assert len(one_host.overview([figures]).splitlines()) == 2 + len(CASES)


class Written(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.all: list[bytes] = []

    def write(self, data: Any) -> None:
        self.all.append(bytes(data))


def test_a_page_comes_when_it_was_asked_to_come() -> None:
    async def ask(*paths: str) -> tuple[int, int]:
        connection, sent = _Connection(Web(1, 10, 80), Book(1, 10)), Written()
        connection.connection_made(sent)
        for path in paths:
            connection.data_received(f"GET {path} HTTP/1.1\r\nHost: h0.test\r\n\r\n".encode())
        at_once = len(sent.all)
        await asyncio.sleep(0.01)
        return at_once, len(sent.all)

    assert asyncio.run(ask("/1.html", "/2.html?wait=0", "/3.html?wait=3600000")) == (1, 2)
