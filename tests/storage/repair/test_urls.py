"""Repair of the kept URLs: rows that can be read come back, and each agrees with what waits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import KeptTotals
from budgetfrontier.errors import SettingsError
from budgetfrontier.storage import keys, verify
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import UrlRow, decode_url
from budgetfrontier.storage.repair.repair_steps import repair
from tests.storage.full_frontier import NOW as START
from tests.storage.repair.damaging import aside, assert_repaired, change_rows, damaging, each
from tests.support import make_settings, on_disk, pages

LATER = "https://later.test/"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A frontier whose URLs wait, are out, set aside, for later, dead, completed, and known from elsewhere."""
    with on_disk(
        tmp_path,
        ManualClock(START),
        keep_leases=True,
        keep_urls=True,
        hold_queues=False,
        retry={"scope": "uri", "delay": 500},
    ) as f:
        f.schedule_many([*pages("AB", 4), CrawlUri(LATER, not_before=START + 900)])
        leases = {lease.uri.url: lease for lease in f.lease(2)}
        f.finish(leases["https://a.test/0"])
        f.finish(leases["https://b.test/0"], Outcome.RETRY)
        f.finish(f.lease(1)[0], Outcome.DEAD)
        f.internals.fetched([(CrawlUri("https://c.test/known"), None)])
        f.set_queue("b.test", interval=7, max_completed=30)
        assert f.lease(1)
        f.check()
    return tmp_path / "frontier"


def rows(path: Path) -> list[tuple[bytes, bytes]]:
    with Reader(path) as reader, reader.view() as view:
        return list(view.items(keys.URLS))


def seen(path: Path) -> set[bytes]:
    with Reader(path) as reader, reader.view() as view:
        return {key for key, _ in view.items(keys.SEEN)}


def totals(path: Path) -> KeptTotals | None:
    with Frontier.open(path, clock=ManualClock(START), keep_leases=True) as frontier:
        frontier.check()
        return frontier.internals.kept_totals()


def nowhere(row: UrlRow) -> None:
    row.place = b"\0" * 21


def nowhere_later(row: UrlRow) -> None:
    row.place = b"\0" * 20


def complete(row: UrlRow) -> None:
    row.place, row.due = b"", 0


def of_another(row: UrlRow) -> None:
    row.url = "https://nobody.test/"


def test_a_sound_table_is_copied_as_it_is(path: Path) -> None:
    before, numbers = rows(path), totals(path)
    assert repair(path).changes == 0
    assert rows(path) == before and totals(path) == numbers
    assert numbers is not None and (numbers.active, numbers.completed) == (7, 3)
    with Reader(path) as reader:
        queue = reader.queue("b.test")
        assert queue is not None and (queue.interval, queue.max_completed) == (7, 30)


@pytest.mark.parametrize("change", [nowhere, nowhere_later, complete, of_another])
def test_rows_are_made_to_agree_with_what_waits(path: Path, change: Callable[[UrlRow], None]) -> None:
    before, numbers = rows(path), totals(path)
    with damaging(path) as damage:
        change_rows(change)(damage)
    done = assert_repaired(path)
    assert any(line.startswith("urls: 7 that wait had no row") for line in done.first_changes)
    after = {key: decode_url(value) for key, value in rows(path)}
    for key, value in before:
        row = decode_url(value)
        assert (after[key].queue, after[key].url, after[key].place) == (row.queue, row.url, row.place)
        assert after[key].created == row.created
    assert totals(path) == numbers


def test_rows_that_are_lost_are_made_again_for_all_that_waits(path: Path) -> None:
    numbers = totals(path)
    with damaging(path) as damage:
        each(keys.URLS)(damage)
    assert_repaired(path)
    found = totals(path)
    assert found is not None and numbers is not None
    assert (found.active, found.completed, found.active_queues) == (numbers.active, 0, numbers.active_queues)


def test_a_row_of_what_does_not_wait_any_more_becomes_completed(path: Path) -> None:
    with damaging(path) as damage:
        for key, _ in damage.items(keys.FUTURE):
            damage.delete(keys.FUTURE, key)
    done = assert_repaired(path)
    assert "urls: 2 that waited nowhere are completed" in done.first_changes
    with Frontier.open(path, clock=ManualClock(START), keep_leases=True) as frontier:
        found = frontier.find_url(LATER)
        assert found is not None and found.due is None
        assert frontier.schedule(LATER) == "DUPLICATE"


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        (b"short", None, "not a fingerprint"),
        (b"x" * 16, encode(UrlRow(999, "https://a.test/", b"", 5)), "its queue is unknown"),
        (b"x" * 16, encode(UrlRow(1, "nothing", b"", 5)), "is not a URL"),
        (b"x" * 16, b"\xc1", ""),
    ],
)
def test_a_row_that_nobody_wrote_is_set_aside(path: Path, key: bytes, value: bytes | None, why: str) -> None:
    before = rows(path)
    with damaging(path) as damage:
        damage.put(keys.URLS, key, before[0][1] if value is None else value)
    (left_out,) = aside(assert_repaired(path))
    assert (left_out["table"], left_out["key"]) == (keys.URLS, key.hex()) and why in left_out["why"]
    assert rows(path) == before


