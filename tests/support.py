"""Small hands for the tests: a frontier in memory, pages of a host, one worker that crawls."""

from __future__ import annotations

import gc
import logging
import socket
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from budgetfrontier import Frontier, Outcome, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Lease, QueueRecord
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.errors import FrontierError
from budgetfrontier.storage import keys
from budgetfrontier.storage.environment import opened_here
from budgetfrontier.storage.records import AuditEntry

if TYPE_CHECKING:  # processes that tests start import this module, too
    import pytest

    from tests.forked import ForkedProcess

START = 1_000_000.0

PATIENCE = 300.0
"""Seconds after which a test that hangs fails. It ends a hang, and nothing is measured by it."""


opened: list[Frontier] = []
"""The frontiers that `memory` and `on_disk` have opened."""


def close_opened(first: int) -> None:
    """Close the frontiers from this one on, those aside that are closed or belong to another thread."""
    for frontier in opened[first:]:
        with suppress(FrontierError):
            frontier.close()
    del opened[first:]


def make_settings(
    *,
    polite: bool = False,
    concurrency: int = 1,
    overrides: Iterable[dict[str, Any]] = (),
    groups: Iterable[dict[str, Any]] = (),
    **frontier: Any,
) -> Settings:
    """Settings without delays (unless `polite`) and without commits of their own."""
    politeness: dict[str, Any] = {"per_queue_concurrency": concurrency}
    if not polite:
        politeness |= {"delay_factor": 0.0, "min_delay": 0.0, "max_delay": 0.0}
    chosen = {"commit_interval": 3600.0, "politeness": politeness} | frontier
    more = {"overrides": list(overrides), "groups": list(groups)}
    return Settings.from_dict({"crawl": "test", "frontier": chosen, **more})


class InterruptedClock(ManualClock):
    """A clock whose reading does something else first, once: as a signal handler would."""

    then: Callable[[], object] | None = None

    def time(self) -> float:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().time()


def memory(clock: ManualClock | None = None, *, hooks: Iterable[object] = (), **options: Any) -> Frontier:
    """A frontier that leaves nothing behind; `options` are those of `make_settings`."""
    clock = clock or ManualClock(START)
    opened.append(Frontier.open(":memory:", make_settings(**options), clock=clock, hooks=tuple(hooks)))
    return opened[-1]


def on_disk(
    folder: Path,
    clock: ManualClock | None = None,
    *,
    keep_leases: bool = False,
    hooks: Sequence[object] = (),
    **options: Any,
) -> Frontier:
    """A frontier in a folder; without options it is opened with the settings it has stored."""
    settings = make_settings(**options) if options else None
    clock = clock or ManualClock(START)
    opened.append(Frontier.open(folder / "frontier", settings, clock=clock, hooks=hooks, keep_leases=keep_leases))
    return opened[-1]


def pages(hosts: str, count: int, *, first: int = 0) -> list[str]:
    """`count` URLs of each host; hosts are single letters."""
    return [f"https://{host}.test/{page}" for host in hosts.lower() for page in range(first, first + count)]


def crawl(frontier: Frontier, limit: int = 100_000, outcome: Outcome = Outcome.SUCCESS, **options: Any) -> str:
    """One worker until nothing is given (or `limit`); returns the hosts' letters in the order of the crawl."""
    order: list[str] = []
    while len(order) < limit and (leases := frontier.lease(1)):
        order.append(leases[0].queue[0].upper())
        frontier.finish(leases[0], outcome, **options)
    return "".join(order)


def one(frontier: Frontier) -> Lease:
    """The one URI that a worker gets now."""
    (lease,) = frontier.lease(1)
    return lease


def paths(leases: Iterable[Lease]) -> list[str]:
    """What the URLs of leases end in."""
    return [lease.uri.url.partition(".test/")[2] for lease in leases]


def record(frontier: Frontier, letter: str) -> QueueRecord:
    """The queue of a host, which must exist."""
    found = frontier.queue(f"{letter.lower()}.test")
    assert found is not None
    return found


def state(frontier: Frontier, letter: str) -> str:
    """The state of the queue of a host."""
    return str(record(frontier, letter).state)


def crawl_state(frontier: Frontier) -> str:
    """The state of the crawl."""
    return str(frontier.state)


