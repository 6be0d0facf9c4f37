"""Small disks that fill up, can only be read any more, fail to write, or lose their power while they are in use."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.crash.faults import STRACE, AtCall, NoFault, die
from tests.crash.figures import Figures, Unavailable
from tests.crash.kills import (
    CHAPTER,
    WRITING,
    adjusting,
    begun,
    histories,
    how_long,
    many_retired,
    repeated,
    to_the_end,
)
from tests.crash.processes import Ended, Go
from tests.crash.runs import BEGUN, COMMITTED, CUT, Events, Fault, Subject, at_boundary, reopened, run_process
from tests.crash.workload import plan

PAGE = 4096
_EXT4_SHUTDOWN = (2 << 30) | (4 << 16) | (ord("X") << 8) | 125  # EXT4_IOC_SHUTDOWN
_DROP_ALL = struct.pack("I", 2)  # EXT4_GOING_FLAGS_NOLOGFLUSH


def _run(*command: str) -> None:
    """Run a command that only root may, and not in every container."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not installed")
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise Unavailable(f"{' '.join(command[:3])}: {done.stderr.strip()}")


@dataclass
class Disk:
    """A small file system of its own."""

    folder: Path
    image: Path | None = None

    def mount(self, *, size: int = 0) -> None:
        if self.image is None:
            _run("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.folder))
        else:
            _run("mount", "-o", "loop,errors=remount-ro", str(self.image), str(self.folder))

    def unmount(self) -> None:
        lazily = ["-l"] if self.image is None else []  # an error that is kept may keep a file open; nothing is lost
        subprocess.run(["umount", *lazily, str(self.folder)], check=True, capture_output=True)

    def restart(self) -> None:
        """Bring back the one that could only be read, or had no power."""
        self.unmount()
        self.mount()

    def fill(self, free: int) -> None:
        """Leave so many pages free."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(16 * PAGE)):
                pass
        os.truncate(filler, max(filler.stat().st_size // PAGE - free, 0) * PAGE)

    def clear(self) -> None:
        """Make room again."""
        (self.folder / "filler").unlink(missing_ok=True)

    def only_read(self) -> None:
        """What Linux does to a file system that it finds damaged: files open for writing are no exception."""
        _run("mount", "-o", "remount,abort", str(self.folder))

    def cut_power(self) -> None:
        """Nothing reaches the disk any more, not even what was written and not yet synced."""
        root = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _EXT4_SHUTDOWN, _DROP_ALL)
        finally:
            os.close(root)


@contextmanager
def disk(folder: Path, kind: str, *, size: int = 8 << 20) -> Iterator[Disk]:
    """A disk of `size` bytes: "tmpfs", or "ext4" in a file."""
    made = Disk(folder / kind, folder / "image" if kind == "ext4" else None)
    made.folder.mkdir()
    if made.image is not None:
        with made.image.open("wb") as file:
            file.truncate(size)
        _run("mkfs.ext4", "-q", "-F", str(made.image))
    made.mount(size=size)
    try:
        yield made
    finally:
        made.unmount()


@contextmanager
def disk_or_skip(folder: Path, *, size: int) -> Iterator[Disk]:
    """A disk in memory, for a test that is skipped where there can be none."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(disk(folder, "tmpfs", size=size))
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield made


# -- faults


@dataclass
class AtDisk(NoFault):
    """Something is done to the disk as the `number`th commit begins (0: before the frontier is opened), and undone."""

    do: Callable[[], object]
    undo: Callable[[], object]
    number: int = 0
    lasting = True
    fails = True

    def arm(self, events: Events) -> None:
        if self.number == 0:
            self.do()
        events.trap(BEGUN, self.number, self.do)

    def clear(self) -> None:
        self.undo()


@dataclass
class Limited(NoFault):
    """Files may not grow beyond their size by more than some pages: writing fails as with a broken disk (EFBIG)."""

    file: Path
    pages: int
    fails = True

    def arm(self, events: Events) -> None:
        size = self.file.stat().st_size if self.file.exists() else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + self.pages * PAGE, resource.RLIM_INFINITY))


@dataclass
class PowerCut(NoFault):
    """The disk loses its power some time after the process began, and the process dies with it."""

    disk: Disk
    delay: float

    def inject(self, pid: int, go: Go, events: Events) -> None:
        _run("sync", "--file-system", str(self.disk.folder))
        go()
        time.sleep(self.delay)
        events.send(CUT)
        self.disk.cut_power()
        os.kill(pid, signal.SIGKILL)

    def accepts(self, ended: Ended) -> bool:
        """A process may see the disk go before it goes itself."""
        return not ended.hung

    def clear(self) -> None:
        self.disk.restart()


@dataclass
class PowerCutAt(NoFault):
    """The disk loses its power, and the process dies, at the `number`th event of a kind."""

    disk: Disk
    kind: bytes
    number: int

    def arm(self, events: Events) -> None:
        def cut() -> None:
            self.disk.cut_power()
            die()

        events.trap(self.kind, self.number, cut)

    def clear(self) -> None:
        self.disk.restart()


# -- the faults


