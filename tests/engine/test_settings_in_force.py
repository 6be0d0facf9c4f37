"""The settings in force: overrides, adjustments and policies of one's own, for a URI and for its queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Outcome
from budgetfrontier.errors import (
    FrontierClosed,
    PolicyError,
)
from tests.support import memory, on_disk, one, pages, record, whole

KEYS: list[Any] = ["", "\ud800", "a\0b", "x" * 256]


@pytest.mark.parametrize("key", [None, 5])
def test_a_policy_that_gives_no_text_for_a_queue_is_named_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, key: Any
) -> None:
    monkeypatch.setitem(globals(), "assigned", lambda uri: key if "b.test" in uri.url else "queue")
    with memory(queue_assignment_policy=f"{__name__}:assigned") as f:
        with pytest.raises(PolicyError, match=r"b\.test"):
            f.schedule_many(pages("AB", 2))
        assert f.summary().scheduled == 0
        assert f.schedule_many(pages("A", 2)).added == 2
        whole(f)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: repr(key)[:10])
def test_a_policy_that_gives_no_queue_key_makes_its_uris_invalid(monkeypatch: pytest.MonkeyPatch, key: Any) -> None:
    monkeypatch.setitem(globals(), "assigned", lambda uri: key if "b.test" in uri.url else "queue")
    with memory(queue_assignment_policy=f"{__name__}:assigned") as f:
        tally = f.schedule_many(pages("AB", 2))
        assert (tally.added, tally.reasons) == (2, {"queue": 2})
        whole(f)


def test_an_interrupt_in_a_policy_closes_as_of_the_last_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(uri: CrawlUri) -> int:
        if "b.test" in uri.url:
            raise KeyboardInterrupt
        return 1

    monkeypatch.setitem(globals(), "costly", interrupted)
    f = on_disk(tmp_path, cost_policy=f"{__name__}:costly")
    f.schedule_many(pages("A", 2))
    f.commit()
    with pytest.raises(KeyboardInterrupt):
        f.schedule_many(pages("AB", 5))
    with pytest.raises(FrontierClosed):
        f.lease(1)
    with on_disk(tmp_path) as f:
        assert f.summary().seen == 2
        whole(f)


def test_the_wait_of_a_policy_of_ones_own_is_never_clipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "patient", lambda settings, **fetched: 5000.0)
    options = {"politeness_policy": f"{__name__}:patient", "balance_replenish_amount": 1}
    with on_disk(tmp_path, **options) as f:  # type: ignore[arg-type]
        f.schedule_many(pages("A", 3))
        f.finish(one(f))
        assert f.lease(1) == []
        assert f.next_ready_in() == 5000.0
    with on_disk(tmp_path) as f:
        assert f.lease(1) == []
        assert f.next_ready_in() == 5000.0


def test_later_overrides_win_setting_by_setting() -> None:
    overrides = [
        {"match": "*", "set": {"queue_total_budget": 50, "balance_replenish_amount": 5}},
        {"match": "domain:a.test", "set": {"queue_total_budget": 60}},
        {"match": "surt:(test,a,www,", "set": {"precedence": 1}},
    ]
    with memory(overrides=overrides, hold_queues=False) as f:
        f.schedule_many(["https://www.a.test/", "https://b.test/"])
        first, second = f.queue("www.a.test"), f.queue("b.test")
        assert first is not None and second is not None
        assert (first.total_budget, first.balance_replenish_amount, first.precedence) == (60, 5, 1)
        assert (second.total_budget, second.balance_replenish_amount, second.precedence) == (50, 5, 3)


def test_a_queue_takes_the_values_of_the_uri_placed_last_and_of_its_head_at_activation() -> None:
    overrides = [{"match": "regex:/cheap", "set": {"queue_total_budget": 10}}]
    with memory(overrides=overrides) as f:
        f.schedule("https://a.test/head")
        assert record(f, "A").total_budget == -1
        f.schedule("https://a.test/cheap")
        assert record(f, "A").total_budget == 10
        lease = one(f)
        assert record(f, "A").total_budget == -1
        f.finish(lease, Outcome.SUCCESS)


def test_the_settings_in_force_for_a_lease_follow_overrides_and_adjustments() -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        lease = one(f)
        assert f.internals.settings_for(lease).revisit_after == 0
        f.adjust(match="host:a.test", revisit={"after": 60})
        assert f.internals.settings_for(lease).revisit_after == 60
