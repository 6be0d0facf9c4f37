"""Warnings about a min_delay that is longer than the max_delay in force, in files and by adjustments."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.settings import delay_conflicts
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.overrides import Override

LONGER = "min_delay (1m30s) is longer than max_delay (30s), which wins: set both"
SHEET = "sheets: {s: {politeness: {min_delay: 90s}}}\n"


def warnings(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "crawl.yaml"
    path.write_text(text)
    return [warning.removeprefix(f"{path}:") for warning in load(path, Settings())[1]]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("overrides: [{match: 'host:a.test', set: {politeness.min_delay: 90s}}]", "1:64: overrides[0].set"),
        ("overrides:\n- match: 'group:g'\n  set: {politeness: {min_delay: 90s}}\n"
         "groups: [{name: g, match: 'domain:x.test', politeness: true}]", "3:33: overrides[0].set"),
        (SHEET, "1:38: sheets.s"),
        (SHEET + "associations: [{sheet: s, host: [a.test, b.test]}]", "1:38: sheets.s"),
        (SHEET + "seeds: [{url: 'http://a.test/', sheet: s}]", "1:38: sheets.s"),
        ("profile: budgeted-rotation\n" + SHEET, "2:38: sheets.s"),
    ],
)  # fmt: skip
def test_a_shortest_delay_without_effect_has_a_warning_with_its_place(tmp_path: Path, text: str, place: str) -> None:
    assert warnings(tmp_path, text) == [f"{place}.politeness.min_delay: {LONGER}"]


def test_the_sheet_of_a_profile_has_the_place_of_what_associates_it(tmp_path: Path) -> None:
    text = "profile: sheets\nassociations: [{sheet: veryPolite, host: a.test}]\n"
    assert warnings(tmp_path, text) == []  # it sets both
    text += "overrides: [{match: '*', set: {politeness: {max_delay: 5s}}}]"
    told = "min_delay (10s) is longer than max_delay (5s), which wins: set both"
    assert warnings(tmp_path, text) == [f"2:16: associations[0].politeness.min_delay: {told}"]


def test_a_longest_delay_below_the_shortest_in_force_has_one_too(tmp_path: Path) -> None:
    text = "overrides: [{match: 'host:a.test', set: {politeness.max_delay: 1s}}]"
    told = "min_delay (3s) is longer than max_delay (1s), which wins: set both"
    assert warnings(tmp_path, text) == [f"1:64: overrides[0].set.politeness.max_delay: {told}"]


@pytest.mark.parametrize(
    "others",
    [
        [("*", {"politeness.max_delay": 100})],
        [("domain:test", {"politeness.max_delay": 100})],
        [("host:a.test", {"politeness.min_delay": 2})],
        [("*", {"politeness.max_delay": 1}), ("domain:a.test", {"politeness.max_delay": 100})],
    ],
)
def test_what_others_set_for_the_same_uris_counts(others: list[tuple[str, dict[str, float]]]) -> None:
    settings = Settings.from_dict({"frontier": {"politeness": {"min_delay": 0}}})
    change = Override("host:a.test", {"politeness.min_delay": 90})
    before = [Override(*one) for one in others]
    found = delay_conflicts.of_change(settings, [], [change, *before])
    assert found == []
    assert delay_conflicts.of_change(settings, [], [change]) == [f"host:a.test: {LONGER}"]
    assert delay_conflicts.of_change(settings, [change], [change, Override("*", {"precedence": 1})]) == []


def test_two_that_conflict_are_named_once(tmp_path: Path) -> None:
    text = (
        "overrides:\n- {match: 'domain:a.test', set: {politeness.max_delay: 5s}}\n"
        "- {match: 'host:a.test', set: {politeness.min_delay: 9s}}\n"
    )
    told = "min_delay (9s) is longer than max_delay (5s), which wins: set both"
    assert warnings(tmp_path, text) == [f"3:54: overrides[1].set.politeness.min_delay: {told}"]


@pytest.mark.parametrize("dry_run", [True, False])
def test_an_adjustment_has_the_warning_in_its_effect(dry_run: bool) -> None:
    with Frontier.open(":memory:") as f:
        f.schedule("http://a.test/")
        told = f.adjust(match="host:a.test", politeness={"min_delay": 90}, dry_run=dry_run)
        assert told.warnings == [f"host:a.test: {LONGER}"]
        both = {"min_delay": 90, "max_delay": 90}
        assert f.adjust(match="host:a.test", politeness=both, dry_run=dry_run).warnings == []


def test_to_take_a_longest_delay_back_has_it_too() -> None:
    with Frontier.open(":memory:") as f:
        f.schedule("http://a.test/")
        longer = f.adjust(match="*", politeness={"max_delay": 100})
        assert f.adjust(match="*", politeness={"min_delay": 90}).warnings == []
        f.withdraw(longer.id)
        assert f.audit(limit=1)[0].effect["warnings"] == [f"*: {LONGER}"]
