"""Workers with TLS and a token: what operators need, and what they are told of those that let them not in, or hang."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Settings
from budgetfrontier.cluster.directory import kafka
from budgetfrontier.cluster.directory.owners import Owner
from budgetfrontier.cluster.operators import crawl_owners, owner_calls
from budgetfrontier.core.endpoints.tokens import TokenFile
from budgetfrontier.server.server import Tls
from budgetfrontier.tools.cli import main
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import running
from tests.remote.test_tls import certificate
from tests.support import PATIENCE, token_file, until

URL = "kafka://nowhere/test"
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command on a crawl whose owners are in a directory."""

    def run(directory: MemoryDirectory, command: str, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(kafka, "KafkaDirectory", lambda where: directory)
        monkeypatch.setattr(kafka, "log_ends", lambda where, partitions: {})
        code = main([command, "--cluster", URL, *arguments])
        return code, *capsys.readouterr()

    return run


def free_address() -> str:
    """Return an address that nobody listens at."""
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{plain.getsockname()[1]}"


def test_workers_that_let_nobody_in_are_named_with_the_reason(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_calls, "SIGN_OF_LIFE", PATIENCE)
    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    ours, key = certificate(tmp_path, "ours")
    (tmp_path / "other").mkdir()
    token, other = (TokenFile(token_file(folder, f"token of {folder}")) for folder in (tmp_path, tmp_path / "other"))
    tls, addresses = Tls(ours, key), [free_address() for _ in range(3)]
    access: list[dict[str, Any]] = [
        {"listen": addresses[0], "tls": tls, "token": token},
        {"listen": addresses[1], "tls": tls, "token": other},
        {"listen": addresses[2], "token": token},
    ]
    with running(tmp_path, Settings.from_dict({"crawl": "test"}), [(0,), (1,), (2,)], 3, access) as cluster:
        until(lambda: len(cluster.directory.read()) == 3)
        known = "--tls-ca", str(ours), "--token-file", str(token.path)
        code, out, err = cli(cluster.directory, "report", *known, "--format", "json")
        assert (code, json.loads(out)["missing_partitions"]) == (1, [1, 2])
        assert f"the server at {addresses[1]} has another token; set --token-file to" in err
        assert f"the server at {addresses[2]} has no TLS; leave --tls-ca out" in err
        code, out, err = cli(cluster.directory, "pause", *known)
        assert (code, out, "not applied yet by partitions 1-2 of 3" in err) == (1, "NEW -> PAUSED\n", True)
        assert "it is in the log of partition 0, which sends it to the others, or in theirs, and counts once an" in err
        code, _, err = cli(cluster.directory, "report", "--tls-ca", str(ours))
        assert (code, err.count("wants a token; set --token-file")) == (1, 2)
        monkeypatch.setattr(crawl_owners, "WAIT", PATIENCE)  # which is not waited for: nobody lets this command in
        code, _, err = cli(cluster.directory, "pause", "--tls-ca", str(ours))
        assert (code, "no worker of this crawl answers (" in err, err.count("wants a token")) == (1, True, 2)


def test_a_worker_that_hangs_is_named_soon(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner_calls, "SIGN_OF_LIFE", 0.1)
    monkeypatch.setattr(owner_calls, "PATIENCE", 0.0)
    directory = MemoryDirectory()
    with socket.socket(socket.AF_UNIX) as hung:
        hung.bind(f"{tmp_path}/hung")
        hung.listen()  # the system takes connections, and nobody answers
        directory.publish(*(Owner(number, 1, "hung#1", f"unix:{tmp_path}/hung", 0.0, 2) for number in range(2)))
        code, out, err = cli(directory, "partitions", "--format", "json")
        assert (code, [row["state"] for row in json.loads(out)]) == (1, [None, None])
        assert "partitions 0-1 of 2 do not answer (last with hung#1): unix:" in err
        assert "has not answered for" in err
        assert "look whether" in cli(directory, "explain", "https://a.test/")[2]


@pytest.mark.parametrize("option", ["--tls-ca", "--token-file"])
def test_options_of_partitions_are_refused_for_a_job(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = [["report"], ["pause"], *([["console"]] if option == "--tls-ca" else [])]
    for command in commands:
        assert main([*command, str(tmp_path), option, "file"]) == 2
        assert f"{option} is for a crawl in partitions: give it with --cluster" in capsys.readouterr().err
