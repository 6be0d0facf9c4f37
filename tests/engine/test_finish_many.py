"""`finish_many`: it equals `finish` for each, table for table and hook for hook."""

from __future__ import annotations

import random
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Lease, LeaseExpired, Outcome, PolicyError
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import finish_many
from budgetfrontier.storage import keys, lmdb_env
from tests.support import START, kernel, memory, on_disk, one, pages, state

pytestmark = pytest.mark.usefixtures("same_ids")

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "polite": {"polite": True},
    "several out": {"concurrency": 3, "hold_queues": False},
    "total budgets": {"queue_total_budget": 9, "retire_when": "reached", "balance_replenish_amount": 4},
    "overrides": {
        "polite": True,
        "overrides": [
            {"match": "host:b.test", "set": {"queue_total_budget": 5, "politeness": {"min_delay": 7.0}}},
            {"match": "regex:.*/1[0-9]*", "set": {"balance_replenish_amount": 2, "precedence": 1}},
        ],
    },
    "retried alone": {"concurrency": 2, "retry": {"delay": 2.0, "scope": "uri", "max_retries": 2}, "order": "lifo"},
}


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


def tables(frontier: Frontier) -> dict[str, list[tuple[bytes, bytes]]]:
    """All that a frontier has stored, but for the time of its commit."""
    frontier.commit()
    view = kernel(frontier).tables.env.view()
    return {name: list(view.items(name)) for name in keys.TABLES}


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
    if kind < 0.6:
        status = draw.choice((0, 200, 200, 429))
        return Finish(
            lease, fetch_seconds=draw.choice((None, 0.5)), crawl_delay=draw.choice((None, 4.0)), status=status
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


class Twins:
    """Two frontiers to which the same happens; one ends its leases one by one."""

    def __init__(self, seed: int, **options: Any) -> None:
        self.random = random.Random(seed)
        self.clocks = ManualClock(START), ManualClock(START)
        finishes = self.random.random() < 0.3
        self.hooks = Told(finishes=finishes), Told(finishes=finishes)
        options = {"pause_at_finish": self.random.random() < 0.5} | options
        self.frontiers = tuple(
            memory(clock, hooks=(hook,), **options) for clock, hook in zip(self.clocks, self.hooks, strict=True)
        )
        self.out: list[list[Lease]] = [[], []]
        self.number = 0

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
                    cost=draw.choice((None, None, 1, 3)),
                    priority=draw.choice((0, 0, 0, 2)),
                    directive=draw.choice((Directive.NORMAL, Directive.NORMAL, Directive.HIGH)),
                )
            )
        self.each(lambda frontier: frontier.schedule_many(found).added)

    def lease(self) -> None:
        count = self.random.randrange(1, 9)
        for frontier, out in zip(self.frontiers, self.out, strict=True):
            out += frontier.lease(count, ttl=20.0)
        first, second = self.out
        assert [(lease.id, lease.uri, lease.attempt) for lease in first] == [
            (lease.id, lease.uri, lease.attempt) for lease in second
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
        batches = [
            [a_finish(again, out[number], self.number) for number in chosen]
            for out, again in zip(self.out, (random.Random(seed), random.Random(seed)), strict=True)
        ]
        one_by_one = finish_each(self.frontiers[0], batches[0])
        at_once = self.frontiers[1].finish_many(iter(batches[1]))
        assert [lease.id for lease in one_by_one] == [lease.id for lease in at_once]
        self.out = [[lease for i, lease in enumerate(out) if i not in chosen] for out in self.out]

    def adjust(self) -> None:
        changes = {"queue_total_budget": self.random.choice((-1, 5, 30)), "balance_replenish_amount": 3}
        match = self.random.choice(("*", "host:a.test", "regex:.*2$"))
        self.each(lambda frontier: frontier.adjust(match=match, **changes).id)

    def block(self) -> None:
        """Block a queue, which others may have out, or end its block."""
        key, until = self.random.choice(("a.test", "b.test")), self.clocks[0].time() + self.random.choice((2.0, 30.0))
        if self.random.random() < 0.7:
            self.each(lambda frontier: frontier.snooze(key, until=until))
        else:
            self.each(lambda frontier: frontier.wake(key))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.random()
            if self.random.random() < 0.1:
                self.block()
            if step < 0.25:
                self.schedule()
            elif step < 0.55:
                self.lease()
            elif step < 0.6:
                self.land()
            elif step < 0.9:
                self.finish()
            elif step < 0.93:
                self.adjust()
            else:
                seconds = self.random.choice((0.0, 1.0, 3.0, 25.0))
                for clock in self.clocks:
                    clock.advance(seconds)
            if self.random.random() < 0.2:
                self.each(tables)
        self.each(lambda frontier: frontier.summary())
        self.each(tables)
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
@settings(max_examples=max(20, settings().max_examples // 5))  # of six kinds, each with 25 batches
@given(seed=st.integers(0, 1 << 32))
def test_it_is_finish_for_each(name: str, seed: int) -> None:
    run(seed, name, 25)


@pytest.mark.parametrize("name", SETTINGS)
def test_it_is_finish_for_each_in_long_runs(name: str) -> None:
    for seed in range(3):
        run(seed, name, 150)


def test_a_bare_lease_is_a_success() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("AB", 2))
    assert frontier.finish_many(frontier.lease(5)) == []
    assert frontier.summary().succeeded == 2
    assert frontier.finish_many([]) == []


def test_leases_that_have_ended_and_those_given_twice_are_returned() -> None:
    clock = ManualClock(START)
    frontier = memory(clock, concurrency=9)
    frontier.schedule_many(pages("A", 4))
    first, second, third = frontier.lease(3, ttl=10)
    frontier.finish(first)
    assert frontier.finish_many([second, first, second, Finish(second, Outcome.FAILURE)]) == [first, second, second]
    clock.advance(11)
    assert frontier.finish_many([third, Finish(third)]) == [third, third]
    assert (frontier.summary().succeeded, frontier.summary().failed) == (2, 0)
    frontier.check()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ("no lease", TypeError),
        (Finish("no lease"), TypeError),  # type: ignore[arg-type]
        ({"outcome": "no outcome"}, ValueError),
        ({"delay": -1.0}, ValueError),
        ({"fetch_seconds": float("nan")}, ValueError),
        ({"discovered": "https://a.test/"}, TypeError),
        (Lease([], "a.test", CrawlUri("https://a.test/"), 1, 1.0, 1), TypeError),  # type: ignore[arg-type]
        (Finish(Lease("1", "a.test", CrawlUri("https://a.test/"), 1, 1.0, 1)), TypeError),  # type: ignore[arg-type]
    ],
)
def test_all_arguments_are_checked_before_anything_changes(wrong: Any, error: type[Exception]) -> None:
    frontier = memory(concurrency=9)
    frontier.schedule_many(pages("A", 2))
    first, second = frontier.lease(2)
    with pytest.raises(error):
        frontier.finish_many([first, Finish(second, **wrong) if isinstance(wrong, dict) else wrong])
    assert frontier.summary().succeeded == 0
    assert frontier.finish_many([first, second]) == []