def test_a_frontier_without_them_keeps_no_rows(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f:
        f.schedule_many(pages("A", 2))
    path = tmp_path / "frontier"
    with damaging(path) as damage:
        damage.put(keys.URLS, b"x" * 16, encode(UrlRow(1, "https://a.test/", b"", 5)))
    (left_out,) = aside(assert_repaired(path))
    assert left_out["why"] == "this frontier keeps no URLs"
    assert rows(path) == []


def test_what_is_kept_restores_what_was_seen(path: Path) -> None:
    before = seen(path)
    with damaging(path) as damage:
        for key in before:
            damage.delete(keys.SEEN, key)
        damage.txn.drop(damage.db(keys.SEEN), delete=True)
    repair(path)
    assert seen(path) == before


@pytest.mark.parametrize("keep", [True, False])
def test_without_its_settings_the_rows_tell_that_urls_are_kept(path: Path, keep: bool) -> None:
    before, numbers = rows(path), totals(path)
    with damaging(path) as damage:
        damage.put(keys.META, b"settings", b"\xc1")
    repair(path)
    verify.verify(path)
    assert rows(path) == before
    options: dict[str, Any] = {"clock": ManualClock(START), "keep_leases": True}
    if not keep:
        with pytest.raises(SettingsError, match="keeps its URLs"):
            Frontier.open(path, make_settings(), **options)
        return
    with Frontier.open(path, make_settings(keep_urls=True), **options) as frontier:
        frontier.check()
        assert frontier.internals.kept_totals() == numbers


def test_counts_of_queues_and_totals_are_those_of_the_rows(path: Path) -> None:
    numbers = totals(path)
    with damaging(path) as damage:
        damage.change_queue("a.test", urls=77, completed=5, interval=-1.0, paced_until=float("inf"))
        damage.change_queue("b.test", urls=0, completed=0)
        damage.change_totals(urls=1, completed=9, url_queues=0, active_url_queues=12)
    done = assert_repaired(path)
    assert any("interval -1.0 is None" in line for line in done.first_changes)
    assert totals(path) == numbers


def test_two_queues_that_become_one_take_their_rows_along(path: Path) -> None:
    """As of a page that was written twice: the rows of the other id are those of the first."""
    with damaging(path) as damage:
        key = damage.queue("a.test")
        record = damage.txn.get(key, db=damage.db(keys.QUEUES)) or b""
        damage.put(keys.QUEUES, keys.u32.pack(5000), record)
        place = damage.items(keys.PENDING)[-1][0]
        uri = keys.u32.pack(5000) + place[4:]
        damage.put(keys.PENDING, uri, b"\xff/stray")
        damage.put(keys.URLS, b"x" * 16, encode(UrlRow(5000, "\2/stray", uri, 5, 5)))
    assert_repaired(path)
    moved = [decode_url(value) for _, value in rows(path) if decode_url(value).url == "\2/stray"]
    assert {row.queue for row in moved} == {keys.u32.unpack(key)[0]}
    assert all(row.place[:4] == key for row in moved if row.place)


@pytest.fixture
def twice(path: Path) -> Path:
    """The same, with a URL that waits three times, and one of which only the number of its URIs is known."""
    with Frontier.open(path, clock=ManualClock(START), keep_leases=True) as f:
        f.schedule_many(CrawlUri("https://a.test/1", force=True, queue="forced") for _ in range(2))
        f.schedule_many([CrawlUri(LATER, force=True), CrawlUri(LATER, force=True, queue="gone")])
        f.delete(queue="gone")
        f.check()
    return path


def test_urls_that_wait_more_than_once_are_copied_as_they_are(twice: Path) -> None:
    before, numbers = rows(twice), totals(twice)
    assert sorted((bool(row.place), row.more) for _, value in before if (row := decode_url(value)).more) == [
        (False, 2),
        (True, 1),
    ]
    assert repair(twice).changes == 0
    assert (rows(twice), totals(twice)) == (before, numbers)


@pytest.mark.parametrize("more", [0, 9])
def test_the_number_of_what_waits_besides_is_corrected(twice: Path, more: int) -> None:
    numbers = totals(twice)
    with damaging(twice) as damage:
        change_rows(lambda row: setattr(row, "more", more) if row.more else None)(damage)
    done = assert_repaired(twice)
    assert "urls: 1 had another number of URIs that wait" in done.first_changes
    assert totals(twice) == numbers
