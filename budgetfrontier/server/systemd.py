"""The protocol of a service for reporting to systemd that it is ready, alive or stopping: sd_notify(3)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send lines such as READY=1 to the service manager; do nothing if there is none, or if it does not listen."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def watchdog() -> float | None:
    """Return the interval in seconds for sending WATCHDOG=1; None if nobody waits for it."""
    wanted, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID", "")
    if not wanted.isdecimal() or int(wanted) <= 0 or (pid and pid != str(os.getpid())):
        return None
    return int(wanted) / 1e6
