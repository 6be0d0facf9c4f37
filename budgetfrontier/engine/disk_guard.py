"""The pause of a crawl while a disk that it writes to is nearly full (`guards.min_free`), and its end."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from time import monotonic

from budgetfrontier.core.units import format_size
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.delivery import Delivery
from budgetfrontier.engine.guard import Guard
from budgetfrontier.rules import crawl_states
from budgetfrontier.storage.disks import free_bytes

LOOK_EVERY = 10.0
"""Seconds of real time from one look at the disks to the next."""
WHO = "guard"
"""The author of these pauses in the audit."""


class DiskGuard:
    """Looks at the disks in the opening, and then with the tick of a commit interval, at most every ten seconds.

    The owner of a partition looks at its own, with `Internals.look_at_disks`.
    """

    def __init__(self, guard: Guard, delivery: Delivery, folders: Iterable[Path] | None) -> None:
        """`folders` are further ones, and left out of a look while they do not exist; None: never look."""
        self._guard = guard
        self._delivery = delivery
        env = guard.tables.env
        never = folders is None or env.memory
        self._folders = [] if never else [Path(env.path), *(folders or ())]
        self._next_look = 0.0
        guard.on_look = self._look_if_due

    def _look_if_due(self) -> None:
        if monotonic() >= self._next_look:
            self.look()

    def look(self) -> None:
        """Pause or resume the crawl if the disks call for it."""
        self._next_look = monotonic() + LOOK_EVERY
        guard, counters = self._guard, self._guard.kernel.counters
        guards = guard.tables.in_force.frontier.guards
        if not guards.min_free and not crawl_states.is_paused_for_disk(counters.state, counters.pause_reason):
            return
        least = min(self._free(), default=None)
        if least is None:
            return
        free, folder = least
        step = crawl_states.step_for_disk(
            counters.state, counters.pause_reason, free, min_free=guards.min_free, resume_at=guards.resumes_at
        )
        if step == "pause":
            wanted, enough = format_size(guards.min_free), format_size(guards.resumes_at)
            limits = f"less than guards.min_free, {wanted}; at {enough} it resumes by itself"
            reason = f"{crawl_states.DISK}{format_size(free)} free in {folder}, {limits}"
            self._apply(Command("pause", {"reason": reason}, WHO, reason))
        elif step and not guard.kernel.underway:
            self._apply(Command("resume", {}, WHO, f"{format_size(free)} free in {folder}"))

    def _free(self) -> Iterable[tuple[int, str]]:
        for folder in self._folders:
            with suppress(OSError):
                yield free_bytes(folder), str(folder)

    def _apply(self, command: Command) -> None:
        self._delivery.begin(command, 0)
        self._guard.settle()
        self._guard.commits.changes += 1
