"""What operators see of a server: its log, its metrics, what it tells systemd, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from budgetfrontier import Reader
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.server import server_metrics
from budgetfrontier.server.call_stats import BOUNDS, MethodStats
from budgetfrontier.server.stopping import Stop
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from budgetfrontier.server.urlfrontier.service import UrlFrontierService
from tests.server.urlfrontier.service_client import Client, Process, command, discovered, serving
from tests.support import PATIENCE, free_port, token_file, until

URLFRONTIER = "urlfrontier.URLFrontier"


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """The samples of a scrape, by name and the values of their labels, in the order of the labels' names."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return {
        (one.name.removeprefix("budgetfrontier_"), *(value for _, value in sorted(one.labels.items()))): one.value
        for family in parse(text)
        for one in family.samples
    }


def open_stream(client: Client) -> tuple[SimpleQueue[Any], Any]:
    """A PutURLs stream that stays open: the queue of its items, None to end it, and the call."""
    items: SimpleQueue[Any] = SimpleQueue()
    return items, client.rpc("PutURLs")(iter(items.get, None), timeout=PATIENCE)


# -- metrics


def test_metrics_have_calls_and_the_frontiers_of_open_crawls(tmp_path: Path) -> None:
    port = free_port()
    with Process(tmp_path / "jobs", "--metrics", f"127.0.0.1:{port}") as server, server.client() as client:
        client.put(*[discovered(f"http://{host}.test/{n}") for host in "ab" for n in range(3)])
        client.put(discovered("http://c.test/", "d"))
        assert len(client.get(max_urls_per_queue=2)) == 4
        with pytest.raises(grpc.RpcError):
            client.GetURLStatus(url="")
        items, call = open_stream(client)
        items.put(discovered("http://e.test/"))
        next(call)
        with RemoteFrontier(server.address, crawl="c") as frontier:
            frontier.schedule("http://f.test/")
        found = scrape(port)
        items.put(None)
        assert not list(call)
    assert found["urls_enqueued_total", "c", "c"] == 8
    assert found["urls_enqueued_total", "d", "d"] == 1
    assert found["leases", "c", "c"] == 4
    assert found["crawls", "open"] == 2
    assert found["active",] == 1
    assert found["rpc_open", "PutURLs", URLFRONTIER] == 1
    assert found["rpc_calls_total", "OK", "PutURLs", URLFRONTIER] == 2
    assert found["rpc_calls_total", "INVALID_ARGUMENT", "GetURLStatus", URLFRONTIER] == 1
    assert found["rpc_messages_total", "received", "PutURLs", URLFRONTIER] == 8
    assert found["rpc_messages_total", "sent", "PutURLs", URLFRONTIER] == 8
    assert found["rpc_messages_total", "sent", "GetURLs", URLFRONTIER] == 4
    assert found["rpc_duration_seconds_count", "GetURLs", URLFRONTIER] == 1
    assert 3 <= found["rpc_duration_seconds_count", "PutURLs", URLFRONTIER] <= 8
    assert found["rpc_calls_total", "OK", "ScheduleEach", "budgetfrontier.Frontier"] == 1
    assert found["process_resident_memory_bytes",] > 0
    assert not [name for name in found if "test" in "".join(name)]  # no label has a queue or a URL


def test_metrics_are_of_a_bounded_number_of_crawls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_metrics, "MOST_CRAWLS", 2)
    found: list[Any] = []

    @contextmanager
    def metrics(crawls: Any, stats: Any) -> Iterator[None]:
        found.append(server_metrics.exposition(crawls, stats))
        yield

    with serving(tmp_path / "jobs", metrics=metrics) as client:
        for crawl in ("z", "y", "a", "b"):
            client.put(discovered("http://a.test/", crawl))
        body, _ = found[0].answer()
    samples = [sample for family in parse(body.decode()) for sample in family.samples]
    assert {sample.labels["folder"] for sample in samples if "folder" in sample.labels} == {"y", "z"}
    crawls = {one.labels["state"]: one.value for one in samples if one.name == "budgetfrontier_crawls"}
    assert crawls == {"open": 4, "closed": 0}


def test_a_crawl_that_does_not_answer_a_scrape_is_not_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_metrics, "PATIENCE", 0.2)
    found: list[Any] = []

    @contextmanager
    def metrics(crawls: Any, stats: Any) -> Iterator[None]:
        found.extend((crawls, server_metrics.exposition(crawls, stats)))
        yield

    held, go_on = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        held.set()
        go_on.wait(PATIENCE)

    with serving(tmp_path / "jobs", metrics=metrics) as client:
        client.put(discovered("http://a.test/"))
        found[0].get("c").submit(hold, lambda result, error: None)
        assert held.wait(PATIENCE)
        body, _ = found[1].answer()
        go_on.set()
    assert b'budgetfrontier_readable{folder="c"} 0.0' in body


