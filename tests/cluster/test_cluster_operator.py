"""A crawl in partitions as operators look at it."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any, cast

import pytest

from budgetfrontier import CrawlUri
from budgetfrontier.cluster.operators.cluster_operator import ClusterOperator
from budgetfrontier.cluster.operators.crawl_owners import CrawlOwners
from budgetfrontier.cluster.operators.inspection import MOST_ROWS, RowPage
from budgetfrontier.rules.seeds import SeedFate, SeedOrigin
from budgetfrontier.settings import Settings
from budgetfrontier.storage.seed_list import ListedSeed, SeedRow
from budgetfrontier.tools.cli import report_kinds


class Partitions:
    """Four partitions, each with a list of seeds; the last one loses its owner after its first answer."""

    job = "kafka://nowhere/news"
    partitions = 4
    pages = CrawlOwners.pages

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.missing: set[int] = set()
        self.given_out = 0
        self._left = 20_000

    def check_any(self) -> None:
        assert len(self.missing) < self.partitions

    def head(self) -> Namespace:
        return Namespace(crawl="news")

    def partition_of_uri(self, uri: CrawlUri) -> int:
        return int(uri.url.removeprefix("http://h")[0])

    def ask(self, look: str, kind: Any, *, of: list[int], **named: Any) -> dict[int, Any]:
        (number,) = of
        if number == 3 and (look == "unlisted" or named["after"]):
            self.missing.add(3)
            return {}
        if look == "unlisted":
            return {number: [url for url in named["urls"] if "never" in url]}
        last = min(named["after"] + MOST_ROWS, self._left)
        rows = [
            ListedSeed(at, SeedRow(f"http://h{number}.test/{at}", "", SeedOrigin.SCHEDULED, fate=SeedFate.SUCCEEDED))
            for at in range(named["after"] + 1, last + 1)
        ]
        self.given_out += len(rows)
        return {number: RowPage(rows, last if rows else None)}


def test_seeds_of_partitions_are_read_as_they_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    seeds = [f"http://h{number}.test/{path}" for number in (0, 3) for path in ("1", "never")]
    partitions = Partitions(Settings.from_dict({"seeds": [*seeds, "nonsense"]}))
    args = Namespace(kind="seeds", format="json", since=None, all=True, limit=None)
    operator = ClusterOperator(cast(CrawlOwners, partitions))
    made = report_kinds._seeds(args, operator)
    first = next(iter(made.rows))
    assert first[2] == "http://h0.test/1" and partitions.given_out <= 2 * MOST_ROWS
    report_kinds.run(args, operator)
    told = json.loads(capsys.readouterr().out)
    rows = [(row["status"], row["seed"]) for row in told["rows"]]
    assert len(rows) == 3 * 20_000 + MOST_ROWS + 2
    assert rows[-2:] == [("NOT_REACHED", "http://h0.test/never"), ("INVALID", "nonsense")]
    assert (told["missing_partitions"], told["unknown"]) == ([3], report_kinds.AWAY)
