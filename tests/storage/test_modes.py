"""File modes: what is made is as open as the folder that it is made in."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier.storage.modes import file_mode, folder_for, make_folder, opener

pytestmark = pytest.mark.usefixtures("usual_umask")


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_folder_is_for_its_owner_alone_or_as_open_as_another(tmp_path: Path) -> None:
    make_folder(tmp_path / "job" / "frontier")
    assert mode(tmp_path / "job" / "frontier") == 0o700
    (tmp_path / "open").mkdir(mode=0o755)
    make_folder(tmp_path / "open" / "logs", like=tmp_path / "open")
    make_folder(tmp_path / "open" / "other", like=tmp_path / "none")
    assert (mode(tmp_path / "open" / "logs"), mode(tmp_path / "open" / "other")) == (0o755, 0o700)


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir(mode=0o750)
    make_folder(tmp_path / "job")
    assert mode(tmp_path / "job") == 0o750


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o755, 0o644), (0o750, 0o640)])
def test_a_new_file_may_be_read_by_whoever_may_enter_its_folder(tmp_path: Path, folder: int, file: int) -> None:
    (tmp_path / "job").mkdir(mode=folder)
    with open(tmp_path / "job" / "log", "w", opener=opener):
        assert mode(tmp_path / "job" / "log") == file


def test_a_folder_that_is_not_there_gives_the_owner_alone(tmp_path: Path) -> None:
    assert file_mode(tmp_path / "none") == 0o600


def test_a_folder_for_what_fails_is_removed_with_those_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "all" / "jobs"
    with pytest.raises(OSError, match="busy"), folder_for(path):
        assert path.is_dir()
        raise OSError("busy")
    assert not list(tmp_path.iterdir())
    with folder_for(path):
        pass
    with pytest.raises(OSError, match="busy"), folder_for(path):
        raise OSError("busy")
    assert path.is_dir()  # it was there before
    with pytest.raises(OSError, match="busy"), folder_for(path / "a"):
        (path / "a" / "file").touch()
        raise OSError("busy")
    assert (path / "a" / "file").exists()
