"""The partitions to which the undo of a command is given, and commands that a console does not give to partitions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.inspection import Undoing
from budgetfrontier.cluster.operators.steering_plan import undoable
from budgetfrontier.errors import ConnectionLost, FrontierError
from budgetfrontier.rules.undoing import NOTHING, NOTHING_KEPT


class Asked:
    """An operator to whom partitions say what an undo would do."""

    job, partitions = "job", 4

    def __init__(self, found: dict[int, Undoing], missing: set[int]) -> None:
        self._found, self.missing = found, missing

    def without_owner(self, numbers: set[int]) -> str:
        return f"partitions {numbers} have no owner"

    def ask(self, look: str, kind: Any, **named: Any) -> dict[int, Undoing]:
        return self._found


def test_the_undo_of_a_command_that_waits_in_a_partition_is_given_to_it_too() -> None:
    done, other = Undoing({"undoes": "adjust"}), Undoing(None, is_known=False)
    waits = Undoing(None, is_known=False, waits=True)
    for found, missing, to in (
        ({0: done, 1: waits, 2: done}, {3}, {0, 1, 2, 3}),
        ({0: done, 1: other, 2: waits, 3: other}, set(), {0, 2}),
    ):
        assert undoable(cast("CrawlOwners", Asked(found, missing)), "undo", b"command", force=False)[1] == to


@pytest.mark.parametrize("nothing", [
    Undoing(None, f"17, retire, {NOTHING}"),
    Undoing(None, f"17 {NOTHING}: the crawl was PAUSED before it, too"),
    Undoing(None, f"17, retire, was refused: it {NOTHING}"),
    Undoing(None, f"17, retire, {NOTHING_KEPT}"),
])  # fmt: skip
def test_a_refusal_says_what_keeps_the_undo_where_the_command_had_an_effect(nothing: Undoing) -> None:
    undone = Undoing(None, "17, retire, is undone already")
    with pytest.raises(FrontierError, match="is undone already"):
        undoable(cast("CrawlOwners", Asked({0: nothing, 1: undone}, set())), "undo", b"command", force=False)
    with pytest.raises(FrontierError, match=str(nothing.refusal)):
        undoable(cast("CrawlOwners", Asked({0: nothing, 1: nothing}, set())), "undo", b"command", force=False)


@pytest.mark.parametrize("found", [Undoing(None, f"17, retire, {NOTHING}"), Undoing(None, is_known=False)])
def test_a_partition_without_an_owner_may_be_the_one_that_a_command_has_changed(found: Undoing) -> None:
    with pytest.raises(ConnectionLost, match=r"\{2\} have no owner: give it again once all answer"):
        undoable(cast("CrawlOwners", Asked({0: found, 1: found}, {2})), "undo", b"command", force=False)
