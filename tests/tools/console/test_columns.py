"""The columns of a scan: every order, state and part of a key gives what sorting all queues gives."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from budgetfrontier.core.model import QueueRecord
from budgetfrontier.tools.console import columns as module
from budgetfrontier.tools.console.columns import SORTS, STATES, Builder, Columns


def some_queues(count: int) -> list[QueueRecord]:
    """Queues with few different amounts, so that many are equal, and with ids that have gaps."""
    chance = random.Random(7)
    return [
        QueueRecord(
            f"host{n}.{chance.choice(('example', 'test', 'שלום'))}",
            id=3 * n + 1,
            state=chance.choice(STATES),
            queued=chance.randrange(5),
            enqueued=chance.randrange(1 << 40),
            expenditure=chance.choice((0, 10, 1 << 50)),
            charges=chance.randrange(1, 4),
            errors=chance.randrange(3),
            balance=chance.randrange(-3, 3),
        )
        for n in range(count)
    ]


def built(queues: list[QueueRecord]) -> Columns:
    with TemporaryFile() as file:
        builder = Builder(file)
        assert sum(1 for _ in builder.through(queues)) == len(queues)
        steps: list[float] = []
        columns = Columns(file, builder.write(steps.append))
    assert steps[-1] == 1.0
    return columns


@pytest.mark.parametrize("dense", [2, 20_000])
@pytest.mark.parametrize(("part", "few"), [(7, 2), (1 << 12, 10_000)])
def test_each_page_has_the_queues_that_sorting_all_gives(
    monkeypatch: pytest.MonkeyPatch, dense: int, part: int, few: int
) -> None:
    monkeypatch.setattr(module, "_DENSE", dense)
    monkeypatch.setattr(module, "_PART", part)
    monkeypatch.setattr(module, "_FEW", few)
    queues = some_queues(300)
    columns = built(queues)
    for sort, amount in SORTS.items():
        for states in ((), *((state,) for state in STATES), STATES[1:4]):
            for text in ("", "host1", ".test", "לום", "nowhere"):
                fit = [queue for queue in queues if (not states or queue.state in states) and text in queue.queue]
                wanted = [queue.id for queue in sorted(fit, key=amount, reverse=True)]
                for reverse in (False, True):
                    ordered = wanted[::-1] if reverse else wanted
                    for start in (0, 7, 290, 1000):
                        found = columns.page(sort, states=states, text=text, start=start, limit=10, reverse=reverse)
                        assert found == (ordered[start : start + 10], len(ordered) > start + 10), (sort, states, text)


def test_a_text_does_not_match_across_two_keys() -> None:
    columns = built([QueueRecord("ab", id=1), QueueRecord("cd", id=2)])
    for text, ids in (("bc", []), ("b\0c", []), ("ab", [1]), ("d", [2])):
        assert columns.page("queued", text=text, start=0, limit=5) == (ids, False)


def test_a_frontier_without_queues_has_columns(tmp_path: Path) -> None:
    columns = built([])
    assert columns.page("queued", text="", start=0, limit=5) == ([], False)
    assert columns.page("queued", states=STATES[:1], text="x", start=0, limit=5) == ([], False)
