"""Previews: queues by groups of equal values, and what they may spend, compared with what then happens."""

from __future__ import annotations

from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier
from budgetfrontier.engine.commands import adjustment, survey
from budgetfrontier.engine.commands.preview import preview
from budgetfrontier.settings.overrides import Effective, Override
from tests.support import START, crawl, kernel, memory, one, pages, state

TRAPS = [{"match": "regex:/trap", "set": {"queue_total_budget": 5}}]


def groups(told: Any) -> list[tuple[Any, Any, int]]:
    """The groups of an adjustment of the total budget."""
    name = "queue_total_budget"
    return [(group["before"][name], group["after"][name], group["queues"]) for group in told.groups]


@pytest.mark.parametrize("match", ["queue:*.test", "host:*.test", "surt:(test,", "regex:^https://", "*", "domain:test"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_values_are_those_of_the_queues_that_match(match: str, dry_run: bool) -> None:
    with memory(queue_total_budget=20, overrides=TRAPS) as f:
        f.schedule_many([f"https://{letter}.test/trap" for letter in "abc"])
        f.schedule_many(pages("D", 2))
        told = f.adjust(match=match, queue_total_budget=500, dry_run=dry_run)
        assert groups(told) == [(5, 500, 3), (20, 500, 1)]
        assert (told.matched, told.before, told.after) == (4, {"queue_total_budget": None}, {"queue_total_budget": 500})
        if not dry_run:
            assert f.audit(limit=1)[0].effect["groups"] == told.groups


def test_a_frontier_too_large_to_be_counted_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjustment, "COUNTED", 2)
    with memory(queue_total_budget=20, overrides=TRAPS) as f:
        f.schedule_many(pages("ABC", 1))
        told = f.adjust(match="host:*.test", queue_total_budget=500, precedence=2)
        assert (told.matched, told.groups) == (None, [])
        assert told.before == {"queue_total_budget": None, "precedence": 3}  # 3 for all: no override sets it
        told = f.adjust(match="queue:a.test", queue_total_budget=6)
        assert (told.matched, groups(told)) == (1, [(500, 6, 1)])


def test_small_groups_are_counted_but_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "MOST_GROUPS", 2)
    monkeypatch.setattr(survey, "_KEPT", 2)
    overrides = [
        {"match": f"queue:{letter}.test", "set": {"queue_total_budget": n}} for n, letter in enumerate("abcd", 1)
    ]
    with memory(queue_total_budget=20, overrides=overrides) as f:
        f.schedule_many(pages("ABCDEF", 1))
        told = f.adjust(queue_total_budget=500, dry_run=True)
        assert (told.matched, told.ungrouped, groups(told)[0], len(told.groups)) == (6, 3, (20, 500, 2), 2)


def test_spend_has_a_floor_and_a_ceiling() -> None:
    with memory(queue_total_budget=2, retire_when="reached") as f:
        f.schedule_many(pages("AB", 5))
        assert crawl(f) == "AABB"
        plan = f.adjust(queue_total_budget=9, dry_run=True)
        assert (plan.revived_count, plan.spend, plan.ceiling) == (2, 6, 14)
        f.adjust(queue_total_budget=9)
        f.schedule_many(pages("AB", 100, first=5))  # more come
        assert len(crawl(f)) == 14
        plan = f.adjust(queue_total_budget=-1, dry_run=True)
        assert (plan.spend, plan.ceiling) == (192, None)


@pytest.mark.parametrize("retire_when", ["reached", "exceeded"])
@pytest.mark.parametrize("more", [0, 100])
def test_a_queue_spends_its_ceiling_at_most_and_with_enough_uris_all_of_it(retire_when: str, more: int) -> None:
    with memory(queue_total_budget=3, retire_when=retire_when) as f:
        f.schedule_many(pages("A", 7))
        crawl(f)
        plan = f.adjust(queue_total_budget=9, dry_run=True)
        f.adjust(queue_total_budget=9)
        f.schedule_many(pages("A", more, first=7))
        assert len(crawl(f)) == (plan.ceiling if more else plan.spend)
        assert plan.ceiling == 6  # 3 of 3 to 9 of 9 if `reached`, else 4 to 10


