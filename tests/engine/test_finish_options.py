"""What an ending says of its response comes to the engine, by each call that ends leases."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from budgetfrontier import Finish, Frontier, Lease, Outcome
from budgetfrontier.aio import Scheduler
from budgetfrontier.core import protocol
from budgetfrontier.engine.bulk_finish import end_leases
from budgetfrontier.engine.finish import Finisher
from budgetfrontier.engine.finish_many import BatchFinisher
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.remote import calls
from budgetfrontier.server.frontier_calls import CALLS
from tests.support import pages


def finish(frontier: Frontier, lease: Lease, **said: Any) -> None:
    frontier.finish(lease, **said)


def finish_many(frontier: Frontier, lease: Lease, **said: Any) -> None:
    assert not frontier.finish_many([Finish(lease, **said)])


def end_one(frontier: Frontier, lease: Lease, **said: Any) -> None:
    assert not end_leases(frontier, [Finish(lease, **said)], 0.0)


def served(frontier: Frontier, lease: Lease, **said: Any) -> None:
    """As a client sends it, and a server or the owner of a partition carries it out."""
    sent = protocol.encode([calls._end(Finish(lease, **said))])
    ended = protocol.decoder(protocol.FINISH_MANY.arguments)(sent)
    assert CALLS[protocol.FINISH_MANY.name](frontier, ended) == []


@pytest.mark.parametrize("taker", [Frontier.finish, Scheduler.task_done])
def test_what_ends_a_lease_takes_the_options_of_a_finish(taker: Callable[..., object]) -> None:
    options = {field.name: field.default or None for field in msgspec.structs.fields(Finish) if field.name != "lease"}
    taken = inspect.signature(taker).parameters.values()
    assert {each.name: each.default or None for each in [*taken][-len(options) :]} == options
    assert [*options] == [*protocol.Ended.__struct_fields__[1:]]


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Finish | None]:
    """The endings that come to the engine, other than bare successes of `finish_many`."""
    found: list[Finish | None] = []

    def spied(end: Callable[..., None]) -> Callable[..., None]:
        def spy(self: object, lease: Lease, ending: Finish | None, now: float) -> None:
            if not found or found[-1] is not ending:  # else one has handed it to the other
                found.append(ending)
            end(self, lease, ending, now)

        return spy

    monkeypatch.setattr(Finisher, "finish", spied(Finisher.finish))
    monkeypatch.setattr(BatchFinisher, "end", spied(BatchFinisher.end))
    return found


@pytest.mark.parametrize("call", [finish, finish_many, end_one, served])
@pytest.mark.parametrize("novel", [True, False, None])
def test_novelty_and_address(call: Any, novel: bool | None, endings: list[Finish | None]) -> None:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(pages("a", 1))
        [lease] = frontier.lease()
        call(frontier, lease, outcome=Outcome.FAILURE, size=7, novel=novel, address="2001:DB8::1")
        [ending] = endings
        assert ending is not None
        assert (ending.size, ending.novel, ending.address) == (7, novel, "2001:db8::1")


def acked(frontier: Frontier, lease: Lease, **said: Any) -> None:
    assert LeaseQueue(frontier).ack_lease(lease, **said)


@pytest.mark.parametrize("call", [finish, acked])
@pytest.mark.parametrize("said", [{"novel": False}, {"address": "192.0.2.1"}])
def test_a_success_that_says_nothing_else(call: Any, said: dict[str, Any], endings: list[Finish | None]) -> None:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(pages("a", 1))
        call(frontier, *frontier.lease(), **said)
        [ending] = endings
        assert ending is not None
        assert {name: getattr(ending, name) for name in said} == said


@pytest.mark.parametrize(
    ("given", "kept"),
    [("", ""), ("192.0.2.1", "192.0.2.1"), ("::ffff:192.0.2.1", "192.0.2.1"), ("FE80::1%eth0", "fe80::1%eth0")],
)
def test_one_address_has_one_spelling(given: str, kept: str, endings: list[Finish | None]) -> None:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(pages("a", 1))
        [lease] = frontier.lease()
        frontier.finish(lease, size=1, address=given)
        assert [ending and ending.address for ending in endings] == [kept]
