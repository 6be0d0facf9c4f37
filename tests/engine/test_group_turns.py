"""Groups of queues: a clock, fetches in flight and a budget that queues share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Directive, Frontier, Lease, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import GroupRecord
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage import keys, verify
from budgetfrontier.storage.records import decode_group
from budgetfrontier.testing import crash
from tests.support import START, kernel, make_settings, opened, pages, paths, state


def grouped(*groups: dict[str, Any], **options: Any) -> Settings:
    settings = make_settings(**({"hold_queues": False} | options))
    return Settings.from_dict(settings.to_dict() | {"groups": list(groups)})


def memory(clock: ManualClock, *groups: dict[str, Any], **options: Any) -> Frontier:
    return on_disk(":memory:", clock, grouped(*groups, **options))


def on_disk(path: str | Path, clock: ManualClock, settings: Settings | None, **options: Any) -> Frontier:
    opened.append(Frontier.open(path, settings, clock=clock, **options))
    return opened[-1]


def stored(frontier: Frontier) -> dict[str, GroupRecord]:
    rows = kernel(frontier).tables.flushed().items(keys.GROUPS)
    return {group.name: group for group in (decode_group(value) for _, value in rows)}


def fetched(frontier: Frontier, clock: ManualClock, **options: Any) -> list[tuple[float, str]]:
    """Crawl to the end with many workers; each fetch takes no time."""
    found: list[tuple[float, str]] = []
    while (wait := frontier.next_ready_in()) is not None:
        clock.advance(wait)
        for lease in frontier.lease(100):
            found.append((clock.time() - START, paths([lease])[0]))
            frontier.finish(lease, **options)
            frontier.check()
    return found


CLOCK = {"name": "all", "match": "domain:test", "politeness": True}


def test_ten_names_get_one_request_per_delay_in_turn() -> None:
    clock = ManualClock(START)
    f = memory(clock, CLOCK, polite=True)
    f.schedule_many(f"https://h{host}.test/{page}" for host in range(10) for page in range(2))
    found = fetched(f, clock)
    assert [when for when, _ in found] == [3.0 * number for number in range(20)]
    assert f.state == "FINISHED"


def test_a_queue_in_no_group_does_not_wait() -> None:
    clock = ManualClock(START)
    f = memory(clock, CLOCK, polite=True)
    f.schedule_many(["https://a.test/", "https://b.test/", "https://c.example/"])
    assert [when for when, _ in fetched(f, clock)] == [0.0, 0.0, 3.0]


def test_the_longest_rest_of_any_queue_counts_and_retries_delay_their_queue_alone() -> None:
    clock = ManualClock(START)
    f = memory(clock, CLOCK, polite=True)
    f.schedule_many(["https://a.test/", "https://b.test/", "https://c.test/"])
    (lease,) = f.lease(5)
    f.finish(lease, crawl_delay=40.0)
    assert (f.lease(5), f.next_ready_in()) == ([], 40.0)
    clock.advance(40.0)
    (lease,) = f.lease(5)
    f.finish(lease, Outcome.RETRY)
    assert (f.lease(5), f.next_ready_in()) == ([], 3.0)


@pytest.mark.parametrize("clock_too", [False, True])
def test_no_more_than_so_many_are_in_flight_and_each_end_lets_one_go_on(clock_too: bool) -> None:
    f = memory(ManualClock(START), {"name": "two", "match": "*", "max_in_flight": 2, "politeness": clock_too})
    f.schedule_many(pages("abcd", 2))
    first = f.lease(9)
    assert len(first) == 2
    f.finish(first[0])
    (third,) = f.lease(9)
    f.landed(first[1])
    assert len(f.lease(9)) == 1  # one that has landed is not in flight any more
    f.give_back([third])
    assert len(f.lease(9)) == 1
    f.check()


def test_those_that_wait_take_turns() -> None:
    f = memory(ManualClock(START), {"name": "one", "match": "*", "max_in_flight": 1})
    f.schedule_many(pages("abc", 2))
    found = []
    while leases := f.lease(9):
        found += [leases[0].queue[:1]]
        f.finish(leases[0])
    assert "".join(found) == "abcabc"


def test_a_waiting_group_is_one_row_whatever_the_number_of_its_queues() -> None:
    clock = ManualClock(START)
    f = memory(clock, CLOCK, polite=True)
    f.schedule_many(f"https://h{number}.test/" for number in range(500))
    for lease in f.lease(9):
        f.finish(lease)
    assert f.lease(9) == []
    view = kernel(f).tables.flushed()
    assert len(list(view.items(keys.GROUP_WAKES))) == 1
    assert (len(list(view.items(keys.SNOOZED))), len(list(view.items(keys.PARKED)))) == (0, 499)
    clock.advance(3.0)
    assert len(f.lease(9)) == 1
    assert len(list(kernel(f).tables.flushed().items(keys.PARKED))) == 498


@pytest.mark.parametrize(("retire_when", "fetches"), [("exceeded", 5), ("reached", 4)])
def test_a_group_over_budget_retires_its_queues_in_their_turn(retire_when: str, fetches: int) -> None:
    f = memory(ManualClock(START), {"name": "all", "match": "*", "total_budget": 4}, retire_when=retire_when)
    f.schedule_many(pages("abc", 5))
    count = 0
    while leases := f.lease(1):
        f.finish(leases[0])
        count += 1
    assert count == fetches
    assert [state(f, letter) for letter in "abc"] == ["RETIRED"] * 3
    assert (f.state, f.summary()["queued"]) == ("FINISHED", 0)


def test_a_changed_budget_revives_the_queues_of_a_group(tmp_path: Path) -> None:
    clock = ManualClock(START)
    group = {"name": "all", "match": "*"}
    with on_disk(tmp_path / "f", clock, grouped(group | {"total_budget": 2})) as f:
        f.schedule_many(pages("ab", 3))
        while leases := f.lease(1):
            f.finish(leases[0])
        assert (state(f, "a"), state(f, "b")) == ("RETIRED", "RETIRED")
    with on_disk(tmp_path / "f", clock, grouped(group | {"total_budget": 3})) as f:
        (lease,) = f.lease(9)
        f.finish(lease)
        assert f.lease(9) == []
        f.check()
    with on_disk(tmp_path / "f", clock, grouped()) as f:
        assert len(f.lease(9)) == 2
        f.check()
        assert stored(f) == {}


def test_what_is_leased_reserves_the_budget_of_a_group() -> None:
    f = memory(ManualClock(START), {"name": "all", "match": "*", "total_budget": 2, "max_in_flight": 9})
    f.schedule_many(pages("abcdef", 1))
    leases = f.lease(9)
    assert len(leases) == 3
    f.finish(leases[0], Outcome.DISREGARDED)
    assert len(f.lease(9)) == 1
    f.check()


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ({"by": "host"}, {"g/img.example.co.uk", "g/example.co.uk", "g/b.test"}),
        ({"by": "registered-domain"}, {"g/example.co.uk", "g/b.test"}),
        ({"by": "surt", "segments": 1}, {"g/uk", "g/test"}),
        ({"by": "surt"}, {"g/uk,co", "g/test,b"}),
        ({"by": "label"}, {"g/red", "g/blue"}),
    ],
)
def test_a_group_for_each_value(by: dict[str, Any], names: set[str]) -> None:
    f = memory(ManualClock(START), {"name": "g", "max_in_flight": 5} | by)
    f.schedule_many(
        [
            CrawlUri("https://img.example.co.uk/", source="red"),
            CrawlUri("https://example.co.uk/", source="blue"),
            CrawlUri("https://b.test/"),
        ]
    )
    assert len(f.lease(9)) == 3
    assert stored(f).keys() == names
    f.check()


def test_a_queue_takes_its_spend_along_to_the_group_of_another_label() -> None:
    f = memory(clock := ManualClock(START), {"name": "l", "by": "label", "total_budget": 5}, retire_when="reached")
    f.schedule_many([CrawlUri(f"https://a.test/{n}", source="A") for n in range(9)])
    assert len(fetched(f, clock)) == 5
    f.schedule(CrawlUri("https://a.test/seed", source="B", directive=Directive.MEDIUM))
    f.adjust(match="host:other.test", precedence=4)
    assert fetched(f, clock) == []
    assert {name: (group.expenditure, group.queues) for name, group in stored(f).items()} == {"l/B": (5, 1)}


def test_a_queue_that_is_snoozed_keeps_the_crawl_of_a_group_over_budget_going_until_it_wakes() -> None:
    f = memory(clock := ManualClock(START), {"name": "all", "match": "*", "total_budget": 2}, retire_when="reached")
    f.schedule_many(["https://a.test/1", "https://b.test/1", "https://b.test/2"])
    a, b = f.lease(2)
    f.snooze("b.test", until=clock.time() + 3600)
    f.finish(a)
    f.finish(b)
    assert f.lease() == []
    assert (f.state, f.next_ready_in()) == ("RUNNING", 3600)
    clock.advance(3600)
    assert f.lease() == []
    assert f.state == "FINISHED"
    f.check()


def test_the_budget_of_a_long_label_is_that_of_its_beginning(tmp_path: Path) -> None:
    limits = {"total_budget": 3, "quotas": {"successes": 9}}
    settings = grouped({"name": "g" * 100, "by": "label", **limits}, retire_when="reached")
    clock, label = ManualClock(START), "\u00e9x" * 900
    with on_disk(tmp_path / "f", clock, settings) as f:
        f.schedule_many([CrawlUri(f"https://h{n}.test/", source=label + str(n)) for n in range(5)])
        assert len(fetched(f, clock)) == 3
        f.check()
        name = next(iter(stored(f)))
        assert label.startswith(name.partition("/")[2])
        more: Any = {"group.total_budget": 4}
        assert f.adjust(match=f"group:{name}", **more).matched == 2
        assert len(fetched(f, clock)) == 1
    verify.verify(tmp_path / "f")


def test_the_first_definition_that_fits_counts_and_queues_leave_for_another(tmp_path: Path) -> None:
    clock = ManualClock(START)
    first = [{"name": "a", "match": "queue:a.test"}, {"name": "rest", "match": "*"}]
    with on_disk(tmp_path / "f", clock, grouped(*first)) as f:
        f.schedule_many(pages("ab", 3))
        leases: list[Lease] = f.lease(2)
        found = stored(f)
        assert {name: (group.queues, group.out) for name, group in found.items()} == {"a": (1, 1), "rest": (1, 1)}
        f.finish(leases[0])
        assert stored(f)["a"].expenditure == 1
    with on_disk(tmp_path / "f", clock, grouped(first[1])) as f:
        f.lease(2)
        assert {name: (group.queues, group.expenditure) for name, group in stored(f).items()} == {"rest": (2, 1)}


@pytest.mark.parametrize("keep_leases", [False, True])
def test_a_crash_leaves_a_group_as_it_was(tmp_path: Path, keep_leases: bool) -> None:
    clock = ManualClock(START)
    f = on_disk(tmp_path / "f", clock, grouped({"name": "one", "match": "*", "max_in_flight": 1}))
    f.schedule_many(pages("abc", 2))
    assert len(f.lease(9)) == 1
    f.commit()
    crash(f)
    f = on_disk(tmp_path / "f", clock, None, keep_leases=keep_leases)
    f.check()
    assert len(f.lease(9)) == (not keep_leases)
    clock.advance(301.0)
    assert len(f.lease(9)) == 1
    f.check()


@pytest.mark.parametrize("what", ["retire", "snooze", "delete"])
def test_a_queue_that_was_let_go_on_and_does_not_makes_room_for_another(what: str) -> None:
    f = memory(ManualClock(START), {"name": "one", "match": "*", "max_in_flight": 1})
    f.schedule_many(pages("abc", 1))
    (lease,) = f.lease(9)
    f.finish(lease)  # the next is READY now
    assert state(f, "b") == "READY"
    if what == "delete":
        f.delete(queue="b.test")
    elif what == "snooze":
        f.snooze("b.test", until=START + 50.0)
    else:
        f.retire("b.test")
    f.check()
    assert [lease.queue for lease in f.lease(9)] == ["c.test"]


def test_leases_by_queue_stop_for_a_group() -> None:
    f = memory(ManualClock(START), {"name": "three", "match": "*", "max_in_flight": 3}, concurrency=2)
    f.schedule_many(pages("abc", 3))
    assert [lease.queue[:1] for lease in f.internals.lease_queues(9, 2)] == ["a", "a", "b"]
    f.check()
    assert f.internals.lease_queues(9, 2) == []


def test_an_adjustment_changes_the_limits_of_a_group_and_its_undo_brings_them_back() -> None:
    f = memory(ManualClock(START), {"name": "all", "match": "domain:test", "total_budget": 2, "max_in_flight": 1})
    f.schedule_many(pages("abc", 4))
    while leases := f.lease(9):
        assert len(leases) == 1
        f.finish(leases[0])
    assert [state(f, letter) for letter in "abc"] == ["RETIRED"] * 3
    number = f.adjust(match="group:all", group={"total_budget": 9, "max_in_flight": 2}).id
    leases = f.lease(9)
    assert len(leases) == 2
    f.undo(number)
    for lease in leases:
        f.finish(lease)
    assert f.lease(9) == []
    f.check()


def test_one_group_of_a_definition_is_adjusted_alone() -> None:
    clock = ManualClock(START)
    f = memory(clock, {"name": "machine", "by": "ip", "total_budget": 1})
    for letter in "abc":
        f.internals.know_address(f"{letter}.test", f"192.0.2.{1 + (letter == 'c')}")
    f.schedule_many(pages("abc", 3))
    while leases := f.lease(9):
        for lease in leases:
            f.finish(lease)
    assert {name: group.expenditure for name, group in stored(f).items()} == {
        "machine/192.0.2.1": 2,
        "machine/192.0.2.2": 2,
    }
    effect = f.adjust(match="group:machine/192.0.2.1", group={"total_budget": 3}, dry_run=True)
    assert (effect.matched, effect.changed, sorted(effect.revived)) == (2, 2, ["a.test", "b.test"])
    assert effect.groups == [
        {"before": {"group.total_budget": 1}, "after": {"group.total_budget": 3}, "queues": 2},
    ]
    assert (effect.uris, effect.spend, effect.ceiling) == (2, 2, 2)
    number = f.adjust(match="group:machine/192.0.2.1", group={"total_budget": 3}).id
    while leases := f.lease(9):
        for lease in leases:
            f.finish(lease)
    assert {name: group.expenditure for name, group in stored(f).items()} == {
        "machine/192.0.2.1": 4,
        "machine/192.0.2.2": 2,
    }
    assert f.adjust(match="queue:c.test", precedence=2, dry_run=True).revived == []
    f.undo(number)
    assert (f.state, f.lease(9)) == ("FINISHED", [])  # their groups are over budget, still or again
    assert [state(f, letter) for letter in "abc"] == ["RETIRED"] * 3
    f.check()


def test_an_adjustment_of_a_group_that_is_not_defined_is_refused() -> None:
    f = memory(ManualClock(START), {"name": "site", "by": "ip", "total_budget": 1})
    for match, settings, problem in (
        ("group:sight", {"group": {"total_budget": 3}}, 'no group is defined as "sight"; there are site'),
        ("queue:a.test", {"group": {"total_budget": 3}}, "group.total_budget is a limit of groups of queues"),
        ("group:site/192.0.2.1", {"precedence": 3}, "no pattern of URIs stands for group:site/192.0.2.1"),
    ):
        with pytest.raises(FrontierError, match=problem):
            f.adjust(match=match, dry_run=True, **settings)
        with pytest.raises(FrontierError, match=problem):
            f.adjust(match=match, **settings)


def test_ten_names_on_one_address_get_one_request_per_delay_once_it_is_known() -> None:
    clock = ManualClock(START)
    f = memory(clock, {"name": "machine", "by": "ip", "politeness": True}, polite=True)
    f.schedule_many(f"https://h{host}.test/{page}" for host in range(10) for page in range(2))
    for host in range(9):
        f.internals.know_address(f"h{host}.test", "192.0.2.1")
    leases = f.lease(100)
    assert len(leases) == 2  # the last name is not known to be there
    for lease in leases:
        f.finish(lease, address="192.0.2.1")
    assert [when for when, _ in fetched(f, clock)] == [3.0 * number for number in range(1, 19)]
    assert {name: group.queues for name, group in stored(f).items()} == {"machine/192.0.2.1": 10}


def test_a_group_is_adjusted_by_its_host_in_any_spelling() -> None:
    with memory(ManualClock(START), {"name": "g", "by": "registered-domain", "total_budget": 3}) as f:
        f.schedule("http://a.xn--bcher-kva.example/")
        for precedence, spelling in enumerate(("bücher.example", "BÜCHER.example.", "xn--bcher-kva.example"), 4):
            assert f.adjust(match=f"group:g/{spelling}", group={"total_budget": 4}).matched == 1
            assert f.adjust(match=f"group:g/{spelling}", precedence=precedence).matched == 1
            queue = f.queue("a.xn--bcher-kva.example")
            assert queue is not None and queue.precedence == precedence
