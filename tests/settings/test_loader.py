"""Strict YAML: what is wrong and where, all at once; no surprises of YAML 1.1."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.document import Document
from budgetfrontier.settings.loader import load, parse_value
from budgetfrontier.settings.overrides import validate_override
from budgetfrontier.settings.schema import Seed
from budgetfrontier.settings.values import plain


class Files:
    """Writes YAML, reads it back as settings or as problems without the file's name."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "crawl.yaml"

    def settings(self, text: str | bytes) -> Settings:
        self.path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Settings.from_yaml(self.path)

    def problems(self, text: str | bytes) -> list[str]:
        with pytest.raises(SettingsError) as caught:
            self.settings(text)
        assert all(problem.startswith(f"{self.path}:") for problem in caught.value.problems)
        return [problem.removeprefix(f"{self.path}:") for problem in caught.value.problems]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


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


def test_kebab_case_means_the_same(files: Files) -> None:
    kebab = files.settings("frontier:\n  hold-queues: false\n  queue-total-budget: 5\n  cost-policy: zero\n")
    assert kebab == files.settings("frontier:\n  hold_queues: false\n  queue_total_budget: 5\n  cost_policy: zero\n")


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


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: the file is empty; expected a mapping of settings"),
        ("# nothing\n\n", "1:1: the file is empty; expected a mapping of settings"),
        ("---\n", "1:1: the file is empty; expected a mapping of settings"),
        ("- a\n- b\n", "1:1: expected a mapping of settings, got a list"),
        ("just words\n", '1:1: expected a mapping of settings, got "just words"'),
        ("frontier:\n\thold_queues: true\n", "2:1: a tab; YAML is indented with spaces"),
        ("crawl: a\n\tb: c\n", "2:1: a tab; YAML is indented with spaces"),
        (b"\x89PNG\r\n\x1a\n\x00", "1:1: byte 0x89 is not UTF-8; is this a text file?"),
        (b"crawl: a\n\xff", "2:1: byte 0xff is not UTF-8; is this a text file?"),
        (b"crawl: a\nseeds: \x00", "2:8: character U+0000 is not text; is this a text file?"),
        ("crawl: a\n---\ncrawl: b\n", "2:1: a second document starts here; a file may have only one"),
        ("crawl: a: b\n", "1:9: this is not YAML: mapping values are not allowed in this context"),
        ("reports: {no: 50}\n", '1:11: reports: unknown key "no"; known here: every'),
        ("reports: {every: 5m, every: 6m}\n", '1:22: reports: "every" is repeated; first in line 1'),
        ("crawl: !!str 5\n", "1:8: crawl: tags such as tag:yaml.org,2002:str are not supported; remove it"),
        ("crawl: *name\n", "1:8: crawl: *name refers to nothing: no &name ends before it"),
        ("? [a]\n: b\n", "1:3: ?: a key must be a word"),
        ("[" * 100_000, "1:52: nested more than 50 deep"),
        (
            "frontier: {lease_ttl: 0}\n",
            "1:23: frontier.lease_ttl: expected a duration above 0 (seconds, or such as 500ms, 3s, 15m,"
            ' "1h30m", 2d), got 0',
        ),
    ],
)
def test_bad_files(files: Files, text: str | bytes, problem: str) -> None:
    assert problem in files.problems(text)


def test_only_true_and_false_are_booleans(files: Files) -> None:
    for text, value in (("true", True), ("false", False), ("True", True), ("FALSE", False)):
        assert files.settings(f"frontier: {{hold_queues: {text}}}").frontier.hold_queues is value
    for text in ("yes", "no", "on", "off", "y", "n", "Yes", "1", '"true"', "~"):
        assert len(files.problems(f"frontier: {{hold_queues: {text}}}")) == 1


