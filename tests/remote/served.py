"""A server of frontiers in a thread of this process, with a clock of the test's."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import Clock
from budgetfrontier.server import crawl_thread, frontier_service, server
from budgetfrontier.server.stopping import Stop
from tests.support import PATIENCE


class Served:
    """The server. Use it with `with`; `address` is where it listens."""

    def __init__(self, folder: Path, settings: Settings, patch: pytest.MonkeyPatch, clock: Clock | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.address = f"unix:{folder / 's'}"
        self._folder = folder
        self._settings = settings
        self._started, self._stop = threading.Event(), Stop()
        self._thread = threading.Thread(target=self._main, daemon=True)
        if clock is not None:
            patch.setattr(crawl_thread, "Frontier", _Clocked(clock))

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.ask()
        self._thread.join(PATIENCE)

    def _main(self) -> None:
        server.serve(
            self._folder / "jobs",
            self._settings,
            listen=self.address,
            services=[frontier_service.FRONTIER],
            started=lambda address: self._started.set(),
            stop=self._stop,
        )


class _Clocked:
    """`Frontier` with another clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def open(self, *args: Any, **named: Any) -> Frontier:
        return Frontier.open(*args, clock=self._clock, **named)
