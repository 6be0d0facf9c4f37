"""The check of every invariant: each contradiction is found, and all are told at once."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Reader
from budgetfrontier.core.model import FetchStats, QueueAnswers, RunRow
from budgetfrontier.errors import CorruptFrontier, SettingsError
from budgetfrontier.settings import policy_factory
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import AuditEntry, HostRow, LinksRow, UrlRow, decode_url, tally_key
from budgetfrontier.storage.uri_values import check_url
from tests.storage.repair.damaging import Change, Damage, assert_repaired, change_rows, damaging, each
from tests.support import on_disk, one, pages


def tally(kind: str, name: str, **stats: int) -> tuple[str, bytes, bytes]:
    return keys.TALLIES, tally_key(kind, name), encode(FetchStats(**stats))


def linked(domain: str, degree: int, ranked: int = 0, changed_after: int = 0) -> tuple[str, bytes, bytes]:
    return keys.LINKS, domain.encode(), encode(LinksRow(degree, b"12345678", ranked, changed_after))


def answered(queue: bytes, classes: list[int] | None = None, **values: Any) -> tuple[str, bytes, bytes]:
    return keys.ANSWERS, queue, encode(QueueAnswers(classes or [0] * 5, **values))


def remembered(queue: bytes, success: int, links: float = 0, new: float = 0) -> tuple[str, bytes, bytes]:
    return keys.HISTORY, queue, keys.history.pack(success, 0, 0, 0, 1.0, links, new, 1.0)


DAMAGES: dict[str, tuple[Change, str]] = {
    "a sentinel": (lambda d: d.delete(keys.SEEN, keys.SENTINEL), "table seen: the sentinel is missing"),
    "the name of a row of meta": (lambda d: d.put(keys.META, b"changer", b"\1"), "meta: 1 row .* under b'changer'"),
    "the count of a queue": (lambda d: d.change_queue("ready.test", queued=99), "its record says 99 queued"),
    "the id of a queue": (lambda d: d.change_queue("ready.test", id=999), "is not its key"),
    "the name of a queue": (lambda d: d.delete(keys.QUEUE_IDS, b"ready.test"), "queue_ids does not lead to it"),
    "expenditure": (lambda d: d.change_queue("ready.test", expenditure=-1), "expenditure -1"),
    "the ring": (each(keys.ACTIVE), "queue ready.test"),
    "the retired": (each(keys.RETIRED), "RETIRED, but found in"),
    "the leases": (each(keys.LEASES), "lease"),
    "the total of queued URIs": (lambda d: d.change_totals(queued=12345), "12345"),
    "what crawling has found": (lambda d: d.change_totals(found=99_999), "but 99999 of them were found"),
    "the dead prerequisites": (lambda d: d.change_totals(dead_prerequisites=99), "dead_prerequisites is 99"),
    "a URL": (lambda d: d.put(keys.PENDING, d.items(keys.PENDING)[0][0], b"\xc1"), "unreadable"),
    "the address of a host": (lambda d: d.put(keys.HOSTS, b"a.test", encode(HostRow("a.test", 1))), "a.test"),
    "the name of a host": (lambda d: d.put(keys.HOSTS, b"A.test", encode(HostRow("192.0.2.1", 1))), "not the name"),
    "a peer": (lambda d: d.put(keys.PEERS, b"seven", keys.peer.pack(1, 0, 2, 0)), "peers: 1 row that cannot be one"),
    "what a peer has told": (lambda d: d.put(keys.PEERS, keys.u32.pack(7), b"\xc1"), "a record cannot be read"),
    "what is novel": (
        lambda d: d.put(*tally("host", "x.test", novel=1)),
        "of host x.test: more is novel than was fetched",
    ),
    "the tally of no queue": (lambda d: d.put(*tally("queue", "x.test")), "of queue x.test, which has no record"),
    "the bytes of a queue": (lambda d: d.put(*tally("queue", "ready.test", error_bytes=9)), "of queue ready.test"),
    "the sum of tallies": (
        lambda d: d.put(*tally("label", "x", errors=10**9)),
        "of kind label are more",
    ),
    "the history of no queue": (lambda d: d.put(*remembered(b"\0\0\xff\xff", 1)), "0000ffff is of no queue"),
    "more attempts than were charged": (
        lambda d: d.put(*remembered(d.queue("ready.test"), 99)),
        "history: of queue ready.test: more attempts",
    ),
    "a negative mean": (lambda d: d.put(*remembered(d.queue("ready.test"), 1, -1.0)), "a mean is negative"),
    "more new links than links": (lambda d: d.put(*remembered(d.queue("ready.test"), 1, 1, 2)), "more links are new"),
    "the answers of no queue": (lambda d: d.put(*answered(b"\0\0\xff\xff")), "0000ffff: it is of no queue"),
    "the total of answers": (lambda d: d.put(*answered(d.queue("ready.test"), [0, 0, 7, 0, 0])), "answers says 7"),
    "digests without a bit": (
        lambda d: d.put(*answered(d.queue("ready.test"), digests=0, bitmap=1)),
        "its digests are more",
    ),
    "an in-degree": (lambda d: d.put(*linked("x.test", 2)), "links: x.test: 8 bytes of linking domains, and an"),
    "the number of in-degrees": (lambda d: d.put(*linked("x.test", 1)), "the table of links says {1: 1}"),
    "in-degrees of no domain": (lambda d: d.put(keys.DEGREES, keys.u32.pack(3), keys.u32.pack(1)), "degrees: {3: 1}"),
    "a ranking that never was": (lambda d: d.put(*linked("x.test", 1, 0, 9)), "changed after ranking 9"),
    "the cut-offs": (lambda d: d.change_totals(lowest_degree=2, highest_degree=1), "lowest in-degree"),
    "the key of what is for later": (
        lambda d: d.put(keys.FUTURE, b"\1\2\3", d.items(keys.FUTURE)[0][1]),
        "future: 1 row that cannot be one",
    ),
    "the key of a dead letter": (lambda d: d.put(keys.DEAD, b"\1\2", d.items(keys.DEAD)[0][1]), "dead: 1 row that"),
    "the key of a lease": (lambda d: d.put(keys.LEASES, b"\1\2", d.items(keys.LEASES)[0][1]), "leases: 1 row that"),
    "the number of what is for later": (
        lambda d: d.put(keys.FUTURE, keys.due.pack(5.0, 1 << 40), d.items(keys.FUTURE)[0][1]),
        "its ordinal was never given out",
    ),
    "the time of what is for later": (
        lambda d: d.put(keys.FUTURE, keys.due.pack(inf, 1), d.items(keys.FUTURE)[0][1]),
        "its time is inf",
    ),
    "the number of a dead letter": (
        lambda d: d.put(keys.DEAD, keys.u64.pack(1 << 40), d.items(keys.DEAD)[0][1]),
        "dead letter 1099511627776: its time is .* or its number was never given out",
    ),
    "the number of a lease": (lambda d: d.change_totals(epoch=0), "its number was never given out"),
    "a second lease": (
        lambda d: d.put(keys.LEASES, keys.u64.pack(1 << 40), d.items(keys.LEASES)[0][1]),
        "its URI has another lease",
    ),
    "the number of a command": (
        lambda d: d.put(keys.AUDIT, keys.u64.pack(1), encode(AuditEntry(1, "wake", {}, "", 5.0, "", {}, number=99))),
        "entry 1 is of command 99",
    ),
    "a time of a queue": (lambda d: d.change_queue("ready.test", failed_at=inf), "ready.test: failed_at is inf"),
    "a time of the totals": (lambda d: d.change_totals(last_asked=nan), "totals: last_asked is nan"),
    "the row in the ring": (lambda d: d.change_queue("ready.test", row=7), "its record says row 7"),
    "the parts of what was spent": (lambda d: d.change_totals(failed_expenditure=10**9), "its parts without"),
    "a run": (lambda d: d.put(keys.RUNS, keys.u32.pack(70), encode(RunRow(inf, 1, "", ""))), "runs: one from inf"),
    "a record": (lambda d: d.put(keys.QUEUES, d.queue("ready.test"), b"\xc1"), "a record cannot be read"),
}


def test_a_sound_frontier_passes(path: Path) -> None:
    with Reader(path) as reader:
        reader.check()


@pytest.mark.parametrize("what", DAMAGES)
def test_each_contradiction_is_found(path: Path, what: str) -> None:
    change, told = DAMAGES[what]
    with damaging(path) as damage:
        change(damage)
    with Reader(path) as reader, pytest.raises(CorruptFrontier, match=told):
        reader.check()


@pytest.mark.parametrize("table", keys.TABLES)
def test_a_row_of_another_form_is_found(path: Path, table: str) -> None:
    with damaging(path) as damage:
        damage.put(table, b"\0\1\2", b"\xc1")
    with Reader(path) as reader, pytest.raises(CorruptFrontier, match=f"{table}: 1 row that cannot be one"):
        reader.check()


@pytest.mark.parametrize("what", DAMAGES)
def test_whatever_is_found_is_mended_by_a_repair(path: Path, what: str) -> None:
    with damaging(path) as damage:
        DAMAGES[what][0](damage)
    assert_repaired(path)


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


# -- kept URLs


def lose_a_row(damage: Damage) -> None:
    key, _ = next(item for item in damage.items(keys.URLS) if decode_url(item[1]).place)
    damage.delete(keys.URLS, key)


KEPT_DAMAGES: dict[str, tuple[Change, str]] = {
    "the sentinel": (lambda d: d.delete(keys.URLS, keys.SENTINEL), "table urls: the sentinel is missing"),
    "a row": (lambda d: d.put(keys.URLS, b"x" * 16, b"\xc1"), "a record cannot be read"),
    "a key": (lambda d: d.put(keys.URLS, b"short", d.items(keys.URLS)[0][1]), "urls: 1 row that cannot be one"),
    "a row that is lost": (lose_a_row, "is not among the kept URLs"),
    "a place": (change_rows(lambda row: setattr(row, "place", b"\0" * 21)), "is not where it is said to wait"),
    "a URL": (change_rows(lambda row: setattr(row, "url", "\2/other")), "is not where it is said to wait"),
    "no URL": (change_rows(lambda row: setattr(row, "url", "none")), "is not a URL"),
    "the queue of a row": (change_rows(lambda row: setattr(row, "queue", 999)), "its queue 999 does not exist"),
    "completed, and due": (change_rows(lambda row: setattr(row, "place", b"")), "is completed, and due"),
    "what waits besides": (change_rows(lambda row: setattr(row, "more", 2)), "is said to wait 2 more times, not 0"),
    "the URLs of a queue": (lambda d: d.change_queue("a.test", urls=7), "a.test: URLs, completed: .7, 1., the table"),
    "the completed of a queue": (lambda d: d.change_queue("a.test", completed=0), "a.test: URLs, completed: .3, 0."),
    "the total": (lambda d: d.change_totals(urls=99), "totals: urls is 99, the queues say 4"),
    "the total of the completed": (lambda d: d.change_totals(completed=99), "totals: completed is 99"),
    "the queues": (lambda d: d.change_totals(url_queues=99), "totals: url_queues is 99"),
    "the active queues": (lambda d: d.change_totals(active_url_queues=99), "totals: active_url_queues is 99"),
}


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    with on_disk(tmp_path, keep_urls=True, hold_queues=False) as f:
        f.schedule_many([*pages("A", 3), CrawlUri("https://b.test/", not_before=2e9)])
        f.finish(one(f))
        f.check()
    return tmp_path / "frontier"


@pytest.mark.parametrize("what", KEPT_DAMAGES)
def test_each_contradiction_among_the_kept_urls_is_found(kept: Path, what: str) -> None:
    change, told = KEPT_DAMAGES[what]
    with Reader(kept) as reader:
        reader.check()
    with damaging(kept) as damage:
        change(damage)
    with Reader(kept) as reader, pytest.raises(CorruptFrontier, match=told):
        reader.check()


def test_a_frontier_that_keeps_no_urls_has_no_rows(path: Path) -> None:
    with damaging(path) as damage:
        key = damage.queue("ready.test")
        row = UrlRow(keys.u32.unpack(key)[0], "https://ready.test/", b"", 5)
        damage.put(keys.URLS, b"x" * 16, encode(row))
    with Reader(path) as reader, pytest.raises(CorruptFrontier, match="this frontier keeps no URLs"):
        reader.check()


def test_a_url_that_waits_twice_has_one_row_until_the_last_is_forgotten(kept: Path) -> None:
    with Frontier.open(kept) as f:
        f.schedule(CrawlUri("https://a.test/2", force=True))
        f.check()
        found = f.find_url("https://a.test/2")
        assert found is not None
        assert f.internals.forget_urls([found.fingerprint]) == 1
        f.check()
        found = f.find_url("https://a.test/2")
        assert found is not None and found.due is not None and found.uri is None
        f.delete(queue="a.test")
        f.check()
        assert f.find_url("https://a.test/2") is None


def test_a_record_that_its_row_does_not_count_is_found(kept: Path) -> None:
    with Frontier.open(kept) as f:
        f.schedule(CrawlUri("https://a.test/2", force=True))
    with damaging(kept) as damage:
        for key, value in damage.items(keys.URLS):
            if decode_url(value).more:
                damage.put(keys.URLS, key, value[:-1] + b"\0")
    with Reader(kept) as reader, pytest.raises(CorruptFrontier, match="is said to wait 0 more times, not 1"):
        reader.check()


def test_a_policy_that_cannot_be_loaded_does_not_keep_the_rest_from_being_checked(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: object) -> None:
        raise SettingsError("there is no such policy here")

    monkeypatch.setattr(policy_factory, "canonicalization", lost)
    with Reader(kept) as reader:
        reader.check()
