"""The console as a process: where it listens, what it says when it cannot, and how it ends."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import aiohttp
import lmdb
import pytest
from yarl import URL

from budgetfrontier import Frontier
from budgetfrontier.storage import keys
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console import console_server
from budgetfrontier.tools.console.app import Console
from tests.sizes import sized
from tests.support import PATIENCE, child_process, until
from tests.tools.console.browser import served
from tests.tools.console.conftest import Client, get, visit

pytestmark = pytest.mark.full_size


def test_a_unix_socket_is_for_its_owner_and_is_removed_at_the_end(job: Path, tmp_path: Path) -> None:
    socket = tmp_path / "console.sock"
    command = [sys.executable, "-m", "budgetfrontier", "console", str(job), "--listen", f"unix:{socket}"]

    async def ask() -> str:
        connector = aiohttp.UnixConnector(str(socket))
        async with aiohttp.ClientSession(connector=connector) as session, session.get("http://localhost/") as answer:
            return await answer.text()

    for number in (signal.SIGTERM, signal.SIGINT):
        with child_process(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert f"unix:{socket}" in process.stderr.readline()
            assert stat.S_IMODE(socket.stat().st_mode) == 0o600
            assert "resting" in asyncio.run(ask())
            second = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
            assert second.returncode == 1 and "another server listens there" in second.stderr
            process.send_signal(number)
            assert process.wait(timeout=PATIENCE) == 0
            assert process.stderr.read() == ""
        assert not socket.exists()


def test_a_socket_that_a_killed_console_has_left_is_replaced(job: Path, tmp_path: Path) -> None:
    socket = tmp_path / "console.sock"
    command = [sys.executable, "-m", "budgetfrontier", "console", str(job), "--listen", f"unix:{socket}"]
    for _ in range(2):
        with child_process(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert "listens on" in process.stderr.readline()
            process.kill()


def test_a_folder_that_is_no_job_is_named(tmp_path: Path, job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", str(tmp_path / "nowhere")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["console", str(job), str(tmp_path / "nowhere")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert main(["console", str(job / "frontier" / "lock")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["console", str(tmp_path / "empty")]) == 1
    assert "there is no frontier here" in capsys.readouterr().err
    assert main(["console", str(job), "--listen", "0.0.0.0:0"]) == 1
    assert "--token-file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [("jobs",), ("jobs/deleted", "jobs/news", "jobs/node.json", "jobs/sport"), ("jobs/news", "jobs")]
)
def test_the_jobs_of_a_server_are_shown_without_its_files(
    given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("news", "sport"):
        Frontier.open(tmp_path / "jobs" / name / "frontier").close()
    (tmp_path / "jobs" / "deleted").mkdir()
    (tmp_path / "jobs" / "node.json").touch()
    shown: list[str] = []
    monkeypatch.setattr(console_server, "serve", lambda jobs, **_: shown.extend(job.name for job in jobs))
    monkeypatch.chdir(tmp_path)
    assert main(["console", *given]) == 0
    assert shown == ["news", "sport"]
    passed = [line for line in capsys.readouterr().err.splitlines() if "passed over" in line]
    assert [line.rpartition("/")[2] for line in passed] == (["deleted", "node.json"] if len(given) == 4 else [])


def set_schema(folder: Path | str) -> None:
    """Give a frontier the schema of another version."""
    with lmdb.open(f"{folder}/frontier", max_dbs=32) as env, env.begin(write=True) as txn:
        txn.put(b"schema", b"%d" % (keys.SCHEMA + 1), db=env.open_db(keys.META.encode(), txn))


def test_a_frontier_of_another_schema_is_not_served(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    set_schema(job)
    assert main(["console", str(job)]) == 1
    assert "open it with the version that wrote it" in capsys.readouterr().err


def test_a_frontier_that_gets_another_schema_is_named_on_its_pages(job: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(job, other)
    set_schema(other)
    status, text = get((job, other), "/other/queues")
    assert status == 503 and "open it with the version that wrote it" in text.partition("<main")[2]
    assert get((job, other), "/job/queues")[0] == 200


def test_a_frontier_that_gets_another_schema_while_it_is_looked_at_is_named_on_its_pages(job: Path) -> None:
    async def act(client: Client, console: Console) -> None:
        assert (await client.get("/queues")).status == 200
        code = "import sys; from tests.tools.console.test_console_server import set_schema; set_schema(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, job], check=True, cwd=Path(__file__).parents[3])
        answer = await client.get("/queues")
        assert answer.status == 503 and "open it with the version that wrote it" in await answer.text()
        assert 'budgetfrontier_readable{folder="job"} 0.0' in await (await client.get("/metrics")).text()

    visit(job, act)


def test_what_is_no_http_is_refused_without_a_word_in_the_log(job: Path) -> None:
    async def send(address: str, garbage: bytes) -> bytes:
        host, _, port = address.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(garbage)
        answer = await asyncio.wait_for(reader.read(), PATIENCE)
        writer.close()
        return answer

    with served(job) as address:  # which asserts that nothing was logged
        for garbage in (
            b"\x16\x03\x01\x00\xa5\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /" + b"x" * 99_999 + b"\r\n\r\n",
        ):
            head, _, body = asyncio.run(send(address, garbage)).partition(b"\r\n\r\n")
            assert b" 400 " in head and b"Content-Type: application/problem+json" in head
            problem = json.loads(body)
            assert problem["status"] == 400 and problem["detail"]
            assert ("32,768 bytes" in problem["detail"]) == (len(garbage) > 99_999)


def test_the_longest_url_is_explained(job: Path) -> None:
    """Each of its characters may be three in a target; a longer target is refused as any other parameter is."""

    async def ask(address: str, url: str) -> tuple[int, str, str]:
        where = f"{address}/api/v1/jobs/job/explain?target={quote(url)}"
        async with aiohttp.ClientSession() as session, session.get(URL(where, encoded=True)) as answer:
            return answer.status, answer.content_type, await answer.text()

    with served(job) as address:
        status, kind, text = asyncio.run(ask(address, "http://resting.test/" + "|" * 8_000))
        assert (status, kind) == (200, "application/json"), text
        status, kind, text = asyncio.run(ask(address, "http://resting.test/" + "x" * 99_999))
        assert (status, kind) == (400, "application/problem+json") and "32,768 bytes" in text


def test_thousands_of_requests_at_once_leave_the_crawl_and_the_console_unharmed(job: Path) -> None:
    async def all_at_once(address: str) -> list[int]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1000)) as session:

            async def ask() -> int:
                async with session.get(address) as answer:
                    await answer.read()
                    return answer.status

            return await asyncio.gather(*(ask() for _ in range(sized(2_000, 10_000))))

    with Frontier.open(job / "frontier") as frontier, served(job) as address:
        statuses = asyncio.run(all_at_once(address))
        frontier.schedule("http://after.test/")
        frontier.commit()
        assert set(statuses) <= {200, 503} and 200 in statuses

        async def listed() -> bool:
            where = f"{address}/queues?sort=queue"
            async with aiohttp.ClientSession() as session, session.get(where) as answer:
                return answer.status == 200 and "after.test" in await answer.text()

        until(lambda: asyncio.run(listed()))
    with Frontier.open(job / "frontier") as frontier:
        frontier.check()
