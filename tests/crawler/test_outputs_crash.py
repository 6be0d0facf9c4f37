"""What a crash, a power cut or a full disk leaves of the outputs: whole records, whole lines, and nothing claimed."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from budgetfrontier.core.model import Outcome
from budgetfrontier.crawler.outputs import Outputs
from budgetfrontier.crawler.outputs.append_only_files import GrowingFile, cut_incomplete_line
from budgetfrontier.crawler.outputs.logs import open_log
from budgetfrontier.crawler.outputs.warc import WarcFiles, recover, whole_records
from budgetfrontier.errors import FrontierLocked, OutputRemoved, StorageFull
from budgetfrontier.storage.file_locks import LockFile
from tests.crawler.conftest import FullDisk
from tests.crawler.warcs import Known, answer, lease, read, settings, sha1, write

# WARC files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[int]]:
    """A WARC file, and where its records begin and the file ends."""
    bodies = (b"", b"zeros" * 900, os.urandom(70))
    path = write(tmp_path_factory.mktemp("warcs"), *((lease(), answer(body)) for body in bodies))
    with path.open("rb") as file:
        records = ArchiveIterator(file)
        starts = [records.get_record_offset() for _ in records]
    return path.read_bytes(), [*starts, path.stat().st_size]


def test_cut_anywhere_every_whole_record_is_found(tmp_path: Path, whole: tuple[bytes, list[int]]) -> None:
    data, ends = whole
    path = tmp_path / "x"
    path.write_bytes(data)
    for size in range(len(data), -1, -1):
        os.truncate(path, size)
        assert whole_records(path) == max(end for end in ends if end <= size)


@examples(max_examples=40, deadline=None)
@given(cut_at=st.floats(0, 1), tail=st.one_of(st.binary(max_size=20), st.just(bytes(5000))))
def test_what_a_crash_left_open_is_cut_and_named(whole: tuple[bytes, list[int]], cut_at: float, tail: bytes) -> None:
    data, ends = whole
    found = data[: round(cut_at * len(data))] + tail
    left = max(end for end in ends if found[:end] == data[:end])  # zeros may be just what a record lacked
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.warc.gz.open").write_bytes(found)
        (folder / "b.warc.gz").write_bytes(b"finished, and none of its business")
        recover(folder)
        assert (folder / "b.warc.gz").read_bytes() == b"finished, and none of its business"
        assert not list(folder.glob("*.open"))
        kept = folder / "a.warc.gz"
        assert kept.exists() is (left > 0)
        if left:
            assert kept.read_bytes() == data[:left]
            assert len(read(kept)) == ends.index(left)


def test_a_bomb_in_a_file_left_open_takes_no_memory(tmp_path: Path) -> None:
    path = write(tmp_path, (lease(), answer(bytes(30_000_000))))
    size = path.stat().st_size
    assert whole_records(path) == size < 300_000


def test_a_job_goes_on_after_a_crash(tmp_path: Path) -> None:
    files = WarcFiles(tmp_path / "first", settings(), cache=Known())
    files.write(lease(), answer(), sha1(b"<p>hello"))
    files.sync()
    long = os.urandom(300_000)  # more than waits in memory: it is in the file in part, without its request
    files.write(lease(), answer(long), sha1(long))
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "first", killed)
    files.close()
    later = WarcFiles(killed, settings(), cache=Known())
    later.write(lease(), answer(), sha1(b"<p>hello"))
    later.close()
    first, second = sorted(killed.iterdir())
    assert len(read(second)) == 4
    assert [row["warc-type"] for row in read(first)][:4] == ["warcinfo", "response", "request", "metadata"]


# Lines


@given(lines=st.lists(st.binary(max_size=9).map(lambda line: line.replace(b"\n", b"")), max_size=5), half=st.binary())
def test_half_a_line_is_cut_off(lines: list[bytes], half: bytes) -> None:
    half = half.replace(b"\n", b"")
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "log"
        path.write_bytes(b"".join(line + b"\n" for line in lines) + half)
        cut_incomplete_line(path)
        assert path.read_bytes() == b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize("before", [b"", b"x\n", b"x\n" * 40_000])
def test_half_a_long_line_is_cut_off(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(before + b"y" * 200_000)
    cut_incomplete_line(path)
    assert path.read_bytes() == before


# The order on disk


class Disk:
    """Notes what is synced and renamed, in order, by file name."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        fsync, rename = os.fsync, Path.rename

        def noted_fsync(fd: int) -> None:
            self.done.append(Path(os.readlink(f"/proc/self/fd/{fd}")).name)
            fsync(fd)

        def noted_rename(path: Path, target: Path) -> Path:
            self.done.append(f"rename {path.name}")
            return rename(path, target)

        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(Path, "rename", noted_rename)

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc to tell which file a descriptor is")
    yield Disk(monkeypatch)