class Failing:
    """A politeness policy that fails for one URL in three."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, settings: Any, **_: Any) -> float:
        self.asked += 1
        if self.asked == 3:
            raise RuntimeError("no")
        return 1.0


def test_those_before_a_policy_that_fails_have_ended() -> None:
    frontier = memory(politeness_policy="tests.engine.test_finish_many:Failing", concurrency=9)
    frontier.schedule_many(pages("A", 5))
    leases = frontier.lease(5)
    with pytest.raises(PolicyError):
        frontier.finish_many(leases)
    assert frontier.summary().succeeded == 2
    assert frontier.finish_many(leases) == leases[:2]
    frontier.check()


def test_a_batch_is_committed_in_parts(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish_many, "BATCH", 10)
    with on_disk(tmp_path, concurrency=99, commit_operations=10) as frontier:
        frontier.schedule_many(pages("A", 35))
        leases = frontier.lease(35)
        frontier.commit()
        commits = []
        env = kernel(frontier).tables.env
        before = env.env.info()["last_txnid"]
        assert frontier.finish_many(leases) == []
        commits.append(env.env.info()["last_txnid"] - before)
        assert commits == [3]  # the last five wait for the next
        assert state(frontier, "A") == "EXHAUSTED"


def test_those_before_a_policy_that_fails_count_as_operations(tmp_path: Path) -> None:
    failing = "tests.engine.test_finish_many:Failing"
    with on_disk(tmp_path, concurrency=9, commit_operations=2, politeness_policy=failing) as frontier:
        frontier.schedule_many(pages("A", 5))
        leases = frontier.lease(5)
        frontier.commit()
        env = kernel(frontier).tables.env.env
        before = env.info()["last_txnid"]
        with pytest.raises(PolicyError):
            frontier.finish_many(leases)
        assert env.info()["last_txnid"] == before + 1


LARGE: dict[str, Any] = {
    "found": {"discovered": 3},
    "retried": {"outcome": Outcome.RETRY, "delay": 0.0},
    "dead": {"outcome": Outcome.DEAD},
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_batch_writes_no_more_at_once_than_the_map_has_room_for(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmdb_env, "MIN_ROOM", 64 << 20)
    options = dict(LARGE[kind])
    each = options.pop("discovered", 0)
    with on_disk(tmp_path, concurrency=999) as frontier:
        frontier.schedule_many(CrawlUri(f"https://a.test/{n}", payload=bytes(900_000)) for n in range(150))
        leases = frontier.lease(150)
        frontier.commit()
        finishes = [
            Finish(
                lease,
                discovered=[CrawlUri(f"{lease.uri.url}/{n}", payload=bytes(400_000)) for n in range(each)],
                **options,
            )
            for lease in leases
        ]
        assert frontier.finish_many(finishes) == []
        summary = frontier.summary()
        assert (summary.scheduled, summary.succeeded + summary.retried + summary.dead) == (150 * (1 + each), 150)
        frontier.check()


def test_what_is_found_counts_in_the_parts_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finish_many, "BATCH", 10)
    with on_disk(tmp_path, concurrency=99, commit_operations=1) as frontier:
        frontier.schedule_many(pages("A", 7))
        leases = frontier.lease(7)
        frontier.commit()
        env = kernel(frontier).tables.env.env
        before = env.info()["last_txnid"]
        found = [4, 4, 0, 30, 0, 8, 0]
        links = [pages("B", count, first=100 * count) for count in found]
        finishes = [Finish(lease, discovered=urls) for lease, urls in zip(leases, links, strict=True)]
        assert frontier.finish_many(finishes) == []
        assert env.info()["last_txnid"] == before + 5  # with their leases: 4 + 4, 0, 30, 0 + 8 and 0


def test_the_crawl_is_over_once_all_have_ended() -> None:
    frontier = memory(concurrency=9)
    frontier.schedule_many(pages("A", 3))
    frontier.finish_many(frontier.lease(2))
    assert frontier.state == "RUNNING"
    frontier.finish_many([Finish(one(frontier), discovered=["https://a.test/more"])])
    assert frontier.state == "RUNNING"
    frontier.finish_many(frontier.lease(2))
    assert frontier.state == "FINISHED"


@pytest.mark.parametrize(
    "wrong", ["https://a.test/", b"", Finish(Lease(1, "a.test", CrawlUri("https://a.test/"), 1, 1.0, 1))]
)
def test_it_takes_an_iterable(wrong: Any) -> None:
    frontier = memory()
    with pytest.raises(TypeError, match=r"takes leases.*one alone goes into a list"):
        frontier.finish_many(wrong)
    assert frontier.finish_many([]) == []


def test_what_is_no_lease_in_a_finish_is_named() -> None:
    with pytest.raises(TypeError, match=r"takes leases.*: 5 in a Finish is no lease$"):
        memory().finish_many([Finish(cast("Any", 5))])


class AskedForFive:
    """A politeness policy that may be asked five times."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, settings: Any, **_: Any) -> float:
        self.asked += 1
        assert self.asked < 5
        return 1.0


