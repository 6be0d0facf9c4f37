"""The results of simulations for people."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.reports.simulation_results import doubts, new_hosts, rests, table
from budgetfrontier.rules.simulation import Simulated

COUNTS = dict.fromkeys(("succeeded", "failed", "disregarded", "spent", "discovered", "size", "queued"), 0)


def simulated(*draws: tuple[float, int], **values: Any) -> Simulated:
    """A simulation that is the first of some draws."""
    seconds, fetches = draws[0]
    asked: dict[str, Any] = {"ended_by": "finished", "unsure": 0, "most_after": seconds, "elsewhere": 0.0}
    asked |= {"draws": [(*draw, values.get("ended_by", "finished")) for draw in draws]}
    return Simulated(seconds=seconds, fetches=fetches, **COUNTS | asked | values)


def test_the_table_has_a_column_for_each_and_the_range_of_the_draws() -> None:
    rows = table([simulated((3600, 10), (7200, 12)), simulated((3600, 10), (3600, 10), unsure=5, endless=1)])
    assert rows[:4] == [
        ["", "today's settings", "proposed"],
        ["ends after", "1h", "1h"],
        ["ends of 2 draws", "1h to 2h", "1h"],
        ["fetches of 2 draws", "10 to 12", "10"],
    ]
    assert rows[-2:] == [["drawn from few fetches", "0%", "50%"], ["no end in sight", "0%", "10%"]]
    assert not any("draws" in row[0] for row in table([simulated((3600, 10))]))
    ends = [simulated((3600, 10), retired=1, stranded=2), simulated((3600, 10), retired=1, ended_by="until")]
    assert ["ended by", "RETIRED queues", "until"] in table(ends)


def test_doubts_are_of_chance_of_what_is_known_and_of_what_is_left_out() -> None:
    plain = simulated((3600, 10), (7200, 12))
    unsure = simulated((36_000, 10), unsure=5, endless=4, overloaded=2, most_after=600.0, elsewhere=0.25)
    first, *others = doubts([plain, unsure])
    assert first == (
        "With today's settings, the 2 draws end after 1h to 2h: the most is 2.0 times the least, by chance, and "
        "others may differ more."
    )
    [alike] = doubts([simulated((3600, 10), (3660, 12))])
    assert alike.endswith("1h to 1h1m: chance makes hardly a difference, as far as so few tell.")
    assert doubts([simulated((0, 10), (3660, 12))])[0].endswith(": chance decides.")
    assert [one.partition(", ")[2].partition(":")[0] for one in others] == [
        "it was simulated once",
        "50% of the fetches are of hosts of which too little is known",
        "40% of the fetches are of hosts with no end in sight",
        "20% of the fetches are answered with 429 or 503, as often as until now, and their hosts rest",
        "99% of the fetches have ended after 10m",
    ]
    assert all(one.startswith("As proposed, ") for one in others)
    assert doubts([unsure])[-1] == new_hosts([unsure]) and "25% of them were on others" in new_hosts([unsure])
    assert new_hosts([plain]) == ""


def test_draws_that_are_for_the_same_time_differ_by_their_fetches() -> None:
    found = simulated((3600, 10), (3600, 30), ended_by="until")
    assert doubts([found]) == [
        "With today's settings, the 2 draws have 10 to 30 fetches: the most is 3.0 times the least, by chance, and "
        "others may differ more."
    ]


def test_how_unsure_the_end_is_where_hosts_rest_is_said_of_each_that_is_simulated_so() -> None:
    plain, overloaded = simulated((3600, 10), (7200, 12)), simulated((3600, 10), (4800, 11), (7200, 10), overloaded=2)
    assert rests([plain]) == []
    [one] = rests([plain, overloaded])
    assert one == (
        "As proposed, 20% of the fetches are answered with 429 or 503, as often as until now, and their hosts rest: "
        "the end may be far from those of all draws, and rather later than earlier; when a host recovers, or gets "
        "worse, nobody can tell."
    )
    assert one in doubts([plain, overloaded])
    assert rests([simulated((3600, 10), overloaded=2)])[0].count("the end may be far") == 1


@pytest.mark.parametrize("ended_by", ["until", "fetches", "max_time"])
def test_no_other_end_is_expected_of_a_crawl_that_a_limit_or_its_simulation_ends(ended_by: str) -> None:
    draws = [(1800, 9, "finished"), (3600, 10, "finished"), (7200, 9, ended_by)]
    some = simulated((3600, 10), overloaded=2, draws=draws)
    for found in (some, simulated((7200, 10), (7200, 11), overloaded=2, ended_by=ended_by)):
        assert rests([found])[0].endswith("and their hosts rest; when a host recovers, or gets worse, nobody can tell.")
