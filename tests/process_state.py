"""The state of the process that a test has to leave as it found it: what is compared, and how it is restored.

Each part is read before a test and again afterwards. What differs is restored, so that one test fails and not those
that come after it, in whatever order. All of it takes some tenths of a millisecond.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

from tests.support import PATIENCE

State = dict[str, Any]
"""What was read, by the name of the part."""

_OF_PYTEST = b"PYTEST_CURRENT_TEST"  # which it changes between the phases of a test
_NAMES = ("INT", "TERM", "HUP", "QUIT", "ALRM", "USR1", "USR2", "CHLD", "PIPE", "WINCH")
_SIGNALS = tuple(signal.Signals[f"SIG{name}"] for name in _NAMES)
_LIMITS = (resource.RLIMIT_FSIZE, resource.RLIMIT_AS)
_NEW_LOGGER = (logging.NOTSET, True, False)
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


def restored(before: State) -> list[str]:
    """Restore what differs from an earlier state; return a line for each part that did."""
    found: list[str] = []
    now = resource.getrlimit(resource.RLIMIT_NOFILE)
    if now != before["open files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, before["open files"])
        if now < before["open files"]:  # a crawl raises it, and that does no harm
            found.append(f"limit of open files: {before['open files']} became {now}")
    for name, part in _PARTS.items():
        was, now = before[name], part.read()
        if was != now:
            part.restore(was)
            found.append(f"{name}: {_difference(was, now)}")
    return [*found, *_modules(before["modules"]), *_threads(before["threads"])]


def _difference(was: Any, now: Any) -> str:
    if not isinstance(was, dict):
        return f"{was!r} became {now!r}"
    names = [name for name in {**was, **now} if was.get(name) != now.get(name)]
    return ", ".join(f"{name} ({was.get(name)!r} became {now.get(name)!r})" for name in names)


def _modules(before: dict[str, ModuleType]) -> Iterator[str]:
    """Yield a line for each module that was removed, replaced, or imported from a temporary folder."""
    now = sys.modules
    if now == before:
        return
    temporary = tempfile.gettempdir()
    for name in [name for name in now if name not in before]:
        if (getattr(now[name], "__file__", None) or "").startswith(temporary):
            del now[name]
            yield f"sys.modules: {name} was imported from a temporary folder"
    for name, module in before.items():
        if now.get(name) is not module:
            now[name] = module
            yield f"sys.modules: {name} was removed, or imported again: there are two of each of its classes"


def _threads(before: set[threading.Thread]) -> Iterator[str]:
    """Yield a line for each thread that was started since and does not end."""
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(PATIENCE)
            if thread.is_alive():
                yield f"threads: {thread.name} is still running"


def _loggers() -> dict[str, tuple[Any, ...]]:
    """Return level, propagation, handlers and filters of each logger in which they are not those of a new one.

    pytest's own handlers, which it adds for each phase of a test, are left out.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for name, each in [("root", logging.root), *logging.root.manager.loggerDict.items()]:
        if isinstance(each, logging.Logger):
            handlers = [one for one in each.handlers if type(one).__module__ != "_pytest.logging"]
            state = each.level, each.propagate, each.disabled, *handlers, *each.filters
            if state != _NEW_LOGGER:
                found[name] = state
    return found


def _restore_loggers(before: dict[str, tuple[Any, ...]]) -> None:
    for name in {**before, **_loggers()}:
        level, propagate, disabled, *added = before.get(name, _NEW_LOGGER)
        logger = logging.root if name == "root" else logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate, logger.disabled = propagate, disabled
        kept = [each for each in logger.handlers if type(each).__module__ == "_pytest.logging"]
        logger.handlers[:] = [each for each in added if isinstance(each, logging.Handler)] + kept
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


def _restore_warnings(before: list[Any]) -> None:
    warnings.resetwarnings()  # the list itself is another one within `catch_warnings`
    warnings.filters[:] = before  # type: ignore[index]


def _restore_collection(before: tuple[bool, int, int, int]) -> None:
    enabled, *thresholds = before
    gc.set_threshold(*thresholds)
    (gc.enable if enabled else gc.disable)()


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
    "warning filters": Part(lambda: list(warnings.filters), _restore_warnings),
    "sys.path": Part(lambda: list(sys.path), lambda before: sys.path.__setitem__(slice(None), before)),
    "sys.meta_path": Part(lambda: list(sys.meta_path), lambda before: sys.meta_path.__setitem__(slice(None), before)),
    "event loop": Part(_event_loop, asyncio.set_event_loop),
    "garbage collection": Part(lambda: (gc.isenabled(), *gc.get_threshold()), _restore_collection),
    "default time-out of sockets": Part(socket.getdefaulttimeout, socket.setdefaulttimeout),
    "recursion limit": Part(sys.getrecursionlimit, sys.setrecursionlimit),
    "switch interval": Part(sys.getswitchinterval, sys.setswitchinterval),
}
