from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import farm, plots

WEB = farm.Web(honest=300, farm=300, farm_domains=5)


def test_budgets_by_domain_and_by_links_leave_a_farm_of_few_domains_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(farm, "SPAM", 0.2)
    found: dict[str, dict[str, Any]] = {
        name: farm.farm_share(WEB, policy, 2000, seeds=20) for name, policy in farm.POLICIES.items()
    }
    assert {one["fetches"] for one in found.values()} == {2000}
    most = found["no budgets"]["farm"]
    assert most > 250 >= found["a total of 50 for each domain"]["farm"]
    assert found["star"]["farm"] < most
    record = {"farms": [{"farm_kind": "of 5 domains", "policy": name} | one for name, one in found.items()]}
    drawn = plots.draw_farm(record, tmp_path).read_text()
    assert "star" in drawn and "no budgets" in drawn
    assert len(farm.shares(record["farms"]).splitlines()) == 2 + len(farm.POLICIES)


def test_queues_are_activated_only_for_fetchers_that_starve() -> None:
    found = farm.starving(WEB, 4, 30, seeds=20)
    assert found["needless"] == 0 and 0 < found["active"] < found["hosts"]
    assert len(farm.activity([found]).splitlines()) == 3
