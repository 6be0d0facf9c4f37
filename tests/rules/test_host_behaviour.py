"""What simulations draw: from a host that is known, of one that is not, and how the share of new links falls."""

from __future__ import annotations

from collections import Counter
from math import exp, inf, sqrt
from random import Random

import pytest
from msgspec import structs

from budgetfrontier.core.model import QueueHistory, QueueRecord
from budgetfrontier.rules.host_behaviour import (
    RECENT,
    Behaviour,
    Means,
    Overloads,
    Retries,
    ServerErrors,
    behaviour,
    crawl_delay,
    growth,
    is_steady,
    retry_after,
)
from budgetfrontier.settings import Settings
from budgetfrontier.settings.sheets import effective

NO_RETRIES = Retries(3, 1.0)


def history(
    success: int = 0, *, retry: int = 0, failure: int = 0, disregarded: int = 0, **means: float
) -> QueueHistory:
    """Return a history of a host."""
    names = ("seconds", "links", "new", "bytes")
    known = {name: means.get(name, 1.0 if success else None) for name in names}
    return QueueHistory(success=success, retry=retry, failure=failure, disregarded=disregarded, **known)


def means_of(*seen: tuple[QueueHistory, int], retries: Retries = NO_RETRIES) -> Means:
    """Return the means of hosts, each given with the number of its URIs."""
    found = Means(retries)
    for one in seen:
        found.add(*one)
    for one in seen:
        found.add_growth(*one)
    return found


def linked_at_random(pages: int, links: int, fetched: int, seed: int = 1) -> tuple[QueueHistory, int, float]:
    """Crawl a host whose pages link to each other at random; return its history, what was found, and the share now."""
    random, known, new = Random(seed), {0}, None
    for fetch in range(1, fetched + 1):
        drawn = {random.randrange(pages) for _ in range(links)}
        share = len(drawn - known) / links
        known |= drawn
        new = share if new is None else new + (share - new) / min(fetch, RECENT)
    assert new is not None
    return history(fetched, links=float(links), new=new), len(known), 1 - len(known) / pages


@pytest.mark.parametrize("fetched", [20, 60, 100, 300, 600])
def test_the_share_of_new_links_is_found_where_pages_link_at_random(fetched: int) -> None:
    seen, found, now = linked_at_random(2000, 6, fetched)
    drawn = behaviour(seen, found, means_of((seen, found)))
    assert drawn.new == pytest.approx(now, abs=0.08)
    if fetched >= 100:  # before, the size of the host cannot be told from its pages
        to_come = drawn.links * drawn.new / drawn.fall  # the sum over all further pages
        assert to_come == pytest.approx(2000 - found, rel=0.3)


def test_a_share_that_has_not_fallen_does_not_fall() -> None:
    endless = history(1000, links=10.0, new=0.2)
    grows = growth(endless, 2000, 1.0)
    assert grows is not None
    assert grows.fall * 1000 < 0.3
    assert behaviour(endless, 2000, means_of((endless, 2000))).new == pytest.approx(0.2, rel=0.2)


@pytest.mark.parametrize("ahead", [1, 2, 5, 12, 80])
def test_a_host_that_supplies_its_queue_evenly_goes_on_so_whatever_others_do(ahead: int) -> None:
    trap = history(400, links=float(ahead), new=1 / ahead)
    means = means_of((trap, 400), *((history(100, failure=5, links=1.0, new=0.2), 60) for _ in range(20)))
    assert is_steady(trap, ahead)
    drawn = behaviour(trap, 400, means, ahead)
    assert drawn.links * drawn.new == pytest.approx(1.0)
    assert (drawn.success, drawn.failure, drawn.fall, drawn.endless) == (1.0, 0.0, 0.0, True)
    assert drawn.least == drawn.new
    lossy = history(400, failure=100, links=3.0, new=0.42)
    drawn = behaviour(lossy, 500, means, 4)
    assert drawn.success * drawn.links * drawn.new == pytest.approx(1.0)  # as many as leave its queue


@pytest.mark.parametrize(
    ("seen", "waiting"),
    [
        (history(400, links=9.0, new=0.09), 3),  # at the end of a site
        (history(400, links=2.0, new=0.5), 0),  # it has run dry
        (history(400, links=2.0, new=0.5), 101),  # much waits: it need not go on
        (history(100, links=2.0, new=0.5), 2),  # a site of a hundred pages looks so at its end
        (history(400, links=0.0, new=0.0), 2),
        (history(), 2),
    ],
)
def test_a_host_that_may_run_dry_is_not_steady(seen: QueueHistory, waiting: int) -> None:
    assert not is_steady(seen, waiting)


