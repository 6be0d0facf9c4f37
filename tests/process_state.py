"""The state of the process that a test has to leave as it found it: what is compared, and how it is restored.

Each part is read before a test and again afterwards. What differs is restored, so that one test fails and not those
that come after it, in whatever order. All of it takes some tenths of a millisecond. The filters of warnings are not
among it: pytest restores them. Nor are loggers that come with a module which a test is the first to import.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from tests.support import PATIENCE

State = dict[str, Any]
"""What was read, by the name of the part."""

_OF_PYTEST = b"PYTEST_CURRENT_TEST"  # which it changes between the phases of a test
_NAMES = ("INT", "TERM", "HUP", "QUIT", "ALRM", "USR1", "USR2", "CHLD", "PIPE", "WINCH")
_SIGNALS = tuple(signal.Signals[f"SIG{name}"] for name in _NAMES)
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
_PYTEST = "_pytest.logging"
_OF_PROCESS = re.compile(r".*\(_poll_wrapper\)|(crawl|disk)_[0-9]+")
"""Threads that last as long as the process: that of grpc.aio, and those of `budgetfrontier.crawler.threads`."""
_ATTRIBUTES: dict[str, tuple[Any, str]] = {
    "logging.disable": (logging.root.manager, "disable"),
    "logging.raiseExceptions": (logging, "raiseExceptions"),
    "logging.captureWarnings": (logging, "_warnings_showwarning"),
    "warnings.showwarning": (warnings, "showwarning"),
    "threading.excepthook": (threading, "excepthook"),
    "sys.excepthook": (sys, "excepthook"),
    "sys.unraisablehook": (sys, "unraisablehook"),
    "tempfile.tempdir": (tempfile, "tempdir"),
} | {f"time.{name}": (time, name) for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep")}


lasting: set[threading.Thread] = set()
"""The threads that fixtures of the session have started, perhaps in the middle of a test."""


class Part(NamedTuple):
    """A part of the state that can be compared, and set to what was read before."""

    read: Callable[[], Any]
    restore: Callable[[Any], object]


def read() -> State:
    """Return the state of the process."""
    return {name: part.read() for name, part in _PARTS.items()} | {
        "open files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "modules": sys.modules.copy(),
        "threads": set(threading.enumerate()),
    }


def restored(before: State, *, threads: bool = True) -> list[str]:
    """Restore what differs from an earlier state; return a line for each part that did, and for `threads` that run."""
    found: list[str] = []
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files != before["open files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, before["open files"])
        if files < before["open files"]:  # a crawl raises it, and that does no harm
            found.append(f"limit of open files: {before['open files']} became {files}")
    for name, part in _PARTS.items():
        was, now = before[name], part.read()
        if name == "loggers":
            now = {each: now[each] for each in now if each in was}
        if was != now:
            part.restore(was)
            found.append(f"{name}: {_difference(was, now)}")
    return [*found, *_modules(before["modules"]), *(_threads(before["threads"]) if threads else ())]


def _difference(was: Any, now: Any) -> str:
    if not isinstance(was, dict):
        return f"{was!r} became {now!r}"
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} ({was.get(name)!r} became {now.get(name)!r})" for name in names)


def _modules(before: dict[str, ModuleType]) -> Iterator[str]:
    """Yield a line for each module that was removed or replaced; forget those that came from a temporary folder."""
    now = sys.modules
    if now == before:
        return
    temporary = tempfile.gettempdir()
    for name in [name for name in now if name not in before]:
        if (getattr(now[name], "__file__", None) or "").startswith(temporary):
            del now[name]  # a later test may have another one of that name
    for name, module in before.items():
        if now.get(name) is not module:
            now[name] = module
            yield f"sys.modules: {name} was removed, or imported again: there are two of each of its classes"


def _threads(before: set[threading.Thread]) -> Iterator[str]:
    """Yield a line for each thread that was started since and does not end."""
    started = [
        each for each in threading.enumerate() if each not in before | lasting and not _OF_PROCESS.fullmatch(each.name)
    ]
    for thread in started:
        thread.join(0.2)  # most end by themselves
        if thread.is_alive():
            gc.collect()  # the threads of an executor end with it
            thread.join(PATIENCE)
            if thread.is_alive():
                yield f"threads: {thread.name} is still running"


def _loggers() -> dict[str, tuple[Any, ...]]:
    """Return level, propagation, handlers and filters of each logger.

    pytest's own handlers, which it adds for each phase of a test, are left out.
    """
    return {
        name: (each.level, each.propagate, each.disabled, *_lasting(each.handlers), *each.filters)
        for name, each in [("root", logging.root), *logging.root.manager.loggerDict.items()]
        if isinstance(each, logging.Logger)
    }


def _lasting(handlers: list[logging.Handler]) -> Iterable[logging.Handler]:
    return (each for each in handlers if type(each).__module__ != _PYTEST)


def _restore_loggers(before: dict[str, tuple[Any, ...]]) -> None:
    for name, (level, propagate, disabled, *added) in before.items():
        logger = logging.root if name == "root" else logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        of_pytest = [each for each in logger.handlers if type(each).__module__ == _PYTEST]
        logger.handlers[:] = [each for each in added if isinstance(each, logging.Handler)] + of_pytest
        logger.filters[:] = [each for each in added if not isinstance(each, logging.Handler)]


def _environment() -> dict[bytes, bytes]:
    environment: dict[bytes, bytes] = os.environ._data.copy()  # type: ignore[attr-defined] # decoded, it takes 0.1 ms
    environment.pop(_OF_PYTEST, None)
    return environment


def _restore_environment(before: dict[bytes, bytes]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environb[name]
    os.environb.update(before)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _restore_signals(before: dict[int, Any]) -> None:
    for number, handler in before.items():
        if handler is not None and signal.getsignal(number) != handler:
            signal.signal(number, handler)


def _restore_limits(before: dict[int, tuple[int, int]]) -> None:
    for number, limits in before.items():
        resource.setrlimit(number, limits)


def _event_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop that is set for this thread, and make none."""
    policy = getattr(asyncio.events, "_event_loop_policy", None)
    found: asyncio.AbstractEventLoop | None = getattr(getattr(policy, "_local", None), "_loop", None)
    return found


