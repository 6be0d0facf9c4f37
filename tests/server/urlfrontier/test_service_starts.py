"""Starts that fail: each says in a sentence of its own what to do."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from budgetfrontier.tools.cli import main
from tests.server.urlfrontier.service_client import command
from tests.support import token_file

NOWHERE = "unix:/no/such/socket"


def refusal(jobs: Path, *options: str | Path, listen: str = "127.0.0.1:0", code: int = 1) -> str:
    """The last line of a server that does not start; gRPC's own lines are left out."""
    done = command("serve", jobs, "--listen", listen, *options)
    assert done.returncode == code
    assert "Traceback" not in done.stderr and ".cc:" not in done.stderr
    return done.stderr.splitlines()[-1]


def test_what_is_wrong_with_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path / 'file'}: File exists" in refusal(tmp_path / "file")
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / ".node.json").write_text("{x")
    assert "node.json is damaged" in refusal(tmp_path / "jobs")


def test_what_is_wrong_with_the_address(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        assert "cannot be listened on" in refusal(tmp_path / "jobs", listen=f"127.0.0.1:{used.getsockname()[1]}")
    (tmp_path / "file").touch()
    for path, why in (
        (Path("/no/such/socket"), "there is no folder /no/such"),
        (Path("/", "x" * 120), "bytes"),
        (tmp_path / "file", "is no socket"),
    ):
        assert f"unix:{path} cannot be listened on: " in (said := refusal(tmp_path / "jobs", listen=f"unix:{path}"))
        assert why in said
    assert "file is not in PEM" in refusal(tmp_path / "jobs", "--tls", tmp_path / "file", tmp_path / "file")
    for wrong in ("localhost", "127.0.0.1:99999", "unix:", "http://127.0.0.1:7071", "", ":7071", "a:b:1"):
        assert "HOST:PORT" in refusal(tmp_path / "jobs", listen=wrong, code=2)
    with socket.socket(socket.AF_UNIX) as used:
        used.bind(str(tmp_path / "socket"))
        used.listen()
        assert "another server listens" in refusal(tmp_path / "jobs", listen=f"unix:{tmp_path / 'socket'}")
        refusal(tmp_path / "all" / "jobs", listen=f"unix:{tmp_path / 'socket'}")
    assert not (tmp_path / "jobs").exists() and not (tmp_path / "all").exists()  # nothing is left behind


def test_a_token_file_without_a_token(tmp_path: Path) -> None:
    assert "is empty" in refusal(tmp_path / "jobs", "--token-file", token_file(tmp_path, ""))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"one\ntwo\n", "tök".encode(), b"a\x07b", b"x" * 5000])
def test_a_token_that_no_client_can_send(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    token_file(tmp_path).write_bytes(content)
    (tmp_path / "crawl.yaml").write_text(
        "crawl: x\nfetch: {user_agent: 'x (+http://x.test/)'}\ncluster: {kafka: nowhere:1}\n"
    )
    token = ("--token-file", tmp_path / "token")
    for line in (
        ("serve", tmp_path / "jobs", *token, "--listen", NOWHERE),
        (
            "worker",
            "--config",
            tmp_path / "crawl.yaml",
            "--folder",
            tmp_path / "jobs",
            "--listen",
            NOWHERE,
            *token,
        ),
        ("crawl", tmp_path / "crawl.yaml", "--job", tmp_path / "job", "--frontier", "127.0.0.1:1", *token),
    ):
        assert main([str(word) for word in line]) == 1, line
        assert "token: the token has " in capsys.readouterr().err
    assert not (tmp_path / "jobs").exists() and not (tmp_path / "job").exists()


@pytest.mark.parametrize("line", [("serve", "jobs", "--listen", NOWHERE), ("crawl", "crawl.yaml", "--job", "jobs")])
def test_a_name_for_metrics_that_are_not_served(
    line: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crawl.yaml").write_text("crawl: x\nfetch: {user_agent: 'x (+http://x.test/)'}\n")
    assert main([*line, "--allow-host", "metrics.test"]) == 2
    assert "--allow-host is for --metrics, which is not given" in capsys.readouterr().err
    assert not Path("jobs").exists()


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    make = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2")
    try:
        for name in ("a", "b"):
            files = ("-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.pem")
            subprocess.run((*make, *files), check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "b.key", tmp_path / "a.pem"
    assert f"is {key} not the key of {certificate}?" in refusal(tmp_path / "jobs", "--tls", certificate, key)
