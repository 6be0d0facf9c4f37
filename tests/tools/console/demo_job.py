"""A crawl of the demo's web in a process, for pictures of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from budgetfrontier import Reader, Summary
from tests.support import PATIENCE

ROOT = Path(__file__).parents[3]


class Failure(Exception):
    """A picture that cannot be what it should be."""


Crawling = tuple[Path, subprocess.Popen[bytes]]
"""A job, relative to the working directory, and the process of its crawl."""


@contextmanager
def crawling(addresses: Mapping[str, str], changes: Mapping[str, Any]) -> Iterator[Crawling]:
    """Crawl the web of the demo in the working directory, with other settings than the demo.

    Args:
        addresses: The value of `fetch.resolve`.
        changes: For each section that differs, the values that replace the demo's.
    """
    config = yaml.safe_load((ROOT / "config" / "demo.yaml").read_text(encoding="utf-8"))
    config["fetch"]["resolve"] = dict(addresses)
    for name, change in changes.items():
        config[name] = config[name] | change if isinstance(change, Mapping) else change
    Path("demo.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with subprocess.Popen(command("crawl", "demo.yaml"), stderr=subprocess.DEVNULL) as process:
        try:
            yield Path("demo"), process
        finally:
            process.kill()


def command(*words: object) -> list[str]:
    """The command line of a command."""
    return [sys.executable, "-m", "budgetfrontier", *map(str, words)]


def wait(job: Path, process: subprocess.Popen[bytes], reached: Callable[[Summary], bool]) -> None:
    """Wait until the crawl has come so far."""
    deadline = time.monotonic() + PATIENCE
    ended = False
    while time.monotonic() < deadline and not ended:
        ended = process.poll() is not None
        if (job / "frontier" / "data.mdb").exists():
            with Reader(job / "frontier") as reader:
                if reached(reader.summary()):
                    return
        time.sleep(0.2)
    raise Failure("the crawl did not come so far")
