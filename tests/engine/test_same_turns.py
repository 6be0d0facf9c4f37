"""Turns by the kernel and ends by the batch are those of Python, one by one: table for table and hook for hook."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Lease, LeaseExpired, Outcome, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import turns
from budgetfrontier.engine.admission import admit
from tests.examples import few
from tests.support import START, kernel, memory, stored

pytestmark = pytest.mark.usefixtures("same_ids")

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"balance_replenish_amount": 3},
    "polite": {"polite": True, "balance_replenish_amount": 5},
    "several out": {"concurrency": 3, "hold_queues": False, "balance_replenish_amount": 4},
    "several out, polite": {"polite": True, "concurrency": 3, "error_penalty_amount": 2},
    "total budgets": {"queue_total_budget": 9, "retire_when": "reached", "balance_replenish_amount": 4},
    "intervals": {"politeness": {"min_interval": 2.0, "min_delay": 1.0, "max_delay": 9.0, "per_queue_concurrency": 2}},
    "regulated": {"polite": True, "concurrency": 2, "keep_urls": True, "balance_replenish_amount": 6},
    "overrides": {
        "polite": True,
        "overrides": [
            {"match": "host:b.test", "set": {"queue_total_budget": 5, "politeness": {"min_delay": 7.0}}},
            {"match": "host:c.test", "set": {"politeness": {"per_queue_concurrency": 2}}},
            {"match": "host:d.test", "set": {"balance_replenish_amount": 2, "precedence": 2}},
            {"match": "regex:.*/1[0-9]*", "set": {"balance_replenish_amount": 2, "precedence": 1}},
        ],
    },
    "a precedence floor": {
        "precedence_floor": 3,
        "precedence": 2,
        "overrides": [
            {"match": "host:d.test", "set": {"precedence": 4}},
            {"match": "regex:.*/1[0-9]*", "set": {"precedence": 3}},
        ],
    },
    "quotas": {"quotas": {"host": {"successes": 9, "errors": 4}, "queue": {"novel_bytes": 400}}, "concurrency": 2},
    "quotas, disregarded": {"quotas": {"label": {"urls": 9}, "queue": {"bytes": 300}, "force_retire": False}},
    "quotas of groups": {
        "groups": [
            {"name": "pair", "match": "regex:[ab].test", "quotas": {"successes": 11}, "max_in_flight": 3},
            {"name": "each", "by": "host", "quotas": {"bytes": 500, "errors": 5}},
        ],
        "concurrency": 2,
    },
    "groups": {
        "groups": [
            {"name": "pair", "match": "regex:[ab].test", "politeness": True, "max_in_flight": 2, "total_budget": 30},
            {"name": "each", "by": "host", "max_in_flight": 1, "max_bandwidth": 100},
        ],
        "polite": True,
        "concurrency": 2,
    },
    "a group of all": {"groups": [{"name": "all", "match": "*", "max_in_flight": 3, "total_budget": 40}]},
    "bandwidth": {"max_bandwidth": 900, "politeness": {"max_bandwidth": 300, "per_queue_concurrency": 2}},
    "precedence by successes": {"precedence_policy": {"success-counts": {"tiers": [2, 3]}}},
    "precedence by a policy": {
        "precedence_policy": "tests.engine.test_same_turns:by_host",
        "balance_replenish_amount": 2,
        "polite": True,
    },
    "retried alone": {"concurrency": 2, "retry": {"delay": 2.0, "scope": "uri", "max_retries": 2}, "order": "lifo"},
}


def by_host(uri: CrawlUri, *, precedence: int) -> int:
    return 1 if "d.test" in uri.url else precedence


class Told:
    """A hook that keeps what it is told; of finishes, too, if `finishes`: they are ended one by one then."""

    def __init__(self, *, finishes: bool) -> None:
        self.calls: list[tuple[Any, ...]] = []
        if finishes:
            self.on_finish = self._on_finish

    def _on_finish(self, frontier: Frontier, lease: Lease, outcome: Outcome) -> None:
        self.calls.append(("finish", lease.id, outcome))

    def on_pause_at_finish(self, frontier: Frontier, report: Any) -> None:
        self.calls.append(("pause", report.totals.succeeded))

    def on_retire(self, frontier: Frontier, queue: Any) -> None:
        self.calls.append(("retire", queue.queue, queue.expenditure))

    def on_deactivate(self, frontier: Frontier, queue: Any) -> None:
        self.calls.append(("deactivate", queue.queue, queue.balance))

    def on_dead_letter(self, frontier: Frontier, letter: Any) -> None:
        self.calls.append(("dead", letter.uri.url))


def finish_each(frontier: Frontier, finished: Iterable[Lease | Finish]) -> list[Lease]:
    """What `finish_many` is said to do."""
    late = []
    for item in finished:
        more = {} if isinstance(item, Lease) else msgspec.structs.asdict(item)
        lease = more.pop("lease", item)
        try:
            frontier.finish(lease, more.pop("outcome", Outcome.SUCCESS), **more)
        except LeaseExpired:
            late.append(lease)
    return late


def a_finish(draw: random.Random, lease: Lease, number: int) -> Lease | Finish:
    kind = draw.random()
    if kind < 0.4:
        return lease
    if kind < 0.7:
        return Finish(
            lease,
            fetch_seconds=draw.choice((None, 0.5)),
            crawl_delay=draw.choice((None, 4.0, 8.0)),
            status=draw.choice((0, 200, 200, 429)),
            size=draw.choice((0, 0, 70)),
            novel=draw.choice((None, True, False)),
            digest=draw.choice((b"", b"a", b"b", draw.randbytes(20))),
        )
    links: list[str | CrawlUri] = [
        f"https://{draw.choice('abcdx')}.test/new{draw.randrange(number * 3 + 1)}"
        for _ in range(draw.choice((0, 0, 3)))
    ]
    if draw.random() < 0.1:
        links.append(CrawlUri(lease.uri.url, force=True))
    return Finish(
        lease,
        draw.choice(list(Outcome)),
        fetch_seconds=draw.choice((None, 1.0)),
        discovered=links,
        reason=draw.choice(("", "because")),
        delay=draw.choice((None, None, 0.0, 3.0)),
        retire_queue=draw.random() < 0.05,
        status=draw.choice((0, 0, 0, 200, 500, 503)),
    )


DIRECTIVES = Directive.NORMAL, Directive.NORMAL, Directive.HIGH, Directive.HIGHEST


class Twins:
    """Two frontiers to which the same happens; the first is without the kernel, and ends its leases one by one."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.random = random.Random(seed)
        self.clocks = ManualClock(START), ManualClock(START)
        finishes = self.random.random() < 0.2
        self.hooks = Told(finishes=finishes), Told(finishes=finishes)
        options = {"pause_at_finish": self.random.random() < 0.5} | options
        (clock, other), (hook, hook_of_other) = self.clocks, self.hooks
        with mock.patch.object(turns, "kernel", None), mock.patch.object(admit, "kernel", None):
            first = memory(clock, hooks=(hook,), **options)
        self.frontiers = first, memory(other, hooks=(hook_of_other,), **options)
        self.out: list[list[Lease]] = [[], []]
        self.number = 0
        self.adjusts = self.random.random() < 0.5
        """From the first adjustment on, all settings are looked up for each URI."""
        self.plain = self.random.random() < 0.5
        """All URIs are plain ones: the end of one with a label counts for it, and so do all ends after it."""

    def each(self, call: Any) -> Any:
        first, second = (call(frontier) for frontier in self.frontiers)
        assert first == second
        return first

    def schedule(self) -> None:
        draw, found = self.random, []
        for _ in range(draw.randrange(1, 12)):
            self.number += 1
            found.append(
                CrawlUri(
                    f"https://{draw.choice('abcd')}.test/{self.number}",
                    cost=draw.choice((None, None, 0, 1, 3, 2000)),
                    priority=0 if self.plain else draw.choice((0, 0, 0, 2)),
                    source=None if self.plain else draw.choice((None, None, None, "a label")),
                    directive=Directive.NORMAL if self.plain else draw.choice(DIRECTIVES),
                )
            )
        if draw.random() < 0.3:
            url = f"https://{draw.choice('abcd')}.test/plain/{self.number}"
            self.each(lambda frontier: frontier.schedule(url))
        self.each(lambda frontier: frontier.schedule_many(found).added)

    def lease(self) -> None:
        count = self.random.randrange(1, 9)
        for frontier, out in zip(self.frontiers, self.out, strict=True):
            out += frontier.lease(count, ttl=20.0)
        first, second = self.out
        assert [msgspec.structs.astuple(lease) for lease in first] == [
            msgspec.structs.astuple(lease) for lease in second
        ]

    def land(self) -> None:
        if self.out[0]:
            number = self.random.randrange(len(self.out[0]))
            for frontier, out in zip(self.frontiers, self.out, strict=True):
                with suppress(LeaseExpired):
                    frontier.landed(out[number], fetch_seconds=0.5)

    def finish(self) -> None:
        draw = self.random
        chosen = [number for number in range(len(self.out[0])) if draw.random() < 0.6]
        draw.shuffle(chosen)
        if chosen and draw.random() < 0.2:
            chosen.append(chosen[0])  # given twice
        seed = draw.random()
        bare = draw.random() < 0.3  # leases are not checked one by one, and one alone ends as by `finish`
        one_by_one, by_batch = (
            [out[number] if bare else a_finish(again, out[number], self.number) for number in chosen]
            for out, again in zip(self.out, (random.Random(seed), random.Random(seed)), strict=True)
        )
        first = finish_each(self.frontiers[0], one_by_one)
        second = draw.choice((finish_each, Frontier.finish_many, Frontier.finish_many))(self.frontiers[1], by_batch)
        assert [lease.id for lease in first] == [lease.id for lease in second]
        self.out = [[lease for i, lease in enumerate(out) if i not in chosen] for out in self.out]

    def adjust(self) -> None:
        changes = {"balance_replenish_amount": self.random.choice((0, 3, 3)), "precedence": self.random.choice((1, 3))}
        if self.random.random() < 0.5:  # from then on, no budget that crawlers ask for counts
            changes["queue_total_budget"] = self.random.choice((-1, 2, 5, 30))
        match = self.random.choice(("*", "host:a.test", "regex:.*2$"))
        self.each(lambda frontier: frontier.adjust(match=match, **changes).id)

    def steer(self) -> None:
        """Block a queue, end its block, retire it, bring it back, or regulate it; it often has URIs out."""
        draw, now = self.random, self.clocks[0].time()
        key = draw.choice([lease.queue for lease in self.out[0]] or ["a.test"])
        if self.frontiers[0].queue(key) is None:
            return
        until, step = now + draw.choice((2.0, 3.0, 30.0, 30.0)), draw.random()
        if step < 0.5:
            self.each(lambda frontier: frontier.snooze(key, until=until))
        elif step < 0.6:
            self.each(lambda frontier: frontier.wake(key))
        elif step < 0.65:
            self.each(lambda frontier: frontier.retire(key))
        elif step < 0.7:
            self.each(lambda frontier: frontier.unretire(key))
        else:
            asked = {"total_budget": draw.choice((-1, 2, 4, 9))}
            if kernel(self.frontiers[0]).tables.urls is not None:
                asked |= {"interval": draw.choice((0, 2, 4)), "max_completed": draw.choice((0, 3, 6))}
            self.each(lambda frontier: frontier.internals.regulate(key, **asked))

    def set_wake(self) -> None:
        """Let a queue wake at this moment, or at a time that a clock which was far ahead has stored."""
        out = [lease.queue for lease in self.out[0]] or ["a.test"]
        key, until = self.random.choice(out), self.clocks[0].time() + self.random.choice((0.0, 0.0, 1e8))
        for frontier in self.frontiers:
            queue = kernel(frontier).tables.queues.find(key)
            if queue is not None and queue.state in (QueueState.IN_PROCESS, QueueState.INACTIVE):
                queue.wake_time = until

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.random()
            if self.random.random() < 0.2:
                self.steer()
            if self.random.random() < 0.1:
                self.set_wake()
            if step < 0.22:
                self.schedule()
            elif step < 0.5:
                self.lease()
            elif step < 0.58:
                self.land()
            elif step < 0.88:
                self.finish()
            elif step < 0.92 and self.adjusts:
                self.adjust()
            else:
                seconds = self.random.choice((0.0, 1.0, 3.0, 25.0))
                for clock in self.clocks:
                    clock.advance(seconds)
            if self.random.random() < 0.2:
                self.each(stored)
        self.each(lambda frontier: frontier.summary())
        self.each(stored)
        assert self.hooks[0].calls == self.hooks[1].calls
        for frontier in self.frontiers:
            frontier.check()


def run(seed: int, name: str, steps: int) -> None:
    """Let the same happen to both, and close them: Hypothesis draws a thousand of them, and each takes a megabyte."""
    twins = Twins(seed, **SETTINGS[name])
    first, second = twins.frontiers
    with first, second:
        twins.run(steps)


@pytest.mark.parametrize("name", SETTINGS)
@few(15)  # of nine kinds, each with 25 batches
@given(seed=st.integers(0, 1 << 32))
def test_turns_and_ends_are_the_same(name: str, seed: int) -> None:
    run(seed, name, 25)


@pytest.mark.parametrize("name", SETTINGS)
def test_turns_and_ends_are_the_same_in_long_runs(name: str) -> None:
    for seed in range(3):
        run(seed, name, 150)
