from __future__ import annotations

from pathlib import Path

from benchmarks import shared


def test_each_form_ends_every_uri(tmp_path: Path) -> None:
    found = shared.measure(600, 1, tmp_path)
    assert len(found) == 8 and all(figure > 0 for figures in found.values() for figure in figures.values())
    assert len(shared.table(found).splitlines()) == 10
