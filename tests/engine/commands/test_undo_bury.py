"""What `bury` has added is taken out again, as if it had not come, and put back by an undo of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import runner, undo_bury
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.undo_checks import preview
from budgetfrontier.errors import FrontierError
from budgetfrontier.reports.audit_inverses import inverses
from budgetfrontier.storage import keys
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.reader import Reader
from budgetfrontier.testing import crash
from tests.support import START, kept_by, on_disk, pages, post

GIVEN = pages("ab", 4)


@pytest.fixture(params=[2, 500], autouse=True)
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runner, "STEP", request.param)
    monkeypatch.setattr(undo_bury, "_CHECKED", 1)
    yield


def bury(f: Frontier, uris: list[str] = GIVEN) -> int:
    """Bury URIs; return the id of the audit entry."""
    f.internals.apply(Command("bury", {"uris": uris, "reasons": ["gone"] * len(uris)}, "me", ""))
    return f.audit(limit=1)[0].id


def known(f: Frontier) -> dict[str, Any]:
    """What is known of URLs, but for queues without any."""
    view = f._guard.tables.flushed()
    names = [name for name in (keys.PENDING, keys.FUTURE, keys.DEAD, keys.SEEN, keys.URLS) if name in view.db]
    found: dict[str, Any] = {
        name: [i for i in view.txn.cursor(view.db[name]) if i[0] != keys.SENTINEL] for name in names
    }
    counters = view.counters()
    return found | {"urls": counters.urls, "completed": counters.completed, "of": counters.url_queues}


def dry_run(folder: Path, number: int, **options: Any) -> dict[str, Any]:
    with Reader(folder / "frontier") as reader, reader.view() as view:
        return preview(view, {"id": number, **options}, START)


def inverses_of(f: Frontier) -> dict[int, str]:
    return {entry.id: inverse for entry, inverse in inverses(reversed(f.audit()))}


@pytest.mark.parametrize("keep_urls", [False, True])
def test_an_undo_leaves_no_trace_and_its_undo_brings_all_back(tmp_path: Path, keep_urls: bool) -> None:
    clock = ManualClock(START)
    with on_disk(tmp_path, clock, keep_urls=keep_urls) as f:
        f.schedule_many(pages("a", 1))  # known: this one is not buried
        f.schedule(CrawlUri("https://b.test/1", force=True))  # known by no fingerprint
        f.finish(next(lease for _ in range(2) for lease in f.lease(9) if lease.queue == "b.test"))
        clock.advance(1)
        f.commit()
        before = known(f)
        assert bury(f) == 1
        buried = known(f)
        f.commit()
        assert dry_run(tmp_path, 1) == {"undoes": "1, bury by me", "command": "bury", "dropped": 7}
        f.undo(1)
        told = f.audit(limit=1)[0].effect
        assert (told["command"], told["dropped"]) == ("bury", 7)
        assert known(f) == before and inverses_of(f) == {1: "", 2: "undo 2"}
        f.check()
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            reader.check()
            reader.backup(tmp_path / "copy" / "frontier")
        assert kept_by(tmp_path / "copy" / "frontier") == {2}
        assert dry_run(tmp_path, 2)["returned"] == 7
        f.undo(2)
        assert known(f) == buried and inverses_of(f) == {1: "undo 1", 2: "", 3: ""}
        f.check()
        f.undo(1)
        assert known(f) == before
        f.internals.discard(4)
        assert inverses_of(f) == dict.fromkeys(range(1, 6), "")
        for number, why in (1, "undone already"), (3, "undo the bury again"), (4, "has discarded what was kept"):
            with pytest.raises(FrontierError, match=why):
                f.undo(number)
        f.commit()
        assert kept_by(tmp_path / "frontier") == set()
        bury(f)
        assert known(f)[keys.SEEN] == buried[keys.SEEN]


def test_what_was_replayed_or_dropped_since_is_refused_unless_forced(tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        number = bury(f)
        first, second = f.dead_letters()[:2]
        f.replay([first.id])
        f.drop_dead_letters([second.id])
        f.commit()
        for options in ({}, {"force": False}):
            with pytest.raises(FrontierError, match=r"because 2 of the 8 dead letters .* `undo --force`"):
                dry_run(tmp_path, number, **options)
        with pytest.raises(FrontierError, match=r"because 2 of the 8 dead letters .* `undo --force`"):
            f.undo(number)
        assert f.summary().dead == 6
        assert dry_run(tmp_path, number, force=True)["gone"] == 2
        f.undo(number, force=True)
        total = f.summary()
        assert (total.dead, total.queued, total.seen) == (0, 1, 2)
        f.check()
    with on_disk(tmp_path / "other", keep_urls=True) as f:
        number = bury(f)
        f.drop_dead_letters()
        with pytest.raises(FrontierError, match="nothing left of 1 to undo"):
            f.undo(number, force=True)
        f.undo(2)
        f.undo(number)
        assert f.summary().seen == 0


def test_what_has_come_by_force_since_stays_known(tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        number = bury(f)
        f.schedule(CrawlUri(GIVEN[0], force=True))
        f.undo(number)
        assert (f.summary().queued, f.summary().seen, f.summary().dead) == (1, 1, 0)
        f.check()


def test_an_undo_that_is_interrupted_is_gone_on_with(tmp_path: Path) -> None:
    f = on_disk(tmp_path, keep_urls=True)
    before = known(f)
    number = bury(f)
    f.commit()
    posted = post(tmp_path / "frontier", "undo", id=number)
    while not any(entry.number == posted for entry in f.audit(limit=1)):
        f.commit()
        f.check()
        crash(f)
        f = on_disk(tmp_path)
    assert known(f) == before and f.audit(limit=1)[0].effect["dropped"] == 8
    f.close()
    compact(tmp_path / "frontier")
    with on_disk(tmp_path) as f:
        f.undo(2)
        assert f.summary().dead == 8
        f.check()


def test_what_has_added_nothing_says_so(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(GIVEN)
        with pytest.raises(FrontierError, match=r"has changed nothing .*: no dead letter was added"):
            f.undo(bury(f))
