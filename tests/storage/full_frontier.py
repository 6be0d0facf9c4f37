"""A frontier with a queue in every state, and every kind of record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from budgetfrontier import CrawlUri, Directive, Frontier, Lease, Outcome, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command

START = 1_700_000_000.0
NOW = START + 1380
SETTINGS: dict[str, Any] = {
    "crawl": "everything",
    "seeds": ["https://a.test/"],
    "frontier": {
        "balance_replenish_amount": 6,
        "cost_policy": "wag",
        "error_penalty_amount": 2,
        "max_deliveries": 3,
        "commit_interval": 3600,
        "politeness": {"delay_factor": 0, "min_delay": 0, "max_delay": 0},
        "retry": {"max_retries": 2, "delay": 60},
    },
    "overrides": [
        {"match": "domain:capped.test", "set": {"queue_total_budget": 2}},
        {"match": "domain:reached.test", "set": {"queue_total_budget": 1, "retire_when": "reached"}},
        {"match": "domain:frozen.test", "set": {"balance_replenish_amount": 0}},
        {"match": "domain:polite.test", "set": {"politeness.min_delay": 20, "politeness.max_delay": 20}},
        {"match": "domain:aside.test", "set": {"retry.scope": "uri"}},
        {"match": "domain:wide.test", "set": {"politeness.per_queue_concurrency": 3}},
        {"match": "domain:wide.test", "set": {"quotas.host": {"urls": 1000}, "quotas.queue": {"bytes": "1GB"}}},
        {"match": "domain:stack.test", "set": {"order": "lifo", "precedence": 5}},
        {"match": "domain:late.test", "set": {"precedence": 65535}},
    ],
}
LATE: dict[str, Any] = {"politeness.min_delay": 30, "politeness.max_delay": 40}
EVERY_FIELD: dict[str, Any] = {
    "via": "https://via.test/page?q=1",
    "hops": "LLRP",
    "source": "a seed, ünïcode",
    "method": "POST",
    "headers": {"Accept": "text/html", "X-Empty": ""},
    "body": b"\x00\xff body",
    "meta": {"list": [1, None, True, 2.5], "deep": {"text": "\u4f60\u597d"}},
    "payload": bytes(range(256)),
    "directive": Directive.HIGHEST,
    "priority": -5,
    "cost": 7,
}


def make(path: Path) -> None:
    """Create it in a folder, stopped at NOW with leases out."""
    clock = ManualClock(START)
    with Frontier.open(path, Settings.from_dict(SETTINGS), clock=clock, keep_leases=True) as frontier:
        fill(frontier, clock)
        frontier.check()
    assert clock.time() == NOW


def look(path: Path) -> dict[str, Any]:
    """All that a reader is told, as plain data."""
    with Reader(path) as reader:
        found = {
            "summary": reader.summary(),
            "queues": list(reader.queues()),
            "pending": [reader.pending(queue.queue) for queue in reader.queues()],
            "future": reader.future(),
            "leases": reader.leases(),
            "dead_letters": reader.dead_letters(),
            "audit": reader.audit(),
            "adjustments": reader.adjustments,
        }
    looked: dict[str, Any] = plain(found)
    return looked


def plain(value: Any) -> Any:
    """Records as mappings, with the names of their fields, and all else as JSON has it."""
    if isinstance(value, msgspec.Struct):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return msgspec.to_builtins(value)


def drain(frontier: Frontier, clock: ManualClock) -> list[list[Any]]:
    """Crawl to the end, waiting when there is nothing to do: what was given out, in order."""
    given: list[list[Any]] = []
    while (wait := frontier.next_ready_in()) is not None:
        clock.advance(wait)
        for lease in frontier.lease(1):
            given.append([lease.queue, lease.uri.url, lease.cost, lease.attempt, lease.delivery])
            frontier.finish(lease, Outcome.SUCCESS)
    return given


def fill(frontier: Frontier, clock: ManualClock) -> None:
    """A queue in every state, and every kind of record."""
    with_history(frontier, clock)
    frontier.internals.know_address("history.test", "192.0.2.1")
    frontier.adjust(match="regex:/cal(endar)?/", cost_policy="unit", reason="traps", who="alice")
    frontier.adjust(match="domain:late.test", who="bob", **LATE)
    with_retired(frontier)
    with_future(frontier)
    with_active_and_inactive(frontier, clock)
    frontier.internals.apply(
        Command("retire", {"queue": "nobody.test"}, "carol", "a queue that is not there"), number=7
    )
    frontier.schedule_many(["https://exhausted.test/1", "ftp://x.test/", "", "https://wide.test/0"])


def take(frontier: Frontier, host: str) -> Lease:
    """The one URI that is given out now, which must be of this host."""
    [lease] = frontier.lease(1)
    assert lease.queue == host, (lease.queue, host)
    return lease


def pages(host: str, *paths: str) -> list[str]:
    return [f"https://{host}/{path}" for path in paths]


def with_history(frontier: Frontier, clock: ManualClock) -> None:
    """Attempts of every outcome, deliveries and retries that were counted, dead letters."""
    frontier.schedule_many(pages("exhausted.test", "1", "2?q=1", "3", "4", "5"))
    frontier.finish(take(frontier, "exhausted.test"))
    frontier.finish(take(frontier, "exhausted.test"), Outcome.DISREGARDED)
    frontier.finish(take(frontier, "exhausted.test"), Outcome.DEFERRED)
    frontier.finish(take(frontier, "exhausted.test"), Outcome.FAILURE, reason="404 is one, this is not")
    while leases := frontier.lease(1):
        frontier.finish(leases[0], fetch_seconds=0.5)

    frontier.schedule(CrawlUri("https://dead.test/whole?a=b", **EVERY_FIELD))
    frontier.schedule(CrawlUri("https://dead.test/other", via="https://dead.test/", hops="L"))
    frontier.finish(take(frontier, "dead.test"), Outcome.DEAD, reason="poison")
    frontier.finish(take(frontier, "dead.test"), Outcome.DEAD)

    frontier.schedule_many(pages("retrying.test", "1", "2"))
    for _ in range(3):  # one to the dead letters
        frontier.finish(take(frontier, "retrying.test"), Outcome.RETRY, reason="timeout")
        clock.advance(60)
    frontier.schedule_many(pages("killed.test", "1", "2"))
    frontier.retire("retrying.test")
    for _ in range(4):  # one to the dead letters, one delivery of the other
        take(frontier, "killed.test")
        clock.advance(300)
    frontier.retire("killed.test")
    frontier.lease(0)
    assert [letter.reason for letter in frontier.dead_letters()] == [
        "poison", "dead", "timeout", "max deliveries",
    ]  # fmt: skip


def with_retired(frontier: Frontier) -> None:
    """Queues retired for each reason there is."""
    frontier.schedule_many(pages("capped.test", "1", "2", "3", "4", "5"))
    for _ in range(3):
        frontier.finish(take(frontier, "capped.test"))
    frontier.schedule_many(pages("reached.test", "1"))
    frontier.finish(take(frontier, "reached.test"))
    frontier.schedule_many(pages("frozen.test", "1", "2?q"))
    frontier.schedule_many(pages("asked.test", "1", "2"))
    frontier.finish(take(frontier, "asked.test"), Outcome.FAILURE, retire_queue=True)
    frontier.schedule_many(["http://named.test:8080/1", "http://named.test:8080/2", "http://emptied.test/"])
    frontier.retire("named.test:8080", reason="not what we want", who="dave")
    frontier.retire("emptied.test")
    frontier.delete(queue="emptied.test", reason="nor this")
    assert not frontier.lease(1)

    states = {row.queue: (str(row.state), row.queued, row.by_name) for row in frontier.report().queues}
    assert states["capped.test"] == ("RETIRED", 2, False)
    assert states["reached.test"] == ("RETIRED", 0, False)
    assert states["frozen.test"] == ("RETIRED", 2, False)
    assert states["asked.test"] == ("RETIRED", 1, False)
    assert states["named.test:8080"] == ("RETIRED", 2, True)
    assert states["emptied.test"] == ("EXHAUSTED", 0, True)


def with_future(frontier: Frontier) -> None:
    """URIs for later: a retry of its own, one with every field, one for a RETIRED queue."""
    frontier.schedule_many(pages("aside.test", "1", "2"))
    frontier.finish(take(frontier, "aside.test"), Outcome.RETRY, delay=500)
    frontier.finish(take(frontier, "aside.test"))
    frontier.schedule(CrawlUri("https://later.test/", force=True, not_before=START + 1e6, **EVERY_FIELD))
    frontier.schedule(CrawlUri("http://named.test:8080/3", not_before=START + 2e6))


def with_active_and_inactive(frontier: Frontier, clock: ManualClock) -> None:
    """READY with and without leases, IN_PROCESS, SNOOZED for each reason, INACTIVE in four FIFOs."""
    for host in ("polite.test", "again.test", "blocked.test"):
        frontier.schedule_many(pages(host, "1", "2", "3"))
        lease = take(frontier, host)
        frontier.finish(lease, Outcome.RETRY if host == "again.test" else Outcome.SUCCESS)
        if host == "blocked.test":
            frontier.snooze(host, until=clock.time() + 86_400, reason="their admin asked")
    frontier.schedule_many(pages("spent.test", "1", "2?q", "3?q", "4?q", "5", "6"))
    for _ in range(4):  # costs 1, 1, 1, 2, and then 2: over its balance
        frontier.finish(take(frontier, "spent.test"))
    frontier.finish(take(frontier, "spent.test"))
    frontier.schedule_many(pages("ready.test", "1", "2", "3", "calendar/4?q") + pages("other.test", "1", "2"))
    frontier.schedule_many(
        pages("busy.test", "1", "2") + pages("wide.test", *"12345") + pages("waiting.test", "1", "2")
    )
    frontier.schedule(CrawlUri("https://fields.test/a?b", **EVERY_FIELD))
    frontier.schedule(CrawlUri("https://fields.test/a?b", force=True))
    frontier.schedule(CrawlUri("https://fields.test/a?c", queue="a key of its own", priority=9, cost=3))
    frontier.schedule(
        CrawlUri("https://fields.test/deep", via="https://fields.test/", hops="L", directive=Directive.HIGH)
    )
    frontier.schedule_many(pages("stack.test", "1", "2", "3") + pages("late.test", "1"))
    frontier.schedule_many(["https://xn--bcher-kva.test/\u00fc?q=\u00fc", "https://[::1]:8443/", "http://192.0.2.7/"])
    leases = frontier.lease(6)
    assert [lease.queue.partition(".")[0] for lease in leases] == ["spent", "ready", "other", "busy", "wide", "wide"]
    frontier.finish(leases[2])
    frontier.finish(leases[1])
    frontier.renew(leases[4], 1000)
    states = {row.queue: (str(row.state), row.out) for row in frontier.report().queues}
    assert states["ready.test"] == states["other.test"] == ("READY", 0)
    assert states["wide.test"] == ("READY", 2)
    assert states["busy.test"] == states["spent.test"] == ("IN_PROCESS", 1)
    assert {states[host][0] for host in ("polite.test", "again.test", "blocked.test")} == {"SNOOZED"}
