"""Calls of hooks: after the operation that caused them, in order; their errors are logged, never raised.

`on_commit` is different: it is called right before each commit, so that an embedder's own files are on disk before the
frontier commits their URIs as finished. It may not use the frontier, and its exceptions prevent the commit and close
the frontier.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

from budgetfrontier.core.model import Lease, Outcome, QueueRecord, QueueState
from budgetfrontier.core.spelling import nearest
from budgetfrontier.engine.kernel import Kernel
from budgetfrontier.engine.live_queue import record_of
from budgetfrontier.errors import SettingsError, pass_on_interruption
from budgetfrontier.rules.queue_states import IN_PROCESS, INACTIVE, INELIGIBLE, READY, RETIRED, SNOOZED
from budgetfrontier.settings import plugins
from budgetfrontier.storage.records import DeadRow, dead_letter, expanded

log = logging.getLogger("budgetfrontier.hooks")

_CALLS: Final = {
    "on_activate": ("frontier", "record"),
    "on_deactivate": ("frontier", "record"),
    "on_retire": ("frontier", "record"),
    "on_pause_at_finish": ("frontier", "report"),
    "on_finish": ("frontier", "lease", "outcome"),
    "on_dead_letter": ("frontier", "letter"),
    "on_commit": ("frontier",),
}
"""The arguments that each hook is called with."""
NAMES = tuple(_CALLS)
_MOVES: Final = ("on_activate", "on_deactivate", "on_retire")

_ACTIVE = frozenset((READY, IN_PROCESS, SNOOZED))


class Hooks:
    """The hooks of one frontier: objects or modules with any of the functions in `NAMES`, or functions of those names.

    Each is called with the frontier first. A queue is given as a copy of its record.
    """

    def __init__(self, frontier: Any, hooks: Sequence[object]) -> None:
        self._frontier = frontier
        self._hooks = {name: [hook for h in hooks if (hook := _find(h, name)) is not None] for name in NAMES}
        self.on_finish = bool(self._hooks["on_finish"])
        self.waiting: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._running = False

    def attach(self, kernel: Kernel, buried: Sequence[tuple[int, DeadRow]] = (), *, paused: bool = False) -> None:
        """Subscribe to the events of the kernel that some hook handles; events during the opening come first."""
        self._tables = kernel.tables
        if any(self._hooks[name] for name in _MOVES):
            kernel.tables.rotation.on_move = self._moved
        if self._hooks["on_dead_letter"]:
            kernel.tables.dead_letters.on_add = self._died
            for ordinal, row in buried:
                self._died(ordinal, row)
        if paused:
            self.paused_at_finish()

    def _moved(self, queue: QueueRecord, before: QueueState) -> None:
        state = queue.state
        if state is RETIRED:
            name = "on_retire"
        elif state in (INACTIVE, INELIGIBLE) and before in _ACTIVE:
            name = "on_deactivate"
        elif before not in _ACTIVE and state in _ACTIVE:
            name = "on_activate"
        else:
            return
        if self._hooks[name]:
            self.waiting.append((name, (expanded(record_of(queue)),)))

    def _died(self, ordinal: int, row: DeadRow) -> None:
        self.waiting.append(("on_dead_letter", (dead_letter(ordinal, row),)))

    def finished(self, lease: Lease, outcome: Outcome) -> None:
        """Queue a call of `on_finish`."""
        self.waiting.append(("on_finish", (lease, outcome)))

    def paused_at_finish(self) -> None:
        """Queue a call of `on_pause_at_finish`."""
        if self._hooks["on_pause_at_finish"]:
            self.waiting.append(("on_pause_at_finish", ()))

    def before_commit(self) -> None:
        """Call `on_commit`."""
        for hook in self._hooks["on_commit"]:
            hook(self._frontier)

    def run(self) -> None:
        """Call the hooks for all queued events. Events that a hook itself causes are queued after them.

        A hook that resumes the crawl at its finish, with nothing to do, is not called again for the same finish.
        """
        if self._running:
            return
        self._running = True
        finish: tuple[int, int] | None = None
        try:
            while self.waiting:
                name, args = self.waiting.popleft()
                if name == "on_pause_at_finish":
                    before, finish = finish, (self._tables.counters.scheduled, self._tables.leases.given_out)
                    if finish == before:
                        log.warning("on_pause_at_finish has resumed a crawl with nothing to lease: it stays paused")
                        continue
                    args = (self._frontier.report(),)
                for hook in self._hooks[name]:
                    try:
                        hook(self._frontier, *args)
                    except Exception as e:
                        pass_on_interruption(e)
                        log.exception("the hook %s of %r failed; the crawl goes on", name, hook)
        finally:
            self._running = False


def load_hooks(names: Sequence[str]) -> list[object]:
    """Return the hooks that settings name as `module:name`; classes are instantiated. Raises SettingsError."""
    try:
        made = [plugins.make(name) for name in names]
    except SettingsError as error:
        raise SettingsError(f"hooks: {error}") from error.__cause__
    check(made)
    return made


def check(hooks: Sequence[object]) -> None:
    """Refuse hooks that would never be called, or fail at every call. Raises SettingsError."""
    for hook in hooks:
        _check_names(hook)
        for name, given in _CALLS.items():
            called = _find(hook, name)
            if called is not None and (why := _refusal(called, given)):
                meant = f"; give an object: {hook.__name__}()" if isinstance(hook, type) else ""
                raise SettingsError(f"hooks: {name} of {hook!r} {why}{meant}")


def _refusal(called: object, given: tuple[str, ...]) -> str | None:
    """Return why a hook cannot be called with arguments; None if it can."""
    if not callable(called):
        return f"is not a function, but {called!r:.60}"
    if plugins.is_async(called):
        return "is a coroutine function, and would never run: write it without `async`"
    why = plugins.objection(called, {}, *given)
    return why and f"must take ({', '.join(given)}): {why}"


def _check_names(hook: object) -> None:
    """Refuse a hook that would never be called, or has a misspelt method name. Raises SettingsError."""
    named = [getattr(hook, "__name__", "")] if isinstance(hook, FunctionType) else dir(hook)
    for name in named:
        if name.startswith("on_") and name not in NAMES and (near := nearest(name, NAMES)):
            raise SettingsError(f"hooks: {name} of {hook!r} is never called; did you mean {near}?")
    if not set(named) & set(NAMES):
        raise SettingsError(f"hooks: {hook!r} has no function that is called; there are {', '.join(NAMES)}")


def _find(hook: object, name: str) -> Callable[..., object] | None:
    if getattr(hook, "__name__", None) == name and callable(hook):
        return hook
    return getattr(hook, name, None)
