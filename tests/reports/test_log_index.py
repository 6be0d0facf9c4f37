"""The index of a log: it answers as a search of the whole log would, and follows what becomes of the log."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from budgetfrontier.reports import log_index
from budgetfrontier.reports.log_index import LogIndex


def key_of(line: bytes) -> bytes:
    return line.partition(b" ")[0] if b" " in line else b""


def search(log: Path, key: bytes) -> list[bytes]:
    """Search without an index."""
    return [line for line in log.read_bytes().splitlines(keepends=True) if line[-1:] == b"\n" and key_of(line) == key]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of a log; segments are of 16 lines."""
    monkeypatch.setattr(log_index, "SEGMENT", 16)
    return tmp_path / "crawl.log"


def grow(log: Path, choose: random.Random, lines: int, keys: int = 30) -> None:
    with log.open("ab") as file:
        for _ in range(lines):
            key = b"" if choose.random() < 0.1 else b"key%d " % choose.randrange(keys)
            file.write(key + b"x" * choose.randrange(30) + b"%d\n" % choose.randrange(10**9))


def reading(index: LogIndex, key: bytes) -> tuple[list[bytes], int]:
    """Search; return the lines, and how many bytes were indexed for it."""
    sizes: list[int] = []
    return list(index.find(key, sizes.append)), sum(sizes)


def test_it_answers_as_a_search_of_the_log_while_the_log_grows(log: Path) -> None:
    choose = random.Random(1)
    log.touch()
    for _ in range(25):
        size = log.stat().st_size
        grow(log, choose, choose.choice((0, 1, 3, 15, 16, 17, 70)))
        for n in range(31):
            index = LogIndex(log, key_of)
            assert list(index.find(b"key%d" % n)) == search(log, b"key%d" % n)
            assert not index.rebuilt
        assert reading(LogIndex(log, key_of), b"key1")[1] == 0, (size, "nothing is indexed twice")
    segments = list(LogIndex(log, key_of).folder.glob("*.segment"))
    assert len(segments) <= 2 + len(log.read_bytes().splitlines()) // 16
    assert not list(LogIndex(log, key_of).folder.glob("*.partial"))


def test_an_incomplete_line_counts_once_it_is_complete(log: Path) -> None:
    log.write_bytes(b"a 1\nb 2\na 3")
    assert list(LogIndex(log, key_of).find(b"a")) == [b"a 1\n"]
    with log.open("ab") as file:
        file.write(b"3\n")
    assert list(LogIndex(log, key_of).find(b"a")) == [b"a 1\n", b"a 33\n"]


@pytest.mark.parametrize("change", ["truncated", "replaced", "rotated", "gone and back"])
def test_a_log_that_is_not_the_one_indexed_is_noticed(log: Path, change: str) -> None:
    choose = random.Random(2)
    grow(log, choose, 60)
    assert list(LogIndex(log, key_of).find(b"key1")) == search(log, b"key1")
    if change == "truncated":
        os.truncate(log, log.stat().st_size // 2)
    elif change == "replaced":  # by one of the same length
        log.write_bytes(log.read_bytes().replace(b"key1 ", b"key2 "))
    elif change == "rotated":
        log.rename(log.with_name("crawl.log.1"))
        grow(log, choose, 90)
    else:  # cut by a power failure, and continued beyond what was indexed
        os.truncate(log, log.stat().st_size - 7)
        with log.open("ab") as file:
            file.write(b"\n")
        grow(log, choose, 20)
    index = LogIndex(log, key_of)
    for n in range(30):
        assert list(index.find(b"key%d" % n)) == search(log, b"key%d" % n)
        assert index.rebuilt is (n == 0)


@pytest.mark.parametrize("damage", ["manifest.json", "segment"])
def test_a_damaged_index_is_built_anew(log: Path, damage: str) -> None:
    grow(log, random.Random(3), 40)
    index = LogIndex(log, key_of)
    list(index.find(b"key1"))
    for path in index.folder.glob(f"*{damage}"):
        path.write_bytes(path.read_bytes()[:-3])
    assert list(LogIndex(log, key_of).find(b"key1")) == search(log, b"key1")


@pytest.mark.parametrize("change", ['"upto":-5', '"upto":"a"', '"segments":[]', '"segments":[["lock",0]]'])
def test_a_manifest_that_makes_no_sense_is_written_anew(log: Path, change: str) -> None:
    grow(log, random.Random(3), 40)
    index = LogIndex(log, key_of)
    list(index.find(b"key1"))
    manifest = index.folder / "manifest.json"
    manifest.write_text(f'{{"version":1,"start":"","end":"",{change}}}')
    assert list(LogIndex(log, key_of).find(b"key1")) == search(log, b"key1")


def test_keys_of_equal_hashes_are_told_apart(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xxhash.xxh3_64_intdigest", lambda key: 7 << 40)
    grow(log, random.Random(4), 50, keys=3)
    for n in range(3):
        assert list(LogIndex(log, key_of).find(b"key%d" % n)) == search(log, b"key%d" % n)


@pytest.mark.parametrize("error", [PermissionError(13, "denied"), OSError(28, "No space left on device")])
def test_without_room_or_permission_the_whole_log_is_read(
    log: Path, error: OSError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> Iterator[None]:
        raise error

    grow(log, random.Random(5), 50)
    monkeypatch.setattr(log_index, "atomic_file", refuse)
    assert list(LogIndex(log, key_of).find(b"key1")) == search(log, b"key1")


def test_a_search_for_several_urls_finds_the_lines_of_each(log: Path) -> None:
    grow(log, random.Random(8), 200)
    wanted = [b"key1", b"key7", b"key29", b"key99"]
    found = list(LogIndex(log, key_of).find_all(wanted))
    assert [line for _, line in found] == [
        line for line in log.read_bytes().splitlines(keepends=True) if key_of(line) in wanted
    ]
    for key in wanted:
        assert [line for url, line in found if url == key] == search(log, key)


def test_a_search_at_once_indexes_a_segment_until_the_whole_log_is_indexed(log: Path) -> None:
    grow(log, random.Random(9), 40)  # two segments and a half
    sizes: list[int] = []
    complete = False
    while not complete:
        index = LogIndex(log, key_of)
        found = [line for _, line in index.find_all([b"key1"], sizes.append, at_once=True)]
        complete = index.complete
    assert found == search(log, b"key1")
    assert len(sizes) >= 3 and sizes == sorted(sizes, reverse=True)


def test_a_search_at_once_reads_no_log_that_cannot_be_indexed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Iterator[None]:
        raise PermissionError(13, "denied")

    grow(log, random.Random(10), 40)
    monkeypatch.setattr(log_index, "atomic_file", refuse)
    index = LogIndex(log, key_of)
    assert list(index.find_all([b"key1"], at_once=True)) == [] and not index.complete


def test_several_searches_at_once_build_one_index(log: Path) -> None:
    grow(log, random.Random(6), 300)
    found: list[list[bytes]] = []
    threads = [Thread(target=lambda: found.append(list(LogIndex(log, key_of).find(b"key1")))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [search(log, b"key1")] * 6


def test_the_index_is_as_open_as_the_folder(log: Path) -> None:
    log.parent.chmod(0o750)
    grow(log, random.Random(7), 20)
    index = LogIndex(log, key_of)
    list(index.find(b"key1"))
    old = os.umask(0)
    os.umask(old)
    assert index.folder.stat().st_mode & 0o777 == 0o750 & ~old
    assert {path.stat().st_mode & 0o777 for path in index.folder.iterdir()} == {0o640 & ~old}
