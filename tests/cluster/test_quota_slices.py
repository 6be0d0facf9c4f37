"""Crawl-wide totals: handed out in slices, exactly, whatever happens to the workers and their messages."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from budgetfrontier import Outcome
from budgetfrontier.cluster.partitions.partition_progress import crawl_summary, limit_reached, standing_of
from budgetfrontier.cluster.quotas.quota_slices import NOTHING, Amounts
from budgetfrontier.core.model import CrawlState
from budgetfrontier.rules.crawl_states import LIMIT
from tests.cluster.crawl import Crawl
from tests.cluster.log import PARTITIONS

TOTALS = (Amounts(150), Amounts(0, 300), Amounts(60, 400), Amounts(40, 300), Amounts())


@pytest.mark.parametrize("seed", range(12))
def test_totals_are_kept_and_spent_whatever_happens(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    first, second = random.choice(TOTALS), random.choice(TOTALS)
    with closing(Crawl(tmp_path, random, first)) as crawl:
        crawl.step(100)
        if random.random() < 0.5:
            crawl.drain()
            crawl.check_end()
        crawl.set_totals(second)
        crawl.step(40)
        crawl.drain()
        crawl.check_end()
        crawl.check_copies()


def with_work(folder: Path, totals: Amounts) -> Crawl:
    """A crawl each of whose partitions has more to do than the totals allow."""
    crawl = Crawl(folder, Random(1), totals)
    crawl.pages = [500 for _ in crawl.pages]
    for number, owner in crawl.owners.items():
        owner.schedule(*crawl.uris(number, 40))
    return crawl


def lease_everywhere(crawl: Crawl) -> int:
    """Ask each partition for a URI, which may let it want a slice; return how many there were."""
    crawl.wait(100.0)
    leases = [(number, lease) for number, owner in crawl.owners.items() for lease in owner.lease()]
    crawl.deliver_all()
    crawl.out += leases
    return len(leases)


def test_a_lowered_total_takes_slices_back_and_a_raised_one_goes_on(tmp_path: Path) -> None:
    with closing(with_work(tmp_path, Amounts(100))) as crawl:
        assert lease_everywhere(crawl) == 0  # which has asked for slices
        assert lease_everywhere(crawl) == PARTITIONS
        crawl.set_totals(Amounts(10), steps=0)
        crawl.drain(calm=True)
        assert crawl.used().uris == 10
        owner = crawl.owners[1].partition
        assert owner.ready_in() is None  # so that nobody asks it in vain
        standings = [standing_of("", owner.partition) for owner in crawl.owners.values()]
        assert limit_reached(standings) == "cluster.max_uris"
        summary = crawl_summary(standings)
        assert (summary.state, summary.pause_reason) == (CrawlState.PAUSED, LIMIT)
        crawl.set_totals(Amounts(13), steps=0)
        assert any(owner.partition.ready_in() is not None for owner in crawl.owners.values())
        crawl.drain(calm=True)
        assert crawl.used().uris == 13


def test_a_total_that_is_set_later_counts_what_was_used_before(tmp_path: Path) -> None:
    with closing(with_work(tmp_path, NOTHING)) as crawl:
        crawl.highest = 1 << 60
        for _ in range(5):
            for lease in crawl.owners[1].lease(1):
                crawl.out.append((1, lease))
                crawl.finish(Outcome.SUCCESS)
            crawl.wait(100.0)
        used = crawl.used().uris
        assert used == 5
        for number in (0, 2):
            crawl.restart(number, Amounts(8))
        lease_everywhere(crawl)
        treasury = crawl.owners[0].partition.spending.state.treasury
        assert treasury is not None
        assert treasury.out == NOTHING  # nothing is granted before all have told what they have used
        for number in (1, 3):
            crawl.restart(number, Amounts(8))
        crawl.drain(calm=True)
        assert crawl.used().uris == 8
