"""The example of the manual, on a small site."""

from __future__ import annotations

from pathlib import Path

from tests.scrapy.broad import PAGES, run


def test_a_host_without_end_is_retired_and_the_crawl_ends(tmp_path: Path) -> None:
    outcome = run(tmp_path, {}, hosts=4)
    assert (outcome.calendar, outcome.others) == (100, 4 * PAGES)
    assert outcome.complete is not None
