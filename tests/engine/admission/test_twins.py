"""A batch is admitted as its URIs are one after the other: the same results, the same totals and the same tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlState, CrawlUri, Directive, Frontier, Tally
from budgetfrontier.clock import ManualClock
from budgetfrontier.errors import PolicyError
from budgetfrontier.storage import keys
from budgetfrontier.storage.records import decode_counters
from tests.examples import few
from tests.support import START, kernel, memory

pytestmark = pytest.mark.usefixtures("same_ids")

HERE = "tests.engine.admission.test_twins"
BROKEN: set[str] = set()
"""The policies that fail for some URIs."""


@pytest.fixture(autouse=True)
def whole_policies() -> Iterator[None]:
    yield
    BROKEN.clear()


def cost(uri: CrawlUri) -> int:
    if "cost" in BROKEN and uri.url.endswith("7"):
        raise ValueError("seven")
    return len(uri.url) % 3 + (uri.via is not None)


def precedence(uri: CrawlUri, *, precedence: int) -> int:
    if "precedence" in BROKEN and uri.url.endswith("5"):
        return "five"  # type: ignore[return-value]
    return precedence + len(uri.url) % 2 + (uri.priority > 0)


def by_path(uri: CrawlUri) -> str:
    """A queue for each last character, which the authority does not determine."""
    return uri.url[-1]


MATCHES = ["*", "queue:a.test", "queue:?.test", "host:b.*", "domain:test", "surt:(test,a", "surt:(test,a,)/x"]
MATCHES += ["surt:http://(test,", "regex:[02468]$", "regex:x"]
VALUES: dict[str, list[Any]] = {
    "precedence": [0, 2, 5],
    "max_queue_size": [0, 1, 2, 4],
    "queue_total_budget": [-1, 0, 2],
    "balance_replenish_amount": [0, 1, 7],
    "retire_when": ["reached"],
    "cost_policy": ["zero", "unit", "wag", f"{HERE}:cost"],
    "order": ["lifo", "fifo"],
    "politeness": [{"per_queue_concurrency": 1}, {"per_queue_concurrency": 3}],
}
overriding = st.sampled_from([(name, value) for name, values in sorted(VALUES.items()) for value in values])
overrides = st.lists(
    st.builds(
        lambda match, chosen: {"match": match, "set": dict(chosen)},
        st.sampled_from(MATCHES),
        st.lists(overriding, min_size=1, max_size=2),
    ),
    max_size=4,
)
frontiers = st.fixed_dictionaries(
    {"overrides": overrides, "concurrency": st.sampled_from([1, 3])},
    optional={
        "max_queued": st.integers(1, 8),
        "max_queue_size": st.integers(1, 4),
        "hold_queues": st.booleans(),
        "order": st.just("lifo"),
        "queue_total_budget": st.sampled_from([0, 3]),
        "cost_policy": st.sampled_from(["zero", "wag", f"{HERE}:cost"]),
        "precedence_policy": st.just(f"{HERE}:precedence"),
        "queue_assignment_policy": st.sampled_from(["single", "registered-domain", f"{HERE}:by_path"]),
    },
)

pages = st.builds(
    "{}://{}.test{}/{}{}{}".format,
    st.sampled_from(["http", "https"]),
    st.sampled_from("abc"),
    st.sampled_from(["", "", "", ":81"]),
    st.sampled_from(["", "", "x/", "./"]),
    st.integers(0, 9),
    st.sampled_from(["", "", "", "?a=1&b=2", "?b=2&a=1", "#f", "?utm_source=m"]),
)
bad = st.sampled_from(["", "no url", "ftp://a.test/", "https://\ud800/", CrawlUri("http://a.test/bad", queue="")])
whole = st.builds(
    CrawlUri,
    pages,
    force=st.sampled_from([False, False, True]),
    directive=st.sampled_from([Directive.NORMAL, Directive.NORMAL, Directive.HIGHEST, Directive.MEDIUM]),
    priority=st.sampled_from([0, 0, 2, -1]),
    cost=st.sampled_from([None, None, 0, 9]),
    not_before=st.sampled_from([None, None, START - 1, START + 60]),
    queue=st.sampled_from([None, None, None, "a.test", "q"]),
    method=st.sampled_from(["GET", "GET", "POST"]),
    meta=st.sampled_from([None, {"a": 1}]),
)
batches = st.one_of(st.lists(pages, max_size=25), st.lists(st.one_of(pages, pages, whole, bad), max_size=25))
steps = st.one_of(
    st.tuples(st.sampled_from(["schedule_many", "schedule_many", "schedule_each"]), batches, st.booleans()),
    st.tuples(st.just("lease"), st.integers(1, 6)),
    st.tuples(st.just("finish"), st.integers(0, 3)),
    st.tuples(st.just("retire"), st.sampled_from(["a.test", "b.test", "q"])),
    st.tuples(st.just("adjust"), st.sampled_from(MATCHES), overriding),
)


def tables(frontier: Frontier) -> dict[str, list[tuple[Any, Any]]]:
    """What is stored; without the state of the crawl and the time of the last commit, which depend on the calls."""
    frontier.commit()
    view = kernel(frontier).tables.env.view()
    found: dict[str, list[tuple[Any, Any]]] = {name: list(view.items(name)) for name in keys.TABLES}
    totals = msgspec.structs.replace(
        decode_counters(dict(found[keys.META])[b"counters"]), time=0.0, state=CrawlState.NEW
    )
    found["totals"] = list(msgspec.structs.asdict(totals).items())
    found[keys.META] = [row for row in found[keys.META] if row[0] != b"counters"]
    return found


class Twins:
    """Two frontiers to which the same happens, but that one gets URIs by the batch, and the other one by one."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.clock = ManualClock(START)
        self.together, self.alone = memory(self.clock, **options), memory(self.clock, **options)
        self.out: list[list[Any]] = [[], []]

    def both(self) -> list[tuple[Frontier, list[Any]]]:
        return list(zip((self.together, self.alone), self.out, strict=True))

    def schedule(self, call: str, batch: list[Any], fails: bool) -> None:
        before = tables(self.together)
        BROKEN.update(["cost", "precedence"] if fails else [])
        try:
            found = self.admit(call, batch)
        except PolicyError:
            assert tables(self.together) == before
            BROKEN.clear()
            found = self.admit(call, batch)
        results = [self.alone.schedule(uri) for uri in batch]  # a URI for which a policy fails now is one it knew
        BROKEN.clear()
        if isinstance(found, list):
            assert found == results
        else:
            count = Counter(results)
            assert (found.added, found.duplicate) == (count[Admission.ADDED], count[Admission.DUPLICATE])
            assert (found.full, found.invalid) == (count[Admission.FULL], count[Admission.INVALID])

    def admit(self, call: str, batch: list[Any]) -> Tally | list[Admission]:
        found: Tally | list[Admission] = getattr(self.together, call)(batch)
        return found

    def lease(self, count: int) -> None:
        for frontier, out in self.both():
            out += frontier.lease(count)
        assert [lease.uri for lease in self.out[0]] == [lease.uri for lease in self.out[1]]

    def finish(self, number: int) -> None:
        for frontier, out in self.both():
            if number < len(out):
                frontier.finish(out.pop(number), fetch_seconds=1.0)

    def retire(self, key: str) -> None:
        for frontier, _ in self.both():
            if frontier.queue(key) is not None:
                frontier.retire(key)

    def adjust(self, match: str, setting: tuple[str, Any]) -> None:
        for frontier, _ in self.both():
            frontier.adjust(match=match, **dict([setting]))

    def check(self) -> None:
        together, alone = tables(self.together), tables(self.alone)
        for name, rows in together.items():
            assert rows == alone[name], (name, set(map(repr, rows)) ^ set(map(repr, alone[name])))
        self.together.check()


@few(50)
@given(options=frontiers, story=st.lists(steps, min_size=1, max_size=8))
def test_a_batch_is_admitted_as_its_uris_one_by_one(options: dict[str, Any], story: list[tuple[Any, ...]]) -> None:
    twins = Twins(options)
    with twins.together, twins.alone:
        for step, *arguments in story:
            if step.startswith("schedule"):
                twins.schedule(step, *arguments)
            else:
                getattr(twins, step)(*arguments)
            twins.clock.advance(1.0)
            twins.check()
