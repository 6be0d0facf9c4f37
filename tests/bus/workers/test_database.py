"""The database worker: scores, results, jobs, the feed, and what it stores of them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from budgetfrontier import CrawlUri, FrontierError
from budgetfrontier.bus import request_meta
from budgetfrontier.bus.interface import BusError
from budgetfrontier.bus.messages import (
    AddSeeds,
    LinksExtracted,
    NewJobId,
    Offset,
    PageCrawled,
    Request,
    RequestError,
    Response,
    UpdateScore,
)
from budgetfrontier.bus.partitioning import by_host
from budgetfrontier.bus.streams import SPIDERS, streams
from budgetfrontier.bus.workers.database import ASIDE
from budgetfrontier.errors import StorageFull
from budgetfrontier.testing import fail_commit
from tests.bus.limited import LimitedBus
from tests.bus.workers.conftest import Desk, desk_in, lease_id
from tests.support import kernel

A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"


def score(url: str, value: float = 1.0, *, schedule: bool = True, **fields: object) -> UpdateScore:
    meta = fields.pop("meta", {})
    return UpdateScore(Request(url, meta=meta, **fields), value, schedule)  # type: ignore[arg-type]


def crawled(request: Request, status: int = 200, **meta: object) -> PageCrawled:
    more = {getattr(request_meta, name): value for name, value in meta.items()}
    return PageCrawled(Response(request.url, status, request=with_meta(request, more)))


def with_meta(request: Request, more: dict[bytes, object]) -> Request:
    return msgspec.structs.replace(request, meta={**request.meta, **more})


def test_a_request_comes_back_as_it_was_scored(desk: Desk) -> None:
    """All of it but the body travels on; the lease and the job are added, and removed before it is stored again."""
    meta = {b"mine": [1, b"\xff"], request_meta.BODY: b"q=1", request_meta.VIA: B, request_meta.LEASE: 7}
    request = Request(A, b"POST", {b"X": [b"y"]}, {"c": "d"}, meta)
    desk.score(UpdateScore(request, 0.25, True))
    [fed] = desk.fed()
    assert (fed.url, fed.method, fed.headers, fed.cookies) == (A, b"POST", {b"X": [b"y"]}, {"c": "d"})
    assert fed.meta[b"mine"] == [1, b"\xff"] and fed.meta[request_meta.BODY] == b"q=1"
    assert fed.meta[request_meta.JOB] == 0 and fed.meta[request_meta.EXPIRES] == desk.clock.time() + 300
    assert lease_id(fed) != 7


def test_scores_order_a_host_and_mark_as_seen(desk: Desk) -> None:
    desk.score(
        score(A + "low", 0.1), score(A + "high", 0.9), score(A + "middle", 0.5), score(A + "none", schedule=False)
    )
    order = []
    while fed := desk.fed():
        order += [each.url for each in fed]
        desk.report(*map(crawled, fed))
    assert order == [A + "high", A + "middle", A + "low"]
    assert desk.frontier.summary().seen == 4


@pytest.mark.parametrize(
    ("retries", "result", "counter"),
    [
        (3, crawled, "succeeded"),
        (3, lambda request: crawled(request, 404), "succeeded"),
        (3, lambda request: crawled(request, 503), "failed"),
        (3, lambda request: RequestError(request, "TimeoutError"), "retried"),
        (0, lambda request: RequestError(request, "TimeoutError"), "failed"),
        (3, lambda request: RequestError(request, "IgnoreRequest"), "disregarded"),
        (3, lambda request: RequestError(request, "RequestLost: no such callback"), "dead"),
    ],
)
def test_results_end_leases(desk: Desk, retries: int, result: object, counter: str) -> None:
    desk.settings["retry"] = {"max_retries": retries}
    desk.reopen()
    desk.score(score(A))
    [request] = desk.fed()
    desk.report(result(request))  # type: ignore[operator]
    total = desk.frontier.summary()
    assert total[counter] == 1 and total.in_process == 0
    desk.report(result(request))  # type: ignore[operator]
    assert desk.frontier.summary() == total, "a second result is late"
    assert desk.worker.counters["dropped_late"] == 1


def test_politeness_begins_with_the_fetch_that_was_reported(desk: Desk) -> None:
    desk.settings["politeness"] = {"min_delay": 0, "delay_factor": 2, "max_delay": 60}
    desk.reopen()
    desk.score(score(A + "1"), score(A + "2"))
    desk.report(crawled(desk.fed()[0], FETCH_SECONDS=1.5, SIZE=100))
    assert desk.fed() == [] and desk.frontier.next_ready_in() == 3.0
    assert desk.frontier.summary().bytes == 100


def test_what_was_reported_of_a_page_is_counted(desk: Desk) -> None:
    desk.score(score(A + "1"), score(A + "2"))
    desk.report(crawled(desk.fed()[0], FETCH_SECONDS=1.5, SIZE=2048, DIGEST=b"content"))
    desk.report(RequestError(desk.fed()[0], "DNSLookupError: a.test"))
    queue = desk.frontier.queue("a.test")
    assert queue is not None
    tables = kernel(desk.frontier).tables.flushed()
    history, answers = tables.history(queue.id), tables.answers(queue.id)
    assert history is not None and (history.success, history.seconds, history.bytes) == (1, 1.5, 2048)
    assert answers is not None and (answers.digests, answers.kinds) == (1, {"DNSLookupError: HOST": 1})


def test_a_job_ends_what_was_before(desk: Desk) -> None:
    desk.score(score(A), score(B))
    first, second = desk.fed()
    desk.score(NewJobId(2), NewJobId(1), score(C, meta={request_meta.JOB: 1}), score(C + "2", meta={}))
    [new] = desk.fed()
    assert new.url == C + "2" and new.meta[request_meta.JOB] == 2
    desk.report(crawled(first), RequestError(second, "x"))
    assert desk.worker.counters["dropped_of_a_job_before"] == 3 and desk.frontier.summary().in_process == 3
    desk.reopen(kill=True)
    desk.report(crawled(first), crawled(new))
    assert desk.frontier.summary().succeeded == 1, "the number of the job is stored"


def test_what_was_fetched_without_a_lease_is_seen_and_charged(desk: Desk) -> None:
    desk.report(PageCrawled(Response(A)), PageCrawled(Response(A)), AddSeeds([Request(B)]), Offset(0, 1))
    desk.report(LinksExtracted(Request(A), [Request(C)]), RequestError(Request(B), "x"))
    assert (desk.frontier.summary().seen, desk.frontier.summary().expenditure) == (1, 1)


def test_results_of_another_frontier_end_nothing_here(desk: Desk) -> None:
    """Ids of leases begin anew in each frontier."""
    desk.score(score(A))
    [request] = desk.fed()
    desk.report(crawled(with_meta(request, {request_meta.FRONTIER: b"another"})))
    assert desk.frontier.summary().in_process == 1 and desk.worker.counters["dropped_late"] == 1


def test_each_message_has_its_effects_once(desk: Desk) -> None:
    """Killed after its transaction, and before the bus has learned of it."""
    forced = score(A, meta={request_meta.FORCE: True})
    desk.send(desk.names.scoring_log, forced)
    desk.worker.receive(0.0)
    desk.worker.apply()
    desk.reopen(kill=True)
    desk.worker.step()
    assert desk.frontier.summary().scheduled == 1
    assert [each.url for each in desk.fed()] == [A], "it was in the note"


def test_a_full_disk_loses_nothing(desk: Desk) -> None:
    desk.send(desk.names.scoring_log, score(A), score(B))
    fail_commit(desk.frontier)
    with pytest.raises(StorageFull):
        desk.worker.step()
    desk.worker.close()
    desk.open()
    desk.worker.step()
    assert {each.url for each in desk.fed()} == {A, B}


def test_a_partition_of_the_feed_that_is_full_is_passed_over(desk: Desk) -> None:
    """Hosts of the other partition have their turn meanwhile."""
    desk.reopen(max_next_requests=2)
    full = [f"http://h{number}.test/" for number in range(40)]
    desk.score(*map(score, full))
    first = desk.fed()
    assert len(first) == 4, "two for each partition"
    taken = [each.url for each in first if by_host(each.url, 2)]
    reader = desk.bus.consumer(desk.names.spider_feed, SPIDERS, partitions=(1,))
    desk.clock.advance(1.0)  # the partition 0, which nobody reads from now on, fills
    for _ in range(30):
        desk.worker.step()
        taken += [desk.codec.decode_request(each.data).url for each in reader.poll(100, 0.0)]
        reader.commit()
        desk.clock.advance(0.3)
    assert sorted(taken) == sorted(url for url in full if by_host(url, 2))
    total = desk.frontier.summary()
    assert total.deferred > 0 and total.dead == total.expired == 0 and total.queued == 40
    desk.clock.advance(ASIDE)
    assert len(desk.fed()) == 2
    desk.worker.step()
    assert len(desk.fed()) == 2, "those that were set aside come back"


def test_malformed_messages_are_dead_letters(desk: Desk) -> None:
    desk.send(desk.names.spider_log, b"no message")
    desk.score(b"\x94 truncated", score(A, meta={request_meta.COST: -1}), score(B))
    assert [each.url for each in desk.fed()] == [B]
    assert [each.stream for each in desk.rejected()] == ["frontier-done", "frontier-score", "frontier-score"]


def test_a_uri_that_is_no_request_of_a_bus_is_a_dead_letter(desk: Desk) -> None:
    desk.frontier.schedule(CrawlUri(A, payload=b"of another program"))
    desk.frontier.schedule(CrawlUri(B))
    desk.worker.step()
    assert [each.url for each in desk.fed()] == [B] and desk.frontier.summary().dead == 1


def cost_of_the_good(uri: CrawlUri) -> int:
    """A cost policy that fails."""
    if "bad" in uri.url:
        raise ValueError("bad")
    return 1


def rest_of_the_fast(settings: object, *, fetch_seconds: float | None, **_: object) -> float:
    """A politeness policy that fails."""
    if fetch_seconds == 9.0:
        raise ValueError("slow")
    return 0.0


def test_a_policy_that_fails_affects_no_other_uri(desk: Desk) -> None:
    desk.settings["cost_policy"] = f"{__name__}:cost_of_the_good"
    desk.settings["politeness_policy"] = f"{__name__}:rest_of_the_fast"
    desk.reopen()
    desk.score(score(A), score(B), score(A + "bad"), score(C, schedule=False), score(C + "bad", schedule=False))
    first, second = desk.fed()
    desk.report(crawled(first, FETCH_SECONDS=9.0), crawled(second), PageCrawled(Response(B + "bad")))
    total = desk.frontier.summary()
    assert (total.seen, total.succeeded, total.in_process) == (3, 1, 1)
    assert desk.worker.counters["dropped_by_policy_errors"] >= 3


def test_a_crawl_that_pauses_at_its_end_goes_on_when_there_is_more(desk: Desk) -> None:
    desk.settings["pause_at_finish"] = True
    desk.reopen()
    desk.score(score(A))
    desk.report(crawled(desk.fed()[0]))
    assert desk.frontier.state == "PAUSED"
    desk.score(score(B))
    for _ in range(3):
        desk.worker.step()
    assert [each.url for each in desk.fed()] == [B]


def test_partitions_are_those_of_the_beginning(desk: Desk) -> None:
    desk.score(score(A))
    desk.names = streams(spider_log_partitions=4)
    with pytest.raises(FrontierError, match="all 4 partitions"):
        desk.reopen(kill=True)
    desk.frontier.close()


def test_the_streams_are_those_of_the_beginning(desk: Desk) -> None:
    desk.score(score(A))
    desk.names = streams(prefix="other")
    with pytest.raises(FrontierError, match="messages of the stream frontier-done, not those of other-done"):
        desk.reopen(kill=True)
    desk.frontier.close()


@pytest.mark.parametrize(
    "found", [b"of another program", msgspec.msgpack.encode(["budgetfrontier.bus 2", "s", [0], 1, b"f"])]
)
def test_the_note_of_another_program_or_version_is_left_alone(desk: Desk, found: bytes) -> None:
    with desk.frontier.atomic(note=found):
        pass
    with pytest.raises(FrontierError, match="another program, or another version"):
        desk.reopen(kill=True)
    desk.frontier.close()


def test_a_worker_ends_when_another_is_bound_to_its_partition(desk: Desk, tmp_path: Path) -> None:
    desk.worker.step()
    with desk_in(tmp_path / "other") as other:
        other.bus = desk.bus
        other.reopen(kill=True)
        other.worker.step()
        with pytest.raises(FrontierError, match="partition 0 of frontier-done belongs to another worker"):
            desk.worker.step()


def test_a_request_that_the_feed_never_takes_ends_its_lease(desk: Desk) -> None:
    limited = desk.bus = LimitedBus(desk.bus, 1 << 20)  # type: ignore[assignment]
    desk.reopen()
    desk.send(desk.names.scoring_log, score(A, meta={b"mine": "x" * 3000}), score(B))
    limited.limit = 2000
    desk.worker.step()
    assert {each.url for each in desk.fed()} == {B}
    desk.worker.step()
    total = desk.frontier.summary()
    assert (total.dead, total.in_process, desk.worker.counters["dropped_too_large"]) == (1, 1, 1)
    [letter] = desk.rejected()
    assert (letter.stream, letter.reason, letter.size > 3000) == (desk.names.spider_feed.name, "too large", True)
    desk.clock.advance(10_000.0)
    desk.worker.step()
    assert A not in {each.url for each in desk.fed()}


def test_a_bus_that_is_away_holds_nothing_up_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.send(desk.names.scoring_log, score(A))
    desk.worker.receive(0.0)
    desk.worker.apply()

    def away(*_: object, **__: object) -> None:
        raise BusError("away")

    with monkeypatch.context() as patched:
        patched.setattr(desk.worker._feed._outbox._producer, "flush", away)
        with pytest.raises(BusError):
            desk.worker.send()
        desk.worker.close()
    desk.frontier.close()
    desk.open()
    desk.worker.step()
    assert {each.url for each in desk.fed()} == {A}
