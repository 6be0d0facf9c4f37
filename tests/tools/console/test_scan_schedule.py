"""When a scan of all queues begins."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from budgetfrontier.tools.console import scan_schedule
from budgetfrontier.tools.console.scan_schedule import EVERY, Scans


def test_a_change_of_settings_has_a_scan_follow_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    clock = SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr(scan_schedule, "time", clock)
    scans, due = Scans(Path("nowhere")), []
    due.append(scans.is_due)  # nobody wants one
    scans.want()
    due.append(scans.is_due)
    scans._wanted, scans._begun = False, now[0]
    latest: Any = SimpleNamespace(when=now[0], scan=SimpleNamespace(revision=7, seconds=4.0))
    scans.latest = latest
    now[0] += 5.0
    scans.want(7)
    due.append(scans.is_due)  # the settings are those of the scan
    scans.want(8)
    due.append(scans.is_due)  # one that takes four seconds leaves four seconds to the next
    now[0] += 3.0
    due.append(scans.is_due)
    scans._wanted = scans._changed = False
    now[0] += EVERY
    scans.want(7)
    due.append(scans.is_due)  # it is old
    assert due == [False, True, False, False, True, True]
