"""Queues of qcrawl, written by qcrawl itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.tools.importers.redis.conftest import Job
from tests.tools.importers.redis.server import Redis, needs_server

qcrawl = pytest.importorskip("qcrawl.core.request")
queues = pytest.importorskip("qcrawl.core.queues.redis")
pytestmark = needs_server


def put(server: Redis, *requests: Any, **options: Any) -> None:
    """Put requests into a queue of qcrawl's."""

    async def run() -> None:
        queue = queues.RedisQueue(url=server.url, **options)
        for request in requests:
            await queue.put(request, priority=request.priority)
        await queue.close()

    asyncio.run(run())


@pytest.mark.parametrize("dedupe", [False, True])
def test_requests_by_priority(client: Any, server: Redis, job: Job, dedupe: bool) -> None:
    post = {"method": "POST", "body": b"q=x", "headers": {"Accept": "text/html"}, "cookies": {"s": "1"}}
    put(
        server,
        qcrawl.Request("http://a.test/normal", meta={"depth": 2}),
        qcrawl.Request("http://a.test/last", priority=-10),
        qcrawl.Request("http://a.test/first", priority=100, callback="parse_item", **post),
        dedupe=dedupe,
        namespace="shop",
    )
    assert job.import_(server.url).out == "added 3, duplicate 0, full 0, invalid 0\n"
    first, normal, last = job.pending()
    assert [uri.url for uri in (first, normal, last)] == [f"http://a.test/{n}" for n in ("first", "normal", "last")]
    assert (first.method, first.body, first.priority, normal.hops) == ("POST", b"q=x", 100, "LL")
    assert first.headers == {"Accept": "text/html", "Cookie": "s=1"}
    assert "left out, because a frontier cannot store it: callback (1)" in job.err
    assert client.zcard("shop:queue:zset") == client.hlen("shop:queue:items") == 3


def test_a_priority_raised_by_a_duplicate_counts(client: Any, server: Redis, job: Job) -> None:
    raised = [qcrawl.Request("http://a.test/raised", priority=priority) for priority in (1, 50, 2)]
    put(server, *raised, dedupe=True, update_priority=True)
    job.import_(server.url)
    assert [(uri.url, uri.priority) for uri in job.pending()] == [("http://a.test/raised", 50)]


def test_malformed_and_lost_requests_are_reported(client: Any, server: Redis, job: Job) -> None:
    put(server, *(qcrawl.Request(f"http://a.test/{number}") for number in range(40)))
    client.zadd("qcrawl:queue:zset", {b"\x01" * 16: 0, b"\x02" * 16: 0})
    client.hset("qcrawl:queue:items", b"\x01" * 16, b"garbage")
    client.hset("qcrawl:queue:items", mapping={b"\x03" * 16: b"taken", b"\x04" * 16: b"taken"})
    job.import_(server.url)
    assert job.code == 0 and job.out.startswith("added 40, duplicate 0, full 0, invalid 2 (orphan 1, request 1)"), job
    assert "qcrawl:queue:items: 1 request without a place in the queue" in job.err