@pytest.mark.parametrize("links", [4, 6, 20])
def test_a_site_is_never_steady_whatever_its_size_and_how_much_of_it_is_left(links: int) -> None:
    for pages in (130, 160, 200, 400, 1000):
        for fetched in range(128, pages, 8):
            seen, found, _ = linked_at_random(pages, links, fetched)
            assert not is_steady(seen, found - fetched), (pages, fetched)


def test_a_host_is_endless_if_as_many_pages_again_would_still_lead_on() -> None:
    endless, ending = history(1000, links=10.0, new=0.2), history(1000, links=10.0, new=0.02)
    assert behaviour(endless, 2000, means_of((endless, 2000))).endless
    assert not behaviour(ending, 2000, means_of((ending, 2000))).endless
    assert not means_of((endless, 2000)).mean().endless


def test_a_host_without_anything_new_any_more_has_no_growth() -> None:
    done = history(1000, links=10.0, new=0.0)
    drawn = behaviour(done, 500, means_of((done, 500)))
    assert drawn.new == pytest.approx(0.0, abs=1e-3)


def test_a_host_of_which_nothing_was_seen_is_like_the_mean() -> None:
    means = means_of((history(30, seconds=2.0, failure=10), 50), (history(60, seconds=1.0), 50))
    found = behaviour(None, 0, means)
    assert found == means.mean()
    assert found.success == pytest.approx(0.9)
    assert found.failure == pytest.approx(0.1)
    assert found.seconds == pytest.approx(1.4)


def test_without_any_history_all_is_a_success_of_a_second_without_links() -> None:
    assert behaviour(None, 0, means_of()) == Behaviour(1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0)


def test_hosts_that_are_alike_say_more_of_one_than_those_that_are_up_or_down() -> None:
    alike = means_of(*((history(18, failure=2), 30) for _ in range(20)))
    mixed = means_of(*((history(*((19, 1)[host % 2],), failure=(1, 19)[host % 2]), 30) for host in range(20)))
    assert alike.strength() > 10 * mixed.strength()
    bad = history(1, failure=4)
    assert behaviour(bad, 5, alike).failure < 0.2
    assert behaviour(bad, 5, mixed).failure > 0.6


def test_alike_hosts_are_found_to_be_so_although_those_that_fail_are_delayed() -> None:
    """All fail with the same probability; each failure takes the time of thirty fetches, and all stop at one time."""
    random, seen = Random(3), list[tuple[QueueHistory, int]]()
    for _ in range(60):
        time = pages = failures = 0
        while time < 150:
            failed = random.random() < 0.02
            time, pages, failures = time + (30 if failed else 1), pages + (not failed), failures + failed
        seen.append((history(pages, failure=failures), pages))
    unlucky = max((one for one, _ in seen), key=lambda one: one.failure / one.success)
    assert unlucky.failure / unlucky.success > 0.04
    assert behaviour(unlucky, 0, means_of(*seen)).failure == pytest.approx(0.02, abs=0.008)


def test_a_host_that_has_never_answered_is_taken_as_it_is() -> None:
    alike = means_of(*((history(50), 60) for _ in range(20)))
    down = behaviour(history(0, retry=4), 1, alike)
    assert down.retry > 0.6


def test_attempts_of_one_uri_are_no_witnesses_of_their_own() -> None:
    all_lasting = Retries.of(3, 30, 10, 0)
    assert all_lasting.lasting == 1.0
    assert all_lasting.failing(history(1, retry=8)) == 2.0
    passing = Retries.of(3, 1000, 0, 0)
    assert passing.lasting < 0.01
    assert passing.failing(history(1, retry=8)) == pytest.approx(8.0, rel=0.03)
    mean = means_of().mean()
    assert all_lasting.later(mean, 2) == passing.later(mean, 3) == 1.0


def test_a_host_that_has_never_answered_goes_on_failing() -> None:
    alike = means_of(*((history(50), 60) for _ in range(20)), retries=Retries.of(30, 100, 0, 0))
    down = behaviour(history(0, retry=8), 1, alike)
    assert not down.answers
    assert alike.retries.later(down, 2) == alike.retries.later(down, 20) == down.retry > 0.5


def test_a_crawl_delay_is_seen_in_a_rest_that_is_unusual() -> None:
    settings = effective(Settings(), []).base
    waited = QueueRecord("host.test", 1, last_lease_time=100, wake_time=100 + 1 + 20)
    assert crawl_delay(waited, 0.2, settings) == pytest.approx(19.8)
    assert crawl_delay(waited, 10.0, settings) is None
    assert crawl_delay(QueueRecord("host.test", 1, last_lease_time=100, wake_time=104), 0.2, settings) is None