def test_sync_reaches_every_file_and_the_folders_of_new_ones(tmp_path: Path, disk: Disk) -> None:
    with Outputs(tmp_path, settings(statistics=0), cache=Known()) as outputs:
        assert disk.take() == ["logs", tmp_path.name]
        outputs.sync()
        assert disk.take() == []  # nothing was written
        outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
        [warc] = (tmp_path / "warcs").iterdir()
        assert warc.stat().st_size == 0 and disk.take() == []  # it waits for the commit
        outputs.sync()
        assert disk.take() == ["crawl.log", "pages.jsonl", warc.name, "warcs"]
        assert len(read(warc)) == 4 and len((tmp_path / "logs/crawl.log").read_text().splitlines()) == 1
        outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
        outputs.sync()
        assert disk.take() == ["crawl.log", "pages.jsonl", warc.name]
    assert disk.take() == [f"rename {warc.name}", "warcs"]


def test_a_file_is_whole_on_disk_before_it_has_its_own_name(tmp_path: Path, disk: Disk) -> None:
    files = WarcFiles(tmp_path, settings(warc_size=1), cache=Known())
    files.write(lease(), answer(), sha1(b"<p>hello"))
    [first] = tmp_path.iterdir()
    files.write(lease(), answer(), sha1(b"<p>hello"))
    assert disk.take() == [first.name, f"rename {first.name}"]
    files.sync()
    assert disk.take()[1:] == [tmp_path.name]
    files.close()


# Folders that two crawls reach


def test_crawls_that_share_a_folder_of_warc_files_leave_the_open_ones_of_each_other_alone(tmp_path: Path) -> None:
    (tmp_path / "warcs").mkdir()
    (tmp_path / "link").symlink_to("warcs")
    files = [WarcFiles(tmp_path / name, settings(), cache=Known()) for name in ("warcs", "link")]
    for _ in range(2):
        for each in files:
            each.write(lease(), answer(), sha1(b"<p>hello"))
            each.sync()
        recover(tmp_path / "link")  # as a third one does
    assert len(list(tmp_path.glob("warcs/*.open"))) == 2
    for each in files:
        each.close()
    assert [len(read(path)) for path in (tmp_path / "warcs").iterdir()] == [7, 7]


def test_a_warc_file_that_its_crawl_finishes_during_the_recovery_of_another_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = WarcFiles(tmp_path, settings(), cache=Known())
    files.write(lease(), answer(), sha1(b"<p>hello"))

    def finished_meanwhile(*_: object) -> list[Path]:
        found = list(tmp_path.iterdir())
        files.close()
        return found

    monkeypatch.setattr(Path, "glob", finished_meanwhile)
    recover(tmp_path)
    [path] = tmp_path.iterdir()
    assert path.suffix == ".gz" and len(read(path)) == 4


def test_a_new_file_that_the_recovery_of_another_crawl_removes_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, removed = LockFile.lock, list[Path]()

    def slow(file: LockFile, byte: int) -> bool:
        if not removed:
            removed.append(tmp_path / "x")
            removed[0].unlink()
        return lock(file, byte)

    monkeypatch.setattr(LockFile, "lock", slow)
    with closing(GrowingFile(tmp_path / "x")) as file:
        file.write(b"abc")
    assert removed and (tmp_path / "x").read_bytes() == b"abc"


def test_a_log_that_another_crawl_is_writing_is_neither_cut_nor_continued(tmp_path: Path) -> None:
    (tmp_path / "a" / "logs").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "logs").symlink_to("../a/logs")
    with Outputs(tmp_path / "a", settings(warc=False), cache=Known()) as outputs:
        outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
        outputs.sync()
        with (tmp_path / "a" / "logs" / "crawl.log").open("ab") as log:
            log.write(b"half a li")
        with pytest.raises(FrontierLocked, match=re.escape(f"another crawl, in {tmp_path / 'a' / 'logs'}: stop")):
            Outputs(tmp_path / "b", settings(warc=False), cache=Known())
        outputs.sync()
    with Outputs(tmp_path / "b", settings(warc=False), cache=Known()):
        assert len((tmp_path / "a" / "logs" / "crawl.log").read_text().splitlines()) == 1


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EIO])
def test_on_a_file_system_without_locks_outputs_are_not_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def failing(file: LockFile, byte: int) -> bool:
        raise OSError(code, "no")

    monkeypatch.setattr(LockFile, "lock", failing)
    if code == errno.EIO:
        with pytest.raises(OSError, match="no"):
            GrowingFile(tmp_path / "x")
        return
    with closing(GrowingFile(tmp_path / "x")) as file:
        file.write(b"abc")
    assert (tmp_path / "x").read_bytes() == b"abc"


