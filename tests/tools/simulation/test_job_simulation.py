"""The simulation of a job begins as its next start would: with the leases and commands that a process has left."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.rules.run_history import SERVE
from budgetfrontier.rules.simulation import Simulated, SimulationRequest
from budgetfrontier.tools.job_operator import JobOperator
from budgetfrontier.tools.simulation import job_simulation, simulation_process

HOSTS, PAGES = 5, 3
URLS = [f"http://host{host}.test/{page}" for host in range(HOSTS) for page in range(PAGES)]


def killed(folder: Path, work: Callable[[Frontier], object], *, program: str = "spider.py") -> Path:
    """Return the frontier of a process that was killed after some work."""
    left = folder / "killed" / "frontier"
    with Frontier.open(folder / "running" / "frontier", {"crawl": "killed"}, program=program) as frontier:
        frontier.schedule_many(URLS)
        work(frontier)
        frontier.commit()
        shutil.copytree(folder / "running" / "frontier", left)
    return left


def simulated(path: Path, **asked: Any) -> tuple[Simulated, str]:
    """Simulate on a job once, and return the last result with what was said meanwhile."""
    said: list[str] = []
    with JobOperator(path.parent, path) as operator:
        found = operator.simulate(SimulationRequest(draws=1, **asked), say=said.append)
    return found[-1], "\n".join(said)


def over_budget(frontier: Frontier) -> None:
    assert len(frontier.lease(HOSTS)) == HOSTS
    frontier.adjust(match="*", queue_total_budget=0, retire_when="reached")


def test_leases_of_a_process_that_was_killed_are_taken_back_first(tmp_path: Path) -> None:
    left = killed(tmp_path, over_budget)
    found, said = simulated(left)
    assert "URIs out: 5, with a process that is gone: the next start takes back what it had leased" in said
    with Frontier.open(left) as frontier:
        assert frontier.lease(1) == []
    assert (found.fetches, found.spent, found.retired, found.stranded) == (0, 0, HOSTS, HOSTS * PAGES)


def test_leases_that_outlive_their_process_are_finished(tmp_path: Path) -> None:
    found, said = simulated(killed(tmp_path, over_budget, program=SERVE))
    assert "that is gone" not in said
    assert (found.fetches, found.retired, found.stranded) == (HOSTS, HOSTS, HOSTS * (PAGES - 1))


@pytest.mark.parametrize("changes", [[], [("queue:host0.test", {"precedence": 1})]])
def test_a_command_in_progress_is_done_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[tuple[str, dict[str, Any]]]
) -> None:
    monkeypatch.setattr(runner, "STEP", 1)

    def retire(frontier: Frontier) -> None:
        mailbox = Mailbox(tmp_path / "running" / "frontier")
        mailbox.post(Command("retire", {"match": "*"}, "alice", ""))
        mailbox.close()
        frontier.commit()

    found, said = simulated(killed(tmp_path, retire), changes=changes)
    assert "retire by alice is in progress" in said and "it is simulated as done" in said
    assert (found.fetches, found.retired, found.stranded) == (0, HOSTS, HOSTS * PAGES)


@pytest.mark.parametrize("match", ["*", "queue:host0.test"])
def test_a_proposed_delay_that_has_no_effect_is_warned_of_as_adjust_does(tmp_path: Path, match: str) -> None:
    """The longest delay in force wins."""
    left = killed(tmp_path, lambda frontier: None)
    _, said = simulated(left, changes=[(match, {"politeness.min_delay": 3600.0})], seconds=60.0)
    assert f"{match}: min_delay (1h) is longer than max_delay (30s), which wins: set both" in said
    both = {"politeness.min_delay": 3600.0, "politeness.max_delay": 3600.0}
    assert "which wins" not in simulated(left, changes=[(match, both)], seconds=60.0)[1]


def test_all_draws_begin_at_one_commit_of_a_crawl_that_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule_many(URLS)
        frontier.commit()

        def meanwhile(*asked: Any) -> list[Simulated]:
            frontier.schedule_many(f"{url}/later" for url in URLS)
            frontier.commit()
            return simulation_process.simulate(*asked)

        monkeypatch.setattr(job_simulation, "simulate_all", meanwhile)
        with JobOperator(tmp_path, tmp_path / "frontier") as operator:
            [found] = operator.simulate(SimulationRequest(draws=2))
    assert [fetches for _, fetches, _ in found.draws] == [len(URLS), len(URLS)]
