"""Dead letters: kept whole, replayed, dropped."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlState, CrawlUri, Directive, Outcome
from tests.support import START, crawl_state, memory, one, pages, record


def test_dead_letters_are_kept_whole_and_can_be_replayed_or_dropped() -> None:
    with memory() as f:
        f.schedule_many(CrawlUri(url, meta={"k": [1]}, payload=b"\0", cost=4) for url in pages("AB", 1))
        for lease in f.lease(2):
            f.finish(lease, Outcome.DEAD, reason="gone")
        assert crawl_state(f) == "FINISHED"
        letters = f.dead_letters()
        assert [(letter.queue, letter.reason, letter.time, letter.cost) for letter in letters] == [
            ("a.test", "gone", START, 4),
            ("b.test", "gone", START, 4),
        ]
        assert (letters[0].uri.meta, letters[0].uri.payload) == ({"k": [1]}, b"\0")
        assert len(f.dead_letters(limit=1)) == 1
        assert len(f.dead_letters(limit=0)) == len(f.dead_letters()) > 1
        assert f.replay([letters[0].id]) == 1
        assert (f.summary().dead, f.state, record(f, "A").queued) == (1, CrawlState.RUNNING, 1)
        assert f.drop_dead_letters() == 1
        assert f.dead_letters() == []
        assert one(f).uri.payload == b"\0"
        f.check()


def test_a_prerequisite_that_fails_again_has_one_dead_letter() -> None:
    def die(*urls: str, directive: Directive = Directive.HIGHEST) -> list[str]:
        f.schedule_many(CrawlUri(url, force=True, directive=directive, queue="a.test") for url in urls)
        for _ in urls:
            f.finish(one(f), Outcome.DEAD)
        f.check()
        return [letter.uri.url for letter in f.dead_letters()]

    robots, other, page = "https://a.test/robots.txt", "https://b.test/robots.txt", "https://a.test/page"
    with memory() as f:
        assert die(robots, robots) == [robots]
        assert die(page, page, directive=Directive.NORMAL) == [robots, page, page]
        assert die(robots) == [page, page, robots]
        assert die(other) == [page, page, robots, other]
        assert f.replay() == 4
        assert f.summary().dead == 0


@pytest.mark.parametrize("text", ["12", b"\1\2"])
def test_text_is_not_taken_for_the_ids_of_dead_letters(text: Any) -> None:
    with memory() as f:
        f.schedule_many(pages("A", 2))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.DEAD)
        for of_letters in f.replay, f.drop_dead_letters:
            with pytest.raises(TypeError, match="whole numbers, not"):
                of_letters(text)
        assert f.summary().dead == 2


def test_the_verdict_is_on_what_is_there_now_and_not_on_the_last_commit() -> None:
    with memory(hold_queues=False) as f:
        f.schedule_many(pages("ab", 2))
        f.finish_many(f.lease(1))
        assert f.verdict().slug == "running"
        f.delete(queue="*")
        assert f.verdict().text == "The crawl is finished: 1 was crawled of 4 URIs; 3 were deleted."
        f.check()


def test_the_verdict_tells_of_letters_that_died_again_after_a_replay_and_of_those_that_were_dropped() -> None:
    def fetch() -> None:
        f.schedule(CrawlUri("https://b.test/robots.txt", directive=Directive.HIGHEST, force=True))
        while leases := f.lease(1):
            f.finish(leases[0], Outcome.SUCCESS if leases[0].queue == "a.test" else Outcome.DEAD)

    with memory() as f:
        f.schedule_many([*pages("a", 1), *pages("b", 3)])
        for _ in range(3):
            fetch()
            assert f.verdict().text == "The crawl is finished: 1 was crawled of 4 URIs; 3 became dead letters."
            assert (f.verdict().level, f.summary().dead, f.summary().dead_prerequisites) == ("bad", 4, 1)
            f.check()
            f.replay()
        fetch()
        assert f.drop_dead_letters() == 4
        dropped = "The crawl is finished: 1 was crawled of 4 URIs; 3 became dead letters that were dropped."
        assert (f.verdict().text, f.verdict().level) == (dropped, "bad")
        f.undo(f.audit()[-1].id)
        assert (f.summary().dropped, f.summary().dead_prerequisites) == (0, 1)
        f.check()
