"""Long commands in processes that are killed: each is applied exactly once, and only one that kills is set aside."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.engine import guard, removed_table
from budgetfrontier.engine.commands import dead_letters, deletion, queue_commands, restoring, runner, undo, undo_queues
from budgetfrontier.engine.commands.operations import STEPWISE, Stepwise
from budgetfrontier.storage import keys
from budgetfrontier.storage.reader import Reader
from budgetfrontier.storage.verify import verify
from tests.crash import processes
from tests.crash.faults import die
from tests.crash.line_kills import killed_after
from tests.sizes import sized
from tests.support import START, in_progress, kept_by, on_disk, pages, post

pytestmark = pytest.mark.full_size

KEPT = 4  # pages of b.test, beside 12 of a.test
DEAD = 5


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """12 pages of a.test, 3 of them for later, 4 of b.test; 5 dead letters of c.test."""
    with on_disk(tmp_path, hold_queues=True) as f:
        f.schedule_many(pages("c", DEAD))
        for lease in (lease for _ in range(DEAD) for lease in f.lease(1)):
            f.finish(lease, Outcome.DEAD)
        f.schedule_many(pages("ab", KEPT))
        f.schedule_many(pages("a", 5, first=KEPT))
        f.schedule_many(CrawlUri(url, not_before=START + 1e6) for url in pages("a", 3, first=KEPT + 5))
    return tmp_path / "frontier"


def told(path: Path) -> list[tuple[int, str, dict[str, Any], bool]]:
    """The audit's numbers, commands, effects, and whether they failed."""
    with Reader(path) as reader:
        found = [(entry.number, entry.command, dict(entry.effect), bool(entry.error)) for entry in reader.audit()]
    for _, _, effect, _ in found:
        effect.pop("kept", None)  # where it is kept for an undo
    return found


def finish_all(path: Path) -> None:
    """Open it and commit until nothing is in progress."""
    with on_disk(path.parent) as f:
        while in_progress(f):
            f.commit()
        f.commit()
        f.check()


def killed(work: Callable[[], object]) -> None:
    assert processes.in_child(work).signal == signal.SIGKILL


def dies_after(path: Path, steps: int, *, committed: bool) -> Callable[[], None]:
    """Work on a frontier whose process is killed after so many steps of a command."""

    def work() -> None:
        step = runner.Runner.step
        left = [steps]

        def counted(self: runner.Runner, now: float) -> None:
            step(self, now)
            left[0] -= 1
            if not left[0] and not committed:
                die()

        runner.Runner.step = counted  # type: ignore[method-assign]
        with on_disk(path.parent) as f:
            while left[0] > 0 and in_progress(f):
                f.commit()
            die()

    return work


@pytest.mark.parametrize("committed", [True, False])
def test_a_deletion_goes_on_after_each_of_many_kills(path: Path, committed: bool) -> None:
    number = post(path, "delete", queue="a*")
    kills = 0
    while not told(path):
        killed(dies_after(path, 2, committed=committed))
        with Reader(path) as reader:
            reader.check()
        kills += 1
    assert kills > 2
    assert told(path) == [(number, "delete", {"deleted": 12, "queues": 1, "cost": 9, "later": 3}, False)]
    with on_disk(path.parent) as f:
        assert (f.summary().queued, f.summary().future, f.summary().dead) == (KEPT, 0, DEAD)


def test_kills_before_the_first_commit_of_a_start_are_not_forgotten(path: Path) -> None:
    """Twice in a row is no reason to set a command aside."""
    post(path, "delete", queue="a*")
    killed(dies_after(path, 1, committed=True))
    for _ in range(2):
        killed(dies_after(path, 1, committed=False))
    finish_all(path)
    assert [(effect["deleted"], failed) for _, _, effect, failed in told(path)] == [(12, False)]


