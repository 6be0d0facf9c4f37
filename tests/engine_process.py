"""An engine in a process of its own, which leases and finishes until it is ended: the running job of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from budgetfrontier import Frontier, Outcome
from tests import forked
from tests.support import PATIENCE


@contextmanager
def running_engine(job: Path) -> Iterator[int]:
    """Have an engine run on a job, which must survive the block. Yields its pid."""
    here, there = forked.CONTEXT.Pipe()
    engine = forked.CONTEXT.Process(target=_run, args=(str(job / "frontier"), there))
    engine.start()
    there.close()
    try:
        with here:
            assert here.recv() == "running"
            assert engine.pid is not None
            yield engine.pid
        engine.join(PATIENCE)
        assert engine.exitcode == 0, "the engine did not survive"
    finally:
        engine.kill()


def _run(path: str, test: Connection) -> None:
    """Work until the test closes its end of the pipe."""
    with Frontier.open(path) as frontier:
        test.send("running")
        wait = 0.0
        while not test.poll(wait):
            for lease in frontier.lease(4):
                frontier.finish(lease, Outcome.SUCCESS, fetch_seconds=0.1)
            frontier.commit()
            wait = min(frontier.next_ready_in() or 0.01, 0.01)
