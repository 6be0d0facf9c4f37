"""The profiles: valid and documented, and crawls under each go as the usage scenarios say."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from budgetfrontier import CrawlState, Frontier, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.settings import Settings
from budgetfrontier.settings.profiles import profiles
from budgetfrontier.settings.validation import profile
from tests.settings.files import Files, problems
from tests.support import crawl, pages


def test_every_profile_is_valid_and_documented() -> None:
    named = {"default", "demo", "round-robin", "site-first", "budgeted-rotation", "capped", "served", "sheets"}
    assert named | {"trap-guard"} == set(profiles())
    for name in profiles():
        assert isinstance(profile(name, Settings()), Settings)
        assert files("budgetfrontier.settings").joinpath("config", f"{name}.yaml").read_text().startswith("# ")


def test_profiles_set_what_the_usage_scenarios_say() -> None:
    robin, site, rotation, capped = (
        profile(name, Settings()).frontier for name in ("round-robin", "site-first", "budgeted-rotation", "capped")
    )
    assert (robin.hold_queues, robin.cost_policy) == (False, "zero")
    assert (site.hold_queues, site.cost_policy) == (True, "zero")
    assert (rotation.hold_queues, rotation.cost_policy, rotation.queue_total_budget) == (True, "unit", -1)
    assert capped.queue_total_budget > 0
    assert capped.pause_at_finish


def test_own_keys_win_over_the_profile() -> None:
    settings = Settings.from_dict({"profile": "capped", "frontier": {"queue-total-budget": 7}})
    assert settings.frontier.queue_total_budget == 7
    assert settings.frontier.pause_at_finish is True
    assert problems({"profile": "caped"}) == ['profile: there is no profile "caped"; did you mean "capped"?']
    assert problems({"profile": "../config/capped"})[0].startswith("profile: there is no profile")
    assert problems({"profile": 3}) == ["profile: expected the name of a profile, got 3"]


def by_profile(name: str, **frontier: Any) -> Frontier:
    """A frontier in memory under a profile, changed as given, without delays."""
    frontier["politeness"] = {"delay_factor": 0, "min_delay": 0, "max_delay": 0}
    settings = Settings.from_dict({"profile": name, "frontier": frontier})
    return Frontier.open(":memory:", settings, clock=ManualClock(1e6))


def test_round_robin_all_queues_begin_active_and_take_turns() -> None:
    with by_profile("round-robin") as frontier:
        frontier.schedule_many(pages("abc", 3))
        assert frontier.summary().queues["INACTIVE"] == 0
        assert crawl(frontier) == "ABCABCABC"


def test_site_first_works_one_queue_through_before_the_next() -> None:
    with by_profile("site-first", balance_replenish_amount=2) as frontier:
        frontier.schedule_many(pages("abc", 5))
        assert frontier.summary().queues["INACTIVE"] == 3
        assert crawl(frontier, 7) == "AAAAABB"
        # A site without end keeps the others waiting: the risk that the seed warns of.
        frontier.schedule_many(pages("b", 100, first=5))
        assert crawl(frontier, 50) == "B" * 50
        assert crawl(frontier)[-5:] == "CCCCC"


def test_site_first_activates_a_new_queue_only_to_keep_workers_busy() -> None:
    with by_profile("site-first") as frontier:
        frontier.schedule_many(pages("abc", 2))
        assert [lease.queue for lease in frontier.lease(2)] == ["a.test", "b.test"]
        assert frontier.summary().queues["INACTIVE"] == 1


def test_budgeted_rotation_makes_room_once_the_balance_is_spent() -> None:
    with by_profile("budgeted-rotation", balance_replenish_amount=3) as frontier:
        frontier.schedule_many(pages("ab", 5))
        assert crawl(frontier) == "AAABBBAABB"
    with by_profile("budgeted-rotation", balance_replenish_amount=1) as frontier:
        frontier.schedule_many(pages("ab", 3))
        assert crawl(frontier) == "ABABAB"  # the degenerate value: nearly round-robin


def test_budgeted_rotation_gives_costly_queues_less_time() -> None:
    with by_profile("budgeted-rotation", balance_replenish_amount=4, cost_policy="wag") as frontier:
        frontier.schedule_many([f"https://a.test/?page={n}" for n in range(4)] + pages("b", 8))
        assert crawl(frontier) == "AABBBBAABBBB"


def test_capped_retires_over_budget_pauses_at_finish_and_goes_on_when_the_budget_is_raised() -> None:
    with by_profile("capped", queue_total_budget=5) as frontier:
        frontier.schedule_many(pages("a", 9) + pages("b", 2))
        assert crawl(frontier) == "AAAAAABB"
        record = frontier.queue("a.test")
        assert record is not None and (record.state, record.queued) == (QueueState.RETIRED, 3)
        assert (frontier.state, frontier.summary().pause_reason) == (CrawlState.PAUSED, "finish")
        assert frontier.summary().queued == 0
        frontier.adjust(match="host:a.test", queue_total_budget=7, reason="worth a little more")
        frontier.resume()
        assert crawl(frontier) == "AA"
        assert frontier.state is CrawlState.PAUSED


def test_profile_from_yaml(files: Files) -> None:
    settings = files.settings("profile: round-robin\nfrontier: {cost_policy: unit}\n")
    assert (settings.frontier.hold_queues, settings.frontier.cost_policy) == (False, "unit")
    assert files.problems("crawl: a\nprofile: site-frist\n") == [
        '2:10: profile: there is no profile "site-frist"; did you mean "site-first"?'
    ]
