"""The crawls of a server: those that cannot be opened, deletion, and what is no crawl's folder."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import grpc
import pytest

from budgetfrontier import Frontier, Reader, Settings
from budgetfrontier.errors import FrontierError
from budgetfrontier.remote import RemoteFrontier
from budgetfrontier.server import crawl_thread
from budgetfrontier.server.crawls import DELETED, Crawls, folder_name
from budgetfrontier.server.frontier_service import FRONTIER
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from budgetfrontier.server.urlfrontier.service import URLFRONTIER
from budgetfrontier.settings.values import LONGEST
from budgetfrontier.tools.cli import main
from tests.server.urlfrontier.service_client import FAIL, OK, SKIPPED, Client, discovered, info, known, serving
from tests.support import PATIENCE, child_process

HOLD = """
import sys
from budgetfrontier import Frontier, Settings
with Frontier.open(sys.argv[1], Settings.from_dict({"profile": "served"})):
    print("open", flush=True)
    sys.stdin.read()
"""


def status(client: Client, crawl: str) -> grpc.StatusCode:
    """How a crawl answers that cannot be opened."""
    codes = set()
    for call in (client.GetURLs, client.GetStats, client.ListQueues):
        with pytest.raises(grpc.RpcError) as caught:
            call(crawlID=crawl)
        codes.add(caught.value.code())
    assert len(codes) == 1
    return codes.pop()


def check_others(client: Client, bad: Collection[str]) -> None:
    """A stream with items of several crawls, of which some fail, goes on with the others; so does a batch."""
    for start in (0, 3):
        urls = [
            discovered(f"http://m.test/{n}/{crawl}", crawl) for n in range(start, 3 + start) for crawl in ("c", *bad)
        ]
        assert client.put(*urls) == [OK, *[FAIL] * len(bad)] * 3
        infos = [info(f"http://n.test/{crawl}/{start}", crawl) for crawl in ("c", *bad, "c")]
        [batch] = client.PutDiscovered([m.DiscoveredBatch(items=infos)])
        assert list(batch.statuses) == [OK, *[FAIL] * len(bad), SKIPPED]


def test_a_crawl_that_cannot_be_opened_does_not_harm_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crawl_thread, "PATIENCE", 0.1)
    jobs = tmp_path / "jobs"
    (jobs / "damaged" / "frontier").mkdir(parents=True)
    (jobs / "damaged" / "frontier" / "data.mdb").write_bytes(b"x" * 20_000)
    held = [sys.executable, "-c", HOLD, str(jobs / "locked" / "frontier")]
    with child_process(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdin is not None
        holder.stdout.readline()
        with serving(jobs) as client:
            assert client.put(discovered("http://a.test/1"), discovered("http://a.test/2", "z")) == [OK, OK]
            assert status(client, "damaged") is grpc.StatusCode.FAILED_PRECONDITION
            assert status(client, "locked") is grpc.StatusCode.UNAVAILABLE
            check_others(client, ["damaged", "locked"])
            assert len(client.GetURLs()) == 10
            client.SetDelay(delay_requestable=0)  # they take it when they are opened
            assert client.put(discovered("http://b.test/1", "z"), discovered("http://b.test/2", "z")) == [OK, OK]
            assert [len(client.get("z", key="b.test", max_urls_per_queue=most)) for most in (1, 2)] == [1, 1]
            holder.stdin.close()
            holder.wait()
            assert client.put(discovered("http://a.test/1", "locked")) == [OK]  # tried again
            with Reader(jobs / "locked" / "frontier") as reader:
                assert [each.set for each in reader.adjustments] == [{"politeness.min_interval": 0.0}]
    told = [record.getMessage() for record in caplog.records if "answered with FAIL" in record.getMessage()]
    assert sorted(text.split(":")[0] for text in told) == ["crawl 'damaged'", "crawl 'locked'"]  # once each


def test_a_folder_without_a_frontier_is_created_anew(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "c" / "frontier" / "creating").mkdir(parents=True)  # its creation was killed
    (jobs / "ü" / "frontier").mkdir(parents=True)
    (jobs / "a%41" / "frontier").mkdir(parents=True)
    for name in ("ü", "a%41"):
        (jobs / name / "frontier" / "data.mdb").write_bytes(b"")
    with serving(jobs) as client:
        assert client.ListCrawls().values == []
        assert client.put(discovered("http://a.test/1")) == [OK]
        assert client.GetStats(crawlID="c").size == 1
        assert client.ListCrawls().values == ["c"]
    assert {path.name for path in jobs.iterdir()} == {"c", "ü", "a%41"}


def test_a_crawl_is_deleted_by_several_while_it_is_used(tmp_path: Path) -> None:
    jobs, results = tmp_path / "jobs", Counter[object]()
    with serving(jobs) as client, ThreadPoolExecutor(8) as pool:
        client.put(*[discovered(f"http://a.test/{n}") for n in range(200)])

        def delete(_: int) -> object:
            try:
                return client.DeleteCrawl(value="c").value > 0
            except grpc.RpcError as e:
                return e.code()

        def put(number: int) -> object:
            try:
                return client.put(discovered(f"http://b.test/{number}"))[0]
            except grpc.RpcError as e:
                return e.code()

        for future in [*(pool.submit(delete, n) for n in range(4)), *(pool.submit(put, n) for n in range(100))]:
            results[future.result()] += 1
        assert results.keys() <= {True, False, OK, SKIPPED, FAIL, grpc.StatusCode.UNAVAILABLE}
        client.put(discovered("http://c.test/"))
        assert client.GetURLStatus(crawlID="c", url="http://c.test/").creation_date
        client.DeleteCrawl(value="c")
        assert client.ListCrawls().values == []
    assert list(jobs.iterdir()) == []


def test_the_rest_of_a_deletion_that_was_killed_goes_at_the_next_start(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "c" / DELETED).mkdir(parents=True)
    with serving(jobs) as client:
        assert client.ListCrawls().values == []
    assert list(jobs.iterdir()) == []


def test_a_deletion_removes_nothing_that_the_server_has_not_made(tmp_path: Path) -> None:
    jobs, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    for folder in (jobs / "photos" / "2020", elsewhere):
        folder.mkdir(parents=True)
        (folder / "a.jpg").write_bytes(b"x")
    (jobs / "linked").symlink_to(elsewhere)
    with serving(jobs) as client:
        for name in ("photos", "linked"):
            client.put(discovered("http://a.test/1", name))
            assert client.DeleteCrawl(value=name).value == 1
        assert client.ListCrawls().values == []
    assert [path.name for path in (jobs / "photos").iterdir()] == ["2020"]
    assert [path.name for path in elsewhere.iterdir()] == ["a.jpg"]


def test_crawls_that_do_not_keep_their_urls_are_not_handed_out_to_who_cannot_report_them(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with Frontier.open(jobs / "own" / "frontier") as frontier:
        frontier.schedule("http://a.test/1")
    with serving(jobs) as client:
        client.put(discovered("http://b.test/1"))
        assert [info.url for info in client.GetURLs()] == ["http://b.test/1"]
        with pytest.raises(grpc.RpcError, match="keep_urls"):
            list(client.GetURLs(crawlID="own"))
        client.SetDelay(delay_requestable=7)
    with Frontier.open(jobs / "own" / "frontier") as frontier:
        assert (frontier.summary().queued, frontier.audit()) == (1, [])


def test_crawls_that_do_not_keep_their_urls_take_none_that_could_not_be_handed_out(tmp_path: Path) -> None:
    jobs, refused = tmp_path / "jobs", "(?s)FAILED_PRECONDITION.*keep_urls: true"
    with serving(jobs, services=(URLFRONTIER, FRONTIER), settings=Settings()) as client:
        with RemoteFrontier(f"unix:{jobs}.socket", crawl="own") as frontier:
            frontier.schedule("http://a.test/0")
        for crawl in "own", "new":
            for item in discovered("http://a.test/1", crawl), known("http://a.test/1", crawl=crawl):
                with pytest.raises(grpc.RpcError, match=refused):
                    client.put(item)
            batch = m.DiscoveredBatch(ID="1", items=[info("http://a.test/1", crawl)])
            with pytest.raises(grpc.RpcError, match=refused):
                list(client.PutDiscovered([batch]))
        assert client.ListCrawls().values == ["own"]
    with serving(jobs) as client:
        assert client.put(discovered("http://a.test/1", "new")) == [OK], "it was not created without kept URLs"


@pytest.mark.parametrize("stored", [None, 4294967295.0, -1.0])
def test_a_delay_beyond_that_of_the_settings_is_the_longest_that_they_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stored: float | None
) -> None:
    """It is checked before it is stored; one that is stored in `.node.json` all the same harms no crawl."""
    jobs = tmp_path / "jobs"
    with serving(jobs) as client:
        assert client.put(discovered("http://a.test/1", "old")) == [OK]
        if stored is None:
            client.SetDelay(delay_requestable=(1 << 32) - 1)
            assert client.put(discovered("http://a.test/1", "new")) == [OK]
    if stored is not None:
        (jobs / ".node.json").write_text(f'{{"active":true,"delay":{stored},"delay_set":9e9}}')
    delay = 0.0 if stored == -1.0 else LONGEST
    with serving(jobs) as client:
        assert client.put(*[discovered("http://a.test/2", crawl, id=crawl) for crawl in ("old", "new")]) == [OK, OK]
    assert ("which no crawl can take" in caplog.text) == (stored is not None)
    for crawl in ("old", "new"):
        with Frontier.open(jobs / crawl / "frontier") as frontier:
            [lease] = frontier.lease(1)
            assert frontier.internals.settings_for(lease).min_interval == delay


def test_the_default_delay_is_set_although_a_crawl_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Crawls, "opened", lambda self: list(self._open.values()))  # as while one is being opened
    broken = tmp_path / "jobs" / "broken" / "frontier"
    broken.mkdir(parents=True)
    (broken / "data.mdb").write_bytes(b"x" * 20_000)
    with serving(tmp_path / "jobs") as client:
        urls = [discovered(f"http://a.test/{number}") for number in range(2)]
        assert client.put(*urls, discovered("http://a.test/", "broken")) == [OK, OK, FAIL]
        client.SetDelay(delay_requestable=0)
        assert [len(client.get(max_urls_per_queue=most)) for most in (1, 2)] == [1, 1]


def test_a_damaged_crawl_can_be_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "jobs" / "broken" / "frontier"
    broken.mkdir(parents=True)
    (broken / "data.mdb").write_bytes(b"x" * 20_000)
    with serving(tmp_path / "jobs") as client:
        assert client.DeleteCrawl(value="broken").value == 0
        assert client.ListCrawls().values == []
        assert client.put(discovered("http://a.test/", "broken")) == [OK]
    assert "crawl 'broken' is deleted although it cannot be opened" in caplog.text


def test_a_crawl_id_of_blanks_can_be_opened_again(tmp_path: Path) -> None:
    for number in range(2):
        with serving(tmp_path / "jobs") as client:
            assert client.put(discovered(f"http://a.test/{number}", " ")) == [OK]


def test_a_server_that_is_not_active_leases_nothing_by_any_protocol(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with (
        serving(jobs, services=(URLFRONTIER, FRONTIER)) as client,
        RemoteFrontier(f"unix:{jobs}.socket", crawl="c") as remote,
        ThreadPoolExecutor(1) as pool,
    ):
        client.put(*[discovered(f"http://{host}.test/") for host in "abc"])
        [held] = remote.lease(1)
        client.SetActive(state=False)
        assert (client.get(), remote.lease(9)) == ([], [])
        assert remote.finish_and_lease([held], 9) == ([], [])
        waiting = pool.submit(remote.lease, 9, wait=PATIENCE)
        client.SetActive(state=True)
        assert len(waiting.result(PATIENCE)) == 2
        assert client.GetStats(crawlID="c").counts["completed"] == 1


def test_a_folder_has_one_server(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    with serving(jobs) as client:
        client.put(discovered("http://a.test/1"))
        with pytest.raises(FrontierError, match="served already"):
            Crawls(jobs, Settings())
    for wrong, why in ((jobs / "c", "is a job"), (jobs / "c" / "frontier", "is a frontier")):
        with pytest.raises(FrontierError, match=why):
            Crawls(wrong, Settings())
    Crawls(jobs, Settings()).close()


def test_a_client_that_has_gone_keeps_no_more_of_a_queue_than_its_leases(tmp_path: Path) -> None:
    with serving(tmp_path / "jobs") as client:
        client.SetDelay(delay_requestable=0)
        client.put(*[discovered(f"http://a.test/{number}") for number in range(4000)])
        assert len(client.get(max_urls_per_queue=1, delay_requestable=1000)) == 1
        assert len(client.get(max_urls_per_queue=0)) == 3999


@pytest.mark.parametrize(
    "name",
    [
        "node.json",
        ".node.json",
        ".serve.lock",
        "frontier",
        "data.mdb",
        ".deleted",
        "NODE.JSON",
        "..",
        "DEFAULT",
    ],
)
def test_a_crawl_with_the_name_of_a_file_of_ours_harms_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = tmp_path / "jobs"
    for number in range(2):  # the second time with the folders that are there
        with serving(jobs, services=(URLFRONTIER, FRONTIER)) as client:
            assert client.put(discovered(f"http://a.test/{number}", name)) == [OK]
            client.SetActive(state=True)
            client.SetDelay(delay_requestable=1)
            assert name in client.ListCrawls().values
            with RemoteFrontier(f"unix:{jobs}.socket", crawl=name) as frontier:
                assert frontier.summary().queued == number + 1
    assert [unquote(path.name) for path in jobs.iterdir() if path.is_dir()] == [name]
    assert main(["console", str(jobs), "--listen", f"unix:{tmp_path}/none/socket"]) == 1
    assert "cannot be listened on" in capsys.readouterr().err, "which comes after the jobs were found"
    assert main(["report", str(jobs / folder_name(name))]) == 0
