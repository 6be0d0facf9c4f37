"""Settings from YAML files, and single values as they are written there."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.loader import load, parse_value
from budgetfrontier.settings.schema import Seed
from tests.settings.files import Files

SAMPLE = r"""
crawl: news-2026
profile: budgeted-rotation          # start from one of config/*.yaml
seeds: [https://www.example.org/, {url: https://www.example.net/, priority: 10}, {file: seeds.txt}]
scope: {accept: [seed-hosts], reject: ['regex:\.(zip|exe)$'], max_hops: 20}
frontier:
  hold_queues: true
  balance_replenish_amount: 3000
  queue_total_budget: -1
  retire_when: exceeded
  cost_policy: wag
  queue_assignment_policy: hostname
  pause_at_finish: true
  politeness: {delay_factor: 5.0, min_delay: 3s, max_delay: 30s, per_queue_concurrency: 1}
  retry: {max_retries: 30, delay: 15m}
overrides:
  - match: "domain:example.com"
    set: {queue_total_budget: 100, balance_replenish_amount: 20}
fetch: {user_agent: "ExampleBot/1.0 (+https://example.org/bot)", concurrency: 32, resolve: {"*.test": "127.0.0.1:8080"}}
output: {warc: true, links: jsonl}
limits: {max_uris: 1000000, max_time: 12h, max_bytes: 50GiB}
reports: {every: 5m}
"""


def test_only_some_sections_have_to_be_right(tmp_path: Path) -> None:
    file = tmp_path / "workers.yaml"
    file.write_text(
        "crawl: news\nfrontier: {cost_policy: 'nowhere:cost', max_queued: 7}\ncluster: {partitions: 3}\nx: 1\n"
    )
    found, warnings = load(file, Settings(), only=["crawl", "cluster"])
    assert (found.crawl, found.cluster.partitions) == ("news", 3)
    assert [warning.split(": ")[:2] for warning in warnings] == [  # what the workers would refuse
        [f"{file}:2:25", "frontier.cost_policy"], [f"{file}:4:1", 'unknown key "x"; known here'],
    ]  # fmt: skip
    file.write_text("cluster: {partitions: many}\nfrontier: {cost_policy: 'nowhere:cost'}\n")
    with pytest.raises(SettingsError) as caught:
        load(file, Settings(), only=["crawl", "cluster"])
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == [f"{file}:1:23"]
    file.write_text("cluster: {partitions: 3\n")
    with pytest.raises(SettingsError):
        load(file, Settings(), only=["crawl"])


def test_the_sample_of_the_manual(files: Files, tmp_path: Path) -> None:
    (tmp_path / "seeds.txt").write_text("https://example.org/\n")
    settings = files.settings(SAMPLE)
    assert settings.crawl == "news-2026"
    assert settings.seeds[2] == Seed(file=str(tmp_path / "seeds.txt"))
    assert settings.frontier.cost_policy == "wag"
    assert settings.frontier.retry.delay == 900.0
    assert settings.overrides[0].set == {"queue_total_budget": 100, "balance_replenish_amount": 20}
    assert (settings.limits.max_time, settings.limits.max_bytes) == (43200.0, 50 * 1024**3)
    assert Settings.from_dict(settings.to_dict()) == settings


def test_an_empty_section_changes_nothing(files: Files) -> None:
    assert files.settings("frontier:\nseeds:\noverrides:\nhooks:\n") == Settings()


def test_files_are_relative_to_the_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "seeds.txt").write_text("https://example.org/\n")
    (folder / "crawl.yaml").write_text("seeds: {file: seeds.txt}\n")
    monkeypatch.chdir(tmp_path)
    assert Settings.from_yaml("deep/crawl.yaml").seeds == (Seed(file=str(folder / "seeds.txt")),)


@pytest.mark.parametrize("name", ["none.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.from_yaml(tmp_path / name)


def test_values_of_the_command_line() -> None:
    assert parse_value("3000") == 3000
    assert parse_value("3s") == "3s"
    assert parse_value("{additive: {rules: []}}") == {"additive": {"rules": []}}
    with pytest.raises(SettingsError):
        parse_value("[1, 2")
    for nothing in ("", " ", "# a comment"):
        with pytest.raises(SettingsError, match=r"there is no value; \[\] is an empty list"):
            parse_value(nothing)
