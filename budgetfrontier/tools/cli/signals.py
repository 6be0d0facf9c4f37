"""The signals that end a program in good order: SIGINT, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stopped_by_signals(ask: Callable[[str], object]) -> Iterator[None]:
    """Call `ask` with the name of each signal to stop, in place of what it did before; under nohup, SIGHUP is none."""
    hung_up = [] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGHUP]
    numbers = (signal.SIGINT, signal.SIGTERM, *hung_up)
    before = {number: signal.signal(number, lambda number, _: ask(signal.Signals(number).name)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
