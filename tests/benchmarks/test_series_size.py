"""The measurement of the series does what it says, at a small scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import series_size
from benchmarks.series_size import run, table


def test_rows_of_each_resolution_are_summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_size, "FETCHED_FROM", 300)
    found = run(tmp_path / "frontier", 30)
    assert found["BUSIEST_OF_HOUR"]["rows"] == 30
    assert found["MINUTE"]["rows"] > 1440 and found["MINUTE"]["bytes"] // found["MINUTE"]["rows"] < 150
    assert "| minute | 1," in table(found)
