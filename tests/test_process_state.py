"""What is restored after a test that leaves the state of the process changed, and what is said of it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import process_state

QUIET = "tests.logger_of_process_state"

LEFT_BEHIND: dict[str, Callable[[], object]] = {
    "loggers: root": lambda: logging.root.setLevel(logging.CRITICAL),
    f"loggers: {QUIET}": lambda: setattr(logging.getLogger(QUIET), "disabled", True),
    "loggers: asyncio": lambda: logging.getLogger("asyncio").addHandler(logging.NullHandler()),
    "attributes: logging.raiseExceptions": lambda: setattr(logging, "raiseExceptions", False),
    "attributes: logging.disable": lambda: logging.disable(logging.ERROR),
    "attributes: threading.excepthook": lambda: setattr(threading, "excepthook", print),
    "attributes: sys.excepthook": lambda: setattr(sys, "excepthook", print),
    "attributes: time.time": lambda: setattr(time, "time", lambda: 0.0),
    "environment: b'BF_LEFT'": lambda: os.environ.update(BF_LEFT="1"),
    "environment: b'PATH'": lambda: os.environ.pop("PATH"),
    "working directory": lambda: os.chdir("/"),
    "umask": lambda: os.umask(0o027),
    "signal handlers": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN),
    "sys.path": lambda: sys.path.insert(0, "/nowhere"),
    "sys.modules: email": lambda: sys.modules.pop("email"),
    "event loop": lambda: asyncio.set_event_loop(asyncio.SelectorEventLoop()),
    "default time-out of sockets": lambda: socket.setdefaulttimeout(5.0),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
}


@pytest.mark.parametrize("said", LEFT_BEHIND)
def test_what_a_test_leaves_behind_is_named_and_restored(said: str) -> None:
    import email  # noqa: F401

    logging.getLogger(QUIET)
    before = process_state.read()
    LEFT_BEHIND[said]()
    loop = process_state._event_loop()
    [line] = process_state.restored(before)
    assert line.startswith(said)
    assert process_state.restored(before) == []
    if loop is not None:
        loop.close()


def test_a_module_of_a_temporary_folder_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_left_behind.py").touch()
    before = process_state.read()
    with monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        __import__("module_left_behind")
    assert process_state.restored(before) == []
    assert "module_left_behind" not in sys.modules


def test_a_thread_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_state, "PATIENCE", 0.0)
    end = threading.Event()
    before = process_state.read()
    thread = threading.Thread(target=end.wait, name="forgotten")
    thread.start()
    assert process_state.restored(before) == ["threads: forgotten is still running"]
    end.set()
    thread.join()
