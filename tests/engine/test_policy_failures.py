"""Policies that raise, or give what is no answer: the call raises PolicyError, and nothing has changed."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Frontier, Lease, Outcome, Settings
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine.commands import runner
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.errors import PolicyError
from budgetfrontier.leasing import LeaseQueue
from budgetfrontier.storage import keys
from budgetfrontier.testing import crash
from tests.support import START, kernel, make_settings, on_disk, one, pages

pytestmark = pytest.mark.usefixtures("same_ids")

URL = "http://a.test/1"


class Fault:
    """What goes wrong: the `after`th call from now on of the policies of a kind raises that, or gives it."""

    def __init__(self) -> None:
        self.disarm()

    def arm(self, kind: str, what: object, after: int = 1, *, lasting: bool = False) -> None:
        self.kind, self.what, self.after, self.lasting = kind, what, after, lasting

    def disarm(self) -> None:
        self.arm("", None)
        self.struck = False

    def meet(self, kind: str, good: object) -> Any:
        if kind != self.kind:
            return good
        self.after -= 1
        if self.after and not (self.lasting and self.after < 0):
            return good
        self.struck = True
        if isinstance(self.what, Exception):
            raise self.what
        return self.what


FAULT = Fault()


@pytest.fixture(autouse=True)
def no_fault() -> Iterator[None]:
    FAULT.disarm()
    yield
    FAULT.disarm()


def cost(uri: CrawlUri) -> Any:
    return FAULT.meet("cost", len(uri.url) % 3)


def key(uri: CrawlUri) -> Any:
    return FAULT.meet("assignment", uri.url.split("/")[2])


def precedence(uri: CrawlUri, *, precedence: int) -> Any:
    return FAULT.meet("precedence", precedence + len(uri.url) % 2)


def rest(settings: Any, *, fetch_seconds: float | None, crawl_delay: float | None, random: Any) -> Any:
    return FAULT.meet("politeness", 1 if fetch_seconds is None else 2.5)


def form(href: str) -> Any:
    return FAULT.meet("canonicalization", href.lower())


POLICIES: dict[str, Any] = {
    "cost_policy": f"{__name__}:cost",
    "queue_assignment_policy": f"{__name__}:key",
    "precedence_policy": f"{__name__}:precedence",
    "politeness_policy": f"{__name__}:rest",
    "canonicalization_policy": f"{__name__}:form",
}
NO_NUMBER = ["dear", None, math.nan, math.inf, -math.inf, 0.9, [1], 1j]
NONSENSE: dict[str, list[Any]] = {
    "cost": [*NO_NUMBER, -1, -0.5],
    "assignment": [None, 7, b"a.test", ["a.test"]],
    "precedence": ["high", None, 0.5, math.nan, math.inf, [1]],
    "politeness": ["soon", "3", None, math.nan, math.inf, -1, -0.1, 1j, 10**400],
    "canonicalization": [None, "", "no path", b"http://a.test/", "http://a.test/\ud800"],
}
ERRORS = [ValueError("no"), KeyError("no"), ZeroDivisionError(), struct.error("no"), AssertionError(), OSError("no")]
ERRORS += [msgspec.DecodeError("no"), RecursionError(), UnicodeDecodeError("utf-8", b"", 0, 1, "no")]
FAULTS = [(kind, what) for kind in NONSENSE for what in [*NONSENSE[kind], *ERRORS]]


def tables(f: Frontier) -> dict[str, list[tuple[bytes, bytes]]]:
    """All that would be committed now, but for the time of the last commit: an empty answer to `lease` commits, too."""
    tables = kernel(f).tables
    tables.counters.time = START
    tables.flush()
    return {name: list(tables.env.txn.cursor(tables.env.db[name])) for name in keys.TABLES}


def opened(clock: ManualClock | None = None, **options: Any) -> Frontier:
    return Frontier.open(":memory:", make_settings(**(POLICIES | options)), clock=clock or ManualClock(START))


def calls(f: Frontier, kind: str) -> list[Callable[[], object]]:
    """The calls in which a policy of a kind is asked."""
    (lease,) = kernel(f).tables.leases.out.values()
    if kind == "politeness":
        return [lambda: f.finish(lease), lambda: f.landed(lease)]
    batch: list[Any] = ["http://c.test/9", CrawlUri("http://c.test/8"), "http://d.test/"]
    return [
        lambda: f.schedule(batch[0]),
        lambda: f.schedule_many(batch),
        lambda: f.schedule_each(batch),
        lambda: f.mark_seen(batch, charge=True),
        lambda: f.finish(lease, fetch_seconds=1.0, discovered=batch, delay=5.0),
        *([lambda: f.lease(1)] if kind == "precedence" else []),
    ]


@pytest.mark.parametrize(("kind", "what"), FAULTS, ids=lambda given: repr(given)[:30])
def test_the_call_raises_and_nothing_has_changed(kind: str, what: object) -> None:
    with opened() as f:
        f.schedule_many(pages("AB", 2))
        one(f)
        before = tables(f)
        for call in calls(f, kind):
            FAULT.arm(kind, what)
            with pytest.raises(PolicyError, match="nothing has changed for this URI: fix the policy") as caught:
                call()
            error = caught.value
            assert error.policy and error.policy.endswith(POLICIES_BY_KIND[kind])
            assert error.url and error.url.startswith("http")
            assert error.value is what
            assert error.url in str(error) and error.policy in str(error)
            assert tables(f) == before
        for call in calls(f, kind):
            call()
            break
        f.check()


POLICIES_BY_KIND = {
    "cost": POLICIES["cost_policy"],
    "assignment": POLICIES["queue_assignment_policy"],
    "precedence": POLICIES["precedence_policy"],
    "politeness": POLICIES["politeness_policy"],
    "canonicalization": POLICIES["canonicalization_policy"],
}


class Index:
    """A whole number of somebody else's kind, as NumPy's are."""

    def __index__(self) -> int:
        return 2


@pytest.mark.parametrize(("value", "charged"), [(2, 2), (True, 1), (2.0, 2), (Index(), 2), (1 << 40, (1 << 32) - 1)])
def test_whole_numbers_of_all_kinds_are_costs(value: object, charged: int) -> None:
    FAULT.arm("cost", value)
    with opened() as f:
        f.schedule(URL)
        assert one(f).cost == charged


@pytest.mark.parametrize("text", ["", "q" * 256, "\0", "\ud800"])
def test_text_that_is_no_key_makes_its_url_invalid(text: str) -> None:
    FAULT.arm("assignment", text)
    with opened() as f:
        assert f.schedule_many([URL, "http://b.test/"]).reasons == {"queue": 1}


def test_leases_made_before_a_policy_fails_are_given_out() -> None:
    with opened() as f:
        f.schedule_many(pages("ABC", 1))
        FAULT.arm("precedence", "high", after=3)
        assert len(f.lease(3)) == 2
        FAULT.arm("precedence", "high")
        with pytest.raises(PolicyError, match=r"returned 'high' for https://c\.test/0"):
            f.lease(1)
        assert one(f).queue == "c.test"
        f.check()


def test_what_is_due_and_dead_letters_stay_where_they_are() -> None:
    clock = ManualClock(START)
    with opened(clock) as f:
        f.schedule(CrawlUri("http://b.test/", not_before=START + 9))
        f.schedule_many(pages("AB", 1))
        for _ in range(2):
            f.finish(one(f), Outcome.DEAD)
        clock.advance(10.0)
        before = tables(f)
        for count in 1, 0:
            FAULT.arm("precedence", "high")
            with pytest.raises(PolicyError):
                f.lease(count)
            assert tables(f) == before
        FAULT.arm("precedence", "high", after=2)
        with pytest.raises(PolicyError, match="returned 'high' for https://b") as raised:
            f.replay()
        assert (raised.value.url, raised.value.value) == ("https://b.test/0", "high")
        assert len(f.dead_letters()) == 2
        FAULT.disarm()
        assert f.replay() == 2
        assert len(f.lease(9)) == 2
        f.check()


def test_a_replay_whose_policy_fails_after_its_first_step_says_that_the_letters_before_are_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "STEP", 1)
    with opened() as f:
        f.schedule_many(pages("AB", 1))
        for _ in range(2):
            f.finish(one(f), Outcome.DEAD)
        FAULT.arm("precedence", "high", after=2)
        with pytest.raises(PolicyError, match=r"for https://b\.test/0.*what the command had done before it .* stays"):
            f.replay()
        assert [letter.queue for letter in f.dead_letters()] == ["b.test"]
        assert f.audit()[-1].effect == {"replayed": 1, "of_queues": ["a.test"]}
        f.check()


def test_a_change_of_settings_goes_on_without_the_precedences_that_cannot_be_told() -> None:
    with opened() as f:
        f.schedule_many(pages("AB", 2))
        FAULT.arm("precedence", "high", lasting=True)
        f.adjust(balance_replenish_amount=1)
        f.commit()
        a = f.queue("a.test")
        assert a is not None and a.balance_replenish_amount == 1
        with pytest.raises(PolicyError):
            f.lease(1)
        FAULT.disarm()
        assert len(f.lease(9)) == 2
        f.check()


def test_a_command_whose_policy_fails_is_refused_in_the_audit(tmp_path: Path) -> None:
    on_disk(tmp_path, **POLICIES).close()
    box = Mailbox(tmp_path / "frontier")
    for op in "schedule", "mark_seen", "pause":
        box.post(Command(op, {} if op == "pause" else {"uris": pages("A", 2)}, "me", ""))
    box.close()
    FAULT.arm("cost", 0.9, after=2, lasting=True)
    with on_disk(tmp_path) as f:
        assert [(entry.command, bool(entry.error)) for entry in f.audit()] == [
            ("schedule", True),
            ("mark_seen", True),
            ("pause", False),
        ]
        assert "returned 0.9 for https://a.test/1" in str(f.audit()[0].error)
        f.check()
        assert f.summary().queued == 0


def test_a_frontier_opens_with_policies_that_fail(tmp_path: Path) -> None:
    with on_disk(tmp_path, **POLICIES) as f:
        f.schedule_many(pages("AB", 2))
        f.retire("a.test")
        one(f)
        crash(f)
    FAULT.arm("precedence", "high", lasting=True)
    with on_disk(tmp_path, balance_replenish_amount=7, **POLICIES) as f:
        assert f.summary().queued == 0  # nothing was committed
        FAULT.disarm()
        assert f.schedule_many(pages("AB", 2)).added == 4


def test_a_stored_policy_that_is_gone_stops_nobody_who_brings_another(tmp_path: Path) -> None:
    on_disk(tmp_path, politeness_policy=f"{__name__}:rest").close()
    path = tmp_path / "frontier"
    with Frontier.open(path) as f:
        stored = kernel(f).tables.env.txn.get(b"settings", db=kernel(f).tables.env.db[keys.META])
        assert stored is not None
        gone = stored.replace(f"{__name__}:rest".encode(), b"gone:rest")
        kernel(f).tables.env.txn.put(b"settings", gone, db=kernel(f).tables.env.db[keys.META])
        f.schedule(URL)
    with pytest.raises(PolicyError, match="gone"):
        Frontier.open(path)
    with Frontier.open(path, make_settings()) as f:
        assert one(f).uri.url == URL


def test_a_lease_queue_stays_open_and_so_does_the_rest_of_a_batch(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path / "q", Settings.from_dict({"frontier": POLICIES})) as queue:
        FAULT.arm("cost", math.nan)
        with pytest.raises(PolicyError):
            queue.push(URL)
        assert queue.push(URL)


def test_batches_before_the_one_that_fails_stay() -> None:
    with opened() as f:
        FAULT.arm("cost", "dear", after=1500)
        urls = [f"http://a.test/{n}" for n in range(2000)]
        with pytest.raises(PolicyError, match=r"a\.test/1499"):
            f.schedule_many(urls)
        assert f.summary().queued == 1000
        tally = f.schedule_many(urls)
        assert (tally.added, tally.duplicate) == (1000, 1000)


def constant(uri: CrawlUri) -> int:
    return 1


constant.constant = 0.5  # type: ignore[attr-defined]


def test_a_constant_that_is_no_cost_is_named() -> None:
    settings = make_settings(cost_policy=f"{__name__}:constant")
    with Frontier.open(":memory:", settings) as f:
        with pytest.raises(PolicyError, match=r"returned 0\.5 for any URL"):
            f.schedule(URL)
        f.check()


# -- whatever happens, in whatever order

_urls = st.lists(
    st.builds("http://{}.test/{}".format, st.sampled_from("abcd"), st.integers(0, 30).map(lambda n: "x" * n)),
    max_size=5,
)
_batch = st.tuples(
    _urls,
    st.lists(
        st.builds(
            lambda url, force, later, directive: CrawlUri(
                url, force=force, not_before=START + later if later else None, directive=directive
            ),
            st.sampled_from(["http://a.test/", "http://b.test/y"]),
            st.booleans(),
            st.integers(0, 8),
            st.integers(0, 3),
        ),
        max_size=2,
    ),
).map(lambda parts: [*parts[0], *parts[1]])
ASKED = {"lease": ["precedence"], "landed": ["politeness"], "finish": [*NONSENSE, "politeness"]}
"""The policies that a step may ask; `finish` is told how long a fetch took oftener than it discovers something."""


def _with_fault(step: st.SearchStrategy[tuple[Any, ...]]) -> st.SearchStrategy[tuple[Any, Any]]:
    """A step, and what goes wrong in it: kind, value or error, and at which call."""
    return step.flatmap(lambda drawn: st.tuples(st.just(drawn), st.none() | _fault(ASKED.get(drawn[0], [*NONSENSE]))))


def _fault(kinds: list[str]) -> st.SearchStrategy[tuple[str, Any, int]]:
    kind = st.sampled_from(kinds)
    return kind.flatmap(
        lambda drawn: st.tuples(st.just(drawn), st.sampled_from([*NONSENSE[drawn], *ERRORS]), st.integers(1, 3))
    )


_step = _with_fault(
    st.one_of(
        st.tuples(st.sampled_from(["schedule_many", "schedule_each", "mark_seen"]), _batch),
        st.tuples(st.just("lease"), st.integers(1, 4)),
        st.tuples(st.just("finish"), st.integers(0, 9), st.sampled_from(list(Outcome)), _batch),
        st.tuples(st.just("landed"), st.integers(0, 9)),
    )
)
_quiet = st.tuples(
    st.one_of(
        st.tuples(st.just("replay")), st.tuples(st.just("advance"), st.integers(1, 5)), st.tuples(st.just("retire"))
    ),
    st.none(),
)
_adjust = st.tuples(st.tuples(st.just("adjust"), st.integers(0, 5)), st.none())
_options = st.fixed_dictionaries(
    {"hold_queues": st.booleans(), "concurrency": st.integers(1, 2)},
    optional={
        "max_queued": st.just(8),
        "max_queue_size": st.just(4),
        "balance_replenish_amount": st.integers(0, 2),
        "overrides": st.just([{"match": "host:a.test", "set": {"precedence": 1, "queue_total_budget": 3}}]),
    },
)


def do(f: Frontier, step: tuple[Any, ...]) -> Any:
    """One step; what it gave, comparable between two frontiers."""
    name, *args = step
    if name == "lease":
        return [_told(lease) for lease in f.lease(args[0])]
    if name in ("finish", "landed"):
        out = list(kernel(f).tables.leases.out.values())
        if not out:
            return None
        lease = out[args[0] % len(out)]
        return f.landed(lease) if name == "landed" else f.finish(lease, args[1], discovered=args[2], fetch_seconds=1.0)
    if name == "adjust":
        return f.adjust(queue_total_budget=args[0]).reconsidered_count
    if name == "advance":
        return None
    if name == "retire":
        return f.retire("a.test") and f.unretire("a.test")
    tally = getattr(f, name)(*args)
    return str(tally) if isinstance(tally, list | int) else [getattr(tally, slot) for slot in tally.__slots__]


def _told(lease: Lease) -> tuple[Any, ...]:
    return lease.id, lease.uri.url, lease.cost, lease.delivery, lease.attempt


def do_again(f: Frontier, step: tuple[Any, ...], kind: str, what: object, after: int) -> Any:
    """The same with a fault on the way, once; and then what was left of it."""
    before = tables(f)
    FAULT.arm(kind, what, after)
    given = None
    try:
        given = do(f, step)
    except PolicyError:
        assert FAULT.struck
        assert step[0] == "lease" or tables(f) == before
    struck = FAULT.struck
    FAULT.disarm()
    if step[0] == "lease" and struck:
        given = given or []
        return given + do(f, ("lease", step[1] - len(given)))
    return do(f, step) if struck else given


def compare(options: dict[str, Any], steps: list[tuple[Any, Any]]) -> None:
    """Two frontiers with one history; in one of them policies fail on the way, and are mended."""
    clocks = ManualClock(START), ManualClock(START)
    with opened(clocks[0], **options) as tried, opened(clocks[1], **options) as spared:
        for f in tried, spared:
            f.schedule_many(pages("ABCD", 2))
        for step, fault in steps:
            if step[0] == "advance":
                for clock in clocks:
                    clock.advance(step[1])
            assert (do_again(tried, step, *fault) if fault else do(tried, step)) == do(spared, step)
            assert tables(tried) == tables(spared)
        tried.check()


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(_options, st.lists(_step | _step | _quiet, max_size=20))
def test_failures_leave_no_trace(options: dict[str, Any], steps: list[tuple[Any, Any]]) -> None:
    compare(options, steps)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(_options, st.lists(_step | _step | _quiet | _adjust, max_size=20))
def test_nor_between_changes_of_settings(options: dict[str, Any], steps: list[tuple[Any, Any]]) -> None:
    """But for precedences: what cannot be told of them after a change stays until the turn of its queue."""
    compare(options, [(step, fault if fault and fault[0] != "precedence" else None) for step, fault in steps])
