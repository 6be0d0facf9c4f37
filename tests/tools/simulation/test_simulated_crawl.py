"""A simulation: what happens in it follows from what was seen, and from the engine's own rules."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from time import gmtime
from typing import Any

import pytest

from budgetfrontier import CrawlUri, Frontier, Outcome, QueueState, Reader, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.core.model import Finish
from budgetfrontier.reports.simulation_results import table
from budgetfrontier.rules import uri_outcomes
from budgetfrontier.rules.simulation import Question, Simulated, Step, middle
from budgetfrontier.storage import keys
from budgetfrontier.tools.simulation import simulated_crawl
from budgetfrontier.tools.simulation.simulated_crawl import SimulatedCrawl

START = 1_000_000_000.0
HOSTS, PAGES = 6, 40


def crawled(
    path: Path, *, fetches: int = 120, outcome: Outcome = Outcome.SUCCESS, found: int = 0, **frontier: Any
) -> float:
    """Make a frontier of which some URIs were fetched, and return the time of the last fetch."""
    clock = ManualClock(START)
    settings = Settings.from_dict({"crawl": "simulated", "frontier": {"balance_replenish_amount": 10, **frontier}})
    with Frontier.open(path, settings, clock=clock) as opened:
        opened.schedule_many(f"http://host{host}.test/page{page}" for page in range(PAGES) for host in range(HOSTS))
        done = 0
        while done < fetches:
            for lease in opened.lease(HOSTS):
                links = [f"{lease.uri.url}/{number}" for number in range(found)]
                opened.finish_many([Finish(lease, outcome, fetch_seconds=0.5, size=1000, discovered=links)])
                done += 1
            clock.advance(10.0)
    return clock.time()


def simulated(path: Path, start: float, **question: Any) -> Simulated:
    """Simulate on a frontier."""
    return SimulatedCrawl(path, Question(start=start, **{"fetchers": 4, **question})).run(lambda step: None)


def test_what_is_left_is_fetched(tmp_path: Path) -> None:
    found = simulated(tmp_path, crawled(tmp_path))
    assert found.ended_by == "finished"
    assert found.fetches == found.succeeded == found.spent == HOSTS * PAGES - 120
    assert (found.queued, found.retired, found.stranded, found.starved, found.unsure) == (0, 0, 0, 0, 0)
    assert 0 < found.most_after <= found.seconds
    assert found.size == pytest.approx(1000 * found.fetches, rel=0.05)


def test_the_steps_of_its_time_do_not_lengthen_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = []
    for steps in (1000, 25):
        path = tmp_path / str(steps)
        start = crawled(path, politeness={"min_delay": "1s"}, balance_replenish_amount=1000)
        monkeypatch.setattr(simulated_crawl, "_STEPS", steps)
        seconds.append(simulated(path, start, fetchers=HOSTS).seconds)
    assert seconds[1] == pytest.approx(seconds[0], rel=0.05)


def test_how_far_it_is_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_crawl, "_TOLD", 0.0)
    start, told = crawled(tmp_path), list[Step]()
    SimulatedCrawl(tmp_path, Question(start=start, fetchers=4, seconds=3600.0)).run(told.append)
    shares = [step.share for step in told]
    assert shares == sorted(shares) and 0.0 < shares[0] < 0.1 and shares[-1] == 1.0


def test_it_is_not_far_while_as_many_uris_are_found_as_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_crawl, "_TOLD", 0.0)
    start, told = crawled(tmp_path, found=3), list[Step]()
    SimulatedCrawl(tmp_path, Question(start=start, fetchers=4, most=2000)).run(told.append)
    assert told and all(step.share == step.fetches / 2000 for step in told)


def test_new_uris_on_other_hosts_are_counted(tmp_path: Path) -> None:
    clock = ManualClock(START)
    with Frontier.open(tmp_path, clock=clock) as frontier:
        for page in range(20):
            frontier.schedule(f"http://host.test/{page}")
            (lease,) = frontier.lease(1)
            links = [f"http://{host}.test/from{page}" for host in ("host", "other", "third")]
            frontier.finish(lease, fetch_seconds=0.1, discovered=links)
            clock.advance(60.0)
    found = simulated(tmp_path, clock.time(), most=1)
    assert found.elsewhere == pytest.approx(2 / 3, abs=0.01)
    assert found.new_hosts is False


def test_a_queue_rests_between_fetches(tmp_path: Path) -> None:
    start = crawled(tmp_path, politeness={"min_delay": "60s", "max_delay": "60s"}, balance_replenish_amount=1000)
    left = PAGES - 120 // HOSTS
    found = simulated(tmp_path, start)
    assert found.fetches == HOSTS * left
    assert 60 * (left - 1) < found.seconds < 75 * left


def test_what_is_scheduled_for_later_is_not_queued_and_does_not_starve(tmp_path: Path) -> None:
    with Frontier.open(tmp_path, clock=ManualClock(START)) as frontier:
        for day in range(5):
            frontier.schedule(CrawlUri(f"http://host{day}.test/", not_before=START + day * 86_400.0))
        frontier.schedule(CrawlUri("http://retired.test/", not_before=START + 864_000.0))
        frontier.retire("retired.test")
    found = simulated(shutil.copytree(tmp_path, tmp_path.with_name("copy")), START, seconds=60.0)
    assert (found.fetches, found.queued, found.future, found.starved) == (1, 0, 5, 0)
    assert (found.retired, found.stranded) == (1, 0)
    found = simulated(tmp_path, START)
    assert (found.fetches, found.queued, found.future, found.ended_by) == (5, 0, 1, "finished")
    assert ["ended by", "RETIRED queues"] in table([found])


def test_an_adjustment_is_put_in_force(tmp_path: Path) -> None:
    found = simulated(tmp_path, crawled(tmp_path), changes=[("host:host1.test", {"queue_total_budget": 25})])
    assert (found.retired, found.stranded) == (1, PAGES - 26)
    assert found.fetches == (HOSTS - 1) * 20 + 6


def test_it_ends_at_its_time_with_what_is_in_flight_given_back(tmp_path: Path) -> None:
    found = simulated(tmp_path, crawled(tmp_path), seconds=30.0, fetchers=1)
    assert (found.ended_by, found.seconds) == ("until", 30.0)
    assert found.queued + found.fetches == HOSTS * PAGES - 120


def test_queues_without_a_turn_starve(tmp_path: Path) -> None:
    start = crawled(tmp_path, fetches=12, balance_replenish_amount=1000)
    assert simulated(tmp_path, start, seconds=1.0, fetchers=1).starved > 0


def test_queues_starve_that_were_leased_in_the_second_of_the_start_but_not_those_that_were_in_flight(
    tmp_path: Path,
) -> None:
    with Frontier.open(tmp_path / "job", clock=ManualClock(START)) as frontier:
        frontier.schedule_many(f"http://host{host}.test/{page}" for host in range(2) for page in range(9))
        [lease] = frontier.lease(1)
        frontier.commit()
        shutil.copytree(tmp_path / "job", tmp_path / "in-flight")
        frontier.finish(lease)
    in_flight = simulated(tmp_path / "in-flight", START, seconds=2.0, fetchers=1, uris=1)
    assert (in_flight.fetches, in_flight.starved) == (1, 1)
    assert simulated(tmp_path / "job", START, seconds=2.0, uris=0).starved == 2


def test_hosts_that_fail_go_on_failing(tmp_path: Path) -> None:
    start = crawled(tmp_path, outcome=Outcome.FAILURE, error_penalty_amount=2)
    found = simulated(tmp_path, start)
    assert found.succeeded < 10
    assert found.spent == found.succeeded + 3 * found.failed


@pytest.mark.parametrize(
    ("left", "reached"), [({"uris": 50}, "max_uris"), ({"bytes": 50_000}, "max_bytes"), ({"time": 20.0}, "max_time")]
)
def test_limits_of_the_crawl_end_it(tmp_path: Path, left: dict[str, Any], reached: str) -> None:
    found = simulated(tmp_path, crawled(tmp_path), **left)
    assert found.ended_by == reached
    if reached == "max_uris":
        assert found.succeeded == 50


def test_a_limit_that_was_exceeded_ends_it_at_once(tmp_path: Path) -> None:
    found = simulated(tmp_path, crawled(tmp_path), time=-0.5)
    assert (found.ended_by, found.seconds, found.fetches) == ("max_time", 0.0, 0)


def test_it_ends_after_so_many_fetches(tmp_path: Path) -> None:
    found = simulated(tmp_path, crawled(tmp_path, found=4), most=200)
    assert found.ended_by == "fetches"
    assert 200 <= found.fetches < 204


def test_one_seed_draws_the_same_and_another_draws_others(tmp_path: Path) -> None:
    results = []
    for number, seed in enumerate((1, 1, 2)):
        path = tmp_path / str(number)
        results.append(simulated(path, crawled(path), seed=seed))
    assert results[0] == results[1]
    assert results[0].seconds != results[2].seconds


def test_a_frontier_of_which_nothing_was_seen_is_simulated(tmp_path: Path) -> None:
    with Frontier.open(tmp_path, clock=ManualClock(START)) as frontier:
        frontier.schedule_many(f"http://host.test/{page}" for page in range(10))
    found = simulated(tmp_path, START)
    assert (found.succeeded, found.unsure) == (10, 10)


def test_hooks_are_not_loaded(tmp_path: Path) -> None:
    clock = ManualClock(START)
    settings = Settings.from_dict({"crawl": "hooked", "hooks": ["tests.tools.simulation.test_simulated_crawl:Hook"]})
    with Frontier.open(tmp_path, settings, clock=clock) as frontier:
        frontier.schedule("http://host.test/")
    Hook.called = 0
    simulated(tmp_path, START)
    assert Hook.called == 0


class Hook:
    """A hook that counts its calls."""

    called = 0

    def on_finish(self, frontier: Frontier, lease: object, outcome: object) -> None:
        """Count the call."""
        Hook.called += 1


@pytest.mark.parametrize("policy", ["unit", "wag"])
def test_links_are_found_as_often_as_before(tmp_path: Path, policy: str) -> None:
    start = crawled(tmp_path, found=2)
    found = simulated(tmp_path, start, changes=[("*", {"cost_policy": policy})], most=300)
    assert found.discovered == pytest.approx(2 * found.succeeded, rel=0.3)  # nothing has been seen twice


def test_retries_that_were_answered_leave_their_hosts_alone(tmp_path: Path) -> None:
    clock, ends = ManualClock(START), {}
    settings = {"frontier": {"retry": {"delay": "1h", "status_delay": "1h"}}}
    for status in (0, 500):
        path = tmp_path / str(status)
        with Frontier.open(path, settings, clock=clock) as frontier:
            frontier.schedule_many(f"http://host.test/{page}" for page in range(60))
            for number in range(30):
                clock.advance(3600.0)
                for lease in frontier.lease(1):
                    outcome = Outcome.RETRY if number % 5 == 0 else Outcome.SUCCESS
                    frontier.finish(lease, outcome, fetch_seconds=0.5, status=status, reason="failed")
        ends[status] = simulated(path, clock.time(), seconds=7200.0, seed=1)
    assert ends[500].succeeded > ends[0].succeeded


@pytest.mark.parametrize(
    "change",
    [{}, {"status_retries": 0}, {"status_retries": 4}, {"statuses": [503]}, {"max_retries": 1}],
    ids=str,
)
def test_pages_with_server_errors_are_tried_as_often_as_settings_say(tmp_path: Path, change: dict[str, Any]) -> None:
    """Each third page of two hosts answers 500, always; the crawl is simulated after a third of it, and goes on."""
    clock, retry = ManualClock(START), {"max_retries": 10, "status_retries": 2, "status_delay": "10m"}
    settings = {"frontier": {"retry": retry, "politeness": {"min_delay": "2s"}}}

    def crawl(opened: Frontier, most: float) -> None:
        while opened.summary().succeeded < most and (wait := opened.next_ready_in()) is not None:
            clock.advance(wait or 0.1)
            for lease in opened.lease(2):
                status = 500 if lease.uri.url.endswith(("0", "3", "6", "9")) else 200
                outcome = uri_outcomes.outcome_of_answer(status, lease.attempt, opened.internals.settings_for(lease))
                opened.finish(lease, outcome, fetch_seconds=0.1, status=status, reason=f"{status}")

    with Frontier.open(tmp_path / "job", settings, clock=clock) as opened:
        opened.schedule_many(f"http://{host}.test/{page}" for page in range(300) for host in "ab")
        crawl(opened, 150)
    shutil.copytree(tmp_path / "job", tmp_path / "copy")
    start, changes = clock.time(), [("*", {"retry": change})] if change else []
    found = simulated(tmp_path / "copy", start, changes=changes)
    with Frontier.open(tmp_path / "job", settings, clock=clock) as opened:
        before = opened.summary()
        if change:
            opened.adjust(match="*", retry=change)
        crawl(opened, 1e9)
        now = opened.summary()
    assert found.failed == pytest.approx(now.failed - before.failed, rel=0.15)
    assert found.succeeded == pytest.approx(now.succeeded - before.succeeded, rel=0.15)
    assert found.spent == found.fetches == pytest.approx(now.expenditure - before.expenditure, rel=0.15)
    assert found.seconds == pytest.approx(clock.time() - start, rel=0.15)


def test_hosts_without_server_errors_so_far_are_not_taken_to_be_down_by_those_of_others(tmp_path: Path) -> None:
    """One host of six answers 500 to a third of its pages: no host rests for `retry.delay`."""
    clock, waits = ManualClock(START), []
    for delay in ("1h", "20h"):
        with Frontier.open(tmp_path / delay, {"frontier": {"retry": {"delay": delay}}}, clock=clock) as frontier:
            frontier.schedule_many(f"http://{host}.test/{page}" for page in range(60) for host in "abcdef")
            while frontier.summary().succeeded < 120:
                clock.advance(4.0)
                for lease in frontier.lease(6):
                    fails = lease.queue == "a.test" and lease.uri.url.endswith(("0", "3", "6", "9"))
                    ending = {"outcome": Outcome.RETRY, "status": 500} if fails else {"status": 200}
                    frontier.finish(lease, fetch_seconds=0.1, **ending)
        waits.append(simulated(tmp_path / delay, clock.time()).seconds)
    assert waits[0] == waits[1]


@pytest.mark.parametrize(("pages", "asked"), [(150, None), (150, 300.0), (500, None)])
def test_hosts_that_answer_429_or_503_rest_as_long_as_they_do(tmp_path: Path, pages: int, asked: float | None) -> None:
    """One host answers so at each sixth attempt; the crawl is simulated after a third of its pages, and goes on."""
    clock = ManualClock(START)
    frontier = {"backoff": {"max_delay": "20m"}, "politeness": {"min_delay": "2s", "max_delay": "2s"}}

    def crawl(opened: Frontier, until: int) -> None:
        attempts = opened.summary().retried + opened.summary().succeeded
        while opened.summary().succeeded < until:
            wait = opened.next_ready_in()
            assert wait is not None
            clock.advance(wait or 0.1)
            for lease in opened.lease(1):
                attempts += 1
                ending = {"outcome": Outcome.RETRY, "status": 503, "delay": asked} if attempts % 6 == 0 else {}
                opened.finish(lease, fetch_seconds=0.1, **ending)  # type: ignore[arg-type]  # they are of any kind

    with Frontier.open(tmp_path / "job", {"frontier": frontier}, clock=clock) as opened:
        opened.schedule_many(f"http://host.test/{page}" for page in range(pages))
        crawl(opened, pages // 3)
    begun = clock.time()
    shutil.copytree(tmp_path / "job", tmp_path / "copy")
    found = middle([simulated(shutil.copytree(tmp_path / "copy", tmp_path / str(n)), begun, seed=n) for n in range(3)])
    with Frontier.open(tmp_path / "job", clock=clock) as opened:
        crawl(opened, pages)
    assert found.seconds == pytest.approx(clock.time() - begun, rel=0.4)
    assert found.overloaded == pytest.approx(found.succeeded / 5, rel=0.5)
    assert (found.succeeded, found.failed) == (pages - pages // 3, 0)


def test_pages_as_far_from_a_seed_as_may_be_lead_nowhere(tmp_path: Path) -> None:
    """A page with 39 links, whose pages lead to further ones that are too far."""
    clock = ManualClock(START)
    with Frontier.open(tmp_path, clock=clock) as frontier:
        frontier.schedule("http://hub.test/")
        for number in range(11):
            (lease,) = frontier.lease(1)
            links = [f"http://hub.test/{page}" for page in range(39)] if number == 0 else []
            frontier.finish(lease, fetch_seconds=0.1, discovered=links)
            clock.advance(60.0)
    copies = [shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-{hops}")) for hops in (1, 2, 3)]
    found = [simulated(copy, clock.time(), max_hops=hops, most=5000) for hops, copy in enumerate(copies, 1)]
    assert (found[0].ended_by, found[0].fetches) == ("finished", 29)
    assert found[1].ended_by == "finished" and 29 < found[1].fetches < found[2].fetches


def calendar(path: Path, fetches: int, *, budget: int) -> float:
    """Crawl a calendar beside a site of 80 pages until it is RETIRED, and return the time.

    Months link to the next one, and to the same one of the next year: half of the links are known, and a year waits.
    """
    clock = ManualClock(START)
    with Frontier.open(path, clock=clock) as frontier:
        first = 12 * gmtime(START).tm_year
        frontier.schedule_many([f"http://cal.test/{first // 12}/01", "http://site.test/0"])
        frontier.adjust(match="host:cal.test", queue_total_budget=budget)
        while leases := frontier.lease(2):
            for lease in leases:
                host, *path_ = lease.uri.url.removeprefix("http://").split("/")
                links = [f"http://site.test/{random % 80}" for random in range(int(path_[0]), int(path_[0]) + 300, 37)]
                if host == "cal.test":
                    month = 12 * int(path_[0]) + int(path_[1])  # the next one
                    links = [f"http://cal.test/{one // 12}/{one % 12 + 1:02}" for one in (month, month + 11)]
                frontier.finish(lease, fetch_seconds=0.5, discovered=links)
            clock.advance(10.0)
        trap = frontier.queue("cal.test")
        assert trap is not None and trap.state is QueueState.RETIRED and trap.queued > 9 and trap.expenditure == fetches
    return clock.time()


@pytest.mark.parametrize("fetches", [50, 100, 200, 300])
def test_a_calendar_of_which_a_year_waits_always_goes_on_too(tmp_path: Path, fetches: int) -> None:
    now = calendar(tmp_path / "job", fetches, budget=fetches - 1)
    for seed in range(1, 6):
        copy = shutil.copytree(tmp_path / "job", tmp_path / str(seed))
        raised = [("queue:cal.test", {"queue_total_budget": fetches + 299})]
        found = simulated(copy, now, changes=raised, seed=seed)
        assert (found.fetches, found.retired, found.endless, found.unsure) == (300, 1, 300, 0)
        assert not found.elsewhere, "all links are on the host of their page"
        assert 10 <= found.stranded <= 13


def test_a_host_that_has_come_to_an_end_is_not_said_to_have_none_in_sight(tmp_path: Path) -> None:
    """Of a site of 80 pages 10 are known: twice as many would still lead on, and it ends nevertheless."""
    random, clock = Random(1), ManualClock(START)
    with Frontier.open(tmp_path, clock=clock) as frontier:
        frontier.schedule("http://site.test/0")
        for _ in range(10):
            (lease,) = frontier.lease(1)
            frontier.finish(lease, discovered=[f"http://site.test/{random.randrange(80)}" for _ in range(8)])
            clock.advance(10.0)
    cut = simulated(shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-cut")), clock.time(), most=12)
    found = simulated(tmp_path, clock.time(), seed=2)
    assert (found.ended_by, found.queued, found.retired) == ("finished", 0, 0)
    assert found.endless == 0 and found.unsure == found.fetches > 12
    assert (cut.ended_by, cut.endless, cut.unsure) == ("fetches", 12, 0)


@pytest.mark.parametrize("ahead", [1, 2])
def test_a_trap_without_end_is_fetched_until_its_budget_is_used_up(tmp_path: Path, ahead: int) -> None:
    """A chain of redirects, or a calendar that links to the next two pages, beside a site that has come to its end."""
    clock = ManualClock(START)
    with Frontier.open(tmp_path, {"frontier": {"queue_total_budget": 400}}, clock=clock) as frontier:
        frontier.schedule_many(["http://trap.test/0", *(f"http://site.test/{page}" for page in range(200))])
        while True:
            clock.advance(10.0)
            leases = frontier.lease(2)
            if not leases:
                break
            for lease in leases:
                host, _, page = lease.uri.url.rpartition("/")
                next_ones = range(int(page) + 1, int(page) + 1 + ahead) if "trap" in host else range(5)
                links = [f"{host}/{number}" for number in next_ones]
                frontier.finish(lease, fetch_seconds=0.5, status=302 if ahead == 1 else 200, discovered=links)
        trap = frontier.queue("trap.test")
        assert trap is not None and trap.expenditure == 401
    raised = [("queue:trap.test", {"queue_total_budget": 1000})]
    found = simulated(tmp_path, clock.time(), changes=raised, seed=1)
    assert (found.fetches, found.retired, found.stranded) == (600, 1, ahead)
    assert found.endless == 600


def test_draws_are_no_history(tmp_path: Path) -> None:
    start = crawled(tmp_path)
    with Reader(tmp_path) as reader, reader.view() as view:
        before = list(view.items(keys.HISTORY))
    assert simulated(tmp_path, start).fetches > 0
    with Reader(tmp_path) as reader, reader.view() as view:
        assert list(view.items(keys.HISTORY)) == before
