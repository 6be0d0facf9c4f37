"""A crawl frontier that spends a budget on each host, survives crashes, and can be steered while it runs.

    from budgetfrontier import Frontier, Outcome

    with Frontier.open("job/frontier") as frontier:  # creates it, or opens an existing one
        frontier.schedule("https://www.example.org/")
        for lease in frontier.lease(64):  # what may be fetched now: one URL for each host
            links = [f"{lease.uri.url}about"]  # fetch lease.uri.url here, and find its links
            frontier.finish(lease, Outcome.SUCCESS, fetch_seconds=0.2, discovered=links)

- `Frontier` has all methods; it belongs to the thread that has opened it
- `budgetfrontier.aio.Scheduler` is for asyncio
- `budgetfrontier.leasing.LeaseQueue` is a queue of tasks, which their consumers acknowledge by id
- `budgetfrontier.remote.RemoteFrontier` is a client of `budgetfrontier serve`, for several processes
- `budgetfrontier.scrapy.Scheduler` is for Scrapy

`budgetfrontier --help` lists the commands. Guides: https://budgetfrontier.readthedocs.io/
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # that of `typing`, which takes longer to import than all that is done before Ctrl-C is handled
if TYPE_CHECKING:
    from typing import Any

    from budgetfrontier.clock import ManualClock as ManualClock
    from budgetfrontier.core.model import Admission as Admission
    from budgetfrontier.core.model import CrawlState as CrawlState
    from budgetfrontier.core.model import CrawlUri as CrawlUri
    from budgetfrontier.core.model import DeadLetter as DeadLetter
    from budgetfrontier.core.model import Directive as Directive
    from budgetfrontier.core.model import Finish as Finish
    from budgetfrontier.core.model import Lease as Lease
    from budgetfrontier.core.model import Outcome as Outcome
    from budgetfrontier.core.model import Process as Process
    from budgetfrontier.core.model import QueueRecord as QueueRecord
    from budgetfrontier.core.model import QueueState as QueueState
    from budgetfrontier.core.model import Run as Run
    from budgetfrontier.core.model import RunEnd as RunEnd
    from budgetfrontier.core.model import Summary as Summary
    from budgetfrontier.core.model import Tally as Tally
    from budgetfrontier.engine.commands.adjustment import Adjustment as Adjustment
    from budgetfrontier.engine.frontier import Frontier as Frontier
    from budgetfrontier.errors import CorruptFrontier as CorruptFrontier
    from budgetfrontier.errors import FrontierBusy as FrontierBusy
    from budgetfrontier.errors import FrontierClosed as FrontierClosed
    from budgetfrontier.errors import FrontierError as FrontierError
    from budgetfrontier.errors import FrontierLocked as FrontierLocked
    from budgetfrontier.errors import FrontierRemoved as FrontierRemoved
    from budgetfrontier.errors import LeaseExpired as LeaseExpired
    from budgetfrontier.errors import NewerSchema as NewerSchema
    from budgetfrontier.errors import NotAFrontier as NotAFrontier
    from budgetfrontier.errors import OutputRemoved as OutputRemoved
    from budgetfrontier.errors import PolicyError as PolicyError
    from budgetfrontier.errors import SettingsError as SettingsError
    from budgetfrontier.errors import StorageFull as StorageFull
    from budgetfrontier.errors import WrongThread as WrongThread
    from budgetfrontier.rules.verdict import Verdict as Verdict
    from budgetfrontier.settings import Settings as Settings
    from budgetfrontier.storage.reader import Reader as Reader
    from budgetfrontier.storage.report import Report as Report

__version__ = "0.1.0"

_HOMES = {
    "clock": ("ManualClock",),
    "engine.commands.adjustment": ("Adjustment",),
    "engine.frontier": ("Frontier",),
    "errors": (
        "CorruptFrontier",
        "FrontierBusy",
        "FrontierClosed",
        "FrontierError",
        "FrontierLocked",
        "FrontierRemoved",
        "OutputRemoved",
        "LeaseExpired",
        "NewerSchema",
        "NotAFrontier",
        "PolicyError",
        "SettingsError",
        "StorageFull",
        "WrongThread",
    ),
    "core.model": (
        "Admission",
        "CrawlState",
        "CrawlUri",
        "DeadLetter",
        "Directive",
        "Finish",
        "Lease",
        "Outcome",
        "Process",
        "QueueRecord",
        "QueueState",
        "Run",
        "RunEnd",
        "Summary",
        "Tally",
    ),
    "rules.verdict": ("Verdict",),
    "settings": ("Settings",),
    "storage.reader": ("Reader",),
    "storage.report": ("Report",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    # Names are fetched when first used: a command that only prints help imports no LMDB.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
