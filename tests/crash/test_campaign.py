"""The campaign of faults in small: every fault, a few times; and that it would notice what it looks for."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from budgetfrontier.rules import charges
from budgetfrontier.storage.environment import Environment
from tests.crash import campaign
from tests.crash.faults import STRACE, AtEvent, NoFault, traced
from tests.crash.figures import Unavailable
from tests.crash.kills import begun
from tests.crash.processes import Go
from tests.crash.runs import COMMITTED, Events, Subject, run_process
from tests.crash.workload import Step, on_model, plan
from tests.stateful.model import PLAIN
from tests.support import PATIENCE


@pytest.mark.parametrize("name", campaign.FAULTS)
def test_nothing_is_lost(tmp_path: Path, name: str) -> None:
    try:
        figures = campaign.run(name, tmp_path, seldom=True)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert not figures.problems, "\n".join(figures.problems)
    assert figures.tried > 0


# -- what the campaign takes for granted


@pytest.mark.skipif(STRACE is None, reason="strace is not installed")
def test_a_commit_syncs_its_pages_before_it_writes_the_one_that_names_them(tmp_path: Path) -> None:
    log = tmp_path / "calls"
    calls = "trace=openat,writev,pwritev,pwrite64,fdatasync"

    class Watched(NoFault):
        def inject(self, pid: int, go: Go, events: Events) -> None:
            self.strace = traced(pid, "-o", str(log), "-s", "0", "-e", calls)
            go()

        def clear(self) -> None:
            self.strace.communicate(timeout=PATIENCE)

    subject = Subject.new(tmp_path / "frontier", Random(1), commit_operations=1)
    outcome = run_process(subject, plan(subject.after(), Random(2), 40), Watched())
    assert outcome.done and not outcome.problem, outcome
    roots, unsynced = 0, False
    for line in log.read_text().splitlines():
        if re.search(r"pwrite64\(.*, 120, (32|4128)\)", line):  # the root, of one of the two meta pages
            assert not unsynced, line
            roots += 1
        elif re.search(r"fdatasync\(.* = 0$", line):
            unsynced = False
        elif found := re.search(r"(?:writev|pwrite64)\(.* = (\d+)$", line):
            unsynced |= int(found[1]) % 4096 == 0
    assert roots > sum(kind == COMMITTED for kind, _ in outcome.events) > 10
    assert re.search(r"data\.mdb.*O_DSYNC", log.read_text())


# -- what the campaign must notice


def test_a_commit_that_is_told_but_not_made_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = begun(tmp_path, Random(1), commit_operations=1)
    steps = plan(subject.after(), Random(3), 30)
    commit, count = Environment.commit, 0

    def forgetful(env: Environment) -> None:
        nonlocal count
        count += 1
        if count < 8:
            commit(env)

    monkeypatch.setattr(Environment, "commit", forgetful)
    assert not run_process(subject.copied(tmp_path / "copy"), steps, AtEvent(COMMITTED, 7)).problem
    assert "the model" in run_process(subject.copied(tmp_path / "copy"), steps, AtEvent(COMMITTED, 8)).problem


def test_money_that_is_not_charged_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject.new(tmp_path / "frontier", Random(1), queue_total_budget=-1)
    model = subject.after()
    uri = {"url": "https://a.test/", "cost": 2, "directive": 3, "priority": 0} | dict.fromkeys(("not_before", "queue"))
    steps: list[Step] = []
    for op, *args in ("schedule", uri | {"force": False}), ("lease", 1, 300.0), ("finish", 1, "FAILURE", PLAIN, []):
        step = Step(str(op), model.now, tuple(args))
        steps.append(step._replace(told=on_model(model, step)))
    steps.append(Step("commit", model.now))
    assert not run_process(subject.copied(tmp_path / "copy"), steps, NoFault()).problem
    monkeypatch.setattr(charges, "charge", lambda record, cost, penalty: None)
    assert "expenditure" in run_process(subject.copied(tmp_path / "copy"), steps, NoFault()).problem
