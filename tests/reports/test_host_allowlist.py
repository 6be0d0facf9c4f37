"""Which Host headers the servers of the console and of metrics answer."""

from __future__ import annotations

import socket

import pytest

from budgetfrontier.reports.host_allowlist import HostAllowlist


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("127.0.0.1:8089", True), ("localhost", True), ("[::1]:8089", True), ("10.0.0.7:80", True),
        ("console.example", True), ("Console.Example:443", True), (socket.gethostname(), True),
        ("evil.test", False), ("evil.test:8089", False), ("127.0.0.1.evil.test", False), ("", False), (None, False),
    ],
)  # fmt: skip
def test_only_addresses_and_known_names_are_hosts(host: str | None, known: bool) -> None:
    assert (host in HostAllowlist(["console.example"])) is known
