"""The schema: defaults as the seed has them, written out in default.yaml, and sections that can be replaced."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import msgspec

from budgetfrontier.settings import Settings
from budgetfrontier.settings.document import Document
from budgetfrontier.settings.field import all_settings
from tests.settings.files import problems


def test_defaults_are_those_of_the_seed() -> None:
    frontier = Settings().frontier
    assert frontier.hold_queues is True
    assert frontier.balance_replenish_amount == 3000
    assert frontier.queue_total_budget == -1
    assert frontier.retire_when == "exceeded"
    assert frontier.cost_policy == "unit"
    assert frontier.pause_at_finish is False
    assert (frontier.politeness.min_delay, frontier.politeness.max_delay) == (3.0, 30.0)
    assert (frontier.retry.max_retries, frontier.retry.delay) == (30, 900.0)
    assert (frontier.retry.status_retries, frontier.retry.status_delay) == (2, 1800.0), "three tries in an hour"


def flatten(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves = {"fetch.resolve", "frontier.quotas.host", "frontier.quotas.queue", "frontier.quotas.label", "sheets"}
    rows: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = prefix + key
        rows += flatten(value, name + ".") if isinstance(value, dict) and name not in leaves else [(name, value)]
    return rows


def test_default_yaml_holds_every_setting_with_its_default_and_documentation() -> None:
    raw = files("budgetfrontier.settings").joinpath("config", "default.yaml").read_bytes()
    document = Document(raw)
    assert document.problems == []
    written = dict(flatten(document.data))
    assert list(written) == [row.name for row in all_settings(Settings)]
    assert Settings.from_dict(document.data) == Settings()
    lines = raw.decode().splitlines()
    for row in all_settings(Settings):
        note = f"# {row.doc}" + (" (*)" if row.overridable else "")
        key = row.name.rpartition(".")[2] + ":"
        at = [i for i, line in enumerate(lines) if line.strip() == note]
        assert any(lines[i + 1].strip().startswith(key) for i in at), f"{row.name}: its comment is not {note!r}"


def test_sections_are_structs_that_can_be_replaced() -> None:
    settings = Settings()
    frontier = msgspec.structs.replace(settings.frontier, queue_total_budget=5)
    assert msgspec.structs.replace(settings, frontier=frontier).frontier.queue_total_budget == 5


def test_robots_is_obeyed_or_ignored_in_so_many_words() -> None:
    assert Settings.from_dict({"fetch": {"robots": "ignore"}}).fetch.robots == "ignore"
    assert problems({"fetch": {"robots": False}}) == ["fetch.robots: expected true or ignore, got false"]
