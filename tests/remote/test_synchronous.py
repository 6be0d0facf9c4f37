"""A remote frontier does what the frontier does that it stands for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from budgetfrontier import (
    Adjustment,
    Admission,
    CrawlState,
    CrawlUri,
    Finish,
    Frontier,
    FrontierClosed,
    FrontierError,
    Lease,
    LeaseExpired,
    Outcome,
)
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import ConnectionLost, WrongType
from budgetfrontier.remote import AsyncRemoteFrontier, RemoteFrontier
from tests.remote.served import Served
from tests.support import PATIENCE, START, make_settings, pages

_T = TypeVar("_T")


class FromAsync:
    """`AsyncRemoteFrontier` with the calls of a synchronous one, for tests of both."""

    def __init__(self, address: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._remote = AsyncRemoteFrontier(address, **options)
        self._do(self._remote.connect())

    def _do(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._loop.run_until_complete(work)

    @property
    def state(self) -> CrawlState:
        return self._do(self._remote.state())

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._remote, name)
        if not callable(found):
            return found
        return lambda *args, **named: self._do(found(*args, **named))

    def __enter__(self) -> FromAsync:
        return self

    def __exit__(self, *error: object) -> None:
        self._do(self._remote.close())
        self._loop.close()


@pytest.fixture(params=["local", "remote", "asynchronous"])
def frontier(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Any]:
    if request.param == "local":
        with Frontier.open(tmp_path / "frontier", make_settings(), clock=clock) as local:
            yield local
        return
    served = request.getfixturevalue("served")
    kind = RemoteFrontier if request.param == "remote" else FromAsync
    with kind(served.address) as remote:
        yield remote


# -- the same as a frontier


def test_uris_are_admitted_one_by_one_and_in_batches(frontier: Any) -> None:
    assert frontier.schedule("https://a.test/0") is Admission.ADDED
    assert frontier.schedule(CrawlUri("https://A.test/0#top", priority=3)) is Admission.DUPLICATE
    assert frontier.schedule_each(["https://a.test/1", "no url", "https://a.test/1"]) == [
        Admission.ADDED,
        Admission.INVALID,
        Admission.DUPLICATE,
    ]
    tally = frontier.schedule_many(f"https://a.test/{number}" for number in range(10_000))
    assert (tally.added, tally.duplicate, tally.invalid) == (9998, 2, 0)
    assert frontier.mark_seen(["https://b.test/0", "https://a.test/0"]).added == 1
    assert frontier.summary().seen == 10_001
    assert [lease.uri.url for lease in frontier.lease(5)] == ["https://a.test/0"]


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        5,
        b"https://a.test/",
        ["https://a.test/"],
        "https://a.test/\udcff",
        CrawlUri("https://a.test/", priority="high"),  # type: ignore[arg-type]
        CrawlUri("https://a.test/", meta=object()),
        CrawlUri("https://a.test/", payload="text"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_uri_is_invalid_and_harms_no_other(frontier: Any, nonsense: Any) -> None:
    if isinstance(nonsense, str | CrawlUri):
        assert frontier.schedule(nonsense) is Admission.INVALID
    else:
        with pytest.raises(TypeError, match="a str or a CrawlUri"):
            frontier.schedule(nonsense)
    assert frontier.schedule_each(["https://a.test/0", nonsense]) == [Admission.ADDED, Admission.INVALID]
    tally = frontier.schedule_many(["https://b.test/0", nonsense])
    assert (tally.added, tally.invalid) == (1, 1)
    (lease, _) = frontier.lease(2)
    frontier.finish(lease, discovered=[nonsense, "https://c.test/"])
    assert frontier.summary().invalid == 3 + isinstance(nonsense, str | CrawlUri) and frontier.summary().scheduled == 3


def test_flags_and_lists_are_checked(frontier: Any) -> None:
    frontier.schedule("https://a.test/")
    [lease] = frontier.lease()
    calls: dict[str, Callable[[], object]] = {
        "retire_queue is True or False, not 'False'": lambda: frontier.finish(lease, retire_queue="False"),
        "retire_queue is True or False, not None": lambda: frontier.finish_many([Finish(lease, retire_queue=None)]),  # type: ignore[arg-type]
        "novel is True, False or None, not 0": lambda: frontier.finish(lease, novel=0),
        "address is a str, not int": lambda: frontier.finish(lease, address=5),
        "this takes an iterable of leases, such as a list, not int": lambda: frontier.give_back(5),
        "charge is True or False, not 'false'": lambda: frontier.mark_seen([], charge="false"),
        "dry_run is True or False, not 'no'": lambda: frontier.adjust(queue_total_budget=5, dry_run="no"),
    }
    for told, call in calls.items():
        with pytest.raises(TypeError, match=told) as refused:
            call()
        assert isinstance(refused.value, FrontierError)
    frontier.finish(lease)


def test_options_of_a_client_are_checked() -> None:
    for name in ("keep_leases", "quiet"):
        with pytest.raises(WrongType, match=f"{name} is True or False, not 'x'"):
            RemoteFrontier("a.test:1", **{name: "x"})  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="`tls` is True, False or the path of a file of certificates, not 5"):
        RemoteFrontier("a.test:1", tls=5)  # type: ignore[arg-type]


def test_all_fields_of_a_uri_come_back(frontier: Any) -> None:
    uri = CrawlUri(
        "https://a.test/x", via="https://b.test/", hops="L", method="POST", headers={"A": "b"}, body=b"body",
        meta={"depth": [1, None, 2.5]}, payload=b"\x00\xff", priority=7, cost=3, source="seeds",
    )  # fmt: skip
    frontier.schedule(uri)
    (lease,) = frontier.lease()
    assert lease.uri == uri and lease.cost == 3 and lease.delivery == 1 and lease.queue == "a.test"
    assert lease.expires == START + 300


def test_leases_end_in_every_way(frontier: Any, clock: ManualClock) -> None:
    frontier.schedule_many(pages("ABCDEF", 2))
    first, *others = frontier.lease(6)
    frontier.finish(first, fetch_seconds=0.2, discovered=["https://new.test/"], size=100)
    late = frontier.finish_many(
        [
            others[0],
            first,
            Finish(others[1], Outcome.RETRY, reason="timeout", delay=5.0),
            Finish(others[2], Outcome.DEAD, reason="no"),
            Finish(others[3], Outcome.DEFERRED),
            others[0],
            Finish(others[4], "FAILURE", retire_queue=True, size=5),  # type: ignore[arg-type]
        ]
    )
    assert late == [first, others[0]]
    total = frontier.summary()
    assert (total.succeeded, total.retried, total.dead, total.deferred, total.failed) == (2, 1, 1, 1, 1)
    assert total.bytes == 105 and total.in_process == 0 and total.queues["RETIRED"] == 1
    (letter,) = frontier.dead_letters()
    assert letter.reason == "no" and letter.uri == others[2].uri
    assert frontier.replay(letter) == 1 and frontier.dead_letters() == []
    with pytest.raises(LeaseExpired, match=str(first.id)):
        frontier.finish(first)


def test_wrong_arguments_are_refused_and_change_nothing(frontier: Any) -> None:
    frontier.schedule_many(pages("A", 2))
    (lease,) = frontier.lease()
    with pytest.raises(ValueError, match="seconds"):
        frontier.lease(ttl=-1.0)
    with pytest.raises(ValueError, match="fetch_seconds"):
        frontier.finish(lease, fetch_seconds=-1.0)
    with pytest.raises(ValueError, match="NONSENSE"):
        frontier.finish(lease, "NONSENSE")
    with pytest.raises(ValueError, match="size"):
        frontier.finish_many([Finish(lease, size=-1)])
    with pytest.raises(TypeError, match="list"):
        frontier.finish_many(lease)
    with pytest.raises(TypeError, match="Finish"):
        frontier.finish_many([lease.id])
    for name, given in ("finish", lease.id), ("renew", None), ("landed", lease.id), ("give_back", [lease.id]):
        with pytest.raises(TypeError, match=f"{name} takes a Lease, not"):
            getattr(frontier, name)(given)
    with pytest.raises(FrontierError, match="whole number"):
        for_crawlers(frontier).regulate("a.test", total_budget=True)
    with pytest.raises(TypeError, match="whole numbers"):
        frontier.replay(["1"])
    with pytest.raises(TypeError, match="list"):
        frontier.schedule_many("https://a.test/")
    assert frontier.summary().in_process == 1 and frontier.finish_many([lease]) == []


def test_a_lease_is_renewed_or_expires(frontier: Any, clock: ManualClock) -> None:
    frontier.schedule_many(pages("AB", 1))
    kept, lost = frontier.lease(2, ttl=10.0)
    clock.advance(5)
    frontier.renew(kept, 100.0)
    assert kept.expires == START + 105
    clock.advance(6)
    with pytest.raises(LeaseExpired):
        frontier.renew(lost)
    (again,) = frontier.lease(5)
    assert again.delivery == 2 and again.uri == lost.uri
    assert frontier.finish_many([lost, kept]) == [lost]
    assert frontier.next_ready_in() == 300.0


def test_leases_given_back_leave_no_trace(frontier: Any) -> None:
    frontier.schedule_many(pages("AB", 3))
    leases = frontier.lease(2)
    assert frontier.give_back([*leases, leases[0]]) == [leases[0]]
    again = frontier.lease(2)
    assert [(lease.uri.url, lease.delivery) for lease in again] == [(lease.uri.url, 1) for lease in leases]
    frontier.finish_many(again)
    assert frontier.give_back(leases) == leases
    total = frontier.summary()
    assert (total.succeeded, total.expired, total.deferred, total.expenditure) == (2, 0, 0, 2)


def test_a_download_that_is_over_lets_the_next_begin(frontier: Any) -> None:
    frontier.schedule_many(pages("A", 2))
    (lease,) = frontier.lease(2)
    frontier.landed(lease)
    assert lease.landed
    (second,) = frontier.lease(2)
    assert frontier.finish_many([lease, second]) == []
    with pytest.raises(LeaseExpired):
        frontier.landed(lease)


def test_the_crawl_is_paused_and_queues_are_steered(frontier: Any) -> None:
    frontier.schedule_many(pages("A", 2))
    assert frontier.pause(reason="lunch") is CrawlState.PAUSED and frontier.state is CrawlState.PAUSED
    assert frontier.lease() == [] and frontier.summary().pause_reason == "lunch"
    assert frontier.resume() is CrawlState.RUNNING
    assert frontier.retire("a.test") and not frontier.retire("z.test") and frontier.lease() == []
    assert frontier.unretire("a.test") and len(frontier.lease()) == 1
    queue = frontier.queue("a.test")
    assert queue.queued == 2 and queue.out == 1 and frontier.queue("z.test") is None
    assert frontier.terminate() is CrawlState.TERMINATED
    assert frontier.schedule_many(pages("B", 1)).added == 1 and frontier.lease() == []
    assert frontier.queue("b.test").queued == 1


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_what_applies_to_a_queue_is_told_with_the_adjustments_in_force(served: Served, kind: Any) -> None:
    uri = CrawlUri("http://a.test/1")
    with RemoteFrontier(served.address) as other, kind(served.address) as frontier:
        assert frontier.queue_key(uri) == "a.test"
        assert frontier.rest(uri, "a.test", fetch_seconds=2.0, crawl_delay=3.0) == 3.0
        other.adjust(match="host:a.test", politeness={"min_delay": "7s", "max_delay": "7s"})
        assert frontier.rest(uri, "a.test") == 7.0
        adjustments = frontier.adjustments
        (found,) = adjustments() if callable(adjustments) else adjustments
        assert found.match == "host:a.test" and found.set["politeness.min_delay"] == 7.0


# -- what is a remote frontier's own


def test_a_closed_client_gives_its_leases_back_and_is_used_no_more(served: Served) -> None:
    with RemoteFrontier(served.address) as one, RemoteFrontier(served.address) as other:
        one.schedule_many(pages("AB", 1))
        mine, theirs = one.lease(1), other.lease(1)
        one.close()
        one.close()
        with pytest.raises(FrontierClosed, match="closed"):
            one.lease()
        (again,) = other.lease(5)
        assert again.uri == mine[0].uri and again.delivery == 1
        assert other.finish_many([*theirs, again]) == []


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_a_closed_client_gives_back_what_it_failed_to_finish(served: Served, kind: Any) -> None:
    with RemoteFrontier(served.address) as watcher:
        with kind(served.address) as one:
            one.schedule("https://a.test/")
            (lease,) = one.lease()
            with pytest.raises(ValueError, match="NONSENSE"):
                one.finish(lease, "NONSENSE")
        total = watcher.summary()
        assert (total.in_process, total.queued) == (0, 1)


def test_a_client_may_leave_its_leases_out(served: Served) -> None:
    with RemoteFrontier(served.address, keep_leases=True) as one:
        one.schedule_many(pages("A", 1))
        (lease,) = one.lease()
    with RemoteFrontier(served.address) as other:
        assert other.summary().in_process == 1
        assert other.finish_many([lease]) == []


def test_crawls_are_frontiers_of_their_own(served: Served) -> None:
    with RemoteFrontier(served.address) as one, RemoteFrontier(served.address, crawl="ünï/code") as other:
        one.schedule_many(pages("A", 2))
        assert other.lease() == [] and other.summary().scheduled == 0
        assert other.folder != one.folder and other.folder.is_dir()
        assert (one.settings.crawl, other.settings.crawl) == ("DEFAULT", "ünï/code")


def test_more_than_a_message_can_hold_goes_in_several(served: Served) -> None:
    with RemoteFrontier(served.address) as remote:
        large = [CrawlUri(f"https://h{number}.test/", payload=bytes(1 << 19)) for number in range(40)]
        assert remote.schedule_many(large).added == 40
        leases: list[Lease] = []
        while some := remote.lease(100):
            leases += some
        assert sorted(lease.uri.url for lease in leases) == sorted(uri.url for uri in large)
        finished = [
            Finish(lease, discovered=[CrawlUri(f"{lease.uri.url}a", payload=bytes(1 << 19))]) for lease in leases
        ]
        assert remote.finish_many(finished) == []
        total = remote.summary()
        assert total.succeeded == 40 and total.scheduled == 80 and total.expired == 0
        (lease, *_) = remote.lease()
        with pytest.raises(ValueError, match="schedule_many"):
            remote.finish(lease, discovered=large)


def test_a_client_waits_on_the_server_for_what_others_schedule(served: Served) -> None:
    with RemoteFrontier(served.address) as one, RemoteFrontier(served.address) as other:
        assert one.lease(wait=0.0) == [] and one.lease(wait=0.01) == []
        found: list[Lease] = []
        thread = threading.Thread(target=lambda: found.extend(one.lease(5, wait=PATIENCE)))
        thread.start()
        other.schedule_many(pages("AB", 1))
        thread.join(PATIENCE)
        assert found and one.finish_many(found) == []


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_leases_end_and_others_begin_in_one_exchange(served: Served, kind: Any) -> None:
    with kind(served.address) as remote:
        assert remote.finish_and_lease([], 5) == ([], [])
        remote.schedule_many(pages("ABC", 2))
        late, leases = remote.finish_and_lease([], 3)
        assert late == [] and len(leases) == 3
        nonsense: Any = 5
        given = [
            leases[0],
            leases[0],
            Finish(leases[1], discovered=[CrawlUri("https://x.test/", meta={"a": 1}), nonsense]),
        ]
        late, more = remote.finish_and_lease(given, 10)
        assert late == [leases[0]] and len(more) == 3
        total = remote.summary()
        assert (total.succeeded, total.in_process, total.invalid) == (2, 4, 1)
        late, rest = remote.finish_and_lease([leases[2], *more], 5, wait=PATIENCE)
        assert late == [] and remote.finish_many(rest) == [] and remote.summary().succeeded == 7
        with pytest.raises(TypeError, match="list"):
            remote.finish_and_lease(leases[0])
        with pytest.raises(TypeError, match="Finish"):
            remote.finish_and_lease([7])


def test_many_clients_wait_and_each_uri_goes_to_one(served: Served) -> None:
    async def main() -> list[str]:
        async with AsyncRemoteFrontier(served.address) as remote:
            waiting = [asyncio.ensure_future(remote.lease(1, wait=PATIENCE)) for _ in range(20)]
            for letter in "ABCDEFGHIJKLMNOPQRST":
                await remote.schedule_many(pages(letter, 1))
            return [lease.uri.url for leases in await asyncio.gather(*waiting) for lease in leases]

    assert sorted(asyncio.run(main())) == sorted(pages("ABCDEFGHIJKLMNOPQRST", 1))


def test_threads_share_a_client(served: Served) -> None:
    urls: list[str] = []

    def work(remote: RemoteFrontier) -> None:
        while leases := remote.lease(7):
            urls.extend(lease.uri.url for lease in leases)
            assert remote.finish_many(leases) == []

    with RemoteFrontier(served.address) as remote:
        remote.schedule_many(pages("ABCDEFGHIJKLMNOPQRST", 10))
        threads = [threading.Thread(target=work, args=(remote,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        work(remote)  # a thread may have found every queue busy
        assert len(urls) == len(set(urls)) == 200 and remote.summary().succeeded == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "http://127.0.0.1:7071", "127.0.0.1:0", "unix:", ""])
@pytest.mark.parametrize("kind", [RemoteFrontier, AsyncRemoteFrontier])
def test_what_is_no_address_is_refused_at_once(kind: Any, address: str) -> None:
    with pytest.raises(FrontierError, match="HOST:PORT"):
        kind(address)


@pytest.mark.parametrize("kind", [RemoteFrontier, AsyncRemoteFrontier])
@pytest.mark.parametrize("name", ["address", "crawl", "token"])
def test_what_is_no_text_is_named(kind: Any, name: str) -> None:
    for wrong in (5, b"a", *([] if name == "token" else [None])):
        with pytest.raises(TypeError, match=f"`{name}` is a str, not {type(wrong).__name__}"):
            kind(**{"address": "127.0.0.1:1", name: wrong})


def test_a_number_that_no_message_can_hold_is_named(served: Served) -> None:
    with RemoteFrontier(served.address) as frontier:
        frontier.schedule("https://a.test/")
        (lease,) = frontier.lease()
        with pytest.raises(ValueError, match="regulate: total_budget is a number of at most 64 bits"):
            frontier.regulate("a.test", total_budget=1 << 70)
        with pytest.raises(TypeError, match="retire: argument 1 cannot be sent"):
            frontier.retire(object())  # type: ignore[arg-type]
        unknown = msgspec.structs.replace(lease, id=1 << 70)
        for call in (frontier.finish, frontier.renew, frontier.landed, lambda one: frontier.give_back([one])):
            with pytest.raises(ValueError, match="the id of a lease"):
                call(unknown)
        frontier.finish(lease)


def test_no_server_is_an_error_that_says_where(tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost, match="budgetfrontier serve"):
        RemoteFrontier(f"unix:{tmp_path}/none", retry_for=0.0)


def test_a_frontier_that_cannot_be_opened_is_the_error_of_opening_it(served: Served) -> None:
    with RemoteFrontier(served.address, crawl="locked") as remote:
        folder = remote.folder.parent.parent / "mine" / "frontier"
    with Frontier.open(folder, make_settings()), pytest.raises(FrontierError, match="is open"):
        RemoteFrontier(served.address, crawl="mine")
    RemoteFrontier(served.address, crawl="mine").close()


def for_crawlers(frontier: Any) -> Any:
    """Return the object that has `regulate` and `reset_queue`."""
    return frontier.internals if isinstance(frontier, Frontier) else frontier


def test_what_crawlers_ask_for_a_queue_is_no_adjustment(frontier: Any) -> None:
    asking = for_crawlers(frontier)
    assert not asking.regulate("a.test", total_budget=3) and not asking.reset_queue("a.test")
    frontier.schedule_many(pages("AB", 2))
    assert asking.regulate("a.test", total_budget=3, blocked_until=START + 60)
    if not isinstance(frontier, Frontier):
        asked = {"a.test": 4, "b.test": 5, "no-such.test": 6}
        frontier.set_budgets((CrawlUri(f"https://{queue}/"), budget) for queue, budget in asked.items())
        frontier.set_budgets([(CrawlUri("https://a.test/", queue="b.test"), 7)])
        assert [frontier.queue(queue).total_budget for queue in ("a.test", "b.test")] == [4, 7]
    assert [lease.queue for lease in frontier.lease(2)] == ["b.test"]
    assert asking.reset_queue("a.test") and frontier.queue("a.test").total_budget == -1
    assert [lease.queue for lease in frontier.lease(2)] == ["a.test"]
    with pytest.raises(FrontierError, match="total budget"):
        asking.regulate("a.test", total_budget=-2)
    with pytest.raises(TypeError):
        asking.regulate("a.test", budget=1)


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_downloads_land_in_one_message(served: Served, kind: Any) -> None:
    with kind(served.address) as remote:
        remote.schedule_many(pages("ABC", 2))
        first, ended, last = remote.lease(3)
        remote.finish(ended)
        assert remote.landed_many([(first, 0.5), (ended, None), (last, None)]) == [ended]
        assert first.landed and last.landed and not ended.landed
        assert len(remote.lease(3)) == 3, "their hosts are free"
        with pytest.raises(LeaseExpired):
            remote.landed(ended)
        with pytest.raises(ValueError, match="fetch_seconds"):
            remote.landed_many([(first, -1.0)])


@pytest.mark.parametrize("kind", [RemoteFrontier, FromAsync])
def test_admission_stops_at_so_many_uris(served: Served, kind: Any) -> None:
    with kind(served.address, timeout=PATIENCE) as remote:
        full = [Admission.ADDED, Admission.ADDED, Admission.FULL]
        assert remote.admit_each(pages("A", 3), maxsize=2) == full
        assert remote.admit_many(pages("B", 2), maxsize=3).added == 1
        remote.adjust(queue_total_budget=1, reason="test")
        assert remote.plain("adjustments")[0]["match"] == "*"
        assert len(remote.lease(2)) == remote.held == 2 and remote.timeout == PATIENCE


def test_an_adjustment_and_its_dry_run_are_as_of_a_frontier(frontier: Any) -> None:
    frontier.schedule_many(pages("AB", 2))
    plan = frontier.adjust(match="queue:a.test", queue_total_budget=1, dry_run=True)
    assert isinstance(plan, Adjustment) and plan.dry_run and plan.matched == 1 and plan.set == {"queue_total_budget": 1}
    adjustment = frontier.adjust(match="queue:a.test", queue_total_budget=1, reason="test")
    assert isinstance(adjustment, Adjustment) and not adjustment.dry_run and adjustment.id == 1


def test_a_method_that_only_a_frontier_has_is_answered_with_the_command(served: Served) -> None:
    everyday = {name for name in vars(Frontier) if not name.startswith("_")}
    with RemoteFrontier(served.address) as remote:
        assert not any(hasattr(remote, name) for name in everyday - set(dir(RemoteFrontier)))
        for name in everyday - set(dir(RemoteFrontier)):
            with pytest.raises(AttributeError, match=f"has no {name}: (use `budgetfrontier .* JOB|only the process)"):
                getattr(remote, name)
        with pytest.raises(AttributeError, match=r"use `budgetfrontier adjust JOB --remove` on the server$"):
            _ = remote.withdraw  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match=r"^'RemoteFrontier' object has no attribute 'leese'$"):
            _ = remote.leese  # type: ignore[attr-defined]


@pytest.mark.parametrize("together", [False, True])
def test_a_host_that_is_overloaded_rests_longer_each_time(frontier: Any, clock: ManualClock, together: bool) -> None:
    frontier.schedule_many(pages("A", 2))
    rests = []
    for status, quiet in ((503, 0.0), (429, 0.0), (503, 1799.0), (429, 1800.0)):
        clock.advance(quiet)
        (lease,) = frontier.lease(1)
        if together:
            assert frontier.finish_many([Finish(lease, Outcome.RETRY, status=status)]) == []
        else:
            frontier.finish(lease, Outcome.RETRY, status=status)
        assert frontier.lease(2) == []
        rests.append(frontier.next_ready_in())
        clock.advance(rests[-1])
    assert rests == [60.0, 120.0, 240.0, 60.0]
