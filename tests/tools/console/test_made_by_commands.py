"""Answers that commands make: kept for a minute, made anew after a change, and not waited for in a request."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.errors import FrontierError
from budgetfrontier.tools.console import made_by_commands
from budgetfrontier.tools.console.api import PREFIX, api_routes
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.made_by_commands import CommandAnswers
from budgetfrontier.tools.console.query import BeingMade, ServiceUnavailable
from tests.support import PATIENCE
from tests.tools.console.conftest import TOKEN, Client, visit

HEADERS = {"Authorization": f"Bearer {TOKEN}"}
REPORT = f"{PREFIX}/jobs/job/report?kind=hosts"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of the command: it counts its runs, waits for a file `go`, and fails if told so."""
    program, runs, go = tmp_path / "program", tmp_path / "runs", tmp_path / "go"
    program.write_text(
        f"#!{sys.executable}\nimport os, sys, time\nopen({str(runs)!r}, 'a').write('.')\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\n"
        "if 'fail' in sys.argv: sys.exit('it has failed')\nprint('[1]')\n"
    )
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    return tmp_path


def test_an_answer_is_given_again_and_made_anew_once_it_is_old(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = CommandAnswers()
    monkeypatch.setattr(made_by_commands, "SHORT", 0.0)
    with pytest.raises(BeingMade):
        answers.get("report")
    (program / "go").touch()
    monkeypatch.setattr(made_by_commands, "SHORT", PATIENCE)
    first = answers.get("report")
    assert first.found == [1] and answers.get("report") == first and (program / "runs").read_text() == "."
    answers.clear()
    assert answers.get("report").when > first.when
    monkeypatch.setattr(made_by_commands, "FRESH", 0.0)
    assert answers.get("report").found == [1] and (program / "runs").read_text() == "..."
    answers.close()


def test_too_many_at_once_are_refused_and_the_end_ends_those_that_run(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, others = CommandAnswers(), CommandAnswers()
    monkeypatch.setattr(made_by_commands, "SHORT", 0.0)
    for kind in ("hosts", "seeds"):
        with pytest.raises(BeingMade):
            answers.get("report", kind)
    with pytest.raises(ServiceUnavailable):
        others.get("report")
    answers.close()
    with pytest.raises(BeingMade):
        others.get("report")
    others.close()


def test_a_failure_is_told_and_not_kept(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (program / "go").touch()
    answers = CommandAnswers()
    monkeypatch.setattr(made_by_commands, "SHORT", PATIENCE)
    for _ in range(2):
        with pytest.raises(FrontierError, match="it has failed"):
            answers.get("report", "fail")
    assert (program / "runs").read_text() == ".."


def test_a_request_is_answered_while_it_is_made_and_later_has_it(
    job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(job, tmp_path / "other")
    monkeypatch.setattr(made_by_commands, "SHORT", 0.0)
    monkeypatch.setattr(api_routes, "_PATIENCE", 0.0)

    async def act(client: Client, console: Console) -> tuple[Any, Any, str, str]:
        async with client.get(REPORT, headers=HEADERS) as answer:
            pending = answer.status, answer.headers.get("Retry-After"), (await answer.json())["detail"]
        async with client.get("/job/compare?with=other", headers=HEADERS) as answer:
            page = await answer.text()
        monkeypatch.setattr(made_by_commands, "SHORT", PATIENCE)
        async with client.get(REPORT, headers=HEADERS) as answer:
            report = await answer.json()
        async with client.get(REPORT, headers=HEADERS) as answer:
            assert await answer.json() == report
        async with client.get("/job/compare?with=other", headers=HEADERS) as answer:
            return pending, report, page, await answer.text()

    pending, report, page, later = visit((job, tmp_path / "other"), act, token=TOKEN)
    assert pending[:2] == (503, "5") and "being made" in pending[2] and report["as_of"] and report["rows"]
    assert "are being read" in page and 'http-equiv="refresh"' in page
    assert "are being read" not in later and 'http-equiv="refresh"' not in later and "as of" in later


def test_after_a_command_a_report_is_made_anew(job: Path) -> None:
    async def act(client: Client, console: Console) -> list[float]:
        times = []
        for _ in range(2):
            async with client.get(REPORT, headers=HEADERS) as answer:
                times.append((await answer.json())["as_of"])
            body = {"queue": "capped.test", "reason": "x"}
            async with client.post(f"{PREFIX}/jobs/job/wake", json=body, headers=HEADERS) as answer:
                assert answer.status == 200
        return times

    first, second = visit(job, act, token=TOKEN)
    assert second > first
