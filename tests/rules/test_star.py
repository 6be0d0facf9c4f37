"""STAR: in-degrees, exact and estimated, and the budgets that are interpolated between two of them."""

from __future__ import annotations

import sys
from collections import Counter

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import MissingExtra
from budgetfrontier.rules import star
from budgetfrontier.settings.schema import StarSettings
from budgetfrontier.storage.records import LinksRow
from tests.examples import few


def hashes(first: int, end: int) -> list[bytes]:
    return [xxhash.xxh3_64_digest(f"domain{number}.test".encode()) for number in range(first, end)]


def test_a_few_linking_domains_are_known_exactly() -> None:
    row = LinksRow(0, b"")
    assert star.add(row, hashes(0, 3))
    assert not star.add(row, hashes(1, 3))
    assert star.add(row, hashes(2, star.EXACT))
    assert (row.degree, len(row.domains)) == (star.EXACT, star.EXACT * star.HASH)
    assert star.objection(row) is None


@pytest.mark.parametrize("number", [65, 66, 100, 1000, 20_000])
def test_many_are_estimated(number: int) -> None:
    """The standard error of the sketch is 3.25 %; that of a few is less."""
    row = LinksRow(0, b"")
    for start in range(0, number, 997):
        star.add(row, hashes(start, min(start + 997, number)))
    assert len(row.domains) == star.REGISTERS
    assert row.degree == pytest.approx(number, rel=0.1)
    assert star.objection(row) is None
    before = row.domains
    assert not star.add(row, hashes(0, number))
    assert row.domains == before


@given(batches=st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60)), max_size=12))
@few(30)
def test_an_in_degree_never_falls_and_the_order_of_links_makes_no_difference(batches: list[tuple[int, int]]) -> None:
    row, degrees = LinksRow(0, b""), []
    for start, number in batches:
        star.add(row, hashes(start, start + number))
        degrees.append(row.degree)
    assert degrees == sorted(degrees)
    other = LinksRow(0, b"")
    for start, number in reversed(batches):
        star.add(other, hashes(start, start + number))
    assert other.domains == row.domains


def test_an_estimate_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperloglog", None)
    row = LinksRow(0, b"")
    star.add(row, hashes(0, star.EXACT))
    with pytest.raises(MissingExtra, match=r"budgetfrontier\[star\]"):
        star.add(row, hashes(0, 99))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (LinksRow(1, b"12345678"), None),
        (LinksRow(2, b"12345678"), "8 bytes of linking domains, and an in-degree of 2"),
        (LinksRow(0, b""), "0 bytes"),
        (LinksRow(1, b"1234567"), "7 bytes"),
        (LinksRow(2, b"1234567812345678"), "16 bytes"),
        (LinksRow(2, b"2234567812345678"), "16 bytes"),
        (LinksRow(64, bytes(star.REGISTERS)), "1024 bytes"),
        (LinksRow(65, bytes([56] * star.REGISTERS)), "1024 bytes"),
        (LinksRow(65, bytes(star.REGISTERS)), None),
        (LinksRow(1, b"12345678", 2), "ranked by 2, and the in-degree is 1"),
    ],
)
def test_what_no_row_can_be(row: LinksRow, told: str | None) -> None:
    found = star.objection(row)
    assert found is None if told is None else told in (found or "")


def test_the_in_degree_that_counts_is_that_of_the_last_ranking() -> None:
    assert star.ranked(LinksRow(5, b"", ranked=3, changed_after=7), 7) == 3
    assert star.ranked(LinksRow(5, b"", ranked=3, changed_after=7), 8) == 5


SETTINGS = StarSettings(default_budget=10, max_budget=110, top=2)


@pytest.mark.parametrize(
    ("degrees", "budgets"),
    [
        ([], {0: 10, 7: 10}),
        ([4], {0: 10, 1: 35, 4: 110, 9: 110}),
        ([4, 2], {0: 10, 1: 35, 2: 60, 4: 110}),
        ([4, 2, 2], {2: 10, 3: 60, 4: 110}),
        ([4, 4, 4], {3: 10, 4: 10}),
        ([9, 5, 2, 1], {1: 10, 2: 10, 3: 24, 5: 52, 9: 110}),
    ],
)
def test_budgets_are_interpolated_between_the_first_beyond_the_top_and_the_highest(
    degrees: list[int], budgets: dict[int, int]
) -> None:
    lowest, highest = star.cut_offs(sorted(Counter(degrees).items(), reverse=True), SETTINGS.top)
    assert {degree: star.budget(degree, lowest, highest, SETTINGS) for degree in budgets} == budgets


@given(degrees=st.lists(st.integers(1, 50)), top=st.integers(1, 9))
def test_at_most_so_many_domains_get_more_than_the_default(degrees: list[int], top: int) -> None:
    settings = StarSettings(default_budget=1, max_budget=1000, top=top)
    lowest, highest = star.cut_offs(sorted(Counter(degrees).items(), reverse=True), top)
    found = [star.budget(degree, lowest, highest, settings) for degree in sorted(degrees)]
    assert found == sorted(found)
    assert sum(budget > 1 for budget in found) <= top
    assert all(1 <= budget <= 1000 for budget in found)
