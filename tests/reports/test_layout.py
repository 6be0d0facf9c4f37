"""The layout of listings on a terminal: the columns that fit, values that are cut, numbers, and colours."""

from __future__ import annotations

import io
import random
import re

import pytest

from budgetfrontier.core.units import format_count
from budgetfrontier.reports import listings
from budgetfrontier.reports.layout import EXACT, ListingLayout, cells, layout_for, plan, shortened

NAMES = ("queue", "state", "queued", "spent", "url")
DROP = ("url", "spent")


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "width", "colour"),
    [
        (io.StringIO(), {}, None, False),
        (io.StringIO(), {"COLUMNS": "100"}, 100, False),  # as `watch` sets it
        (io.StringIO(), {"FORCE_COLOR": "1"}, None, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, None, False),
        (io.StringIO(), {"FORCE_COLOR": "0"}, None, False),
        (Screen(), {"TERM": "xterm"}, 80, True),
        (Screen(), {"TERM": "xterm", "COLUMNS": "0"}, 80, True),
        (Screen(), {"TERM": "xterm", "COLUMNS": "wide"}, 80, True),
        (Screen(), {"TERM": "xterm", "NO_COLOR": "1"}, 80, False),
        (Screen(), {"TERM": "xterm", "NO_COLOR": ""}, 80, True),
        (Screen(), {"TERM": "dumb"}, 80, False),
        (Screen(), {}, 80, False),
    ],
)
def test_width_and_colours_come_from_the_terminal_and_its_variables(
    stream: io.StringIO, environment: dict[str, str], width: int | None, colour: bool
) -> None:
    assert layout_for(stream, wide=False, environment=environment)[:2] == (width, colour)
    assert layout_for(stream, wide=True, environment=environment).width is None


def test_columns_are_left_out_in_order_before_long_values_become_unreadable() -> None:
    cuttable = [True, True, False, False, True]
    for width, left_out in ((200, []), (80, ["url"]), (45, ["spent", "url"])):
        fitting = plan(NAMES, [60, 9, 6, 6, 90], cuttable, width=width, drop=DROP)
        assert fitting.left_out == left_out
        assert sum(fitting.widths) + 2 * (len(fitting.widths) - 1) <= width


@pytest.mark.parametrize("width", [45, 60, 80, 120, 300])
@pytest.mark.parametrize("outcome", ["", "in 3m, fetched 20, spent 60, 1 of 1 queue RETIRED (1 since then), 1 before"])
def test_sentences_are_wrapped_or_below_their_row_and_never_cut(width: int, outcome: str) -> None:
    what = "Set queue_total_budget to 100 (before: 40) for queue:calendar.test; 1 queue matched, 1 changed."
    row = (4, "2026-11-29T18:20:00Z", "adjust", "anna", "a trap that gives a page for each day", what, outcome)
    names = ("id", "when", "command", "who", "reason", "what", "outcome")
    out = io.StringIO()
    left_out = listings.write([row, (5, *row[1:5], "Paused.", "")], names, out, layout=ListingLayout(width))
    lines = out.getvalue().splitlines()
    assert max(map(cells, lines)) <= width
    words = set(out.getvalue().split())
    for name, value in zip(names[4:], row[4:], strict=True):
        if name not in left_out:
            assert {word for word in str(value).split() if len(word) < 12} <= words, name
    assert "…" not in out.getvalue()
    assert len(lines) == 3 or width < 300, "there is room"


def test_no_line_is_longer_than_the_terminal() -> None:
    choose = random.Random(1)
    for _ in range(100):
        width = choose.randint(50, 250)
        rows = [
            ("q" * choose.randint(1, 99), "INACTIVE", choose.randrange(10**12), choose.randrange(99), "u" * 500)
            for _ in range(choose.randint(0, 5))
        ]
        out = io.StringIO()
        listings.write(rows, NAMES, out, layout=ListingLayout(width), drop=DROP)
        lines = out.getvalue().splitlines()
        assert len(lines) == 1 + len(rows)
        assert all(len(line) <= width for line in lines), (width, lines)
        assert all("INACTIVE" in line for line in lines[1:])


