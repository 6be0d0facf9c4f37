"""How runs end, and which are kept."""

from __future__ import annotations

import errno
from asyncio import CancelledError

import pytest
from msgspec.structs import replace

from budgetfrontier.core.model import RunEnd, RunRow
from budgetfrontier.errors import ScopeChanged, StorageFull
from budgetfrontier.rules import run_history

ROW = RunRow(100.0, 7, "a.test", "crawl")


@pytest.mark.parametrize(
    ("error", "end", "reason"),
    [
        (None, None, ""),
        (StorageFull("the disk is full"), RunEnd.DISK_FULL, "the disk is full"),
        (OSError(errno.ENOSPC, "no room"), RunEnd.DISK_FULL, "[Errno 28] no room"),
        (OSError(errno.EIO, "broken"), RunEnd.ERROR, "OSError: [Errno 5] broken"),
        (
            OSError(errno.EMFILE, "x"),
            RunEnd.ERROR,
            "OSError: [Errno 24] x; raise the limit of open files (`ulimit -n`)",
        ),
        (KeyboardInterrupt(), RunEnd.SIGNAL, "Ctrl-C"),
        (CancelledError(), RunEnd.EXIT, "cancelled"),
        (SystemExit(3), None, ""),
        (ValueError("x" * 600), RunEnd.ERROR, "ValueError: " + "x" * 487 + "…"),
    ],
)
def test_an_error_ends_a_run(error: BaseException | None, end: RunEnd | None, reason: str) -> None:
    assert run_history.end_of(error) == (end, reason)


@pytest.mark.parametrize(
    ("reason", "end"),
    [
        ("finished", RunEnd.EXIT),
        ("cancelled", RunEnd.EXIT),
        ("shutdown", RunEnd.SIGNAL),
        ("closespider_pagecount", RunEnd.LIMIT),
        ("policy_error", RunEnd.ERROR),
        ("frontier_error", RunEnd.ERROR),
    ],
)
def test_scrapys_reasons_end_a_run(reason: str, end: RunEnd) -> None:
    assert run_history.end_of_spider(reason) is end


def test_a_run_that_handed_nothing_out_and_says_nothing_is_not_kept() -> None:
    assert run_history.ended(ROW, None, "", leased=0, now=120.0) is None


def test_one_that_was_asked_is_kept_unless_others_ask_for_it() -> None:
    row = run_history.ended(ROW, None, "", leased=0, asked=True, now=120.0)
    assert row is not None and (row.end, row.leased) == (RunEnd.EXIT, 0)
    served = replace(ROW, program=run_history.SERVE)
    assert run_history.ended(served, None, "", leased=0, asked=True, now=120.0) is None


@pytest.mark.parametrize(("end", "leased"), [(None, 1), (RunEnd.EXIT, 0)])
def test_other_runs_are_kept_with_their_end(end: RunEnd | None, leased: int) -> None:
    row = run_history.ended(ROW, end, "done", leased=leased, now=120.0)
    assert row == RunRow(100.0, 7, "a.test", "crawl", 120.0, RunEnd.EXIT, "done", leased)


def test_a_run_of_a_crawl_that_was_terminated_ended_by_that() -> None:
    row = run_history.ended(ROW, RunEnd.EXIT, "", leased=5, now=120.0, terminated="terminated by alice")
    assert row is not None and (row.end, row.reason) == (RunEnd.OPERATOR, "terminated by alice")
    row = run_history.ended(ROW, RunEnd.SIGNAL, "SIGTERM", leased=5, now=120.0, terminated="terminated by alice")
    assert row is not None and (row.end, row.reason) == (RunEnd.SIGNAL, "SIGTERM")
    assert run_history.ended(ROW, None, "", leased=0, now=120.0, terminated="terminated by alice") is None


