"""Totals of labels, and their sums over partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Outcome, Reader
from budgetfrontier.core.model import Directive
from budgetfrontier.storage import label_totals
from budgetfrontier.storage.label_totals import LabelTotals, summed
from tests.support import on_disk


def test_labels_of_seeds_and_of_what_was_found_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with on_disk(tmp_path, polite=False) as f:
        f.schedule(CrawlUri("http://a.test/", source="one", directive=Directive.MEDIUM))
        f.schedule(CrawlUri("http://b.test/", source="two"))
        f.schedule("http://c.test/")
        first, second, third = f.lease(3)
        f.finish(first, size=5, novel=False, discovered=["http://a.test/1", CrawlUri("http://d.test/", source="two")])
        f.finish(second, Outcome.DISREGARDED)
        f.finish(third)
        while leases := f.lease(1):
            f.finish(leases[0], size=1)
    one = LabelTotals("one", 1, 0, successes=2, bytes=6, novel=1, novel_bytes=1)
    two = LabelTotals("two", 0, 0, successes=1, bytes=1, novel=1, novel_bytes=1)
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        assert label_totals.label_totals(view) == [one, two]
        monkeypatch.setattr(label_totals, "MOST", 1)
        assert label_totals.label_totals(view) == [one]


def test_partitions_are_summed() -> None:
    one = [LabelTotals("a", 1, 1, 2, 3, 4, 5, 6), LabelTotals("b", successes=1)]
    assert summed([one, [LabelTotals("b", seeds=2, successes=9)], []]) == [
        LabelTotals("b", seeds=2, successes=10),
        LabelTotals("a", 1, 1, 2, 3, 4, 5, 6),
    ]
