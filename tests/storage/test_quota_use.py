"""The use of quotas, as reports list it: the fullest first."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Reader
from budgetfrontier.reports import over_time
from budgetfrontier.storage import quota_use
from budgetfrontier.storage.quota_use import QuotaUse, fullest
from tests.support import crawl, on_disk, pages, state


def uses(path: Path) -> list[QuotaUse]:
    with Reader(path / "frontier") as reader, reader.view() as view:
        return fullest(view)


def test_the_fullest_come_first_with_the_limits_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = {"host": {"urls": 4, "bytes": 1000}, "label": {"novel": 8}}
    own = {"match": "host:b.test", "set": {"quotas.host": {"urls": 2}}}
    with on_disk(tmp_path, quotas=quotas, overrides=[own]) as f:
        f.schedule_many(CrawlUri(url, source="news") for url in pages("abc", 3))
        f.adjust(match="queue:c.test", **{"quotas.queue": {"urls": 0}})  # type: ignore[arg-type]
        assert crawl(f, size=10) == "AAABB"
    assert uses(tmp_path) == [
        QuotaUse("host", "b.test", "urls", 2, 2),
        QuotaUse("host", "a.test", "urls", 3, 4),
        QuotaUse("label", "news", "novel", 5, 8),
        QuotaUse("host", "a.test", "bytes", 30, 1000),
    ]
    monkeypatch.setattr(quota_use, "MOST", 2)
    assert [use.share for use in uses(tmp_path)] == [1.0, 0.75]


def test_without_quotas_there_are_none(tmp_path: Path) -> None:
    with on_disk(tmp_path, quotas={"host": {"urls": 4}}) as f:
        f.schedule_many(pages("a", 1))
        crawl(f)
    assert uses(tmp_path)
    with on_disk(tmp_path, quotas={}):
        pass
    assert uses(tmp_path) == []


def test_forecasts_tell_uris_over_a_quota_from_those_that_one_may_end(tmp_path: Path) -> None:
    own = {"match": "host:c.test", "set": {"quotas.host": {}}}
    with on_disk(tmp_path, quotas={"host": {"urls": 2}}, overrides=[own]) as f:
        f.schedule_many([*pages("a", 5), *pages("b", 4), *pages("c", 2)])
        assert crawl(f, 2) == "AA" and state(f, "a") == "READY"
        f.commit()
        with Reader(tmp_path / "frontier") as reader, reader.view() as view:
            found = over_time.held(view)
    assert (found.over_quota, found.under_quota, found.unlimited) == (3, 4, 6)
