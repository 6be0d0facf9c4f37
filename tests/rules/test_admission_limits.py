"""The limits on how many URIs may be queued: when one is reached, and which URIs none of them holds up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from budgetfrontier import CrawlUri, Directive
from budgetfrontier.rules import admission_limits
from budgetfrontier.settings.overrides import Effective
from budgetfrontier.settings.schema import FrontierSettings


def full(*, queued: int = 0, size: int = 0, max_queued: int = 0, max_queue_size: int = 0) -> str | None:
    frontier = FrontierSettings(max_queued=max_queued)
    settings = replace(Effective(frontier, []).base, max_queue_size=max_queue_size)  # as an override may set it
    return admission_limits.limit_reached(frontier, settings, queued=queued, queue_size=lambda: size)


def test_a_limit_of_zero_is_none() -> None:
    assert not full(queued=10**9, size=10**9)
    assert not admission_limits.any_limit(FrontierSettings())


@pytest.mark.parametrize("limits", [{"max_queued": 5}, {"max_queue_size": 5}])
def test_the_frontier_and_its_queues_have_limits(limits: dict[str, int]) -> None:
    assert admission_limits.any_limit(replace(FrontierSettings(), **limits))
    assert full(queued=4, size=4, **limits) is None
    assert full(queued=5, size=5, **limits) in limits
    assert full(queued=6, size=6, **limits) in limits


def test_either_limit_suffices_and_that_of_the_frontier_is_named_first() -> None:
    limits = {"max_queued": 10, "max_queue_size": 5}
    assert full(queued=10, size=0, **limits) == "max_queued"
    assert full(queued=5, size=5, **limits) == "max_queue_size"
    assert full(queued=10, size=5, **limits) == "max_queued"
    assert full(queued=9, size=4, **limits) is None


def test_a_queue_without_a_limit_is_not_counted() -> None:
    frontier = FrontierSettings(max_queued=5)

    def counted() -> int:
        raise AssertionError("the queue was looked up")

    settings = Effective(frontier, []).base
    for queued, limit in (4, None), (5, "max_queued"):
        assert admission_limits.limit_reached(frontier, settings, queued=queued, queue_size=counted) == limit


def test_each_limit_has_the_name_of_its_setting() -> None:
    names = {admission_limits.MAX_QUEUED, admission_limits.MAX_QUEUE_SIZE}
    assert names < set(FrontierSettings.__struct_fields__) and names < admission_limits.LIMITS


def test_prerequisites_may_overfill() -> None:
    robots = CrawlUri("https://a.test/robots.txt", force=True, directive=Directive.HIGHEST)
    assert admission_limits.may_overfill(robots, None)
    assert not admission_limits.may_overfill(replace(robots, force=False), None)
    assert not admission_limits.may_overfill(replace(robots, directive=Directive.HIGH), None)
    assert not admission_limits.may_overfill(None, None)


def test_a_revisit_may_overfill_with_the_finish_of_its_own_uri() -> None:
    page, other = (CrawlUri(url, force=True) for url in ("https://a.test/", "https://b.test/"))
    assert admission_limits.may_overfill(page, page)
    assert not admission_limits.may_overfill(replace(page, force=False), page)
    assert not admission_limits.may_overfill(page, other)
    assert not admission_limits.may_overfill(page, None)


@pytest.mark.parametrize(
    ("limit", "held", "more", "room"),
    [
        (0, 9, 9, True),
        (1, 0, 1, True),
        (1, 1, 1, False),
        (1, 0, 2, False),
        (5, 3, 2, True),
        (5, 3, 3, False),
        (1, 1, 0, True),
    ],
)
def test_so_many_more_fit_in(limit: int, held: int, more: int, room: bool) -> None:
    assert admission_limits.has_room(limit, held, more) is room


def test_a_limit_of_one_holds_one() -> None:
    assert full(max_queue_size=1) is None and full(size=1, max_queue_size=1) == "max_queue_size"
    assert full(max_queued=1) is None and full(queued=1, max_queued=1) == "max_queued"
