"""The lease API in kumo's words: what its own tests promise, and what is better here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from budgetfrontier import CorruptFrontier, CrawlUri, Frontier, Lease, LeaseExpired, Reader, Settings, SettingsError
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import RunEnd
from budgetfrontier.leasing import AS_WRITTEN, NO_DELAYS, LeaseQueue, Reason
from budgetfrontier.server import node
from budgetfrontier.server.frontier_service import LOOK_AGAIN
from budgetfrontier.settings.schema import FrontierSettings
from budgetfrontier.testing import crash
from tests.remote.served import Served
from tests.support import START, make_settings

A, B, C = (f"https://a.test/{letter}" for letter in "abc")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(params=["local", "shared"])
def queue(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> Iterator[LeaseQueue]:
    if request.param == "local":
        with LeaseQueue.open(":memory:", clock=clock) as queue:
            yield queue
        return
    frontier = FrontierSettings(politeness=NO_DELAYS, canonicalization=AS_WRITTEN)
    with (
        Served(tmp_path, Settings(frontier=frontier), monkeypatch, clock) as served,
        LeaseQueue.connect(served.address) as queue,
    ):
        yield queue


def own(queue: LeaseQueue) -> Frontier:
    """Return the frontier of a queue that is not shared."""
    assert isinstance(queue.frontier, Frontier)
    return queue.frontier


def leased(queue: LeaseQueue, ttl: float | None = None) -> Lease:
    lease = queue.lease_request(ttl)
    assert lease is not None
    return lease


def popped(queue: LeaseQueue) -> list[str]:
    urls = []
    while (uri := queue.pop()) is not None:
        urls.append(uri.url)
    return urls


# -- a queue that processes share


def test_a_shared_queue_has_the_uris_and_counters_of_all(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Served(tmp_path, Settings(), monkeypatch, clock) as served,
        LeaseQueue.connect(served.address, crawl="shared") as mine,
        LeaseQueue.connect(served.address, crawl="shared") as theirs,
        LeaseQueue.connect(served.address) as another,
    ):
        assert mine.push(A) and not theirs.push(A) and theirs.push("https://b.test/")
        lease = leased(mine)
        assert lease.uri.url == A and leased(theirs).uri.url == "https://b.test/"
        for queue in (mine, theirs):
            state = queue.state()
            assert (state.leased, state.seen, state.dir) == (2, 2, tmp_path / "jobs/shared/frontier")
        assert theirs.ack_lease(lease.id) and not mine.ack_lease(lease)
        assert another.is_empty() and another.state().seen == 0
        theirs.close()
        assert leased(mine).uri.url == "https://b.test/"


# -- the queue


def test_push_tells_new_from_known(queue: LeaseQueue) -> None:
    assert queue.push(A) and not queue.push(A) and not queue.push("no url")
    assert queue.push(B) and len(queue) == 2 and not queue.is_empty()


@pytest.mark.parametrize("nonsense", [None, 5, b"https://a.test/", ["https://a.test/"]])
def test_what_is_no_uri_is_refused_by_push_and_by_push_force_alike(queue: LeaseQueue, nonsense: Any) -> None:
    for push in (queue.push, queue.push_force):
        with pytest.raises(TypeError, match="a str or a CrawlUri"):
            push(nonsense)
    assert queue.push_force(A) and len(queue) == 1


def test_an_empty_queue_gives_nothing(queue: LeaseQueue) -> None:
    assert queue.pop() is None and queue.lease_request() is None
    assert queue.is_empty() and len(queue) == 0


def test_higher_priority_first_and_the_older_of_equals(queue: LeaseQueue) -> None:
    for number, priority in enumerate((-10, 0, 100, 0)):
        queue.push(CrawlUri(f"https://a.test/{number}", priority=priority))
    assert popped(queue) == [f"https://a.test/{number}" for number in (2, 1, 3, 0)]


def test_push_force_passes_deduplication_and_leaves_no_trace(queue: LeaseQueue) -> None:
    assert queue.push_force(A) and queue.push_force(CrawlUri(A, priority=1)) and queue.push(A)
    assert not queue.push(A) and popped(queue) == [A, A, A]


def test_the_forms_of_a_url_are_one(queue: LeaseQueue) -> None:
    assert queue.push("https://A.test/?b=2&a=1#top")
    assert not queue.push("https://a.test/?a=1&b=2")
    assert queue.push("https://a.test/?a=1&b=2&utm_source=x")  # kumo keeps tracking parameters unless told otherwise


def test_what_a_uri_carries_is_kept(tmp_path: Path) -> None:
    whole = CrawlUri(A, method="POST", body=b"x=1", headers={"X-A": "1"}, priority=7, meta={"depth": 3}, hops="LLL")
    with LeaseQueue.open(tmp_path) as queue:
        queue.push(whole)
        queue.release_lease(leased(queue))
    with LeaseQueue.open(tmp_path) as queue:
        uri = queue.pop()
    assert uri is not None and (uri.method, uri.body, uri.headers, uri.priority, uri.meta, uri.hops) == (
        whole.method,
        whole.body,
        whole.headers,
        whole.priority,
        whole.meta,
        whole.hops,
    )


# -- leases


def test_a_lease_is_out_until_it_is_acknowledged(queue: LeaseQueue) -> None:
    queue.push(A)
    lease = leased(queue)
    assert (lease.uri.url, lease.delivery, lease.attempt, lease.expires) == (A, 1, 1, START + 300)
    assert len(queue) == 0 and queue.lease_request() is None and queue.state().leased == 1
    assert queue.ack_lease(lease) and not queue.ack_lease(lease)
    assert queue.state().leased == 0 and not queue.push(A)


def test_leases_go_by_their_ids(queue: LeaseQueue) -> None:
    for url in (A, B, C):
        queue.push(url)
    first, second, third = (leased(queue).id for _ in range(3))
    assert queue.ack_lease(first) and queue.renew_lease(second, 9) and queue.dead_letter(second)
    assert queue.release_lease(third) and popped(queue) == [C]


@pytest.mark.parametrize("lease", [0, 12345, 1 << 60])
def test_unknown_leases_change_nothing(queue: LeaseQueue, lease: int) -> None:
    queue.push(A)
    assert not queue.ack_lease(lease) and not queue.release_lease(lease) and not queue.renew_lease(lease)
    assert not queue.retry_lease(lease) and not queue.dead_letter(lease, "why")
    assert queue.state().dead_letters == 0 and len(queue) == 1


def test_many_leases_are_acknowledged_and_those_that_had_ended_returned(queue: LeaseQueue) -> None:
    for number in range(6):
        queue.push(f"https://a.test/{number}")
    leases = [leased(queue) for _ in range(6)]
    assert queue.ack_lease(leases[0])
    given: list[Lease | int | str] = [leases[0], leases[1], leases[2].id, str(leases[3].id), leases[1], leases[2].id, 5]
    assert queue.ack_many(iter(given)) == [leases[0], leases[1], leases[2].id, 5]
    assert queue.ack_many([]) == []
    total = queue.frontier.summary()
    assert (total.succeeded, total.in_process, total.expenditure) == (4, 2, 4)


def test_many_leases_are_acknowledged_with_the_sizes_of_their_responses(queue: LeaseQueue) -> None:
    for number in range(3):
        queue.push(f"https://a.test/{number}")
    leases = [leased(queue) for _ in range(3)]
    with pytest.raises(ValueError, match="3 leases, 2 sizes"):
        queue.ack_many(leases, sizes=[1, 2])
    assert queue.state().leased == 3
    assert queue.ack_many([leases[0], leases[1].id, leases[0]], sizes=iter([10, 200, 4000])) == [leases[0]]
    assert queue.ack_lease(leases[2], size=30_000)
    record = queue.frontier.queue("a.test")
    assert record is not None and record.bytes == queue.frontier.summary().bytes == 30_210


def test_the_status_and_the_digest_of_a_response_are_counted(queue: LeaseQueue) -> None:
    queue.push(A)
    assert queue.ack_lease(leased(queue), status=200, digest=b"content")
    summary = queue.frontier.summary()
    assert summary.answers_2xx == summary.succeeded == 1


@pytest.mark.parametrize("nonsense", ["7", b"7", [None], [True], ["seven"], [b"7"], 7])
def test_ack_many_takes_only_leases_and_ids_and_changes_nothing_otherwise(queue: LeaseQueue, nonsense: Any) -> None:
    queue.push(A)
    lease = leased(queue)
    with pytest.raises(TypeError):
        queue.ack_many([lease, *nonsense] if isinstance(nonsense, list) else nonsense)
    assert queue.state().leased == 1 and queue.ack_many([lease]) == []


def test_ack_many_says_what_it_takes(queue: LeaseQueue) -> None:
    queue.push(A)
    lease = leased(queue)
    with pytest.raises(TypeError, match="takes an iterable of leases or ids; one goes to ack_lease"):
        queue.ack_many(cast("Any", lease))
    with pytest.raises(ValueError, match="a size for each lease: 1 leases, 2 sizes"):
        queue.ack_many([lease], sizes=[1, 2])
    assert queue.state().leased == 1


def test_an_expired_lease_comes_again_and_is_counted(queue: LeaseQueue, clock: ManualClock) -> None:
    queue.push(A)
    leased(queue, 10)
    clock.advance(9.9)
    assert len(queue) == 0
    clock.advance(0.1)
    assert len(queue) == 1
    assert leased(queue).delivery == 2


def test_a_ttl_of_zero_expires_at_once(queue: LeaseQueue) -> None:
    queue.push(A)
    leased(queue, 0)
    assert len(queue) == 1


def test_renewing_keeps_a_lease(queue: LeaseQueue, clock: ManualClock) -> None:
    queue.push(A)
    lease = leased(queue, 10)
    for _ in range(5):
        clock.advance(9)
        assert queue.renew_lease(lease, 10)
    assert queue.lease_request() is None and queue.ack_lease(lease)
    assert not queue.renew_lease(lease)


def test_the_old_holder_does_nothing_to_the_new_one(queue: LeaseQueue, clock: ManualClock) -> None:
    queue.push(A)
    old = leased(queue, 10)
    clock.advance(10)
    new = leased(queue, 10)
    for answer in (queue.ack_lease, queue.release_lease, queue.retry_lease, queue.dead_letter, queue.renew_lease):
        assert not answer(old)
    assert queue.state().leased == 1 and queue.ack_lease(new)
    assert queue.frontier.summary().expenditure == 1


def test_released_is_as_before(queue: LeaseQueue) -> None:
    queue.push(CrawlUri(A, priority=5, meta={"depth": 2}))
    queue.push(B)
    assert queue.retry_lease(leased(queue), delay=0)
    assert queue.release_lease(leased(queue))
    lease = leased(queue)
    assert (lease.uri.url, lease.uri.priority, lease.uri.meta, lease.attempt) == (A, 5, {"depth": 2}, 2)


def test_a_retry_waits_for_its_time(tmp_path: Path, clock: ManualClock) -> None:
    with LeaseQueue.open(tmp_path, make_settings(retry={"scope": "uri"}), clock=clock) as queue:
        queue.push(A)
        queue.push(B)
        assert queue.retry_lease(leased(queue), delay=60)
        assert (queue.state().queued, queue.state().delayed, len(queue)) == (1, 1, 2)
        assert popped(queue) == [B] and not queue.is_empty()
    with LeaseQueue.open(tmp_path, clock=clock) as queue:
        assert queue.pop() is None
        clock.advance(60)
        assert leased(queue).attempt == 2


def test_retries_end_among_the_dead_letters() -> None:
    with LeaseQueue.open(":memory:", make_settings(retry={"max_retries": 2})) as queue:
        queue.push(A)
        for attempt in (1, 2, 3):
            lease = leased(queue)
            assert lease.attempt == attempt and queue.retry_lease(lease, delay=0)
        assert [(letter.uri.url, letter.reason) for letter in queue.dead_letters()] == [(A, "retry_exhausted")]


# -- dead letters


def test_dead_letters_are_kept_and_replayed(tmp_path: Path, clock: ManualClock) -> None:
    with LeaseQueue.open(tmp_path, clock=clock) as queue:
        for url, reason in ((A, Reason.FAILED), (B, Reason.INTERRUPTED), (C, "parser broke")):
            queue.push(url)
            assert queue.dead_letter(leased(queue), reason)
    with LeaseQueue.open(tmp_path, clock=clock) as queue:
        assert queue.is_empty() and queue.lease_request() is None and not queue.push(A)
        letters = queue.dead_letters()
        assert [(letter.uri.url, letter.reason) for letter in letters] == [
            (A, "failed"),
            (B, "interrupted"),
            (C, "parser broke"),
        ]
        assert letters[0].time == START and len(queue.dead_letters(limit=1)) == 1
        assert queue.replay(letters[1]) == 1 and popped(queue) == [B]
        assert queue.replay() == 2 and queue.state().dead_letters == 0 and popped(queue) == [A, C]


def test_what_is_lost_again_and_again_is_given_up(clock: ManualClock) -> None:
    with LeaseQueue.open(":memory:", make_settings(max_deliveries=3), clock=clock) as queue:
        queue.push(A)
        assert [leased(queue, 0).delivery for _ in range(3)] == [1, 2, 3]
        assert queue.lease_request() is None
        assert [(letter.reason, letter.deliveries) for letter in queue.dead_letters()] == [("max deliveries", 3)]


# -- files


def test_queue_and_what_was_seen_survive_and_a_new_folder_is_fresh(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path / "one") as queue:
        queue.push(A)
        queue.push(B)
        assert queue.pop() is not None
    with LeaseQueue.open(tmp_path / "one") as queue:
        assert not queue.push(A) and popped(queue) == [B]
    with LeaseQueue.open(tmp_path / "two") as queue:
        assert queue.push(A)


def test_flush_is_what_a_crash_leaves(tmp_path: Path) -> None:
    queue = LeaseQueue.open(tmp_path, make_settings())
    queue.push(A)
    queue.flush()
    queue.push(B)
    crash(own(queue))
    with LeaseQueue.open(tmp_path) as queue:
        assert queue.push(B) and popped(queue) == [A, B]
    assert not list(tmp_path.glob("*.tmp"))


def test_every_so_many_operations_are_flushed(tmp_path: Path) -> None:
    queue = LeaseQueue.open(tmp_path, make_settings(commit_operations=2))
    for url in (A, B, C):
        queue.push(url)
    crash(own(queue))
    with LeaseQueue.open(tmp_path) as queue:
        assert queue.state().flush_every == 2 and popped(queue)[:2] == [A, B]


def test_leases_of_a_dead_owner_come_again_first_and_in_order(tmp_path: Path) -> None:
    queue = LeaseQueue.open(tmp_path)
    for url in (A, B, C):
        queue.push(url)
    old = [leased(queue) for _ in range(2)]
    queue.flush()
    crash(own(queue))
    with LeaseQueue.open(tmp_path) as queue:
        again = [leased(queue) for _ in range(3)]
        assert [(lease.uri.url, lease.delivery) for lease in again] == [(A, 2), (B, 2), (C, 1)]
        assert not {lease.id for lease in again} & {lease.id for lease in old} and not queue.ack_lease(old[0])


def test_leases_may_outlive_their_owner(tmp_path: Path) -> None:
    queue = LeaseQueue.open(tmp_path, keep_leases=True)
    queue.push(A)
    lease = leased(queue).id
    queue.close()
    with LeaseQueue.open(tmp_path, keep_leases=True) as queue:
        assert queue.lease_request() is None and queue.ack_lease(lease)


def test_a_clean_close_gives_leases_back_uncounted(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path) as queue:
        queue.push(A)
        leased(queue)
    queue.close()
    with LeaseQueue.open(tmp_path) as queue:
        assert leased(queue).delivery == 1


def test_damage_is_named_and_nothing_loaded(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path) as queue:
        queue.push(A)
    (tmp_path / "data.mdb").write_bytes(b"{")
    with pytest.raises(CorruptFrontier):
        LeaseQueue.open(tmp_path)


def test_state_counts(tmp_path: Path, clock: ManualClock) -> None:
    with LeaseQueue.open(tmp_path, clock=clock) as queue:
        for url in (A, B, C):
            queue.push(url)
        queue.dead_letter(leased(queue))
        leased(queue)
        queue.push(CrawlUri("https://a.test/later", not_before=START + 9))
        state = queue.state()
        assert (state.dir, state.queued, state.leased, state.delayed) == (tmp_path, 1, 1, 1)
        assert (state.dead_letters, state.seen) == (1, 4)
        assert "1 URI queues" in repr(queue)


# -- settings


def test_without_settings_nobody_waits_but_eight_are_out_at_most(queue: LeaseQueue) -> None:
    for number in range(10):
        queue.push(f"https://a.test/{number}")
    leases = [queue.lease_request() for _ in range(9)]
    assert leases[8] is None and all(leases[:8])


def test_a_delay_counts_from_the_end_and_only_for_its_host(clock: ManualClock) -> None:
    settings = Settings.from_dict({"frontier": {"politeness": {"min_delay": 5, "per_queue_concurrency": 8}}})
    with LeaseQueue.open(":memory:", settings, clock=clock) as queue:
        for url in (CrawlUri(A, priority=9), CrawlUri(B, priority=8), "https://b.test/"):
            queue.push(url)
        first, _ = leased(queue), clock.advance(100)
        queue.push_force("https://b.test/2")
        queue.ack_lease(first)
        assert [leased(queue).queue for _ in range(2)] == ["b.test", "b.test"]  # nobody waits for the other host
        assert queue.lease_request() is None and not queue.is_empty()
        clock.advance(5)
        assert leased(queue).uri.url == B


def test_stored_settings_stay_in_force(tmp_path: Path) -> None:
    LeaseQueue.open(tmp_path, make_settings(concurrency=2)).close()
    with LeaseQueue.open(tmp_path) as queue:
        assert queue.frontier.settings.frontier.politeness.per_queue_concurrency == 2


def test_the_frontier_itself_is_at_hand(queue: LeaseQueue) -> None:
    queue.push(A)
    lease = leased(queue)
    assert queue.ack_lease(lease, fetch_seconds=0.1, discovered=[B])
    assert queue.frontier.summary().queued == 1
    if isinstance(queue.frontier, Frontier):  # not the one that is shared
        assert queue.frontier.report().totals.queued == 1
    with pytest.raises(LeaseExpired):
        queue.frontier.finish(lease)


# -- names of leases, and what makes URLs equal


def test_a_lease_may_be_named_by_its_id_as_text_but_by_nothing_else(queue: LeaseQueue) -> None:
    queue.push(A)
    lease = leased(queue)
    for wrong in ("seven", "", "7.0", "9" * 5000, "\u0667", 7.0, True, None, b"7"):
        for end in (queue.ack_lease, queue.release_lease, queue.retry_lease, queue.dead_letter, queue.renew_lease):
            with pytest.raises(TypeError, match="a whole number"):
                end(wrong)  # type: ignore[arg-type]
    for unknown in (1 << 70, -(1 << 70), "9" * 20):
        with pytest.raises(ValueError, match="at most 64 bits"):
            queue.ack_lease(unknown)
    assert queue.renew_lease(str(lease.id)) and queue.ack_lease(str(lease.id))
    assert not queue.ack_lease(str(lease.id)) and queue.is_empty()


@pytest.mark.parametrize("wrong", [None, 5, b"gone", ["gone"]])
def test_a_reason_is_text(queue: LeaseQueue, wrong: Any) -> None:
    queue.frontier.schedule(A)
    lease = leased(queue)
    for end in (queue.dead_letter, queue.retry_lease):
        with pytest.raises(TypeError, match="a reason is text"):
            end(lease, reason=wrong)
    assert queue.dead_letter(lease, "gone") and [letter.reason for letter in queue.dead_letters()] == ["gone"]


def test_what_was_popped_does_not_come_again_after_a_kill(tmp_path: Path) -> None:
    queue = LeaseQueue.open(tmp_path)
    queue.frontier.schedule_many([A, B, C])
    assert queue.pop() is not None
    crash(own(queue))
    with LeaseQueue.open(tmp_path) as again:
        assert popped(again) == [B, C]


def test_a_redirect_to_another_form_of_a_url_is_another_url(tmp_path: Path) -> None:
    pairs = [
        ("https://e.test/", "https://www.e.test/"),
        ("https://f.test/?utm_source=x", "https://f.test/"),
        ("https://e.test/s;jsessionid=1", "https://e.test/s"),
        ("https://e.test/u", "https://me@e.test/u"),
    ]
    with LeaseQueue.open(tmp_path) as queue:
        for first, second in pairs:
            queue.push(first)
            lease = leased(queue)
            assert queue.ack_lease(lease, discovered=[second]) and popped(queue) == [second]
        assert queue.push("https://e.test/?a=1&b=2") and not queue.push("https://e.test/?b=2&a=1#top")


def test_settings_that_say_nothing_of_equal_urls_change_nothing_about_them(tmp_path: Path) -> None:
    for settings in (make_settings(), None, make_settings()):
        with LeaseQueue.open(tmp_path, settings) as queue:
            queue.push("https://e.test/")
            assert not queue.frontier.settings.frontier.canonicalization.strip_www
    with LeaseQueue.open(tmp_path) as queue:
        assert queue.push("https://www.e.test/")


def test_a_queue_made_under_another_default_opens_as_it_was(tmp_path: Path) -> None:
    with Frontier.open(tmp_path, make_settings()) as frontier:
        frontier.schedule("https://e.test/")
    for settings in (None, make_settings(), make_settings(queue_total_budget=5)):
        with LeaseQueue.open(tmp_path, settings) as queue:
            assert queue.frontier.settings.frontier.canonicalization.strip_www and not queue.push("https://www.e.test/")


def test_a_queue_made_with_settings_of_its_own_opens_with_others_that_say_nothing_of_equal_urls(tmp_path: Path) -> None:
    made = {"strip_www": False, "strip_userinfo": True, "ignore_params": ["ref"]}
    with Frontier.open(tmp_path, make_settings(canonicalization=made)) as frontier:
        frontier.schedule("https://e.test/?a=1")
    with LeaseQueue.open(tmp_path, make_settings(queue_total_budget=5)) as queue:
        assert not queue.push("https://u@e.test/?a=1&ref=2") and queue.push("https://www.e.test/?a=1")
        assert queue.frontier.settings.frontier.queue_total_budget == 5


def test_settings_that_ask_for_other_equal_urls_are_told_what_they_were(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path, make_settings(canonicalization={"strip_www": False})):
        pass
    with pytest.raises(SettingsError, match=r"as it was \(frontier\.canonicalization\.strip_www: false\), or export"):
        Frontier.open(tmp_path, make_settings())


def test_what_settings_say_of_equal_urls_counts(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path, make_settings(canonicalization={"strip_www": False})) as queue:
        assert queue.push("https://e.test/?utm_source=x") and not queue.push("https://e.test/")


# -- rows of docs/reference/compatibility.md


def test_leaving_the_block_flushes_what_was_pushed_and_what_was_acknowledged(tmp_path: Path) -> None:
    settings = make_settings(commit_interval=3600.0, commit_operations=10_000)
    with LeaseQueue.open(tmp_path, settings) as queue:
        for url in (A, B, C):
            queue.push(url)
        queue.ack_lease(leased(queue))
    with LeaseQueue.open(tmp_path) as queue:
        assert (queue.state().queued, queue.state().seen) == (2, 3) and popped(queue) == [B, C]


def test_pop_is_a_lease_that_is_acknowledged_at_once(queue: LeaseQueue) -> None:
    queue.push(A)
    queue.push(B)
    assert queue.pop() is not None
    assert (queue.state().leased, queue.state().queued) == (0, 1)
    row = queue.frontier.queue("a.test")
    assert row is not None and row.expenditure == 1  # paid for, as any other
    lease = leased(queue)
    assert lease.delivery == 1 and queue.state().leased == 1  # leases are real without a folder, too


def test_what_an_engine_says_of_its_requests(clock: ManualClock) -> None:
    settings = make_settings(lease_ttl=40.0, retry={"max_retries": 1, "delay": 0})
    with LeaseQueue.open(":memory:", settings, clock=clock) as queue:
        queue.push(A)
        lease = leased(queue)
        assert lease.expires == clock.time() + 40.0  # a setting
        assert queue.renew_lease(lease, 500.0)  # and renewed, which kumo's engine cannot
        clock.advance(499.0)
        assert queue.lease_request() is None
        assert queue.release_lease(lease)  # a hook that aborts
        lease = leased(queue)
        assert (lease.uri.url, lease.attempt) == (A, 1)
        assert queue.retry_lease(lease)
        lease = leased(queue)
        assert lease.attempt == 2 and queue.retry_lease(lease, reason=Reason.RETRY_EXHAUSTED)  # once too often
        queue.push(B)
        assert queue.dead_letter(leased(queue), Reason.FAILED)  # a panic
        queue.push(C)
        assert queue.ack_lease(leased(queue))  # success
        assert [(letter.uri.url, letter.reason) for letter in queue.dead_letters()] == [
            (A, Reason.RETRY_EXHAUSTED),
            (B, Reason.FAILED),
        ]
        assert queue.is_empty() and queue.state().leased == 0


def test_politeness_by_domain(clock: ManualClock) -> None:
    polite = {"per_queue_concurrency": 2, "min_delay": 10.0, "max_delay": 10.0}
    settings = Settings.from_dict(
        {
            "frontier": {"politeness": {"delay_factor": 0, "min_delay": 0, "per_queue_concurrency": 8}},
            "overrides": [{"match": "domain:SLOW.test", "set": {"politeness": polite}}],
        }
    )
    with LeaseQueue.open(":memory:", settings, clock=clock) as queue:
        for host in ("quick.test", "www.slow.test"):
            queue.frontier.schedule_many(f"https://{host}/{number}" for number in range(12))
        out = queue.frontier.lease(100)
        assert Counter(lease.queue for lease in out) == {"quick.test": 8, "www.slow.test": 2}
        for lease in out:
            queue.ack_lease(lease)
        assert {lease.queue for lease in queue.frontier.lease(100)} == {"quick.test"}
        clock.advance(10.0)
        assert Counter(lease.queue for lease in queue.frontier.lease(100)) == {"www.slow.test": 2}


def test_the_history_of_runs_has_each_end(tmp_path: Path) -> None:
    LeaseQueue.open(tmp_path / "queue").close(end=RunEnd.SIGNAL, reason="SIGTERM")
    with LeaseQueue.open(tmp_path / "queue"):
        pass
    with pytest.raises(ValueError, match="nonsense"), LeaseQueue.open(tmp_path / "queue"):
        raise ValueError("nonsense")
    with Reader(tmp_path / "queue") as reader:
        runs = reader.runs()
    assert [(run.end, run.reason) for run in runs] == [
        (RunEnd.SIGNAL, "SIGTERM"),
        (RunEnd.EXIT, ""),
        (RunEnd.ERROR, "ValueError: nonsense"),
    ]
    assert runs[0].program.endswith(" (LeaseQueue)")


# -- duplicates that are more urgent


@pytest.mark.parametrize("where", ["local", "shared"])
def test_a_duplicate_may_raise_the_priority_of_what_waits(
    where: str, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(keep_urls=True, update_priority=True)
    with ExitStack() as stack:
        if where == "local":
            queue = stack.enter_context(LeaseQueue.open(tmp_path, settings, clock=clock))
        else:
            served = stack.enter_context(Served(tmp_path, settings, monkeypatch, clock))
            queue = stack.enter_context(LeaseQueue.connect(served.address))
        assert queue.push(A) and queue.push(B) and queue.push(C)
        assert not queue.push(CrawlUri(C, priority=5))
        assert len(queue) == 3 and popped(queue) == [C, A, B]


def test_what_are_no_settings_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"not str; write Settings\.from_yaml"):
        LeaseQueue.open(":memory:", "crawl.yaml")  # type: ignore[arg-type]
    with LeaseQueue.open(":memory:", {"frontier": {"cost_policy": "wag"}}) as queue:
        assert queue.frontier.settings.frontier.cost_policy == "wag"


def test_a_server_that_hands_out_nothing_is_not_asked_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SetActive of URLFrontier: `next_ready_in` may not say 0.0 then."""
    (tmp_path / "jobs").mkdir()
    node.write(tmp_path / "jobs", node.Node(active=False))
    with Served(tmp_path, Settings(), monkeypatch) as served, LeaseQueue.connect(served.address) as queue:
        assert queue.push(A)
        assert queue.lease_request() is None and queue.frontier.next_ready_in() == LOOK_AGAIN


def test_a_uri_whose_removal_came_too_late_is_not_handed_out_for_good() -> None:
    class Slow(ManualClock):
        def time(self) -> float:
            self.advance(400.0)  # more than a lease lasts
            return super().time()

    with LeaseQueue.open(":memory:", make_settings(max_deliveries=2, hold_queues=False), clock=Slow(START)) as queue:
        queue.push(A)
        assert queue.pop() is None
        assert [letter.uri.url for letter in queue.dead_letters()] == [A]


def test_what_is_out_of_a_retired_queue_is_not_taken_off_the_others(queue: LeaseQueue) -> None:
    for host, count in ("a", 8), ("b", 3):
        for number in range(count):
            queue.push(f"https://{host}.test/{number}")
    for lease in iter(queue.lease_request, None):
        if lease.queue == "b.test":
            queue.release_lease(lease)
        if queue.state().leased == 8:
            break
    cast("Any", queue.frontier).retire("a.test")
    assert (queue.state().leased, queue.state().queued, len(queue)) == (8, 3, 3) and not queue.is_empty()
