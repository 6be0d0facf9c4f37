"""The history of each queue: what is remembered of its attempts, by whichever way they end."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Directive, Finish, Frontier, Outcome
from budgetfrontier.core.model import QueueAnswers, QueueHistory
from budgetfrontier.core.vocabulary import ANSWERS
from budgetfrontier.engine import history, native
from budgetfrontier.engine.ended_attempts import Attempt, EndedAttempts
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.rules import queue_answers, queue_history
from budgetfrontier.storage import keys
from budgetfrontier.storage.encoding import encode
from budgetfrontier.storage.records import decode_answers
from tests.support import START, kernel, memory, on_disk, one, pages


def look(frontier: Frontier, key: str = "a.test") -> QueueHistory | None:
    queue = frontier.queue(key)
    assert queue is not None
    return kernel(frontier).tables.flushed().history(queue.id)


def of(success: int = 0, retry: int = 0, failure: int = 0, disregarded: int = 0, **means: Any) -> QueueHistory:
    unknown: dict[str, Any] = dict.fromkeys(("seconds", "links", "new", "bytes"))
    return QueueHistory(success=success, retry=retry, failure=failure, disregarded=disregarded, **unknown | means)


def test_a_queue_whose_ends_say_nothing_has_no_history() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 6))
        frontier.finish(one(frontier))
        frontier.finish_many([one(frontier)])
        frontier.finish_many([Finish(one(frontier))])
        frontier.finish(one(frontier), Outcome.DEFERRED)
        assert look(frontier) is None
        frontier.check()


@pytest.mark.parametrize("by_batch", [False, True])
def test_each_outcome_counts_and_details_become_means(by_batch: bool) -> None:
    ends: list[tuple[Outcome, dict[str, Any]]] = [
        (Outcome.SUCCESS, {"status": 200, "size": 1024, "fetch_seconds": 1.0, "discovered": [*pages("b", 3)]}),
        (Outcome.SUCCESS, {"size": 3072, "discovered": [*pages("b", 1), "http://b.test/new", "nonsense:"]}),
        (Outcome.RETRY, {"fetch_seconds": 4.0}),
        (Outcome.FAILURE, {}),
        (Outcome.DEAD, {"reason": "poison"}),
        (Outcome.DISREGARDED, {}),
        (Outcome.SUCCESS, {"status": 404}),
        (Outcome.SUCCESS, {"novel": True}),
        (Outcome.SUCCESS, {"delay": 0.0}),
    ]
    with memory(retry={"delay": 0}) as frontier:
        frontier.schedule_many(pages("a", 20))
        for outcome, options in ends:
            [lease] = kernel(frontier).lease_queues(1, 1, "a.test", 60.0, START, 1)
            if by_batch:
                frontier.finish_many([Finish(lease, outcome, **options)])
            else:
                frontier.finish(lease, outcome, **options)
        found = look(frontier)
        assert found is not None
        assert (found.success, found.retry, found.failure, found.disregarded) == (5, 1, 2, 1)
        assert found.seconds == pytest.approx(2.0)  # the third attempt: 1 + 3 / 3
        assert found.links == pytest.approx(6 / 5, rel=1e-3) and found.new == pytest.approx(4 / 6, rel=2e-3)
        assert found.bytes == pytest.approx(4096 / 5, rel=1e-3)
        frontier.check()


def test_of_prerequisites_only_failures_count() -> None:
    with memory(retry={"delay": 0}) as frontier:
        for number in range(3):
            frontier.schedule(CrawlUri(f"http://a.test/robots.txt?{number}", directive=Directive.HIGHEST, force=True))
        frontier.finish(one(frontier), size=10)
        frontier.finish(one(frontier), Outcome.DISREGARDED)
        assert look(frontier) is None
        frontier.finish(one(frontier), Outcome.FAILURE)
        assert look(frontier) == of(failure=1)


def test_a_download_that_landed_has_its_duration_from_then() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 2))
        lease = one(frontier)
        frontier.landed(lease, fetch_seconds=2.0)
        frontier.landed(lease, fetch_seconds=9.0)
        assert look(frontier) == of(seconds=2.0)
        frontier.finish(lease, size=2048, fetch_seconds=9.0)
        assert look(frontier) == of(1, seconds=2.0, links=0.0, bytes=2048.0)
        frontier.check()


def test_histories_stay_over_openings_and_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_ENDED", 3)
    with on_disk(tmp_path, order="fifo") as frontier:
        frontier.schedule_many(pages("a", 8))
        for _ in range(7):
            frontier.finish(one(frontier), size=1024)
            assert len(kernel(frontier).tables.history.attempts) < 3
    with on_disk(tmp_path) as frontier:
        frontier.finish(one(frontier), size=1024)
        assert look(frontier) == of(8, links=0.0, bytes=1024.0)


def answers(frontier: Frontier, key: str = "a.test") -> QueueAnswers | None:
    queue = frontier.queue(key)
    assert queue is not None
    return kernel(frontier).tables.flushed().answers(queue.id)


def test_answers_are_counted_by_class_and_errors_by_kind() -> None:
    ends: list[tuple[Outcome, dict[str, Any]]] = [
        (Outcome.SUCCESS, {"status": 200}),
        (Outcome.SUCCESS, {"status": 301, "reason": "moved"}),
        (Outcome.SUCCESS, {"status": 404, "reason": "status 404"}),
        (Outcome.RETRY, {"status": 503}),
        (Outcome.FAILURE, {"status": 500, "reason": "broken"}),
        (Outcome.FAILURE, {"reason": "no answer from 192.0.2.7 after 3 s"}),
        (Outcome.DEAD, {"reason": "no answer from 192.0.2.8 after 30 s"}),
        (Outcome.SUCCESS, {"status": 999}),
        (Outcome.SUCCESS, {"size": 10}),
        (Outcome.DISREGARDED, {"status": 200, "reason": "robots"}),
    ]
    with memory(retry={"delay": 0}, backoff={"delay": 0}) as frontier:
        frontier.schedule_many(pages("a", 20))
        for outcome, options in ends:
            frontier.finish(one(frontier), outcome, **options)
        found, totals = answers(frontier), frontier.summary()
        assert found == QueueAnswers(
            [1, 1, 1, 2, 3],
            {"status 404": 1, "status 503": 1, "status 500": 1, "no answer from ADDRESS after N s": 2, "status 999": 1},
        )
        assert [getattr(totals, name) for name in ANSWERS] == [1, 1, 1, 2, 3]
        frontier.check()


@pytest.mark.parametrize(
    ("table", "row"),
    [(keys.ANSWERS, encode(QueueAnswers([1, 2]))), (keys.ANSWERS, b"\x90\x90"), (keys.HISTORY, b"\0")],
)
def test_a_row_that_is_damaged_is_said_to_be(table: str, row: bytes) -> None:
    frontier = memory()
    frontier.schedule_many(pages("a", 2))
    lease = one(frontier)
    env = kernel(frontier).tables.env
    env.txn.put(keys.u32.pack(lease.queue_id), row, db=env.db[table])
    frontier.finish(lease, Outcome.SUCCESS, status=404)
    with pytest.raises(CorruptFrontier, match="is damaged"):
        frontier.commit()


def test_of_prerequisites_only_the_failures_are_answers() -> None:
    with memory() as frontier:
        for number in range(2):
            frontier.schedule(CrawlUri(f"http://a.test/robots.txt?{number}", directive=Directive.HIGHEST, force=True))
        frontier.finish(one(frontier), status=404)
        assert answers(frontier) is None
        frontier.finish(one(frontier), Outcome.DEAD, reason="timeout")
        assert answers(frontier) == QueueAnswers([0, 0, 0, 0, 1], {"timeout": 1})


def test_kinds_of_errors_are_bounded() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 20))
        for number in range(20):
            frontier.finish(one(frontier), Outcome.FAILURE, reason="x" * (number + 1))
        found = answers(frontier)
        assert found is not None and found.classes[4] == 20
        assert len(found.kinds) == queue_answers.MOST_KINDS + 1 and found.kinds[queue_answers.OTHER] == 8


def test_uris_that_pages_add_to_their_own_queue_are_counted() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 1))
        page = one(frontier)
        again = CrawlUri(page.uri.url, force=True, not_before=START + 3600)
        frontier.finish(page, discovered=["http://a.test/new", "http://b.test/", page.uri.url, again])
        found = answers(frontier)
        assert found is not None and found.added == 1
        assert look(frontier) == of(1, links=3.0, new=pytest.approx(2 / 3, rel=1e-3), bytes=0.0)


def test_contents_of_revisits_are_not_repeated() -> None:
    with memory() as frontier:
        for number in range(40):
            frontier.schedule(CrawlUri("http://a.test/", force=number > 0))
            frontier.finish(one(frontier), status=200, digest=b"the same")
        found = answers(frontier)
        assert found is not None and (found.digests, queue_answers.repeated(found)) == (1, 0.0)


@pytest.mark.parametrize(("contents", "least", "most"), [(1, 0.9, 1.0), (8, 0.7, 0.99), (10**6, 0.0, 0.3)])
def test_repeated_contents_are_estimated(contents: int, least: float, most: float) -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 100))
        for status in (301, 404):
            frontier.finish(one(frontier), status=status, digest=b"redirections and errors do not count")
        for number in range(90):
            frontier.finish(one(frontier), digest=str(number % contents).encode())
            found = answers(frontier)
            assert found is not None and found.digests == number % 64 + 1
            share = queue_answers.repeated(found)
            assert share is not None and (number < 32 or least <= share <= most)
        frontier.check()


def test_links_that_were_scheduled_one_by_one_are_counted_with_the_end() -> None:
    with memory() as frontier:
        frontier.schedule_many(pages("a", 4))
        frontier.internals.note_links(page := one(frontier), 5, new=3, own=1)
        frontier.finish(page, status=200)
        frontier.internals.note_links(page := one(frontier), 1, new=1, own=1)
        frontier.finish_many([Finish(page, status=200)])
        assert look(frontier) == of(success=2, links=3.0, new=2 / 3, bytes=0.0)
        frontier.internals.note_links(page := one(frontier), 7, new=7, own=7)
        frontier.finish(page, status=200, discovered=["http://b.test/"])
        found = look(frontier)
        assert found is not None and round(3 * (found.links or 0)) == 7, "those discovered count instead"
        with pytest.raises(ValueError, match="of 1 links, 2 cannot be new"):
            frontier.internals.note_links(one(frontier), 1, new=2, own=0)
        frontier.check()


# -- the kernel counts as Python does

_ATTEMPTS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from(range(5)),
        st.none() | st.floats(0, 1e6) | st.floats(0, 1e-4) | st.sampled_from([0.0, 1e300, 65504.0, 65520.0]),
        st.integers(0, 3000),
        st.integers(0, 40),
        st.integers(0, 5),
        st.integers(0, 1 << 40),
        st.integers(-1, 4),
        st.sampled_from(["", "", *(f"status {number}" for number in range(15))]),
        st.none() | st.integers(0, (1 << 64) - 1),
    ),
    max_size=150,
)


@pytest.mark.skipif(native.kernel is None, reason=native.described())
@given(st.lists(_ATTEMPTS, max_size=4), st.integers(0, 70_000))
def test_the_kernel_counts_attempts_as_python_does(commits: list[list[Attempt]], before: int) -> None:
    assert native.kernel is not None
    both: tuple[Any, Any] = EndedAttempts(), native.kernel.EndedAttempts()
    full = {keys.u32.pack(3): keys.history.pack(min(before, 65_535), 7, 65_535, 0, 0.1, 3.0, 1.0, 20.0)}
    tables = [({**full}, dict[bytes, bytes]()) for _ in both]
    for attempts in commits:
        rows = []
        for ended, (histories, answers) in zip(both, tables, strict=True):
            for attempt in attempts:
                ended.append(attempt)
            assert len(ended) == len(attempts)
            rows.append(ended.counted(histories.get, answers.get, history._usual))
            histories |= dict(rows[-1][0])
            answers |= dict(rows[-1][1])
            assert len(ended) == 0
        assert rows[0] == rows[1]


@pytest.mark.skipif(native.kernel is None, reason=native.described())
@given(st.floats(0, 65504.0) | st.integers(0, 1 << 25).map(lambda number: number / (1 << 25)))
def test_the_kernel_rounds_means_as_struct_does(seconds: float) -> None:
    assert native.kernel is not None
    ended = native.kernel.EndedAttempts()
    ended.append((1, queue_history.RETRY, seconds, 0, 0, 0, 0, -1, "", None))
    ((_, row),), _ = ended.counted({}.get, {}.get, history._usual)
    assert row == keys.history.pack(0, 1, 0, 0, seconds, math.nan, math.nan, math.nan)


@pytest.mark.skipif(native.kernel is None, reason=native.described())
def test_the_kernel_takes_answers_that_are_written_in_another_way() -> None:
    assert native.kernel is not None
    row = bytes([0x96, 0x95, 0, 0, 0, 0, 0, 0x80, 0, 0xCC, 1, 1, 0xC0])  # one digest, in two bytes
    ended = native.kernel.EndedAttempts()
    ended.append((1, queue_history.SUCCESS, None, 0, 0, 0, 0, 0, "", None))
    _, ((_, found),) = ended.counted({}.get, lambda _: row, history._usual)
    assert decode_answers(found) == QueueAnswers(classes=[1, 0, 0, 0, 0], digests=1, bitmap=1)
