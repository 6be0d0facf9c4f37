"""The benchmark of the integrations: what it feeds, that each measurement does all of its work, where its tables go."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import pytest

from benchmarks import integrations, integrations_measure, publish, table

ALL = [
    *integrations.SCRAPY,
    *integrations.ASYNCIO,
    *integrations.LEASES,
    integrations.LATENESS,
    *(f"pending {name}" for name in integrations.PENDING),
]
QUICK = [name for name in ALL if name != integrations.LATENESS and "qcrawl" not in name]


def test_most_links_are_known_and_those_of_a_page_stay_on_its_host() -> None:
    links = list(integrations_measure.links(50_000))
    assert links == list(integrations_measure.links(50_000))
    assert len(links) == 50_000
    assert len(set(links)) < 20_000
    hosts = [link.split("/")[2] for link in links[:50]]
    assert 40 <= hosts.count("www.host-0.test") <= 50
    assert len({link.split("/")[2] for link in links}) == integrations_measure.HOSTS


@pytest.mark.parametrize("name", QUICK)
def test_a_measurement_does_all_of_its_work(tmp_path: Path, name: str) -> None:
    figures = integrations_measure.MEASUREMENTS[name](tmp_path / "room", 0.002)
    assert figures and all(figure > 0 for figure in figures.values())


@pytest.mark.parametrize("name", ["qcrawl in memory", "qcrawl on disk"])
def test_qcrawl_does_all_of_its_work(tmp_path: Path, name: str) -> None:
    pytest.importorskip("qcrawl")
    assert integrations_measure.MEASUREMENTS[name](tmp_path / "room", 0.002)["per_second"] > 0


def test_work_that_was_not_done_ends_the_measurement() -> None:
    with pytest.raises(SystemExit, match="1 where 2 was to be done"):
        integrations_measure.check(1, 2)


def everything() -> table.Round:
    """A round in which every figure is 1."""
    figures: table.Round = {name: defaultdict(lambda: 1.0) for name in ALL}
    return figures


def test_every_line_is_of_something_that_is_measured() -> None:
    assert set(integrations_measure.MEASUREMENTS) == set(ALL)
    assert all(row.values([everything()]) for row in integrations.ROWS)


def test_what_was_not_measured_is_left_out_of_the_tables() -> None:
    rounds = [{name: figures for name, figures in everything().items() if "qcrawl" not in name} for _ in range(2)]
    assert "qcrawl" not in integrations.of_asyncio(rounds)
    assert "qcrawl" not in table.markdown(table.results(integrations.ROWS, rounds))
    assert len(integrations.of_scrapy(rounds).splitlines()) == 2 + len(integrations.SCRAPY)


def test_the_pages_have_a_place_for_every_table() -> None:
    about = dict.fromkeys(
        ("commit", "processor", "cores", "memory", "file system", "python", "lmdb", "load before", "load after"), "1"
    )
    tables = publish.of_integrations({"date": "2026-01-01T00:00Z", "machine": about, "rounds": [everything()]})
    pages = "".join((publish.PAGES / name).read_text() for name in publish.FILLED)
    assert {name for name in re.findall("<!-- table: (.*) -->", pages) if name.startswith("integrations")} == set(
        tables
    )
