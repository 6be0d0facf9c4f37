"""Faults of tools that work beside or instead of the engine: posting a command, compacting, backup, repair."""

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
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.repair.repair_steps import repair
from tests.crash.disks import AtDisk, PowerCut, disk
from tests.crash.faults import STRACE, AtCall, AtLine
from tests.crash.figures import Figures
from tests.crash.kills import begun, many_retired
from tests.crash.processes import Ended, in_child
from tests.crash.runs import DONE, LINES, Events, Fault, Subject, read_events, reopened
from tests.crash.workload import Ledger, Step, on_model

COMMITTING = ("writev", "pwrite64", "fdatasync")
COPYING = ("write", "fsync", "pwrite64", "rename", "renameat2", "chmod", "unlink", "writev", "fdatasync", "mkdir")
"""The system calls of posting a command, and of making a copy that replaces the file."""

Work = Callable[[Path], object]


def run_with_fault(subject: Subject, work: Work, fault: Fault) -> tuple[Ended, int]:
    """Do `work` in a process under a fault; return how that ended, and the number of lines, if they were counted."""
    read, write = os.pipe()

    events = Events(write)

    def armed() -> bool:
        fault.arm(events)
        work(subject.folder)
        events.send(DONE)
        return True

    ended = in_child(armed, meanwhile=lambda pid, go: fault.inject(pid, go, events))
    os.close(write)
    fault.clear()
    return ended, sum(value for kind, value in read_events(read) if kind == LINES)


def judge(figures: Figures, subject: Subject, ended: Ended, fault: Fault, candidates: list[Ledger]) -> None:
    """Count the result: the frontier must equal a candidate, and the tool have ended in an accepted way."""
    problem = "" if fault.accepts(ended) else str(ended)
    problem = problem or reopened(subject, candidates)[1]
    figures.tried += 1
    figures.named += ended.named
    figures.whole += not problem
    if problem:
        figures.problems.append(f"{figures.fault}, number {figures.tried}: {ended}, then {problem}")


def _everywhere(
    figures: Figures,
    subject: Subject,
    chance: Random,
    tries: int,
    work: Callable[[Figures, Subject, Fault], int],
    calls: Sequence[str],
) -> Figures:
    """Kill a tool at random lines, and in each of these system calls."""
    lines = work(figures, subject, AtLine(0))
    for number in range(1, tries):
        fault: Fault = AtLine(chance.randint(1, lines))
        if STRACE is not None and number % 2:
            fault = AtCall(calls[number // 2 % len(calls)], 1 + number // 2 // len(calls))
        work(figures, subject, fault)
    return figures


# -- the mailbox


def _posting(figures: Figures, subject: Subject, fault: Fault) -> int:
    """Post a command, and check that it is applied once, or not at all."""
    copy = subject.copied(subject.folder.with_name("copy"))
    without, applied = copy.after(), copy.after()
    chosen = {"queue_total_budget": 7}
    on_model(applied, Step("adjust", applied.now, ("*", chosen)))

    def post(folder: Path) -> None:
        mailbox = Mailbox(folder)
        mailbox.post(Command("adjust", {"match": "*", "set": chosen}, "somebody", "campaign"))
        mailbox.close()

    ended, lines = run_with_fault(copy, post, fault)
    judge(figures, copy, ended, fault, [applied] if ended.answer else [without] if ended.error else [without, applied])
    return lines


def at_posting(folder: Path, chance: Random, tries: int) -> Figures:
    """Kill processes while they post a command."""
    figures = Figures("SIGKILL while a command is posted")
    return _everywhere(figures, begun(folder, chance), chance, tries, _posting, COMMITTING)


def full_while_posting(folder: Path, chance: Random, tries: int) -> Figures:
    """Fill the disk, less each time, while a command is posted to an existing mailbox, and to one to be created."""
    figures = Figures("disk full while a command is posted")
    with disk(folder, "tmpfs") as small:
        subject = many_retired(small.folder, chance, 5)
        for number in range(tries):
            if number == tries // 2:
                shutil.rmtree(subject.folder / "mailbox")
            _posting(figures, subject, AtDisk(lambda free=number % (tries // 2): small.fill(free), small.clear))  # type: ignore[misc]
    return figures


# -- copies


def _compacting(figures: Figures, subject: Subject, fault: Fault) -> int:
    copy = subject.copied(subject.folder.with_name("copy"))
    ended, lines = run_with_fault(copy, compact, fault)
    judge(figures, copy, ended, fault, [copy.after()])
    return lines


def _repairing(figures: Figures, subject: Subject, fault: Fault) -> int:
    copy = subject.copied(subject.folder.with_name("copy"))
    ended, lines = run_with_fault(copy, repair, fault)
    judge(figures, copy, ended, fault, [copy.after()])
    for folder in copy.folder.parent.glob("copy-repair-*"):
        shutil.rmtree(folder)
    return lines


def _backing_up(figures: Figures, subject: Subject, fault: Fault) -> int:
    """Back a frontier up: it must be unchanged, and the backup equal to it, or missing."""
    copy, backup = subject.copied(subject.folder.with_name("copy")), subject.folder.with_name("backup")
    shutil.rmtree(backup, ignore_errors=True)

    def back_up(folder: Path) -> None:
        with Reader(folder) as reader:
            reader.backup(backup)

    ended, lines = run_with_fault(copy, back_up, fault)
    judge(figures, copy, ended, fault, [copy.after()])
    if ended.answer or backup.exists():
        problem = reopened(replace(copy, folder=backup), [copy.after()])[1]
        if problem:
            figures.problems.append(f"{figures.fault}, number {figures.tried}: the backup: {problem}")
    return lines


def at_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """Kill processes while they compact a frontier."""
    figures = Figures("SIGKILL while a frontier is compacted")
    return _everywhere(figures, begun(folder, chance), chance, tries, _compacting, COPYING)


def at_backing_up(folder: Path, chance: Random, tries: int) -> Figures:
    """Kill processes while they back a frontier up."""
    figures = Figures("SIGKILL while a frontier is backed up")
    return _everywhere(figures, begun(folder, chance), chance, tries, _backing_up, COPYING)


def at_repairing(folder: Path, chance: Random, tries: int) -> Figures:
    """Kill processes while they repair a frontier, which is not damaged here."""
    figures = Figures("SIGKILL while a frontier is repaired")
    return _everywhere(figures, begun(folder, chance), chance, tries, _repairing, COPYING)


def full_while_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """Fill the disk, less each time, while a frontier is compacted."""
    figures = Figures("disk full while a frontier is compacted")
    for kind in "tmpfs", "ext4":
        with disk(folder, kind) as small:
            subject = begun(small.folder, chance)
            for number in range(tries // 2):
                _compacting(figures, subject, AtDisk(lambda free=4 * number: small.fill(free), small.clear))  # type: ignore[misc]
    return figures


def power_while_compacting(folder: Path, chance: Random, tries: int) -> Figures:
    """Cut the power while a frontier is compacted: the disk keeps only what was synced."""
    figures = Figures("power cuts while a frontier is compacted")
    with disk(folder, "ext4") as small:
        subject = begun(small.folder, chance)
        began = time.monotonic()
        compact(subject.copied(small.folder / "copy").folder)
        seconds = time.monotonic() - began
        for _ in range(tries):
            _compacting(figures, subject, PowerCut(small, chance.uniform(0.0, seconds)))
    return figures
