"""Schedulers on a frontier of their own, and on one that a server shares."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import Settings
from budgetfrontier.aio import Scheduler
from budgetfrontier.aio.scheduler import CANONICALIZATION
from budgetfrontier.clock import Clock
from budgetfrontier.leasing import NO_DELAYS
from budgetfrontier.settings.schema import FrontierSettings
from tests.remote.served import Served


class Place:
    """Makes schedulers with the arguments of Scheduler: `own` ones, or `shared` ones, which lease `ahead` or not."""

    def __init__(self, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.kind = kind
        self._folder = folder
        self._patch = patch
        self._servers = ExitStack()
        self._count = 0

    def __call__(self, settings: Settings | None = None, *, clock: Clock | None = None, **options: Any) -> Scheduler:
        if self.kind == "own":
            return Scheduler(":memory:", settings, clock=clock, **options)
        if self.kind == "shared":
            options["ahead"] = 0
        return Scheduler.connect(self.serve(settings, clock), **options)

    def serve(self, settings: Settings | None = None, clock: Clock | None = None) -> str:
        """Start another server, with the defaults of a Scheduler; return its address."""
        settings = settings or Settings(frontier=FrontierSettings(politeness=NO_DELAYS))
        frontier = msgspec.structs.replace(settings.frontier, canonicalization=CANONICALIZATION)
        served = Served(
            self._folder / str(self._count), msgspec.structs.replace(settings, frontier=frontier), self._patch, clock
        )
        self._count += 1
        return self._servers.enter_context(served).address

    def close(self) -> None:
        """Stop the servers."""
        self._servers.close()
