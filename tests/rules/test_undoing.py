"""Which entries of the audit can be undone."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier.rules.undoing import can_be_undone

CHANGED = {"before": {"state": "READY"}, "after": {"state": "RETIRED"}}
KEPT = {"deleted": 3, "kept": {"file": 1, "bytes": 99}}


@pytest.mark.parametrize(
    ("command", "effect", "can"),
    [
        ("adjust", {}, True),
        ("retire", CHANGED, True),
        ("retire", {"before": 1, "after": 1}, False),
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
