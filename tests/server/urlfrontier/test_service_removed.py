"""Jobs that somebody removes or replaces while they are served."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from budgetfrontier import Reader, Settings
from budgetfrontier.server import crawl_thread
from budgetfrontier.server.crawls import Crawls
from budgetfrontier.storage.lock import SERVER_LOCK
from tests.server.urlfrontier.service_client import FAIL, OK, Client, command, discovered, serving
from tests.support import logged, until


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_thread, "IDLE", 0.01)


def is_open(name: str) -> bool:
    """Tell whether a crawl of this process has a thread."""
    return any(thread.name == f"crawl {name}" for thread in threading.enumerate())


def size(client: Client, crawl: str = "c") -> int:
    """The number of active URLs of a crawl."""
    return int(client.GetStats(crawlID=crawl).size)


def remove(job: Path) -> None:
    shutil.rmtree(job)


def replace(job: Path) -> None:
    job.rename(job.with_name("old"))
    shutil.copytree(job.with_name("old"), job, ignore=shutil.ignore_patterns("lock*"))
    shutil.rmtree(job.with_name("old"))


@pytest.mark.parametrize(("change", "left"), [(remove, 0), (replace, 2)])
def test_what_becomes_of_a_job_is_noticed_while_it_is_used(
    change: Callable[[Path], None], left: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with serving(tmp_path / "jobs") as client:
        client.put(discovered("http://a.test/1"), discovered("http://a.test/2"), discovered("http://o.test/", "other"))
        change(tmp_path / "jobs" / "c")
        acks = [ack for number in range(9) for ack in client.put(discovered(f"http://b.test/{number}"))]
        assert acks.count(FAIL) <= 1, "the commit notices it, unless an idle moment did"
        assert (size(client), size(client, "other")) == (left + acks.count(OK), 1)
        assert any("while it was open" in record.getMessage() for record in caplog.records)
    assert command("verify", tmp_path / "jobs" / "c").returncode == 0
    assert not {path.name for path in (tmp_path / "jobs").iterdir()} - {"c", "other", ".node.json"}


def test_who_only_reads_is_told_too_and_brings_nothing_back(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs") as client:
        client.put(discovered("http://a.test/1"))
        remove(tmp_path / "jobs" / "c")
        errors: list[grpc.StatusCode] = []

        def is_none() -> bool:
            try:
                return size(client) == 0
            except grpc.RpcError as e:
                errors.append(e.code())
            return False

        until(is_none)
        assert set(errors) <= {grpc.StatusCode.UNAVAILABLE}
        assert client.ListCrawls().values == []
        assert list((tmp_path / "jobs").glob("*/frontier")) == []


def test_a_crawl_that_is_closed_stays_removed_until_urls_are_put(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        for name in "cd":
            client.put(discovered("http://a.test/1", name))
        until(lambda: not is_open("c") and not is_open("d"))
        remove(tmp_path / "jobs" / "c")
        client.SetDelay(delay_requestable=0)
        assert [info.crawlID for info in client.GetURLs()] == ["d"]
        assert client.ListCrawls().values == ["d"]
        assert size(client) == client.DeleteCrawl(value="c").value == 0
        assert not (tmp_path / "jobs" / "c").exists()
        assert client.put(discovered("http://a.test/1")) == [OK]
        assert size(client) == 1


def moved(jobs: Path) -> None:
    jobs.rename(jobs.with_name("jobs2"))


def moved_and_made_anew(jobs: Path) -> None:
    moved(jobs)
    jobs.mkdir()


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("change", [remove, moved, moved_and_made_anew])
def test_a_folder_of_jobs_that_is_not_in_its_place_is_noticed_and_not_created_anew(
    change: Callable[[Path], None], tmp_path: Path, caplog: pytest.LogCaptureFixture, *, unused: bool
) -> None:
    jobs = tmp_path / "jobs"
    with serving(jobs, close_after=0.05) as client:
        assert client.put(discovered("http://a.test/1")) == [OK]
        if unused:
            until(lambda: not is_open("c"))
        change(jobs)
        until(lambda: not is_open("c"))
        assert client.put(discovered("http://a.test/2"), discovered("http://o.test/", "other")) == [FAIL, FAIL]
        for call in (
            client.ListCrawls,
            lambda: size(client),
            lambda: list(client.GetURLs()),
            lambda: client.SetDelay(delay_requestable=1),
            lambda: client.DeleteCrawl(value="c"),
        ):
            with pytest.raises(grpc.RpcError, match="was removed, moved or replaced while it was served") as refused:
                call()
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert len([line for line in logged(caplog, "budgetfrontier.service") if "creates no other" in line]) == 1
    assert not jobs.exists() or not list(jobs.iterdir())
    if change is not remove:
        with Reader(tmp_path / "jobs2" / "c" / "frontier") as reader:
            assert reader.summary().queued == 1


def test_the_lock_of_the_next_server_of_a_folder_outlives_the_one_before(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    before = Crawls(jobs, Settings())
    moved_and_made_anew(jobs)
    (jobs / SERVER_LOCK).touch()
    before.close()
    assert (jobs / SERVER_LOCK).exists()
