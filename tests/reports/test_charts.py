"""The charts of pages: their axes, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from budgetfrontier.core.model import QueueState
from budgetfrontier.reports.charts import chart, curve, horizon, stacked_chart, states_bar, strip

NOON = 1_795_435_200.0
"""2026-11-23 12:00 UTC."""


def drawn(values: Sequence[float | None], *, length: float = 3600.0, hover: bool = False) -> str:
    """A chart of an hour from noon on."""
    return chart(values, since=NOON, until=NOON + length, label="<fetched>", write="{:,.0f}".format, hover=hover)


def test_a_chart_has_round_amounts_and_round_times_at_its_axes() -> None:
    text = drawn([1.0, 170.0, 3.0])
    assert re.findall(r">([\d:,]+)</text>", text) == ["200", "100", "12:15", "12:30", "12:45"]
    assert 'aria-label="&lt;fetched&gt;, at most 200"' in text
    days = drawn([1.0, 2.0], length=5 * 86_400.0)
    assert re.findall(r">(\d\d \w+)</text>", days) == ["24 Nov", "25 Nov", "26 Nov", "27 Nov", "28 Nov"]


def test_what_is_not_known_is_a_gap_and_not_zero() -> None:
    text = drawn([None, None, 5.0, 5.0, None, 7.0])
    assert text.count("<polyline") == 2 and text.count('class="unknown"') == 2
    assert curve([None, 5.0, 5.0, None, 7.0], label="x").count("<polyline") == 2
    nothing = drawn([None, None])
    assert "<polyline" not in nothing and "&lt;fetched&gt;: nothing is known" in nothing


@pytest.mark.parametrize("at", [0, 30, 59])
def test_a_value_alone_is_as_wide_as_can_be_seen_and_within_the_curve(at: int) -> None:
    values: list[float | None] = [None] * 60
    values[at] = 7.0
    found = re.search(r'<polyline class="line" points="([\d.]+),[\d.]+ ([\d.]+),', curve(values, label="x"))
    assert found is not None
    left, right = map(float, found.groups())
    assert 0 <= left < right <= 200 and right - left >= 2


def test_each_value_tells_its_time_and_amount_where_that_is_wanted() -> None:
    titles = re.findall(r"<title>(2026.*?)</title>", drawn([5.0, None, 7.0], hover=True))
    assert titles == ["2026-11-23 12:00: 5", "2026-11-23 12:40: 7"]


@pytest.mark.parametrize(
    ("bounds", "sure", "maybe"),
    [((100.0, None, None), 500.0, 0.0), ((100.0, 50.0, 150.0), 250.0, 500.0), ((100.0, 50.0, None), 250.0, 750.0)],
)
def test_the_bar_of_a_forecast_has_what_is_sure_and_what_may_be(
    bounds: tuple[float, float | None, float | None], sure: float, maybe: float
) -> None:
    widths = [float(width) for width in re.findall(r'class="(?:fill|maybe)".*? width="([\d.]+)"', horizon(*bounds))]
    assert widths == [sure, maybe]


def test_a_strip_names_its_parts() -> None:
    text = strip([("2xx", "fill", 3), ("5xx", "bad", 1), ("none", "dim", 0)], label="answers")
    assert 'aria-label="answers: 2xx 3, 5xx 1"' in text and text.count("<rect") == 2


def test_layers_are_stacked_with_the_first_at_the_bottom() -> None:
    layers = [("2xx", "s-in-process", [1.0, None, 3.0]), ("4xx", "s-inactive", [1.0, None, 1.0])]
    text = stacked_chart(layers, since=0.0, until=3600.0, label="attempts", write=lambda amount: f"{amount:g}")
    assert 'aria-label="attempts, at most 5"' in text and text.count("unknown") == 1
    assert text.index('class="layer s-inactive"') < text.index('class="layer s-in-process"'), "it is painted first"
    top, below = (found.split() for found in re.findall(r'polyline class="line" points="([^"]*)"', text)[1::2])
    assert [point.partition(",")[2] for point in (top[0], below[0])] == ["18.2", "34.4"]


def test_a_state_without_queues_has_no_share() -> None:
    bar = states_bar({QueueState.READY: 3, QueueState.RETIRED: 1})
    assert "READY <b>3</b> <small>75.0%</small>" in bar and "SNOOZED <b>0</b></li>" in bar
