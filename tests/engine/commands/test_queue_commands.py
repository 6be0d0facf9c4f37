"""Commands on the queues that a pattern and states select, in steps: their effects, their dry runs, their undo."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import runner, state_preview, undo_checks
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.dry_runs import dry_run
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.testing import crash
from tests.support import START, in_progress, kernel, memory, on_disk, pages, post, state

LATER = START + 5000.0
VERBS = ("retire", "unretire", "snooze", "wake", "set_queue")


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)


def give(f: Frontier, op: str, **args: Any) -> AuditEntry:
    entry = f.internals.apply(Command(op, args, "somebody", ""))
    assert entry.error is None, entry.error
    return entry


def refused(f: Frontier, op: str, **args: Any) -> str:
    entry = f.internals.apply(Command(op, args, "somebody", ""))
    assert entry.error is not None
    f.check()
    return entry.error


def filled(folder: Path, **options: Any) -> Frontier:
    """Queues in each state: a RETIRED by name, b SNOOZED, c READY, d IN_PROCESS, e RETIRED for its budget, f INACTIVE,
    g EXHAUSTED."""
    overrides = [{"match": "host:e.test", "set": {"queue_total_budget": 0, "retire_when": "reached"}}]
    politeness = {"min_delay": "60s", "max_delay": "60s"}
    f = on_disk(folder, ManualClock(START), overrides=overrides, politeness=politeness, keep_urls=True, **options)
    f.schedule_many(pages("abcde", 2))
    f.retire("a.test")
    of_b, of_c = f.lease(2)
    f.finish(of_b)
    assert [lease.queue for lease in f.lease(2)] == ["d.test"]  # and e.test has had its turn
    f.finish(of_c)
    f.wake("c.test")
    f.schedule_many([*pages("f", 3), *pages("g", 1)])
    f.delete(queue="g.test")
    f.commit()
    return f


def states(f: Frontier) -> str:
    return " ".join(f"{letter}:{state(f, letter)}" for letter in "abcdefg")


def look(f: Frontier) -> list[Any]:
    """All that commands on queues change."""
    return [
        (q.queue, q.state, q.by_name, q.wake_time, q.block, q.interval, q.max_completed)
        for q in sorted(f.report().queues, key=lambda q: q.queue)
    ]


@pytest.mark.parametrize("op", VERBS)
def test_a_dry_run_shows_what_the_command_then_does_and_undo_takes_it_back(tmp_path: Path, op: str) -> None:
    args: dict[str, Any] = {"match": "*"}
    args |= {"snooze": {"until": LATER}, "set_queue": {"interval": 90.0, "max_completed": 1}}.get(op, {})
    with filled(tmp_path) as f:
        before = look(f)
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            shown = state_preview.of_queues(view, op, args, START)
        del shown["held_back"], shown["held_later"]
        entry = give(f, op, **args)
        kept = entry.effect.pop("kept")
        assert entry.effect == shown and shown["matched"] == 7 and 0 < shown["changed"] == len(shown["queues"])
        assert shown.get("still_over", 0) == (op == "unretire"), "e.test is over its budget, a.test is not"
        assert kept["bytes"] > 0 and look(f) != before
        f.check()
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            would = undo_checks.preview(view, {"id": entry.id}, START)
        assert (would["restored"], would["left"]) == (shown["changed"], 0)
        f.undo(entry.id)
        number, undone = f.audit(limit=1)[0].id, f.audit(limit=1)[0].effect
        assert (undone["restored"], undone["left"], undone["queues"]) == (shown["changed"], 0, shown["queues"])
        f.check()
        changed = [(one, other) for one, other in zip(before, look(f), strict=True) if one != other]
        if op == "set_queue":  # what it has set; those over budget wait for their turn, others for the interval
            assert [(one[0], *one[5:]) for one in look(f)] == [(one[0], *one[5:]) for one in before]
        else:  # what was active waits for its turn again
            waits = {"READY", "SNOOZED", "INACTIVE", "IN_PROCESS"}
            assert all({one[1], other[1]} <= waits and one[2:] == other[2:] for one, other in changed)
        with pytest.raises(FrontierError, match="is undone already"):
            f.undo(entry.id)
        with pytest.raises(FrontierError, match="give that again"):
            f.undo(number)


def test_many_paces_are_counted_together(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier", Settings.from_dict({"frontier": {"keep_urls": True}})) as f:
        f.schedule_many(f"https://{number}.test/" for number in range(30))
        for number in range(30):
            f.set_queue(f"{number}.test", interval=number)
        counts = give(f, "set_queue", match="*", interval=5).effect["paces"]["interval"]
        assert counts.pop("") == 10 and counts == {f"{number}.0": 1 for number in range(20)}


def test_an_interval_of_zero_has_one_name_in_the_dry_run_and_the_command(tmp_path: Path) -> None:
    settings = Settings.from_dict({"frontier": {"keep_urls": True}})
    with Frontier.open(tmp_path / "frontier", settings) as f:
        f.schedule("https://a.test/")
        f.set_queue("a.test", interval=0)
    with Frontier.open(tmp_path / "frontier") as f:
        args = {"match": "*", "interval": 5}
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            shown = state_preview.of_queues(view, "set_queue", args, START)
        assert shown["paces"] == give(f, "set_queue", **args).effect["paces"] == {"interval": {"0.0": 1}}


@pytest.mark.parametrize(
    ("match", "states", "expected"),
    [
        ("queue:[ab].test", None, ""),
        ("queue:?.test", ["RETIRED"], "a e"),
        ("queues:F.TEST,b.test,none", None, "b f"),
        ("domain:b.test", None, "b"),
        ("host:g.test", None, "g"),
        ("regex:^https://[b-d]", ["SNOOZED", "IN_PROCESS"], "b d"),
        ("label:one", None, "h"),
        ("group:hosts/b.test", None, "b"),
        ("group:*", ["SNOOZED"], "b"),
        ("*", ["EXHAUSTED"], "g"),
    ],
)
def test_queues_are_selected_by_pattern_and_state(
    tmp_path: Path, match: str, states: list[str] | None, expected: str
) -> None:
    with filled(tmp_path, groups=[{"name": "hosts", "by": "host"}]) as f:
        f.schedule(CrawlUri("https://h.test/", source="one"))
        entry = give(f, "snooze", match=match, until=LATER, **({} if states is None else {"states": states}))
        found = " ".join(sorted(key[0] for key in entry.effect["queues"]))
        assert (found, entry.effect["matched"]) == (expected, len(expected.split()))


def test_it_goes_on_after_a_crash_and_leaves_out_queues_that_come_meanwhile(tmp_path: Path) -> None:
    f = on_disk(tmp_path, ManualClock(START), hold_queues=True)
    f.schedule_many(pages("abcdefgh", 1))
    f.commit()
    number = post(tmp_path / "frontier", "retire", match="*")
    f.commit()
    assert in_progress(f) and f.summary().queues["RETIRED"] == 2
    f.schedule("https://new.test/")
    f.commit()
    crash(f)
    with on_disk(tmp_path, ManualClock(START)) as f:
        while in_progress(f):
            f.check()
            f.commit()
        (entry,) = f.audit(limit=1)
        assert (entry.number, entry.effect["changed"], entry.effect["uris"]) == (number, 8, 8)
        assert entry.effect["states"] == {"INACTIVE -> RETIRED": 8}
        (lease,) = f.lease(9)
        assert lease.queue == "new.test"
        f.undo(entry.id)
        assert [lease.queue[0] for lease in f.lease(9)] == list("abcdefgh")


def test_what_has_changed_since_stays_as_it_is_unless_the_undo_is_forced(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        given = [
            give(f, "snooze", match="queue:[bf].test", until=LATER + 9),
        ]
        assert given[0].effect["changed"] == 0  # no glob of overrides has sets
        entry = give(f, "snooze", match="queues:b.test,f.test", until=LATER)
        f.wake("f.test")
        f.undo(entry.id)
        effect = f.audit(limit=1)[0].effect
        assert (effect["restored"], effect["left"], effect["queues"]) == (1, 1, ["b.test"])
        again = give(f, "snooze", match="queues:b.test,f.test", until=LATER)
        f.wake("f.test")
        f.undo(again.id, force=True)
        assert f.audit(limit=1)[0].effect["restored"] == 2
        assert f.queue("b.test").block == f.queue("f.test").block == 0  # type: ignore[union-attr]


def test_what_is_kept_can_be_discarded(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        entry = give(f, "retire", match="*", states=["SNOOZED"])
        f.internals.discard(entry.id)
        with pytest.raises(FrontierError, match="has discarded"):
            f.undo(entry.id)
        for end in (f.undo, f.internals.discard):
            with pytest.raises(FrontierError, match=f"{entry.id + 1} is a discard: what it has removed is gone for"):
                end(entry.id + 1)


def test_a_wait_that_was_prolonged_within_a_second_is_not_told_by_two_equal_times(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        f.snooze("b.test", until=LATER)
        number = f.audit(limit=1)[0].id
        f.snooze("b.test", until=LATER + 0.25)
        with pytest.raises(FrontierError, match=r"it is blocked until \S+, by a later command; "):
            f.undo(number)


def test_wrong_selections_change_nothing(tmp_path: Path) -> None:
    with filled(tmp_path) as f:
        before = look(f)
        assert "not both" in refused(f, "retire", match="*", queue="a.test")
        assert "give `states` with `match`" in refused(f, "retire", queue="a.test", states=["READY"])
        assert "the states are READY" in refused(f, "retire", match="*", states=["BUSY"])
        assert "not a match" in refused(f, "retire", match="*.test")
        assert "regular expression" in refused(f, "retire", match="regex:(")
        assert "nothing is selected by its sheet" in refused(f, "retire", match="sheet:one")
        assert "retire what?" in refused(f, "retire")
        assert "retire it" in refused(f, "snooze", match="*", until=float("inf"))
        entry = give(f, "retire", match="queue:nobody")
        assert (entry.effect["matched"], entry.effect["queues"]) == (0, [])
        with pytest.raises(FrontierError, match="has changed nothing"):
            f.undo(entry.id)
        assert look(f) == before


def test_without_intervals_nothing_is_changed_and_for_good_nothing_is_kept() -> None:
    with memory() as f:
        f.schedule_many(pages("ab", 1))
        assert "keep_urls" in refused(f, "set_queue", match="*", interval=5)
        with pytest.raises(FrontierError, match="keep_urls"):
            dry_run(kernel(f).tables.flushed(), "set_queue", {"queue": "a.test", "interval": 5})
        entry = give(f, "retire", match="*", for_good=True)
        with pytest.raises(FrontierError, match=r"retire, cannot be undone.*give the opposite command"):
            f.undo(entry.id)


def test_queues_named_in_an_atomic_batch_are_changed_and_selected_ones_are_not(tmp_path: Path) -> None:
    with filled(tmp_path) as f, f.atomic():
        assert f.retire("f.test")
        with pytest.raises(FrontierError, match="may take several steps"):
            give(f, "retire", match="*")
