"""`frontier.update_priority`: a duplicate makes the URI that waits more urgent, and changes nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Directive, Finish, Frontier, Outcome, Settings, SettingsError
from budgetfrontier.clock import ManualClock
from budgetfrontier.settings.schema import FrontierSettings
from tests.engine.test_url_table import START, kept

HOST = "http://a.test/"


def updating(clock: ManualClock | None = None, path: Path | str = ":memory:", **frontier: Any) -> Frontier:
    return kept(clock, path, **({"update_priority": True} | frontier))


def order(f: Frontier) -> str:
    """Lease and finish all: the last letters of their URLs, in order."""
    found = ""
    while leases := f.lease():
        found += leases[0].uri.url[-1]
        f.finish(leases[0])
    f.check()
    return found


WAYS: list[Callable[[Frontier, list[str | CrawlUri]], list[Admission]]] = [
    lambda f, uris: [f.schedule(uri) for uri in uris],
    lambda f, uris: f.schedule_each(uris),
    lambda f, uris: [Admission.DUPLICATE] * f.schedule_many(uris).duplicate,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("limits", [{}, {"max_queued": 4}])
def test_a_more_urgent_duplicate_goes_to_the_front(way: Any, limits: dict[str, Any]) -> None:
    with updating(**limits) as f:
        f.schedule_many([HOST + name for name in "abcd"])
        told = way(f, [CrawlUri(HOST + "c", priority=5), CrawlUri(HOST + "d", directive=Directive.HIGH), HOST + "b"])
        assert told == [Admission.DUPLICATE] * 3
        assert f.summary().duplicates == 3 and f.summary().queued == 4
        assert order(f) == "dcab"


def test_the_first_of_a_batch_may_be_overtaken_by_the_next() -> None:
    with updating() as f:
        f.schedule_many([HOST + "a", HOST + "b", CrawlUri(HOST + "b", priority=1)])
        assert order(f) == "ba"


def test_nothing_is_made_to_wait_longer_and_age_cost_and_payload_stay() -> None:
    with updating(cost_policy="unit") as f:
        f.schedule_many([CrawlUri(HOST + "a", priority=3, payload=b"first", cost=7), CrawlUri(HOST + "b", priority=3)])
        f.schedule(CrawlUri(HOST + "a", priority=2))
        f.schedule(CrawlUri(HOST + "a", priority=4, payload=b"second", cost=1, queue="elsewhere"))
        f.schedule(CrawlUri(HOST + "b", priority=4))
        [lease] = f.lease()
        assert (lease.uri.url, lease.uri.priority, lease.uri.payload) == (HOST + "b", 4, None)  # it costs less
        f.finish(lease)
        [lease] = f.lease()
        assert (lease.uri.priority, lease.uri.payload, lease.cost, lease.queue) == (4, b"first", 7, "a.test")
        f.finish(lease)


def test_a_plain_url_raises_what_was_put_behind_the_others() -> None:
    with updating() as f:
        f.schedule_many([CrawlUri(HOST + "a", priority=-5), HOST + "b"])
        assert f.schedule(HOST + "a") is Admission.DUPLICATE
        assert order(f) == "ab"


def test_what_is_leased_done_or_dead_stays_as_it_is() -> None:
    with updating() as f:
        f.schedule_many([HOST + name for name in "abcd"])
        leases = [f.lease()[0]]
        assert f.schedule(CrawlUri(HOST + "a", priority=1)) is Admission.DUPLICATE
        f.finish(leases[0], Outcome.RETRY, delay=0)
        assert order(f)[0] == "a"
        f.schedule(HOST + "e")
        [lease] = f.lease()
        f.finish(lease, Outcome.DEAD)
        for name in "abcde":
            assert f.schedule(CrawlUri(HOST + name, priority=9)) is Admission.DUPLICATE
        assert order(f) == "" and len(f.dead_letters()) == 1


def test_what_waits_for_a_time_goes_first_when_it_has_come() -> None:
    clock = ManualClock(START)
    with updating(clock) as f:
        f.schedule_many([CrawlUri(HOST + name, not_before=START + 10) for name in "ab"])
        assert f.schedule(CrawlUri(HOST + "b", priority=1)) is Admission.DUPLICATE
        assert order(f) == "" and f.summary().future == 2
        clock.advance(10)
        assert order(f) == "ba"


def test_links_of_a_page_and_batches_that_were_atomic_count_too() -> None:
    with updating() as f:
        f.schedule_many([HOST + name for name in "abc"])
        [lease] = f.lease()
        f.finish_many([Finish(lease, discovered=[CrawlUri(HOST + "c", priority=1)])])
        assert order(f) == "cb"


def test_records_that_were_read_ahead_are_read_again(tmp_path: Path) -> None:
    with updating(path=tmp_path) as f:
        f.schedule_many([f"{HOST}{number}" for number in range(50)])
        for _ in range(10):
            f.finish(f.lease()[0])
        f.schedule_many([CrawlUri(f"{HOST}{number}", priority=number) for number in (20, 45, 12)])
        assert [f.lease()[0].uri.url for _ in range(1)] == [f"{HOST}45"]
    with updating(path=tmp_path) as f:
        urls = []
        while leases := f.lease():
            urls.append(leases[0].uri.url)
            f.finish(leases[0])
        assert urls[:4] == [f"{HOST}{number}" for number in (45, 20, 12, 10)] and len(urls) == 40
        f.check()


def test_without_the_setting_a_duplicate_changes_nothing() -> None:
    with kept() as f:
        f.schedule_many([HOST + "a", HOST + "b"])
        f.schedule(CrawlUri(HOST + "b", priority=9))
        assert order(f) == "ab"


def test_it_is_refused_without_the_urls_and_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"frontier\.keep_urls: true"):
        Settings.from_dict({"frontier": {"update_priority": True}})
    with pytest.raises(SettingsError, match=r"frontier\.keep_urls: true"):
        Frontier.open(tmp_path, Settings(frontier=FrontierSettings(update_priority=True)))


def test_it_may_be_set_later(tmp_path: Path) -> None:
    with kept(path=tmp_path) as f:
        f.schedule_many([HOST + "a", HOST + "b"])
    with updating(path=tmp_path) as f:
        f.schedule(CrawlUri(HOST + "b", priority=9))
        assert order(f) == "ba"