def _restore_attributes(before: dict[str, Any]) -> None:
    for name, (owner, attribute) in _ATTRIBUTES.items():
        setattr(owner, attribute, before[name])


def _restore_collection(before: tuple[bool, int, int, int]) -> None:
    enabled, *thresholds = before
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


def _finders() -> list[Any]:
    """Return the finders of modules, without that of `six`, which stays once anything has imported it."""
    return [finder for finder in sys.meta_path if type(finder).__module__ != "six"]


_PARTS = {
    "loggers": Part(_loggers, _restore_loggers),
    "attributes": Part(
        lambda: {name: getattr(owner, attribute) for name, (owner, attribute) in _ATTRIBUTES.items()},
        _restore_attributes,
    ),
    "environment": Part(_environment, _restore_environment),
    "working directory": Part(_folder, os.chdir),
    "umask": Part(_mask, os.umask),
    "signal handlers": Part(lambda: {number: signal.getsignal(number) for number in _SIGNALS}, _restore_signals),
    "limits": Part(lambda: {number: resource.getrlimit(number) for number in _LIMITS}, _restore_limits),
    "sys.path": Part(lambda: list(sys.path), lambda before: sys.path.__setitem__(slice(None), before)),
    "sys.meta_path": Part(_finders, lambda before: sys.meta_path.__setitem__(slice(None), before)),
    "event loop": Part(_event_loop, asyncio.set_event_loop),
    "garbage collection": Part(lambda: (gc.isenabled(), *gc.get_threshold()), _restore_collection),
    "default time-out of sockets": Part(socket.getdefaulttimeout, socket.setdefaulttimeout),
    "recursion limit": Part(sys.getrecursionlimit, sys.setrecursionlimit),
    "switch interval": Part(sys.getswitchinterval, sys.setswitchinterval),
}