def test_queues_that_are_not_retired_are_counted_too() -> None:
    with memory(queue_total_budget=10) as f:
        f.schedule_many(pages("AB", 4))
        f.schedule_many(pages("C", 1))
        assert crawl(f, 1) == "A"
        plan = f.adjust(match="queues:a.test,c.test,nowhere.test", queue_total_budget=2, dry_run=True)
        assert (plan.matched, plan.revived_count, plan.retired_count) == (2, 0, 0)
        assert plan.others == {
            "queues": 2,
            "before": {
                "uris": 3 + 1,
                "spend": 3 + 1,
                "ceiling": 10 + 11,
            },  # the last of each goes one beyond, as `exceeded` lets it
            "after": {"uris": 2 + 1, "spend": 2 + 1, "ceiling": 2 + 3},
        }


def test_what_is_over_budget_before_and_after_is_no_news() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("ABC", 5))
        crawl(f)
        f.retire("c.test")
        f.pause()
        f.adjust(precedence=2)
        assert state(f, "A") == "INACTIVE"  # until its turn
        plan = f.adjust(match="queue:?.test", queue_total_budget=0, dry_run=True)
        assert (plan.retired_count, plan.still_over, plan.by_name) == (0, 2, 1)
        plan = f.adjust(match="queue:a.test", queue_total_budget=0, dry_run=True)
        assert (plan.matched, plan.still_over) == (1, 1), "the others are none of its business"


@pytest.mark.parametrize("dry_run", [True, False])
def test_keys_that_are_those_of_no_queue_are_named(dry_run: bool) -> None:
    with memory() as f:
        f.schedule_many(pages("AB", 1))
        plan = f.adjust(match="queues:a.test,nope.test,b.test", queue_total_budget=3, dry_run=dry_run)
        assert (plan.matched, plan.unknown) == (2, ["nope.test"])
        assert f.adjust(match="queue:*.test", queue_total_budget=3, dry_run=dry_run).unknown == []


def test_queues_with_the_same_settings_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    look_at = Effective._look_at

    def noted(effective: Effective, prefix: str, *more: Any) -> Any:
        asked.append(prefix)
        return look_at(effective, prefix, *more)

    monkeypatch.setattr(Effective, "_look_at", noted)
    with memory(queue_total_budget=20) as f:
        f.schedule_many(pages("ABCDE", 1))
        f.adjust(match="*", queue_total_budget=30)
        asked.clear()
        assert f.adjust(match="domain:test", queue_total_budget=40, dry_run=True).matched == 5
        assert len(asked) == 1


def test_a_preview_of_named_queues_reads_no_others(f: Frontier, monkeypatch: pytest.MonkeyPatch) -> None:
    f.schedule_many(pages("ABC", 1))
    monkeypatch.setattr("budgetfrontier.storage.view.View.stored_queues", None)
    assert f.adjust(match="queues:a.test,b.test", queue_total_budget=3, dry_run=True).matched == 2


@pytest.mark.parametrize(
    ("group", "host", "match", "name"),
    [
        ({}, {"urls": 2}, "host:a.test", "quotas.host"),
        ({"urls": 2}, {}, "group:site/a.test", "group.quotas"),
    ],
)
def test_quotas_retire_and_revive_as_a_dry_run_says(
    group: dict[str, int], host: dict[str, int], match: str, name: str
) -> None:
    groups = [{"name": "site", "by": "host", "quotas": group}]
    with memory(quotas={"host": host}, groups=groups) as f:
        f.schedule_many([*pages("ab", 5), *pages("c", 1)])
        assert len(crawl(f)) == 5
        more = {name: {"urls": 4}}
        told = f.adjust(match=match, dry_run=True, **more)  # type: ignore[arg-type]
        assert (told.revived, told.still_over, told.uris, told.quotas) == (["a.test"], 0, 3, True)
        assert f.adjust(match=match, dry_run=True, **{name: {"bytes": 0}}).still_over == 1  # type: ignore[arg-type]
        f.adjust(match=match, **more)  # type: ignore[arg-type]
        told = f.adjust(match=match, dry_run=True, **{name: {"urls": 1}})  # type: ignore[arg-type]
        assert (told.retired, told.others["queues"], told.others["after"]["uris"]) == (["a.test"], 1, 0)
        assert crawl(f) == "AA"