def full(folder: Path, chance: Random, tries: int) -> Figures:
    """Some pages are left before the opening, or when a commit begins."""
    figures = Figures("disk full at opening and during commits")
    for kind in "tmpfs", "ext4":
        with disk(folder, kind) as small:
            histories(figures, small.folder, chance, tries // 2, repeated(lambda: _filling(small, chance)))
    return figures


def _filling(small: Disk, chance: Random) -> AtDisk:
    free = chance.randrange(5)
    return AtDisk(lambda: small.fill(free), small.clear, chance.randint(0, 6))


def full_while_adjusting(folder: Path, chance: Random, tries: int) -> Figures:
    """More and more pages are left for an `adjust` that revives many queues."""
    figures = Figures("disk full during an adjust that revives 500 queues")
    with disk(folder, "tmpfs") as small:
        subject = many_retired(small.folder, chance, 500)
        steps = adjusting(subject)
        for number in range(tries):
            fault = AtDisk(lambda free=number: small.fill(free), small.clear, 2)  # type: ignore[misc]
            figures.count(run_process(subject.copied(small.folder / "copy"), steps, fault))
    return figures


def errors(folder: Path, chance: Random, tries: int) -> Figures:
    """A system call of a commit fails with an input/output error, once or from then on."""
    if STRACE is None:
        raise Unavailable("strace is not installed")
    figures = Figures("input/output errors in system calls of a commit")

    def failing() -> AtCall:
        then = chance.choice(("", "+"))
        error = chance.choice(("error=EIO", "error=ENOSPC"))
        return AtCall(chance.choice(WRITING), f"{chance.randint(1, 10)}{then}", error)

    histories(figures, folder, chance, tries, repeated(failing))
    return figures


def limited(folder: Path, chance: Random, tries: int) -> Figures:
    """The system refuses to let a file grow."""
    figures = Figures("writes refused beyond a file size (EFBIG)")
    while figures.tried < tries:
        subject = Subject.new(folder / "frontier", chance).copied(folder / "frontier")
        for _ in range(min(CHAPTER, tries - figures.tried)):
            data = subject.folder / "data.mdb"
            outcome = run_process(subject, plan(subject.after(), chance, 40), Limited(data, chance.randrange(8)))
            figures.count(outcome)
            subject = outcome.subject
            if outcome.problem:
                return figures
        to_the_end(figures, subject)
    return figures


def only_read(folder: Path, chance: Random, tries: int) -> Figures:
    """The file system turns read-only under a running frontier, as Linux does with one that it finds damaged."""
    figures = Figures("read-only remount while running")
    with disk(folder, "ext4") as small:
        faults = repeated(lambda: AtDisk(small.only_read, small.restart, chance.randint(0, 12)))
        histories(figures, small.folder, chance, tries, faults)
    return figures


def power_cuts(folder: Path, chance: Random, tries: int) -> Figures:
    """The disk keeps only what was synced."""
    figures = Figures("power cuts (ext4 shut down, nothing flushed)")

    def cut() -> Fault:
        if chance.random() < 0.4:
            return PowerCut(small, chance.uniform(0.0, seconds))
        return PowerCutAt(small, chance.choice((BEGUN, COMMITTED, COMMITTED)), chance.randint(1, 12))

    with disk(folder, "ext4") as small:
        seconds = how_long(small.folder, chance)
        histories(figures, small.folder, chance, tries, repeated(cut))
    return figures


@dataclass
class Watched(NoFault):
    """The data file is kept as it is when a commit begins and when it has returned."""

    data: Path
    kept: Path

    def arm(self, events: Events) -> None:
        for number in range(1, 200):
            events.trap(BEGUN, number, lambda n=number: shutil.copy(self.data, self.kept / f"{n}-begun"))  # type: ignore[misc]
            events.trap(COMMITTED, number, lambda n=number: shutil.copy(self.data, self.kept / f"{n}-committed"))  # type: ignore[misc]


def torn(folder: Path, chance: Random, tries: int) -> Figures:
    """The power fails in the middle of a commit: of the pages it writes, any may have reached the disk."""
    figures = Figures("power cuts within a commit (some of its pages written)")
    kept = folder / "kept"
    while figures.tried < tries:
        subject = begun(folder, chance, commit_operations=chance.choice((3, 10)))
        steps = plan(subject.after(), chance, 40)
        copy = subject.copied(folder / "copy")
        data = copy.folder / "data.mdb"
        kept.mkdir()
        outcome = run_process(copy, steps, Watched(data, kept))
        assert outcome.done and not outcome.problem, outcome
        boundaries: list[int | None] = [None, *(step for kind, step in outcome.events if kind == COMMITTED)]
        for number in range(1, len(boundaries)):
            last, this = boundaries[number - 1 : number + 1]
            assert this is not None
            if this >= 0 and steps[this].op == "post":
                continue  # its command has left the mailbox by now
            old, new = ((kept / f"{number}-{what}").read_bytes() for what in ("begun", "committed"))
            whole = chance.random() < 0.2
            data.write_bytes(new if whole else _some_pages(old, new, chance))
            now = steps[this].now if this >= 0 else 0.0
            _, problem = reopened(copy, [at_boundary(subject, steps, this if whole else last, now)])
            figures.tried += 1
            figures.whole += not problem
            if problem:
                figures.problems.append(f"{figures.fault}: commit {number}, {problem}")
        shutil.rmtree(kept)
    return figures


def _some_pages(old: bytes, new: bytes, chance: Random) -> bytes:
    """A file of which a commit has written some pages, but not yet the one that names them all: page 0 or 1."""
    mixed = bytearray(old) + bytes(len(new) - len(old))
    for start in range(2 * PAGE, len(new), PAGE):
        if chance.random() < 0.5:
            mixed[start : start + PAGE] = new[start : start + PAGE]
    return bytes(mixed[: chance.randrange(len(old), len(new) + 1)])
