"""What `export` writes as JSON lines comes back whole: the same URIs, costs and times, in the same order."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budgetfrontier import CrawlUri, Directive, Frontier, Outcome
from budgetfrontier.clock import ManualClock
from budgetfrontier.storage.reader import Reader
from budgetfrontier.tools.cli import main
from budgetfrontier.tools.importers import lists
from budgetfrontier.tools.importers.allowance import Allowance
from budgetfrontier.tools.importers.import_items import Record
from tests.support import START, make_settings

words = st.text(st.characters(codec="utf-8"), max_size=6)
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(1 << 63), (1 << 64) - 1), st.floats(), words, st.binary())
metas = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(words, st.just("$msgpack"), st.integers(0, 9)), inner, max_size=3),
    ),
    max_leaves=5,
)
names = st.text("aX-", min_size=1)  # of headers: `import` refuses those that cannot be sent
paths = st.sampled_from(("a", "b", "c?q", "c?q=1", "d/e", "ü"))
urls = st.builds("http://{}.test/{}".format, st.sampled_from("abc"), paths)
whole_uris = st.builds(
    CrawlUri,
    urls,
    via=st.none() | urls,
    hops=st.text("LEXR", max_size=3),
    source=st.none() | words,
    method=st.sampled_from(("GET", "POST")),
    headers=st.none() | st.dictionaries(names, st.text(st.characters(exclude_categories=("Cc", "Cs"))), max_size=2),
    body=st.binary(max_size=3),
    meta=metas,
    payload=st.none() | st.binary(max_size=3),
    force=st.booleans(),
    queue=st.none() | st.sampled_from(("a.test", "forced", "größe")),
    directive=st.sampled_from(Directive),
    priority=st.integers(-(1 << 31) + 1, 1 << 31),
    cost=st.none() | st.integers(0, (1 << 32) - 1),
    not_before=st.none() | st.floats(4e9, 1e300),
    precedence=st.none() | st.integers(0, 127),
)
given_uris = st.lists(urls | whole_uris | st.builds(CrawlUri, urls, priority=st.integers(0, 1)), max_size=12)
chosen = st.fixed_dictionaries(
    {
        "order": st.sampled_from(("fifo", "lifo")),
        "cost_policy": st.sampled_from(("unit", "wag", "zero")),
        "uri_precedence_policy": st.sampled_from(("cost", "base", "hops")),
        "hold_queues": st.booleans(),
        "balance_replenish_amount": st.integers(1, 4),
        "overrides": st.sampled_from(
            (
                [],
                [{"match": "regex:[ab]$", "set": {"order": "lifo"}}],
                [{"match": "queue:b.test", "set": {"precedence": 1, "order": "fifo"}}],
                [{"match": "domain:c.test", "set": {"cost_policy": "zero"}}],
            )
        ),
    }
)
steps = st.lists(st.sampled_from((Outcome.RETRY, Outcome.SUCCESS, "retire", "out")), max_size=3)


def command(*arguments: object) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main([str(argument) for argument in arguments]) in (0, 1)  # 1: there was no URI


def contents(path: Path) -> tuple[dict[str, list[bytes]], list[bytes]]:
    """Every URI of every queue in its order, and what is scheduled for later; encoded, for nan is no other nan."""
    encode = msgspec.msgpack.encode
    with Reader(path) as frontier:
        held = {queue.queue: frontier.pending(queue.queue) for queue in frontier.queues() if queue.queued}
        later = [encode((item.queue, item.uri, item.cost, item.when)) for item in frontier.future()]
    return {key: [encode((item.uri, item.cost)) for item in items] for key, items in held.items()}, later


def leases(path: Path, count: int) -> list[tuple[str, str, int]]:
    """The order in which a frontier hands out all that it has."""
    found = []
    with Frontier.open(path, clock=ManualClock(START)) as frontier:
        while leased := frontier.lease(1):
            found.append((leased[0].queue, leased[0].uri.url, leased[0].cost))
            frontier.finish(leased[0])
            assert len(found) <= count
    return found


@settings(max_examples=max(8, settings().max_examples // 50), suppress_health_check=list(HealthCheck))
@given(chosen, given_uris, steps)
def test_a_frontier_comes_back_as_it_was(
    options: dict[str, Any], uris: list[str | CrawlUri], happened: list[Any]
) -> None:
    made = make_settings(**options)
    with tempfile.TemporaryDirectory(prefix="round-") as folder:
        old, new, listed = Path(folder, "old"), Path(folder, "new"), Path(folder, "all.jsonl")
        with Frontier.open(old / "frontier", made, clock=ManualClock(START)) as frontier:
            frontier.schedule_many(uris)
            for step in happened:
                for lease in frontier.lease(1):
                    if step == "retire":
                        frontier.retire(lease.queue)
                    elif isinstance(step, Outcome):
                        frontier.finish(lease, step)
        Frontier.open(new / "frontier", made).close()
        command("export", old, listed)
        command("import", new, listed)
        before = contents(old / "frontier")
        assert contents(new / "frontier") == before
        if not happened:
            count = sum(map(len, before[0].values()))
            assert leases(new / "frontier", count) == leases(old / "frontier", count)


@settings(max_examples=max(20, settings().max_examples // 5))
@given(whole_uris)
def test_a_line_has_all_fields(uri: CrawlUri) -> None:
    line = lists.to_json(uri)
    assert "\n" not in line
    item = lists.item("x:1", line.encode(), Allowance())
    assert isinstance(item, Record) and msgspec.msgpack.encode(item.uri) == msgspec.msgpack.encode(uri)
