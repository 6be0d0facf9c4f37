"""The compiled kernel writes what the Python engine writes: the same results, and every table byte for byte."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Frontier, Reader
from budgetfrontier.clock import ManualClock
from budgetfrontier.engine import native
from budgetfrontier.engine.admission import admit, candidates, plain_batches, seen
from budgetfrontier.errors import FrontierBusy, FrontierClosed, PolicyError, WrongThread
from budgetfrontier.settings.policies.canonicalization import Canonicalization
from tests.engine.admission.test_twins import tables
from tests.examples import few
from tests.fuzz.urls import any_url, check_kernel, near_plain
from tests.support import START, InterruptedClock, make_settings, memory, on_disk, pages

needs_kernel = pytest.mark.skipif(native.kernel is None, reason=native.described())
pytestmark = [pytest.mark.usefixtures("same_ids"), needs_kernel]

options = st.fixed_dictionaries(
    {"hold_queues": st.booleans()},
    optional={
        "canonicalization": st.sampled_from(
            [
                {"strip_userinfo": False, "strip_www": False, "strip_session_ids": False, "strip_tracking": False},
                {"sort_query": False, "ignore_params": ["a"]},
                {"keep_params": ["a", "sid"]},
            ]
        ),
        "cost_policy": st.just("zero"),
        "duplicates": st.sampled_from(["noop", "bloom"]),
        "bloom": st.just({"expected": 1000}),  # the default takes half a gigabyte
        "max_queue_size": st.just(3),
        "max_queued": st.sampled_from([4, 9]),
        "order": st.just("lifo"),
        "queue_assignment_policy": st.sampled_from(["surt-authority", "registered-domain", "single"]),
    },
)
vias = st.sampled_from([None, None, "", "https://a.test/", "http://b.test/x", "\x02/", "ä"])
carrying = st.builds(
    CrawlUri, near_plain, payload=st.sampled_from([None, b"1"]), hops=st.sampled_from(["", "LE"]), via=vias
)
placed = st.builds(CrawlUri, near_plain, priority=st.sampled_from([0, 1]), force=st.booleans())
batches = st.one_of(
    st.lists(near_plain, min_size=1, max_size=12),
    st.lists(st.one_of(near_plain, any_url, carrying), min_size=1, max_size=12),
    st.lists(st.one_of(near_plain, placed), min_size=1, max_size=12),
)
stories = st.lists(
    st.tuples(
        st.sampled_from(["schedule", "schedule_many", "schedule_each", "mark_seen", "find", "forget", "refuse"]),
        batches,
    ),
    min_size=1,
    max_size=6,
)


@contextmanager
def in_python() -> Iterator[None]:
    """Frontiers that are opened here do without the kernel."""
    with mock.patch.object(admit, "kernel", None):
        yield


def step(frontier: Frontier, call: str, batch: list[Any]) -> object:
    """Do one step of a story; return its result."""
    if call == "schedule":
        return [frontier.schedule(uri) for uri in batch]
    if call == "schedule_each":
        return frontier.schedule_each(batch)
    if call in ("schedule_many", "mark_seen"):
        return repr(getattr(frontier, call)(batch))
    if call == "find":
        leases = frontier.lease(1)
        for lease in leases:
            frontier.finish(lease, discovered=batch)
        return [lease.uri for lease in leases]
    if call == "forget" and frontier.settings.frontier.keep_urls:
        return frontier.internals.forget_urls([row.fingerprint for row in frontier.internals.kept_urls()][:2])
    frontier.adjust(match="*", max_queue_size=0 if len(batch) % 2 else 2)
    return None


@few(150)
@given(options=options, keep_urls=st.booleans(), story=stories)
def test_it_writes_what_the_python_engine_writes(
    options: dict[str, Any], keep_urls: bool, story: list[tuple[str, list[Any]]]
) -> None:
    if "duplicates" not in options:
        options["keep_urls"] = keep_urls
    check_story(options, story)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"keep_urls": True},
        {"order": "lifo"},
        {"queue_assignment_policy": "single"},
        {"max_queued": 12},
        {"max_queue_size": 5, "keep_urls": True},
    ],
)
def test_it_finds_links_counts_repeated_ones_and_refuses_others(more: dict[str, Any]) -> None:
    links = [*pages("abc", 4), "http://a.test/?b=1&a=2", "http://a.test/%7e", "no url", *pages("b", 2)]
    priced = [CrawlUri(url, cost=7) for url in pages("d", 4)]
    calls = ["schedule_many", "find", "find", "schedule_each", "find", "schedule_many"]
    check_story(more, list(zip(calls, [links[:9], links, links, pages("ae", 5), links, priced], strict=True)))


def test_it_takes_payloads_of_all_sizes_and_leaves_all_else_to_python() -> None:
    sizes = [0, 1, 255, 256, (1 << 16) - 1, 1 << 16, (1 << 16) + 1]
    batch: list[Any] = [CrawlUri(f"http://a.test/{size}", payload=bytes(size)) for size in sizes]
    batch += [CrawlUri("http://a.test/x", payload=wrong) for wrong in (bytearray(b"x"), "x", 7)]  # type: ignore[arg-type]
    batch += [CrawlUri("http://a.test/1"), CrawlUri("http://a.test/y", payload=b"y", via="http://a.test/")]
    batch += [CrawlUri(f"http://a.test/v{size}", via="http://b.test/" + "x" * size, hops="L" * 16) for size in sizes]
    batch += [CrawlUri(f"http://a.test/w{number}", via=via) for number, via in enumerate(["a\ud800", "", 7])]  # type: ignore[arg-type]
    batch += [CrawlUri(f"http://a.test/h{number}", hops=hops) for number, hops in enumerate(["\ud800", b"L"])]  # type: ignore[arg-type]
    check_story({}, [(call, batch) for call in ("schedule_each", "find", "schedule_many")])


def test_a_url_with_a_payload_or_a_page_is_no_matter_for_python() -> None:
    given = [CrawlUri("http://a.test/", payload=b"1"), CrawlUri("http://a.test/b", via="http://a.test/", hops="L")]
    given += msgspec.msgpack.decode(
        msgspec.msgpack.encode([CrawlUri("http://a.test/c", hops="L")]), type=list[CrawlUri]
    )
    with memory() as frontier, mock.patch.object(candidates.Candidates, "prepare", side_effect=AssertionError):
        assert frontier.schedule_many([*given, *pages("a", 2)]).added == 5


def test_uris_that_it_admits_go_out_by_their_priority() -> None:
    given = [CrawlUri(f"http://a.test/{n}", priority=n % 3, payload=b"1") for n in range(6)]
    expected = [msgspec.structs.replace(uri, cost=1) for uri in sorted(given, key=lambda uri: -uri.priority)]
    python = mock.patch.object(candidates.Candidates, "prepare", side_effect=AssertionError)
    with memory(concurrency=9) as frontier, python:
        assert frontier.schedule_many(given).added == 6
        assert [lease.uri for lease in frontier.lease(9)] == expected


def check_story(options: dict[str, Any], story: list[tuple[str, list[Any]]]) -> None:
    """Let the same happen to a frontier with the kernel and to one without, and compare them after each step."""
    clock = ManualClock(START)
    with memory(clock, **options) as compiled, in_python(), memory(clock, **options) as plain:
        assert plain._admitter._plain is None
        for call, batch in story:
            assert step(compiled, call, batch) == step(plain, call, batch)
            assert compiled.summary() == plain.summary()
            assert tables(compiled) == tables(plain)
            clock.advance(1.0)
        compiled.check()


labels = st.sampled_from(
    [
        "www",
        "www2",
        "wwww",
        "a",
        "co",
        "a_b",
        "-a",
        "a-",
        "ab--c",
        "a" * 64,
        "1",
        "0x7f",
        "xn--a",
        "xn--bcher-kva",
        "\xe4",
    ]
)


@few(300)
@given(
    scheme=st.sampled_from(["http://", "https://", "ftp://", "http:///", "http://u@"]),
    host=st.lists(st.one_of(labels, st.text("a1-.", max_size=3)), max_size=6).map(".".join),
    strips_www=st.booleans(),
)
def test_it_reads_hosts_as_the_parser_and_the_policies_do(scheme: str, host: str, strips_www: bool) -> None:
    check_kernel(f"{scheme}{host}/x", Canonicalization(strip_www=strips_www))


def test_plain_hosts_are_no_matter_for_python() -> None:
    hosts = ["a.test", "www.a.test", "b-1.co.test", "localhost"]
    asked = []

    def authority(candidates: Any, url: str) -> Any:
        asked.append(url)
        return real(candidates, url)

    real = candidates.Candidates.authority
    cut: dict[str, Any] = {"queue_assignment_policy": {"hostname": {"limit": 2}}}
    for settings, expected in (dict[str, Any](), 0), (cut, len(hosts)):
        with memory(**settings) as frontier, mock.patch.object(candidates.Candidates, "authority", authority):
            asked.clear()
            assert frontier.schedule_many([f"https://{host}/x" for host in hosts]).added == 3
        assert len(asked) == expected


def test_a_policy_that_fails_changes_nothing_while_urls_are_gathered() -> None:
    frontier = memory(queue_assignment_policy=f"{__name__}:failing")
    for url in pages("abc", 3):
        assert frontier.schedule(url) is Admission.ADDED
    with pytest.raises(PolicyError, match="seven"):
        frontier.schedule("http://seven.test/")
    assert frontier.schedule("http://d.test/") is Admission.ADDED
    assert frontier.summary().queued == 10
    frontier.check()


@pytest.mark.parametrize("call", ["schedule", "summary", "lease", "close"])
def test_a_call_in_the_middle_of_one_that_gathers_is_refused(call: str) -> None:
    clock, refused = InterruptedClock(START), []
    with memory(clock) as frontier:
        for url in pages("abc", 3):
            frontier.schedule(url)

        def interrupt() -> None:
            with pytest.raises(FrontierBusy):
                getattr(frontier, call)(*(["http://e.test/"] if call == "schedule" else []))
            refused.append(call)

        clock.then = interrupt
        assert frontier.schedule("http://d.test/") is Admission.ADDED
        assert (refused, frontier.summary().queued) == ([call], 10)
        frontier.check()


def test_ctrl_c_in_the_middle_of_a_call_that_gathers_closes_the_frontier(tmp_path: Path) -> None:
    clock = InterruptedClock(START)
    frontier = Frontier.open(tmp_path / "f", make_settings(), clock=clock)
    for url in pages("abc", 3):
        frontier.schedule(url)

    def interrupt() -> None:
        raise KeyboardInterrupt

    clock.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        frontier.schedule("http://d.test/")
    with pytest.raises(FrontierClosed):
        frontier.schedule("http://d.test/")


def test_another_thread_is_refused_while_urls_are_gathered() -> None:
    with memory() as frontier, ThreadPoolExecutor(1) as pool:
        for url in pages("abc", 3):
            frontier.schedule(url)
        with pytest.raises(WrongThread):
            pool.submit(frontier.schedule, "http://d.test/").result()
        assert frontier.summary().queued == 9


def test_urls_that_are_gathered_are_committed_in_time(tmp_path: Path) -> None:
    with on_disk(tmp_path, commit_interval=0.0) as frontier:
        for number, url in enumerate(pages("abc", 3), 1):
            frontier.schedule(url)
            with Reader(tmp_path / "frontier") as reader:
                assert reader.summary().queued == number
    with on_disk(tmp_path, commit_operations=4, commit_interval=3600.0) as frontier:
        for url in pages("de", 3):
            frontier.schedule(url)
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().queued == 9 + 3  # the opening is an operation, too


def test_as_many_urls_are_gathered_as_one_call_may_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_batches, "MOST_GATHERED", 2)
    frontier = memory()
    placed = []
    for url in pages("ab", 4):
        frontier.schedule(url)
        placed.append(frontier._counters.queued)
    assert placed == [1, 1, 1, 4, 4, 4, 7, 7]


LOOKS: list[Callable[[Frontier], object]] = [
    lambda frontier: frontier.state,
    lambda frontier: frontier.summary(),
    lambda frontier: [row.queued for row in frontier.report().queues],
    lambda frontier: frontier.queue("a.test"),
    lambda frontier: frontier.verdict(),
    lambda frontier: frontier.next_ready_in(),
    lambda frontier: [lease.uri for lease in frontier.lease(2)],
    lambda frontier: frontier.internals.queue_keys(),
    lambda frontier: frontier.retire("b.test"),
    lambda frontier: frontier.delete(queue="c.test"),
    lambda frontier: repr(frontier).partition(" RUNNING ")[2],
    lambda frontier: frontier.schedule_many(pages("d", 2)).added,
    lambda frontier: frontier.mark_seen(pages("e", 2)).added,
    tables,
]
"""Calls, each of which shows what was scheduled before."""


def test_urls_scheduled_one_by_one_are_placed_before_any_other_call() -> None:
    links = pages("abc", 8)
    results: list[list[object]] = []
    for opened in (nullcontext, in_python):
        clock = ManualClock(START)
        with opened(), memory(clock) as frontier:
            frontier.schedule("http://z.test/")
            found: list[object] = []
            for url, look in zip(links, LOOKS, strict=False):
                found += [frontier.schedule(url), frontier.schedule(url.upper()), frontier.schedule(links[0])]
                clock.advance(1.0)
                found.append(look(frontier))
            frontier.check()
            results.append(found)
    assert results[0] == results[1]


@pytest.mark.parametrize(("module", "cache"), [(candidates, "AUTHORITIES"), (seen, "RECENT")])
def test_its_caches_may_overflow(module: ModuleType, cache: str) -> None:
    with mock.patch.object(module, cache, 2):
        frontier = memory()
    tally = frontier.schedule_many(pages("abcdefgh", 5))
    again = frontier.schedule_many(pages("abcdefgh", 6))
    assert (tally.added, again.added, again.duplicate) == (40, 8, 40)
    frontier.check()


def test_two_spellings_of_a_url_are_one() -> None:
    frontier = memory()
    spellings = [
        "http://a.test/?b=2&a=1",
        "http://a.test/?a=1&b=2",
        "HTTP://A.test/?a=1&b=2#x",
        "http://a.test./?a=1&b=2",
    ]
    assert frontier.schedule_many(spellings).added == 1
    assert frontier.schedule_many(spellings).duplicate == 4


def test_a_url_that_was_forgotten_is_new_again() -> None:
    frontier = memory(keep_urls=True)
    urls = pages("a", 4)
    frontier.schedule_many(urls)
    for lease in frontier.lease(4):
        frontier.finish(lease)
    assert frontier.internals.forget_urls([frontier.internals.kept_urls()[0].fingerprint]) == 1
    assert frontier.schedule_many(urls).added == 1


class Shouting(Canonicalization):
    """A policy that changes what a query is."""

    def query(self, query: str | None) -> str:
        return super().query(query).upper()


def test_a_policy_that_inherits_from_the_standard_one_is_asked_itself() -> None:
    frontier = memory(canonicalization_policy=f"{__name__}:Shouting")
    urls = ["http://a.test/?a=x", "http://a.test/?a=X", "http://a.test/?A=x"]
    assert frontier.schedule_many(urls).added == 1


def test_every_plain_byte_and_no_other_is_left_as_it_is() -> None:
    urls = [f"http://a.test/x{character}y?{character}=1" for character in string.printable if character != "\r"]
    compiled = memory()
    with in_python():
        plain = memory()
    assert compiled.schedule_each(urls) == plain.schedule_each(urls)
    assert tables(compiled) == tables(plain)


def test_a_policy_that_fails_changes_nothing() -> None:
    frontier = memory(queue_assignment_policy=f"{__name__}:failing")
    before = tables(frontier)
    with pytest.raises(PolicyError, match="seven"):
        frontier.schedule_many([*pages("a", 5), "http://seven.test/"])
    assert tables(frontier) == before
    assert frontier.schedule_many(pages("a", 5)).added == 5


def failing(uri: CrawlUri) -> str:
    if "seven" in uri.url:
        raise ValueError("seven")
    return "a"


failing.by_authority = True  # type: ignore[attr-defined]
