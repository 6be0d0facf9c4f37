"""The check of every invariant: each contradiction is found, and all are told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.store import keys
from budgetfrontier.store.invariants import check_url
from tests.store.repair.damaging import Change, damaging, each

DAMAGES: dict[str, tuple[Change, str]] = {
    "a sentinel": (lambda d: d.delete(keys.SEEN, keys.SENTINEL), "table seen: the sentinel is missing"),
    "the count of a queue": (lambda d: d.change_queue("ready.test", queued=99), "its record says 99 queued"),
    "the id of a queue": (lambda d: d.change_queue("ready.test", id=999), "is not its key"),
    "the name of a queue": (lambda d: d.delete(keys.QUEUE_IDS, b"ready.test"), "queue_ids does not lead to it"),
    "expenditure": (lambda d: d.change_queue("ready.test", expenditure=-1), "expenditure -1"),
    "the ring": (each(keys.ACTIVE), "queue ready.test"),
    "the retired": (each(keys.RETIRED), "RETIRED, but found in"),
    "the leases": (each(keys.LEASES), "lease"),
    "the total of queued URIs": (lambda d: d.change_totals(queued=12345), "12345"),
    "refusals by reason": (
        lambda d: d.change_totals(full=3, full_reasons={"max_queued": 2, "max_queue_size": 3}),
        "totals: full is 3, its reasons say 5",
    ),
    "a URL": (lambda d: d.put(keys.PENDING, d.items(keys.PENDING)[0][0], b"\xc1"), "unreadable"),
    "a record": (lambda d: d.put(keys.QUEUES, d.queue("ready.test"), b"\xc1"), "a record cannot be read"),
}


def test_a_sound_frontier_passes(path: Path) -> None:
    with Reader(path) as reader:
        reader.check()


def test_refusals_that_an_older_version_counted_have_no_reason(path: Path) -> None:
    with damaging(path) as damage:
        damage.change_totals(full=3, full_reasons={"max_queued": 2})
    with Reader(path) as reader:
        reader.check()
        assert reader.summary().full_reasons == {"max_queued": 2, "unknown": 1}


@pytest.mark.parametrize("what", DAMAGES)
def test_each_contradiction_is_found(path: Path, what: str) -> None:
    change, told = DAMAGES[what]
    with damaging(path) as damage:
        change(damage)
    with Reader(path) as reader, pytest.raises(CorruptFrontier, match=told):
        reader.check()


def test_all_are_told_at_once(path: Path) -> None:
    with damaging(path) as damage:
        for what in ("a sentinel", "the count of a queue", "the total of queued URIs"):
            DAMAGES[what][0](damage)
    with Reader(path) as reader, pytest.raises(CorruptFrontier) as caught:
        reader.check()
    assert all(DAMAGES[what][1] in str(caught.value) for what in ("a sentinel", "the count of a queue"))


@pytest.mark.parametrize("url", ["", "a.test", "ftp://a.test/", "https://a.test"])
def test_what_is_no_stored_url(url: str) -> None:
    with pytest.raises(ValueError, match="is not a URL"):
        check_url(url)