def test_commands_of_the_api_go_on_too(path: Path) -> None:
    def work() -> None:
        step = runner.Runner.step

        steps = iter((False, True))  # a commit comes between them

        def dies(self: runner.Runner, now: float) -> None:
            step(self, now)
            if next(steps):
                die()

        with on_disk(path.parent, hold_queues=True, commit_operations=1) as f:
            f.pause()
            runner.Runner.step = dies  # type: ignore[method-assign]
            f.replay()

    killed(work)
    assert [command for _, command, _, _ in told(path)] == ["settings", "pause"]
    finish_all(path)
    assert told(path)[2:] == [(0, "replay", {"replayed": DEAD, "of_queues": ["c.test"]}, False)]
    with on_disk(path.parent) as f:
        assert (f.summary().dead, f.summary().queued) == (0, 2 * KEPT + 5 + DEAD)


def test_killed_anywhere_each_command_is_applied_once_in_order(path: Path, tmp_path: Path) -> None:
    sent = [
        post(path, "delete", queue="a*", pattern="[02468]$"),
        post(path, "retire", queue="b.test"),
        post(path, "replay"),
        post(path, "schedule", uris=pages("d", 5)),
    ]
    expected: Any = None
    lines, alive = 0, True
    while alive:
        copy = tmp_path / "copy" / "frontier"
        shutil.copytree(path, copy)
        alive = killed_after(lines, lambda: finish_all(tmp_path / "copy" / "frontier"), guard, runner, deletion)
        finish_all(copy)
        with Reader(copy) as reader:
            found = told(copy), reader.report().totals, [row.queued for row in reader.queues()]
        expected = expected or found
        assert [entry[0] for entry in found[0]] == sent
        assert found == expected, lines
        shutil.rmtree(copy)
        lines += sized(67, 29)
    assert lines > 100


def all_uris(path: Path) -> dict[str, list[tuple[bytes, bytes]]]:
    """The records of all URIs."""
    with Reader(path) as reader, reader.view() as view:
        names = (keys.PENDING, keys.FUTURE, keys.DEAD, keys.SEEN)
        return {name: [item for item in view.txn.cursor(view.db[name]) if item[0] != keys.SENTINEL] for name in names}


@pytest.mark.parametrize("op", ["delete", "drop"])
def test_killed_anywhere_a_deletion_and_its_undo_lose_and_double_nothing(path: Path, tmp_path: Path, op: str) -> None:
    """Killed at lines of what deletes, writes, commits and returns; what was deleted is kept at each commit."""
    before = all_uris(path)
    post(path, op, **({"queue": "*"} if op == "delete" else {}))
    post(path, "undo", id=1)
    modules = (guard, runner, deletion, dead_letters, restoring, undo, removed_table)
    lines, alive, part = 0, True, 0
    while alive:
        copy = tmp_path / "copy" / "frontier"
        shutil.copytree(path, copy)
        alive = killed_after(lines, lambda: finish_all(tmp_path / "copy" / "frontier"), *modules)
        verify(copy)
        part += 0 < sum(map(len, all_uris(copy).values())) < sum(map(len, before.values()))
        finish_all(copy)
        assert [(command, failed) for _, command, _, failed in told(copy)] == [(op, False), ("undo", False)], lines
        assert all_uris(copy) == before, lines
        assert kept_by(copy) == set()
        shutil.rmtree(copy)
        lines += sized(31, 23)
    assert lines > 100 and part > 2


def test_killed_anywhere_a_command_on_selected_queues_and_its_undo_are_applied_once(path: Path, tmp_path: Path) -> None:
    with on_disk(path.parent) as f:
        f.schedule_many(pages("defgh", 1))
    post(path, "retire", match="queue:[a-z].test")  # a glob of overrides has no sets: none
    post(path, "retire", match="regex:test")
    post(path, "undo", id=2)
    modules = (guard, runner, queue_commands, undo_queues, undo, removed_table)
    lines, alive, part = 0, True, 0
    while alive:
        copy = tmp_path / "copy" / "frontier"
        shutil.copytree(path, copy)
        alive = killed_after(lines, lambda: finish_all(tmp_path / "copy" / "frontier"), *modules)
        verify(copy)
        with Reader(copy) as reader:
            part += 0 < reader.summary().queues["RETIRED"] < 8
        finish_all(copy)
        effects = [effect for _, _, effect, _ in told(copy)]
        assert [effect.get("restored", effect.get("changed")) for effect in effects] == [0, 8, 8], lines
        with Reader(copy) as reader:
            assert (reader.summary().queues["RETIRED"], kept_by(copy)) == (0, set()), lines
        shutil.rmtree(copy)
        lines += sized(13, 5)
    assert lines > 100 and part > 1


