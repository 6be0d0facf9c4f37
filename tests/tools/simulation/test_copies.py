"""Copies of frontiers for simulations: where they are made, and that none is left."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.errors import StorageFull
from budgetfrontier.tools.simulation import copies

Usage = namedtuple("Usage", ("total", "used", "free"))
GIB = 1 << 30


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[Path, int]:
    """The bytes that are free in memory and in TMPDIR, which a test may change."""
    memory, disk = tmp_path / "memory", tmp_path / "disk"
    memory.mkdir()
    disk.mkdir()
    free = {memory: 10 * GIB, disk: 10 * GIB}
    monkeypatch.setattr(copies, "MEMORY", memory)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(disk))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Usage(0, 0, free[Path(folder)]))
    monkeypatch.setattr(copies, "_available", lambda: free[memory])
    return free


def test_small_ones_are_in_memory_and_large_ones_on_disk(room: dict[Path, int], tmp_path: Path) -> None:
    assert copies.place(GIB, 2).folder == tmp_path / "memory"
    assert copies.place(2 * GIB, 2) == (tmp_path / "disk", 10 * GIB, 10 * GIB)
    assert copies.place(GIB, 2, memory=GIB).folder == tmp_path / "disk"
    assert copies.place(2 * GIB, 2, memory=10 * GIB).folder == tmp_path / "memory"


def test_without_room_nothing_is_copied(room: dict[Path, int], tmp_path: Path) -> None:
    room[tmp_path / "disk"] = GIB
    with pytest.raises(StorageFull, match=r"may need 20\.0 GiB .* TMPDIR"):
        copies.place(4 * GIB, 2)


def test_copies_are_frontiers_and_none_is_left(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://host.test/")
    with (
        pytest.raises(KeyboardInterrupt),
        Reader(tmp_path / "frontier") as reader,
        copies.copied(reader.backup, 2, tmp_path) as folders,
    ):
        for folder in folders:
            with Frontier.open(folder) as copy:
                assert copy.summary().queued == 1
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["frontier"]


COPYING = """
import sys
from pathlib import Path
from budgetfrontier import Reader
from budgetfrontier.tools.simulation import copies
with Reader(Path(sys.argv[1])) as reader, copies.copied(reader.backup, 1, Path(sys.argv[2])):
    print("copied", flush=True)
    sys.stdin.read()
"""


def test_the_copies_of_a_killed_simulation_are_removed_by_the_next(room: dict[Path, int], tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://host.test/")
    (memory / "budgetfrontier-simulate-file").touch()
    (memory / "budgetfrontier-simulate-link").symlink_to(tmp_path / "frontier")
    arguments = [sys.executable, "-c", COPYING, str(tmp_path / "frontier"), str(memory)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"copied\n"
        copies.remove_abandoned()
        assert len(list(memory.glob("*/0/data.mdb"))) == 1, "the process lives"
        process.kill()
    assert len(list(memory.glob("*/0/data.mdb"))) == 1
    copies.remove_abandoned()
    assert {path.name for path in memory.iterdir()} == {"budgetfrontier-simulate-file", "budgetfrontier-simulate-link"}
    assert (tmp_path / "frontier" / "data.mdb").exists()