def test_metrics_end_with_the_server_and_their_address_is_checked_first(tmp_path: Path) -> None:
    port = free_port()
    with Process(tmp_path / "jobs", "--metrics", f"127.0.0.1:{port}") as server, server.client():
        taken = command("serve", tmp_path / "other", "--listen", "127.0.0.1:0", "--metrics", f"127.0.0.1:{port}")
        assert taken.returncode == 1
        assert f"--metrics: 127.0.0.1, port {port}, cannot be listened on: " in taken.stderr
        assert not (tmp_path / "other").exists()
        assert server.stop() == 0
    with pytest.raises(OSError, match="refused"):
        scrape(port)


def test_durations_are_counted_by_the_first_bound_that_is_not_below() -> None:
    stats = MethodStats()
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.01, 1e9):
        stats.took(seconds)
    assert (stats.counts[0], stats.counts[1], stats.counts[-1], sum(stats.counts)) == (2, 1, 1, 4)


# -- the log


def events(server: Process) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.errors.read_text().splitlines()]


def test_a_log_of_json_has_one_object_for_each_event(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "broken" / "frontier").mkdir(parents=True)
    (jobs / "broken" / "frontier" / "data.mdb").write_bytes(b"x" * 9000)
    with Process(jobs, "--log-format", "json") as server, server.client() as client:
        client.put(discovered("http://a.test/", "line\nbreak"))
        client.put(discovered("http://a.test/", "broken"))
        assert server.stop() == 0
        found = events(server)
    assert [each["event"] for each in found if "event" in each] == [
        "started", "crawl_created", "stopping", "crawl_closed", "stopped",
    ]  # fmt: skip
    by_event = {each.get("event"): each for each in found}
    assert by_event["started"]["address"] == server.address
    assert by_event["started"]["jobs"] == str(jobs)
    assert by_event["crawl_created"]["crawl"] == "line\nbreak"
    assert by_event["stopping"]["signal"] == "SIGTERM"
    warning = next(each for each in found if each["level"] == "warning")
    assert warning["crawl"] == "broken" and "FAIL" in warning["message"]
    assert all(each["time"].endswith("Z") and each["logger"].startswith("budgetfrontier") for each in found)


def test_a_server_that_cannot_start_says_so_in_json(tmp_path: Path) -> None:
    done = command("serve", tmp_path / "jobs", "--listen", "unix:/no/such/socket", "--log-format", "json")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert json.loads(line)["event"] == "failed" and "cannot be listened on" in json.loads(line)["message"]


def test_a_log_for_people_has_a_line_with_the_time_for_each_event(tmp_path: Path) -> None:
    with Process(tmp_path / "jobs") as server, server.client() as client:
        client.put(discovered("http://a.test/", "line\nbreak"))
        assert server.stop() == 0
        lines = server.errors.read_text().splitlines()
    assert lines[0] == f"serving {tmp_path / 'jobs'} at {server.address}; Ctrl-C ends it"
    assert [line.split(" ", 1)[1] for line in lines[1:]] == [
        r"info: crawl 'line\nbreak' was created",
        "info: the server is being stopped",
        r"info: crawl 'line\nbreak' was closed",
        "info: the server has ended",
    ]


# -- the end


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_stopped_server_answers_what_it_has_read_and_ends_open_streams(tmp_path: Path, number: int) -> None:
    jobs = tmp_path / "jobs"
    with Process(jobs) as server, server.client() as client:
        items, call = open_stream(client)
        items.put(discovered("http://a.test/"))
        assert next(call).ID == "http://a.test/"
        with RemoteFrontier(server.address, crawl="d") as frontier:
            ended: SimpleQueue[Any] = SimpleQueue()
            waiting = threading.Thread(target=lambda: ended.put(frontier.lease(1, wait=PATIENCE)), daemon=True)
            waiting.start()
            until((jobs / "d" / "frontier" / "data.mdb").exists)
            server.popen.send_signal(number)
            with pytest.raises(grpc.RpcError) as stopped:
                next(call)
            assert server.popen.wait(PATIENCE) == 0
            items.put(None)
            with Process(jobs, listen=server.address) as again, again.client():
                frontier.schedule("http://b.test/")  # the client that waited is served by the next one
                assert [lease.uri.url for lease in ended.get(timeout=PATIENCE)] in ([], ["http://b.test/"])
    assert stopped.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "being stopped" in stopped.value.details()
    with Reader(jobs / "c" / "frontier") as reader:
        run = reader.runs()[-1]
    assert (run.end, run.reason) == ("SIGNAL", signal.Signals(number).name)


