"""Strict YAML: what is wrong and where; no surprises of YAML 1.1."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier.errors import SettingsError
from budgetfrontier.settings import Settings
from budgetfrontier.settings.document import Document
from tests.settings.files import Files


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: the file is empty"),
        ("# nothing\n\n", "1:1: the file is empty"),
        ("---\n", "1:1: the file is empty"),
        ("- a\n- b\n", "1:1: expected a mapping of settings, got a list"),
        ("just words\n", '1:1: expected a mapping of settings, got "just words"'),
        ("frontier:\n\thold_queues: true\n", "2:1: a tab; YAML is indented with spaces"),
        ("crawl: a\n\tb: c\n", "2:1: a tab; YAML is indented with spaces"),
        (b"\x89PNG\r\n\x1a\n\x00", "1:1: byte 0x89 is not UTF-8; is this a text file?"),
        (b"crawl: a\n\xff", "2:1: byte 0xff is not UTF-8; is this a text file?"),
        (b"crawl: a\nseeds: \x00", "2:8: character U+0000 is not text; is this a text file?"),
        ("crawl: a\n---\ncrawl: b\n", "2:1: a second document starts here; a file may have only one"),
        (
            "seeds:\n  - http://a.test/\n  -https://c/\n",
            "3:3: this is not YAML: while scanning a simple key, could not find expected ':'",
        ),
        ("crawl: [a\n", "1:8: this is not YAML: while parsing a flow sequence, did not find expected ',' or ']'"),
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


def test_no_is_a_top_level_domain(files: Files) -> None:
    settings = files.settings("crawl: no\nfetch:\n  resolve: {no: '127.0.0.1:80'}\n")
    assert settings.crawl == "no"
    assert settings.fetch.resolve == {"no": "127.0.0.1:80"}


def test_quoted_scalars_are_texts(files: Files) -> None:
    assert files.settings("crawl: '2026'").crawl == "2026"
    assert files.settings('crawl: "true"').crawl == "true"
    assert files.settings("crawl: |\n  two\n  lines\n").crawl == "two\nlines\n"


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


def test_a_file_without_end_is_no_problem() -> None:
    with pytest.raises(SettingsError, match="larger than 16 MiB"):
        Settings.from_yaml("/dev/zero")


def test_each_repetition_of_a_key_is_told_where_it_is(files: Files) -> None:
    problems = files.problems("crawl: a\n" * 3)
    assert [problem.split(" ")[0] for problem in problems] == ["2:1:", "3:1:"]


def test_a_value_that_holds_itself_is_refused(files: Files) -> None:
    assert any("*a refers to nothing" in problem for problem in files.problems("seeds: &a [*a]\n"))


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
