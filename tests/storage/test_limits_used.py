"""What a crawl has used of its limits, read from its cache by another process."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from budgetfrontier.crawler.cache import CrawlCache
from budgetfrontier.storage.backup import CACHE
from budgetfrontier.storage.limits_used import Used, decode_used, encode_used, read_used


def test_what_was_used_is_read_as_of_the_last_commit(tmp_path: Path) -> None:
    assert read_used(tmp_path) is None, "no crawl has filled it"
    with closing(CrawlCache(tmp_path / CACHE)) as cache:
        assert cache.used() == Used()
        cache.put_used(12.5, 4096)
        cache.commit()
        assert read_used(tmp_path) is None, "it is open in this process"
    assert read_used(tmp_path) == Used(12.5, 4096)


def test_a_cache_that_cannot_be_read_tells_nothing(tmp_path: Path) -> None:
    with closing(CrawlCache(tmp_path / CACHE)):
        pass
    assert read_used(tmp_path) is None, "it has no record"
    (tmp_path / CACHE / "data.mdb").write_bytes(b"\xff" * 20_000)
    assert read_used(tmp_path) is None
    assert decode_used(b"short") is None and decode_used(None) is None
    assert decode_used(encode_used(Used(1.0, 2))) == Used(1.0, 2)
