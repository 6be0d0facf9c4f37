"""Queues of kumo, byte by byte as its `redis_frontier.rs` writes them."""

from __future__ import annotations

import json
import time
from typing import Any

from budgetfrontier import Reader
from tests.tools.importers.redis.conftest import Job
from tests.tools.importers.redis.server import Redis, needs_server

pytestmark = needs_server
KEY = "my-crawl:queue"


def stored(url: str, *, priority: int = 0, due: int | None = None, retries: int = 0, **fields: Any) -> str:
    """A StoredFrontierRequest as serde writes it."""
    request: dict[str, Any] = {
        "url": url,
        "method": "GET",
        "headers": [],
        "body": None,
        "priority": priority,
        "meta": {},
    }
    request |= {"dont_filter": False, "dedup_key": None} | fields
    return json.dumps({"request": request, "depth": 2, "retry_count": retries, "scheduled_at_ms": due})


def ready(client: Any, number: int, url: str, **fields: Any) -> None:
    member = {"id": f"ready-1700000000000-{number:020}", "request": stored(url, **fields)}
    client.zadd(f"{KEY}:ready", {json.dumps(member): -fields.get("priority", 0)})


def test_ready_requests_by_priority_and_age_and_leases_before_them(client: Any, server: Redis, job: Job) -> None:
    headers, body = [{"name": "accept", "value": list(b"text/html")}], list(b"q=x")
    ready(client, 0, "http://a.test/first")
    ready(client, 1, "http://a.test/second")
    ready(client, 2, "http://a.test/urgent", priority=9, method="POST", headers=headers, body=body, meta={"k": [1]})
    for number in (1, 2):
        lease = {"request": stored(f"http://a.test/leased{number}"), "delivery_count": 1}
        client.hset(f"{KEY}:leases", f"redis-lease-{number}", json.dumps(lease))
        client.zadd(f"{KEY}:lease_deadlines", {f"redis-lease-{number}": 1_700_000_000_000 + number})
    job.import_(server.url)
    assert job.out == "added 5, duplicate 0, full 0, invalid 0\n", job.err
    names = ["urgent", "leased1", "leased2", "first", "second"]
    assert job.urls() == [f"http://a.test/{name}" for name in names]
    urgent = job.pending()[0]
    assert (urgent.method, urgent.headers, urgent.body) == ("POST", {"accept": "text/html"}, b"q=x")
    assert (urgent.meta, urgent.priority, urgent.hops) == ({"k": [1]}, 9, "LL")


def test_delayed_retries_keep_their_time(client: Any, server: Redis, job: Job) -> None:
    now = int(time.time() * 1000)
    for due in (now + 3_600_000, now - 1000):
        request = stored(f"http://a.test/{due}", due=due, retries=2)
        member = {"id": f"delayed-{due}", "request": request, "priority_score": 0, "ready_member": "{}"}
        client.zadd(f"{KEY}:delayed", {json.dumps(member): due})
    job.import_(server.url)
    past, later = job.pending()
    assert (past.not_before, later.not_before) == (None, (now + 3_600_000) / 1000)
    assert "retry_count (2)" in job.err


def test_the_list_of_older_versions(client: Any, server: Redis, job: Job) -> None:
    client.rpush(KEY, json.dumps(["http://a.test/1", 1, 0]), stored("http://a.test/2"))
    assert job.import_(server.url).code == 1 and "no pending queue" in job.err, "a list alone could be anything"
    assert job.import_(server.url, "--from", "kumo", "--key", KEY).out == "added 2, duplicate 0, full 0, invalid 0\n"
    ready(client, 0, "http://a.test/3")
    assert job.import_(server.url).out == "added 1, duplicate 2, full 0, invalid 0\n", "half of it was moved"
    assert job.urls() == [f"http://a.test/{number}" for number in (1, 2, 3)]


def test_dead_letters_stay_dead_and_seen_urls_may_be_imported(client: Any, server: Redis, job: Job) -> None:
    ready(client, 0, "http://a.test/pending")
    letter = {"id": "redis-lease-1", "request": stored("http://a.test/dead"), "reason": "failed", "delivery_count": 3}
    client.rpush(f"{KEY}:dead_letters", json.dumps(letter | {"dead_lettered_at_ms": "1700000000000"}))
    client.sadd("my-crawl:seen", "http://a.test/pending", "http://a.test/dead", "http://a.test/done")
    client.rpush(f"{KEY}:dead_letters", "nonsense", json.dumps(letter | {"id": "2", "request": stored("ftp://a.test")}))
    for new in (1, 0):
        told = f"duplicate {1 - new}, full 0, invalid 2 (json 1, scheme 1)"
        job.import_(server.url)
        assert job.out == f"added {new}, {told}" + ", dead letters 1\n" * new + "\n" * (1 - new)
    assert job.urls() == ["http://a.test/pending"]
    with Reader(job.folder / "frontier") as reader:
        [dead] = reader.dead_letters()
    assert (dead.uri.url, dead.reason) == ("http://a.test/dead", "failed")
    assert "my-crawl:seen: 3 URLs" in job.err and "--key my-crawl:seen --seen" in job.err
    job.import_(server.url, "--key", "my-crawl:seen", "--seen")
    assert job.out == "added 0, duplicate 0, full 0, invalid 0, marked as seen 1\n"
    job.import_(server.url, "--key", f"{KEY}:dead_letters", "--force")
    assert sorted(job.urls()) == ["http://a.test/dead", "http://a.test/pending"]


def test_malformed_members_are_reported_and_the_others_imported(client: Any, server: Redis, job: Job) -> None:
    ready(client, 0, "http://a.test/")
    bad = ["", "nonsense", "[1]", "{}", '{"request": "{"}', '{"request": {"url": 1}}', "[" * 10_000, b"\xff"]
    client.zadd(f"{KEY}:ready", dict.fromkeys(bad, 0))
    client.zadd(f"{KEY}:lease_deadlines", {"lost": 1})
    client.hset(f"{KEY}:leases", "other", "{}")
    job.import_(server.url)
    assert job.code == 0 and job.out.startswith("added 1, duplicate 0, full 0, invalid 9 ("), job.out
    assert f"{KEY}:leases: lost: there is a deadline, but not the lease" in job.err