# Files that somebody removes, replaces or renames


def test_a_log_that_is_renamed_is_continued_in_a_new_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.log"
    file = open_log(path, head=b"head\n")
    file.write(b"1\n")
    file.sync()
    path.rename(tmp_path / "x.log.1")
    file.write(b"2\n")
    file.sync()
    file.write(b"3\n")
    path.rename(tmp_path / "x.log.2")
    path.touch()  # as `create` of logrotate does
    rest = file.begin_sync()
    assert rest is None or rest() is None
    file.write(b"4\n")
    file.close()
    texts = {each.name: each.read_text() for each in tmp_path.iterdir()}
    assert texts == {"x.log.1": "head\n1\n2\n", "x.log.2": "head\n3\n", "x.log": "head\n4\n"} and file.size == 7
    assert caplog.text.count(f"{path} was renamed") == 2


@pytest.mark.parametrize("how", ["removed", "replaced", "truncated", "folder"])
@pytest.mark.parametrize("rotates", [True, False])
def test_a_file_that_was_removed_replaced_or_truncated_is_never_said_to_be_synced(
    tmp_path: Path, how: str, rotates: bool
) -> None:
    folder, path = tmp_path / "logs", tmp_path / "logs" / "x"
    folder.mkdir()
    file = GrowingFile(path, rotates=rotates)
    file.write(b"abc")
    file.sync()
    match how:
        case "truncated":
            os.truncate(path, 0)
        case "folder":
            folder.rename(tmp_path / "moved")
        case _:
            path.unlink()
            if how == "replaced":
                path.write_bytes(b"another")
    for attempt in (file.begin_sync, file.sync, file.close, file.sync):
        with pytest.raises(OutputRemoved, match=re.escape(f"{path} was ")):
            attempt()


def test_a_warc_file_that_was_renamed_is_not_continued(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path, settings(), cache=Known())
    outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
    (path,) = tmp_path.glob("warcs/*.open")
    path.rename(path.with_suffix(""))
    for attempt in (outputs.begin_sync, outputs.sync, outputs.close):
        with pytest.raises(OutputRemoved, match="was removed"):
            attempt()


# A full disk


def test_a_full_disk_says_so() -> None:
    file = GrowingFile(Path("/dev/full"))
    file.write(b"x")
    for _ in range(2):
        with pytest.raises(StorageFull, match="/dev/full is full; free some space and try again"):
            file.sync()
    for ended in (file.close, file.sync, file.close):  # for ever: nobody may commit
        with pytest.raises(StorageFull):
            ended()


def test_an_error_of_the_system_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = GrowingFile(tmp_path / "x")
    file.write(b"abc")

    def limited(fd: int, data: Any) -> int:
        raise OSError(errno.EFBIG, "File too large")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", limited)
        with pytest.raises(OSError, match="File too large") as raised:
            file.sync()
    assert raised.value.filename == str(tmp_path / "x")
    file.close()


def test_what_a_full_disk_did_not_take_is_written_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = GrowingFile(tmp_path / "x")
    disk = FullDisk(3)
    monkeypatch.setattr(os, "write", disk.write)
    file.write(b"abcdef")
    with pytest.raises(StorageFull):
        file.flush()
    disk.room = 100
    file.write(b"ghi")
    for _ in range(2):
        file.close()
    assert (tmp_path / "x").read_bytes() == b"abcdefghi" and file.size == 9


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_sync_that_failed_once_is_never_believed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    file = GrowingFile(tmp_path / "x")
    file.write(b"abc")

    def failing(fd: int) -> None:
        raise OSError(code, "no")

    kind = OSError if code == errno.EIO else StorageFull
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with pytest.raises(kind):
            file.sync()
    for attempt in (file.sync, file.close, file.sync):
        with pytest.raises(kind):
            attempt()


def test_a_warc_file_that_could_not_be_ended_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = Outputs(tmp_path, settings(), cache=Known())
    outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)
    outputs.sync()
    outputs.write(lease(), answer(), Outcome.SUCCESS, slot=1)

    def full(fd: int, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StorageFull):
            outputs.close()
    with pytest.raises(StorageFull):
        outputs.sync()
    assert [path.suffix for path in (tmp_path / "warcs").iterdir()] == [".open"]
    with Outputs(tmp_path, settings(), cache=Known()):
        [path] = (tmp_path / "warcs").iterdir()
        assert path.suffix == ".gz" and len(read(path)) == 4
