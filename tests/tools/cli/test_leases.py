"""`leases`: what is out, since when, of which queue, and how old."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.testing import crash
from tests.tools.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("stopped_time")

HOUR = 3600.0


@pytest.fixture
def hanging(tmp_path: Path) -> Path:
    """A job whose process died: a lease of two hours ago that was renewed, one of 20 minutes, one of a minute."""
    clock = ManualClock(time.time() - 2 * HOUR)
    settings = {"crawl": "hanging", "frontier": {"politeness": {"min_delay": 0, "max_delay": 0}}}
    frontier = Frontier.open(tmp_path / "job" / "frontier", Settings.from_dict(settings), clock=clock)
    frontier.schedule_many(f"https://{host}.test/page" for host in ("slow", "slower", "fresh"))
    (oldest,) = frontier.lease(1, ttl=10 * HOUR)
    clock.advance(100 * 60)
    (late,) = frontier.lease(1, ttl=HOUR)
    clock.advance(19 * 60)
    frontier.lease(1, ttl=HOUR)
    frontier.renew(oldest, 20 * HOUR)
    frontier.landed(late)
    frontier.commit()
    crash(frontier)
    return tmp_path / "job"


def test_the_oldest_lease_comes_first(hanging: Path, cli: Cli) -> None:
    rows = json.loads(cli("leases", hanging, "--format", "json").out)
    assert [row["queue"] for row in rows] == ["slow.test", "slower.test", "fresh.test"]
    assert [row["age"] / 60 for row in rows] == [pytest.approx(minutes) for minutes in (120, 20, 1)]
    assert [row["landed"] for row in rows] == [False, True, False]
    assert [(row["deliveries"], row["attempt"]) for row in rows] == [(1, 1)] * 3
    assert rows[0]["deadline"] == pytest.approx(time.time() + 20 * HOUR - 60)
    assert [row["queue"] for row in json.loads(cli("leases", hanging, "--format", "json", "--reverse").out)] == [
        "fresh.test", "slower.test", "slow.test",
    ]  # fmt: skip


def test_leases_are_chosen_by_age_and_queue(hanging: Path, cli: Cli) -> None:
    def listed(*options: str) -> list[str]:
        return [line.split(",")[1] for line in cli("leases", hanging, "--format", "csv", *options).out.splitlines()[1:]]

    assert listed("--older-than", "10m") == ["slow.test", "slower.test"]
    assert listed("--older-than", "1h30m") == ["slow.test"]
    assert listed("--queue", "fresh.test") == ["fresh.test"]
    assert listed("--limit", "1", "--offset", "1") == ["slower.test"]
    assert listed("--sort", "queue") == ["fresh.test", "slow.test", "slower.test"]
    assert cli("leases", hanging, "--older-than", "soon").code == 2
    unknown = cli("leases", hanging, "--queue", "slowr.test")
    assert unknown.code == 1 and "did you mean slower.test or slow.test?" in unknown.err


def test_text_has_durations(hanging: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    head, first, *_ = cli("leases", hanging).out.splitlines()
    assert ("url" in head, "age" in head, "deadline" in head) == (True, True, True)
    assert "https://slow.test/page" in first and " 2h " in first and " in 19h5" in first
    assert len(first) <= 80
    assert "began" in cli("leases", hanging, "--wide").out


def test_nothing_is_out(stopped: Path, cli: Cli) -> None:
    assert json.loads(cli("leases", stopped, "--format", "json").out) == []
    assert len(cli("leases", stopped).out.splitlines()) == 1
