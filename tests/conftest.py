"""Hypothesis profiles, temporary files in memory, and what each test has to leave as it found it.

The profile is `dev` on a desk, `ci` (derandomised) in CI, `many` in `make properties`; choose with HYPOTHESIS_PROFILE.
Temporary files are in memory where there is room: processes are killed there, and no machine, and syncing would wait
for a disk that others use, too. TMPDIR=/tmp has them on the disk.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import process_state, support
from tests.crash import disks
from tests.examples import MANY

SHARED_MEMORY = Path("/dev/shm")
ROOM = 4 << 30

settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), max_examples=200, derandomize=True)
settings.register_profile("many", settings.get_profile("dev"), max_examples=MANY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") == "true" else "dev"))

for _name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR"):  # listings depend on them
    os.environ.pop(_name, None)

# `nohup` and a shell's background processes ignore these, and what they start would, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# gRPC's handler before a fork once waited for its threads for ever. Forked children here use no gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

# A forked child leaves what other tests have left behind alone: clients of Kafka and gRPC crash there when collected.
os.register_at_fork(after_in_child=gc.freeze)

if "TMPDIR" not in os.environ and SHARED_MEMORY.is_dir() and shutil.disk_usage(SHARED_MEMORY).free >= ROOM:
    os.environ["TMPDIR"] = str(SHARED_MEMORY)  # for the processes that are started, too
    tempfile.tempdir = None  # it may have been looked up
tempfile.gettempdir()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with tests that wait for most of their time, all by one process: the others have the processors meanwhile.

    None of them is left for the end, when nothing would be run beside it.
    """
    items.sort(key=lambda item: item.get_closest_marker("waits") is None)


def pytest_collection_finish() -> None:
    """Leave the ten thousand tests and their modules out of each full collection, which else takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _module_leaves_the_process_as_it_was() -> Iterator[None]:
    """Do for the fixtures of a module what is done for each test; fail if a thread of the module is left.

    The servers of its fixtures may have started one in the middle of a test.
    """
    yield from _unchanged(threads=True)


@pytest.fixture(autouse=True)
def _test_leaves_the_process_as_it_was() -> Iterator[None]:
    """Restore the state of the process after a test, and fail the test if it has changed it."""
    yield from _unchanged(threads=False)


def _unchanged(*, threads: bool) -> Iterator[None]:
    before = process_state.read()
    yield
    if changes := process_state.restored(before, threads=threads):
        pytest.fail("the state of the process was left changed:\n" + "\n".join(changes), pytrace=False)


@pytest.fixture
def stopped_time(monkeypatch: pytest.MonkeyPatch) -> float:
    """Stop `time.time()` at the start of a test, so that ages do not depend on how long the machine takes."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    return now


@pytest.fixture(autouse=True)
def _frontiers_are_closed() -> Iterator[None]:
    """Close what the test left open: the maps of frontiers would make each fork slower than the one before."""
    before = len(support.opened)
    yield
    support.close_opened(before)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB."""
    with disks.disk_or_skip(tmp_path, size=2 << 20) as disk:
        yield disk.folder
