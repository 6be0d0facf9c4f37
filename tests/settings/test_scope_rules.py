"""The kinds of scope rules: each with an example in the documentation, and rules that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.scope_rules import FORMS, KINDS, check_rule

ROOT = Path(__file__).parents[2]


def test_every_kind_has_an_example_that_is_valid_and_in_the_docs() -> None:
    text = (ROOT / "docs/howto/scope.md").read_text(encoding="utf-8")
    for name, kind in KINDS.items():
        check_rule(kind.example)
        assert kind.example.partition(":")[0] == name
        assert f"`{kind.example}`" in text


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ("seed-host", '"seed-host" is not a scope rule; did you mean "seed-hosts"?'),
        ("exts:zip", '"exts:zip" is not a scope rule; did you mean "ext:zip"?'),
        ("exts", '"exts" is not a scope rule; did you mean "ext:zip,exe"?'),
        ("hop:>3", '"hop:>3" is not a scope rule; did you mean "hops:>3"?'),
        ("seeds", '"seeds" is not a scope rule; did you mean "seed-hosts"?'),
        ("path:/x", f'"path:/x" is not a scope rule; there are {FORMS}'),
        ("queue:a", '"queue:a" is not a scope rule; there are all, seed-hosts'),
        ("*", '"*" is not a scope rule; there are all'),
        ("x" * 9999, "is not a scope rule; there are all"),
        ("all:1", '"all:1": "all" stands alone'),
        ("embeds:3", '"embeds:3": "embeds" stands alone'),
        ("hops", '"hops" lacks what comes behind the colon; write it like "hops:>20"'),
        ("hops:20", '"20" is not a comparison; write it like "hops:>20", with >, >=, < or <='),
        ("depth:>a", '"a" is not a whole number; write it like "depth:>12"'),
        ("size:>10XB", '"10XB" is not a size; write it like 64KiB, 10MB, 50GiB'),
        ("ext:zip,,exe", '"" is not a valid extension; write it like "ext:zip,exe"'),
        ("ext:*.zip", '"*.zip" is not a valid extension'),
        ("type:html", '"html" is not a valid media type; write it like "type:image/*,video/*"'),
        ("regex:(", "is not a regular expression"),
        ("surt:org,example", "is not a SURT prefix"),
        ("host:" + "a" * 200_000, "is longer than 100,000 characters"),
        ("", 'expected a scope rule (all, seed-hosts'),
        (7, 'expected a scope rule (all, seed-hosts'),
    ],
)  # fmt: skip
def test_rules_that_are_none_are_told(rule: object, told: str) -> None:
    for part in ({"accept": [rule]}, {"rules": [{"reject": rule}]}):
        with pytest.raises(SettingsError) as raised:
            Settings.from_dict({"scope": part})
        assert len(raised.value.problems) == 1 and told in raised.value.problems[0]


def test_files_are_relative_to_the_yaml(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text("seeds: [http://a.test/]\nscope:\n  accept: [surt-file:scope.txt]\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r'crawl.yaml:3:\d+: scope.accept\[0\]: there is no file ".*scope.txt"'):
        Settings.from_yaml(path)
    (tmp_path / "scope.txt").write_text("a.test\n", encoding="utf-8")
    read = Settings.from_yaml(path)
    assert read.scope.accept == (f"surt-file:{tmp_path / 'scope.txt'}",)
    assert Settings.from_dict(read.to_dict()) == read
