"""Crawls at random with many URIs of each host out at a time: nothing goes out twice, and each URI ends once."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Directive, Lease
from budgetfrontier.engine import pending, ring
from budgetfrontier.errors import LeaseExpired
from tests.support import START, memory

TTL = 40.0
ENDS = (Outcome.RETRY, Outcome.RETRY, Outcome.DEFERRED, *(Outcome.SUCCESS,) * 6, Outcome.FAILURE)
SETTINGS: dict[str, dict[str, Any]] = {
    "retried alone": {"retry": {"delay": 5.0, "scope": "uri", "max_retries": 10_000}, "concurrency": 8},
    "newest first": {"retry": {"delay": 5.0, "scope": "uri", "max_retries": 10_000}, "concurrency": 3, "order": "lifo"},
    "hosts wait": {"retry": {"delay": 5.0, "max_retries": 10_000}, "concurrency": 4},
    "one at a time": {"retry": {"delay": 5.0, "scope": "uri", "max_retries": 10_000}, "concurrency": 1},
    "at once": {"retry": {"delay": 0.0, "scope": "uri", "max_retries": 10_000}, "concurrency": 2},
    "held": {
        "retry": {"delay": 5.0, "scope": "uri", "max_retries": 10_000},
        "concurrency": 3,
        "hold_queues": True,
        "balance_replenish_amount": 4,
    },
}


class Crawl:
    """A crawl whose fetches take a random time, some longer than a retry waits, some longer than their lease.

    URIs are known by a number in `meta`.
    """

    def __init__(self, seed: int, hosts: int, **options: Any) -> None:
        self.random = random.Random(seed)
        self.concurrency = options["concurrency"]
        self.clock = ManualClock(START)
        self.frontier = memory(self.clock, **{"hold_queues": False, "max_deliveries": 10_000, **options})
        self.hosts = [f"host{number}.test" for number in range(hosts)]
        self.numbers = 0
        self.left: dict[int, str] = {}
        self.out: dict[int, Lease] = {}
        self.ends: list[tuple[float, Lease]] = []
        self.charged = 0

    def uri(self, host: str, **fields: Any) -> CrawlUri:
        """Most are plain; some go first, some cost more, some come later."""
        draw, number = self.random, self.numbers
        self.numbers += 1
        self.left[number] = host
        chosen = {
            "directive": draw.choice((*(Directive.NORMAL,) * 5, Directive.HIGHEST, Directive.MEDIUM)),
            "priority": draw.choice((0, 0, 0, 3, -3)),
            "cost": draw.choice((1, 1, 1, 0, 2)),
            "not_before": draw.choice((None, None, None, START + draw.randrange(30))),
        }
        return CrawlUri(f"https://{host}/{number}", meta=number, **(chosen | fields))

    def lease(self) -> None:
        for lease in self.frontier.lease(self.random.randint(1, 30), ttl=TTL):
            number = lease.uri.meta
            assert number not in self.out, f"{lease.uri.url} was handed out while it was out"
            assert number in self.left, f"{lease.uri.url} was handed out when it was done"
            self.out[number] = lease
            slow = self.random.random() < 0.25
            self.ends.append((self.clock.time() + self.random.uniform(*((6, 60) if slow else (0, 4))), lease))

    def land(self) -> None:
        """Some downloads are over long before their outcome is known; of the others no more are out than may be."""
        for lease in self.out.values():
            if self.random.random() < 0.1:
                self.frontier.landed(lease)
        flying = Counter(lease.queue for lease in self.out.values() if not lease.landed)
        assert max(flying.values(), default=0) <= self.concurrency
        for queue in {lease.queue for lease in self.out.values()}:
            found = self.frontier.queue(queue)
            assert found is not None and found.out - found.landed == flying[queue]

    def finish(self) -> None:
        ended = [lease for end, lease in self.ends if end <= self.clock.time()]
        self.ends = [(end, lease) for end, lease in self.ends if end > self.clock.time()]
        for lease in ended:
            number, outcome = lease.uri.meta, self.random.choice(ENDS)
            if lease.expires <= self.clock.time():
                with pytest.raises(LeaseExpired):
                    self.frontier.finish(lease, outcome)
                continue
            found = [self.uri(lease.queue, force=True)] if self.random.random() < 0.1 else []
            self.frontier.finish(lease, outcome, discovered=found)
            assert self.out.pop(number) is lease
            self.charged += 0 if outcome is Outcome.DEFERRED else lease.cost
            if outcome in (Outcome.SUCCESS, Outcome.FAILURE):
                del self.left[number]

    def expire(self) -> None:
        """What the next call of the frontier's does."""
        self.out = {number: lease for number, lease in self.out.items() if lease.expires > self.clock.time()}

    def delete(self) -> None:
        """All that is pending of a host and not out."""
        self.frontier.lease(0)  # ends what has expired
        host = self.random.choice(self.hosts)
        doomed = [number for number, where in self.left.items() if where == host and number not in self.out]
        assert self.frontier.delete(queue=host) == len(doomed)
        for number in doomed:
            del self.left[number]

    def run(self) -> None:
        self.frontier.schedule_many([self.uri(host) for host in self.hosts for _ in range(3)])
        for turn in range(5000):
            self.lease()
            self.clock.advance(1)
            self.expire()
            self.land()
            self.finish()
            if turn % 10 == 9:
                self.delete()
            if self.frontier.state is CrawlState.FINISHED:
                break
        assert not self.left and not self.out


LIMITS = {
    "all remembered": (pending, {}),
    "two remembered": (pending, {"MOST_RUNS": 2}),
    "room for two": (pending, {"MOST_READ": 2 * 12 * pending.USUAL}),
    "room for one": (pending, {"MOST_READ": 12 * pending.USUAL}),
    "no room": (pending, {"MOST_READ": 0}),
    "long ring": (ring, {"LONGEST": 2, "CHUNK": 2}),
}


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("name", SETTINGS)
def test_nothing_goes_out_twice_and_each_uri_ends_once(name: str, limits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, values = LIMITS[limits]
    for limit, value in values.items():
        monkeypatch.setattr(module, limit, value)
    for seed in range(4):
        crawl = Crawl(seed, 12, **SETTINGS[name])
        with crawl.frontier as frontier:
            crawl.run()
            frontier.check()
            summary = frontier.summary()
        assert (summary.queued, summary.future, summary.in_process, summary.dead) == (0, 0, 0, 0)
        assert summary.expenditure == crawl.charged
