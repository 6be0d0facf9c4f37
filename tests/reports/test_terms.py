"""One term for each thing, whatever shows it: what has failed for good is a dead letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome, Reader
from budgetfrontier.reports import metrics
from budgetfrontier.reports.totals import tiles
from budgetfrontier.tools.cli import main

OTHER_WORDS = re.compile(r"given up|gave up|buried", re.IGNORECASE)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    with Frontier.open(tmp_path / "job" / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.finish(frontier.lease(1)[0], Outcome.DEAD, reason="poison")
    return tmp_path / "job"


@pytest.mark.parametrize(
    "command",
    [
        ["report", "JOB"],
        ["report", "JOB", "--format", "html"],
        ["report", "JOB", "--kind", "rates"],
        ["dead-letters", "JOB"],
        ["explain", "JOB", "http://a.test/"],
        ["dead-letters", "--help"],
    ],
)
def test_commands(job: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert main([str(job) if one == "JOB" else one for one in command]) == 0
    assert not OTHER_WORDS.findall(capsys.readouterr().out)


def test_tiles_and_the_help_of_metrics(job: Path) -> None:
    with Reader(job / "frontier") as reader:
        names = [name for name, _ in tiles(reader.summary())]
    assert "dead letters" in names and not any(map(OTHER_WORDS.search, names))
    helps = [line.partition('", "')[2] for line in Path(metrics.__file__).read_text().splitlines()]
    assert any("Dead letters" in text for text in helps) and not any(map(OTHER_WORDS.search, helps))


def test_templates_of_the_console() -> None:
    templates = Path(metrics.__file__).parents[1] / "tools" / "console" / "templates"
    for template in templates.iterdir():
        text = template.read_text().replace("The search was given up after", "")
        assert not OTHER_WORDS.search(text), template.name
