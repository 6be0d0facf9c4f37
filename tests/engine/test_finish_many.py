"""`finish_many`: what it takes, returns and commits; test_same_turns.py compares it with `finish` for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from budgetfrontier import CrawlUri, Directive, Finish, Lease, Outcome, PolicyError
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import finish_many
from budgetfrontier.rules.seeds import SeedFate
from budgetfrontier.storage import lmdb_env
from tests.engine.test_same_turns import SETTINGS, Told
from tests.support import START, kernel, memory, on_disk, one, pages, record, state, stored

pytestmark = pytest.mark.usefixtures("same_ids")


def test_a_bare_lease_is_a_success() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("AB", 2))
    assert frontier.finish_many(frontier.lease(5)) == []
    assert frontier.summary().succeeded == 2
    assert frontier.finish_many([]) == []


def test_a_batch_yields_to_a_better_precedence_that_a_policy_gives() -> None:
    with memory(precedence_policy="tests.engine.test_same_turns:by_host") as f:
        f.schedule_many(pages("AB", 4))
        leases = f.lease(2)
        f.schedule_many(pages("D", 2))
        assert f.finish_many(leases) == []
        for host in "AB":
            assert (state(f, host), record(f, host).balance) == ("INACTIVE", 0)
        f.check()


def test_a_batch_retires_a_queue_over_the_budget_that_crawlers_gave_it() -> None:
    with memory(concurrency=2) as f:
        f.schedule_many(pages("A", 4))
        leases = f.lease(2)
        f.internals.regulate("a.test", total_budget=1)
        assert f.finish_many(leases) == []
        assert state(f, "A") == "RETIRED"
        f.check()


def test_a_batch_yields_to_a_queue_that_takes_a_better_precedence_meanwhile() -> None:
    with memory(concurrency=2, overrides=[{"match": "host:d.test", "set": {"precedence": 1}}]) as f:
        f.schedule_many(pages("AB", 4))
        first, second, third, fourth = f.lease(4)
        f.schedule_many(pages("D", 2))
        f.finish(first)
        one(f)
        assert (state(f, "A"), state(f, "B"), state(f, "D")) == ("INACTIVE", "IN_PROCESS", "READY")
        f.adjust(match="host:a.test", precedence=2)
        f.finish_many([second, third, fourth])
        assert state(f, "B") == "INACTIVE"
        f.check()


def test_seeds_that_end_in_a_batch_after_a_change_of_settings_have_succeeded() -> None:
    """A queue takes its settings from its head, and that look deletes what has ended before."""
    with memory() as f:
        f.schedule_many(CrawlUri(url, directive=Directive.MEDIUM) for url in pages("AB", 1))
        leases = f.lease(2)
        f.retire("b.test")
        f.adjust(queue_total_budget=9)
        assert f.finish_many(leases) == []
        assert kernel(f).counters.seed_fates == {SeedFate.SUCCEEDED: 2, SeedFate.WAITING: 0}
        f.check()


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
        assert stored(one_by_one) == stored(batch)
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


def test_a_uri_with_a_precedence_makes_no_prerequisite_of_others() -> None:
    with memory(concurrency=40) as frontier:
        frontier.schedule_many(
            CrawlUri(f"https://a.test/{number}", precedence=2 if number % 5 == 0 else None) for number in range(30)
        )
        frontier.schedule(CrawlUri("https://a.test/robots.txt", directive=Directive.HIGHEST))
        frontier.finish_many(frontier.lease(31))
        found = frontier.summary()
        assert (found.succeeded, found.prerequisites, found.prerequisites_succeeded) == (31, 1, 1)
