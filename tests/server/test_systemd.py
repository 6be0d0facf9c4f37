"""What the service manager is told, and wants to be told."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from budgetfrontier.server.systemd import notify, watchdog
from tests.support import PATIENCE


def test_nobody_is_told_if_there_is_no_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    notify("READY=1")


def test_a_manager_may_listen_in_the_abstract_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"budgetfrontier-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}")
        listening.settimeout(PATIENCE)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify("READY=1")
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    ("wanted", "pid", "seconds"),
    [("1500000", "", 1.5), ("1500000", "own", 1.5), ("1500000", "1", None), ("", "", None), ("0", "", None),
     ("x", "", None), ("-5", "", None)],
)  # fmt: skip
def test_the_watchdog_is_that_of_this_process(
    monkeypatch: pytest.MonkeyPatch, wanted: str, pid: str, seconds: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", wanted)
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert watchdog() == seconds
