"""Previews of adjustments leave out what the stored scope disregards, whoever asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader, Settings
from budgetfrontier.cluster.operators import inspection, merging
from budgetfrontier.reports import dry_runs
from budgetfrontier.tools.cli.adjustments import _outcome

ADJUSTMENT: dict[str, Any] = {"match": "queue:a.test", "set": {"queue_total_budget": 100}}


def previews(folder: Path, **settings: Any) -> list[dict[str, Any]]:
    """The dry runs of a job and of a partition, for a queue with three links, one of which has a session."""
    with Frontier.open(
        folder / "frontier", Settings.from_dict({"frontier": {"queue_total_budget": 1}} | settings)
    ) as f:
        f.schedule_many(CrawlUri(f"http://a.test/{path}", hops="L") for path in ("1", "2", "3?sid=1"))
    with Reader(folder / "frontier") as reader, reader.view() as view:
        of_job = dry_runs.dry_run(view, "adjust", ADJUSTMENT)
        of_partition = inspection.look(reader, "dry_run", {"op": "adjust", "args": ADJUSTMENT})
    return [of_job, merging.merged_effect([of_partition])]


def test_all_dry_runs_ask_the_scope(tmp_path: Path) -> None:
    scope = {"accept": ["all"], "reject": ["regex:sid="]}
    for effect in previews(tmp_path, seeds=["http://a.test/"], scope=scope):
        assert (effect["others"]["after"]["uris"], effect["disregarded"]) == (2, 1)
        assert "scope_unknown" not in effect
        assert any("1 URI is out of the scope" in line for line in _outcome(effect))


@pytest.mark.parametrize(
    ("settings", "why"),
    [({}, "none is stored"), ({"seeds": [{"file": "/nonexistent/seeds.txt"}]}, "/nonexistent/seeds.txt")],
)
def test_a_scope_that_is_not_known_is_said_to_be_so(tmp_path: Path, settings: dict[str, Any], why: str) -> None:
    for effect in previews(tmp_path, **settings):
        assert effect["others"]["after"]["uris"] == 3 and why in effect["scope_unknown"]
        assert any(why in line and "is counted as fetched" in line for line in _outcome(effect))
