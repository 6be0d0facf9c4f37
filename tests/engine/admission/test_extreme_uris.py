"""What is legal by its type and extreme in its value: each is admitted or INVALID, and the frontier stays open."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from budgetfrontier import Admission, CrawlUri, Outcome
from budgetfrontier.aio import Scheduler
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.leasing import LeaseQueue
from tests.aio.loops import in_loop
from tests.support import memory, on_disk, one

HOST = ".".join(("a" * 63, "b" * 63, "c" * 63, "d" * 56, "test"))
"""As long as the DNS allows; with a port it is no key of a queue."""
LONG = f"http://{HOST}:8080/"
ASSIGNMENTS = ("hostname", "surt-authority", "registered-domain", "single", f"{__name__}:by_path")


def by_path(uri: CrawlUri) -> str:
    """A queue for each path: empty, too long, or with what no key may hold, as the path is."""
    return uri.url.split("/", 3)[3].replace("%00", "\0")


def test_the_host_is_the_longest() -> None:
    assert len(HOST) == 253


# -- a queue key that is too long, wherever the URI comes from


def test_it_is_invalid_as_a_string_and_as_a_crawl_uri() -> None:
    with memory() as f:
        for uri in LONG, CrawlUri(LONG):
            assert f.schedule(uri) is Admission.INVALID
            assert f.schedule_each([uri]) == [Admission.INVALID]
            assert f.schedule_many([uri, "http://a.test/"]).reasons == {"queue": 1}
            assert f.mark_seen([uri], charge=True).reasons == {"queue": 1}
        f.finish(one(f), discovered=[LONG, "http://b.test/"])
        assert f.queue("b.test") is not None
        f.check()


def test_it_is_admitted_where_another_queue_takes_it() -> None:
    with memory(queue_assignment_policy="single") as f:
        assert f.schedule(LONG) is Admission.ADDED
        assert f.schedule(CrawlUri(LONG, queue="mine", force=True)) is Admission.ADDED


@pytest.mark.parametrize("op", ["schedule", "mark_seen"])
def test_it_poisons_no_mailbox(tmp_path: Path, op: str) -> None:
    on_disk(tmp_path).close()
    box = Mailbox(tmp_path / "frontier")
    args = {"uris": [LONG, "http://a.test/"]} | ({"charge": True} if op == "mark_seen" else {})
    box.post(Command(op, args, "me", ""))
    box.close()
    with on_disk(tmp_path) as f:
        (entry,) = f.audit()
        assert (entry.error, entry.effect["added"], entry.effect["reasons"]) == (None, 1, {"queue": 1})


@in_loop
async def test_it_is_refused_by_the_scheduler_for_asyncio(tmp_path: Path) -> None:
    async with Scheduler(tmp_path / "f") as scheduler:
        assert await scheduler.add(LONG) is Admission.INVALID
        assert await scheduler.add("http://a.test/") is Admission.ADDED


def test_it_is_refused_by_the_lease_queue(tmp_path: Path) -> None:
    with LeaseQueue.open(tmp_path / "f") as queue:
        assert not queue.push(LONG)
        assert queue.push("http://a.test/")


# -- and all else that is extreme

HOSTS = ["a.test", "A.TEST.", HOST, HOST + ".", "x" * 63 + ".test", "ß" * 20 + ".test", "ü" * 62 + ".test", "1.2.3.4"]
HOSTS += ["[::1]", "[2001:db8::ffff:192.0.2.1]", "0x7f.1", "xn--a.test", "a..test", "-.test", "a_b.test", "münchen.de"]
RESTS = ["", "/", "/" + "p" * 255, "/" + "p" * 256, "/" + "p" * 8_000, "/" + "ü" * 2_000, "/?" + "a=b&" * 2_000]
RESTS += ["/\ud800", "/%00", "/\0", "/../..", "/%zz", "/?sid=" + "0" * 32, "#" + "f" * 9_000, "/;jsessionid=1", "\\"]
ODD: list[Any] = [None, "", "text", "\ud800", "\0", b"", b"bytes", 0.9, math.nan, math.inf, -math.inf, [], {}, {1: 2}]
ODD += [{"a": "\ud800"}, {"\ud800": "a"}, {"a": 1 << 64}, {"a": [[]] * 9}, object(), "q" * 255, "q" * 256, "é" * 128]
ODD += [b"x" * (1 << 20), "x" * (1 << 20), {"x": b"y" * (1 << 20)}]
ODD += [0, -1, 1, True, 1 << 31, -(1 << 31), 1 << 32, 1 << 63, 1 << 64, -(1 << 64), 10**400]
FIELDS = ["via", "hops", "source", "method", "headers", "body", "meta", "payload", "force", "queue", "directive"]
FIELDS += ["priority", "cost", "not_before", "precedence"]

_url = st.builds(
    "{}{}{}{}{}".format,
    st.sampled_from(["http://", "https://", "HTTP://", "http:"]),
    st.sampled_from(["", "u@", "u:p@", "u" * 600 + "@", "ü:\ud800@"]),
    st.sampled_from(HOSTS),
    st.sampled_from(["", ":80", ":8080", ":65535", ":0", ":65536", ":"]),
    st.sampled_from(RESTS),
)
_odd = st.sampled_from(ODD)
_uri = st.builds(
    lambda url, odd: CrawlUri(url, **odd),
    _url | _odd,
    st.dictionaries(st.sampled_from(FIELDS), _odd, max_size=3),
)
_settings = st.fixed_dictionaries(
    {"queue_assignment_policy": st.sampled_from(ASSIGNMENTS)},
    optional={
        "cost_policy": st.sampled_from(["zero", "wag", "anti-calendar"]),
        "max_queue_size": st.just(3),
        "max_queued": st.just(5),
        "hold_queues": st.just(False),
        "overrides": st.just([{"match": "host:a.*", "set": {"cost_policy": "wag", "precedence": 1}}]),
    },
)


@settings(max_examples=25, deadline=None)
@given(_settings, st.lists(_url | _uri | _odd, min_size=1, max_size=6), st.data())
def test_nothing_that_is_given_closes_the_frontier(
    options: dict[str, Any], uris: list[Any], data: st.DataObject
) -> None:
    with memory(**options) as f:
        for uri in uris:
            if isinstance(uri, str | CrawlUri):
                assert f.schedule(uri) in set(Admission)
            else:
                with pytest.raises(TypeError, match="a str or a CrawlUri"):
                    f.schedule(uri)
        assert f.schedule_many(uris + uris).added == 0
        f.schedule("http://first.test/")
        while leases := f.lease(3):
            for lease in leases:
                f.finish(lease, data.draw(st.sampled_from(list(Outcome)), "outcome"), discovered=uris)
        f.check()
    with memory(**options) as f:
        tally = f.mark_seen(uris, charge=True)
        assert tally.added + tally.duplicate + tally.invalid == len(uris)
        assert len(f.schedule_each(uris)) == len(uris)
        f.check()
