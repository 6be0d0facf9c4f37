"""Which entries of the audit can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.rules.undoing import can_be_undone

LOOK = {
    "state": "READY",
    "by_name": False,
    "wake_time": 20.0,
    "block": 0,
    "delayed": 10.0,
    "rest": 20.0,
    "interval": None,
    "max_completed": 0,
}
CHANGED = {"before": LOOK, "after": LOOK | {"state": "RETIRED", "wake_time": 30.0, "block": 30.0, "interval": 5.0}}
KEPT = {"deleted": 3, "kept": {"file": 1, "bytes": 99}}


@pytest.mark.parametrize(
    ("command", "effect", "can"),
    [
        ("adjust", {}, True),
        ("retire", CHANGED, True),
        ("retire", {"before": LOOK, "after": LOOK}, False),
        ("wake", {"before": LOOK, "after": LOOK | {"state": "SNOOZED", "delayed": 20.0}}, False),
        ("snooze", {"before": LOOK, "after": LOOK | {"rest": 21.0, "wake_time": 21.0}}, True),
        ("undo", CHANGED | {"command": "retire"}, True),
        ("undo", {"command": "delete", "returned": 3}, False),
        ("delete", KEPT, True),
        ("delete", {"deleted": 3}, False),
        ("discard", {"command": "delete"}, False),
        ("terminate", CHANGED, False),
        ("schedule", {"added": 3}, False),
    ],
)
def test_what_can_be_undone(command: str, effect: dict[str, Any], can: bool) -> None:
    assert can_be_undone(command, effect, refused=False) is can


def test_what_was_refused_has_done_nothing_but_for_a_deletion_halfway() -> None:
    assert not can_be_undone("retire", CHANGED, refused=True)
    assert not can_be_undone("delete", {}, refused=True)
    assert can_be_undone("delete", KEPT, refused=True)


@pytest.mark.parametrize("command", ["retire", "unretire", "snooze", "wake", "set_queue", "pause", "resume"])
def test_what_changed_a_queue_or_the_crawl_can_be_undone(command: str) -> None:
    assert can_be_undone(command, CHANGED, refused=False)
    assert not can_be_undone(command, {"before": LOOK, "after": LOOK}, refused=False)
    assert not can_be_undone(command, {}, refused=False)


def test_dead_letters_that_were_added_can_be_taken_back_even_if_it_was_refused() -> None:
    for refused in (False, True):
        assert can_be_undone("bury", {"letters": [1, 3]}, refused=refused)
        assert not can_be_undone("bury", {"letters": []}, refused=refused)
    assert can_be_undone("withdraw", {}, refused=False) and not can_be_undone("withdraw", {}, refused=True)
    assert can_be_undone("drop", {"kept": {}}, refused=True)
