"""URIs that come by command: how they are written, and what is counted of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.engine.commands import runner, scheduling
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.model import Directive
from tests.support import memory, pages, record

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
        entry = f.apply(Command("schedule", {"uris": uris}, "me", ""), number=1)
        assert entry.args == {"uris": 7}
        found = {name: entry.effect[name] for name in ("added", "duplicate", "invalid")}
        assert (found, sum(entry.effect["reasons"].values())) == ({"added": 3, "duplicate": 3, "invalid": 1}, 1)
        f.check()


@pytest.mark.parametrize(("charge", "spent"), [(False, 0), (True, 2)])
def test_what_is_marked_as_seen_may_be_charged(charge: bool, spent: int) -> None:
    with memory() as f:
        args = {"uris": pages("A", 2), "charge": charge}
        assert f.apply(Command("mark_seen", args, "me", ""), number=1).effect["added"] == 2
        f.schedule_many(pages("A", 3))
        assert (record(f, "A").queued, record(f, "A").expenditure) == (1, spent)


@pytest.mark.parametrize("uris", [[{"no_url": 1}], [{"url": URL, "directive": "SOON"}], [b"\xc1"], None])
def test_uris_that_cannot_be_read_are_refused_before_any_is_taken(uris: Any) -> None:
    with memory() as f:
        args = {} if uris is None else {"uris": [URL, *uris]}
        assert (f.apply(Command("schedule", args, "me", ""), number=1).error or "").startswith("schedule: ")
        assert f.summary().scheduled == 0