@contextmanager
def child_process(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Run a process for a block, and wait for its end; kill it if the block fails, so that the failure is reported."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def free_port() -> int:
    """Return a port of 127.0.0.1 that the system gives to nobody else for a minute, but to who names it.

    A connection to it has just been closed there, which TCP remembers for that long.
    """
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        server.accept()[0].close()  # the end that is closed first is remembered
        return int(server.getsockname()[1])


def until(condition: Callable[[], object], process: subprocess.Popen[Any] | ForkedProcess | None = None) -> None:
    """Wait for what another process or thread is about to do; `process` has to run meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.01)


def whole(frontier: Frontier) -> None:
    """The frontier is open, its invariants hold, and all that it remembers can be read and committed."""
    frontier.check()
    frontier.audit()
    frontier.dead_letters()
    frontier.report()
    frontier.commit()


def logged(caplog: pytest.LogCaptureFixture, *loggers: str, level: int = logging.WARNING) -> list[str]:
    """Return the messages of these loggers, and of those below them, from a level on.

    A test that says what was not logged names who would have logged it: libraries log at their own will.
    """
    mine = tuple(f"{name}." for name in loggers)
    records = (record for record in caplog.records if f"{record.name}.".startswith(mine))
    return [record.getMessage() for record in records if record.levelno >= level]


def token_file(folder: Path, token: str = "a token for the tests") -> Path:
    """Write a token that its owner alone can read into a file of a folder."""
    path = folder / "token"
    path.write_text(f"{token}\n")
    path.chmod(0o600)
    return path


def post(path: Path, op: str, **args: Any) -> int:
    """Leave a command in the mailbox of the frontier at `path`, as another process would; its number."""
    mailbox = Mailbox(path)
    try:
        return mailbox.post(Command(op, args, "somebody", ""))
    finally:
        mailbox.close()


def kernel(frontier: Frontier) -> Kernel:
    """The tables and turns below a frontier's API: to test their owners, to count their work, and to break them."""
    frontier._guard.enter()  # brings the totals up to date
    return frontier._kernel  # the only way for all tests: no caller of a frontier is to have it


@contextmanager
def growing() -> Iterator[Callable[[], int]]:
    """Run a block; the function tells by how many bytes the objects that Python keeps had grown at its end."""
    kept: list[int] = []
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: kept[0]
        gc.collect()
        kept.append(tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()


def map_size(path: Path) -> int:
    """The size of the map of the frontier that this process has open there."""
    engine = opened_here(path)
    assert engine is not None
    return int(engine.env.info()["map_size"])


def in_progress(frontier: Frontier) -> bool:
    """Whether a command was begun and is not done, as of the last commit of a frontier on disk."""
    with Reader(kernel(frontier).tables.env.path) as reader:
        return reader.in_progress() is not None


def stored(frontier: Frontier) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return all that a frontier has stored, by table, after a commit."""
    frontier.commit()
    view = kernel(frontier).tables.env.view()
    return {name: list(view.items(name)) for name in keys.TABLES}


def audited(job: Path) -> list[AuditEntry]:
    """Return the audit of a job."""
    with Reader(job / "frontier") as reader:
        return reader.audit()


def adjusted(job: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the adjustments of a job that are in force."""
    with Reader(job / "frontier") as reader:
        return [(one.match, one.set) for one in reader.adjustments]


def nested(depth: int) -> list[Any]:
    """Return a list in a list in a list."""
    lists: list[Any] = []
    for _ in range(depth):
        lists = [lists]
    return lists


def kept_by(path: Path) -> set[int]:
    """The numbers of the commands of which a frontier has kept something, as of its last commit."""
    with Reader(path) as reader, reader.view() as view:
        return {keys.removed.unpack(key)[0] for key, _ in view.items(keys.REMOVED)}


ENDLESS_CRAWL = """
import itertools, sys
from budgetfrontier import Frontier
from tests.support import crawl
with Frontier.open(sys.argv[1]) as f:
    print("running", flush=True)
    for n in itertools.count():
        f.schedule_many(f"https://{host}.test/{n}/{page}" for host in "abcdefgh" for page in range(20))
        crawl(f, 100)
        f.commit()
"""
"""A program that schedules and crawls at the frontier of its first argument until it is killed."""
