"""Commands that take long are applied a step at a time, and come to the same as at once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import QueueRecord
from budgetfrontier.engine.commands import deletion, runner
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.repair.repair_steps import repair
from budgetfrontier.testing import crash
from tests.support import START, crawl_state, in_progress, kernel, memory, on_disk, pages

AT_ONCE = 10**9


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 3)


def fill(frontier: Frontier) -> None:
    """Pages of three hosts pending, for later, and given up on."""
    frontier.schedule_many(CrawlUri(url, not_before=START + 1e6) for url in pages("bac", 3, first=50))
    frontier.schedule_many(pages("abc", 2))
    for _ in range(6):
        for lease in frontier.lease(1):
            frontier.finish(lease, Outcome.DEAD)
    frontier.schedule_many(pages("cab", 4, first=10))
    frontier.commit()


def post(path: Path, op: str, args: dict[str, Any] | None = None) -> int:
    mailbox = Mailbox(path)
    try:
        return mailbox.post(Command(op, args or {}, "somebody", ""))
    finally:
        mailbox.close()


def without_size(effect: dict[str, Any]) -> dict[str, Any]:
    """An effect without the bytes of what was kept for an undo: each step writes a block of it."""
    return {name: value if name != "kept" else value["number"] for name, value in effect.items() if name != "bytes"}


def look(frontier: Frontier, clock: ManualClock) -> dict[str, Any]:
    """All that can be told of a frontier but for numbers that are given out, and what is told of times."""
    frontier.check()
    with_place = {
        row.queue: [row.state, row.precedence, row.queued, row.expenditure, row.last_enqueued, row.total_budget]
        for row in frontier.report().queues
    }
    order = []
    frontier.resume()
    clock.advance(2e6)
    for _ in range(100):
        for lease in frontier.lease(5):
            order.append(lease.uri.url)
            frontier.finish(lease)
    assert frontier.next_ready_in() is None
    told = [(e.command, without_size(e.effect), bool(e.error), e.number) for e in frontier.audit()]
    told = [entry for entry in told if entry[0] != "resume"]
    return {"queues": with_place, "order": order, "audit": told, "summary": frontier.summary()}


uris = st.lists(st.sampled_from([*pages("abd", 7), "nonsense", "ftp://a.test/"]), max_size=9)
chosen = st.sampled_from([None, "a.test", "?.test", "*", "none"])
numbers = st.one_of(st.none(), st.lists(st.integers(-1, 40), max_size=9))
patterns = st.sampled_from([None, "[1-3]$", "a.test", "(a+)+$"])
uri_matches = st.sampled_from(["queues:b.test,c.test", "host:a.test", "regex:[1-3]$", "queue:[ab].test", "domain:test"])
some_queues = st.sampled_from(["a.test", "b.test"])
given_commands = st.one_of(
    st.builds(lambda q, p: ("delete", {"queue": q, "pattern": p}), chosen, patterns),
    st.builds(lambda m, s: ("delete", {"match": m, "states": s}), uri_matches, st.sampled_from([None, ["INACTIVE"]])),
    st.builds(
        lambda op, m, w: (op, {name: value for name, value in (("match", m), ("why", w)) if value is not None}),
        st.sampled_from(["replay", "drop"]),
        st.sampled_from([None, "host:a.test", "regex:[12]$"]),
        st.sampled_from([None, "", "*", "gone"]),
    ),
    st.builds(lambda q, ids: ("replay", {"queue": q, "ids": ids}), st.sampled_from([None, "a.test"]), numbers),
    st.builds(lambda q, ids: ("drop", {"queue": q, "ids": ids}), st.sampled_from([None, "b.test"]), numbers),
    st.builds(lambda found: ("schedule", {"uris": found}), uris),
    st.builds(lambda found, charge: ("mark_seen", {"uris": found, "charge": charge}), uris, st.booleans()),
    st.builds(lambda found: ("bury", {"uris": found, "reasons": ["gone"] * len(found)}), uris),
    st.builds(lambda op, key: (op, {"queue": key}), st.sampled_from(["retire", "unretire"]), some_queues),
    st.builds(lambda n: ("adjust", {"match": "*", "set": {"queue_total_budget": n}}), st.sampled_from([0, 5, -1])),
    st.builds(lambda n, force: ("undo", {"id": n, "force": force}), st.integers(1, 5), st.booleans()),
    st.builds(lambda n: ("discard", {"id": n}), st.integers(1, 5)),
    st.builds(
        lambda op, match, more: (op, {"match": match, **more, **({"until": START + 5e5} if op == "snooze" else {})}),
        st.sampled_from(["retire", "unretire", "snooze", "wake"]),
        st.sampled_from(["*", "queue:[ab].test", "queues:c.test,a.test", "host:a.test", "regex:b.test"]),
        st.sampled_from([{}, {"states": ["INACTIVE"]}, {"states": ["RETIRED", "SNOOZED"]}]),
    ),
    st.just(("nonsense", {})),
)  # fmt: skip


@settings(max_examples=15)
@given(
    st.lists(given_commands, min_size=1, max_size=6),
    st.integers(1, 4),
    st.lists(st.sampled_from(["commit", "commit", "crash", "close"]), max_size=12),
)
def test_in_steps_it_comes_to_the_same_as_at_once(
    sent: list[tuple[str, dict[str, Any]]], step: int, between: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp())
        try:
            patch.setattr(runner, "STEP", AT_ONCE)
            with on_disk(folder / "once", clock := ManualClock(START), hold_queues=True) as at_once:
                fill(at_once)
                for number, (op, args) in enumerate(sent, 1):
                    at_once.internals.apply(Command(op, args, "somebody", ""), number=number)
                expected = look(at_once, clock)
            patch.setattr(runner, "STEP", step)
            frontier = on_disk(folder, clock := ManualClock(START), hold_queues=True)
            fill(frontier)
            for op, args in sent:
                post(folder / "frontier", op, args)
            for what in between:
                if what == "commit":
                    frontier.commit()
                    frontier.check()
                else:
                    crash(frontier) if what == "crash" else frontier.close()
                    frontier = on_disk(folder, clock)
            for _ in range(1000):
                frontier.commit()
                if any(entry.number == len(sent) for entry in frontier.audit(limit=1)):
                    break
            assert look(frontier, clock) == expected
            frontier.close()
        finally:
            shutil.rmtree(folder)


def begun(tmp_path: Path, **options: Any) -> Frontier:
    """A frontier with a deletion in progress."""
    frontier = on_disk(tmp_path, **({"hold_queues": True} | options))
    fill(frontier)
    post(tmp_path / "frontier", "delete", {"queue": "?.test"})
    frontier.commit()
    assert in_progress(frontier)
    return frontier


@pytest.mark.parametrize("repaired", [False, True])
def test_a_crawl_that_is_reopened_amid_an_import_is_not_over(tmp_path: Path, repaired: bool) -> None:
    frontier = on_disk(tmp_path, pause_at_finish=True)
    frontier.schedule("https://a.test/0")
    (lease,) = frontier.lease(1)
    post(tmp_path / "frontier", "schedule", {"uris": ["https://a.test/0"] * 3 + pages("b", 2)})
    frontier.commit()  # the first step, which brings nothing new
    frontier.finish(lease)
    assert crawl_state(frontier) == "RUNNING"
    frontier.close()
    if repaired:
        assert repair(tmp_path / "frontier").first_changes == []
    paused: list[object] = []

    def on_pause_at_finish(*told: object) -> None:
        paused.append(told)

    with on_disk(tmp_path, hooks=[on_pause_at_finish]) as frontier:
        frontier.commit()
        assert crawl_state(frontier) == "RUNNING"
        assert paused == []
        assert frontier.summary().queued == 2
        frontier.check()


def until_done(frontier: Frontier) -> None:
    while in_progress(frontier):
        frontier.commit()
    frontier.commit()
    frontier.check()


def applied(frontier: Frontier) -> list[str]:
    return [entry.command for entry in frontier.audit()]


def test_a_crawl_goes_on_while_a_command_is_in_progress_and_is_not_over_before(tmp_path: Path) -> None:
    with begun(tmp_path) as frontier:
        assert applied(frontier) == []
        assert frontier.next_ready_in() == 0.0
        frontier.schedule("https://new.test/")
        urls = []
        for _ in range(30):
            for lease in frontier.lease(1):
                urls.append(lease.uri.url)
                frontier.finish(lease)
            frontier.check()
        assert "https://new.test/" in urls  # it came after the command
        assert applied(frontier) == ["delete"]
        assert frontier.audit()[0].effect["deleted"] == 21 + 1 - len(urls)
        assert crawl_state(frontier) == "FINISHED"


def test_a_crawl_that_a_deletion_empties_runs_until_that_is_done(tmp_path: Path) -> None:
    with begun(tmp_path) as frontier:
        states = []
        while in_progress(frontier):
            states.append(crawl_state(frontier))
            frontier.commit()
        assert states and set(states) == {"RUNNING"}
        assert crawl_state(frontier) == "FINISHED"


def test_what_comes_due_meanwhile_is_deleted_too(tmp_path: Path) -> None:
    clock = ManualClock(START)
    frontier = on_disk(tmp_path, clock, hold_queues=True)
    frontier.schedule_many(CrawlUri(url, not_before=START + 5) for url in pages("ab", 6))
    frontier.schedule("https://c.test/")
    post(tmp_path / "frontier", "delete", {"queue": "[ab].test"})
    frontier.commit()
    clock.advance(10)
    seen = [lease.queue for _ in range(30) for lease in frontier.lease(9)]
    assert seen == ["c.test"]
    assert without_size(frontier.audit()[0].effect) == {"deleted": 12, "queues": 0, "cost": 0, "later": 12, "kept": 1}
    frontier.check()
    frontier.close()


def test_pause_and_terminate_overtake_others_wait(tmp_path: Path) -> None:
    with begun(tmp_path) as frontier:
        path = tmp_path / "frontier"
        waits = post(path, "retire", {"queue": "a.test"})
        paused = post(path, "pause")
        frontier.commit()
        assert applied(frontier) == ["pause"]
        assert crawl_state(frontier) == "PAUSED"
        with Reader(path) as reader:
            answer = reader.answer(paused)
            assert answer is not None and answer.command == "pause"
            assert reader.answer(waits) is None
            found = reader.in_progress()
            assert found is not None and found[0].op == "delete" and found[1].effect["deleted"] > 0
        resumed = post(path, "resume")
        post(path, "pause")
        frontier.commit()
        assert applied(frontier) == ["pause"]  # not before that `resume`
        post(path, "terminate")
        frontier.commit()
        assert applied(frontier) == ["pause", "terminate"]
        until_done(frontier)
        assert applied(frontier) == ["pause", "terminate", "delete", "retire", "resume", "pause"]
        assert [entry.number for entry in frontier.audit()] == [paused, 6, 1, waits, resumed, 5]
        assert kernel(frontier).counters.ahead == []


def test_a_paused_crawl_goes_on_with_it(tmp_path: Path) -> None:
    with begun(tmp_path) as frontier:
        frontier.pause()
        assert frontier.next_ready_in() == 0.0
        for _ in range(30):
            assert frontier.lease(1) == []
        assert applied(frontier) == ["pause", "delete"]
        assert frontier.next_ready_in() != 0.0


def test_a_command_of_the_api_ends_what_is_in_progress_first(tmp_path: Path) -> None:
    with begun(tmp_path) as frontier:
        frontier.retire("b.test")
        assert applied(frontier) == ["delete", "retire"]
    with on_disk(tmp_path) as frontier:
        post(tmp_path / "frontier", "replay")
        frontier.commit()
        frontier.delete(queue="*", dry_run=True)
        frontier.terminate()
        assert applied(frontier) == ["delete", "retire", "terminate"]


def test_copies_and_checks_know_a_command_in_progress(tmp_path: Path) -> None:
    begun(tmp_path).close()
    path = tmp_path / "frontier"
    with Reader(path) as reader:
        reader.check()
        reader.backup(tmp_path / "copy" / "frontier")
    compact(path)
    done = repair(path)
    assert done.set_aside == 0
    for folder in (tmp_path, tmp_path / "copy"):
        with on_disk(folder) as frontier:
            until_done(frontier)
            assert frontier.audit()[0].effect["deleted"] == 21


def test_a_dry_run_of_a_deletion_counts_what_the_deletion_takes() -> None:
    with memory() as frontier:
        fill(frontier)
        frontier.lease(1)
        every: tuple[dict[str, Any], ...] = (
            {"queue": "a.test"},
            {"pattern": "1"},
            {"queue": "?.test", "pattern": "/5"},
            {"queue": "none"},
        )
        for args in every:
            before, told = frontier.summary(), len(frontier.audit())
            expected = frontier.delete(**args, dry_run=True)
            assert (frontier.summary(), len(frontier.audit())) == (before, told)
            assert frontier.delete(**args) == expected
        frontier.check()


def test_a_deletion_looks_once_at_what_is_for_later(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []
    plain = deletion.Chosen.queue

    def counted(self: deletion.Chosen, queue: QueueRecord) -> bool:
        looked_at.append(queue.queue)
        return plain(self, queue)

    monkeypatch.setattr(deletion.Chosen, "queue", counted)
    with memory() as frontier:
        frontier.schedule_many(CrawlUri(url, not_before=START + 1e6) for url in pages("abcdefgh", 2))
        assert frontier.delete(pattern="1$") == 8
    assert len(looked_at) == 16
