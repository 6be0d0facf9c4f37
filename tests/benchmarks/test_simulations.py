"""The benchmark of simulations, on two small webs: a simulation ends about when the crawl does."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchmarks import simulations
from benchmarks.synthetic_webs import Host, Web, webs


def test_the_webs_differ() -> None:
    found = webs(0.1)
    assert len({web.name for web in found}) == len(found) == 15
    assert webs(0.1, seed=2) != found


@pytest.mark.parametrize(
    "web",
    [
        Web("linked", [Host(150) for _ in range(4)], {"balance_replenish_amount": 20}),
        Web("budgets", [Host(100) for _ in range(8)], {"balance_replenish_amount": 10, "queue_total_budget": 40}),
        Web("calendar", [Host(math.inf, ahead=(1, 12), errors=0.0), Host(60)], {"queue_total_budget": 600}),
        Web("redirects", [Host(math.inf, ahead=(1,), errors=0.0), Host(60)], {"queue_total_budget": 600}),
    ],
    ids=lambda web: web.name,
)
def test_a_simulation_ends_about_when_the_crawl_does(tmp_path: Path, web: Web) -> None:
    found = simulations.foreseen(web, tmp_path, share=0.4)
    assert found.said_seconds == pytest.approx(found.seconds, rel=0.25)
    assert found.said_fetches == pytest.approx(found.fetches, rel=0.25)
    assert web.name in simulations.table([found])


def test_the_rate_is_that_of_a_simulation(tmp_path: Path) -> None:
    measured = simulations.rate(tmp_path, 8, 200, found=1)
    assert 0 < measured.found < 2 * measured.fetched
