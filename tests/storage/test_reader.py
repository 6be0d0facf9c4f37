"""What a Reader tells of a frontier, and what it says when it cannot."""

from __future__ import annotations

import errno
import os
import random
from operator import attrgetter
from pathlib import Path
from typing import Any

import lmdb
import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, Reader
from budgetfrontier.core.model import QueueState
from budgetfrontier.errors import CorruptFrontier, FrontierClosed, FrontierError, PolicyError
from budgetfrontier.storage import lmdb_env
from budgetfrontier.testing import crash
from tests.support import START, map_size, on_disk, pages


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """A stopped frontier of 60 queues in all states, of three precedences, with leases out."""
    rng = random.Random(5)
    overrides = [{"match": f"queue:{n}.test", "set": {"precedence": 1 + n % 3}} for n in range(60)]
    with on_disk(tmp_path, hold_queues=False, balance_replenish_amount=1, overrides=overrides, concurrency=2) as f:
        for n in range(60):
            f.schedule_many(f"https://{n}.test/{page}" for page in range(rng.randrange(1, 5)))
        for _ in range(30):
            f.finish(f.lease(1)[0], rng.choice([Outcome.SUCCESS, Outcome.FAILURE]))
        for n in range(0, 60, 9):
            f.retire(f"{n}.test")
        for n in range(1, 60, 9):
            f.snooze(f"{n}.test", until=START + 1000 + n)
        f.lease(5)
        f.commit()
        crash(f)
    return tmp_path / "frontier"


def test_a_report_row_by_row_is_the_report(mixed: Path) -> None:
    with Reader(mixed) as reader:
        whole = reader.report()
        with reader.scan() as (head, rows):
            assert list(rows) == whole.queues == list(reader.queues())
        assert {row.state for row in whole.queues} == set(QueueState) - {QueueState.INELIGIBLE}
        assert (head.totals, head.crawl, head.state, head.queues) == (whole.totals, "test", whole.state, [])


def test_sorting_keeps_equals_in_order(mixed: Path) -> None:
    with Reader(mixed) as reader:
        rows = list(reader.queues())
        for name in ("queue", "queued", "state", "wake_time"):
            for reverse in (False, True):
                expected = sorted(rows, key=attrgetter(name), reverse=reverse)
                assert list(reader.sorted_queues(attrgetter(name), reverse=reverse)) == expected
        some = list(reader.sorted_queues(attrgetter("queue"), where=lambda queue: queue.queued > 2))
        assert some == sorted((row for row in rows if row.queued > 2), key=attrgetter("queue"))


def test_turns_are_counted_as_the_queues_stand(mixed: Path) -> None:
    with Reader(mixed) as reader:
        rows = list(reader.queues())
        for row in rows:
            peers = [other for other in rows if other.state is row.state]
            if row.state is QueueState.READY:
                assert reader.turns_before(row) == (sum(other.position < row.position for other in peers), 0)
            elif row.state is QueueState.INACTIVE:
                mine = [other for other in peers if other.precedence == row.precedence]
                before = sum(other.position < row.position for other in mine)
                better = sum(other.precedence < row.precedence for other in peers)
                assert reader.turns_before(row) == (before, better)


