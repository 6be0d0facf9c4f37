"""The compiled kernel takes the plain turns of queues, and leaves all others to Python."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlState, CrawlUri, Directive, Finish, Frontier, Lease, Outcome, QueueRecord, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import native, turns
from budgetfrontier.engine.guard import Guard
from budgetfrontier.engine.read_ahead import ReadAhead
from budgetfrontier.engine.taken_keys import Record, TakenKeys
from budgetfrontier.errors import (
    FrontierBusy,
    FrontierClosed,
    FrontierError,
    LeaseExpired,
    PolicyError,
    WrongThread,
    WrongType,
)
from tests.support import START, InterruptedClock, kernel, make_settings, memory, on_disk, pages

pytestmark = pytest.mark.skipif(native.kernel is None, reason=native.described())


class Kernel:
    """The kernel of a frontier, with the URIs that it has handed out, the leases that it has ended, and whole calls
    that it has answered."""

    def __init__(self, frontier: Frontier) -> None:
        plain = kernel(frontier).turns.plain
        assert plain is not None
        self._kernel = plain.kernel
        self.handed_out = self.ended = self.answered = self.ready = 0
        plain.kernel = frontier._answers = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def hand_out(self, leased: list[Any], *others: Any) -> Any:
        before = len(leased)
        result = self._kernel.hand_out(leased, *others)
        self.handed_out += len(leased) - before
        return result

    def lease(self, leased: list[Any], *others: Any) -> Any:
        answered = self._kernel.lease(leased, *others)
        self.handed_out += len(leased)
        self.answered += answered > 0
        return answered

    def ready_at(self) -> Any:
        now = self._kernel.ready_at()
        self.ready += now is not None
        return now

    def finish(self, *arguments: Any) -> Any:
        answered = self._kernel.finish(*arguments)
        self.answered += answered > 0
        return answered

    def finish_many(self, *arguments: Any) -> Any:
        place, answered = self._kernel.finish_many(*arguments)
        self.answered += answered > 0
        return place, answered

    def settle(self) -> Any:
        settled = self._kernel.settle()
        if settled is not None:
            self.ended += settled[0][2]
        return settled


PLAIN: dict[str, dict[str, Any]] = {
    "rotation": {"balance_replenish_amount": 3},
    "polite": {"polite": True},
    "several out": {"concurrency": 3, "balance_replenish_amount": 5},
    "total budgets": {"queue_total_budget": 4},
    "intervals": {"politeness": {"min_interval": 0.5}},
    "jitter": {"politeness": {"jitter": 0.5}},
    "kept": {"keep_urls": True},
    "groups": {"groups": [{"name": "site", "by": "host", "max_in_flight": 2, "total_budget": 1000}]},
    "polite groups": {"groups": [{"name": "site", "by": "host", "politeness": True}], "polite": True},
    "quotas": {"quotas": {"host": {"urls": 50, "bytes": 1000}, "queue": {"novel": 90}}},
    "quotas of groups": {"groups": [{"name": "site", "by": "host", "quotas": {"successes": 50}}]},
    "overrides": {"overrides": [{"match": "host:a.test", "set": {"error_penalty_amount": 5}}]},
    "overrides by URL": {"overrides": [{"match": "regex:3$", "set": {"politeness.min_interval": 0.5}}]},
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("call", ["finish", "finish_many", "details"])
def test_it_hands_out_all_plain_uris_and_ends_their_leases(name: str, call: str) -> None:
    clock = ManualClock(START)
    with memory(clock, **PLAIN[name]) as frontier:
        watched, done = Kernel(frontier), 0
        frontier.schedule_many(pages("abcdefgh", 10))
        for _ in range(400):
            leases = frontier.lease(5)
            done += len(leases)
            if call == "finish_many":
                assert frontier.finish_many(leases) == []
            else:
                for lease in leases:
                    if call == "details":
                        frontier.finish(lease, size=7, status=200, fetch_seconds=0.5)
                    else:
                        frontier.finish(lease)
            if not leases:
                clock.advance(1.0)
        frontier.summary()
        assert done == (40 if name == "total budgets" else 80)
        chosen = 8 * ("groups" in name or name == "quotas")  # the first turn of each queue, which may join a group
        assert (watched.handed_out, watched.ended) == (done - chosen, done)
        frontier.check()


OTHERS: dict[str, dict[str, Any]] = {
    "windows": {"guards": {"windows": ["daily 00:00-24:00 UTC"]}},
}


@pytest.mark.parametrize("name", OTHERS)
def test_it_leaves_turns_to_python_that_depend_on_more(name: str) -> None:
    with memory(ManualClock(START), **OTHERS[name]) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("ab", 3))
        leases = frontier.lease(1) + frontier.lease(2)
        assert len(leases) > 1
        frontier.finish_many(leases)
        assert (watched.handed_out, watched.answered) == (0, 0)
        assert watched.ended == len(leases)
        frontier.check()


def test_it_hands_out_uris_with_the_pages_on_which_they_were_found() -> None:
    vias = [None, "https://a.test/ä", "http://a.test/", "https://b.test/", "\x00", "x" * 300, "\x02/"]
    given = [
        CrawlUri(f"https://a.test/{number}", via=via, hops=hops, cost=1)
        for number, (via, hops) in enumerate(product(vias, ["", "L", "é" * 40]))
    ]
    with memory(concurrency=99) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(given)
        assert [lease.uri for lease in frontier.lease(99)] == given
        assert watched.handed_out == len(given)


@pytest.mark.parametrize("keep_urls", [False, True])
@pytest.mark.parametrize("call", ["finish", "finish_many", "tuple"])
def test_it_admits_the_links_of_pages(call: str, keep_urls: bool) -> None:
    with memory(ManualClock(START), keep_urls=keep_urls) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("abc", 3))
        for number in range(9):
            (lease,) = frontier.lease(1)
            page = lease.uri.url
            links: list[str | CrawlUri] = [page, f"{page}/new", f"{page}/new"]
            links.append(CrawlUri(f"http://x{number}.test/", hops="R"))
            if call == "finish":
                frontier.finish(lease, discovered=links)
            else:
                frontier.finish_many([Finish(lease, discovered=links if call == "finish_many" else tuple(links))])
        summary = frontier.summary()
        assert (watched.ended, watched.answered) == (9, 17)  # all calls but the first lease
        assert (summary.scheduled, summary.found, summary.duplicates) == (9 + 18, 18, 18)
        found = [lease.uri for lease in frontier.lease(99) if lease.queue.startswith("x")]
        assert [(uri.via is None, uri.hops) for uri in found] == [(False, "R")] * 9
        frontier.check()


ODD_LINKS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "a payload": ({}, [CrawlUri("http://a.test/x", payload=b"1")]),
    "a directive": ({}, [CrawlUri("http://a.test/x", directive=Directive.HIGH)]),
    "a dot": ({}, ["http://a.test/./x"]),
    "no URL": ({}, [7]),
    "a limit": ({"max_queued": 90}, ["http://a.test/x"]),
    "wag": ({"cost_policy": "wag"}, ["http://a.test/x"]),
}


@pytest.mark.parametrize("name", ODD_LINKS)
@pytest.mark.parametrize("call", ["finish", "finish_many"])
def test_it_leaves_pages_to_python_with_links_that_are_not_plain(name: str, call: str) -> None:
    settings, odd = ODD_LINKS[name]
    with memory(**settings) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("ab", 3))
        leases = frontier.lease(1) + frontier.lease(1)
        for lease in leases:
            links = ["http://a.test/y", *odd]
            if call == "finish":
                frontier.finish(lease, discovered=links)
            else:
                frontier.finish_many([Finish(lease, discovered=links)])
        assert (frontier.summary().scheduled, watched.ended) == (7 if name == "no URL" else 8, 0)
        frontier.check()


@pytest.mark.parametrize("call", ["finish", "finish_many"])
def test_a_policy_that_fails_for_a_link_changes_nothing(call: str) -> None:
    with memory(queue_assignment_policy="tests.engine.admission.test_kernel:failing") as frontier:
        frontier.schedule_many(pages("ab", 3))
        (lease,), links = frontier.lease(1), ["http://c.test/", "http://seven.test/"]
        with pytest.raises(PolicyError, match="seven"):
            if call == "finish":
                frontier.finish(lease, discovered=links)
            else:
                frontier.finish_many([Finish(lease, discovered=links)])
        assert (frontier.summary().scheduled, frontier.summary().succeeded) == (6, 0)
        frontier.finish(lease, discovered=links[:1])
        assert frontier.summary().scheduled == 7
        frontier.check()


def test_pages_with_more_links_than_an_operation_has_are_ended_in_several() -> None:
    with memory(concurrency=300) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("a", 300))
        leases = frontier.lease(300)
        answered = watched.answered
        frontier.finish_many([Finish(lease, discovered=[f"{lease.uri.url}/{n}" for n in range(4)]) for lease in leases])
        assert (watched.answered, watched.ended, frontier.summary().scheduled) == (answered, 300, 1500)
        frontier.check()


def test_links_are_committed_in_time(tmp_path: Path) -> None:
    with on_disk(tmp_path, commit_operations=8, commit_interval=3600.0) as frontier:
        frontier.schedule_many(pages("abc", 2))  # the opening is an operation, too
        leases = [lease for _ in range(2) for lease in frontier.lease(1)]
        frontier.finish(leases[0], discovered=["http://d.test/", "http://e.test/"])
        frontier.finish(leases[1], discovered=[f"http://f.test/{number}" for number in range(7)])
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().scheduled == 15


ODD: list[dict[str, Any]] = [
    {"headers": {"X": "1"}, "meta": {"a": [1, None]}},
    {"priority": 1, "payload": b"1"},
    {"priority": -(1 << 40), "payload": bytes(300), "via": "http://b.test/", "hops": "L"},
    {"cost": 5000},
    {"precedence": 7, "cost": 3},
    {"queue": "b.test", "force": True},
    {"method": "POST", "body": b"1"},
    {"directive": Directive.HIGH},
]
"""Fields that a URI may have beside its URL."""


def test_it_hands_out_uris_whatever_they_have_beside_their_url() -> None:
    clock = ManualClock(START)
    settings: dict[str, Any] = {"hold_queues": False, "balance_replenish_amount": 99999, "retry": {"delay": 0}}
    with memory(clock, concurrency=9, **settings) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(["https://a.test/", *(CrawlUri(f"https://a.test/{n}", **ODD[n]) for n in range(8))])
        leases = frontier.lease(9, ttl=5.0)
        fields = {lease.uri.url[-1]: lease.uri for lease in leases}
        for number, odd in enumerate(ODD):
            assert {name: getattr(fields[str(number)], name) for name in odd} == odd | (
                {"priority": 1 - (1 << 31)} if number == 2 else {}
            )
        assert (len(leases), watched.handed_out) == (9, 9)
        clock.advance(5.0)  # all expire
        again = frontier.lease(9)
        assert [(lease.delivery, lease.attempt) for lease in again] == [(2, 1)] * 9
        for lease in again:
            frontier.finish(lease, Outcome.RETRY)
        assert [(lease.delivery, lease.attempt) for lease in frontier.lease(9)] == [(2, 2)] * 9
        assert watched.handed_out == 27
        frontier.check()


def test_it_ends_the_leases_of_uris_whatever_they_have_but_no_odd_end() -> None:
    with memory(concurrency=9, hold_queues=False, balance_replenish_amount=99999) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(["https://a.test/", *(CrawlUri(f"https://a.test/{n}", **ODD[n]) for n in range(7))])
        first, second, landed, *others = frontier.lease(9)
        frontier.finish(first, Outcome.FAILURE)
        frontier.landed(landed, fetch_seconds=0.5)
        frontier.finish_many([Finish(second, status=404), Finish(landed, size=7, address="192.0.2.1"), *others])
        assert (frontier.summary().succeeded, watched.ended) == (7, 6)
        frontier.check()


def test_it_leaves_uris_with_labels_to_python() -> None:
    with memory(concurrency=9) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(["https://a.test/1", CrawlUri("https://a.test/2", source="one"), "https://a.test/3"])
        assert (len(frontier.lease(9)), watched.handed_out) == (3, 2)
        assert kernel(frontier).tables.labelled
        frontier.check()


def test_it_answers_calls_while_hooks_are_told_of_moves_and_calls_them_in_time() -> None:
    class Told(list[str]):
        def on_retire(self, frontier: Frontier, queue: QueueRecord) -> None:
            self.append(queue.queue)

    told = Told()
    with memory(hooks=[told], queue_total_budget=0, concurrency=2) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("abc", 4))
        for lease in frontier.lease(1) + frontier.lease(1) + frontier.lease(1):
            before = watched.answered
            frontier.finish(lease)
            assert told[-1:] == [lease.queue]
        assert (watched.answered, told) == (before + 1, ["a.test", "b.test", "c.test"])
        frontier.check()


@pytest.mark.parametrize("has_work", [True, False])
def test_it_says_whether_a_queue_is_ready(has_work: bool) -> None:
    clock = ManualClock(START)
    with memory(clock) as frontier:
        clock.advance(0.25)  # the time for which the clock need not be looked at begins
        watched, lease = Kernel(frontier), answering(frontier)
        if not has_work:
            frontier.lease(9)
            frontier.finish(lease)
            frontier.lease(1)
        clock.advance(0.25)
        assert (frontier.next_ready_in() == 0.0) is has_work
        assert frontier.state is CrawlState.RUNNING
        frontier.commit()
        assert kernel(frontier).counters.last_asked == START + 0.5, "who asks when to come back asks for URIs"
        assert (watched.ready > 0) is has_work
        frontier.check()


@pytest.mark.parametrize("call", ["hand_out", "end", "lease", "finish", "finish_many", "delete_removed"])
def test_a_panic_closes_the_frontier_and_says_how_to_do_without_the_kernel(call: str) -> None:
    class PanicException(BaseException):
        """As PyO3 raises it."""

    with memory() as frontier:
        frontier.schedule_many(pages("a", 3))
        lease, *_ = frontier.lease(1)
        panic = {f"{call}.side_effect": PanicException("overflow")}
        turns: Any = mock.Mock(**panic, **{"settle.return_value": None, "is_busy.return_value": False})
        if call in ("hand_out", "end"):
            frontier.commit()  # then the kernel is not asked for whole calls
        if call == "delete_removed":
            assert native.kernel is not None
            broken: Any = mock.patch.object(native.kernel.TakenKeys, call, turns.delete_removed)
        elif call in ("hand_out", "end"):
            broken = mock.patch.object(kernel(frontier).turns.plain, "kernel", turns)
        else:
            broken = mock.patch.object(frontier, "_answers", turns)
        with broken, pytest.raises(FrontierError, match=r"overflow.*BUDGETFRONTIER_KERNEL=python"):
            if call in ("hand_out", "lease"):
                frontier.lease(1)
            elif call == "finish_many":
                frontier.finish_many([lease])
            else:
                frontier.finish(lease)
            frontier.commit()
        with pytest.raises(FrontierClosed):
            frontier.lease(1)


# -- whole calls


CALLS: dict[str, Callable[[Frontier, Lease], object]] = {
    "lease": lambda frontier, _: frontier.lease(1),
    "finish": lambda frontier, lease: frontier.finish(lease),
    "finish_many": lambda frontier, lease: frontier.finish_many([lease]),
}


def answering(frontier: Frontier) -> Lease:
    """Let the kernel answer the next calls, with queues in the ring; return a lease that is out."""
    frontier.schedule_many(pages("abcd", 5))
    lease, *others = frontier.lease(4)
    frontier.finish_many(others)
    return lease


@pytest.mark.parametrize("name", CALLS)
def test_the_kernel_answers_calls_that_need_nothing_else(name: str) -> None:
    with memory() as frontier:
        watched, lease = Kernel(frontier), answering(frontier)
        before = watched.answered
        CALLS[name](frontier, lease)
        assert watched.answered == before + 1
        assert frontier.summary().succeeded == (3 if name == "lease" else 4)
        assert kernel(frontier).counters.in_process == (2 if name == "lease" else 0)
        frontier.check()


@pytest.mark.parametrize("name", CALLS)
def test_a_call_in_the_middle_of_one_that_the_kernel_answers_is_refused(name: str) -> None:
    clock = InterruptedClock(START)
    others: list[Callable[[Frontier, Lease], object]] = [*CALLS.values(), lambda frontier, _: frontier.summary()]
    others += [lambda frontier, _: frontier.close(), lambda frontier, _: frontier.next_ready_in()]
    for other in others:
        with memory(clock) as frontier:
            watched, lease = Kernel(frontier), answering(frontier)
            before, refused = watched.answered, list[object]()

            def call(
                other: Callable[[Frontier, Lease], object] = other,
                frontier: Frontier = frontier,
                lease: Lease = lease,
                refused: list[object] = refused,
            ) -> None:
                with pytest.raises(FrontierBusy):
                    other(frontier, lease)
                refused.append(other)

            clock.then = call
            CALLS[name](frontier, lease)
            assert (watched.answered, refused) == (before + 1, [other])
            frontier.check()


@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_in_the_middle_of_a_call_that_the_kernel_answers_closes_the_frontier(name: str, tmp_path: Path) -> None:
    clock = InterruptedClock(START)
    frontier = Frontier.open(tmp_path / "f", make_settings(), clock=clock)
    lease = answering(frontier)
    frontier.commit()
    (other,) = frontier.lease(1)

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        CALLS[name](frontier, lease)
    for call in CALLS.values():
        with pytest.raises(FrontierClosed):
            call(frontier, other)
    with Frontier.open(tmp_path / "f", clock=clock) as again:
        assert again.summary().queued == 17
        again.check()


@pytest.mark.parametrize("name", CALLS)
def test_another_thread_is_refused_while_the_kernel_answers(name: str) -> None:
    with memory() as frontier, ThreadPoolExecutor(1) as pool:
        lease = answering(frontier)
        with pytest.raises(WrongThread):
            pool.submit(CALLS[name], frontier, lease).result()
        CALLS[name](frontier, lease)
        frontier.check()


def test_the_kernel_answers_no_call_before_which_something_is_due() -> None:
    clock = ManualClock(START)
    with memory(clock, polite=True, lease_ttl=10) as frontier:
        lease = answering(frontier)
        assert frontier.lease(1) == [], "all queues rest"
        clock.advance(frontier.next_ready_in() or 0)
        assert len(frontier.lease(9)) == 3, "their rest is over"
        clock.advance(10.0)
        with pytest.raises(LeaseExpired):
            frontier.finish(lease)
        assert len(frontier.lease(9)) == 4, "and then all leases have expired"
        frontier.check()


def test_the_kernel_answers_until_a_commit_is_due() -> None:
    commits = []

    def on_commit(frontier: Frontier) -> None:
        commits.append(frontier)

    with memory(commit_operations=40, hooks=[on_commit]) as frontier:
        watched, lease = Kernel(frontier), answering(frontier)
        before, calls = (len(commits), watched.answered), 0
        while len(commits) == before[0]:
            frontier.finish(lease)
            (lease,) = frontier.lease(1)
            calls += 2
        assert 8 <= calls <= 14, "there were 27 operations before"
        assert watched.answered in (before[1] + calls, before[1] + calls - 1), "the lease after it is Python's"
        frontier.check()


ENDS: dict[str, Callable[[Frontier, list[Lease]], object]] = {
    "finish": lambda frontier, leases: list(map(frontier.finish, leases)),
    "details": lambda frontier, leases: list(map(partial(frontier.finish, size=7, status=200), leases)),
    "finish_many": lambda frontier, leases: frontier.finish_many(leases),
}


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("pauses", [True, False])
def test_the_crawl_is_over_with_the_answer_that_retires_its_last_queues(name: str, pauses: bool) -> None:
    with memory(queue_total_budget=1, pause_at_finish=pauses, concurrency=3) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("abc", 9))
        for _ in range(2):
            leases = [lease for _ in range(3) for lease in frontier.lease(1)]
            assert len(leases) == 3
            ENDS[name](frontier, leases)
        assert watched.answered > 0
        assert kernel(frontier).counters.state == (CrawlState.PAUSED if pauses else CrawlState.FINISHED)
        frontier.check()


def test_a_page_whose_links_are_an_empty_iterator_is_one_without_details() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 9))
        nothing: list[Any] = [(), [], iter(()), {}]
        for found in nothing:
            frontier.finish(frontier.lease(1)[0], discovered=found)
        frontier.finish_many([Finish(frontier.lease(1)[0], discovered=iter(()))])
        assert kernel(frontier).tables.history._get("history", (1).to_bytes(4)) is None
        frontier.check()


@pytest.mark.parametrize("name", CALLS)
def test_a_clock_that_fails_closes_a_frontier_only_where_python_does(name: str) -> None:
    clock = InterruptedClock(START)
    with memory(clock) as frontier:
        watched, lease = Kernel(frontier), answering(frontier)
        before = watched.answered

        def fail() -> None:
            raise OSError("no clock")

        clock.then = fail
        CALLS[name](frontier, lease)
        assert watched.answered == before, "the kernel leaves the call to Python, which reads the clock again"
        frontier.check()


def test_no_call_gets_in_while_it_is_found_out_whether_the_kernel_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with memory() as frontier:
        refused: list[Guard] = []

        def look(guard: Guard) -> bool:
            with pytest.raises(FrontierBusy):
                frontier.pause()
            refused.append(guard)
            return True

        monkeypatch.setattr(Guard, "_may_answer", look)
        answering(frontier)
        assert refused
        frontier.check()


def test_a_lease_that_the_kernel_answers_wakes_some_queues_and_leaves_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(turns, "MAX_DUE", 3)
    clock = ManualClock(START)
    with memory(clock, polite=True, hold_queues=False) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("abcdefghi", 3))
        frontier.finish_many(frontier.lease(9))
        clock.advance(frontier.next_ready_in() or 0)
        assert len(frontier.lease(1)) == 1
        before = watched.answered
        assert len(frontier.lease(2)) == 2
        assert (watched.answered, kernel(frontier).counters.snoozed) == (before + 1, 3)
        assert len(frontier.lease(9)) == 6
        frontier.check()


@pytest.mark.parametrize("gathers", [True, False])
def test_a_signal_handler_may_call_a_frontier_before_a_call_has_begun(
    gathers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with memory() as frontier:
        lease = answering(frontier)
        if gathers:
            for url in pages("ef", 3):
                frontier.schedule(url)
        reenter = Guard.reenter

        def handle_signal(guard: Guard) -> None:
            monkeypatch.setattr(Guard, "reenter", reenter)
            frontier.summary()
            guard.reenter()

        monkeypatch.setattr(Guard, "reenter", handle_signal)
        frontier.retire("a.test")
        frontier.finish(lease)
        assert frontier.summary().queued == (18 if gathers else 12), "but for four of the queue that is retired"
        frontier.check()


@pytest.mark.parametrize("bad", [[None], ["a"], [Lease("a", "a", CrawlUri("http://a.test/"), 1, 0.0, 1)]])  # type: ignore[arg-type]
def test_bad_leases_are_refused_before_anything_changes(bad: list[Any]) -> None:
    with memory() as frontier:
        lease = answering(frontier)
        with pytest.raises(WrongType):
            frontier.finish_many([lease, *bad])
        assert frontier.finish_many([lease, lease]) == [lease]
        (lease,) = frontier.lease(1)
        with pytest.raises(WrongType):
            frontier.finish(Lease([1], "a", lease.uri, 1, 0.0, 1))  # type: ignore[arg-type]
        frontier.finish(lease)
        frontier.check()


@pytest.mark.parametrize("name", ["quotas", "groups", "quotas of groups"])
def test_it_answers_leases_that_wake_queues_where_no_group_is_due(name: str) -> None:
    clock = ManualClock(START)
    with memory(clock, **PLAIN[name], polite=True) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("abcd", 5))
        clock.advance(1)  # Python looks at the clock once
        frontier.finish_many(frontier.lease(4))
        for _ in range(3):
            clock.advance(60)
            before = watched.answered
            frontier.finish_many(frontier.lease(3))
            assert watched.answered == before + 2
        frontier.check()


def test_time_goes_on_after_what_the_table_of_urls_was_told_in_a_call() -> None:
    clock = ManualClock(START)
    with memory(clock, keep_urls=True) as frontier:
        watched, guard = Kernel(frontier), frontier._guard
        frontier.schedule_many(pages("ab", 3))
        table, told = kernel(frontier).tables.urls, list[float]()
        assert table is not None
        first, second = frontier.lease(2)

        def later() -> float:
            clock.advance(0.5)
            told.append(guard.now())
            return told[-1]

        with mock.patch.object(table, "now", later):
            frontier.finish(first, discovered=["http://c.test/"])
        assert (watched.answered, told) == (1, [START + 0.5])
        clock.set(START)
        frontier.finish(second, delay=1.0)
        assert guard.time.latest >= told[-1]


# -- reading ahead


class Cursor:
    """As that of a table of records."""

    def __init__(self, records: dict[bytes, bytes]) -> None:
        self.records = sorted(records.items())
        self.at = 0

    def set_range(self, key: bytes) -> bool:
        self.at = bisect_left(self.records, (key, b""))
        return self.at < len(self.records)

    def item(self) -> Record:
        return self.records[self.at]

    def iternext(self) -> Iterator[Record]:
        yield from self.records[self.at :]


def key(queue_id: int, number: int) -> bytes:
    return queue_id.to_bytes(4) + bytes(15) + number.to_bytes(2)


steps = st.lists(
    st.tuples(
        st.sampled_from(["read", "read", "take", "take", "give back", "forget", "used up", "clear"]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from([0, 500, 10_000]),
    ),
    max_size=30,
)


@given(steps, st.sampled_from([1, 30, 40_000]))
def test_the_kernel_reads_ahead_as_python_does(story: list[tuple[str, int, int, int]], size: int) -> None:
    assert native.kernel is not None
    cursor = Cursor({key(queue, number): bytes(size) for queue in (1, 2, 4) for number in range(20)})
    both: tuple[Any, Any] = ReadAhead(), native.kernel.ReadAhead()
    taken: tuple[Any, Any] = TakenKeys(), native.kernel.TakenKeys()
    order: list[tuple[int, Record]] = []

    def walk(start: bytes, prefix: bytes, length: int) -> tuple[list[Record], bytes]:
        waiting = [r for r in cursor.records if r[0] >= start and r[0][:4] == prefix and r[0] not in taken[0]][:length]
        return waiting, waiting[-1][0] if waiting else prefix

    for step, queue, share, room in story:
        first = both[0].next(queue)
        assert first == both[1].next(queue)
        if step == "read" and first is None:
            given = zip(both, taken, strict=True)
            reads = [ahead.read(queue, cursor, keys, walk, share, room) for ahead, keys in given]
            assert reads[0] == reads[1]
        elif step == "take" and first is not None:
            for keys in taken:
                keys.add(first[0])
            order.append((queue, first))
            for ahead in both:
                ahead.take(queue)
        elif step == "give back" and order:
            queue, (back, value) = order.pop(room % len(order))
            for keys in taken:
                keys.discard(back)
            read = both[0].read_upto(queue)
            if read is not None and back <= read:
                for ahead in both:
                    ahead.give_back(queue, back, value, room)
        elif step in ("forget", "used up", "clear"):
            for ahead in both:
                ahead.forget(
                    queue
                ) if step == "forget" else ahead.clear() if step == "clear" else ahead.forget_used_up()
        assert both[0].held() == both[1].held()
        assert (len(both[0]), both[0].size, both[0].sample(9)) == (len(both[1]), both[1].size, both[1].sample(9))
        assert both[0].read_upto(queue) == both[1].read_upto(queue)


def test_settings_under_overrides_are_those_of_each_uri() -> None:
    """Its kernel keeps those of a queue and a scheme, unless they go by path."""
    waits = {"surt:https://(test,a,": 7.0, "regex:3$": 5.0, "queue:b.test": 3.0}
    overrides = [{"match": match, "set": {"politeness.min_interval": wait}} for match, wait in waits.items()]
    clock, found = ManualClock(START), set[float]()
    with memory(clock, overrides=overrides) as frontier:
        watched = Kernel(frontier)
        for scheme in ("http", "https"):
            frontier.schedule_many(f"{scheme}://{host}.test/{number}" for host in "abc" for number in range(5))
        for _ in range(30):
            while not (leases := frontier.lease(1)):
                clock.advance(frontier.next_ready_in() or 0)
            interval = frontier.internals.settings_for(leases[0]).min_interval
            queue = frontier.queue(leases[0].queue)
            assert queue is not None
            assert (queue.state == "SNOOZED", max(queue.wake_time - clock.time(), 0)) == (interval > 0, interval)
            found.add(interval)
            frontier.finish(leases[0])
        assert (found, watched.handed_out, watched.ended) == ({0.0, *waits.values()}, 30, 30)
        frontier.check()


def test_a_quota_ends_the_plain_turns_of_a_queue() -> None:
    with memory(quotas={"host": {"novel_bytes": 20}}) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("ab", 9))
        while leases := frontier.lease(1):
            frontier.finish(leases[0], size=10, novel=leases[0].queue == "b.test")
        found = [frontier.queue(key) for key in ("a.test", "b.test")]
        assert [(queue.state, queue.queued) for queue in found if queue] == [("EXHAUSTED", 0), ("RETIRED", 7)]
        assert (watched.handed_out, watched.ended) == (9, 11)
        frontier.check()


def test_a_queue_is_retired_that_has_completed_as_many_urls_as_it_may() -> None:
    with memory(keep_urls=True) as frontier:
        watched = Kernel(frontier)
        frontier.schedule_many(pages("ab", 9))
        frontier.set_queue("a.test", max_completed=3)
        while leases := frontier.lease(1):
            frontier.finish(leases[0])
        found = [frontier.queue(key) for key in ("a.test", "b.test")]
        assert [(queue.state, queue.completed) for queue in found if queue] == [("RETIRED", 3), ("EXHAUSTED", 9)]
        assert watched.handed_out >= 9
        frontier.check()
