"""The words and figures of reports."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.reports.format import as_written
from budgetfrontier.settings.loader import parse_value


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (("daily 01:00-02:00 UTC", "sat,sun 00:00-24:00 UTC"), '["daily 01:00-02:00 UTC", "sat,sun 00:00-24:00 UTC"]'),
        ((), "[]"),
        ({"ärch": {"max": 1}}, '{"ärch": {"max": 1}}'),
        (frozenset((503, 429)), "[429, 503]"),
        (True, "true"),
        (None, "null"),
        (3.5, "3.5"),
        ("fifo", "fifo"),
    ],
)
def test_a_value_is_shown_as_it_may_be_given(value: Any, written: str) -> None:
    assert as_written(value) == written
    assert parse_value(written) == (sorted(value) if isinstance(value, tuple | frozenset) else value)
