"""The rules by which owners of partitions are asked, with a time and workers of the test's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

import pytest

from budgetfrontier.bus.interface import BusAway, BusError
from budgetfrontier.cluster.calls import cluster_calls, partition_router
from budgetfrontier.cluster.calls.cluster_calls import Calls
from budgetfrontier.cluster.calls.partition_router import LEFT_OUT, PATIENCE, PartitionRouter
from budgetfrontier.cluster.calls.steps import Answers, Ask, GiveUp, Steps
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.core.model import CrawlUri, DeadLetter, Lease
from budgetfrontier.errors import ConnectionLost, FrontierError, LeaseExpired, NotOwner
from budgetfrontier.remote import calls as client_calls
from budgetfrontier.storage import keys

_T = TypeVar("_T")

SILENCE = object()
"""The answer of a worker that hangs."""


class World:
    """Workers with the answers that they give in turn, and what the directory says from one look to the next."""

    def __init__(self, *looks: dict[int, str] | BusError, **answers: list[Any]) -> None:
        self.looks, self.answers = list(looks), answers
        self.now = 0.0
        self.asked: list[tuple[str, tuple[int, ...]]] = []
        self.given_up: list[str] = []
        self.pauses = 0

    def monotonic(self) -> float:
        return self.now

    def run(self, steps: Steps[_T], *, until_silent: bool = False) -> _T:
        """Do what a question yields. A silent worker costs the time for which it is waited for."""
        while True:
            try:
                wanted = next(steps)
            except StopIteration as e:
                return cast("_T", e.value)
            if isinstance(wanted, Answers):
                self.begin(wanted.of)
                if not any(each.ended for each in wanted.of):
                    self.now += wanted.within
                    if until_silent:
                        steps.close()
                        return cast("_T", None)
            elif isinstance(wanted, GiveUp):
                self.given_up += [ask.address for ask in wanted.asks]
            else:
                self.now += wanted.seconds
                self.pauses += 1

    def begin(self, wanted: Iterable[Any]) -> None:
        for each in wanted:
            if each.begun is None:
                self._begin(each)

    def _begin(self, each: Any) -> None:
        each.begun = True
        if isinstance(each, Ask):
            self.asked.append((each.address, tuple(each.places)))
            answer = self.answers[each.address].pop(0)
        else:
            look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
            answer = look if isinstance(look, BusError) else owners(look)
        if answer is not SILENCE:
            each.ended = True
            each.error, each.result = (answer, None) if isinstance(answer, Exception) else (None, answer)


def owners(addresses: dict[int, str]) -> Mapping[int, Owner]:
    return {number: Owner(number, 1, "w", address, 0.0, len(addresses)) for number, address in addresses.items()}


def ask(crawl: PartitionRouter, world: World, partitions: list[int]) -> list[tuple[list[int], Any]]:
    return world.run(crawl.of_owners(partitions, partitions, lambda part: client_calls.plain("state")))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World({0: "a", 1: "b"})
    for module in partition_router, cluster_calls:
        monkeypatch.setattr(module, "monotonic", world.monotonic)
    return world


@pytest.fixture
def crawl(world: World) -> PartitionRouter:
    return PartitionRouter("test", 60.0)


def test_each_part_goes_to_its_owner_and_the_rest_is_asked_for_where_it_has_moved(
    world: World, crawl: PartitionRouter
) -> None:
    world.looks = [{0: "a", 1: "b"}, {0: "a", 1: ""}, {0: "a", 1: "a"}]
    world.answers = {"a": ["zero", "one"], "b": [NotOwner()]}
    assert ask(crawl, world, [0, 1, 0]) == [([0, 2], "zero"), ([1], "one")]
    assert world.asked == [("a", (0, 2)), ("b", (1,)), ("a", (1,))] and world.given_up == []


def test_a_silent_worker_is_waited_for_until_another_one_has_the_partition(
    world: World, crawl: PartitionRouter
) -> None:
    world.looks = [*([{0: "a"}] * 4), {0: "b"}]
    world.answers = {"a": [SILENCE], "b": ["done"]}
    assert ask(crawl, world, [0]) == [([0], "done")]
    assert world.given_up == ["a"] and world.now == 4 * PATIENCE, "it was looked up after each of these silences"


def test_a_long_wait_is_no_reason_to_ask_again(world: World, crawl: PartitionRouter) -> None:
    world.answers = {"a": [SILENCE], "b": ["one"]}
    with pytest.raises(ConnectionLost, match=r"partitions 0 of 'test' have had no owner that answers for 6\d s"):
        ask(crawl, world, [0, 1])
    assert world.asked == [("a", (0,)), ("b", (1,))] and world.given_up == [], "the call ends with its question"


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_what_was_answered_is_known_whatever_becomes_of_the_rest(
    world: World, crawl: PartitionRouter, is_interrupted: bool
) -> None:
    world.answers = {"a": ["zero"], "b": [SILENCE]}
    results: list[tuple[list[int], Any]] = []
    steps = crawl.of_owners([0, 1, 0], [0, 1, 0], lambda part: client_calls.plain("state"), results)
    if is_interrupted:
        while not world.asked:
            wanted = next(steps)
            assert isinstance(wanted, Answers)
            world.begin(wanted.of)
        steps.close()
    else:
        with pytest.raises(ConnectionLost):
            world.run(steps)
    assert results == [([0, 2], "zero")]


def test_a_worker_that_refuses_is_not_asked_again_and_again_while_the_directory_names_it(
    world: World, crawl: PartitionRouter
) -> None:
    world.answers = {"a": [NotOwner(), ConnectionLost(), "done"]}
    assert ask(crawl, world, [0]) == [([0], "done")] and world.pauses == 2


def test_owners_stay_known_while_the_directory_does_not_answer(world: World, crawl: PartitionRouter) -> None:
    world.looks, world.answers = [{0: "a"}, BusAway()], {"a": [ConnectionLost(), "done"]}
    assert ask(crawl, world, [0]) == [([0], "done")] and crawl.owners == {0: "a"}
    with pytest.raises(BusError):
        world.run(crawl.look_up(strict=True))
    with pytest.raises(BusError):
        world.run(PartitionRouter("test", 60.0).count())
    with pytest.raises(ConnectionLost, match=r"has an owner: .*broker runs"):
        world.run(PartitionRouter("test", 60.0).count(waits=True))


def test_another_error_ends_the_question(world: World, crawl: PartitionRouter) -> None:
    world.answers = {"a": [FrontierError("no")], "b": [SILENCE]}
    with pytest.raises(FrontierError, match="no"):
        ask(crawl, world, [0, 1])


def lease(partition: int, number: int = 1) -> Lease:
    return Lease(partition << keys.PARTITION_SHIFT | number, "", CrawlUri(f"https://{partition}.test/"), 1, 0.0, 1)


def test_a_worker_that_gives_no_lease_in_time_is_left_out_for_a_while(world: World) -> None:
    client = Calls("test", 60.0)
    one, zero = lease(1), lease(0)
    world.answers = {"a": [SILENCE, [zero]], "b": [[], [one], [], []]}
    assert world.run(client.lease(2, None, 0.0)) == [] and world.given_up == ["a"]
    assert world.run(client.lease(2, None, 0.0)) == [one]
    assert [address for address, _ in world.asked].count("a") == 1, "it was left out"
    world.now += LEFT_OUT * PATIENCE
    assert world.run(client.lease(2, None, 0.0)) == [zero] and len(client.held.ids()) == 2
    world.looks, world.answers, client.asking.owners = [{0: "a"}], {"a": [SILENCE, [zero]]}, {}
    assert world.run(client.lease(1, None, 0.0)) == [] and world.run(client.lease(1, None, 0.0)) == [zero], (
        "if alone, not"
    )
    assert world.run(client.lease(0, None, 9.0)) == []


def test_leases_of_a_call_that_is_cancelled_are_given_to_the_next(world: World) -> None:
    client = Calls("test", 60.0)
    one, two = lease(0), lease(1)
    world.answers = {"a": [[one], []], "b": [SILENCE, [two]]}
    client.asking._turn = 1
    world.run(client.lease(2, None, 0.0), until_silent=True)
    assert world.run(client.lease(2, None, 0.0)) == [one, two]


def test_leases_that_no_partition_has_given_have_ended(world: World) -> None:
    client, known, other = Calls("test", 60.0), lease(1), lease(7)
    world.answers = {"b": [[], []]}
    assert world.run(client.renew_many([known, other], 9.0)) == [other]
    with pytest.raises(LeaseExpired):
        world.run(client.renew(other, 9.0))


def test_nothing_is_never_ready_while_a_worker_does_not_answer(world: World) -> None:
    client = Calls("test", 60.0)
    world.answers = {"a": [None, None, 7.0], "b": [None, SILENCE, ConnectionLost("gone")]}
    assert world.run(client.next_ready_in()) is None
    assert world.run(client.next_ready_in()) == partition_router.LOOK_AGAIN
    assert world.run(client.next_ready_in()) == 7.0


def test_no_dead_letters_are_left_out(world: World) -> None:
    client = Calls("test", 60.0)
    early, late = (
        DeadLetter(id=1, queue=queue, uri=CrawlUri(""), cost=1, reason="", time=time, deliveries=1, attempts=1)
        for queue, time in (("a.test", 1.0), ("b.test", 2.0))
    )
    world.answers = {"a": [[early], [early], [early]], "b": [NotOwner(), [late], SILENCE]}
    assert world.run(client.dead_letters(None)) == [early, late]
    with pytest.raises(ConnectionLost, match=r"partitions 1 of 'test'"):
        world.run(client.dead_letters(1))


def test_what_waits_is_that_of_all_partitions(world: World) -> None:
    client = Calls("test", 60.0)
    world.answers = {"a": [3, 3], "b": [4, 4, {"added": 1}]}
    assert world.run(client.waiting()) == 7
    assert world.run(client._room(10, 5)) == 3
