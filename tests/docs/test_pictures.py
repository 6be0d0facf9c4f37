"""The pictures of the manual are those that `make screenshots` takes, each shown and none too large."""

from __future__ import annotations

import re

from tests.tools.console.screenshots import FOLDER, LARGEST, NAMES, ROOT


def test_each_picture_is_taken_by_the_script_shown_in_the_manual_and_small() -> None:
    shown = set()
    for page in (ROOT / "docs").rglob("*.md"):
        shown |= set(re.findall(r"!\[[^\]]+\]\((?:\.\./)?screenshots/([^)]+)\)", page.read_text(encoding="utf-8")))
    assert shown == NAMES
    assert {path.name: path.stat().st_size for path in FOLDER.iterdir() if path.stat().st_size > LARGEST} == {}
    assert {path.name for path in FOLDER.iterdir()} == NAMES


def test_no_picture_refers_to_anything_elsewhere() -> None:
    text = (FOLDER / "top.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'\s<]+", text)) <= {"http://www.w3.org/2000/svg", "https://www.textualize.io"}
