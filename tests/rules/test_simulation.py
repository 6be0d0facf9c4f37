"""The result of several simulations: the middle one, with the ends of all."""

from __future__ import annotations

from typing import Any

from budgetfrontier.rules.simulation import Simulated, middle, middles, together

_COUNTED = ("fetches", "unsure", "succeeded", "failed", "disregarded", "spent", "discovered", "size", "queued")


def test_the_middle_of_draws_has_the_ends_of_all() -> None:
    figures: dict[str, Any] = dict.fromkeys(_COUNTED, 0) | {"ended_by": "finished"}
    found = middle([Simulated(**figures, seconds=seconds) for seconds in (3.0, 1.0, 2.0)])
    assert found.seconds == 2.0
    assert found.draws == [(1.0, 0, "finished"), (2.0, 0, "finished"), (3.0, 0, "finished")]


def of_part(*ends: float, ended_by: str = "finished") -> list[Simulated]:
    """The draws of one part of a crawl, each of a fetch."""
    figures: dict[str, Any] = dict.fromkeys(_COUNTED, 0) | {"ended_by": ended_by, "fetches": 1}
    return [Simulated(**figures, seconds=seconds) for seconds in ends]


def test_the_end_of_a_crawl_in_parts_is_the_middle_one_of_the_last_ends_of_its_parts() -> None:
    parts = of_part(1.0, 9.0, 2.0), of_part(8.0, 1.0, 3.0), of_part(2.0, 3.0, 7.0)
    [found] = middles([[together(of_draw)] for of_draw in zip(*parts, strict=True)])
    assert (found.seconds, found.fetches) == (8.0, 3)
    assert found.draws == [(7.0, 3, "finished"), (8.0, 3, "finished"), (9.0, 3, "finished")]


def test_a_crawl_has_not_finished_if_the_simulation_of_a_part_was_cut() -> None:
    assert together([*of_part(9.0), *of_part(5.0, ended_by="fetches")]).ended_by == "fetches"
    assert together([*of_part(9.0), *of_part(5.0, ended_by="max_uris")]).ended_by == "finished"
