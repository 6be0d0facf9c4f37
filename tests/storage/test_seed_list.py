"""The list of seeds as it is read: page by page, with the states of queues and the ends of redirects, and checked."""

from __future__ import annotations

from itertools import islice, pairwise
from pathlib import Path

import pytest

from budgetfrontier import CrawlUri, Directive, Reader
from budgetfrontier.errors import CorruptFrontier
from budgetfrontier.storage import keys, verify
from budgetfrontier.storage.seed_list import find, host_key, last_position, listed, url_key
from tests.storage.repair.damaging import Damage, damaging
from tests.support import on_disk, one


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A frontier with a chain of redirects between seeds, one that is leased, and one on a retired queue."""
    chain = ["http://a.test/", "http://b.test/", "http://c.test/"]
    with on_disk(tmp_path, keep_leases=True, cost_policy="unit") as f:
        f.schedule(CrawlUri(chain[0], directive=Directive.MEDIUM))
        for hops, (url, target) in enumerate(pairwise(chain), 1):
            found = CrawlUri(target, directive=Directive.MEDIUM, hops="R" * hops, via=url)
            f.finish(one(f), discovered=[found], reason="status 301")
        f.schedule(CrawlUri("http://held.test/", directive=Directive.MEDIUM))
        f.retire("held.test")
        one(f)
        f.commit()
    return tmp_path / "frontier"


def test_seeds_are_read_in_order_with_what_follows_from_other_tables(path: Path) -> None:
    with Reader(path) as reader, reader.view() as view:
        found = list(listed(view))
        assert [seed.position for seed in found] == [1, 2, 3, 4] and last_position(view) == 4
        assert [seed.end and seed.end.url for seed in found] == ["http://c.test/", "http://c.test/", None, None]
        assert [(str(seed.state), seed.leased) for seed in found[3:]] == [("RETIRED", False)]
        assert [seed.position for seed in islice(listed(view, 2), 1)] == [3]
        assert find(view.txn, view.db, "http://none.test/") is None


def test_hosts_below_one_domain_are_neighbours() -> None:
    assert host_key("www.a.test").startswith(host_key("a.test")) and not host_key("ba.test").startswith(
        host_key("a.test")
    )


def lose_url(tables: Damage) -> None:
    tables.delete(keys.SEED_KEYS, url_key("http://a.test/"))


def lose_host(tables: Damage) -> None:
    tables.delete(keys.SEED_KEYS, host_key("b.test"))


def lose_row(tables: Damage) -> None:
    tables.delete(keys.SEEDS, keys.u64.pack(4))


def forget_last(tables: Damage) -> None:
    tables.change_totals(seeds=3)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lose_url, "seed_keys does not lead to http://a.test/"),
        (lose_host, "seed_keys does not lead to http://b.test/"),
        (lose_row, "seed_keys has other seeds"),
        (lose_row, "the fates of the seeds are"),
        (forget_last, "http://held.test/ is beyond the last position"),
    ],
)
def test_verify_compares_the_list_with_its_index_and_its_totals(path: Path, damage: object, told: str) -> None:
    verify.verify(path)
    with damaging(path) as tables:
        damage(tables)  # type: ignore[operator]
    with pytest.raises(CorruptFrontier, match=told):
        verify.verify(path)