def test_a_url_is_found_as_it_is_written_or_by_its_canonical_form(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(["https://a.test/?b=1&a=2", *pages("A", 3), "https://b.test/"])
        f.schedule(CrawlUri("https://a.test/?a=2&b=1", force=True, via="https://a.test/1", priority=-1))
        f.schedule(CrawlUri("https://a.test/later?x=1&utm_source=mail", not_before=START + 60))
        f.schedule(CrawlUri("https://c.test/later", not_before=START + 60))
        _, other = f.lease(2)
        f.commit()
        with Reader(tmp_path / "frontier") as reader:

            def place(url: str) -> tuple[str, int, bool]:
                found = reader.find(url)["pending"]
                return found.uri.url, found.place, found.leased

            assert place("https://a.test/?b=1&a=2") == ("https://a.test/?b=1&a=2", 0, True)
            assert place("https://a.test/?a=2&b=1") == ("https://a.test/?a=2&b=1", 4, False)
            assert place("https://user@a.test/1")[:2] == ("https://a.test/1", 2)
            assert place("https://a.test/?utm_source=x&a=2&b=1")[:2] == ("https://a.test/?b=1&a=2", 0)
            later = reader.find("https://a.test/later?x=1")["pending"]
            assert (later.uri.url, later.when) == ("https://a.test/later?x=1&utm_source=mail", START + 60)
            gone = reader.find("https://a.test/gone")
            assert (gone["seen"], gone["pending"], gone["dead"], gone["queue"]) == (False, None, None, "a.test")
        f.finish(other, Outcome.DEAD, reason="poison")
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert reader.find("https://b.test/")["dead"].reason == "poison"


def failing(url: object) -> Any:
    """A policy that fails for some."""
    if "bad" in str(getattr(url, "url", url)):
        raise LookupError("not known")
    return 7 if "odd" in str(getattr(url, "url", url)) else "http://a.test/" if isinstance(url, str) else "a.test"


@pytest.mark.parametrize("policy", ["canonicalization_policy", "queue_assignment_policy"])
@pytest.mark.parametrize("said", ["bad", "odd"])
def test_a_policy_that_fails_as_a_url_is_looked_for_is_named(tmp_path: Path, policy: str, said: str) -> None:
    options: dict[str, Any] = {policy: f"{__name__}:failing"}
    with on_disk(tmp_path, **options) as f:
        f.schedule("http://a.test/")
    with Reader(tmp_path / "frontier") as reader:
        assert reader.find("http://a.test/")["seen"]
        with pytest.raises(PolicyError, match=f"policy {__name__}:failing .* for http://a.test/{said}"):
            reader.find(f"http://a.test/{said}")


def test_each_uri_of_a_long_queue_while_it_changes(tmp_path: Path) -> None:
    with on_disk(tmp_path, hold_queues=False) as f, Reader(tmp_path / "frontier") as reader:
        f.schedule_many(pages("AB", 2500))
        f.schedule_many(pages("C", 1000))
        f.commit()
        for letter, count in (("a", 2500), ("c", 1000), ("d", 0)):
            found = [item.uri.url for item in reader.each_pending(f"{letter}.test")]
            assert found == [item.uri.url for item in reader.pending(f"{letter}.test")] and len(found) == count
        each = reader.each_pending("a.test")
        seen = [next(each).uri.url]
        f.delete(queue="a.test", pattern="/(5|1500|2499)$")  # the first was read already
        f.schedule("https://a.test/new")
        f.commit()
        seen += [item.uri.url for item in each]
        kept = [url for url in pages("A", 2500) if not url.endswith(("/1500", "/2499"))]
        assert seen == [*kept, "https://a.test/new"]


def test_what_the_first_uris_cost(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(CrawlUri(f"https://a.test/{cost}", cost=cost) for cost in (5, 1, 3))
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert [reader.cost_of("a.test", count) for count in range(5)] == [0, 1, 4, 9, 9]
            assert reader.cost_of("b.test", 1) == 0


def test_the_audit_is_read_from_its_end(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule("https://a.test/")
        for n in range(4):
            f.retire("a.test", reason=f"no {n}")
            f.unretire("a.test")
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert [entry.id for entry in reader.audit()] == list(range(1, 9))
            assert [entry.id for entry in reader.audit(3)] == [6, 7, 8]
            assert reader.audit(0) == reader.audit()
            with reader.view() as view:
                assert [entry.reason for entry in view.newest_commands("retire")] == ["no 3", "no 2", "no 1", "no 0"]
                assert [entry.id for entry in view.newest_commands("retire", among=4)] == [7, 5]
                assert next(view.newest_commands("wake", "snooze"), None) is None


def test_names_by_prefix(tmp_path: Path) -> None:
    with on_disk(tmp_path) as f:
        f.schedule_many(f"https://{name}.test/" for name in ("ab", "a", "b", "ac"))
        f.commit()
        with Reader(tmp_path / "frontier") as reader:
            assert reader.names("a", 9) == ["a.test", "ab.test", "ac.test"]
            assert reader.names("a", 1) == ["a.test"]
            assert reader.names("", 9) == ["a.test", "ab.test", "ac.test", "b.test"]
            for prefix in "c", "\0", "a" * 600, "\ud800":
                assert reader.names(prefix, 9) == []


# -- what ends it


def test_a_damaged_record_in_the_middle_is_named(mixed: Path) -> None:
    with lmdb.open(str(mixed), max_dbs=32, lib_version=0) as env, env.begin(write=True) as txn:
        txn.put(b"\0\0\0\x1e", b"\xc1 nothing that msgpack knows", db=env.open_db(b"queues", txn=txn))
    with Reader(mixed) as reader:
        for read in (reader.report, lambda: list(reader.queues()), lambda: list(reader.sorted_queues(lambda q: q.id))):
            with pytest.raises(CorruptFrontier, match="restore a backup"):
                read()
        with pytest.raises(CorruptFrontier), reader.scan() as (_, rows):
            list(rows)


def test_what_goes_wrong_within_a_scan_is_not_taken_for_damage(mixed: Path) -> None:
    with Reader(mixed) as reader, pytest.raises(AssertionError), reader.scan():
        raise AssertionError


def test_a_reader_that_is_closed_while_it_reads(mixed: Path) -> None:
    reader = Reader(mixed)
    rows = reader.queues()
    next(rows)
    reader.close()
    with pytest.raises(FrontierClosed):
        list(rows)
    with pytest.raises(FrontierClosed):
        reader.summary()


def test_a_frontier_that_is_closed_while_it_is_read(mixed: Path) -> None:
    with Frontier.open(mixed) as f, Reader(mixed) as reader:
        rows = reader.queues()
        next(rows)
        f.close()
        with pytest.raises(FrontierClosed):
            list(rows)
        with Frontier.open(mixed), pytest.raises(FrontierClosed):  # another one than this reader looked into
            reader.summary()


def test_a_map_that_grows_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmdb_env, "MIN_ROOM", 1 << 20)
    with on_disk(tmp_path) as f, Reader(tmp_path / "frontier") as reader:
        f.schedule_many(f"https://{n}.test/" for n in range(2000))
        f.commit()
        rows = reader.queues()
        next(rows)
        number = 0
        size = map_size(tmp_path / "frontier")
        while map_size(tmp_path / "frontier") == size:
            f.schedule_many(f"https://h{host}.test/{number}" for host in range(1000))
            f.commit()
            number += 1
        with pytest.raises(FrontierError, match="outgrew its map while it was read here; read it again"):
            list(rows)
        assert len(list(reader.queues())) == 3000


def test_who_may_not_note_that_he_reads_is_told_which_file_to_open(
    mixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*args: object, **options: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(lmdb, "open", refused)
    monkeypatch.setattr(os, "access", lambda *args: False)  # the superuser may, whatever the mode
    with pytest.raises(PermissionError, match="LMDB records its readers") as caught:
        Reader(mixed)
    assert caught.value.filename == str(mixed / "lock.mdb")