def test_a_second_signal_cuts_off_a_client_that_never_reads(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with Process(jobs, "--log-format", "json") as server, server.client() as client:
        client.put(*[discovered(f"http://{n}.test/" + "x" * 5000) for n in range(3000)])
        call = client.rpc("ListURLs")(m.ListUrlParams(crawlID="c", size=3000))
        next(call)  # the rest fills the window of its stream
        server.popen.send_signal(signal.SIGTERM)
        until(lambda: any(each.get("event") == "stopping" for each in events(server)))
        server.popen.send_signal(signal.SIGTERM)
        assert server.popen.wait(PATIENCE) == 1
    with Reader(jobs / "c" / "frontier") as reader:
        assert reader.runs()[-1].end == "SIGNAL"
    assert command("verify", jobs / "c").returncode == 0


def test_a_stop_that_is_asked_for_while_it_is_waited_for_in_the_same_thread() -> None:
    stop = Stop()
    previous = signal.signal(signal.SIGALRM, lambda *_: stop.ask("SIGALRM"))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert stop.wait(PATIENCE) == "SIGALRM"
        assert stop.wait(0.0) is None
    finally:
        signal.signal(signal.SIGALRM, previous)


def test_a_signal_that_does_not_wake_the_thread_that_waits() -> None:
    stop = Stop()
    previous = signal.signal(signal.SIGUSR1, lambda *_: stop.ask("SIGUSR1"))

    def raise_here() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)  # Python's handler runs in the main thread alone

    try:
        for _ in range(3):
            other = threading.Timer(0.05, raise_here)
            other.start()
            assert stop.wait(PATIENCE) == "SIGUSR1"
            other.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_what_helps_a_served_job_that_nobody_serves_is_to_serve_it(tmp_path: Path) -> None:
    job = tmp_path / "my jobs" / "c"
    with Process(job.parent) as server, server.client() as client:
        client.put(discovered("http://a.test/"))
        assert server.stop() == 0
    remedy = f"budgetfrontier serve '{job.parent}' --listen 'unix:{job.parent}.socket'"
    report = json.loads(command("report", job, "--format", "json").stdout)
    assert report["verdict"]["slug"] == "signal"
    assert report["verdict"]["remedy"] == remedy
    assert f"to go on: {remedy}" in command("resume", job).stderr
    assert remedy in command("explain", job, "http://a.test/").stdout
    with Process(job.parent) as server, server.client() as client:
        client.put(discovered("http://b.test/"))
        server.kill()
    report = json.loads(command("report", job, "--format", "json").stdout)
    assert (report["verdict"]["slug"], report["verdict"]["remedy"]) == ("killed", remedy)


# -- systemd


class Manager:
    """A service manager: what a server tells it on its socket."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.settimeout(PATIENCE)

    def told(self) -> list[str]:
        return self.socket.recv(4096).decode().splitlines()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path)
    yield made
    made.socket.close()


def test_systemd_is_told_when_the_server_is_ready_alive_and_stopping(tmp_path: Path, manager: Manager) -> None:
    token = token_file(tmp_path)
    environment = os.environ | {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "300000"}
    with Process(tmp_path / "jobs", "--token-file", str(token), env=environment) as server:
        assert manager.told() == ["READY=1", f"STATUS=serving {tmp_path / 'jobs'} at {server.address}"]
        for _ in range(3):
            assert manager.told() == ["WATCHDOG=1"]
        server.popen.send_signal(signal.SIGTERM)
        until(lambda: manager.told() == ["STOPPING=1"])
        assert server.popen.wait(PATIENCE) == 0


def test_a_watchdog_of_another_process_is_not_told(tmp_path: Path, manager: Manager) -> None:
    environment = os.environ | {"NOTIFY_SOCKET": str(manager.path), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    with Process(tmp_path / "jobs", env=environment) as server:
        assert manager.told()[0] == "READY=1"
        assert server.stop() == 0
    assert manager.told() == ["STOPPING=1"]


def test_a_server_whose_thread_hangs_is_not_said_to_be_alive(
    tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(manager.path))
    monkeypatch.setenv("WATCHDOG_USEC", "300000")
    held, go_on = threading.Event(), threading.Event()

    async def hang(*_: Any) -> Any:
        held.set()
        go_on.wait(PATIENCE)
        return m.StringList()

    with serving(tmp_path / "jobs") as client:
        assert manager.told()[0] == "READY=1"
        assert manager.told() == ["WATCHDOG=1"]
        monkeypatch.setattr(UrlFrontierService, "ListNodes", hang)
        ended: SimpleQueue[Any] = SimpleQueue()
        threading.Thread(target=lambda: ended.put(client.ListNodes(m.Empty())), daemon=True).start()
        assert held.wait(PATIENCE)
        manager.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(3):  # the one that was under way, at most
                manager.told()
        manager.socket.settimeout(PATIENCE)
        go_on.set()
        assert manager.told() == ["WATCHDOG=1"]
        ended.get(timeout=PATIENCE)
