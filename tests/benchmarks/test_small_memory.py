"""The benchmark of a frontier larger than memory runs, for a few URLs and without the cgroup."""

from __future__ import annotations

from pathlib import Path

from benchmarks import small_memory


def test_each_step_has_its_rate_and_the_urls_are_drained_at_the_end(tmp_path: Path) -> None:
    measured = small_memory.measure(tmp_path, pending=400, hosts=100, step=100, drained=50)
    assert [point["pending"] >= size for point, size in zip(measured["points"], (200, 300, 400), strict=True)] == [
        True
    ] * 3
    assert measured["drain"]["taken"] >= 50
    lines = small_memory.table(measured).splitlines()
    assert len(lines) == 2 + 3 + 2
    assert "`finish_many`" in lines[-1]
