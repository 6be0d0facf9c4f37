"""Fuzzed: configuration files. Each is read, or every problem has its file, line and column."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import strategies as st

from budgetfrontier import Settings
from budgetfrontier.errors import PolicyError, SettingsError
from budgetfrontier.settings import plugins
from budgetfrontier.settings.field import all_settings
from budgetfrontier.settings.loader import parse_value
from tests.fuzz.target import Target
from tests.fuzz.urls import SHARED_MEMORY

FIELDS = sorted({part for row in all_settings(Settings) for part in row.name.split(".")})
WORDS = (
    "true", "no", "~", "null", "", "3", "-1", "010", "1e9", ".inf", "3s", "1h30m", "50GiB", "wag", "additive",
    "seed-hosts", "https://a.test/", "domain:a.test", "regex:(", "surt:(test,", "queue:[", "module:name", "a.b:c.d",
    "seeds.txt", "127.0.0.1:80", "[::1]:8080", "capped", "ü", "\ud800", "\0", "\ufeff", "\x85", "\u2028", "a" * 300,
    "9" * 40,
)  # fmt: skip
SNIPPETS = (
    "frontier:", "overrides:", "seeds:", "- ", "  ", "\n", "\r", "\t", ": ", "? ", "{", "}", "[", "]", ", ", "&a ",
    "*a", "*b",
    "!!str ", "!x ", "!<", "%TAG ! x\n", "%YAML 1.2\n", "---\n", "...\n", "|\n", ">-\n", "'", '"', "\\x", "#",
    "<<: ", "match: ", "set: ", "cost_policy: ", "rules: ", "when: ", "profile: ",
)  # fmt: skip
LINE = re.compile(r":[1-9]\d*:[1-9]\d*: ")

values = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*FIELDS, "match", "set")), inner, max_size=3)
    ),
    max_leaves=12,
)
sections = st.dictionaries(
    st.sampled_from(FIELDS), st.dictionaries(st.sampled_from(FIELDS), values, max_size=3) | values
)
pieces = st.lists(st.sampled_from(SNIPPETS + WORDS) | st.sampled_from(FIELDS), max_size=25).map("".join)
texts = st.one_of(
    sections.map(json.dumps),
    pieces,
    st.builds("{}\n{}".format, pieces, st.text(max_size=20)),
    st.builds("{}: {}".format, st.sampled_from(FIELDS), pieces),
)
files = st.one_of(
    texts.map(lambda text: text.encode("utf-8", "surrogatepass")),
    texts.map(lambda text: text.encode("utf-16", "surrogatepass")),
    st.binary(),
)


def check_file(raw: bytes) -> None:
    """Settings that survive being stored, or problems with a place."""
    with (
        tempfile.TemporaryDirectory(dir=SHARED_MEMORY, prefix="fuzz-") as folder,
        mock.patch.object(plugins, "_load", side_effect=PolicyError("nothing is imported here")),
    ):
        path = Path(folder, "crawl.yaml")
        path.write_bytes(raw)
        try:
            settings = Settings.from_yaml(path)
        except SettingsError as error:
            assert 1 <= len(error.problems) <= 101
            for problem in error.problems:
                assert problem.startswith(str(path)) and LINE.match(problem, len(str(path))), problem
                assert len(problem) < 8000
        else:
            assert Settings.from_dict(settings.to_dict()) == settings
        _check_value(raw)


def _check_value(raw: bytes) -> None:
    """The same as a value on the command line, and as settings given in Python."""
    try:
        value: Any = parse_value(raw.decode("utf-8", "surrogateescape"))
    except SettingsError:
        return
    for data in value, {"frontier": value}, {"overrides": [{"match": "*", "set": value}]}, {"overrides": value}:
        try:
            Settings.from_dict(data)
        except SettingsError as error:
            assert error.problems


yaml = Target(check_file, files, bytes)
