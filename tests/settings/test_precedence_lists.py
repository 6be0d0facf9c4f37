"""Files of precedences of URIs, as YAML names them and `check-config` reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings.precedence_lists import read
from budgetfrontier.tools.cli import main

POLICY = "frontier: {uri_precedence_policy: {preloaded: {file: list.txt}}}\n"
OVERRIDE = """\
sheets: {ranked: {uri_precedence_policy: {PreloadedUriPrecedencePolicy: {file: list.txt, basePrecedence: 3}}}}
associations: {sheet: ranked, match: "domain:a.test"}
overrides: [{match: "host:*.b.test", set: {uri_precedence_policy: {policy: preloaded, file: list.txt}}}]
"""


def test_each_line_is_a_uri_and_its_value(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("a.test 1\n  https://a.test:443\t-300 x y\n#\nhttp://a.test/%7E +5\n")
    assert list(read(tmp_path / "list.txt")) == [
        ("http://a.test/", 1),
        ("https://a.test/", -127),
        ("http://a.test/%7E", 5),
    ]


@pytest.mark.parametrize("text", [POLICY, OVERRIDE])
def test_files_are_relative_to_the_yaml(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    config, file = tmp_path / "crawl.yaml", tmp_path / "list.txt"
    config.write_text(text)
    with pytest.raises(SettingsError, match=r"list.txt"):
        Settings.from_yaml(config)
    file.write_text("https://a.test/ 6\nhttps://x.b.test/ 6\n")
    with Frontier.open(":memory:", Settings.from_yaml(config)) as f:
        f.schedule_many(["https://a.test/", "https://x.b.test/"])
        found = {lease.uri.url: lease.uri.precedence for lease in f.lease(2)}
    assert found == {"https://a.test/": 7 if text is POLICY else 9, "https://x.b.test/": 7}
    assert main(["check-config", str(config)]) == 0
    file.write_text("https://a.test/ 6\nhttps://a.test/\n")
    capsys.readouterr()
    assert main(["check-config", str(config)]) == 4
    assert f"{file}:2: expected a URI, a blank and its precedence" in capsys.readouterr().err


@pytest.mark.parametrize("text", [POLICY, OVERRIDE])
def test_a_crawl_in_partitions_cannot_have_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.txt").touch()
    (tmp_path / "crawl.yaml").write_text(f"cluster: {{kafka: 'localhost:9092'}}\n{text}")
    with pytest.raises(SettingsError) as caught:
        Settings.from_yaml(tmp_path / "crawl.yaml")
    told = [problem for problem in caught.value.problems if "cannot have the policy preloaded" in problem]
    assert len(told) == (1 if text is POLICY else 2), caught.value.problems
