"""A queue with leases on a crawl in partitions, one of which moves to another worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier.errors import FrontierError
from budgetfrontier.leasing import LeaseQueue
from tests.cluster.workers import addressed

URLS = [f"https://host{number}.test/" for number in range(8)]


def test_a_queue_outlives_a_worker_and_gives_back_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with addressed(tmp_path, monkeypatch) as cluster, LeaseQueue.connect(cluster.address) as queue:
        assert [queue.push(url) for url in [*URLS, URLS[0], "no URL"]] == [True] * 8 + [False] * 2
        with LeaseQueue.connect(cluster.address, crawl="test") as other:
            held = other.frontier.lease(8, ttl=60.0)
            assert {lease.uri.url for lease in held} == set(URLS)
            cluster.take_over(1)
            assert other.ack_lease(held[0]) and not other.ack_lease(held[0]), "whoever has its partition now"
            assert other.renew_lease(str(held[1].id)) and not other.renew_lease(4095 << 12)
            assert other.dead_letter(held[1], "gone") and other.retry_lease(held[2], delay=0.0)
            assert queue.state().leased == 5 and len(queue) == 1
        state = queue.state()
        assert (state.leased, state.queued, state.dead_letters) == (0, 6, 1), "also of the partition that has moved"
        again = [queue.lease_request() for _ in range(6)]
        assert {lease.delivery for lease in again if lease} == {1} and queue.lease_request() is None
        assert [letter.reason for letter in queue.dead_letters()] == ["gone"]
        with pytest.raises(FrontierError, match=r"not put back: schedule their URIs with `force=True`"):
            queue.replay()
        with pytest.raises(FrontierError, match=r"kafka://memory/test is the crawl 'test', not 'other'"):
            LeaseQueue.connect(f"{cluster.address}?secret=x", crawl="other")
