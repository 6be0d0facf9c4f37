"""The seeds report: what is said of a seed that fails, or redirects."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Reader
from budgetfrontier.reports.seed_fates import SeedStatus, seed_rows
from budgetfrontier.rules.seeds import SeedFate, SeedOrigin
from budgetfrontier.storage.seed_list import ListedSeed, SeedRow, listed
from tests.crawler.site import Page, Site, redirect, run, text


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (200, SeedStatus.CRAWLED),
        (404, SeedStatus.CRAWLED),
        (500, SeedStatus.FAILED),
        (503, SeedStatus.FAILED),
        (-2, SeedStatus.FAILED),
        (-9998, SeedStatus.DISREGARDED),
        (-5000, SeedStatus.DISREGARDED),
    ],
)
def test_a_seed_that_was_known_before_is_crawled_only_if_it_did_not_fail(code: int, fate: SeedStatus) -> None:
    known = ListedSeed(1, SeedRow("http://a.test/", "", SeedOrigin.SCHEDULED, fate=SeedFate.KNOWN))
    (row,) = seed_rows([known], lambda urls: dict.fromkeys(urls, code))
    assert (row["status"], row["code"]) == (fate, code)


@pytest.mark.parametrize(
    ("redirects", "detail"), [(5, "200 OK"), (7, "more than 5 redirects: crawl.log has what followed")]
)
def test_redirects_that_lead_on_after_the_last_seed_are_said_to(tmp_path: Path, redirects: int, detail: str) -> None:
    pages: dict[str, Page] = {f"a.test/{n}": redirect(f"/{n + 1}") for n in range(redirects)}
    with Site(pages | {f"a.test/{redirects}": text("the end")}) as site:
        run(site.settings("http://a.test/0", fetch={"robots": "ignore"}), tmp_path)
    with Reader(tmp_path / "frontier") as reader, reader.view() as view:
        rows = list(seed_rows(listed(view)))
    assert [row["detail"] for row in rows if row["status"] == SeedStatus.REDIRECTED] == [detail] * min(redirects, 6)
    assert len(rows) == 6
