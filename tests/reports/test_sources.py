"""Sources of settings: file and line of overrides, ids of adjustments, in the order in which they apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.reports.sources import setting_sources, source_lines
from budgetfrontier.tools.cli import main

YAML = """\
frontier: {queue_total_budget: 20000}
overrides:
  - match: "domain:example.org"
    set: {queue_total_budget: 100}
  - {match: "regex:/cal", set: {precedence: 5}}
"""


def make(folder: Path, text: str = YAML) -> Path:
    """A frontier with these settings; returns the YAML file."""
    file = folder / "crawl.yaml"
    file.write_text(text)
    with Frontier.open(folder / "frontier", Settings.from_yaml(file)) as frontier:
        if not frontier.summary().scheduled:
            frontier.schedule_many(["http://trap.example.org/", "http://other.test/cal"])
    return file


def sources(folder: Path, url: str, queue: str) -> list[dict[str, Any]]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return setting_sources(view, url, queue)


def test_durations_have_their_units(tmp_path: Path) -> None:
    make(tmp_path, 'overrides: [{match: "*", set: {politeness.min_delay: 90, politeness.max_delay: 5400}}]')
    lines = list(source_lines(sources(tmp_path, "http://other.test/cal", "other.test")))
    assert [line.split()[:2] for line in lines] == [
        ["politeness.min_delay", "1m30s"],
        ["politeness.max_delay", "1h30m"],
    ]


def test_each_value_names_what_has_set_it(tmp_path: Path) -> None:
    file = make(tmp_path)
    with Frontier.open(tmp_path / "frontier") as frontier:
        number = frontier.adjust(match="queue:trap*", queue_total_budget=500, who="anna").id
    found = sources(tmp_path, "http://trap.example.org/", "trap.example.org")
    assert list(source_lines(found)) == [
        f"queue_total_budget 500  from adjustment {number} (queue:trap*) by anna, "
        f"over {file}:3 (domain:example.org): 100, over the settings: 20000"
    ]
    found = sources(tmp_path, "http://other.test/cal", "other.test")
    assert list(source_lines(found)) == [f"precedence 5  from {file}:5 (regex:/cal), over the default: 3"]


def test_explain_asks_for_the_settings_of_the_label_of_a_uri(tmp_path: Path, capsys: Any) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule(CrawlUri("http://a.test/", source="blogs"))
        frontier.adjust(match="label:blogs", queue_total_budget=9, who="anna")
    for target in ("a.test", "http://a.test/"):
        main(["explain", str(tmp_path), target])
        assert "  queue_total_budget 9  from adjustment 1 (label:blogs) by anna" in capsys.readouterr().out


def test_explain_shows_the_sources(tmp_path: Path, capsys: Any) -> None:
    file = make(tmp_path)
    for target in ("trap.example.org", "http://trap.example.org/"):
        main(["explain", str(tmp_path), target])
        assert f"  queue_total_budget 100  from {file}:3 (domain:example.org), over" in capsys.readouterr().out
        main(["explain", str(tmp_path), target, "--format", "json"])
        settings = {one["name"]: one for one in json.loads(capsys.readouterr().out)["settings"]}
        assert settings["queue_total_budget"]["sources"][-1]["at"] == f"{file}:3"
        assert settings["precedence"]["sources"] == [{"kind": "default", "value": 3}]


def test_an_override_that_moves_in_its_file_is_no_change(tmp_path: Path) -> None:
    make(tmp_path)
    file = make(tmp_path, "# a comment\n" + YAML)
    with Reader(tmp_path / "frontier") as reader:
        assert reader.audit() == [] and reader.settings.overrides[0].at == f"{file}:4"
        assert Settings.from_dict(reader.settings.to_dict()) == reader.settings
    make(tmp_path, YAML.replace("100", "200"))
    with Reader(tmp_path / "frontier") as reader:
        (entry,) = reader.audit()
        assert entry.effect["before"]["overrides"][0] == {
            "match": "domain:example.org", "set": {"queue_total_budget": 100}
        }  # fmt: skip


def test_a_value_that_an_adjustment_shadows_is_a_warning(tmp_path: Path, capsys: Any) -> None:
    file = make(tmp_path)
    main(["adjust", str(tmp_path), "--match", "domain:example.org", "--total-budget", "500"])
    capsys.readouterr()
    main(["check-config", str(file), "--job", str(tmp_path)])
    told = capsys.readouterr().err
    assert f"warning: {file}:3: queue_total_budget 100 (domain:example.org) has no effect: adjustment 1 (domain" in told
