"""Disks that a crawl fills."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from budgetfrontier.storage.disks import NEW_FRONTIER, filled_disks, folder_disk


def test_the_folders_of_one_disk_count_together_and_others_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {}
    for number, name in enumerate(("frontier", "logs", "warcs"), 1):
        file = tmp_path / name / "file"
        file.parent.mkdir()
        file.write_bytes(os.urandom(10_000 * number))
        sizes[name] = file.stat().st_blocks * 512
    (one,) = filled_disks(tmp_path / "frontier")
    assert (one.name, one.frontier, one.outputs) == ("disk", sizes["frontier"], sizes["logs"] + sizes["warcs"])
    real = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(
        "shutil.disk_usage", lambda folder: real._replace(total=1, free=2) if folder.name == "warcs" else real
    )
    here, there = filled_disks(tmp_path / "frontier")
    assert (here.name, here.outputs) == ("disk", sizes["logs"])
    assert (there.name, there.free, there.frontier, there.outputs) == ("disk of warcs", 2, 0, sizes["warcs"])


def test_the_disk_of_a_workers_folder_has_what_all_its_frontiers_have_grown_by(tmp_path: Path) -> None:
    for number, size in enumerate((NEW_FRONTIER // 2, NEW_FRONTIER + 8192, 3 * NEW_FRONTIER)):
        file = tmp_path / f"partition-{number:04}" / "frontier" / "data.mdb"
        file.parent.mkdir(parents=True)
        file.write_bytes(os.urandom(size))
    (tmp_path / "lock").write_bytes(b"")
    found = folder_disk(tmp_path)
    assert found.grown == 8192 + 2 * NEW_FRONTIER and found.free > 0
    assert folder_disk(tmp_path / "partition-0000").disk == found.disk
