"""Answers that may need a pass over all queues or logs: a command makes them, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from threading import BoundedSemaphore
from typing import Any

import msgspec

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console.jobs import ConsoleJob
from budgetfrontier.tools.console.query import ServiceUnavailable

AT_ONCE = 2
"""Commands that run at a time; others are refused until one has ended, so that they keep no page waiting."""
_places = BoundedSemaphore(AT_ONCE)


def from_command(job: ConsoleJob, command: str, *words: str) -> Any:
    """Return the JSON that a command on a job prints. Raises FrontierError if it fails."""
    if not _places.acquire(blocking=False):
        raise ServiceUnavailable
    try:
        done = subprocess.run(
            [sys.executable, "-m", "budgetfrontier", command, *job.words, *words, "--format", "json"],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
        )  # fmt: skip
    finally:
        _places.release()
    if done.returncode and not done.stdout.strip():  # without partitions that do not answer, it is about the others
        raise FrontierError(done.stderr.decode("utf-8", "replace").strip())
    return msgspec.json.decode(done.stdout)
