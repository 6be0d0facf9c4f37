"""Sheets: what they apply to, in which order, and what operators change of them."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.errors import FrontierError, SettingsError
from budgetfrontier.settings import Settings, sheets
from budgetfrontier.settings.overrides import Override, validate_override
from budgetfrontier.settings.validation import profile
from tests.settings.files import Files

A = {"precedence": 1, "queue_total_budget": 1}
B = {"precedence": 2, "max_queue_size": 2}
SITE = "https://www.example.org/x/y"


def settings(associations: list[dict[str, Any]], **more: Any) -> Settings:
    return Settings.from_dict({"sheets": {"a": A, "b": B}, "associations": associations, **more})


def precedence(found: Settings, *adjustments: Override, url: str = SITE, label: str | None = None) -> int:
    return sheets.effective(found, adjustments).for_uri(url, "www.example.org", label).precedence


def change(match: str, /, number: int = 1, **chosen: Any) -> Override:
    found = validate_override(match, chosen)
    return Override(found.match, found.set, id=number)


@pytest.mark.parametrize(
    ("associations", "expected"),
    [
        ([{"sheet": "a", "domain": "example.org"}], 1),
        ([{"sheet": "a", "domain": "example.com"}], 3),
        ([{"sheets": ["a", "b"], "host": "www.example.org"}], 2),  # by name
        ([{"sheet": "b", "domain": "example.org"}, {"sheet": "a", "match": "*"}], 2),
        ([{"sheet": "b", "domain": "example.org"}, {"sheet": "a", "match": "*", "order": 1}], 1),
        ([{"sheet": "b", "surt": "(org,"}, {"sheet": "a", "surt": "(org,example,"}], 1),  # the longest
        ([{"sheet": "b", "surt": "(org,example,"}, {"sheet": "a", "surt": "http://(org,"}], 2),
        ([{"sheet": "a", "surt": "(org,example,"}, {"sheet": "b", "regex": "/x/", "order": -5}], 2),  # after all SURTs
        ([{"sheet": "a", "queue": ["none", "www.*"]}], 1),
        ([{"sheet": "a", "label": "blogs"}], 1),
    ],
)
def test_the_last_sheet_that_applies_wins(associations: list[dict[str, Any]], expected: int) -> None:
    assert precedence(settings(associations), label="blogs") == expected


def test_each_setting_comes_from_the_last_sheet_that_has_it() -> None:
    found = sheets.effective(settings([{"sheet": ["a", "b"], "match": "*"}])).for_uri(SITE, "q")
    assert (found.precedence, found.queue_total_budget, found.max_queue_size) == (2, 1, 2)


def test_overrides_come_after_sheets_and_adjustments_last() -> None:
    found = settings(
        [{"sheet": "b", "match": "*", "order": 99}], overrides=[{"match": "domain:org", "set": {"precedence": 7}}]
    )
    assert precedence(found) == 7
    assert precedence(found, change("*", precedence=9)) == 9
    assert precedence(found, change("sheet:b", precedence=9)) == 7
    assert precedence(found, change("sheet:b", precedence=9), url="https://a.test/") == 9


def test_operators_associate_and_change_sheets() -> None:
    found = settings([{"sheet": "a", "domain": "example.org"}])
    more = change("surt:(org,example,www,", sheet="b")
    assert precedence(found, more) == 1  # SURT prefixes come first
    assert precedence(found, more, change("domain:example.org", without_sheet="a")) == 2
    assert precedence(found, more, change("host:www.example.org", sheet="b", sheet_order=1)) == 2
    new = change("sheet:new", precedence=8)
    assert precedence(found, new) == 1
    assert precedence(found, new, change("*", sheet="new", sheet_order=3)) == 8
    without = settings([])
    assert precedence(without, new, change("*", sheet="new"), change("*", without_sheet="new")) == 3


def test_a_change_that_names_no_sheet_or_association_is_refused() -> None:
    found = settings([{"sheet": "a", "domain": "example.org"}])
    with pytest.raises(
        FrontierError, match='no sheet "c"; there are a, b; `budgetfrontier sheet JOB set NAME` makes one'
    ):
        sheets.check_change(found, [], change("*", sheet="c"))
    with pytest.raises(FrontierError, match="did you mean slow; `budgetfrontier"):
        sheets.check_change(settings([], sheets={"slow": {}}), [], change("*", sheet="slo"))
    sheets.check_change(found, [change("sheet:c", precedence=1)], change("*", sheet="c"))
    with pytest.raises(FrontierError, match=r"it is with domain:example\.org"):
        sheets.check_change(found, [], change("*", without_sheet="a"))


@pytest.mark.parametrize(
    ("match", "chosen"),
    [
        ("*", {"sheet": "a", "precedence": 1}),
        ("*", {"sheet": "a", "without_sheet": "a"}),
        ("*", {"sheet": "a b"}),
        ("*", {"sheet": "a", "sheet_order": "1"}),
        ("*", {"sheet_order": 1}),
        ("nothing", {"sheet": "a"}),
        ("sheet:", {"precedence": 1}),
        ("sheet:a", {"fetch.timeout": 1}),
        ("sheet:a", {"sheet": "a"}),
        ("sheet:a", {"without_sheet": "b"}),
    ],
)
def test_changes_that_are_none(match: str, chosen: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        validate_override(match, chosen)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sheets: [a]", "1:9: sheets: expected a mapping of names to settings"),
        ("sheets: {a b: {}}", "1:10: sheets: expected the name of a sheet"),
        ("sheets: {a: {fetch: 1}}", "1:14: sheets.a"),
        ("associations: [a]", "1:16: associations[0]: expected {sheet: NAME, surt: PREFIX}"),
        ("associations: [{sheet: a, domain: x.test}]", '1:24: associations[0].sheet: there is no sheet "a"'),
        ("sheets: {ab: {}}\nassociations: [{sheet: a, domain: x.test}]", 'there is no sheet "a"; did you mean "ab"?'),
        (
            "sheets: {a: {}}\nassociations: [{sheet: a, domain: x.test, host: y.test}]",
            "2:16: associations[0]: domain and host in one association; write one for each, of which any may match",
        ),
        (
            "sheets: {a: {}}\nassociations: [{sheet: 5, domain: x.test}]",
            "2:24: associations[0].sheet: expected the name of a sheet, or a list of names, got 5, which needs quotes",
        ),
        (
            "sheets: {a: {}}\nassociations: [{sheet: a, domain: 5}]",
            "2:35: associations[0].domain: expected text, got 5",
        ),
        (
            "sheets: {a: {}}\nassociations: [{sheet: a, host: [x.test, true]}]",
            "associations[0].host: expected text, got",
        ),
        ("sheets: {a: {}}\nassociations: [{sheet: a, sheets: [a], host: x.test}]", "this names sheets a second time"),
        ("sheets: {a: {}}\nassociations: [{sheets: [a, a], host: x.test}]", 'sheets: "a" is in this list twice'),
        ("sheets: {a: {}}\nassociations: [{sheet: a, host: [x.test, x.test]}]", '"host:x.test" is in this list twice'),
        (
            "sheets: {a: {}}\nassociations:\n- {sheet: a, host: x.test}\n- {sheet: a, match: 'host:x.test', order: 1}",
            '4:3: associations[1]: the sheet "a" is associated with host:x.test before this',
        ),
        ("sheets: {a: {}}\nseeds: [{url: 'http://a.test/', sheet: b}]", '2:40: seeds[0].sheet: there is no sheet "b"'),
        ("sheets: {a: {}}\nseeds: [{url: 'http://a.test/', sheet: [a, a]}]", '"a" is in this list twice'),
        (
            "seeds: [{url: 'http://a.test/', budget: 5GB}]",
            "1:41: seeds[0].budget: expected a whole number of at least -1",
        ),
        (
            "frontier: {queue_assignment_policy: ip}\nseeds: [{url: 'http://a.test/', budget: 5}]",
            "2:9: seeds[0]: the queue of a seed depends on the address of its host here",
        ),
        ("sheets: {a: {}}\nassociations: [{sheet: a}]", "2:16: associations[0]: an association names a sheet and"),
        ("sheets: {a: {}}\nassociations: [{sheet: a, domains: x.test}]", "2:27: associations[0]: expected sheet"),
        ("sheets: {a: {}}\nassociations: [{sheet: a, regex: '('}]", "2:34: associations[0].regex"),
        ("sheets: {a: {}}\nassociations: [{sheet: a, host: x.test, order: x}]", "associations[0].order: expected"),
        ("sheets: {a: {}}\nassociations: [{sheet: a, match: 'sheet:a'}]", "is for adjustments"),
    ],
)
def test_problems_have_a_place(files: Files, text: str, problem: str) -> None:  # and are said once
    with pytest.raises(SettingsError) as caught:
        files.settings(text)
    assert problem in str(caught.value) and len(caught.value.problems) == 1


@pytest.mark.parametrize(
    "text",
    [
        "sheets: [a]\nassociations: [{sheet: a, domain: x.test}]",
        "sheets: {a b: {}}\nassociations: [{sheet: a b, domain: x.test}]",
        "profile: unknown\nassociations: [{sheet: veryPolite, domain: x.test}]",
    ],
)
def test_a_sheet_that_was_not_understood_is_not_said_to_be_missing(files: Files, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        files.settings(text)
    assert len(caught.value.problems) == 1


def test_stored_settings_are_read_again() -> None:
    found = settings([{"sheets": ["a", "b"], "surt": ["(org,", "(com,"], "order": 2}])
    assert Settings.from_dict(found.to_dict()) == found


def test_the_profile_has_the_sheets_of_heritrix_and_a_file_adds_to_them(files: Files) -> None:
    found = files.settings("profile: sheets\nsheets: {veryPolite: {precedence: 1}, mine: {}}\n")
    assert list(found.sheets) == ["forceRetire", "smallBudget", "veryPolite", "highPrecedence", "mine"]
    assert found.sheets["veryPolite"] == {"precedence": 1}
    stock = profile("sheets", Settings()).sheets
    assert stock["smallBudget"] | {"retire_when": ""} == {
        "balance_replenish_amount": 20,
        "queue_total_budget": 100,
        "retire_when": "",
    }
    assert stock["veryPolite"]["politeness.max_delay"] == 1000.0
    assert stock["highPrecedence"] == {"precedence": 2} and stock["forceRetire"] == {"balance_replenish_amount": 0}