def test_no_is_a_top_level_domain(files: Files) -> None:
    settings = files.settings("crawl: no\nfetch:\n  resolve: {no: '127.0.0.1:80'}\n")
    assert settings.crawl == "no"
    assert settings.fetch.resolve == {"no": "127.0.0.1:80"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3000", 3000), ("-1", -1), ("+5", 5), ("0", 0), ("5.0", 5.0), (".5", 0.5), ("1e3", 1000.0), ("1.5E-2", 0.015),
        ("010", "010"), ("0x10", "0x10"), ("0o10", "0o10"), ("12:30", "12:30"), ("1_000", "1_000"), ("no", "no"),
        ("2026-11-20", "2026-11-20"), (".inf", ".inf"), ("1.2.3", "1.2.3"), ("=", "="), ("<<", "<<"), ("", None),
        ("~", None), ("null", None), ("true", True), ("tRue", "tRue"), ("٣", "٣"), ("-", "-"), (".", "."), ("e3", "e3"),
    ],
)  # fmt: skip
def test_plain_scalars(text: str, value: Any) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


def test_numbers_are_read_sanely(files: Files) -> None:
    assert files.settings("limits: {max_uris: 1e6}").limits.max_uris == 1_000_000
    for number in ("010", "1_000", "0x10", "1.5", "12:30", "1e400", "9" * 5000, '"5"'):
        [problem] = files.problems(f"limits: {{max_uris: {number}}}")
        assert problem.startswith("1:20: limits.max_uris: expected a whole number of at least 0, got ")
        assert len(problem) < 200


def test_quoted_scalars_are_texts(files: Files) -> None:
    assert files.settings("crawl: '2026'").crawl == "2026"
    assert files.settings('crawl: "true"').crawl == "true"
    assert files.settings("crawl: |\n  two\n  lines\n").crawl == "two\nlines\n"


def test_an_empty_section_changes_nothing(files: Files) -> None:
    assert files.settings("frontier:\nseeds:\noverrides:\nhooks:\n") == Settings()


def test_a_byte_order_mark_and_dos_lines_are_no_problem(files: Files) -> None:
    assert files.settings(b"\xef\xbb\xbfcrawl: a\r\nreports:\r\n  every: 1m\r\n").reports.every == 60.0


def test_anchors_share_a_value(files: Files) -> None:
    text = """\
overrides:
  - {match: "domain:example.com", set: &generous {queue_total_budget: 100}}
  - {match: "domain:example.org", set: *generous}
"""
    first, second = files.settings(text).overrides
    assert first.set == second.set == {"queue_total_budget": 100}


def test_problems_in_a_shared_value_are_reported_where_it_is_used(files: Files) -> None:
    text = "overrides:\n- {match: '*', set: &s {order: x}}\n- {match: '*', set: *s}\n"
    assert [problem.split(" ")[0] for problem in files.problems(text)] == ["2:32:", "3:21:"]


