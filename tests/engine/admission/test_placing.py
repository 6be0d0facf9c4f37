"""The placing of new URIs: the settings of queues, and the order in which they wait."""

from __future__ import annotations

from tests.support import memory, one, record


def test_a_queue_takes_the_settings_of_the_uri_placed_last() -> None:
    overrides = [
        {"match": "regex:/rich", "set": {"balance_replenish_amount": 90, "queue_total_budget": 900}},
        {"match": "regex:/first", "set": {"precedence": 1}},
    ]
    with memory(overrides=overrides) as f:
        f.schedule_many(["https://a.test/rich/first", "https://b.test/", "https://a.test/poor", "https://b.test/first"])
        a, b = record(f, "A"), record(f, "B")
        assert (a.balance_replenish_amount, a.total_budget, a.precedence) == (3000, -1, 3)
        assert (b.precedence, a.queued, b.queued) == (1, 2, 2)
        assert one(f).queue == "b.test"
        f.schedule_many(["https://a.test/2", "https://a.test/rich/2"])
        assert record(f, "A").balance_replenish_amount == 90


def test_queues_wait_in_the_order_in_which_their_first_uris_came() -> None:
    overrides = [{"match": "regex:/last", "set": {"precedence": 4}}]
    with memory(overrides=overrides) as f:
        f.schedule_many([f"https://{host}.test/{path}" for host, path in ("ca", "bb", "cd", "al", "ba")])
        assert [lease.queue[0] for lease in f.lease(3)] == ["c", "b", "a"]
        f.check()
    with memory(overrides=overrides) as f:
        f.schedule_many(["https://c.test/last", "https://b.test/last", "https://c.test/1", "https://c.test/last/1"])
        assert [lease.queue[0] for lease in f.lease(2)] == ["b", "c"], "c came back to the end of its FIFO"
        f.check()
