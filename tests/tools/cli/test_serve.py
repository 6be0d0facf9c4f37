"""The command `serve`: the process that it has for itself."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.server import server
from budgetfrontier.tools import cli


def test_a_server_collects_garbage_rarely_and_looks_at_no_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, found = gc.get_threshold(), list[int]()

    def served(*args: Any, **options: Any) -> bool:
        found.extend((gc.get_threshold()[0], gc.get_freeze_count()))
        return True

    monkeypatch.setattr(server, "serve", served)
    assert cli.main(["serve", str(tmp_path)]) == 0
    assert found[0] > before[0]
    assert found[1] > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
