"""Dead letters replayed and dropped by command: all of them, those of a queue, or those of given ids."""

from __future__ import annotations

import time

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome
from budgetfrontier.engine.commands import dead_letters, runner
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.errors import FrontierError
from tests.support import crawl, kernel, memory, pages


def given_up(hosts: str, count: int) -> Frontier:
    """A frontier that has given up on some pages of each host."""
    f = memory()
    f.schedule_many(pages(hosts, count))
    while leases := f.lease(1):
        f.finish(leases[0], Outcome.DEAD, reason="gone")
    return f


def test_replay_by_queue() -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 2))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD, reason="gone")
        assert f.replay(queue="b.test") == 2
        assert crawl(f) == "BB"
        assert f.replay() == 2
        assert crawl(f) == "AA"


@pytest.mark.parametrize("keep_urls", [True, False])
@pytest.mark.parametrize("where", ["queue", "lease", "date"])
def test_a_dead_letter_whose_url_waits_already_stays_one_where_urls_are_kept(
    keep_urls: bool, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "STEP", 1)
    with memory(keep_urls=keep_urls) as f:
        urls = [*pages("A", 2)]
        f.schedule_many(urls)
        for _ in range(2):
            f.finish(f.lease(1)[0], Outcome.DEAD, reason="gone")
        f.schedule(CrawlUri(urls[0], force=True))
        f.finish(f.lease(1)[0], Outcome.DEAD, reason="gone again")
        f.schedule(CrawlUri(urls[1], force=True, not_before=time.time() + 60 if where == "date" else None))
        out = f.lease(1) if where == "lease" else []
        shown = dead_letters.preview(kernel(f).tables.flushed(), {"ids": None}, "replayed")
        assert (shown["replayed"], shown.get("waiting", 0)) == ((1, 2) if keep_urls else (3, 0))
        assert f.replay() == shown["replayed"]
        assert f.audit()[-1].effect.get("waiting", 0) == shown.get("waiting", 0)
        left = [(letter.uri.url, letter.reason) for letter in f.dead_letters()]
        assert left == ([(urls[1], "gone"), (urls[0], "gone again")] if keep_urls else [])
        f.check()
        for lease in out:
            f.finish(lease, Outcome.SUCCESS)
        assert f.replay(queue="a.test") == (keep_urls and where == "lease"), "its URL waits no more"


@pytest.mark.parametrize("op", ["replay", "drop"])
def test_ids_are_taken_once_each_and_unknown_ones_are_passed_over(op: str) -> None:
    with given_up("A", 3) as f:
        first, _, last = (letter.id for letter in f.dead_letters())
        entry = f.internals.apply(Command(op, {"ids": [last, first, first, -1, 10**9]}, "me", ""), number=1)
        assert list(entry.effect.values())[:2] == [2, ["a.test"]]
        assert f.summary().dead == 1
        f.check()


@pytest.mark.parametrize(("op", "word"), [("replay", "replayed"), ("drop", "dropped")])
def test_a_step_takes_so_many(op: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with given_up("AB", 3) as f:
        entry = f.internals.apply(Command(op, {"queue": "b.test"}, "me", ""), number=1)
        assert ("kept" in entry.effect) == (op == "drop")
        entry.effect.pop("kept", None)
        assert entry.effect == {word: 3, "of_queues": ["b.test"]}
        assert [letter.queue for letter in f.dead_letters()] == ["a.test"] * 3
        f.check()


@pytest.mark.parametrize("op", ["replay", "drop"])
def test_the_audit_names_the_queues_and_no_more_than_so_many(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "NAMED_QUEUES", 2)
    monkeypatch.setattr(runner, "STEP", 2)
    with given_up("ABC", 2) as f:
        first = next(letter.id for letter in f.dead_letters() if letter.queue == "b.test")
        assert f.internals.apply(Command(op, {"ids": [first]}, "me", ""), number=1).effect["of_queues"] == ["b.test"]
        rest = f.internals.apply(Command(op, {"ids": None}, "me", ""), number=2).effect["of_queues"]
    assert len(rest) == 2 and set(rest) < {"a.test", "b.test", "c.test"}


@pytest.mark.parametrize("op", ["replay", "drop"])
def test_what_can_be_no_ids_is_refused(op: str) -> None:
    with given_up("A", 1) as f:
        with pytest.raises(FrontierError, match=f"^{op}: .*ids"):
            f.internals.apply(Command(op, {"ids": 7}, "me", ""), number=1)
        assert f.summary().dead == 1
