"""What is given in several commands, each of which continues the audit entry of the last one, is one entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.storage.records import AuditEntry
from budgetfrontier.testing import crash
from tests.support import crawl, in_progress, kept_by, memory, on_disk, pages, post


@pytest.fixture(autouse=True, params=[2, 500])
def steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", request.param)


def give(f: Frontier, op: str, uris: list[str], who: str = "me", **args: Any) -> AuditEntry:
    if op == "bury":
        args["reasons"] = ["gone"] * len(uris)
    entry = f.internals.apply(Command(op, {"uris": uris} | args, who, "why"))
    f.check()
    return entry


def test_the_counts_of_all_parts_are_in_one_entry() -> None:
    with memory() as f:
        first = give(f, "schedule", pages("a", 3))
        f.pause()
        second = give(f, "schedule", [*pages("ab", 3), "mailto:x"], continues=first.id)
        third = give(f, "schedule", ["mailto:y"], continues=second.id)
        assert [entry.id for entry in (first, second, third)] == [1, 1, 1]
        assert [entry.command for entry in f.audit()] == ["schedule", "pause"]
        entry = f.audit()[0]
        assert (entry.args, entry.who, entry.when) == ({"uris": 11}, "me", first.when)
        assert {name: entry.effect[name] for name in ("added", "duplicate", "invalid", "reasons")} == {
            "added": 6, "duplicate": 3, "invalid": 2, "reasons": {"scheme": 2},
        }  # fmt: skip


@pytest.mark.parametrize(
    ("op", "who", "args"),
    [("mark_seen", "me", {}), ("schedule", "you", {}), ("schedule", "me", {"in_place": True})],
)
def test_another_command_has_an_entry_of_its_own(op: str, who: str, args: dict[str, Any]) -> None:
    with memory() as f:
        first = give(f, "schedule", pages("a", 3))
        assert give(f, op, pages("b", 2), who, continues=first.id, **args).id == 2
        assert give(f, "schedule", pages("c", 2), continues=99).id == 3
        assert [entry.args["uris"] for entry in f.audit()] == [3, 2, 2]


def test_all_parts_of_dead_letters_are_undone_at_once() -> None:
    with memory() as f:
        first = give(f, "bury", pages("a", 3))
        f.schedule_many(pages("b", 1))
        assert give(f, "bury", pages("c", 5), continues=first.id).id == 1
        f.undo(1)
        assert f.summary().dead == 0 and f.audit(limit=1)[0].effect["dropped"] == 8
        assert give(f, "bury", pages("d", 2), continues=1).id == 3, "what was undone is not continued"


def test_all_parts_of_forgotten_urls_are_undone_at_once_also_after_a_crash(tmp_path: Path) -> None:
    def work(f: Frontier) -> None:
        while in_progress(f):
            f.commit()
            f.check()

    f = on_disk(tmp_path, hold_queues=True)
    f.schedule_many(pages("ab", 4))
    crawl(f)
    post(tmp_path / "frontier", "forget", uris=pages("a", 4))
    f.commit()
    work(f)
    post(tmp_path / "frontier", "forget", uris=pages("b", 4), continues=1)
    f.commit()
    f.check()
    assert in_progress(f) is (runner.STEP == 2)
    crash(f)
    with on_disk(tmp_path) as f:
        work(f)
        (entry,) = f.audit()
        assert (entry.number, entry.effect["forgotten"], entry.args["uris"], kept_by(f._guard.tables.env.path)) == (
            2, 8, 8, {1},
        )  # fmt: skip
        f.undo(1)
        assert f.audit(limit=1)[0].effect["returned"] == 8
        f.commit()
        f.check()
        assert kept_by(tmp_path / "frontier") == set()
