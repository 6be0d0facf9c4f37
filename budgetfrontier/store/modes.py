"""File modes: what is made may be read by its owner, and by whoever may enter the folder that it is made in.

A crawl's files hold what pages and settings hold, passwords in URLs among them. The umask counts on top, as always; and
what is there already keeps its mode, so that an operator's chmod of a folder decides for all that is made in it later.
"""

from __future__ import annotations

import os
from pathlib import Path

OWNER = 0o700


def make_folder(path: Path, *, like: Path | None = None) -> None:
    """Make a folder, and those above it, unless it is there: as open as the folder `like`, else for its owner alone."""
    if not path.is_dir():
        mode = like.stat().st_mode & 0o777 if like is not None and like.is_dir() else OWNER
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=mode, exist_ok=True)


def file_mode(folder: Path) -> int:
    """Return the mode of a new file in a folder: who may enter it may read it, and write it if the folder says so."""
    try:
        return folder.stat().st_mode & 0o666
    except OSError:  # whoever opens the file will say what is wrong
        return OWNER & 0o666


def opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file as `open(..., opener=opener)` asks: a new one has the mode that its folder gives it."""
    return os.open(path, flags, file_mode(Path(path).parent))