def test_aliases_cannot_unfold_to_gigabytes(files: Files) -> None:
    levels = "".join(f"  - &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    problems = files.problems(f"seeds:\n  - &a0 [x]\n{levels}")
    assert any("&a1 may not contain an alias itself" in problem for problem in problems)


LARGE = {
    "values": "seeds: [" + "a," * 600_000 + "]",
    "values that an alias stands for": "seeds:\n- &a [" + "b," * 6000 + "]\n" + "- *a\n" * 100,
    "keys": "\n".join(f"key{n}: 1" for n in range(20_000)),
    "problems": "seeds: [" + "5," * 20_000 + "]",
    "problems of the form": "? [a]\n: b\n" * 1000,
    "unknown settings, again and again": "overrides:\n- {match: '*', set: &a {"
    + ", ".join(f"key{n}: 1" for n in range(1000))
    + "}}\n"
    + "- {match: '*', set: *a}\n" * 200,
    "directives": "".join(f"%TAG !{n}! tag:x\n" for n in range(100_000)) + "---\ncrawl: a\n",
    "a name": f"{{? {'a' * 1_000_000} : 1}}",
    "a policy": f"frontier: {{cost_policy: {'a' * 1_000_000}}}",
    "a module": f"frontier: {{cost_policy: '{'a.' * 100_000}a:x'}}",
    "a duration": f"reports: {{every: '{'1h' * 500_000} '}}",
    "a pattern": f"overrides:\n- match: 'host:{'*a' * 1_000_000}'\n  set: {{}}\n",
    "a regular expression": f"overrides:\n- match: 'regex:{'(' * 50_000}'\n  set: {{}}\n",
    "no match": f"overrides:\n- match: '{'a.' * 500_000}'\n  set: {{}}\n",
    "an anchor": f"seeds: [*{'a' * 1_000_000}]",
    "a file": f"seeds: {{file: {'a' * 5000}}}",
    "everything": "crawl: a " + "#" * (17 << 20),
}


@pytest.mark.parametrize("what", LARGE)
def test_what_is_very_large_is_refused_in_few_words(files: Files, what: str) -> None:
    problems = files.problems(LARGE[what])
    assert 1 <= len(problems) <= 101
    assert all(re.match(r"\d+:\d+: ", problem) and len(problem) < 6000 for problem in problems)


def test_no_more_than_a_hundred_problems_are_told(files: Files) -> None:
    problems = files.problems("seeds:\n" + "- 5\n" * 100)
    assert len(problems) == 100
    problems = files.problems("seeds:\n" + "- 5\n" * 5000)
    assert len(problems) == 101
    assert problems[-1] == "102:3: there are more problems from here on"


def test_a_file_without_end_is_no_problem() -> None:
    with pytest.raises(SettingsError, match="larger than 16 MiB"):
        Settings.from_yaml("/dev/zero")


def test_each_repetition_of_a_key_is_told_where_it_is(files: Files) -> None:
    problems = files.problems("crawl: a\n" * 3)
    assert [problem.split(" ")[0] for problem in problems] == ["2:1:", "3:1:"]


def test_a_value_that_holds_itself_is_refused(files: Files) -> None:
    assert any("*a refers to nothing" in problem for problem in files.problems("seeds: &a [*a]\n"))


def test_files_are_relative_to_the_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "deep"
    folder.mkdir()
    (folder / "seeds.txt").write_text("https://example.org/\n")
    (folder / "crawl.yaml").write_text("seeds: {file: seeds.txt}\n")
    monkeypatch.chdir(tmp_path)
    assert Settings.from_yaml("deep/crawl.yaml").seeds == (Seed(file=str(folder / "seeds.txt")),)


def test_a_missing_file_is_a_problem_of_its_own(files: Files, tmp_path: Path) -> None:
    missing = tmp_path / "none.txt"
    assert files.problems("seeds:\n  - {file: none.txt}\nfrontier:\n  suffix_list: none.txt\n") == [
        f'2:12: seeds[0].file: there is no file "{missing}"',
        f'4:16: frontier.suffix_list: there is no file "{missing}"',
    ]


@pytest.mark.parametrize("name", ["none.yaml", ".", "a\0b"])
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        Settings.from_yaml(tmp_path / name)


def test_profile_from_yaml(files: Files) -> None:
    settings = files.settings("profile: round-robin\nfrontier: {cost_policy: unit}\n")
    assert (settings.frontier.hold_queues, settings.frontier.cost_policy) == (False, "unit")
    assert files.problems("crawl: a\nprofile: site-frist\n") == [
        '2:10: profile: there is no profile "site-frist"; did you mean "site-first"?'
    ]


def test_a_policy_of_ones_own_is_imported(files: Files) -> None:
    [problem] = files.problems("frontier:\n  cost_policy: module_that_is_not_here:policy\n")
    assert problem.startswith("2:16: frontier.cost_policy: ")
    assert "module_that_is_not_here" in problem


def test_values_of_the_command_line() -> None:
    assert parse_value("3000") == 3000
    assert parse_value("3s") == "3s"
    assert parse_value("{additive: {rules: []}}") == {"additive": {"rules": []}}
    with pytest.raises(SettingsError):
        parse_value("[1, 2")


@given(st.text() | st.text(alphabet="ab:-[]{}&*!?|>'\"#%@,\n \t0"))
def test_any_text_is_read_or_refused_with_a_position(text: str) -> None:
    document = Document(text.encode("utf-8", "surrogatepass"))
    for problem in document.problems:
        line, column = document.position(problem)
        assert line >= 1 and column >= 1
    assert document.whole or document.problems


@given(st.binary())
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    document = Document(raw)
    assert document.whole or document.problems


@pytest.mark.parametrize(
    ("setting", "doubt"),
    [
        (
            "frontier: {politeness: {min_delay: 3000}}",
            "3000 is 50m; write 3000ms if milliseconds are meant, else 3000s",
        ),
        ("frontier: {politeness: {max_delay: '30000'}}", "30000 is 8h 20m; write 30000ms if"),
        ("frontier: {retry: {delay: 900000}}", "900000 is 10d 10h; write 900000ms if milliseconds are meant"),
        ("frontier: {retry: {delay: 25h}}", "25h is more than a day"),
        ("fetch: {timeout: 20000}", "20000 is 5h 33m; write 20000ms if milliseconds are meant"),
        ("limits: {max_bytes: 10}", "10 is 10 bytes; write 10MB or 10GB if those are meant, else 10B"),
        ("overrides: [{match: '*', set: {min_delay: 3000}}]", None),
        ("overrides: [{match: '*', set: {politeness: {min_delay: 3000}}}]", "3000 is 50m; write 3000ms if"),
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
    ("seed", "problem"),
    [
        ("example.org", '1:9: seeds[0]: "example.org" has no scheme; did you mean "https://example.org"?'),
        ("localhost:8000", '1:9: seeds[0]: "localhost:8000" has no scheme; did you mean "https://localhost:8000"?'),
        ("{url: no such}", '1:15: seeds[0].url: "no such" cannot be crawled: scheme: none'),
        ("ftp://a.test/", '1:9: seeds[0]: "ftp://a.test/" cannot be crawled: scheme: ftp'),
    ],
)
def test_seeds_that_are_no_urls_have_a_position(files: Files, seed: str, problem: str) -> None:
    assert files.problems(f"seeds: [{seed}]") == [problem]


def test_hooks_and_sinks_that_cannot_be_imported_have_a_position(files: Files) -> None:
    assert files.problems("hooks: ['no_such:Hook']\noutput: {sinks: ['os:no_such']}\n") == [
        "1:9: hooks[0]: no_such:Hook cannot be imported: ModuleNotFoundError: No module named 'no_such'",
        "2:18: output.sinks[0]: os:no_such cannot be imported: AttributeError: module 'os' has no attribute 'no_such'",
    ]


def test_an_override_whose_delays_contradict_each_other_is_a_problem(files: Files) -> None:
    text = "overrides: [{match: '*', set: {politeness: {min_delay: 60s}, politeness.max_delay: 5s}}]"
    assert files.problems(text) == ["1:31: overrides[0].set: min_delay (60 s) is longer than max_delay (5 s)"]
    with pytest.raises(SettingsError, match="longer than max_delay"):
        validate_override("*", {"politeness.min_delay": 60, "politeness.max_delay": 5})


def test_all_that_is_wrong_with_requests_and_the_proxy_is_told_with_its_place(files: Files) -> None:
    files.path.write_text(
        "fetch:\n"
        "  proxy: socks5://proxy:1080\n"
        "  requests:\n"
        "    - headers: {X-A: '${TEST_A}${TEST_B}', X-Set: '${TEST_SET}'}\n"
        "      auth: '${TEST_SET}'\n"
        "    - cookies: {a: 'b;c', 'd e': f}\n"
        "  concurrency: many\n"
    )
    with pytest.raises(SettingsError) as caught:
        load(files.path, Settings(), environment={"TEST_SET": "value"})
    assert [problem.removeprefix(f"{files.path}:") for problem in caught.value.problems] == [
        "2:10: fetch.proxy: expected an HTTP proxy, such as http://proxy:3128",
        "4:22: fetch.requests[0].headers.X-A: the environment variable TEST_A is not set",
        "4:22: fetch.requests[0].headers.X-A: the environment variable TEST_B is not set",
        "5:13: fetch.requests[0].auth: expected user:password",
        "6:20: fetch.requests[1].cookies.a: a cookie's value cannot contain a semicolon",
        '6:27: fetch.requests[1].cookies: "d e" cannot be a name in a header',
        '7:16: fetch.concurrency: expected a whole number from 1 to 10000, got "many"',
    ]


def test_without_a_crawl_no_variable_needs_to_be_set(files: Files) -> None:
    files.path.write_text("fetch: {proxy: '${TEST_A}', requests: [{auth: '${TEST_B}'}]}\n")
    assert Settings.from_yaml(files.path).fetch.proxy == "${TEST_A}"
