"""Harm to those who work beside the engine, or in its place: who posts a command, compacts a frontier, backs it up."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

from budgetfrontier import Reader
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.store.backup import compact
from budgetfrontier.store.repair.run import repair
from tests.crash.disks import AtDisk, PowerCut, disk
from tests.crash.figures import Figures
from tests.crash.harms import STRACE, AtCall, AtLine
from tests.crash.kills import begun, many_retired
from tests.crash.lives import DONE, LINES, Events, Harm, Life, read_events, reopened
from tests.crash.processes import Ended, in_child
from tests.crash.workload import Ledger, Step, on_model

COMMITTING = ("writev", "pwrite64", "fdatasync")
COPYING = ("write", "fsync", "pwrite64", "rename", "renameat2", "chmod", "unlink", "writev", "fdatasync", "mkdir")
"""The system calls by which a command is posted, and by which a copy is made and takes the file's place."""

Work = Callable[[Path], object]


def struck(life: Life, work: Work, harm: Harm) -> tuple[Ended, int]:
    """Work beside a frontier in harm's way: how that ended, and after how many lines, if they were counted."""
    read, write = os.pipe()

    def armed() -> bool:
        events = Events(write)
        harm.arm(events)
        work(life.folder)
        events.tell(DONE)
        return True

    ended = in_child(armed, meanwhile=harm.strike)
    os.close(write)
    harm.mend()
    return ended, sum(value for kind, value in read_events(read) if kind == LINES)


def judge(figures: Figures, life: Life, ended: Ended, harm: Harm, candidates: list[Ledger]) -> None:
    """The frontier must be one of these, and who worked beside it ended by its work, its harm, or a named error."""
    problem = "" if harm.accepts(ended) else str(ended)
    problem = problem or reopened(life, candidates)[1]
    figures.tried += 1
    figures.named += ended.named
    figures.whole += not problem
    if problem:
        figures.problems.append(f"{figures.fault}, number {figures.tried}: {ended}, then {problem}")


def _everywhere(
    figures: Figures,
    life: Life,
    chance: Random,
    tries: int,
    work: Callable[[Figures, Life, Harm], int],
    calls: Sequence[str],
) -> Figures:
    """Kill who works beside a frontier at random lines, and in each of these system calls."""
    lines = work(figures, life, AtLine(0))
    for number in range(1, tries):
        harm: Harm = AtLine(chance.randint(1, lines))
        if STRACE is not None and number % 2:
            harm = AtCall(calls[number // 2 % len(calls)], 1 + number // 2 // len(calls))
        work(figures, life, harm)
    return figures


# -- the mailbox


def _posting(figures: Figures, life: Life, harm: Harm) -> int:
    """Post a command, and see that it is applied once, or was never there."""
    copy = life.copied(life.folder.with_name("copy"))
    without, applied = copy.after(), copy.after()
    chosen = {"queue_total_budget": 7}
    on_model(applied, Step("adjust", applied.now, ("*", chosen)))

    def post(folder: Path) -> None:
        mailbox = Mailbox(folder)
        mailbox.post(Command("adjust", {"match": "*", "set": chosen}, "somebody", "campaign"))
        mailbox.close()

    ended, lines = struck(copy, post, harm)
    judge(figures, copy, ended, harm, [applied] if ended.answer else [without] if ended.error else [without, applied])
    return lines


def at_posting(folder: Path, chance: Random, tries: int) -> Figures:
    """While a command is left for an engine."""
    figures = Figures("SIGKILL while a command is posted")
    return _everywhere(figures, begun(folder, chance), chance, tries, _posting, COMMITTING)


def full_while_posting(folder: Path, chance: Random, tries: int) -> Figures:
    """More and more pages are left for a command in a mailbox that is there, and for one that must be made."""
    figures = Figures("disk full while a command is posted")
    with disk(folder, "tmpfs") as small:
        life = many_retired(small.folder, chance, 5)
        for number in range(tries):
            if number == tries // 2:
                shutil.rmtree(life.folder / "mailbox")
            _posting(figures, life, AtDisk(lambda free=number % (tries // 2): small.fill(free), small.clear))  # type: ignore[misc]
    return figures


# -- copies


def _compacting(figures: Figures, life: Life, harm: Harm) -> int:
    copy = life.copied(life.folder.with_name("copy"))
    ended, lines = struck(copy, compact, harm)
    judge(figures, copy, ended, harm, [copy.after()])
    return lines


def _repairing(figures: Figures, life: Life, harm: Harm) -> int:
    copy = life.copied(life.folder.with_name("copy"))
    ended, lines = struck(copy, repair, harm)
    judge(figures, copy, ended, harm, [copy.after()])
    for folder in copy.folder.parent.glob("copy-repair-*"):
        shutil.rmtree(folder)
    return lines


def _backing_up(figures: Figures, life: Life, harm: Harm) -> int:
    """The frontier is as it was; its backup is the same, or is not there."""
    copy, backup = life.copied(life.folder.with_name("copy")), life.folder.with_name("backup")
    shutil.rmtree(backup, ignore_errors=True)

    def back_up(folder: Path) -> None:
        with Reader(folder) as reader:
            reader.backup(backup)

    ended, lines = struck(copy, back_up, harm)
    judge(figures, copy, ended, harm, [copy.after()])
    if ended.answer or backup.exists():
        problem = reopened(replace(copy, folder=backup), [copy.after()])[1]
        if problem:
            figures.problems.append(f"{figures.fault}, number {figures.tried}: the backup: {problem}")
    return lines


def at_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """While a copy is made and takes the file's place."""
    figures = Figures("SIGKILL while a frontier is compacted")
    return _everywhere(figures, begun(folder, chance), chance, tries, _compacting, COPYING)


def at_backing_up(folder: Path, chance: Random, tries: int) -> Figures:
    """While a copy is made elsewhere."""
    figures = Figures("SIGKILL while a frontier is backed up")
    return _everywhere(figures, begun(folder, chance), chance, tries, _backing_up, COPYING)


def at_repairing(folder: Path, chance: Random, tries: int) -> Figures:
    """While a frontier is made anew from what can be read of it: all of it, here."""
    figures = Figures("SIGKILL while a frontier is repaired")
    return _everywhere(figures, begun(folder, chance), chance, tries, _repairing, COPYING)


def full_while_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """More and more pages are left for the copy."""
    figures = Figures("disk full while a frontier is compacted")
    for kind in "tmpfs", "ext4":
        with disk(folder, kind) as small:
            life = begun(small.folder, chance)
            for number in range(tries // 2):
                _compacting(figures, life, AtDisk(lambda free=4 * number: small.fill(free), small.clear))  # type: ignore[misc]
    return figures


def power_while_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """The disk keeps what was synced, of a copy and of the folder that it moves to."""
    figures = Figures("power cuts while a frontier is compacted")
    with disk(folder, "ext4") as small:
        life = begun(small.folder, chance)
        began = time.monotonic()
        compact(life.copied(small.folder / "copy").folder)
        seconds = time.monotonic() - began
        for _ in range(tries):
            _compacting(figures, life, PowerCut(small, chance.uniform(0.0, seconds)))
    return figures
