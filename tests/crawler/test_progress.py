"""What an operator sees while a crawl runs: a live table on a terminal, plain lines when piped."""

from __future__ import annotations

import errno
import io
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from budgetfrontier import CrawlState, Frontier, Outcome, Summary
from budgetfrontier.core.units import format_clock, format_size
from budgetfrontier.crawler.crawl_limits import CrawlLimit
from budgetfrontier.crawler.progress import ProgressDisplay
from tests.support import logged


def summary(*, reason: str = "") -> Summary:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(f"https://{host}.test/{page}" for host in "ab" for page in range(3))
        (lease,) = frontier.lease(1)
        frontier.finish(lease, Outcome.SUCCESS)
        if reason:
            frontier.pause(reason=reason)
        return frontier.summary()


class Time:
    """A clock that a test turns."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def terminal(out: io.StringIO, *, width: int = 80, **variables: str) -> Console:
    return Console(file=out, force_terminal=True, width=width, _environ={"TERM": "xterm-256color", **variables})


@contextmanager
def nobody_listens() -> Iterator[None]:
    """Logging as in a program that has not set it up."""
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = handlers


def pairs(line: str) -> dict[str, str]:
    """A plain line, read as a script would."""
    kind, *words = line.split(" ")
    assert kind == "progress" and len(words) % 2 == 0
    return dict(zip(words[::2], words[1::2], strict=True))


def test_plain_lines_of_keys_and_values_when_piped() -> None:
    out, now = io.StringIO(), Time()
    with ProgressDisplay(console=Console(file=out, width=60), every=10.0, now=now) as progress:
        progress.count(2048)
        due = [progress.due]
        now.now += 10.0
        due.append(progress.due)
        progress.show(
            summary(), in_flight=2, limits=[CrawlLimit("max_uris", 100, 1), CrawlLimit("max_time", 3600.0, 10.0)]
        )
        assert due == [False, True]
        now.now += 10.0
        for _ in range(9):
            progress.count(2048)
        progress.show(
            summary(), in_flight=2, limits=[CrawlLimit("max_uris", 100, 10), CrawlLimit("max_time", 3600.0, 20.0)]
        )
        progress.say("[bold]not markup[/bold]")
    first, line, said = out.getvalue().splitlines()
    assert said == "[bold]not markup[/bold]"
    before, after = pairs(first), pairs(line)
    expected = {
        "state": "RUNNING", "elapsed": "20", "fetched": "10", "rate": "0.5", "average": "0.5", "bytes": "20480",
        "in_flight": "2", "queued": "5", "succeeded": "1", "spend": "1", "snoozed_queues": "1", "inactive_queues": "1",
        "max_uris_used": "10", "max_uris": "100", "max_uris_left": "100", "max_time_left": "3580",
    }  # fmt: skip
    assert after.items() >= expected.items()
    assert before["rate"] == "0.1" and "max_uris_left" not in before  # nobody can know yet


def test_rates_now_are_those_of_the_last_half_minute() -> None:
    out, now = io.StringIO(), Time()
    with ProgressDisplay(console=Console(file=out, width=60), now=now) as progress:
        for fetched in (1000, 0, 0, 0, 30):
            now.now += 10.0
            for _ in range(fetched):
                progress.count(1)
            progress.show(summary(), in_flight=0)
    last = pairs(out.getvalue().splitlines()[-1])
    assert (last["rate"], last["average"]) == ("1.0", "20.6")


def test_the_rate_is_that_of_now_before_it_is_shown() -> None:
    now = Time()
    with ProgressDisplay(console=Console(file=io.StringIO(), width=60), now=now) as progress:
        now.now += 2.0
        for _ in range(100):
            progress.count(1)
        assert progress.rate == 50.0  # the verdict that is shown beside it has this one


def test_a_crawl_that_is_finished_is_so_after_a_time() -> None:
    out, now = io.StringIO(), Time()
    with ProgressDisplay(console=terminal(out, width=80), now=now) as progress:
        now.now += 20.0
        ended = summary()
        ended.state = CrawlState.FINISHED
        progress.show(ended, in_flight=0)
    assert "finished after 0:00:20, 0 in flight" in re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", out.getvalue())


@pytest.mark.parametrize("width", [80, 40])
def test_a_table_on_a_terminal_that_goes_away(width: int) -> None:
    out, now = io.StringIO(), Time()
    with ProgressDisplay(console=terminal(out, width=width), now=now) as progress:
        for used in (34, 1234):
            now.now += 20.0
            progress.show(summary(reason="[lunch]"), in_flight=1, limits=[CrawlLimit("max_uris", 10_000, used)])
        lines = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", out.getvalue()).splitlines()
        shown = " ".join(" ".join(lines).split())
        assert "1 snoozed, 1 inactive" in shown and "paused ([lunch]) for 0:00:40" in shown
        assert "12% (1,234 of 10,000), about 0:02:26 left" in shown
        assert max(map(len, lines)) <= width
        before = len(out.getvalue())
    assert "\x1b[1A\x1b[2K" in out.getvalue()[before:]


@pytest.mark.parametrize("kind", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(kind: str) -> None:
    out = io.StringIO()
    with ProgressDisplay(console=terminal(out, TERM=kind)) as progress:
        progress.show(summary(), in_flight=1)
    assert pairs(out.getvalue().rstrip("\n"))["in_flight"] == "1" and "\x1b" not in out.getvalue()


def test_no_colours() -> None:
    out = io.StringIO()
    with ProgressDisplay(console=terminal(out, NO_COLOR="1")) as progress:
        progress.show(summary(), in_flight=1)
    assert "\x1b[3" not in out.getvalue()


@pytest.mark.parametrize("on_terminal", [True, False])
def test_nothing_that_hosts_say_moves_the_cursor(on_terminal: bool) -> None:
    out = io.StringIO()
    console = terminal(out, width=200) if on_terminal else Console(file=out, width=200)
    with nobody_listens(), ProgressDisplay(console=console) as progress:
        progress.say("evil \x1b[2J\r\x07\u202e\x9b1m host\nwith lines")
        logging.getLogger("budgetfrontier.crawler.job").warning("worse \x1b]0;title\x07 %s", "http://a.test/\x1b[1A")
        logging.getLogger("aiohttp").info("not worth a line")
    said = out.getvalue()
    assert "evil \\x1b[2J\\r\\x07\\u202e\\x9b1m host\\nwith lines" in said
    assert "warning: worse \\x1b]0;title\\x07 http://a.test/\\x1b[1A" in said
    assert "not worth" not in said
    assert not {"\x07", "\u202e", "\x9b"} & set(said) and "\x1b]" not in said and "\x1b[2J" not in said


def test_a_locale_without_the_letters() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace", write_through=True)
    with ProgressDisplay(console=Console(file=file, width=60)) as progress:
        progress.say("crawl na\u00efve")
        progress.show(summary(), in_flight=1)
    assert raw.getvalue().splitlines()[0] == rb"crawl na\xefve"


@pytest.mark.parametrize("on_terminal", [True, False])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(errno.ENOSPC, "full"), OSError(errno.EIO, "gone")])
def test_a_crawl_goes_on_when_nobody_can_read_its_progress(on_terminal: bool, error: OSError) -> None:
    class Gone(io.StringIO):
        tries = 0

        def write(self, text: str, /) -> int:
            self.tries += 1
            raise error

    out, stderr = Gone(), sys.stderr
    console = terminal(out) if on_terminal else Console(file=out)
    with nobody_listens(), ProgressDisplay(console=console) as progress:
        for _ in range(3):
            progress.say("hello")
            progress.show(summary(), in_flight=1)
        logging.getLogger("x").warning("hello")
    assert out.tries == 1 and sys.stderr is stderr


def test_what_logging_warns_of_stays_above_the_table() -> None:
    out = io.StringIO()
    with nobody_listens():
        with ProgressDisplay(console=terminal(out, width=100)) as progress:
            progress.show(summary(), in_flight=1)
            before = len(out.getvalue())
            try:
                raise RuntimeError("a bug")
            except RuntimeError:
                logging.getLogger("budgetfrontier.crawler.job").exception("visit failed")
            added = out.getvalue()[before:]
            progress.warn("no contact")
            assert out.getvalue().count("warning: no contact") == 1
        assert not logging.getLogger().handlers
    # The old table is wiped, the message printed, the table drawn below.
    assert added.index("\x1b[2K") < added.index("error: visit failed") < added.index("RuntimeError: a bug")
    assert added.rindex("1 snoozed, 1 inactive") > added.index("RuntimeError: a bug")


def test_a_program_that_logs_gets_the_warnings_itself(caplog: pytest.LogCaptureFixture) -> None:
    out = io.StringIO()
    with ProgressDisplay(console=Console(file=out, width=60)) as progress:
        progress.warn("no contact")
        logging.getLogger("budgetfrontier").warning("yours")
    assert out.getvalue() == "warning: no contact\n"
    assert logged(caplog, "budgetfrontier") == ["no contact", "yours"]


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00:00"), (61, "0:01:01"), (90_061, "25:01:01")])
def test_clock(seconds: float, text: str) -> None:
    assert format_clock(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")])
def test_size(count: int, text: str) -> None:
    assert format_size(count) == text
