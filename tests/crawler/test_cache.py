"""The cache of a crawl: what it gives back, what survives a kill, and what becomes of a damaged one."""

from __future__ import annotations

import errno
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import lmdb
import pytest

from budgetfrontier import CrawlUri, Frontier, Reader
from budgetfrontier.crawler import cache
from budgetfrontier.crawler.cache import KEPT, CrawlCache, Original, StoredRobots
from budgetfrontier.errors import CorruptFrontier, FrontierError, FrontierLocked, StorageFull
from budgetfrontier.storage.backup import CACHE, compact
from budgetfrontier.storage.repair.repair_steps import repair
from tests.support import PATIENCE

SITE = "https://example.org:8443"
RULES = StoredRobots(200, 86400.0, b"User-agent: *\nDisallow: /private\n")
ORIGINAL = Original("https://example.org/a", "2026-01-01T00:00:00Z", "<urn:uuid:0>")
DIGEST = bytes(range(20))


def test_what_was_put_is_there_at_once_and_after_a_commit(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path / "crawl")) as made:
        assert made.robots(SITE) is None and made.original(DIGEST) is None
        made.put_robots(SITE, RULES, now=0.0)
        made.put_original(DIGEST, ORIGINAL)
        assert (made.robots(SITE), made.original(DIGEST)) == (RULES, ORIGINAL)
        made.commit()
    with closing(CrawlCache(tmp_path / "crawl")) as made:
        assert (made.robots(SITE), made.original(DIGEST)) == (RULES, ORIGINAL)
        made.put_robots(SITE, StoredRobots(404, 2.0, b""), now=0.0)  # not committed
    with closing(CrawlCache(tmp_path / "crawl")) as made:
        assert made.robots(SITE) == RULES


def test_the_first_record_of_some_content_stays(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path)) as made:
        made.put_original(DIGEST, ORIGINAL)
        made.put_original(DIGEST, ORIGINAL._replace(url="https://example.org/b"))
        assert made.original(DIGEST) == ORIGINAL


def test_what_the_crawl_has_used_is_kept(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path)) as made:
        assert made.used() == (0.0, 0)
        made.put_used(1.5, 10**15)
        made.commit()
    with closing(CrawlCache(tmp_path)) as made:
        assert made.used() == (1.5, 10**15)


def test_what_a_robots_txt_led_to_is_kept_until_the_commit_after_next(tmp_path: Path) -> None:
    found = [CrawlUri(f"{SITE}/map.xml", via=f"{SITE}/robots.txt", hops="PI", meta={"seed": SITE})]
    with closing(CrawlCache(tmp_path)) as made:
        made.put_found(found)
        made.commit()
    with closing(CrawlCache(tmp_path)) as made:
        assert made.found() == found
        made.put_used(1.0, 1)
        made.commit()  # the frontier may not have committed yet what it was told of again
    with closing(CrawlCache(tmp_path)) as made:
        assert made.found() == found
        for seconds in 1.0, 2.0:
            made.put_used(seconds, 1)
            made.commit()
    with closing(CrawlCache(tmp_path)) as made:
        assert made.found() == []


def test_the_largest_robots_txt_and_the_longest_key_fit(tmp_path: Path) -> None:
    body = random.Random(1).randbytes(500 * 1024)
    with closing(CrawlCache(tmp_path)) as made:
        for site in SITE, "https://" + "a" * 5000, "https://" + "a" * 5001:
            made.put_robots(site, StoredRobots(200, len(site), body), now=0.0)
            made.commit()
            assert made.robots(site) == StoredRobots(200, len(site), body)


def test_a_commit_is_due_before_much_lies_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_WRITTEN", 1 << 20)
    with closing(CrawlCache(tmp_path)) as made:
        due = []
        for number in range(cache.MOST_PUT):
            due.append(made.due)
            made.put_original(number.to_bytes(20), ORIGINAL)
        due.append(made.due)
        assert due == [False] * cache.MOST_PUT + [True]
        made.commit()
        due = [made.due]
        body = random.Random(1).randbytes(cache.MOST_WRITTEN)
        made.put_robots(SITE, StoredRobots(200, 0.0, body), now=0.0)
        assert [*due, made.due] == [False, True]


def test_robots_txt_files_that_expired_long_ago_are_forgotten(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path)) as made:
        for number in range(20):
            made.put_robots(f"http://old{number}.test", StoredRobots(200, 1.0, b""), now=0.0)
        for number in range(30):
            made.put_robots(f"http://new{number}.test", StoredRobots(200, KEPT, b""), now=1.0 + KEPT)
        assert made.robots("http://old0.test") is not None  # still of use when its host does not answer
        for number in range(30):
            made.put_robots(f"http://new{number}.test", StoredRobots(200, 2 * KEPT, b""), now=2.0 + KEPT)
        assert [number for number in range(20) if made.robots(f"http://old{number}.test")] == []
        assert all(made.robots(f"http://new{number}.test") for number in range(30))


