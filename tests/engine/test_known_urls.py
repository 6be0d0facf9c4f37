"""Reports of fetches by URL: of what is leased, of what waits, of what is completed, and of what is not known."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from budgetfrontier import Admission, CrawlUri, Frontier, LeaseExpired, QueueState
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.known_urls import Known
from budgetfrontier.errors import FrontierError, PolicyError
from budgetfrontier.settings.policies.canonicalization import Canonicalization
from tests.engine.test_url_table import NONE, START, kept, waits

URL = "http://a.test/1"


def picky(uri: CrawlUri) -> int:
    """A cost policy that fails."""
    if uri.url.endswith("bad"):
        raise ValueError("no cost")
    return 1


def test_a_report_ends_the_lease_and_a_second_one_changes_nothing() -> None:
    with kept() as f:
        f.schedule(URL)
        f.lease()
        assert f.internals.fetched([(CrawlUri(URL), None), (CrawlUri(URL), None)]) == [Known.FINISHED, Known.UNCHANGED]
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.UNCHANGED]
        assert (f.summary().succeeded, f.summary().expenditure, f.summary().in_process) == (1, 1, 0)
        f.check()


def test_reports_of_a_batch_are_taken_in_order() -> None:
    with kept(politeness={"per_queue_concurrency": 9, "min_delay": 0, "delay_factor": 0}) as f:
        f.schedule_many([URL, "http://a.test/2", "http://b.test/3?x=1", "http://c.test/4"])
        f.lease(9)
        again = START + 60
        assert f.internals.fetched(
            [
                (CrawlUri(URL), None),
                (CrawlUri("http://b.test/3?x=1"), None),
                (CrawlUri(URL), again),
                (CrawlUri("http://a.test/2"), None),
                (CrawlUri("http://d.test/new"), None),
                (CrawlUri("http://a.test/2"), None),
            ]
        ) == [Known.FINISHED, Known.FINISHED, Known.CHANGED, Known.FINISHED, Known.ADDED, Known.UNCHANGED]
        f.schedule(CrawlUri("http://b.test/3?x=1", force=True))  # before the record of the first has been deleted
        urls = (URL, "http://a.test/2", "http://b.test/3?x=1", "http://c.test/4", "http://d.test/new")
        assert [waits(f, url) for url in urls] == ["60", "nothing", "0", "0", "nothing"]
        f.check()
        assert (f.summary().succeeded, f.summary().in_process) == (3, 1)


def test_another_key_moves_a_url_that_waits_even_until_the_same_date() -> None:
    with kept() as f:
        for due in (START - 100, START + 100):
            url = f"http://a.test/{due:.0f}"
            assert f.internals.fetched([(CrawlUri(url, queue="first"), due)]) == [Known.ADDED]
            assert f.internals.fetched([(CrawlUri(url, queue="own"), due), (CrawlUri(url), due)]) == [
                Known.CHANGED, Known.UNCHANGED,
            ]  # fmt: skip
            found = f.find_url(url)
            assert found is not None and (found.queue, found.due) == ("own", int(due))
            f.check()


RESTS: list[None] = []


def rest(settings: object, **asked: object) -> float:
    """A politeness policy whose second answer is none."""
    RESTS.append(None)
    return float("nan") if len(RESTS) == 2 else 0.0


def test_a_policy_that_fails_at_the_end_of_a_lease_leaves_it_out() -> None:
    RESTS.clear()
    politeness = {"per_queue_concurrency": 9, "min_delay": 0, "delay_factor": 0}
    with kept(politeness=politeness, politeness_policy=f"{__name__}:rest") as f:
        f.schedule_many([URL, "http://b.test/2", "http://c.test/3"])
        f.lease(9)
        with pytest.raises(PolicyError):
            f.internals.fetched([(CrawlUri(url), None) for url in (URL, "http://b.test/2", "http://c.test/3")])
        f.check()
        assert [waits(f, url) for url in (URL, "http://b.test/2", "http://c.test/3")] == ["nothing", "0", "0"]
        assert f.summary().in_process == 2


def test_a_url_to_be_fetched_again_is_handed_out_from_its_date_on_with_what_was_said_last() -> None:
    clock = ManualClock(START)
    with kept(clock) as f:
        f.schedule(CrawlUri(URL, payload=b"first"))
        f.lease()
        again = CrawlUri(URL, payload=b"second")
        assert f.internals.fetched([(again, START + 60)]) == [Known.FINISHED]
        assert f.internals.fetched([(again, START + 60)]) == [Known.UNCHANGED]
        assert waits(f, URL) == "60"
        clock.advance(59.9)
        assert f.lease() == []
        clock.advance(0.1)
        [lease] = f.lease()
        assert lease.uri.payload == b"second"
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.FINISHED]
        assert waits(f, URL) == "nothing"
        f.check()


def test_a_report_after_the_lease_has_expired_counts_once() -> None:
    clock = ManualClock(START)
    with kept(clock) as f:
        f.schedule_many([URL, "http://a.test/2"])
        f.lease(1, ttl=10)
        clock.advance(10)
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.CHANGED]
        assert (f.summary().expenditure, f.summary().queued) == (1, 1)
        assert [lease.uri.url for lease in f.lease(9)] == ["http://a.test/2"]
        f.check()


def test_a_report_of_what_is_scheduled_for_later_charges_nothing() -> None:
    with kept(ManualClock(START)) as f:
        f.schedule(CrawlUri(URL, not_before=START + 60))
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.CHANGED]
        assert (f.summary().expenditure, f.summary().future) == (0, 0) and waits(f, URL) == "nothing"
        f.check()


def test_a_date_may_be_changed_while_the_url_waits() -> None:
    clock = ManualClock(START)
    with kept(clock) as f:
        assert f.internals.fetched([(CrawlUri(URL), START + 60)]) == [Known.ADDED]
        assert f.internals.fetched([(CrawlUri(URL), START + 30)]) == [Known.CHANGED]
        assert waits(f, URL) == "30"
        assert f.internals.fetched([(CrawlUri(URL), None)]) == [Known.CHANGED]
        assert (waits(f, URL), f.summary().future) == ("nothing", 0)
        assert f.internals.fetched([(CrawlUri(URL), START + 90)]) == [Known.CHANGED]
        clock.advance(90)
        assert len(f.lease()) == 1
        f.check()


def test_a_url_that_is_not_known_becomes_known() -> None:
    with kept() as f:
        assert f.internals.fetched([(CrawlUri(URL), None), (CrawlUri("nonsense"), None)]) == [
            Known.ADDED,
            Known.INVALID,
        ]
        assert waits(f, URL) == "nothing"
        assert f.schedule(URL).value == "DUPLICATE"


def test_what_is_forgotten_may_be_discovered_again() -> None:
    with kept() as f:
        f.schedule_many([URL, "http://a.test/2", "http://a.test/3"])
        f.finish_many(f.lease(1))
        f.lease(1)
        assert f.internals.forget_urls([found.fingerprint for found in f.internals.kept_urls()]) == 3
        assert (f.internals.kept_urls(), f.summary().queued, f.summary().in_process) == ([], 0, 0)
        totals = f.internals.kept_totals()
        assert totals is not None
        assert (totals.active, totals.completed, totals.queues) == (0, 0, 0)
        assert f.schedule_many([URL, "http://a.test/2"]).added == 2
        f.check()


def test_a_date_that_has_passed_is_a_report_like_any_other() -> None:
    with kept() as f:
        f.schedule(URL)
        f.lease()
        report = [(CrawlUri(URL), START - 5)]
        assert f.internals.fetched(report) == [Known.FINISHED]
        assert f.internals.fetched(report) == [Known.UNCHANGED], "it is not charged again"
        assert (waits(f, URL), f.summary().future, f.summary().expenditure) == ("-5", 1, 1)
        assert len(f.lease()) == 1
        f.check()


def test_urls_whose_dates_have_passed_come_in_the_order_of_their_dates() -> None:
    """Also if they are given by several calls, as clients do that take the date for a priority."""
    dates = {"now": START, "first": START - 1e4, "none": 0.0, "middle": START - 500, "before 1970": -5.0}
    with kept(politeness={**NONE, "per_queue_concurrency": 100}) as f:
        for name, date in dates.items():
            f.internals.fetched([(CrawlUri(f"http://a.test/{name.split()[0]}"), date)])
        f.schedule(CrawlUri("http://a.test/scheduled", not_before=START - 9000))
        assert f.next_ready_in() == 0.0
        names = [lease.uri.url.rpartition("/")[2] for lease in f.internals.lease_queues(1, 9)]
        assert names == ["none", "before", "first", "scheduled", "middle", "now"]
        f.check()


def test_a_url_that_was_seen_elsewhere_is_completed_and_may_wait_for_a_date() -> None:
    with kept() as f:
        waiting = CrawlUri("http://a.test/forced", force=True)  # it leaves no trace among those seen
        f.schedule(waiting)
        tally = f.mark_seen([URL, CrawlUri("http://a.test/2", queue="own"), "http://a.test/forced"], charge=True)
        assert tally.added == 3
        assert [waits(f, url) for url in (URL, "http://a.test/2", waiting.url)] == ["nothing", "nothing", "0"]
        found = f.find_url("http://a.test/2")
        assert found is not None and found.queue == "own"
        f.check()
        assert f.internals.fetched([(CrawlUri(URL), None), (CrawlUri(URL), START + 60)]) == [
            Known.UNCHANGED,
            Known.CHANGED,
        ]
        assert (waits(f, URL), f.summary().future) == ("60", 1)
        f.check()


def test_a_queue_that_its_worker_has_retired_stays_so_whatever_is_forgotten() -> None:
    with kept() as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(4)])
        f.internals.regulate("a.test", max_completed=3)
        [lease] = f.lease(1)
        f.finish(lease, retire_queue=True)
        found = [each for each in f.internals.kept_urls() if each.due is None]
        assert f.internals.forget_urls([found[0].fingerprint]) == 1
        assert f.internals.forget_urls([f.internals.kept_urls()[0].fingerprint]) == 1
        queue = f.queue("a.test")
        assert queue is not None and queue.state is QueueState.RETIRED
        f.check()


def test_a_queue_is_reset_as_if_it_were_new() -> None:
    with kept(politeness={**NONE, "per_queue_concurrency": 100}) as f:
        f.schedule_many([f"http://a.test/{n}" for n in range(9)])
        f.internals.regulate("a.test", interval=100.0, max_completed=1, total_budget=0)
        assert len(f.internals.lease_queues(1)) == 1
        f.snooze("a.test", until=START + 3600)
        assert f.internals.reset_queue("a.test") and not f.internals.reset_queue("b.test")
        assert len(f.internals.lease_queues(1, 5)) == 4
        queue = f.queue("a.test")
        assert queue is not None
        assert (queue.interval, queue.max_completed, queue.own_budget, queue.block) == (None, 0, None, 0)
        f.check()


def test_a_known_url_needs_no_room_and_an_unknown_one_is_told_to_have_none() -> None:
    with kept(max_queued=2) as f:
        f.schedule_many([URL, "http://a.test/2"])
        again = START + 60
        assert f.internals.fetched([(CrawlUri("http://b.test/"), again), (CrawlUri(URL), again)]) == [
            Known.FULL,
            Known.CHANGED,
        ]
        f.schedule("http://a.test/3")
        assert f.internals.fetched([(CrawlUri(URL), None), (CrawlUri(URL), START)]) == [Known.CHANGED, Known.CHANGED]
        assert (waits(f, URL), f.summary().queued, f.summary().full) == ("0", 2, 1)
        assert f.summary().future == 1, "until the next lease, which takes what is due in the order of its dates"
        f.check()


def test_a_policy_that_fails_changes_nothing_of_that_url_and_ends_the_reports() -> None:
    with kept(cost_policy="tests.engine.test_known_urls:picky") as f:
        bad, later = "http://a.test/bad", START + 60
        f.internals.fetched([(CrawlUri(bad, cost=1), None)])
        f.schedule_many([URL, "http://a.test/2"])
        with pytest.raises(PolicyError):
            f.internals.fetched([(CrawlUri(URL), later), (CrawlUri(bad), later), (CrawlUri("http://a.test/2"), later)])
        assert [waits(f, url) for url in (URL, bad, "http://a.test/2")] == ["60", "nothing", "0"]
        f.check()
        assert len(f.lease(9)) == 1
        f.commit()


def test_a_canonical_form_that_fails_afterwards_closes_the_frontier_as_of_its_last_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PolicyError in the middle of an operation would leave half of it."""
    with kept(path=tmp_path / "frontier") as f:
        f.schedule_many([URL, "http://a.test/2"])

    def fails(policy: Canonicalization, prefix: str) -> str:
        raise ValueError("no form")

    monkeypatch.setattr(Canonicalization, "authority", fails)
    f = Frontier.open(tmp_path / "frontier", clock=ManualClock(START))
    [lease] = f.lease()
    f.finish(lease)
    with pytest.raises(FrontierError, match=r"has failed for http://a\.test/1, for which it had a form before"):
        f.commit()
    monkeypatch.undo()
    with Frontier.open(tmp_path / "frontier", clock=ManualClock(START)) as f:
        f.check()
        assert waits(f, URL) == "0"


