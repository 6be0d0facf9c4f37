"""The questions of the operators' manual: each command of its table answers in a crawl where the question comes up."""

from __future__ import annotations

import re
import shlex
import time
from pathlib import Path

import pytest

from budgetfrontier import Frontier, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.console.pages.table import PAGES
from tests.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("stopped_time")

MANUAL = Path(__file__).parents[2] / "docs" / "operators.md"

ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<command>[^`|]+)` \| (?P<page>[^|]*) \|$", re.MULTILINE)
ROWS = {found["question"]: (found["command"], found["page"]) for found in ROW.finditer(MANUAL.read_text())}

ANSWERS = {
    "Why is nothing being crawled?": ("Verdict: ",),
    "Is it alive, and how old are these figures?": ("Process: none", "last commit"),
    "When and why did it last stop?": ("EXIT",),
    "Why is this URL not crawled, or what became of it?": ("the queue will be retired first",),
    "Why is this host retired?": ("over budget, and will retire again", "spent 3, more than its total budget of 2"),
    "Which override or adjustment gave it this budget?": ("queue_total_budget", "2", "override 1 (domain:capped.test)"),
    "Which hosts eat the budget?": ("capped.test",),
    "Which hosts ate it in the last hour?": ("capped.test", "%"),
    "What would another budget change?": ("queue_total_budget 2 -> 10", "not retired, with another budget: 1 queue"),
    "What would they spend then?": ("would fetch 7 of the URIs they hold now and spend 7, at most 7",),
    "How long until the crawl ends?": ("rate", "budgets"),
    "Which queue has the longest tail of politeness?": ("politeness", "slow.test"),
    "Who changed this queue?": ("alice", "too much of it"),
    "How do I take that back?": ("undone 1, adjust: removed adjustment 1",),
    "What lies in this retired queue?": ("http://capped.test/9",),
    "Which queues are over budget, and will retire again?": ("capped.test",),
    "What was spent on errors, and on prerequisites?": ("penalties: 50", "Given up:     1", "Prerequisites: 0"),
    "How fast is it, and is it slower than before or than yesterday?": ("per_hour", "before", "yesterday", "fetched"),
    "Which fetches hang, and since when?": ("http://slow.test/",),
    "Which errors, by reason?": ("poison",),
    "How many URIs were refused, and why?": ("Invalid:       1 (",),
    "Are the seeds done?": ("http://dead.test/", "http://never.test/", "NOT_REACHED"),
}


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A crawl of the last half an hour, stopped.

    capped.test is over its budget, and alice has changed another of its settings; slow.test has a URI out and rests for
    an hour between two; dead.test has a dead letter, failed.test a failure; one URI was not valid.
    """
    clock = ManualClock(time.time() - 1800)
    settings = Settings.from_dict(
        {
            "crawl": "questions",
            "seeds": ["http://dead.test/", "http://never.test/"],
            "frontier": {"commit_interval": 3600.0, "error_penalty_amount": 50, "politeness": {"min_delay": 0.0}},
            "overrides": [
                {"match": "domain:capped.test", "set": {"queue_total_budget": 2}},
                {"match": "domain:slow.test", "set": {"politeness": {"min_delay": "1h", "max_delay": "1h"}}},
            ],
        }
    )
    with Frontier.open(tmp_path / "job" / "frontier", settings, clock=clock, keep_leases=True) as f:
        f.schedule("not a url")
        f.schedule_many(f"http://capped.test/{n}" for n in range(10))
        f.schedule_many(["http://dead.test/", "http://failed.test/"])
        f.adjust(match="queue:capped.test", error_penalty_amount=1, reason="too much of it", who="alice")
        outcomes = {"dead.test": Outcome.DEAD, "failed.test": Outcome.FAILURE}
        while leases := f.lease(1):
            f.finish(leases[0], outcomes.get(leases[0].queue, Outcome.SUCCESS), reason="poison")
            clock.advance(60)
            f.commit()
        f.schedule_many(f"http://slow.test/{n}" for n in range(3))
        assert f.lease(1, ttl=7200.0)
        f.adjust(match="queue:none.test", precedence=2, reason="revives all", who="bob")
    return tmp_path / "job"


def test_every_question_has_an_answer_here_and_a_page_that_exists() -> None:
    assert ROWS.keys() == ANSWERS.keys()
    assert {page for _, page in ROWS.values()} <= {page.title for page in PAGES}


@pytest.mark.parametrize("question", ANSWERS)
def test_the_command_answers(job: Path, cli: Cli, question: str) -> None:
    names = {
        "JOB": str(job),
        "KEY": "capped.test",
        "URL": "http://capped.test/9",
        "PATTERN": "queue:capped.test",
        "AUDIT_ID": "1",
    }
    words = [names.get(word, word) for word in shlex.split(ROWS[question][0])]
    answer = cli(*words)
    assert answer.code == 0, answer.err
    for text in ANSWERS[question]:
        assert text in answer.out, answer.out
