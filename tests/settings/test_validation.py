"""Validation: all problems at once, each by its dotted name, with what to do about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.loader import load
from budgetfrontier.settings.overrides import validate_override
from tests.settings.files import Files, problems


def test_all_problems_are_reported_at_once_by_dotted_name() -> None:
    assert problems(
        {
            "frontier": {"hold_queues": "no", "retry": {"max_retries": 1.5}, "order": "LIFO"},
            "limits": {"max_time": "12:30", "max_bytes": "ten"},
            "fetch": [],
            "hooks": "watcher",
        }
    ) == [
        'frontier.hold_queues: expected true or false, got "no"; yes, no, on and off are texts here',
        "frontier.retry.max_retries: expected a whole number from 0 to 65535, got 1.5",
        'frontier.order: expected fifo or lifo, got "LIFO"; did you mean "lifo"?',
        'limits.max_time: expected a duration (seconds, or such as 500ms, 3s, 15m, "1h30m", 2d), got "12:30"',
        'limits.max_bytes: expected a size (bytes, or such as 64KiB, 10MB, 50GiB), got "ten"',
        "fetch: expected a mapping of settings, got a list",
        'hooks: expected module:name, got "watcher"',
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"hold_queues": True}, '"hold_queues" belongs under frontier:'),
        ({"queue-precedence": 1}, '"queue_precedence" belongs under frontier:'),
        ({"min_delay": 3}, '"min_delay" belongs under frontier.politeness:'),
        ({"frontier": {"max_retries": 3}}, 'frontier: "max_retries" belongs under frontier.retry:'),
        ({"frontier": {"seeds": []}}, 'frontier: "seeds" belongs at the top level'),
        ({"frontier": {"hold_queue": True}}, 'frontier: unknown key "hold_queue"; did you mean "hold_queues"?'),
        ({"pause_at_finnish": 1}, 'unknown key "pause_at_finnish"; did you mean "pause_at_finish", under frontier?'),
        ({"reports": {"no": 50}}, 'reports: unknown key "no"; known here: every'),
        ({"frontier": {"precedence": 1, "queue_precedence": 2}}, "frontier: this sets precedence a second time"),
        ({"frontier": {"hold_queues": True, "hold-queues": True}}, "frontier: this sets hold_queues a second time"),
        ({"seeds": [{"url": "http://a/", "file": "b"}]}, "seeds[0]: a seed has either a url or a file"),
        (
            {"frontier": {"politeness": {"min_delay": "1m"}}},
            "frontier.politeness: min_delay (1m) is longer than max_delay (30s)",
        ),
        (
            {"frontier": {"canonicalization": {"keep_params": ["a"], "ignore_params": "b"}}},
            "frontier.canonicalization: ignore_params and keep_params exclude each other; use one of them",
        ),
        (
            {"scope": {"accept": ["seed-host"]}},
            'scope.accept[0]: "seed-host" is not a scope rule; did you mean "seed-hosts"?',
        ),
        ({"crawl": "\ud800"}, r'crawl: expected text, got "\ud800"'),
        ({"overrides": [{"match": "*"}]}, "overrides[0]: expected {match: ..., set: {...}}, got the keys match"),
        (
            {"overrides": [{"match": "*", "set": {"min_delay": 1}}]},
            'overrides[0].set: unknown setting "min_delay"; did you mean "politeness.min_delay"?',
        ),
    ],
)
def test_messages_say_what_to_do(data: dict[str, Any], message: str) -> None:
    assert problems(data) == [message]


@pytest.mark.parametrize("data", [[], "text", 5, [["crawl", "x"]]])
def test_only_a_mapping_is_settings(data: Any) -> None:
    assert problems(data) == [f"from_dict takes a dict, not {type(data).__name__}; write from_yaml for a file"]


WORDS = st.sampled_from(
    [row.name.rpartition(".")[2] for row in all_settings(Settings)] + ["frontier", "politeness", "x", "match", "set"]
)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["3s", "domain:a", "wag"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(JUNK)
def test_any_data_is_read_or_refused_with_a_settings_error(data: Any) -> None:
    try:
        settings = Settings.from_dict(data)
    except SettingsError as error:
        assert error.problems
        assert all(error.problems)
    else:
        assert Settings.from_dict(settings.to_dict()) == settings


def test_no_more_than_a_hundred_problems_are_told(files: Files) -> None:
    problems = files.problems("seeds:\n" + "- 5\n" * 100)
    assert len(problems) == 100
    problems = files.problems("seeds:\n" + "- 5\n" * 5000)
    assert len(problems) == 101
    assert problems[-1] == "102:3: there are more problems from here on"


def test_all_problems_at_once_in_the_order_of_the_file(files: Files) -> None:
    text = """\
