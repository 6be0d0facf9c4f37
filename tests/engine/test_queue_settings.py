"""Which URI a queue takes its settings from, and when."""

from __future__ import annotations

import pytest

from budgetfrontier import CrawlUri, Directive, Outcome
from tests.support import kernel, memory, one, pages, record, state

OVERRIDES = [
    {"match": "regex:.*/rich", "set": {"queue_total_budget": 50, "precedence": 1}},
    {"match": "regex:.*/poor", "set": {"queue_total_budget": 5, "precedence": 7}},
]


def test_a_queue_takes_the_settings_of_the_uri_placed_last() -> None:
    frontier = memory(overrides=OVERRIDES)
    for path, expected in (("rich", (50, 1)), ("poor", (5, 7)), ("other", (-1, 3))):
        frontier.schedule(f"https://a.test/{path}")
        assert (record(frontier, "A").total_budget, record(frontier, "A").precedence) == expected


def test_at_an_activation_it_takes_those_of_its_head() -> None:
    frontier = memory(overrides=OVERRIDES)
    frontier.schedule_many(["https://a.test/rich", "https://a.test/poor"])
    assert record(frontier, "A").total_budget == 5
    one(frontier)
    assert (record(frontier, "A").total_budget, record(frontier, "A").precedence) == (50, 1)


def test_after_a_change_it_takes_those_of_its_head_and_a_look_shows_them_before() -> None:
    frontier = memory(hold_queues=False)
    frontier.schedule_many(pages("A", 3))
    frontier.schedule(CrawlUri("https://a.test/poor", directive=Directive.HIGHEST))
    frontier.adjust(match="regex:.*/poor", queue_total_budget=2)
    assert record(frontier, "A").total_budget == 2
    stored = kernel(frontier).tables.queues.look_up("a.test")
    assert stored is not None and stored.total_budget == -1  # the look has changed nothing
    frontier.finish(one(frontier), Outcome.DISREGARDED)
    assert record(frontier, "A").total_budget == 2  # until the next turn
    frontier.adjust(match="*", error_penalty_amount=3)
    assert record(frontier, "A").total_budget == -1


def test_without_a_uri_it_keeps_what_it_took_until_it_gets_one() -> None:
    frontier = memory()
    frontier.schedule("https://a.test/")
    frontier.finish(one(frontier))
    frontier.adjust(queue_total_budget=9)
    assert (state(frontier, "A"), record(frontier, "A").total_budget) == ("EXHAUSTED", -1)
    frontier.schedule("https://a.test/more")
    assert record(frontier, "A").total_budget == 9


@pytest.mark.parametrize("name", ["a.test", "none.test"])
def test_a_look_up_gives_a_copy_or_nothing(name: str) -> None:
    frontier = memory()
    frontier.schedule("https://a.test/")
    found = frontier.queue(name)
    if found is None:
        assert name == "none.test"
    else:
        found.queued += 7
        assert record(frontier, "A").queued == 1