def put_again(f: Frontier, *uris: CrawlUri | str) -> dict[str, int]:
    """Give the command of `import --force`; return what it counts."""
    given = [CrawlUri(each) if isinstance(each, str) else each for each in uris]
    encoded = [msgspec.msgpack.encode(msgspec.structs.replace(each, force=True)) for each in given]
    entry = f.internals.apply(Command("schedule", {"uris": encoded, "in_place": True}, "me", ""))
    if entry.error is not None:
        raise FrontierError(entry.error)
    return {name: entry.effect[name] for name in ("added", "duplicate", "full", "invalid") if entry.effect[name]}


def test_a_url_that_is_put_again_has_one_place() -> None:
    clock = ManualClock(START)
    with kept(clock, max_queued=4, politeness={**NONE, "per_queue_concurrency": 9}) as f:
        leased, waiting, dated, done = (f"http://a.test/{n}" for n in range(4))
        f.schedule(leased)
        [lease] = f.lease(ttl=60)
        f.schedule_many([waiting, done])
        f.internals.fetched([(CrawlUri(done), None), (CrawlUri(dated), START + 60)])
        assert put_again(f, leased, waiting, waiting, dated, "nonsense") == {"added": 3, "duplicate": 1, "invalid": 1}
        assert (f.summary().queued, f.summary().future, f.summary().expenditure) == (3, 0, 1)
        assert put_again(f, done, done) == {"added": 2}
        assert put_again(f, "http://b.test/") == {"full": 1}
        assert [waits(f, url) for url in (leased, waiting, dated, done)] == ["0"] * 4
        f.check()
        others = {each.uri.url for each in f.lease(9)}
        assert others == {waiting, dated, done}
        assert f.internals.fetched([(CrawlUri(url), None) for url in (leased, *others)]) == [Known.FINISHED] * 4
        assert (f.summary().in_process, f.summary().queued, f.summary().expenditure) == (0, 0, 5)
        clock.advance(61)
        assert f.lease(9) == []
        with pytest.raises(LeaseExpired):
            f.finish(lease)
        assert put_again(f, "http://c.test/") == {"added": 1}
        found = [f.schedule(url) for url in ("http://b.test/", "http://c.test/")]
        assert found == [Admission.ADDED, Admission.DUPLICATE], "what was FULL has left no trace"
        f.check()


