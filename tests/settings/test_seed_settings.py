"""Budgets, sheets, labels and priorities of seeds: one grammar in YAML and in files, and overrides of their queues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.crawler.seeds import bad_lines, each_seed, scheduled_seeds
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import sheets
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.seed_settings import with_seed_settings
from budgetfrontier.settings.url_lists import ListedUrl, SeedSetting, parse_line
from tests.settings.files import Files

SHEETS: dict[str, dict[str, Any]] = {"small": {"queue_total_budget": 20, "precedence": 5}, "slow": {"precedence": 6}}


def in_force(settings: Settings, host: str) -> tuple[int, int]:
    """Return the total budget and the precedence of a host's queue."""
    found = sheets.effective(with_seed_settings(settings)).for_uri(f"http://{host}/", host)
    return found.queue_total_budget, found.precedence


@pytest.mark.parametrize(
    ("line", "given", "meta"),
    [
        ("http://a.test/\tbudget=5", {"budget": 5}, None),
        ("http://a.test/\tpriority=-2\tlabel=blogs", {"priority": -2, "source": "blogs"}, None),
        ("http://a.test/\tsource=5\tqueue=q", {"source": "5", "queue": "q"}, None),
        ("http://a.test/\tsheet=a\ttopic=x\tsheet=b", {"sheet": ("a", "b")}, {"topic": "x"}),
    ],
)
def test_settings_of_a_line(line: str, given: dict[str, Any], meta: dict[str, str] | None) -> None:
    found = parse_line(line, of_seeds=True)
    assert found is not None and {name: one.value for name, one in (found.given or {}).items()} == given
    assert found.meta == meta
    named = [field.partition("=")[0] for field in line.split("\t")[1:]]
    assert set((parse_line(line) or ListedUrl("", 0, None)).meta or ()) == set(named)  # in a list of other URLs


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("budget=x", '15: budget: expected a whole number of at least -1, got "x"'),
        ("budget=-2", "15: budget: expected a whole number of at least -1, got -2"),
        ("budget=5\tbudget=5", "24: this sets budget a second time"),
        ("label=a\tsource=b", "23: this sets source a second time"),
        ("budget=", "15: budget has no value; write budget=VALUE"),
        ("priority", "15: priority has no value; write priority=VALUE"),
        ("priority=1.5", "15: priority: expected a whole number, got 1.5"),
    ],
)
def test_a_line_with_a_wrong_setting_is_left_out(field: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(f"http://a.test/\t{field}\nhttp://b.test/\tbudget=3\n".replace("test/\t", "test\t"))
    settings = Settings.from_dict({"seeds": [{"file": str(path)}]})
    assert [*bad_lines(settings.seeds)] == [f"{path}:1:{words}"]
    assert [url for url, _ in each_seed(settings)] == ["http://b.test"]
    assert [one.match for one in with_seed_settings(settings).overrides] == ["queue:b.test"]


def test_budgets_and_sheets_are_for_the_queues_of_seeds(files: Files) -> None:
    lines = "http://a.test/\tbudget=7\nhttp://b.test/\tsheet=slow\nhttp://c.test/\nhttp://d.test/\tqueue=q*,\n"
    files.path.with_name("seeds.txt").write_text(lines)
    settings = files.settings(
        "sheets: {small: {queue_total_budget: 20, precedence: 5}, slow: {precedence: 6}}\n"
        "overrides: [{match: '*', set: {queue_total_budget: 100}}]\n"
        "seeds:\n"
        "- {url: 'http://e.test/x', budget: 1, sheet: [small]}\n"
        "- {file: seeds.txt, label: all, sheet: small, budget: 9}\n"
    )
    assert in_force(settings, "a.test") == (7, 5)
    assert in_force(settings, "b.test") == (9, 6)  # its sheet takes the place of that of the file
    assert in_force(settings, "c.test") == (9, 5)
    assert in_force(settings, "q*,") == (9, 5)
    assert in_force(settings, "qx,") == (100, 3)
    assert in_force(settings, "e.test") == (1, 5)
    assert in_force(settings, "f.test") == (100, 3)
    compiled = with_seed_settings(settings)
    assert Settings.from_dict(compiled.to_dict()) == compiled
    assert {one.at for one in compiled.overrides[1:]} >= {"the seed http://a.test/", "the seed http://e.test/x"}


def test_a_seed_has_the_settings_of_its_line(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("http://a.test/\tpriority=5\tlabel=own\nhttp://b.test/\tqueue=q\nhttp://c.test/\n")
    settings = Settings.from_dict({"seeds": [{"file": str(path), "priority": 1, "label": "all"}]})
    found = [(uri.url, uri.priority, uri.source, uri.queue) for uri in scheduled_seeds(settings)]
    assert found == [
        ("http://a.test/", 5, "own", None),
        ("http://b.test/", 1, "all", "q"),
        ("http://c.test/", 1, "all", None),
    ]
    assert [seed.priority for _, seed in each_seed(settings)] == [5, 1, 1]
    assert with_seed_settings(settings) is settings


def test_several_seeds_of_one_queue_agree(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("http://a.test/1\tbudget=7\nhttp://a.test/2\tsheet=small\nhttp://a.test/3\tbudget=7\tsheet=small\n")
    data: dict[str, Any] = {"sheets": SHEETS, "seeds": [{"file": str(path)}]}
    compiled = with_seed_settings(Settings.from_dict(data))
    assert (len(compiled.overrides), len(compiled.associations)) == (1, 1)
    with path.open("a") as file:
        file.write("http://a.test/4\tbudget=8\n")
    with pytest.raises(SettingsError) as caught:
        with_seed_settings(Settings.from_dict(data))
    assert caught.value.problems == [
        f"{path}:4:1: a budget of 8 for the queue a.test, which is one queue with one budget: "
        "the seed http://a.test/1 has 7"
    ]


def test_lines_that_name_no_sheet_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("http://a.test/\tbudget=7\tsheet=smal\nhttp://b.test/\tsheet=x\n")
    with pytest.raises(SettingsError) as caught:
        with_seed_settings(Settings.from_dict({"sheets": SHEETS, "seeds": [{"file": str(path)}]}))
    assert caught.value.problems == [
        f'{path}:1:25: there is no sheet "smal"; did you mean "small"?',
        f'{path}:2:16: there is no sheet "x"',
    ]


def test_queues_by_address_are_not_known_before(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text("http://a.test/\tbudget=7\nhttp://a.test/2\tbudget=8\tqueue=q\nhttp://b.test/\n")
    data = {"frontier": {"queue_assignment_policy": "ip"}, "seeds": [{"file": str(path)}]}
    with pytest.raises(SettingsError, match=r"seeds\.txt:1:1: the queue of a seed depends on the address of its host"):
        with_seed_settings(Settings.from_dict(data))


@pytest.mark.parametrize(
    ("policy", "url", "key"),
    [
        ("ip", "http://192.0.2.1:8080/a", "192.0.2.1"),
        ("ip", "http://[2001:db8::1]/", "2001:db8::1"),
        ("bucket", "http://192.0.2.1/", "535"),
    ],
)
def test_the_queue_of_an_address_is_known(policy: str, url: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt"
    path.write_text(f"{url}\tbudget=7\tsheet=s\n")
    frontier = {"queue_assignment_policy": policy}
    for seed in ({"url": url, "budget": 7, "sheet": "s"}, {"file": str(path)}):
        settings = with_seed_settings(Settings.from_dict({"frontier": frontier, "sheets": {"s": {}}, "seeds": [seed]}))
        assert [(one.match, one.set) for one in settings.overrides] == [(f"queue:{key}", {"queue_total_budget": 7})]
        assert [one.match for one in settings.associations] == [(f"queue:{key}",)]


def test_domains_are_those_of_the_list_that_the_frontier_stores() -> None:
    settings = Settings.from_dict(
        {
            "frontier": {"queue_assignment_policy": "registered-domain"},
            "seeds": [{"url": "http://a.b.test/", "budget": 2}],
        }
    )
    assert with_seed_settings(settings).overrides[0].match == "queue:b.test"
    assert with_seed_settings(settings, "b.test\n*\n").overrides[0].match == "queue:a.b.test"


def test_the_budget_of_a_seed_ends_its_queue() -> None:
    settings = Settings.from_dict(
        {
            "frontier": {"politeness": {"min_delay": 0, "delay_factor": 0}, "retire_when": "reached"},
            "seeds": [{"url": "http://a.test/", "budget": 2, "label": "blogs"}, "http://b.test/"],
        }
    )
    with Frontier.open(":memory:", with_seed_settings(settings)) as f:
        f.schedule_many(scheduled_seeds(settings))
        links = [f"http://{host}.test/{n}" for host in "ab" for n in range(3)]
        done = []
        while leases := f.lease(1):
            done.append(leases[0].uri)
            f.finish(leases[0], discovered=links)
        assert [uri.url for uri in done if uri.url.startswith("http://a")] == ["http://a.test/", "http://a.test/0"]
        assert len(done) == 6 and all(uri.source == "blogs" for uri in done if uri.url != "http://b.test/")
        assert (queue := f.queue("a.test")) is not None and queue.state == "RETIRED"


def test_columns_are_those_of_values() -> None:
    assert parse_line("http://a.test/\t budget=5", of_seeds=True) == ListedUrl(
        "http://a.test/", 1, None, {"budget": SeedSetting(5, 17)}
    )
    assert Seed().budget is None
