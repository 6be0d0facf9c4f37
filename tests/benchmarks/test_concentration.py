from __future__ import annotations

from pathlib import Path

from benchmarks import concentration


def test_each_drain_is_measured_with_each_call(tmp_path: Path) -> None:
    found = concentration.run(tmp_path, 300, legs=1)
    assert {(call, drain) for call, drains in found.items() for drain in drains} == {
        (call, drain) for call in ("finish_many", "finish") for drain in ("rotation", "zipf", "one host")
    }
    assert len(concentration.table(found).splitlines()) == 2 + 6


def test_half_of_the_uris_by_zipf_are_of_one_host() -> None:
    urls = concentration.urls("zipf", 4000)
    assert 0.45 < sum("//site0." in url for url in urls) / len(urls) < 0.55