def test_empty_columns_are_the_first_to_go_and_are_not_missed() -> None:
    rows = [("a" * 60, "READY", 1, 2, "")]
    out = io.StringIO()
    assert listings.write(rows, NAMES, out, layout=ListingLayout(40), drop=("spent", "url")) == ["spent"]
    assert listings.write(rows, NAMES, io.StringIO(), layout=ListingLayout(90), drop=("spent", "url")) == []


@pytest.mark.parametrize("width", [3, 9, 10, 30])
def test_keys_and_urls_are_cut_in_their_middle_and_words_at_their_end(width: int) -> None:
    url = "https://example.org/archive/2026/11/page.html?id=4711"
    short = shortened(url, width)
    start, _, end = short.partition("…")
    assert len(short) == width and url.startswith(start) and url.endswith(end) and end
    assert "too many words for a line".startswith(shortened("too many words for a line", width).removesuffix("…"))
    assert shortened("short", width + 3) == "short"


def test_wide_letters_take_two_columns() -> None:
    assert cells("日本語") == 6 and cells("e\u0301") == 1
    assert cells(shortened("日本語の長い名前です", 9)) <= 9
    out = io.StringIO()
    listings.write([("日本", 1), ("ab", 22)], ("name", "count"), out, layout=ListingLayout(80))
    assert [cells(line) for line in out.getvalue().splitlines()] == [11, 11, 11]


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0"), (9999, "9999"), (10_000, "10.0k"), (99_949, "99.9k"), (99_950, "100k"), (999_499, "999k"),
     (999_500, "1.00M"), (-12_345, "-12.3k"), (2_640_000, "2.64M"), (7 * 10**12, "7.00T"), (10**17, "100000T")],
)  # fmt: skip
def test_numbers_are_shown_with_three_digits(count: int, shown: str) -> None:
    assert format_count(count) == shown


def test_numbers_are_exact_without_a_width() -> None:
    assert ListingLayout(80).cell("queued", 12_345) == "12.3k"
    assert (ListingLayout(80).cell("total_budget", -1), ListingLayout(80).cell("balance", -1)) == ("no limit", "-1")
    out = io.StringIO()
    listings.write([("a", 12_345)], ("queue", "queued"), out, layout=EXACT)
    assert "12345" in out.getvalue()


def test_colours_change_nothing_but_colours() -> None:
    rows = [("a.test", "RETIRED", 5, 1, "x"), ("b.test", "READY", 50_000, 1, "y")]
    for width in (None, 80):
        plain, coloured = io.StringIO(), io.StringIO()
        listings.write(rows, NAMES, plain, layout=ListingLayout(width))
        listings.write(rows, NAMES, coloured, layout=ListingLayout(width, colour=True))
        assert "\x1b[31mRETIRED\x1b[0m" in coloured.getvalue()
        assert re.sub("\x1b\\[[0-9;]*m", "", coloured.getvalue()) == plain.getvalue()


def test_what_a_terminal_would_act_upon_is_escaped() -> None:
    out = io.StringIO()
    listings.write([("a\x1b[2J\tb\nc",)], ("queue",), out, layout=ListingLayout(80, colour=True))
    assert "\x1b[2J" not in out.getvalue() and "a\\x1b[2J\\tb\\nc" in out.getvalue()


def test_numbers_that_name_something_are_exact_and_times_are_never_cut() -> None:
    rows = [(30_007, 123_456, 30_007, "2026-11-23T10:45:11Z", "u" * 90)]
    out = io.StringIO()
    listings.write(rows, ("id", "pid", "queued", "began", "url"), out, layout=ListingLayout(60), drop=())
    line = out.getvalue().splitlines()[1]
    assert line.split()[:5] == ["30007", "123456", "30.0k", "2026-11-23", "10:45Z"] and len(line) <= 60
