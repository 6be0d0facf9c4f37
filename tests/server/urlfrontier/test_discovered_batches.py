"""Long batches of PutDiscovered: they are taken in steps, in order, until the call ends."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier.errors import FrontierClosed
from budgetfrontier.server import tasks
from budgetfrontier.server.urlfrontier import discovered_batches, engine_calls
from budgetfrontier.server.urlfrontier import urlfrontier_pb2 as m
from tests.server.urlfrontier.service_client import OK, SKIPPED, info, serving


class Stream:
    """A call as batches know it."""

    def __init__(self) -> None:
        self.ended = False
        self.replies: list[Any] = []

    def reply(self, replies: list[bytes]) -> None:
        self.replies += [m.BatchAck.FromString(reply) for reply in replies]


def batch(name: str, count: int) -> Any:
    return m.DiscoveredBatch(ID=name, items=[info(f"http://{name}.test/{number}") for number in range(count)])


def test_a_long_batch_is_scheduled_in_steps_and_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    discovered = engine_calls.discovered

    def noted(frontier: Any, infos: Sequence[Any], lost: Any) -> list[int]:
        sizes.append(len(infos))
        return discovered(frontier, infos, lost)

    monkeypatch.setattr(engine_calls, "discovered", noted)
    urls = [info(f"http://a.test/{number % 900}", "cd"[number % 2]) for number in range(2100)]
    with serving(tmp_path / "jobs") as client:
        acks = client.PutDiscovered([m.DiscoveredBatch(ID="long", items=urls), batch("b", 1), batch("c", 0)])
        assert client.GetStats(crawlID="c").size == 451
    assert [ack.ID for ack in acks] == ["long", "b", "c"]
    assert list(acks[0].statuses) == [OK] * 900 + [SKIPPED] * 1200
    assert sizes == [500, 500, 500, 500, 50, 50, 1]


def test_of_a_batch_whose_call_ends_no_more_is_stored_and_nothing_is_acknowledged() -> None:
    steps: list[tuple[int, tasks.Done]] = []
    stream, ends = Stream(), list[BaseException | None]()

    async def put(crawl_id: str, infos: Sequence[Any]) -> list[int]:
        return await tasks.CallbackStep[list[int]](lambda done: steps.append((len(infos), done)))

    taken = discovered_batches.DiscoveredBatches(put)
    for each in (batch("a", 2001), batch("b", 1)):
        tasks.run(taken.take(each, stream), lambda result, error: ends.append(error))  # type: ignore[arg-type]
    for ended in (False, True):
        assert (len(steps), ends) == (1, [None])  # the other waits for it
        assert steps[0][0] == 1000
        stream.ended = ended
        steps.pop()[1]([OK] * 1000, None)
    assert (steps, stream.replies) == ([], [])
    assert isinstance(ends[-1], FrontierClosed)