@pytest.mark.parametrize("update_priority", [False, True])
def test_what_is_put_again_comes_as_it_is_given_in_its_queue_or_another(update_priority: bool) -> None:
    politeness = {**NONE, "per_queue_concurrency": 9}
    with kept(ManualClock(START), update_priority=update_priority, politeness=politeness) as f:
        f.schedule_many([CrawlUri(URL, queue="own", payload=b"first"), "http://a.test/2", "http://a.test/3"])
        f.set_queue("own", max_completed=1)
        assert put_again(f, CrawlUri(URL, payload=b"second", priority=3), CrawlUri("http://a.test/2", queue="own")) == {
            "added": 2
        }
        assert put_again(f, CrawlUri("http://a.test/3", not_before=START + 60)) == {"added": 1}
        assert {(each.queue, each.uri.url, each.uri.payload) for each in f.lease(9)} == {
            ("own", URL, b"second"), ("own", "http://a.test/2", None),
        }  # fmt: skip
        assert waits(f, "http://a.test/3") == "60"
        assert put_again(f) == {}
        f.check()


def test_a_policy_that_fails_leaves_all_that_is_put_again_where_it_was() -> None:
    with kept(cost_policy=f"{__name__}:picky") as f:
        f.schedule_many([URL, CrawlUri("http://a.test/bad", cost=1)])
        with pytest.raises(FrontierError, match="no cost"):
            put_again(f, CrawlUri(URL, priority=3), "http://a.test/bad")
        assert (f.summary().queued, f.summary().scheduled) == (2, 2)
        f.check()


def test_what_programs_force_is_a_request_in_its_own_right() -> None:
    with kept(politeness={**NONE, "per_queue_concurrency": 9}) as f:
        f.schedule_many([CrawlUri(URL, force=True, payload=b"%d" % n) for n in range(3)])
        leases = f.lease(9)
        assert sorted(each.uri.payload or b"" for each in leases) == [b"0", b"1", b"2"]
        f.finish_many(leases)
        assert (f.summary().succeeded, waits(f, URL)) == (3, "nothing")
        f.check()
