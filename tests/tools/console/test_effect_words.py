"""The arguments and effects of all commands, as pages and texts show them: in words, and by no field's name."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.core.effect_words import in_words
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.commands.operations import OPERATIONS, STEPWISE
from budgetfrontier.reports.dry_runs import dry_run
from budgetfrontier.settings.names import per_uri
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.console.app import Console
from budgetfrontier.tools.console.rendering import environment
from tests.support import kernel
from tests.tools.console.conftest import SETTINGS, Client, visit

LATER = time.time() + 1e6
COMMANDS: list[tuple[str, dict[str, Any]]] = [
    ("pause", {}), ("resume", {}),
    ("adjust", {"match": "*", "set": {"queue_total_budget": 900}}),
    ("adjust", {"match": "queue:capped.test", "set": {"queue_total_budget": 900}}),
    ("withdraw", {"id": 3}), ("undo", {"id": 4}),
    ("snooze", {"queue": "snoozed.test", "until": LATER}), ("undo", {"id": 7}),
    ("snooze", {"match": "*", "until": LATER}), ("wake", {"queue": "snoozed.test"}), ("undo", {"id": 9}),
    ("retire", {"queue": "later.test"}), ("undo", {"id": 12}),
    ("retire", {"match": "domain:snoozed.test", "states": ["SNOOZED", "INACTIVE", "READY"]}), ("undo", {"id": 14}),
    ("unretire", {"match": "*"}), ("unretire", {"queue": "capped.test"}),
    ("set_queue", {"match": "*", "interval": 3600.0, "max_completed": 5}),
    ("set_queue", {"queue": "snoozed.test", "interval": 60.0}), ("undo", {"id": 18, "force": True}),
    ("delete", {"queue": "snoozed.test", "pattern": "page=[1-4]$"}), ("undo", {"id": 21}),
    ("delete", {"queue": "snoozed.test", "pattern": "page=[1-4]$"}), ("discard", {"id": 23}),
    ("drop", {}), ("undo", {"id": 25}), ("replay", {}),
    ("bury", {"uris": [{"url": "http://buried.test/"}], "reasons": ["gone"]}), ("undo", {"id": 28}),
    ("schedule", {"uris": [{"url": "http://new.test/"}, {"url": "http://new.test/"}]}),
    ("mark_seen", {"uris": [{"url": "http://known.test/"}]}),
    ("forget", {"uris": [{"url": "http://known.test/"}, {"url": "http://never.test/x"}]}), ("undo", {"id": 32}),
    ("terminate", {}),
]  # fmt: skip
"""Each command, in an order in which all of them do something; an id is the number of one of these."""
_SETTINGS = sorted(per_uri(), key=len, reverse=True)
_NO_DRY_RUN = ("mark_seen", "bury")


def raw_names(text: str) -> list[str]:
    """The names of fields in a text, except for those of settings, and of commands as the audit lists them."""
    for name in (*_SETTINGS, "mark_seen", "set_queue"):
        text = text.replace(name, "")
    return re.findall(r"\b[a-z]+_[a-z_]*\b", re.sub(r"<[^>]*>", "\n", text))


@pytest.fixture
def steered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, list[dict[str, Any]]]:
    """The job after all commands, and the effects of their dry runs."""
    monkeypatch.setitem(SETTINGS["frontier"], "keep_urls", True)
    job: Path = request.getfixturevalue("job")
    effects = []
    with Frontier.open(job / "frontier") as frontier:
        for number, (op, given) in enumerate(COMMANDS, 1):
            args = given | ({"id": given["id"] + 1} if "id" in given else {})  # the job has an entry already
            if op not in _NO_DRY_RUN:
                effects.append(dry_run(kernel(frontier).tables.flushed(), op, args))
            entry = frontier.internals.apply(Command(op, args, "alice", ""))
            assert entry.id == number + 1 and not entry.error, (number, entry)
    return job, effects


def test_all_commands_are_among_these() -> None:
    assert {op for op, _ in COMMANDS} == OPERATIONS.keys() | STEPWISE.keys()


def test_no_page_of_the_audit_and_no_text_has_the_name_of_a_field(
    steered: tuple[Path, list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    job, effects = steered

    async def act(client: Client, console: Console) -> list[str]:
        paths = [f"/audit?id={number}" for number in range(1, len(COMMANDS) + 2)]
        return [await (await client.get(path)).text() for path in ("/audit", "/queues", *paths)]

    for page in visit(job, act):
        assert not raw_names(page.partition("<main")[2]), raw_names(page.partition("<main")[2])
    macro = environment().from_string('{% import "macros.html" as m with context %}{{ m.effect(effect) }}')
    for effect in effects:
        found = macro.render(effect=effect, base="")
        assert not raw_names(found), (effect, raw_names(found))
    for number in range(1, len(COMMANDS) + 2):
        main(["undo", str(job), str(number), "--dry-run"])
    main(["audit", str(job)])
    assert not raw_names(capsys.readouterr().out.replace(str(job), ""))


def test_every_name_has_words_without_an_underscore(steered: tuple[Path, list[dict[str, Any]]]) -> None:
    job, effects = steered
    with Reader(job / "frontier") as reader:
        effects += [part for entry in reader.audit() for part in (entry.effect, entry.args)]
    names = set(re.findall(r'"(\w+)":', json.dumps(effects)))
    assert {"still_over", "wake_time", "by_name", "kept", "held_back"} < names
    assert not [name for name in names if "_" in in_words(name)]
