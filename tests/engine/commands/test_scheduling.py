"""URIs that come by command: how they are written, and what is counted of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from budgetfrontier import Admission, CrawlUri
from budgetfrontier.core.model import Directive
from budgetfrontier.engine.commands import runner, scheduling
from budgetfrontier.engine.commands.mailbox import Command
from tests.support import memory, on_disk, pages, record

URL = "https://a.test/"


@pytest.mark.parametrize(
    ("written", "uri"),
    [
        (URL, URL),
        ({"url": URL, "directive": "HIGH"}, CrawlUri(URL, directive=Directive.HIGH)),
        ({"url": URL, "directive": 2}, CrawlUri(URL, directive=Directive.MEDIUM)),
        (msgspec.msgpack.encode(CrawlUri(URL, payload=b"\0")), CrawlUri(URL, payload=b"\0")),
    ],
)
def test_a_uri_is_text_or_fields_or_encoded(written: Any, uri: str | CrawlUri) -> None:
    assert scheduling.uri_from(written) == uri


def test_the_audit_counts_uris_and_does_not_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "STEP", 2)
    with memory() as f:
        uris = [*pages("A", 3), "nonsense", *pages("A", 3)]
        entry = f.internals.apply(Command("schedule", {"uris": uris}, "me", ""), number=1)
        assert entry.args == {"uris": 7}
        found = {name: entry.effect[name] for name in ("added", "duplicate", "invalid")}
        assert (found, sum(entry.effect["reasons"].values())) == ({"added": 3, "duplicate": 3, "invalid": 1}, 1)
        f.check()


@pytest.mark.parametrize(("charge", "spent"), [(False, 0), (True, 2)])
def test_what_is_marked_as_seen_may_be_charged(charge: bool, spent: int) -> None:
    with memory() as f:
        args = {"uris": pages("A", 2), "charge": charge}
        assert f.internals.apply(Command("mark_seen", args, "me", ""), number=1).effect["added"] == 2
        f.schedule_many(pages("A", 3))
        assert (record(f, "A").queued, record(f, "A").expenditure) == (1, spent)


@pytest.mark.parametrize("uris", [[{"no_url": 1}], [{"url": URL, "directive": "SOON"}], [b"\xc1"], None])
def test_uris_that_cannot_be_read_are_refused_before_any_is_taken(uris: Any) -> None:
    with memory() as f:
        args = {} if uris is None else {"uris": [URL, *uris]}
        assert (f.internals.apply(Command("schedule", args, "me", ""), number=1).error or "").startswith("schedule: ")
        assert f.summary().scheduled == 0


@pytest.mark.parametrize("keep_urls", [False, True])
def test_uris_may_come_in_as_dead_letters(keep_urls: bool, tmp_path: Path) -> None:
    with on_disk(tmp_path, keep_urls=keep_urls) as f:
        f.schedule_many(pages("A", 1))
        high = msgspec.msgpack.encode(CrawlUri("https://a.test/9", priority=9, payload=b"x", force=True))
        args = {"uris": [*pages("A", 3), "nonsense", high], "reasons": ["a", "b", "c", "d", "e"]}
        entry = f.internals.apply(Command("bury", args, "me", ""), number=1)
        told = {name: entry.effect[name] for name in ("added", "duplicate", "invalid")}
        assert (entry.args, told) == ({"uris": 5}, {"added": 3, "duplicate": 1, "invalid": 1})
        assert [(letter.uri.url[-1], letter.reason) for letter in f.dead_letters()] == [
            ("1", "b"), ("2", "c"), ("9", "e")
        ]  # fmt: skip
        total = f.summary()
        assert (total.queued, total.dead, total.buried, total.seen, total.expenditure) == (1, 3, 3, 4, 0)
        assert f.schedule("https://a.test/2") is Admission.DUPLICATE
        f.check()
    with on_disk(tmp_path) as f:
        assert f.replay() == 3
        leases = []
        while found := f.lease():
            leases += found
            f.finish(found[0])
        assert [lease.uri.url[-1] for lease in leases] == ["9", "0", "1", "2"] and leases[0].uri.payload == b"x"
        f.check()


@pytest.mark.parametrize("reasons", [None, [], ["a", "b"], [5]])
def test_each_dead_letter_has_a_reason(reasons: Any) -> None:
    with memory() as f:
        args = {"uris": [URL]} | ({} if reasons is None else {"reasons": reasons})
        assert f.internals.apply(Command("bury", args, "me", ""), number=1).error
        assert (f.summary().dead, f.summary().seen) == (0, 0)
