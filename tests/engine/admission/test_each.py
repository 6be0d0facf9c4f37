"""`schedule_each` is `schedule` in a loop, but cheaper: the same answers, and the same frontier afterwards."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri
from budgetfrontier.testing import crawl_uris, urls
from tests.support import memory, pages

BATCHES = st.lists(st.lists(st.one_of(urls(), crawl_uris(), st.sampled_from(["", "no url", "ftp://a.test/"]))))


@settings(max_examples=40)
@given(BATCHES, st.sampled_from([{}, {"max_queued": 9}, {"max_queue_size": 3}]))
def test_each_is_one_after_another(batches: list[list[Any]], limits: dict[str, Any]) -> None:
    with memory(**limits) as together, memory(**limits) as alone:
        for batch in batches:
            assert together.schedule_each(batch) == [alone.schedule(uri) for uri in batch]
        assert together.summary() == alone.summary()
        assert [row.queue for row in together.report().queues] == [row.queue for row in alone.report().queues]
        while leases := together.lease(1):
            [other] = alone.lease(1)
            assert leases[0].uri == other.uri
            together.finish(leases[0])
            alone.finish(other)
        assert alone.lease(1) == []
        together.check()


def test_each_of_a_batch_that_carries_much() -> None:
    with memory() as frontier:
        uris = [CrawlUri(url, payload=bytes(900_000)) for url in pages("a", 30)]
        assert frontier.schedule_each([*uris, uris[0]]) == [Admission.ADDED] * 30 + [Admission.DUPLICATE]
        assert frontier.schedule_each([]) == []
        frontier.check()
