"""The tables together: what a commit writes is what readers see, and what the next process finds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from tests.support import START, kernel, memory, on_disk, one, pages


def filled(path: Path) -> Frontier:
    """A frontier with something in each table."""
    f = on_disk(path, hold_queues=False, retry={"scope": "uri", "delay": 60.0})
    f.schedule_many(pages("ABCD", 3))
    f.schedule(CrawlUri("https://later.test/", not_before=START + 500))
    f.finish(one(f), Outcome.DEAD, reason="poison")
    f.finish(one(f), Outcome.RETRY)
    f.finish(one(f), Outcome.SUCCESS)
    f.retire("d.test")
    f.adjust(match="host:b.test", queue_total_budget=50)
    one(f)
    f.commit()
    return f


def seen(reader: Reader) -> list[Any]:
    """All that a reader sees."""
    queues = sorted(reader.queues(), key=lambda queue: queue.id)
    pending = [reader.pending(queue.queue) for queue in queues]
    leases = [(lease.id, lease.uri.url, lease.expires) for lease in reader.leases()]
    rest = [leases, list(reader.future()), reader.dead_letters(), reader.audit(), reader.adjustments]
    return [reader.summary(), queues, pending, *rest]


def test_readers_see_what_was_committed_and_no_more(tmp_path: Path) -> None:
    with filled(tmp_path) as f, Reader(tmp_path / "frontier") as reader:
        committed = seen(reader)
        assert committed[0] == f.summary() and committed[0].future == 2
        assert [queue.queue for queue in committed[1]] == [row.queue for row in sorted(f.report().queues, key=_id(f))]
        assert committed[5] == f.dead_letters() and committed[6] == f.audit()
        f.schedule("https://new.test/")
        f.unretire("d.test")
        f.drop_dead_letters()
        assert seen(reader) == committed
        f.commit()
        assert seen(reader) != committed


def _id(frontier: Frontier) -> Any:
    return lambda row: frontier.queue(row.queue).id  # type: ignore[union-attr]


def test_the_next_process_finds_them_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path).close()
    with Reader(tmp_path / "frontier") as reader:
        before = seen(reader)
    with on_disk(tmp_path, keep_leases=True) as f:
        f.check()
        f.commit()
    with Reader(tmp_path / "frontier") as reader:
        assert seen(reader) == before


def test_no_attribute_is_looked_up_in_a_large_dictionary() -> None:
    """From the 31st on, CPython 3.11 keeps the attributes of an object in a dictionary that is slow to look up."""
    parts, left = dict[int, Any](), list[Any]([kernel(memory())])
    while left:
        part = left.pop()
        if id(part) not in parts and type(part).__module__.startswith("budgetfrontier.engine"):
            parts[id(part)] = part
            left += getattr(part, "__dict__", {}).values()
            left += [getattr(part, name, None) for name in getattr(type(part), "__slots__", ())]
    large = {type(part).__name__: len(vars(part)) for part in parts.values() if len(getattr(part, "__dict__", ())) > 30}
    assert len(parts) > 20 and large == {}
