"""The pictures of manual and README are those that `make screenshots` takes, each shown and none too large."""

from __future__ import annotations

import re

from PIL import Image

from tests.tools.console.demo_job import ROOT
from tests.tools.console.moving_picture import LARGEST_MOVING, MOVING
from tests.tools.console.screenshots import FOLDER, LARGEST, NAMES


def test_each_picture_is_taken_by_the_script_shown_and_small() -> None:
    shown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        shown |= set(re.findall(r"!\[[^\]]+\]\([^)]*\bscreenshots/([^)]+)\)", page.read_text(encoding="utf-8")))
    assert shown == NAMES
    sizes = {path.name: path.stat().st_size for path in FOLDER.iterdir()}
    assert sizes.keys() == NAMES
    assert sizes.pop(MOVING) <= LARGEST_MOVING
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_the_moving_picture_moves_for_ten_seconds_or_more_and_begins_again() -> None:
    with Image.open(FOLDER / MOVING) as picture:
        assert picture.info["loop"] == 0 and picture.width == 800
        durations = []
        for frame in range(getattr(picture, "n_frames", 1)):
            picture.seek(frame)
            durations.append(picture.info["duration"])
    assert len(durations) > 10 and 10_000 <= sum(durations) <= 25_000


def test_no_picture_refers_to_anything_elsewhere() -> None:
    text = (FOLDER / "top.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
