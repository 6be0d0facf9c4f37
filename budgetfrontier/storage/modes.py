"""File modes: new files can be read by their owner, and by everybody who may enter their folder.

The files of a crawl contain pages and settings, and may contain passwords, for example in URLs. The umask applies too.
Existing files and folders keep their modes, so that a chmod of a folder applies to all files created in it later.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OWNER = 0o700


def make_folder(path: Path, *, like: Path | None = None) -> None:
    """Make a folder and its parents unless it exists, with the mode of the folder `like`, or for its owner alone."""
    if not path.is_dir():
        mode = like.stat().st_mode & 0o777 if like is not None and like.is_dir() else OWNER
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=mode, exist_ok=True)


def make_folder_no_link(path: Path, *, like: Path) -> None:
    """Make a folder unless it exists. Raises OSError if a link is in its place, which others may have put there."""
    if path.is_symlink():
        raise NotADirectoryError(errno.ENOTDIR, "a link is not followed: put a folder in its place", os.fspath(path))
    make_folder(path, like=like)


@contextmanager
def folder_for(path: Path) -> Iterator[None]:
    """Make a folder and its parents unless it exists; an error in the block removes those made that are empty."""
    made = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # something is in it
            for folder in made:
                folder.rmdir()
        raise


def file_mode(folder: Path) -> int:
    """Return the mode of a new file in a folder: that of the folder, without execution."""
    try:
        return folder.stat().st_mode & 0o666
    except OSError:  # opening the file will raise the error
        return OWNER & 0o666


def opener(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file, for `open(..., opener=opener)`: a new one has the mode that its folder implies."""
    return os.open(path, flags, file_mode(Path(path).parent))