def test_a_run_without_an_end_was_killed_after_its_last_commit() -> None:
    row = run_history.taken_over(ROW, None, last_commit=150.0)
    assert (row.ended, row.end) == (150.0, RunEnd.KILLED)
    assert run_history.taken_over(ROW, None, last_commit=0.0).ended == ROW.began
    assert run_history.taken_over(row, None, last_commit=200.0) == row


def test_a_copy_that_was_made_while_a_run_went_on_was_not_killed() -> None:
    row = run_history.taken_over(ROW, None, last_commit=150.0, copied="copied while it ran")
    assert (row.ended, row.end, row.reason) == (150.0, RunEnd.EXIT, "copied while it ran")
    assert row.leased is None, "0 would be a figure"


def test_a_note_of_the_same_run_is_its_end_and_one_of_another_is_not() -> None:
    note = RunRow(100.0, 7, "a.test", "crawl", 130.0, RunEnd.DISK_FULL, "full")
    assert run_history.taken_over(ROW, note, last_commit=150.0) == note
    note.began = 50.0
    assert run_history.taken_over(ROW, note, last_commit=150.0).end is RunEnd.KILLED


def test_a_thousand_runs_are_kept() -> None:
    kept = [number for number in range(1, 1501) if not run_history.is_outdated(number, latest=1500)]
    assert kept == list(range(501, 1501))


def test_the_last_stop_is_that_of_the_newest_run_that_has_ended() -> None:
    ended = RunRow(50.0, 6, "a.test", "crawl", 60.0, RunEnd.LIMIT)
    assert run_history.last_stop([ROW, ended]) is ended
    assert run_history.last_stop([ROW]) is None


def test_commands_are_no_stop_of_a_crawl() -> None:
    adjusted = RunRow(70.0, 7, "a.test", "budgetfrontier adjust", 75.0, RunEnd.KILLED)
    imported = RunRow(80.0, 8, "a.test", "budgetfrontier import", 85.0, RunEnd.SIGNAL)
    crawled = RunRow(50.0, 6, "a.test", "spider", 60.0, RunEnd.LIMIT)
    assert run_history.last_stop([ROW, imported, adjusted, crawled]) is crawled
    assert run_history.last_stop([ROW, imported, adjusted]) is imported, "nothing else is known"


def test_a_reason_is_cut_between_two_words() -> None:
    assert run_history.shortened("x" * 500) == "x" * 500
    assert run_history.shortened("x" * 501) == "x" * 499 + "…"
    words = "x" * 480 + " one two" + " three" * 9
    assert run_history.shortened(words) == "x" * 480 + " one two three…"
    assert run_history.shortened("x" * 449 + " " + "y" * 60) == "x" * 449 + "…", "49 characters are left out"
    assert run_history.shortened("x" * 448 + " " + "y" * 60) == "x" * 448 + " " + "y" * 50 + "…", "50 are not"


@pytest.mark.parametrize(
    ("program", "may"),
    [
        ("", False),
        ("budgetfrontier", True),
        ("budgetfrontier serve", True),
        ("budgetfrontier worker", True),
        ("budgetfrontier bus-worker", True),
        ("budgetfrontier undo", False),
        ("budgetfrontiers undo", True),
    ],
)
def test_commands_hand_nothing_out(program: str, may: bool) -> None:
    assert run_history.may_crawl(program) is may
    assert run_history.was_refused(program, RunEnd.ERROR) is not may
    assert not run_history.was_refused(program, RunEnd.EXIT)
    assert not run_history.was_refused(program, None)


def test_other_ends_have_their_reasons() -> None:
    assert run_history.end_of(GeneratorExit()) == (None, "")
    assert run_history.end_of(ScopeChanged("it has")) == (RunEnd.EXIT, "the scope had changed")
    assert run_history.steered_by("paused", "bob", "") == "paused by bob"
    assert run_history.steered_by("terminated", "alice", "done") == "terminated by alice (done)"
    assert run_history.end_of(StorageFull("x" * 600))[1] == "x" * 499 + "…"
