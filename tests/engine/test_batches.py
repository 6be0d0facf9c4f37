"""Batches of URIs: taken in parts, each an operation of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.engine import batches
from budgetfrontier.testing import crash
from tests.support import memory, on_disk


def test_a_part_carries_no_more_than_its_bytes_unless_one_uri_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PART", 10)
    carrying = [CrawlUri(f"https://a.test/{size}", body=b"x" * size) for size in (4, 4, 4, 30, 1)]
    found = list(batches.parts([carrying[0], "https://a.test/", *carrying[1:]]))
    assert [[len(uri.body) for uri in part if isinstance(uri, CrawlUri)] for part in found] == [[4, 4], [4], [30], [1]]
    assert "https://a.test/" in found[0]


def test_an_endless_iterable_is_committed_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "BATCH", 10)

    def endless() -> Iterator[str]:
        for number in count():
            if number == 25:
                raise LookupError("no more of them")
            yield f"https://a.test/{number}"

    f = on_disk(tmp_path, commit_interval=0)
    with pytest.raises(LookupError):
        f.schedule_many(endless())
    crash(f)
    with on_disk(tmp_path) as f:
        assert f.summary().queued == 20


def test_each_uri_of_a_batch_in_parts_has_its_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "PART", 5)
    with memory() as f:
        uris = [CrawlUri(f"https://a.test/{n % 3}", payload=b"1234") for n in range(4)]
        assert f.schedule_each([*uris, "nonsense"]) == ["ADDED", "ADDED", "ADDED", "DUPLICATE", "INVALID"]
        tally = f.schedule_many(uris)
        assert tally.duplicate == 4
