"""Wrong arguments of public calls: an error in words, and the frontier stays open, with all that was not committed."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from budgetfrontier import Admission, CrawlUri, Finish, Frontier, FrontierError, Lease, Outcome, Settings
from budgetfrontier.aio import Scheduler
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.settings.overrides import Override
from budgetfrontier.storage.reader import Reader
from tests.support import START, memory, on_disk, one, pages, whole

HOST = "a.test"


class Text(str):
    """Text of a subclass, such as `numpy.str_`, and the results of lxml and of BeautifulSoup."""


class Whole(IntEnum):
    """A whole number of a subclass."""

    SEVEN = 7


CALLS: dict[str, Callable[[Frontier, Any], object]] = {
    "give_back": lambda f, value: f.give_back([value]),
    "finish": lambda f, value: f.finish(value),
    "finish_many": lambda f, value: f.finish_many([value]),
    "finish_many, lease": lambda f, value: f.finish_many([Finish(value)]),
    "landed": lambda f, value: f.landed(value),
    "renew": lambda f, value: f.renew(value),
    "settings_for": lambda f, value: f.internals.settings_for(value),
    "queue": lambda f, value: f.queue(value),
    "lease_queues": lambda f, value: f.internals.lease_queues(1, queue=value),
    "queue_keys": lambda f, value: f.internals.queue_keys(value),
    "kept_totals": lambda f, value: f.internals.kept_totals(value),
    "kept_urls": lambda f, value: f.internals.kept_urls(value),
    "forget_urls": lambda f, value: f.internals.forget_urls([value]),
    "find_url": lambda f, value: f.find_url(value),
    "fetched": lambda f, value: f.internals.fetched([(value, None)]),
    "schedule, queue": lambda f, value: f.schedule(CrawlUri("https://z.test/", queue=value)),
    "schedule, source": lambda f, value: f.schedule(CrawlUri("https://z.test/", source=value)),
    "schedule, via": lambda f, value: f.schedule(CrawlUri("https://z.test/", via=value)),
    "schedule, url": lambda f, value: f.schedule(CrawlUri(value)),
    "schedule, priority": lambda f, value: f.schedule(CrawlUri("https://z.test/", priority=value)),
    "schedule, cost": lambda f, value: f.schedule(CrawlUri("https://z.test/", cost=value)),
    "atomic": lambda f, value: f.atomic(note=value).__enter__(),
    "verdict": lambda f, value: f.verdict(rate=value),
    "postpone_commit": lambda f, value: f.internals.postpone_commit(value),
    "regulate, total_budget": lambda f, value: f.internals.regulate(HOST, total_budget=value),
    "regulate, max_completed": lambda f, value: f.internals.regulate(HOST, max_completed=value),
    "regulate, interval": lambda f, value: f.internals.regulate(HOST, interval=value),
    "regulate, key": lambda f, value: f.internals.regulate(value, total_budget=3),
    "set_queue, max_completed": lambda f, value: f.set_queue(HOST, max_completed=value),
    "retire": lambda f, value: f.retire(value),
    "retire, reason": lambda f, value: f.retire(HOST, reason=value, who=value),
    "pause": lambda f, value: f.pause(reason=value),
    "adjust": lambda f, value: f.adjust(match=value, queue_total_budget=5),
    "adjust, value": lambda f, value: f.adjust(queue_total_budget=value),
    "delete": lambda f, value: f.delete(queue=value),
    "delete, pattern": lambda f, value: f.delete(pattern=value),
    "finish, reason": lambda f, value: f.finish(one(f), reason=value),
    "finish, discovered": lambda f, value: f.finish(one(f), discovered=[value]),
    "withdraw": lambda f, value: f.withdraw(value),
    "apply": lambda f, value: f.internals.apply(Command("retire", {"queue": value}, "me", "")),
}
VALUES: list[Any] = [
    None, 5, True, 1.5, "x", "", "\ud800", "x" * 600, b"x", b"", b"x" * 600, [], {}, Decimal(1), Text(HOST),
    Whole.SEVEN, Lease([], HOST, CrawlUri("https://a.test/"), 1, 0.0, 1), object(),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_no_wrong_argument_closes_the_frontier_or_damages_it(call: str) -> None:
    for value in VALUES:
        with memory(keep_urls=True, concurrency=9) as f:
            f.schedule_many(pages("A", 3))
            try:
                CALLS[call](f, value)
            except (ValueError, TypeError, FrontierError) as e:
                assert str(e) and "attribute" not in str(e)
            if f._guard.commits.in_batch:
                continue
            f.check()
            f.commit()
            assert f.summary().scheduled >= 3
            f.check()


MISTAKES: list[tuple[Callable[[Any], Any], str]] = [
    (lambda f: f.schedule(b"https://a.test/"), "a URI is a str or a CrawlUri, not bytes; write its decode()"),
    (lambda f: f.schedule(one(f)), "a URI is a str or a CrawlUri, not Lease; write its uri"),
    (lambda f: f.schedule_many("https://a.test/"), "this takes an iterable of URIs; one alone goes into a list"),
    (lambda f: f.schedule_each(None), "this takes an iterable of URIs, such as a list, not NoneType"),
    (lambda f: f.finish(one(f), discovered="https://a.test/"), "an iterable of URIs; one alone goes into a list"),
    (lambda f: f.lease(True), "count is a whole number, not True"),
    (lambda f: f.lease("5"), "count is a whole number, not '5'"),
    (lambda f: f.finish(one(f).id), "finish takes a Lease, not int; give the one that `lease` returned"),
    (lambda f: f.finish(one(f), 200), "an outcome is an Outcome, such as Outcome.SUCCESS, or its name, not int"),
    (lambda f: f.finish(one(f), size=True), "size is a number of bytes below"),
    (lambda f: f.give_back(one(f)), "this takes an iterable of leases; one alone goes into a list"),
    (lambda f: f.finish_many(5), "such as a list, not int"),
    (lambda f: f.queue(5), "a queue key is a str, not int"),
    (lambda f: f.queue(f.queue(HOST)), "a queue key is a str, not QueueRecord; write its queue"),
    (lambda f: f.snooze(HOST, until=datetime(2030, 1, 1)), "until is a number, not a datetime; write its timestamp()"),
    (lambda f: f.set_queue(HOST, interval=timedelta(1)), "not a timedelta; write its total_seconds()"),
    (lambda f: f.set_queue(HOST, max_completed="5"), "a limit is a whole number of URLs"),
    (lambda f: f.audit(limit=True), "limit is a whole number of at least 0, or None, not True"),
    (lambda f: f.withdraw(f.adjust(queue_total_budget=9)), "not Adjustment; write its id"),
    (lambda f: f.undo((f.pause(), f.audit()[-1])[1]), "not AuditEntry; write its id"),
    (lambda f: f.undo(1, force="no"), "force is True or False, not 'no'"),
    (lambda f: f.finish(one(f), retire_queue="False"), "retire_queue is True or False, not 'False'"),
    (lambda f: f.finish(one(f), reason=5), "reason is a str, not int"),
    (lambda f: f.finish(one(f), reason=None), "reason is a str, not NoneType"),
    (lambda f: f.finish(one(f), reason=b"x"), "reason is a str, not bytes; write its decode()"),
    (lambda f: f.finish(one(f), discovered=None), "this takes an iterable of URIs, such as a list, not NoneType"),
    (lambda f: f.finish(one(f), size=None), "size is a number of bytes below"),
    (lambda f: f.finish(one(f), size=""), "a number of bytes below 1,099,511,627,776, not ''"),
    (lambda f: f.finish(one(f), size=[]), "a number of bytes below 1,099,511,627,776, not []"),
    (lambda f: f.finish(one(f), status=None), "status is that of an HTTP response, such as 404, not None"),
    (lambda f: f.finish(one(f), retire_queue=None), "retire_queue is True or False, not None"),
    (lambda f: f.finish(one(f), novel="no"), "novel is True, False or None, not 'no'"),
    (lambda f: f.finish(one(f), novel=1), "novel is True, False or None, not 1"),
    (lambda f: f.finish(one(f), address=None), "address is a str, not NoneType"),
    (lambda f: f.finish_many([Finish(one(f), address=5)]), "address is a str, not int"),  # type: ignore[arg-type]
    (lambda f: f.finish_many([Finish(one(f), retire_queue=1)]), "retire_queue is True or False, not 1"),  # type: ignore[arg-type]
    (lambda f: f.mark_seen([], charge="false"), "charge is True or False, not 'false'"),
    (lambda f: f.adjust(queue_total_budget=9, dry_run=[]), "dry_run is True or False, not []"),
    (lambda f: f.delete(queue="*", dry_run=None), "dry_run is True or False, not None"),
    (lambda f: f.delete(queue="*", for_good="no"), "for_good is True or False, not 'no'"),
    (lambda f: f.drop_dead_letters(for_good="no"), "for_good is True or False, not 'no'"),
    (lambda f: type(f).open(":memory:", keep_leases="x"), "keep_leases is True or False, not 'x'"),
    (lambda f: type(f).open(":memory:", partition=True), "partition is a whole number, not True"),
    (lambda f: type(f).open(":memory:", program=object()), "program is a str, not object"),
    (lambda f: f.retire(HOST, reason=5), "reason is a str, not int"),
    (lambda f: f.pause(who=b"me"), "who is a str, not bytes; write its decode()"),
    (lambda f: f.adjust(match=5, queue_total_budget=1), "match is a str, not int"),
    (lambda f: f.delete(pattern=re.compile("x")), "pattern is a str, not Pattern"),
    (lambda f: f.replay(1.5), "dead letters or their ids, whole numbers, not 1.5"),
    (lambda f: f.internals.queue_key("https://a.test/"), "this takes a CrawlUri, not str"),
    (lambda f: f.internals.rest(one(f), HOST), "this takes a CrawlUri, not Lease; write its uri"),
    (lambda f: f.internals.apply("retire"), "a command is a Command, not str"),
    (lambda f: type(f).open(None), "a path is a str or a Path, not NoneType"),
    (lambda f: type(f).open(":memory:", clock=5), "a clock has a method `time`"),
    (lambda f: type(f).open(":memory:", hooks=object()), "not object; one alone goes into a list"),
    (lambda f: type(f.settings).from_dict("crawl.yaml"), "from_dict takes a dict, not str; write from_yaml for a file"),
    (lambda f: type(f.settings).from_yaml({}), "from_yaml takes the path of a file, not dict; write from_dict"),
]


@pytest.mark.parametrize(("mistake", "told"), MISTAKES, ids=[told for _, told in MISTAKES])
def test_a_value_of_another_type_is_a_type_error_with_what_to_write(mistake: Callable[[Any], Any], told: str) -> None:
    with memory(concurrency=9) as f:
        f.schedule_many(pages("A", 3))
        with pytest.raises(TypeError, match=re.escape(told)) as refused:
            mistake(f)
        assert isinstance(refused.value, FrontierError)
        assert f.summary().queued == 3  # nothing was ended, deleted or retired
        f.check()


WRONG_FIELDS: dict[str, Any] = {
    "method": 5, "hops": None, "via": 5, "source": b"x", "queue": 5, "body": "x", "force": "no", "priority": "high",
    "cost": 1.5, "directive": 9, "payload": "text", "headers": {"A": 5}, "meta": object(), "not_before": "soon",
    "precedence": "first",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_FIELDS)
def test_a_field_of_a_wrong_type_is_named(name: str) -> None:
    assert {*CrawlUri.__struct_fields__} - {"url"} == {*WRONG_FIELDS}
    with memory() as f:
        given = CrawlUri("https://a.test/", **{"directive": 2, "meta": {"a": 1}, name: WRONG_FIELDS[name]})
        assert f.schedule(given) is Admission.INVALID
        assert f.schedule_many([given, "https://b.test/"]).reasons == {name: 1}
        assert f.mark_seen([given]).reasons == {name: 1}
        assert f.summary().invalid_reasons == {name: 2}  # `mark_seen` counts in its tally alone


def _queue() -> LeaseQueue:
    return LeaseQueue(memory())


def test_a_rate_is_a_number() -> None:
    with memory() as f:
        for rate in (float("nan"), -1.0, float("inf")):
            with pytest.raises(ValueError, match="rate is a number of URIs a second"):
                f.verdict(rate=rate)


def test_queues_and_schedulers_say_which_type_they_take() -> None:
    given: Any = 5
    calls: dict[str, Callable[[], object]] = {
        "a path is a str or a Path, not int": lambda: Scheduler(given),
        "maxsize is a whole number, not 'x'": lambda: Scheduler(":memory:", maxsize="x"),  # type: ignore[arg-type]
        "hooks is a list": lambda: Scheduler(":memory:", hooks=given),
        "a Settings or a dict, not int": lambda: Scheduler(":memory:", given),
        "an address is a str, not int": lambda: LeaseQueue.connect(given),
        "a path is a str or a Path, not int;?": lambda: LeaseQueue.open(given),
        "a path is a str or a Path, not int$": lambda: Reader(given),
        r'write Frontier.open\("job"\), not Frontier\(...\)': lambda: Frontier("job"),  # type: ignore[arg-type]
        r'write LeaseQueue.open\("job"\), not LeaseQueue\(...\)': lambda: LeaseQueue("job"),  # type: ignore[arg-type]
        "this takes an iterable of sizes, such as a list, not int": lambda: _queue().ack_many([], sizes=given),
    }
    for told, call in calls.items():
        with pytest.raises(TypeError, match=told) as refused:
            call()
        assert isinstance(refused.value, FrontierError)


@pytest.mark.parametrize("call", ["finish", "landed", "renew", "give_back", "settings_for"])
def test_the_id_of_a_lease_is_no_lease(call: str) -> None:
    with memory() as f:
        f.schedule_many(pages("A", 1))
        with pytest.raises(TypeError, match=f"{call} takes a Lease, not int"):
            CALLS[call](f, one(f).id)


@pytest.mark.parametrize(
    "asked", [{"total_budget": True}, {"max_completed": 1.5}, {"max_completed": True}, {"total_budget": 5.0}]
)
def test_what_is_no_whole_number_is_refused(asked: dict[str, Any], tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=True) as f:
        f.schedule_many(pages("A", 1))
        with pytest.raises(FrontierError, match="whole number"):
            f.internals.regulate(HOST, **asked)
        if "max_completed" in asked:
            with pytest.raises(FrontierError, match="whole number"):
                f.set_queue(HOST, **asked)
        assert f.internals.regulate(HOST, total_budget=Whole.SEVEN, max_completed=Whole.SEVEN)
    with Frontier.open(tmp_path / "frontier", clock=ManualClock(START)) as f:
        assert (q := f.queue(HOST)) and (q.own_budget, q.max_completed) == (7, 7)
        whole(f)


def test_text_of_a_subclass_is_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("groups")
    module.group = lambda uri: Text("news")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "groups", module)
    with on_disk(tmp_path, queue_assignment_policy="groups:group") as f:
        assert f.schedule_many([Text("https://a.test/"), CrawlUri(Text("https://b.test/"), via=Text("x"))]).added == 2
        given = CrawlUri("https://c.test/", queue=Text("own"), source=Text("s"), meta={"a": Text("b")})
        assert f.schedule(given) is Admission.ADDED
        assert f.retire(Text("own"), reason=Text("why"), who=Text("me"))
        f.adjust(match=Text("host:a.test"), queue_total_budget=Whole.SEVEN, reason=Text("less"))
        keys = f.internals.queue_keys()
        lease = one(f)
        assert (keys, type(lease.queue)) == (["news", "own"], str)
        f.finish(lease, Outcome.DEAD, reason=Text("gone"))
        f.commit()
        assert [(e.who, e.reason) for e in f.audit()] == [("me", "why"), ("api", "less")]
        whole(f)


def test_a_note_is_refused_before_the_batch() -> None:
    with memory() as f:
        with pytest.raises(TypeError, match="a note is bytes, not str"):
            f.atomic(note="x")  # type: ignore[arg-type]
        with f.atomic() as batch, pytest.raises(TypeError, match="a note is bytes"):
            batch.note = "x"  # type: ignore[assignment]
        assert f.note is None


def test_what_is_returned_and_given_is_not_in_force() -> None:
    given = Settings(overrides=(Override(match="host:b.test", set={"queue_total_budget": 9}),))
    with Frontier.open(":memory:", given, clock=ManualClock(START)) as f:
        f.schedule_many(pages("AB", 2))
        f.adjust(match="host:a.test", queue_total_budget=500)
        for override in [*f.adjustments, *f.settings.overrides, *given.overrides]:
            override.set["queue_total_budget"] = 0
        f.adjust(match="host:other.test", precedence=5)
        assert (a := f.queue("a.test")) and (b := f.queue("b.test"))
        assert (a.total_budget, b.total_budget) == (500, 9)
        assert f.adjustments[0].set == {"queue_total_budget": 500}