def test_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "GIB", 1 << 20)
    body = random.Random(1).randbytes(400_000)
    with closing(CrawlCache(tmp_path)) as made:
        for number in range(20):
            made.put_robots(f"http://h{number}.test", StoredRobots(200, 1.0, body), now=0.0)
            made.commit()
        assert made.robots("http://h0.test") == StoredRobots(200, 1.0, body)
    assert (tmp_path / "data.mdb").stat().st_size > 20 * 400_000


@pytest.mark.parametrize("harm", ["garbage", "cut", "empty", "file", "stranger", "folder"])
def test_a_damaged_one_is_moved_aside_and_begun_anew(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "crawl"
    for number in 1, 2:  # both are kept
        with closing(CrawlCache(path)) as made:
            made.put_robots(SITE, RULES, now=0.0)
            made.commit()
        data = path / "data.mdb"
        if harm == "garbage":
            data.write_bytes(random.Random(1).randbytes(data.stat().st_size))
        elif harm in ("cut", "empty"):
            os.truncate(data, 12288 if harm == "cut" else 0)
        else:
            data.unlink()
        if harm == "file":
            (path / "lock.mdb").unlink()
            path.rmdir()
            path.write_text("no folder")
        elif harm == "stranger":
            (path / "photo.jpg").touch()
        elif harm == "folder":
            data.mkdir()
        with caplog.at_level(logging.WARNING), closing(CrawlCache(path)) as made:
            assert made.robots(SITE) is None
            made.put_robots(SITE, RULES, now=0.0)
            made.commit()
            assert made.robots(SITE) == RULES
        assert f"only a cache: moved to {path}.damaged-{number}, and begun anew" in caplog.text
        caplog.clear()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["crawl", "crawl.damaged-1", "crawl.damaged-2"]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (OSError(errno.EMFILE, "Too many open files"), FrontierError),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), FrontierError),
        (OSError(errno.EIO, "Input/output error"), FrontierError),
        (PermissionError(errno.EACCES, "Permission denied"), PermissionError),
        (lmdb.Error("mdb_env_open: Too many open files"), FrontierError),
        (lmdb.MemoryError("mdb_env_open"), FrontierError),
        (lmdb.ReadersFullError("mdb_txn_begin"), FrontierError),
    ],
)
def test_one_that_cannot_be_opened_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, raised: type[Exception]
) -> None:
    path = tmp_path / "crawl"
    with closing(CrawlCache(path)) as made:
        made.put_used(1.5, 20_000)
        made.commit()
    with monkeypatch.context() as patched:
        patched.setattr(lmdb, "open", Mock(side_effect=error))
        with pytest.raises(raised) as caught:
            CrawlCache(path)
    assert not isinstance(caught.value, CorruptFrontier | StorageFull)
    with closing(CrawlCache(path)) as made:
        assert made.used() == (1.5, 20_000)
    assert [item.name for item in tmp_path.iterdir()] == ["crawl"]


def test_an_error_of_a_write_stays_until_it_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "crawl"
    made = CrawlCache(path)
    made.put_used(1.5, 20_000)
    made.commit()
    made.put_used(2.5, 30_000)
    monkeypatch.setattr(made, "_txn", Mock(wraps=made._txn))
    monkeypatch.setattr(made._txn, "commit", Mock(side_effect=lmdb.Error("mdb_txn_commit: Input/output error")))
    monkeypatch.setattr(made._txn, "put", Mock(side_effect=lmdb.BadTxnError("mdb_put")))
    for use in made.commit, partial(made.put_used, 2.5, 30_000):
        with pytest.raises(FrontierError, match="Input/output error"):
            use()
    made.close()
    with closing(CrawlCache(path)) as made:
        assert made.used() == (1.5, 20_000)
    assert [item.name for item in tmp_path.iterdir()] == ["crawl"]


