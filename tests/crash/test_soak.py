"""Files that end before their last page: LMDB leaves such, and a file cut short is another matter."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import lmdb
import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, lock_table
from budgetfrontier.storage.backup import compact
from budgetfrontier.storage.environment import opened_here
from budgetfrontier.storage.lmdb_env import open_lmdb
from budgetfrontier.storage.lmdb_pages import File, Trees
from budgetfrontier.storage.repair.pages import Salvage
from budgetfrontier.tools.cli import main
from tests.crash.soak import Figures, cut, drained, missing_pages, soak
from tests.storage.repair.damaging import leaves
from tests.support import START


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job of a frontier that was closed cleanly, whose file lacks pages at its end."""
    folder = tmp_path_factory.mktemp("short")
    for seed in range(12):
        job = folder / f"job-{seed}"
        if drained(job / "frontier", 2000, 2000, seed=seed):
            return job
    raise AssertionError("LMDB wrote every page: is there still a way to a file that lacks some?")


@pytest.fixture
def job(short: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(short, tmp_path / "job")
    return tmp_path / "job"


def test_random_lives_lose_nothing_and_a_used_page_that_is_missing_is_named(tmp_path: Path) -> None:
    figures = soak(
        tmp_path, seed=1, closes=12, cuts=30, size=5000
    )  # the sixth close of these leaves a file that is short
    assert not figures.problems, "\n".join(figures.problems)
    assert figures["cuts of used pages"] >= 30 and figures["URIs"] > 3000


@pytest.mark.parametrize("seed", range(3))
def test_what_is_closed_opens(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "frontier"
    drained(path, 2000, 2000 - 40 * seed, seed=seed)
    with Frontier.open(path, clock=ManualClock(START)) as frontier:
        frontier.check()
        assert frontier.summary().succeeded == 2000 - 40 * seed


def test_a_file_that_lacks_free_pages_is_verified_copied_and_compacted(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert missing_pages(job / "frontier")
    assert main(["verify", str(job)]) == 0
    assert main(["verify", str(job), "--repair"]) == 0
    assert "no damage found" in capsys.readouterr().out
    assert main(["backup", str(job), str(tmp_path / "copy")]) == 0
    assert main(["verify", str(tmp_path / "copy")]) == 0
    with closing(Salvage(job / "frontier" / "data.mdb")) as salvage:
        assert len(list(salvage.records(keys.SEEN))) == 2000
        assert not salvage.lost
    compact(job / "frontier")
    assert not missing_pages(job / "frontier")
    assert main(["verify", str(job)]) == 0


def test_lmdb_copies_it_as_it_is_and_the_copy_opens(job: Path, tmp_path: Path) -> None:
    env = lmdb.open(str(job / "frontier"), readonly=True)
    (tmp_path / "copy").mkdir()
    env.copy(str(tmp_path / "copy"), compact=False)
    lock_table.close(env)
    with Reader(tmp_path / "copy") as reader:
        reader.check()
        assert reader.summary().seen == 2000


def test_readers_of_a_running_crawl_see_it(tmp_path: Path, short: Path) -> None:
    path, lacked = tmp_path / "job" / "frontier", []

    def look() -> None:
        engine = opened_here(path)
        assert engine is not None
        lacked.append(engine.env.info()["last_pgno"] + 1 - (path / "data.mdb").stat().st_size // 4096)
        for command in (["verify"], ["report"]):
            subprocess.run([sys.executable, "-m", "budgetfrontier", *command, str(path.parent)], check=True)

    drained(path, 2000, 2000, seed=int(short.name.removeprefix("job-")), look=look)
    assert lacked[0] > 0


def test_it_is_crawled_on_and_what_was_missing_is_filled(job: Path) -> None:
    with Frontier.open(job / "frontier", clock=ManualClock(START)) as frontier:
        frontier.schedule_many(f"https://new{n % 30}.test/{n}" for n in range(3000))
        frontier.commit()
        found = []
        while leases := frontier.lease(64):
            for lease in leases:
                found.append(lease.uri.url)
                frontier.finish(lease)
        frontier.check()
    assert len(set(found)) == len(found) == 3000
    assert main(["verify", str(job)]) == 0


def test_a_used_page_that_is_missing_is_told_to_writers_and_readers(job: Path) -> None:
    page = max(leaves(job / "frontier" / "data.mdb", keys.SEEN))
    with open(job / "frontier" / "data.mdb", "r+b") as file:
        file.truncate(page * 4096)
    for opening in (Frontier.open, Reader):
        with pytest.raises(CorruptFrontier, match=r"is truncated.*verify --repair"):
            opening(job / "frontier")
    assert main(["verify", str(job)]) == 6
    assert main(["verify", str(job), "--repair"]) == 0


# -- lists of free pages of all shapes, in environments such as the mailbox


def plain(path: Path, values: int, *, kept: int = 0) -> None:
    """An environment with many free pages at its end: all in one list, or `kept` for a reader, each in its own."""
    env = open_lmdb(path)
    with env.begin(write=True) as txn:
        for number in range(values):
            txn.put(b"%06d" % number, bytes(3000))
    reader = env.begin()
    for commit in range(kept):
        with env.begin(write=True) as txn:
            txn.put(b"%06d" % commit, bytes(2999))
    reader.abort()
    with env.begin(write=True) as txn:
        for number in range(20, values):
            txn.delete(b"%06d" % number)
    for _ in range(4):  # what is in use moves to the front
        with env.begin(write=True) as txn:
            for number in range(20):
                txn.put(b"%06d" % number, bytes(2998))
    lock_table.close(env)


def all_of(path: Path) -> None:
    env = open_lmdb(path, readonly=True)
    with env.begin() as txn:
        assert len(list(txn.cursor())) == 20
    lock_table.close(env)


@pytest.mark.parametrize(("values", "kept"), [(60, 0), (1500, 0), (300, 280)])
def test_lists_of_free_pages_are_read_whatever_their_shape(tmp_path: Path, values: int, kept: int) -> None:
    (tmp_path / "mailbox").mkdir()
    plain(tmp_path / "mailbox", values, kept=kept)
    with closing(File(tmp_path / "mailbox" / "data.mdb")) as file:
        trees = Trees(file, file.roots()[0])
        lists = list(trees.free_lists())
        assert (len(lists) > 256) == bool(kept) and len(set().union(*lists)) == sum(map(len, lists)) > 10
        assert not trees.lost
    figures = Figures()
    for seed in range(2):
        cut(tmp_path / "mailbox", tmp_path, Random(seed), 20, figures, look=all_of)
    assert not figures.problems, "\n".join(figures.problems)
    assert figures["cuts of free pages"] > 0 and figures["cuts of used pages"] > 0
