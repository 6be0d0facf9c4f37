"""The reference model itself, on the sequences that the contract spells out."""

from __future__ import annotations

from typing import Any

from tests.stateful.model import OPTIONS, PLAIN, Model


def spec(url: str, **options: Any) -> dict[str, Any]:
    known = {"cost": None, "directive": 3, "priority": 0, "force": False, "not_before": None, "queue": None}
    return {"url": f"https://{url}", **known, "source": None, **options}


def crawl(model: Model, limit: int = 1000) -> str:
    """One worker; the first letter of each host in the order of the crawl."""
    order = ""
    for _ in range(limit):
        leases = model.lease(1, 300.0)
        if not leases:
            break
        order += model.leases[leases[0]].queue.key[0]
        assert model.finish(leases[0], "SUCCESS", PLAIN, [])
    return order


def loaded(hosts: str, count: int, **options: Any) -> Model:
    model = Model(OPTIONS | options, 1000.0)
    model.schedule(*(spec(f"{host}/{page}") for host in hosts for page in range(count)))
    return model


def test_rotation() -> None:
    assert crawl(loaded("ab", 5)) == "aaabbbaabb"
    assert crawl(loaded("a", 7)) == "aaaaaaa"
    model = loaded("abc", 4)
    assert crawl(model, 3) == "aaa"
    assert [queue.key for queue in model.waiting()] == ["b", "c", "a"]


def test_total_budget() -> None:
    assert crawl(loaded("a", 9, queue_total_budget=5)) == "a" * 6
    assert crawl(loaded("a", 9, queue_total_budget=5, retire_when="reached")) == "a" * 5
    assert crawl(loaded("a", 9, queue_total_budget=0, retire_when="reached")) == ""
    model = loaded("a", 9, queue_total_budget=1)
    assert (crawl(model), model.queues["a"].state, model.state) == ("aa", "RETIRED", "FINISHED")
    model.adjust("*", {"queue_total_budget": 1})  # it would only retire again
    assert (model.queues["a"].state, model.state) == ("RETIRED", "FINISHED")
    model.adjust("queue:a", {"queue_total_budget": 3})
    assert (model.queues["a"].state, crawl(model)) == ("INACTIVE", "aa")


def test_replenish_nothing_ends_the_session() -> None:
    model = loaded("ab", 5)
    assert crawl(model, 1) == "a"
    model.adjust("*", {"balance_replenish_amount": 0})
    assert (crawl(model), model.state) == ("", "FINISHED")


def test_pause_at_finish() -> None:
    model = loaded("a", 5, queue_total_budget=1, pause_at_finish=True)
    assert (crawl(model), model.state, model.reason) == ("aa", "PAUSED", "finish")


def test_better_precedence_takes_over() -> None:
    model = loaded("a", 3)
    assert crawl(model, 1) == "a"
    model.adjust("queue:b", {"precedence": 1})
    model.schedule(spec("b/1"), spec("b/2"))
    assert crawl(model) == "abba"


def test_a_crash_returns_to_the_commit() -> None:
    model = loaded("ab", 3)
    assert crawl(model, 2) == "aa"
    lease = model.lease(1, 300.0)
    model.commit()
    assert model.finish(lease[0], "SUCCESS", PLAIN, []) and crawl(model, 3) == "bbb"
    model.crash(keep_leases=False)
    assert model.queues["a"].spent == 2
    assert model.queues["a"].uris[0].deliveries == 1
    assert crawl(model) == "abbb"


def test_a_wake_ends_the_wait_for_bandwidth() -> None:
    model = loaded("a", 3, per_queue_concurrency=3, queue_bandwidth=50)
    first, second, third = (model.lease(1, 300.0)[0] for _ in range(3))
    assert model.finish(first, "SUCCESS", PLAIN | {"size": 700}, [])
    assert model.queues["a"].wake == 1014.0
    model.wake("a")
    assert model.finish(second, "RETRY", PLAIN, [])
    assert model.queues["a"].wake == 1000.0
    assert model.finish(third, "SUCCESS", PLAIN | {"size": 50}, [])
    assert model.queues["a"].wake == 1001.0
