"""Crawls that nobody uses are closed, and opened again for who does: nothing else shows it."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from budgetfrontier import Frontier, FrontierLocked, Reader
from budgetfrontier.server import crawl_thread
from budgetfrontier.tools.cli import main
from tests.server.urlfrontier.service_client import OK, Client, Process, command, discovered, known, serving
from tests.support import until


def open_crawls() -> set[str]:
    """The crawls of this process that have a thread."""
    return {thread.name.removeprefix("crawl ") for thread in threading.enumerate() if thread.name.startswith("crawl ")}


def closed(*names: str) -> Callable[[], bool]:
    """Tell whether crawls have no thread."""
    return lambda: not open_crawls() & set(names)


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crawl_thread, "IDLE", 0.01)


def test_what_was_closed_is_as_it_was(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        assert client.put(*[discovered(f"http://a.test/{n}") for n in range(4)]) == [OK] * 4
        client.SetDelay(crawlID="c", key="a.test", delay_requestable=0)
        assert client.get(max_urls_per_queue=2, delay_requestable=3600) == ["http://a.test/0", "http://a.test/1"]
        until(closed("c"))
        found = client.GetStats(crawlID="c")
        assert (found.size, found.inProcess) == (4, 2)
        until(closed("c"))
        assert client.put(known("http://a.test/0")) == [OK]
        until(closed("c"))
        assert client.get(max_urls_per_queue=2, delay_requestable=3600) == ["http://a.test/2"]
        until(closed("c"))
        assert client.DeleteCrawl(value="c").value == 4
        assert client.ListCrawls().values == []
        assert client.put(discovered("http://a.test/0")) == [OK]
    with Reader(tmp_path / "jobs" / "c" / "frontier") as reader:
        assert reader.summary().queued == 1


def test_commands_say_of_what_was_closed_which_server_opens_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "urls").write_text("http://b.test/\n")
    opens = f"budgetfrontier serve (process {os.getpid()}) opens it when somebody uses it"
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        client.put(discovered("http://a.test/"))
        until(closed("c"))
        monkeypatch.chdir(tmp_path / "jobs" / "c")
        for line in (
            ("report", tmp_path / "jobs" / "c"),
            ("report", "."),
            ("explain", ".", "a.test"),
            ("import", ".", tmp_path / "urls"),
            ("pause", "."),
            ("resume", "."),
        ):
            assert main([str(word) for word in line]) == 0
            told = "".join(capsys.readouterr())
            assert (opens in told) is (line[0] != "pause"), told
            assert "to go on" not in told and "not known" not in told and "start the" not in told
        with Reader("frontier") as reader:
            assert (reader.verdict().slug, reader.process().server) == ("unused", os.getpid())
    with Reader("frontier") as reader:
        assert reader.verdict().slug == "stopped" and reader.process().server is None


def test_calls_for_any_crawl_open_those_alone_that_may_have_something(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with serving(jobs, close_after=0.05) as client:
        for crawl in "xyz":
            client.put(discovered("http://a.test/1", crawl))
        assert {info.crawlID for info in client.GetURLs(delay_requestable=3600)} == set("xyz")
        assert client.put(*[known("http://a.test/1", crawl=crawl, id=crawl) for crawl in "xy"]) == [OK, OK]
        until(closed(*"xyz"))
        before = {crawl: os.stat(jobs / crawl / "frontier" / "data.mdb").st_mtime_ns for crawl in "xyz"}
        for _ in range(20):
            assert list(client.GetURLs()) == []
            assert open_crawls() == set()  # z has a lease that has not expired
        assert before == {crawl: os.stat(jobs / crawl / "frontier" / "data.mdb").st_mtime_ns for crawl in "xyz"}
        with Frontier.open(jobs / "y" / "frontier", keep_leases=True) as frontier:  # another program
            frontier.schedule("http://b.test/1")
        assert [info.url for info in client.GetURLs()] == ["http://b.test/1"]


def test_commands_and_calls_pass_each_other(tmp_path: Path) -> None:
    """Neither refuses the other, whoever has the frontier open."""
    job = tmp_path / "jobs" / "c"
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        client.put(*[discovered(f"http://{host}.test/") for host in "ab"])
        end, failures = threading.Event(), list[str]()

        def steer() -> None:
            for number in range(4):
                for name in ("retire", "unretire"):
                    done = command(name, job, "a.test", "--reason", str(number))
                    failures.extend([done.stderr] if done.returncode else [])
            end.set()

        thread = threading.Thread(target=steer)
        thread.start()
        number = 0
        while not end.wait(0.06):  # now and then the server has closed it
            number += 1
            assert client.put(discovered(f"http://c.test/{number}")) == [OK]
            assert client.GetStats(crawlID="c").size == number + 2
        thread.join()
        assert failures == []
        until(closed("c"))
        for words in (("report",), ("verify",), ("compact",), ("queues",)):
            done = command(words[0], job, *words[1:])
            assert done.returncode == 0, done.stderr
        assert client.GetStats(crawlID="c").size == number + 2


def test_a_frontier_that_stays_open_elsewhere_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_thread, "PATIENCE", 0.1)
    tries = 0
    opened = Frontier.open

    def counted(*args: object, **options: object) -> Frontier:
        nonlocal tries
        tries += 1
        if tries < 50:
            raise FrontierLocked("in use by process 1", pid=1)
        return opened(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Frontier, "open", counted)
    with serving(tmp_path / "jobs") as client:
        status(client)
        once = tries
        assert once > 1
        status(client)
        assert tries == once + 1
        monkeypatch.setattr(Frontier, "open", opened)
        assert client.put(discovered("http://a.test/")) == [OK]


def status(client: Client) -> None:
    """Put a URL into a crawl that is open elsewhere."""
    [ack] = client.put(discovered("http://a.test/"))
    assert ack != OK


def test_the_default_delay_is_that_of_crawls_that_are_closed_and_of_new_ones(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        for crawl in "xz":
            client.put(discovered("http://a.test/", crawl))
        until(closed("x", "z"))
        for delay in (5, 7):
            client.SetDelay(delay_requestable=delay)
        assert open_crawls() == set(), "it opens none"
        for crawl in "xy":
            client.put(discovered("http://a.test/2", crawl))
        until(closed("x", "y"))
        job = tmp_path / "jobs" / "z"
        assert command("adjust", job, "--match", "queue:b.test", "--set", "politeness.min_interval=3").returncode == 0
    with serving(tmp_path / "jobs") as client:
        for crawl in "xyz":
            assert client.put(discovered("http://b.test/", crawl)) == [OK]
    for crawl in "xyz":
        with Frontier.open(tmp_path / "jobs" / crawl / "frontier", keep_leases=True) as frontier:
            delays = {lease.queue: frontier.internals.settings_for(lease).min_interval for lease in frontier.lease(2)}
            assert delays == {"a.test": 7, "b.test": 3 if crawl == "z" else 7}
            assert [entry.who == "urlfrontier" for entry in frontier.audit()] == {
                "x": [True],
                "y": [],  # it was created so
                "z": [False, True, True],  # what operators have adjusted since stays
            }[crawl]


def test_many_crawls(tmp_path: Path) -> None:
    """Their threads and files go; each is there again when it is used."""
    count = 60
    with serving(tmp_path / "jobs", close_after=0.05) as client:
        files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        names = [f"crawl {n}" for n in range(count)]
        for name in names:
            assert client.put(discovered("http://a.test/", name)) == [OK]
        until(closed(*names))
        if files:
            until(lambda: len(os.listdir("/proc/self/fd")) <= files + 12)
        assert sorted(client.ListCrawls().values) == sorted(names)
        assert len(list(client.GetURLs())) == count
        assert list(client.GetURLs()) == []


def test_of_too_many_open_crawls_those_are_closed_that_are_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_thread, "CROWDED", 0.05)
    names = [f"crawl {n}" for n in range(20)]
    with serving(tmp_path / "jobs", close_after=3600.0) as client:
        for name in names:
            assert client.put(discovered("http://a.test/", name)) == [OK]
        monkeypatch.setattr(crawl_thread, "MOST_OPEN", threading.active_count() - 5)
        until(lambda: len(open_crawls()) <= 15)
        assert open_crawls()  # none is closed beyond that
        for name in names:
            assert client.GetStats(crawlID=name).size == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators are left as they are")
def test_crawls_that_are_open_take_little_memory(tmp_path: Path) -> None:
    def taken() -> int:
        status = Path(f"/proc/{server.popen.pid}/status").read_text()
        return int(status.split("RssAnon:")[1].split()[0]) >> 10

    with Process(tmp_path / "jobs", forked=False) as server, server.client() as client:
        client.put(discovered("http://a.test/"))
        before = taken()
        client.put(*[discovered("http://a.test/", str(n), id=str(n)) for n in range(50)])
        assert taken() - before < 50  # MiB; more than 200 if the allocator keeps what LMDB does not use
