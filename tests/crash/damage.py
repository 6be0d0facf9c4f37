"""Data files with flipped bits, lost pages and missing ends: `verify` names the damage, and nothing dies of it there.

LMDB has no checksums. What is flipped within a stored URL stays a URL; that is counted as unnoticed. What is flipped in
the structure of a page can end a process that uses the file: also counted, and `verify` must have named each such file.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.tools.cli import main
from tests.crash.figures import Figures
from tests.crash.processes import Ended, in_child
from tests.support import START, make_settings

PAGE = 4096
META_BYTES = 152  # of a meta page that mean something
BRANCH, LEAF = 1, 2  # flags of a page
_HEADER = struct.Struct("<QHHHH")  # number, pad, flags, lower, upper

Damage = Callable[[bytearray, Random], None]


def flip(data: bytearray, chance: Random, start: int, end: int) -> None:
    """Flip one bit of a range."""
    data[chance.randrange(start, end)] ^= 1 << chance.randrange(8)


def any_page(data: bytearray, chance: Random, kind: int | None = None) -> int:
    """Where a page begins that is no meta page; of a kind, or any."""
    starts = range(2 * PAGE, len(data), PAGE)
    return chance.choice([start for start in starts if kind in (None, _HEADER.unpack_from(data, start)[2])])


def _bit(data: bytearray, chance: Random) -> None:
    flip(data, chance, 0, len(data))


def _meta(data: bytearray, chance: Random) -> None:
    page = chance.randrange(2) * PAGE
    flip(data, chance, page, page + META_BYTES)


def _branch(data: bytearray, chance: Random) -> None:
    _structure(data, chance, BRANCH)


def _leaf(data: bytearray, chance: Random) -> None:
    _structure(data, chance, LEAF)


def _structure(data: bytearray, chance: Random, kind: int) -> None:
    """In the header of a page, or in the offsets of its records."""
    page = any_page(data, chance, kind)
    flip(data, chance, page, page + max(_HEADER.unpack_from(data, page)[3], 16))


def _zeroed(data: bytearray, chance: Random) -> None:
    page = any_page(data, chance)
    data[page : page + PAGE] = bytes(PAGE)


def _garbled(data: bytearray, chance: Random) -> None:
    page = any_page(data, chance)
    data[page : page + PAGE] = chance.randbytes(PAGE)


def _misplaced(data: bytearray, chance: Random) -> None:
    page, other = any_page(data, chance), any_page(data, chance)
    data[page : page + PAGE] = data[other : other + PAGE]


def _cut(data: bytearray, chance: Random) -> None:
    del data[chance.choice((chance.randrange(len(data)), chance.randrange(len(data) // PAGE) * PAGE)) :]


DAMAGES: dict[str, Damage] = {
    "one bit flipped anywhere": _bit,
    "one bit flipped in a meta page": _meta,
    "one bit flipped in the structure of a branch page": _branch,
    "one bit flipped in the structure of a leaf page": _leaf,
    "a page of zeros": _zeroed,
    "a page of garbage": _garbled,
    "a page in the place of another": _misplaced,
    "a file cut short": _cut,
}


def made(path: Path, chance: Random) -> None:
    """A frontier of some hundred pages, with everything in it and pages that were used before."""
    with Frontier.open(path, make_settings(hold_queues=False), clock=ManualClock(START)) as frontier:
        frontier.schedule_many(f"https://host{n % 60}.test/path/{n}?query={n}" for n in range(3000))
        for number in range(300):
            for lease in frontier.lease(3):
                frontier.finish(lease, chance.choice(list(Outcome)))
            if number % 50 == 0:
                frontier.retire(f"host{number % 60}.test")
                frontier.commit()
        frontier.lease(5)
        frontier.commit()


def content(path: Path) -> Any:
    """All that a frontier holds, as its readers see it."""
    with Reader(path) as reader:
        queues = list(reader.queues())
        pending = [reader.pending(queue.queue) for queue in queues]
        return reader.summary(), queues, pending, reader.future(), reader.dead_letters(), reader.audit()


def crawled(path: Path) -> bool:
    """Use it to the end, with new URIs on the way."""
    _say_nothing()
    with Frontier.open(path, clock=ManualClock(START)) as frontier:
        found = 0
        while leases := frontier.lease(64):
            for lease in leases:
                found += 1
                frontier.finish(lease, discovered=[f"https://new{found % 90}.test/{found}"] if found < 3000 else ())
            frontier.commit()
    return True


def verified(job: Path, *options: str) -> int:
    """The exit code of `budgetfrontier verify`."""
    _say_nothing()
    return main(["verify", str(job), *options])


def _say_nothing() -> None:
    """In a child: neither messages nor anybody's last words."""
    faulthandler.disable()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def damaged(what: str) -> Callable[[Path, Random, int], Figures]:
    """The fault of one kind of damage."""

    def fault(folder: Path, chance: Random, tries: int) -> Figures:
        figures = Figures(f"damage: {what}")
        source, job = folder / "source", folder / "job"
        made(source, chance)
        good, before = (source / "data.mdb").read_bytes(), content(source)
        for _ in range(tries):
            data = bytearray(good)
            DAMAGES[what](data, chance)
            shutil.rmtree(job, ignore_errors=True)
            shutil.copytree(source, job / "frontier")
            (job / "frontier" / "data.mdb").write_bytes(data)
            _judge(figures, job, in_child(lambda: verified(job)), bytes(data), before)
        return figures

    return fault


def _repair(figures: Figures, job: Path) -> None:
    """Repair it: then it is sound, and can be used to the end; or it is told why it cannot be."""
    copy = job.with_name("repaired")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(job, copy)
    ended = in_child(lambda: verified(copy, "--repair"))
    if ended.answer in (1, 6):
        figures.notes["beyond repair, and told so"] += 1
    elif ended.answer == 0 and in_child(lambda: verified(copy)).answer == 0:
        figures.notes["repaired"] += 1
        used = in_child(lambda: crawled(copy / "frontier"))
        if not used.answer:
            figures.problems.append(f"{figures.fault}, number {figures.tried}: repaired and used: {used}")
    else:
        figures.problems.append(f"{figures.fault}, number {figures.tried}: repair: {ended}, exit code {ended.answer}")


def _judge(figures: Figures, job: Path, ended: Ended, data: bytes, before: Any) -> None:
    figures.tried += 1
    path = job / "frontier"
    if (path / "data.mdb").read_bytes() != data:
        figures.problems.append(f"{figures.fault}: verify has changed the file")
    if ended.answer not in (0, 6):
        figures.problems.append(f"{figures.fault}, number {figures.tried}: verify: {ended}, exit code {ended.answer}")
    elif ended.answer:
        figures.named += 1
        _repair(figures, job)
    elif in_child(lambda: content(path) == before).answer:
        figures.whole += 1
    else:
        figures.notes["unnoticed"] += 1
    used = in_child(lambda: crawled(path))
    if used.signal:
        figures.notes["died of a signal when used"] += 1
        if ended.answer == 0:
            figures.problems.append(f"{figures.fault}, number {figures.tried}: verify found nothing, but {used}")
    elif not (used.answer or used.named):
        figures.problems.append(f"{figures.fault}, number {figures.tried}: used: {used}")
