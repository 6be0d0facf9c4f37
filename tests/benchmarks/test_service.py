"""The benchmark of the service runs, for a few URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("grpc")
from benchmarks import service


def test_the_service_is_measured_beside_a_server_that_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "FLOORS", service.FLOORS[-1:])
    best = service.measure(300, 1, tmp_path)
    assert list(best) == [service.FLOORS[0], "serve", *service.ENGINES]
    assert all(figure > 0 for row in best.values() for figure in row.values())
    assert len(service.table(best).splitlines()) == 4
    assert len(service.engine_table(best).splitlines()) == 2 + len(service.ENGINES)


def test_the_calls_of_a_crawl_are_timed(tmp_path: Path) -> None:
    found = service.latency(tmp_path, 1500, 3)
    assert 0 < found["quiet"]["p50"] <= found["quiet"]["p99"] <= found["quiet"]["most"]
    assert found["size"]["bytes"] > 0
    assert len(service.latency_table(found).splitlines()) == 6


def test_the_peer_is_compared_by_processor_time_and_by_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "peer_serving", lambda jar, folder: service.serving(folder))
    best = service.beside(tmp_path / "no.jar", 300, 1, tmp_path)
    assert all(figure > 0 for row in best.values() for figures in row.values() for figure in figures)
    lines = service.peer_table(best).splitlines()
    assert len(lines) == 2 + 2 * len(service.PUTS)
    by_use, by_clock = best["URLFrontier"][service.NEW]
    best["serve"][service.NEW] = 2 * by_use, 2 * by_clock
    assert [line.split("|")[-2].strip() for line in service.peer_table(best).splitlines()[2:4]] == ["2.00", "2.00"]
