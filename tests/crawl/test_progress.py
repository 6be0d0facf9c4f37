"""What an operator sees while a crawl runs: a live table on a terminal, plain lines when piped."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from budgetfrontier import Frontier, Outcome, Summary
from budgetfrontier.crawl.progress import Progress, clock, size


def summary() -> Summary:
    with Frontier.open(":memory:") as frontier:
        frontier.schedule_many(f"https://{host}.test/{page}" for host in "ab" for page in range(3))
        (lease,) = frontier.lease(1)
        frontier.finish(lease, Outcome.SUCCESS)
        return frontier.summary()


def test_plain_lines_when_piped() -> None:
    out = io.StringIO()
    with Progress(console=Console(file=out, width=300), every=0.0) as progress:
        progress.count(2048)
        assert progress.due
        progress.show(summary(), in_flight=2)
        progress.say("[bold]not markup[/bold]")
    line, said = out.getvalue().splitlines()
    assert line.startswith("0:00:00 running: 1 fetched (") and "2.0 KiB), 2 in flight, 5 queued" in line
    assert line.endswith("spend 1; queues: 1 snoozed, 1 inactive")
    assert said == "[bold]not markup[/bold]"


def test_a_table_on_a_terminal_that_goes_away() -> None:
    out = io.StringIO()
    with Progress(console=Console(file=out, force_terminal=True, width=100)) as progress:
        progress.show(summary(), in_flight=1)
    assert "1 snoozed, 1 inactive" in out.getvalue() and "\x1b[" in out.getvalue()


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0:00:00"), (61, "0:01:01"), (90_061, "25:01:01")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 * 1024**4, "5.0 TiB")])
def test_size(count: int, text: str) -> None:
    assert size(count) == text
