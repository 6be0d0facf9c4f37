"""Types of values: durations, sizes, numbers and texts, as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.settings.values import plain, read_duration, read_size
from tests.settings.files import Files


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


def test_only_true_and_false_are_booleans(files: Files) -> None:
    for text, value in (("true", True), ("false", False), ("True", True), ("FALSE", False)):
        assert files.settings(f"frontier: {{hold_queues: {text}}}").frontier.hold_queues is value
    for text in ("yes", "no", "on", "off", "y", "n", "Yes", "1", '"true"', "~"):
        assert len(files.problems(f"frontier: {{hold_queues: {text}}}")) == 1


def test_numbers_are_read_sanely(files: Files) -> None:
    assert files.settings("limits: {max_uris: 1e6}").limits.max_uris == 1_000_000
    for number in ("010", "1_000", "0x10", "1.5", "12:30", "1e400", "9" * 5000, '"5"'):
        [problem] = files.problems(f"limits: {{max_uris: {number}}}")
        assert problem.startswith("1:20: limits.max_uris: expected a whole number of at least 0, got ")
        assert len(problem) < 200