crawl: 5
hold_queues: true
frontier:
  hold_queues: no
  queue_total_budgt: 3
  retry: {delay: 12:30, max_retries: 010}
  cost_policy: wagg
overrides:
  - match: "exmaple.com"
    set: {hold_queues: true, queue_total_budget: lots}
frontier: {}
"""
    problems = files.problems(text)
    assert [problem.split(" ")[0] for problem in problems] == [
        "1:8:", "2:1:", "4:16:", "5:3:", "6:18:", "6:38:", "7:16:", "9:12:", "10:11:", "10:50:", "11:1:",
    ]  # fmt: skip
    assert problems[0] == "1:8: crawl: expected text, got 5, which needs quotes to be text"
    assert problems[1] == '2:1: "hold_queues" belongs under frontier:'
    assert problems[2].startswith('4:16: frontier.hold_queues: expected true or false, got "no"')
    assert problems[3] == '5:3: frontier: unknown key "queue_total_budgt"; did you mean "queue_total_budget"?'
    assert problems[7].endswith('did you mean "domain:exmaple.com"?')
    assert problems[10] == '11:1: "frontier" is repeated; first in line 3'


def test_an_override_may_list_queues(files: Files) -> None:
    text = "overrides: [{match: {queues: [a.test, 'org,b,']}, set: {precedence: 1}}]"
    assert files.settings(text).overrides[0].match == 'queues:["a.test","org,b,"]'
    assert "1:21: overrides[0].match: expected a match" in files.problems(text.replace("queues", "queue"))[0]


def test_an_override_whose_delays_contradict_each_other_is_a_problem(files: Files) -> None:
    text = "overrides: [{match: '*', set: {politeness: {min_delay: 60s}, politeness.max_delay: 5s}}]"
    assert files.problems(text) == ["1:31: overrides[0].set: min_delay (1m) is longer than max_delay (5s)"]
    with pytest.raises(SettingsError, match="longer than max_delay"):
        validate_override("*", {"politeness.min_delay": 60, "politeness.max_delay": 5})


def test_hooks_and_sinks_that_cannot_be_imported_have_a_position(files: Files) -> None:
    assert files.problems("hooks: ['no_such:Hook']\noutput: {sinks: ['os:no_such']}\n") == [
        "1:9: hooks[0]: no_such:Hook cannot be imported: ModuleNotFoundError: No module named 'no_such'; install it, "
        "or name its folder in the environment variable PYTHONPATH",
        "2:18: output.sinks[0]: os:no_such cannot be imported: AttributeError: module 'os' has no attribute 'no_such'",
    ]


GROUP = "groups: [{name: g, by: registered-domain, total_budget: 5}]"


@pytest.mark.parametrize(
    ("setting", "doubt"),
    [
        (
            "frontier: {group: {total_budget: 5}}",
            "frontier.group.total_budget: it has no effect, for no `groups`",
        ),
        (f"frontier: {{group: {{total_budget: 5}}}}\n{GROUP}", None),
        ("frontier: {star: {top: 7}}", "frontier.star: it has no effect, for no group has `total_budget: star`"),
        (f"frontier: {{star: {{top: 7}}}}\n{GROUP}", "frontier.star: it has no effect"),
        (f"frontier: {{star: {{top: 7}}}}\n{GROUP.replace('5', 'star')}", None),
        (
            "frontier: {precedence_floor: 3}",
            "frontier.precedence_floor: no queue is crawled: the precedence of all is 3",
        ),
        ("frontier: {precedence_floor: 4}", None),
        ("frontier: {precedence_floor: 3, precedence_policy: highest-uri}", None),
        ("frontier: {precedence_floor: 3}\noverrides: [{match: 'host:a.test', set: {precedence: 1}}]", None),
        ("frontier: {precedence_floor: 3}\nsheets: {a: {precedence: 1}}", None),
    ],
)
def test_settings_with_which_nothing_happens_are_warned_of(tmp_path: Path, setting: str, doubt: str | None) -> None:
    (tmp_path / "crawl.yaml").write_text(setting)
    warnings = load(tmp_path / "crawl.yaml", Settings())[1]
    assert (len(warnings) == 0) if doubt is None else (len(warnings) == 1 and doubt in warnings[0])


@pytest.mark.parametrize(
    ("setting", "doubt"),
    [
        (
            "frontier: {politeness: {min_delay: 3000}}",
            "3000 is 50m; write 3000ms if milliseconds are meant, else 3000s",
        ),
        ("frontier: {politeness: {max_delay: '30000'}}", "30000 is 8h20m; write 30000ms if"),
        ("frontier: {retry: {delay: 900000}}", "900000 is 10d10h; write 900000ms if milliseconds are meant"),
        ("frontier: {retry: {delay: 25h}}", "25h is more than a day"),
        ("fetch: {timeout: 20000}", "20000 is 5h33m; write 20000ms if milliseconds are meant"),
        ("limits: {max_bytes: 1}", "1 is 1 byte; write 1KB, 1MB or 1GB if those are meant, else 1B"),
        ("limits: {max_bytes: 10}", "10 is 10 bytes; write 10KB, 10MB or 10GB if those are meant, else 10B"),
        ("overrides: [{match: '*', set: {min_delay: 3000}}]", None),
        (
            "overrides: [{match: '*', set: {politeness: {min_delay: 3000, max_delay: 3000s}}}]",
            "3000 is 50m; write 3000ms if",
        ),
        ("frontier: {politeness: {min_delay: 3000s, max_delay: 3000s}}", None),
        ("frontier: {politeness: {min_delay: 20, max_delay: 120}}", None),
        ("frontier: {retry: {delay: 3600}}", None),
        ("frontier: {revisit: {after: 2592000}}", None),
        ("limits: {max_time: 864000, max_bytes: 1000000}", None),
        ("limits: {max_bytes: 10B}", None),
        ("fetch: {min_speed: 100}", None),
    ],
)
def test_values_that_look_like_milliseconds_or_lack_a_unit_are_warned_of(
    tmp_path: Path, setting: str, doubt: str | None
) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(setting)
    try:
        warnings = load(path, Settings())[1]
    except SettingsError as error:
        warnings = error.warnings
    assert len(warnings) == (doubt is not None)
    if doubt is not None:
        assert doubt in warnings[0] and re.match(re.escape(f"{path}:1:") + "[0-9]+: ", warnings[0])


@pytest.mark.parametrize(
    ("section", "name", "value"),
    [
        ("fetch", "max_header", 0),
        ("fetch", "max_header", "0KiB"),
        ("output", "warc_prefix", "../../x"),
        ("output", "warc_prefix", ".x"),
        ("output", "warc_prefix", "x" * 101),
    ],
)
def test_sizes_and_prefixes_that_can_only_be_mistakes(section: str, name: str, value: object) -> None:
    (problem,) = problems({section: {name: value}})
    assert problem.startswith(f"{section}.{name}: expected a ")


def test_duplicates_may_have_the_names_of_heritrix_s_classes(files: Files) -> None:
    for name, value in (("BdbUriUniqFilter", "exact"), ("org.archive.crawler.util.BloomUriUniqFilter", "bloom")):
        assert Settings.from_dict({"frontier": {"duplicates": name}}).frontier.duplicates == value
    (found,) = files.problems("frontier:\n  duplicates: MemUriUniqFilter\n")
    assert 'expected exact or bloom or noop, got "MemUriUniqFilter"' in found


@pytest.mark.parametrize("way", ["bloom", "noop"])
def test_kept_urls_are_exact(files: Files, way: str) -> None:
    yaml = f"frontier:\n  keep_urls: true\n  duplicates: {way}\n"
    (found,) = files.problems(yaml)
    assert found.startswith("2:3: frontier: keep_urls records every URL with its state"), found


def test_a_crawl_in_partitions_has_no_filter(files: Files) -> None:
    (found,) = files.problems("cluster:\n  kafka: localhost:9092\nfrontier:\n  duplicates: bloom\n")
    assert "a crawl in partitions cannot have a Bloom filter" in found


@pytest.mark.parametrize("error", ["0", "1", "-1", "x"])
def test_the_error_is_between_0_and_1(files: Files, error: str) -> None:
    (found,) = files.problems(f"frontier:\n  bloom:\n    error: {error}\n")
    assert found.startswith("3:") and "expected a number above 0 and below 1" in found