@pytest.mark.parametrize("committed", [True, False])
def test_a_deletion_and_its_undo_are_killed_after_every_step(path: Path, committed: bool) -> None:
    before = all_uris(path)
    with Reader(path) as reader:
        totals = reader.summary()
    for op, args in ("delete", {"queue": "?.test"}), ("undo", {"id": 1}):
        post(path, op, **args)
        kills, applied = 0, len(told(path))
        while len(told(path)) == applied:
            killed(dies_after(path, 2, committed=committed))
            verify(path)
            kills += 1
        assert kills > 2
        assert kept_by(path) <= {1}
    finish_all(path)
    assert (all_uris(path), kept_by(path)) == (before, set())
    with Reader(path) as reader:
        assert reader.summary() == totals


def test_a_deletion_that_is_set_aside_halfway_can_be_undone_and_so_can_its_undo(path: Path) -> None:
    before = all_uris(path)

    def set_aside(op: str) -> None:
        killed(dies_after(path, 2, committed=True))

        def poisoned() -> None:
            poison(op)
            finish_all(path)

        for _ in range(runner.STARTS):
            killed(poisoned)
        assert processes.in_child(poisoned).signal == 0

    post(path, "delete", queue="a*")
    set_aside("delete")
    ((_, _, effect, failed),) = told(path)
    assert failed and 0 < effect["deleted"] < 12
    post(path, "undo", id=1)
    set_aside("undo")
    assert [failed for *_, failed in told(path)] == [True, True]
    post(path, "undo", id=1, force=True)
    finish_all(path)
    assert [failed for *_, failed in told(path)] == [True, True, False]
    assert (all_uris(path), kept_by(path)) == (before, set())


def poison(op: str) -> None:
    """From now on a command kills its process."""

    def step(*_: object) -> bool:
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    STEPWISE[op] = Stepwise(STEPWISE[op].start, step)


def test_only_a_command_of_which_three_starts_have_died_is_set_aside(path: Path) -> None:
    first, second = post(path, "retire", queue="a.test"), post(path, "retire", queue="b.test")
    bad = post(path, "drop")
    last = post(path, "unretire", queue="b.test")

    def poisoned() -> None:
        poison("drop")
        finish_all(path)

    killed(poisoned)
    assert told(path) == []  # one transaction for all of them: nobody knows yet which it was
    for _ in range(runner.STARTS):
        killed(poisoned)
        assert [entry[0] for entry in told(path)] == [first, second]
    assert processes.in_child(poisoned).signal == 0
    entries = told(path)
    assert [(number, failed) for number, _, _, failed in entries] == [
        (first, False),
        (second, False),
        (bad, True),
        (last, False),
    ]
    with on_disk(path.parent) as f:
        assert "set aside" in (f.audit()[2].error or "")
        assert f.summary().dead == DEAD
        f.check()


def test_one_that_kills_later_on_keeps_what_it_did(path: Path) -> None:
    number = post(path, "delete", queue="a*")
    killed(dies_after(path, 2, committed=True))

    def poisoned() -> None:
        poison("delete")
        finish_all(path)

    for _ in range(runner.STARTS):
        assert told(path) == []
        killed(poisoned)
    assert processes.in_child(poisoned).signal == 0
    ((given, _, effect, failed),) = told(path)
    assert (given, failed) == (number, True)
    assert 0 < effect["deleted"] < 12
    with on_disk(path.parent) as f:
        assert f.summary().queued + f.summary().future == KEPT + 12 - effect["deleted"]


def test_ctrl_c_is_not_held_against_a_command(path: Path) -> None:
    post(path, "drop")

    def interrupted() -> None:
        def step(*_: object) -> bool:
            raise KeyboardInterrupt

        STEPWISE["drop"] = Stepwise(STEPWISE["drop"].start, step)
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                Frontier.open(path)

    assert not processes.in_child(interrupted).signal
    finish_all(path)
    with on_disk(path.parent) as f:
        assert [entry.effect["dropped"] for entry in f.audit() if entry.command == "drop"] == [DEAD]