def test_a_quota_that_disregards_uris_revives_their_queue_and_spends_nothing() -> None:
    with memory(quotas={"host": {"urls": 2}}) as f:
        f.schedule_many(pages("a", 5))
        crawl(f)
        told = f.adjust(dry_run=True, **{"quotas.force_retire": False})  # type: ignore[arg-type]
        assert (told.revived, told.uris, told.spend) == (["a.test"], 0, 0)


def test_without_quotas_a_dry_run_says_nothing_of_them() -> None:
    with memory(queue_total_budget=1) as f:
        f.schedule_many(pages("a", 5))
        assert not f.adjust(queue_total_budget=2, dry_run=True).quotas


@pytest.mark.parametrize("policy", ["base", {"success-counts": {"tiers": [2]}}, "highest-uri"])
@pytest.mark.parametrize("precedence", [2, 5, 40])
def test_a_dry_run_knows_which_queues_the_precedence_floor_holds(policy: Any, precedence: int) -> None:
    low = {"match": "host:c.test", "set": {"precedence": 30}}
    with memory(
        precedence_policy=policy, precedence_floor=20, hold_queues=True, balance_replenish_amount=9, overrides=[low]
    ) as f:
        f.schedule_many(pages("ABCD", 4))
        assert crawl(f, limit=1) == "A"
        f.retire("d.test")
        told = f.adjust(match="*", precedence=precedence, dry_run=True)
        real = f.adjust(match="*", precedence=precedence)
        assert real.regraded_count == 2  # b, which is INACTIVE, and c
        f.finish(one(f)) if precedence < 20 else crawl(f)  # an active queue is INELIGIBLE after its next fetch
        held = [f"{letter}.test" for letter in "abc" if state(f, letter) == "INELIGIBLE"]
        if precedence < 20:
            assert (told.ineligible, told.eligible, held) == ([], ["c.test"], [])
            assert told.eligible_spend == {"uris": 4, "spend": 4, "ceiling": None}
            assert told.others["queues"] == told.retired_count == told.revived_count == 0
        else:
            assert (told.ineligible, told.eligible, held) == (["a.test", "b.test"], [], ["a.test", "b.test", "c.test"])
            assert (told.ineligible_count, told.eligible_count) == (2, 0)


def test_a_policy_of_ones_own_is_not_asked_by_a_dry_run() -> None:
    with memory(precedence_policy=f"{__name__}:of_its_own", precedence_floor=20) as f:
        f.schedule_many(pages("A", 4))
        told = f.adjust(match="*", precedence=40, dry_run=True)
        assert (told.ineligible_count, told.eligible_count) == (0, 0)


def of_its_own(uri: Any, *, precedence: int) -> int:
    return 3


def test_retired_queues_at_the_floor_do_not_revive() -> None:
    with memory(precedence_floor=20, queue_total_budget=1, retire_when="reached") as f:
        f.schedule_many(pages("A", 4))
        crawl(f)
        assert state(f, "a") == "RETIRED"
        told = f.adjust(match="*", queue_total_budget=-1, precedence=20, dry_run=True)
        assert (told.revived_count, told.ineligible, told.still_over) == (0, ["a.test"], 0)
        f.adjust(match="*", queue_total_budget=-1, precedence=20)
        assert state(f, "a") == "INELIGIBLE"
        told = f.adjust(match="*", precedence=19, dry_run=True)
        assert (told.revived_count, told.eligible, told.others["queues"]) == (0, ["a.test"], 0)


@pytest.mark.parametrize(("budget", "looked_at"), [(10, 11), (1000, 60)])
def test_no_more_uris_are_looked_at_than_a_queue_would_hand_out(budget: int, looked_at: int) -> None:
    seen = list[str]()

    def in_scope(uri: CrawlUri) -> bool:
        seen.append(uri.url)
        return True

    with memory(queue_total_budget=5) as f:
        f.schedule_many(pages("A", 60))
        view = kernel(f).tables.flushed()
        change = survey.appended(view, Override("queue:a.test", {"queue_total_budget": budget}))
        found = preview(view, change, now=START, in_scope=in_scope)
    assert (found["others"]["before"]["uris"], found["others"]["after"]["uris"]) == (6, looked_at)
    assert len(seen) == len(set(seen)) <= looked_at + 1, "and the one at which the budget ends"
