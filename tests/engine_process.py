"""An engine in a process of its own, which leases and finishes until its stdin ends: the running job of the tests."""

from __future__ import annotations

import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from budgetfrontier import Frontier, Outcome
from tests.support import PATIENCE, child_process


@contextmanager
def running_engine(job: Path) -> Iterator[int]:
    """Have an engine run on a job, which must survive the block. Yields its pid."""
    command = [sys.executable, "-m", "tests.engine_process", str(job / "frontier")]
    with child_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdin is not None and engine.stdout is not None
        assert engine.stdout.readline() == b"running\n"
        yield engine.pid
        engine.stdin.close()
        assert engine.wait(timeout=PATIENCE) == 0, "the engine did not survive"


def main(path: str) -> None:
    with Frontier.open(path) as frontier:
        print("running", flush=True)
        wait = 0.0
        while not select.select([sys.stdin], [], [], wait)[0]:
            for lease in frontier.lease(4):
                frontier.finish(lease, Outcome.SUCCESS, fetch_seconds=0.1)
            frontier.commit()
            wait = min(frontier.next_ready_in() or 0.01, 0.01)


if __name__ == "__main__":
    main(sys.argv[1])