def test_damage_that_is_met_later_does_not_end_the_crawl(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "crawl"
    with closing(CrawlCache(path)) as made:
        for number in range(2000):
            made.put_robots(f"http://h{number}.test", RULES, now=0.0)
            made.put_original(number.to_bytes(20), ORIGINAL)
        made.commit()
    data = bytearray((path / "data.mdb").read_bytes())
    for page in range(2, len(data) // 4096):
        data[page * 4096 + 10 : page * 4096 + 12] = b"\0\0"  # of no kind
    (path / "data.mdb").write_bytes(data)
    with caplog.at_level(logging.WARNING), closing(CrawlCache(path)) as made:
        assert made.robots("http://h7.test") is None
        assert made.original((7).to_bytes(20)) is None
        made.put_robots(SITE, RULES, now=0.0)
        made.commit()
    assert caplog.text.count("begun anew") == 1
    with closing(CrawlCache(path)) as made:
        assert made.robots(SITE) == RULES


def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(CrawlCache(tmp_path)) as made:
        made.put_original(DIGEST, ORIGINAL)
        made.put_robots(SITE, RULES, now=0.0)
        made.commit()
    env = lmdb.open(str(tmp_path), max_dbs=9)
    with env.begin(write=True) as txn:
        for name, key in (b"robots", SITE.encode()), (b"digests", DIGEST):
            table = env.open_db(name, txn=txn)
            txn.put(key, b"\xc1", db=table)
            txn.put(b"0", b"", db=table)
    env.close()
    with caplog.at_level(logging.WARNING), closing(CrawlCache(tmp_path)) as made:
        assert made.robots(SITE) is None and made.original(DIGEST) is None
        made.put_robots("http://other.test", RULES, now=0.0)  # sweeps over them
    assert caplog.text.count("cannot be read") == 2


def test_only_once_in_a_process(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path / "crawl")) as made:
        with pytest.raises(FrontierLocked):
            CrawlCache(tmp_path / "crawl")
        made.put_original(DIGEST, ORIGINAL)
        assert made.original(DIGEST) == ORIGINAL


def test_what_was_committed_survives_a_kill(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from budgetfrontier.crawler.cache import *\n"
        "m = CrawlCache(Path(sys.argv[1]))\n"
        f"m.put_robots('{SITE}', StoredRobots(200, 86400.0, b'kept'), now=0.0); m.commit()\n"
        f"m.put_robots('{SITE}', StoredRobots(200, 86400.0, b'lost'), now=0.0)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "crawl"
    done = subprocess.run([sys.executable, "-c", code, path], timeout=PATIENCE, check=False)
    assert done.returncode == -signal.SIGKILL
    with closing(CrawlCache(path)) as made:
        assert made.robots(SITE) == StoredRobots(200, 86400.0, b"kept")


def test_a_full_disk_is_said_so_and_the_last_commit_is_kept(small_disk: Path) -> None:
    with closing(CrawlCache(small_disk / "crawl")) as made:
        made.put_robots(SITE, RULES, now=0.0)
        made.commit()
        with pytest.raises(StorageFull):
            for number in range(10):
                body = random.Random(number).randbytes(500_000)
                made.put_robots(f"http://h{number}.test", StoredRobots(200, 1.0, body), now=0.0)
                made.commit()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(StorageFull):
        CrawlCache(small_disk / "other")
    filler.unlink()
    with closing(CrawlCache(small_disk / "crawl")) as made:
        assert made.robots(SITE) == RULES


# -- What the frontier's commands make of the folder in it


@pytest.fixture
def job(tmp_path: Path) -> Iterator[tuple[Path, CrawlCache]]:
    """A job with a cache, and that cache, open."""
    with (
        Frontier.open(tmp_path / "job" / "frontier"),
        closing(CrawlCache(tmp_path / "job" / "frontier" / CACHE)) as made,
    ):
        made.put_robots(SITE, RULES, now=0.0)
        made.commit()
        made.put_robots("http://uncommitted.test", RULES, now=0.0)
        yield tmp_path / "job", made


def test_a_backup_of_a_running_crawl_holds_its_memory(job: tuple[Path, CrawlCache], tmp_path: Path) -> None:
    partial = tmp_path / "backup" / "frontier.partial" / CACHE
    partial.mkdir(parents=True)
    (partial / "data.mdb").write_text("half of one that was killed")
    command = [sys.executable, "-m", "budgetfrontier", "backup", str(job[0]), str(tmp_path / "backup")]
    done = subprocess.run(command, timeout=PATIENCE, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    with closing(CrawlCache(tmp_path / "backup" / "frontier" / CACHE)) as copied:
        assert copied.robots(SITE) == RULES
        assert copied.robots("http://uncommitted.test") is None


def test_a_backup_does_without_a_damaged_memory(
    job: tuple[Path, CrawlCache], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job[1].close()
    os.truncate(job[0] / "frontier" / CACHE / "data.mdb", 12288)
    with Reader(job[0] / "frontier") as reader:
        reader.backup(tmp_path / "copy")
    assert "crawl is not in the copy" in caplog.text
    assert [item.name for item in (tmp_path / "copy").iterdir() if item.name != "lock"] == ["data.mdb"]


@pytest.mark.parametrize("care", [compact, repair])
def test_the_memory_stays_while_the_frontier_is_cared_for(tmp_path: Path, care: Callable[[Path], object]) -> None:
    path = tmp_path / "frontier"
    with Frontier.open(path) as frontier:
        frontier.schedule("http://a.test/")
    with closing(CrawlCache(path / CACHE)) as made:
        made.put_robots(SITE, RULES, now=0.0)
        made.commit()
    care(path)
    with Frontier.open(path) as frontier, closing(CrawlCache(path / CACHE)) as made:
        frontier.check()
        assert made.robots(SITE) == RULES
