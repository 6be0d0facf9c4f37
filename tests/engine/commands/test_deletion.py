"""Deleting: what is taken, for free, and what it does to queues."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import deletion
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.settings.matching import parse_match
from tests.support import START, crawl, crawl_state, kernel, memory, one, pages, paths, record, state


def test_deleting_is_free() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 4))
        assert f.delete(queue="a.*", pattern="/[01]$") == 2
        assert (record(f, "A").queued, f.summary().queued) == (2, 6)
        assert f.delete(queue="a.test") == 2
        assert (state(f, "A"), f.summary().queued, f.summary().expenditure) == ("EXHAUSTED", 4, 0)
        assert f.schedule("https://a.test/0").value == "DUPLICATE"
        assert f.delete(pattern=".") == 4
        assert crawl_state(f) == "FINISHED"
        f.check()


def test_what_is_out_and_what_arrives_later_stays() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("A", 4))
        lease = one(f)
        assert f.delete(queue="a.test") == 3
        f.schedule("https://a.test/later")
        f.finish(lease)
        assert paths([one(f)]) == ["later"]
        f.check()


def test_what_is_scheduled_for_later_goes_too() -> None:
    with memory(clock := ManualClock(START)) as f:
        f.schedule_many(CrawlUri(url, not_before=START + 60) for url in pages("AB", 2))
        assert f.delete(queue="a.test", pattern="/1$") == 1
        clock.advance(60)
        assert sorted(crawl(f)) == ["A", "B", "B"]
        f.check()


def test_a_deletion_is_told_beforehand() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 3))
        assert f.delete(queue="[ab].test", pattern="/0$", dry_run=True) == 2
        assert f.summary().queued == 6 and f.audit() == []


def test_uris_are_chosen_by_pattern_and_by_the_states_of_their_queues() -> None:
    """A pattern is tested on each URI, not on the head of its queue."""
    chosen: list[tuple[dict[str, Any], int]] = [
        ({"match": "label:one"}, 2),
        ({"match": "regex:/[12]$", "pattern": "/2"}, 4),
        ({"match": "queues:B.test,none,e.test", "pattern": "/0$"}, 2),
        ({"states": ["RETIRED"]}, 3),
        ({"match": "host:d.test", "states": ["RETIRED"]}, 0),
        ({"match": "group:hosts/c.test"}, 0),  # a queue is in a group from its first turn on
        ({"match": "domain:test"}, 8),
    ]
    with memory(groups=[{"name": "hosts", "by": "host"}]) as f:
        f.schedule_many(pages("abcd", 4))
        f.schedule_many(CrawlUri(f"https://e.test/{n}", source="one" if n else None) for n in range(3))
        f.retire("a.test")
        for args, expected in chosen:
            assert deletion.preview(kernel(f).tables.flushed(), args)["deleted"] == expected, args
            entry = f.internals.apply(Command("delete", args, "somebody", ""))
            assert (entry.error, entry.effect["deleted"]) == (None, expected), args
            f.check()
        assert f.summary().queued == 0


@pytest.mark.parametrize(
    "match",
    [
        *("domain:a.test", "host:a.test", "host:*.a.test", "host:a.test.", "domain:test", "label:one", "*"),
        *("surt:(test,a,", "surt:https://(test,a,)", "surt:(test,a,:8080", "surt:(test,a,)/1", "regex:a.test/1$"),
        *("queue:a.test", "queue:forced", "queue:*8080"),
    ],
)
def test_a_match_chooses_the_uris_that_it_matches_wherever_they_wait(match: str) -> None:
    hosts = ("a.test", "b.a.test", "c.test", "a.test:8080", "xa.test", "a.test.org")
    urls = [f"{scheme}://{host}/{page}" for scheme in ("http", "https") for host in hosts for page in range(3)]
    given = [CrawlUri(url) for url in urls]
    given += [CrawlUri(f"{url}?meta", meta={"a": 1}, source="one") for url in urls]
    given += [CrawlUri(f"{url}?forced", queue="forced") for url in urls]
    given += [CrawlUri(f"{url}?later", not_before=START + 60) for url in urls]
    with memory(ManualClock(START)) as f:
        f.schedule_many(given)
        view = kernel(f).tables.flushed()
        there = [(item.uri, queue.queue) for queue in view.stored_queues() for item in view.pending(queue)]
        test = parse_match(match).matches
        expected = [uri.url for uri, key in there if test(uri.url, key, uri.source)]
        later = [uri.url for uri in given if uri.not_before and test(uri.url, uri.url.split("/")[2], uri.source)]
        command = Command("delete", {"match": match}, "me", "")
        shown = deletion.preview(view, command.args)
        assert (shown["deleted"], shown["later"]) == (len(expected) + len(later), len(later))
        assert 0 < shown["deleted"] < len(given) or match == "*"
        assert f.internals.apply(command).effect["deleted"] == shown["deleted"]
        view = kernel(f).tables.flushed()
        left = [item.uri.url for queue in view.stored_queues() for item in view.pending(queue)]
        assert sorted(left + expected) == sorted(uri.url for uri, _ in there)
        f.check()


def test_a_choice_that_cannot_be_made_is_refused() -> None:
    with memory() as f:
        f.schedule_many(pages("a", 2))
        for args in ({}, {"match": "sheet:x"}, {"match": "x"}, {"states": ["BUSY"]}, {"match": "regex:("}):
            assert f.internals.apply(Command("delete", args, "somebody", "")).error
        assert f.summary().queued == 2
