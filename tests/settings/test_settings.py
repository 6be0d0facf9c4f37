"""The schema: every setting documented, defaults as the seed has them, all problems at once, a faithful round trip."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.resources import files
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlState, Frontier, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.document import Document
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.profiles import profiles
from budgetfrontier.settings.schema import Override, Seed
from budgetfrontier.settings.validation import profile
from budgetfrontier.settings.values import read_duration, read_size
from tests.support import crawl, pages


def problems(data: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        Settings.from_dict(data)
    return caught.value.problems


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


def test_every_setting_has_one_line_of_documentation() -> None:
    rows = all_settings(Settings)
    assert len({row.name for row in rows}) == len(rows) > 50
    for row in rows:
        assert row.doc and "\n" not in row.doc and len(row.doc) < 100, row.name
        assert row.type, row.name


def test_the_settings_that_hold_per_uri_are_marked() -> None:
    per_uri = {row.name.removeprefix("frontier.") for row in all_settings(Settings) if row.overridable}
    assert {"balance_replenish_amount", "queue_total_budget", "cost_policy", "politeness.min_delay"} <= per_uri
    assert {"retry.delay", "precedence", "order", "max_queue_size"} <= per_uri
    assert not {"hold_queues", "pause_at_finish", "queue_assignment_policy", "lease_ttl"} & per_uri


def test_default_yaml_holds_every_setting_with_its_default_and_documentation() -> None:
    raw = files("budgetfrontier").joinpath("profiles", "default.yaml").read_bytes()
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


def flatten(data: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    leaves = {"fetch.resolve"}
    rows: list[tuple[str, Any]] = []
    for key, value in data.items():
        name = prefix + key
        rows += flatten(value, name + ".") if isinstance(value, dict) and name not in leaves else [(name, value)]
    return rows


def test_every_profile_is_valid_and_documented() -> None:
    assert {"default", "demo", "round-robin", "site-first", "budgeted-rotation", "capped"} == set(profiles())
    for name in profiles():
        assert isinstance(profile(name, Settings()), Settings)
        assert files("budgetfrontier").joinpath("profiles", f"{name}.yaml").read_text().startswith("# ")


def test_profiles_set_what_the_usage_scenarios_say() -> None:
    robin, site, rotation, capped = (
        profile(name, Settings()).frontier for name in ("round-robin", "site-first", "budgeted-rotation", "capped")
    )
    assert (robin.hold_queues, robin.cost_policy) == (False, "zero")
    assert (site.hold_queues, site.cost_policy) == (True, "zero")
    assert (rotation.hold_queues, rotation.cost_policy, rotation.queue_total_budget) == (True, "unit", -1)
    assert capped.queue_total_budget > 0
    assert capped.pause_at_finish


def test_own_keys_win_over_the_profile() -> None:
    settings = Settings.from_dict({"profile": "capped", "frontier": {"queue-total-budget": 7}})
    assert settings.frontier.queue_total_budget == 7
    assert settings.frontier.pause_at_finish is True
    assert problems({"profile": "caped"}) == ['profile: there is no profile "caped"; did you mean "capped"?']
    assert problems({"profile": "../config/capped"})[0].startswith("profile: there is no profile")
    assert problems({"profile": 3}) == ["profile: expected the name of a profile, got 3"]


FULL: dict[str, Any] = {
    "crawl": "news-2026",
    "seeds": ["https://www.example.org/", {"url": "https://www.example.net/", "priority": 10}, {"file": "seeds.txt"}],
    "scope": {"accept": ["seed-hosts"], "reject": [r"regex:\.(zip|exe)$"], "max_hops": 20},
    "frontier": {
        "hold-queues": False,
        "cost_policy": "wag",
        "politeness": {"min-delay": "500ms"},
        "retry": {"delay": "15m", "scope": "uri"},
    },
    "overrides": [{"match": "domain:example.com", "set": {"queue_total_budget": 100, "retry": {"delay": "1h"}}}],
    "fetch": {"user_agent": "Bot/1.0 (+https://example.org/bot)", "resolve": {"*.test": "127.0.0.1:8080"}},
    "output": {"warc": True, "links": "jsonl"},
    "limits": {"max_uris": 1000000, "max_time": "12h", "max_bytes": "50GiB"},
    "reports": {"every": "5m"},
    "hooks": ["mine.hooks:Watcher"],
}


def test_a_full_configuration_is_read() -> None:
    settings = Settings.from_dict(FULL)
    assert settings.seeds[1] == Seed(url="https://www.example.net/", priority=10)
    assert settings.seeds[2].file == "seeds.txt"
    assert settings.frontier.politeness.min_delay == 0.5
    assert settings.overrides == (
        Override(match="domain:example.com", set={"queue_total_budget": 100, "retry.delay": 3600.0}),
    )
    assert settings.limits.max_bytes == 50 * 1024**3
    assert settings.fetch.resolve == {"*.test": "127.0.0.1:8080"}
    assert settings.output.warc is True


def test_to_dict_is_json_and_round_trips() -> None:
    for settings in (Settings(), Settings.from_dict(FULL), profile("demo", Settings())):
        plain = settings.to_dict()
        assert json.loads(json.dumps(plain)) == plain
        assert Settings.from_dict(plain) == settings


def test_settings_are_frozen() -> None:
    with pytest.raises(AttributeError):
        Settings().crawl = "other"  # type: ignore[misc]


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
        'frontier.order: expected fifo or lifo, got "LIFO"',
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
            "frontier.politeness: min_delay (60 s) is longer than max_delay (30 s)",
        ),
        (
            {"frontier": {"canonicalization": {"keep_params": ["a"], "ignore_params": "b"}}},
            "frontier.canonicalization: ignore_params and keep_params exclude each other; use one of them",
        ),
        (
            {"scope": {"accept": ["seed-host"]}},
            'scope.accept[0]: "seed-host" is no scope rule; did you mean "seed-hosts"?',
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


def test_aliases_and_the_bounds_of_precedence() -> None:
    for name in ("precedence", "queue_precedence", "base-precedence"):
        assert Settings.from_dict({"frontier": {name: 65535}}).frontier.precedence == 65535
        assert len(problems({"frontier": {name: 65536}})) == len(problems({"frontier": {name: -1}})) == 1
    assert Settings.from_dict({"frontier": {"pause-on-finish": True}}).frontier.pause_at_finish


def test_policies_are_looked_up() -> None:
    settings = Settings.from_dict(
        {"frontier": {"cost_policy": "org.archive.crawler.frontier.ZeroCostAssignmentPolicy"}}
    )
    assert settings.frontier.cost_policy.endswith("ZeroCostAssignmentPolicy")
    [problem] = problems({"frontier": {"cost-policy": "wagg"}})
    assert problem.startswith("frontier.cost-policy: ")
    assert "wag" in problem and "unit" in problem
    assert problems({"frontier": {"cost_policy": 5}})[0].startswith("frontier.cost_policy: expected a cost policy")
    [problem] = problems({"frontier": {"cost_policy": {"unit": {"rate": 3}}}})
    assert "rate" in problem


def test_modules_of_stored_settings_are_not_imported() -> None:
    spec = "module_that_is_not_here:policy"
    assert Settings.from_dict({"frontier": {"cost_policy": spec}}).frontier.cost_policy == spec
    assert problems({"frontier": {"cost_policy": "module_that_is_not_here:"}})


@pytest.mark.parametrize("data", [[], "text", 5, [["crawl", "x"]]])
def test_only_a_mapping_is_settings(data: Any) -> None:
    assert problems(data)[0].startswith("expected a mapping of settings, got ")


def test_robots_is_obeyed_or_ignored_in_so_many_words() -> None:
    assert Settings.from_dict({"fetch": {"robots": "ignore"}}).fetch.robots == "ignore"
    assert problems({"fetch": {"robots": False}}) == ["fetch.robots: expected true or ignore, got false"]


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost:80", "127.0.0.1:0", "127.0.0.1:70000", "::1:80", 80, None])
def test_resolve_takes_addresses_with_a_port(address: Any) -> None:
    assert problems({"fetch": {"resolve": {"*.test": address}}})[0].startswith(
        'fetch.resolve.*.test: expected "ip:port"'
    )
    assert Settings.from_dict({"fetch": {"resolve": {"A.test": "[::1]:80"}}}).fetch.resolve == {"a.test": "[::1]:80"}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(0, 0.0), (3, 3.0), (0.5, 0.5), ("90", 90.0), ("500ms", 0.5), ("3s", 3.0), ("15m", 900.0), ("1h30m", 5400.0),
     ("1h 30m", 5400.0), ("1.5h", 5400.0), ("2d", 172800.0), ("1w", 604800.0), (" 3s ", 3.0), ("2H", 7200.0)],
)  # fmt: skip
def test_durations(text: str | float, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "3x", "1h30", "12:30", "010", "-1", -1, True, None, [], "1e3", "m3", "3s,", "20y", 1e12, "٣s"],
)
def test_what_is_no_duration(text: Any) -> None:
    with pytest.raises(ValueError):
        read_duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [(0, 0), (512, 512), ("512", 512), ("1KiB", 1024), ("10MB", 10**7), ("10 mb", 10_000_000), ("1.5GiB", 1610612736),
     ("50GiB", 50 * 1024**3), ("2TiB", 2 * 1024**4), ("7B", 7)],
)  # fmt: skip
def test_sizes(text: str | int, count: int) -> None:
    assert read_size(text) == count


@pytest.mark.parametrize("text", ["", "10M", "x", "-1", -1, True, None, "1PB", "0x10", 1e18])
def test_what_is_no_size(text: Any) -> None:
    with pytest.raises(ValueError):
        read_size(text)


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


def test_importing_settings_imports_neither_yaml_nor_policies() -> None:
    code = "import sys, budgetfrontier.settings.overrides; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "budgetfrontier.settings.overrides" in run.stdout.split()
    assert not {"yaml", "tldextract", "budgetfrontier.policies.cost"} & set(run.stdout.split())


def test_sections_are_structs_that_can_be_replaced() -> None:
    settings = Settings()
    frontier = msgspec.structs.replace(settings.frontier, queue_total_budget=5)
    assert msgspec.structs.replace(settings, frontier=frontier).frontier.queue_total_budget == 5


def by_profile(name: str, **frontier: Any) -> Frontier:
    """A frontier in memory under a profile, changed as given, without delays."""
    frontier["politeness"] = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}
    settings = Settings.from_dict({"profile": name, "frontier": frontier})
    return Frontier.open(":memory:", settings, clock=ManualClock(1e6))


def test_round_robin_all_queues_begin_active_and_take_turns() -> None:
    with by_profile("round-robin") as frontier:
        frontier.schedule_many(pages("abc", 3))
        assert frontier.summary().queues["INACTIVE"] == 0
        assert crawl(frontier) == "ABCABCABC"


def test_site_first_works_one_queue_through_before_the_next() -> None:
    with by_profile("site-first", balance_replenish_amount=2) as frontier:
        frontier.schedule_many(pages("abc", 5))
        assert frontier.summary().queues["INACTIVE"] == 3
        assert crawl(frontier, 7) == "AAAAABB"
        # A site without end keeps the others waiting: the risk that the seed warns of.
        frontier.schedule_many(pages("b", 100, first=5))
        assert crawl(frontier, 50) == "B" * 50
        assert crawl(frontier)[-5:] == "CCCCC"


def test_site_first_activates_a_new_queue_only_to_keep_workers_busy() -> None:
    with by_profile("site-first") as frontier:
        frontier.schedule_many(pages("abc", 2))
        assert [lease.queue for lease in frontier.lease(2)] == ["a.test", "b.test"]
        assert frontier.summary().queues["INACTIVE"] == 1


def test_budgeted_rotation_makes_room_once_the_balance_is_spent() -> None:
    with by_profile("budgeted-rotation", balance_replenish_amount=3) as frontier:
        frontier.schedule_many(pages("ab", 5))
        assert crawl(frontier) == "AAABBBAABB"
    with by_profile("budgeted-rotation", balance_replenish_amount=1) as frontier:
        frontier.schedule_many(pages("ab", 3))
        assert crawl(frontier) == "ABABAB"  # the degenerate value: nearly round-robin


def test_budgeted_rotation_gives_costly_queues_less_time() -> None:
    with by_profile("budgeted-rotation", balance_replenish_amount=4, cost_policy="wag") as frontier:
        frontier.schedule_many([f"https://a.test/?page={n}" for n in range(4)] + pages("b", 8))
        assert crawl(frontier) == "AABBBBAABBBB"


def test_capped_retires_over_budget_pauses_at_finish_and_goes_on_when_the_budget_is_raised() -> None:
    with by_profile("capped", queue_total_budget=5) as frontier:
        frontier.schedule_many(pages("a", 9) + pages("b", 2))
        assert crawl(frontier) == "AAAAAABB"
        record = frontier.queue("a.test")
        assert record is not None and (record.state, record.queued) == (QueueState.RETIRED, 3)
        assert (frontier.state, frontier.summary().pause_reason) == (CrawlState.PAUSED, "finish")
        assert frontier.summary().queued == 0
        frontier.adjust(match="host:a.test", queue_total_budget=7, reason="worth a little more")
        frontier.resume()
        assert crawl(frontier) == "AA"
        assert frontier.state is CrawlState.PAUSED