def test_a_lease_given_twice_is_asked_about_once() -> None:
    frontier = memory(politeness_policy="tests.engine.test_finish_many:AskedForFive", concurrency=9)
    frontier.schedule_many(pages("A", 4))
    leases = frontier.lease(4)
    assert frontier.finish_many([*leases, leases[0]]) == leases[:1]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_batch_of_one_ends_as_one_finish_does(settings: dict[str, Any]) -> None:
    told = Told(finishes=True), Told(finishes=True)
    clock = ManualClock(START)
    with memory(clock, hooks=[told[0]], **settings) as one_by_one, memory(clock, hooks=[told[1]], **settings) as batch:
        for f in (one_by_one, batch):
            f.schedule_many(pages("A", 12))
            f.schedule_many(pages("B", 3))
        for _ in range(12):
            first, second = one_by_one.lease(1), batch.lease(1)
            assert [lease.uri for lease in first] == [lease.uri for lease in second]
            for lease in first:
                one_by_one.finish(lease)
            if second:
                assert batch.finish_many(second) == []
                assert batch.finish_many(second) == second, "it has ended"
            assert one_by_one.summary() == batch.summary()
            clock.advance(4)
        assert tables(one_by_one) == tables(batch)
    assert told[0].calls == told[1].calls


def test_a_batch_of_one_that_has_expired_is_returned() -> None:
    clock = ManualClock(START)
    with memory(clock) as f:
        f.schedule_many(pages("A", 1))
        leases = f.lease(1, ttl=5)
        clock.advance(5)
        assert f.finish_many(leases) == leases
        assert (f.summary().succeeded, f.summary().expired) == (0, 1)
        with pytest.raises(TypeError):
            f.finish_many([None])  # type: ignore[list-item]