@pytest.mark.parametrize(("pages", "waiting"), [(10, 7), (50, 11), (100, 12), (300, 75)])
def test_a_suspected_trap_goes_on_after_few_pages_and_never_dries_up(pages: int, waiting: int) -> None:
    calendar, site = history(pages, links=2.0, new=0.5 + waiting / pages / 3), history(100, links=1.0, new=0.2)
    means = means_of((calendar, pages + waiting), *((site, 60) for _ in range(20)))
    trap = behaviour(calendar, pages + waiting, means, waiting, suspect=True)
    assert trap.endless and not trap.few and trap.links * trap.least == pytest.approx(1.0)
    assert trap.new == trap.least if waiting <= pages / 4 else trap.new > trap.least
    other = behaviour(calendar, pages + waiting, means, waiting)
    assert other.least == 0.0 and other.few if pages < 128 else other == trap


@pytest.mark.parametrize(("seen", "waiting"), [(history(300, links=2.0, new=0.4), 13), (history(9, links=2.0), 4)])
def test_a_suspect_that_does_not_lead_on_or_is_hardly_known_is_none(seen: QueueHistory, waiting: int) -> None:
    assert behaviour(seen, 300, means_of((seen, 300)), waiting, suspect=True).least == 0.0


def mean_and_spread(a: float, b: float) -> tuple[float, float]:
    """Those of a beta distribution."""
    return a / (a + b), sqrt(a * b / (a + b + 1)) / (a + b)


def test_a_host_is_overloaded_as_often_as_it_was_as_far_as_its_ends_tell() -> None:
    overloads = Overloads(answers=10, ends=1000, strength=10.0)
    assert mean_and_spread(*overloads.shape(100, 1000)) == pytest.approx((0.099, 0.009), abs=0.001)
    assert mean_and_spread(*overloads.shape(1, 10)) == pytest.approx((0.055, 0.05), abs=0.002)
    assert mean_and_spread(*overloads.shape(0, 0))[0] == pytest.approx(0.01, abs=0.001)
    assert all(one > 0.0 for one in Overloads(10, 10, 1.0).shape(5, 5)), "all were overloaded"


def test_hosts_that_are_overloaded_alike_say_more_of_each_other_than_those_that_are_not() -> None:
    alike, apart = Overloads.of(Counter({(1, 19): 40})), Overloads.of(Counter({(0, 20): 38, (20, 0): 2}))
    assert alike[:2] == apart[:2] == (40, 800)
    assert alike.strength > 1000 > 1 > apart.strength
    assert Overloads.of(Counter())[:2] == (0, 0)


def test_a_retry_after_is_seen_in_the_rest_of_a_host_without_a_back_off_of_its_own() -> None:
    rests = QueueRecord("host.test", 1, failed_at=100, overloaded_until=400)
    assert retry_after(rests) == 300
    assert retry_after(structs.replace(rests, backoff=60)) is None
    assert retry_after(structs.replace(rests, failed_at=500)) is None
    assert retry_after(QueueRecord("host.test", 1)) is None


def test_no_number_is_out_of_range() -> None:
    random = Random(5)
    for _ in range(500):
        success = random.choice([0, 1, 5, 64, 65, 200, 65_535])
        seen = history(
            success,
            retry=random.choice([0, 1, 100]),
            failure=random.choice([0, 3]),
            disregarded=random.choice([0, 7]),
            **({"links": random.choice([0.0, 0.1, 50.0]), "new": random.random(), "seconds": 0.0} if success else {}),
        )
        found = random.choice([0, 1, 100, 10**6])
        means = means_of((seen, found), (history(20, links=3.0, new=0.5), 40), retries=Retries.of(3, 5, 0, 1))
        drawn = behaviour(seen, found, means)
        assert 0 <= drawn.success + drawn.retry + drawn.failure <= 1 + 1e-9
        assert min(drawn.success, drawn.retry, drawn.failure, drawn.links, drawn.fall) >= 0
        assert 0 <= drawn.new <= 1
        assert drawn.fall < inf and exp(-drawn.fall) <= 1


@pytest.mark.parametrize(
    ("answers", "retry", "failure", "most", "waiting", "expected"),
    [
        (30, 20, 10, 2, 0, (10, 0)),  # ten URIs, each tried three times
        (7, 7, 0, 2, 0, (0, 7)),  # they passed at their second attempt
        (9, 9, 0, 2, 9, (0, 0)),  # what becomes of them is not known yet
        (5, 0, 5, 2, 0, (0, 0)),  # 501: never tried again
        (5, 0, 5, 0, 0, (5, 0)),  # without retries
        (30, 20, 14, 2, 0, (10, 0)),  # four failed without an answer
    ],
)
def test_server_errors_are_told_apart_from_other_failures(
    answers: int, retry: int, failure: int, most: int, waiting: int, expected: tuple[int, int]
) -> None:
    seen = history(100, retry=retry, failure=failure)
    errors = ServerErrors.of(answers, seen, most, waiting)
    assert (errors.given_up, errors.passed) == expected
    assert errors.uris == errors.given_up + errors.passed + errors.waiting <= answers
    assert errors.retried <= retry and errors.given_up <= failure
