"""Queues in some states, read by the indexes where these have fewer than half of all."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.core.model import QueueState
from budgetfrontier.storage.queue_listing import queues, queues_in
from tests.support import START, on_disk, pages


def test_queues_in_some_states_are_read_by_their_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, queue_total_budget=1, hold_queues=False) as f:
        f.schedule_many(pages("ABCDEFGHIJKLMNOP", 3))
        f.retire("a.test")
        f.snooze("b.test", until=START + 99)
        f.lease(3)
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            everything = list(queues(view))
            states = {queue.state for queue in everything}
            assert len(states) == 4
            for state in QueueState:
                wanted = [queue.queue for queue in everything if queue.state is state]
                assert [queue.queue for queue in queues_in(view, {state})] == wanted, state
            monkeypatch.setattr(type(view), "stored_queues", None)
            few = [queue.queue for queue in queues_in(view, {QueueState.RETIRED, QueueState.IN_PROCESS})]
            assert "a.test" in few and len(few) == 4
