"""The parts of the benchmarks that a wrong figure could hide in: streams, the floor's rows, quantiles, tables."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

import lmdb
import pytest

from benchmarks import growth, kumo_peer, machine, plots, publish, redis_peer
from benchmarks.__main__ import EACH_ROUND, KUMO, QUEUELIB, REDIS, SCRAPY, available
from benchmarks.figures import ROWS
from benchmarks.floor import Floor
from benchmarks.legs import Ahead
from benchmarks.rows import Rows
from benchmarks.streams import Pages
from benchmarks.table import Row, markdown, of, results
from benchmarks.timing import Calls, quantile
from budgetfrontier import Frontier
from budgetfrontier.storage import keys


def test_pages_are_the_same_every_time_and_half_of_their_links_are_known() -> None:
    pages = Pages(20)
    links = [pages.page() for _ in range(500)]
    again = Pages(20)
    assert links == [again.page() for _ in range(500)]
    assert {len(page) for page in links} == {50}
    seeds = set(pages.seeds())
    known = seeds.union(*links[:200])  # by then every site has been met
    new = set(chain(*links[200:])) - known
    assert 0.49 <= len(new) / (50 * 300) <= 0.51


def test_pages_made_ahead_are_the_same_pages() -> None:
    pages = Pages(20)
    with closing(Ahead(Pages(20))) as ahead:
        ahead.make(3)
        taken = iter(ahead)
        found = [next(taken) for _ in range(2)]
        ahead.make(2)
        found += [next(taken) for _ in range(2)]
        assert ahead.is_empty(), "the one that was left counts"
        found += [next(taken) for _ in range(3)]  # the last of them on demand
    assert found == [pages.page() for _ in range(7)]


def test_most_links_of_a_page_stay_on_its_site() -> None:
    pages = Pages(1000)
    for _ in range(100):
        page = pages.page()
        sites = [url.split("/")[2] for url in page]
        assert 40 <= max(map(sites.count, set(sites))) <= 42  # one that leads elsewhere may come back by chance


def test_the_floor_stores_what_ours_stores(tmp_path: Path) -> None:
    pages = Pages(10)
    links = [list(pages.seeds()), *(pages.page() for _ in range(40))]
    rows = Rows()
    floors = Floor(tmp_path / "plain"), Floor(tmp_path / "sorted")
    with Frontier.open(tmp_path / "ours") as ours:
        for page in links:
            ours.schedule_many(page)
            batch = [rows.of(url) for url in page]
            floors[0].put(batch)
            floors[1].put_sorted(batch)
    for floor in floors:
        floor.close()
    stored = _rows(tmp_path / "ours")
    assert len(stored[0]) > 700
    assert _rows(tmp_path / "plain") == stored
    assert _rows(tmp_path / "sorted") == stored


def _rows(path: Path) -> tuple[list[bytes], list[tuple[bytes, bytes]]]:
    """The keys of `seen`, and `pending` with its rows counted instead of their arrival."""
    env = lmdb.open(str(path), readonly=True, max_dbs=len(keys.TABLES), lib_version=0)
    with env.begin() as txn:
        tables = [env.open_db(name.encode(), txn=txn, create=False) for name in (keys.SEEN, keys.PENDING)]
        seen, pending = ([item for item in txn.cursor(table) if item[0] != keys.SENTINEL] for table in tables)
    env.close()
    assert not any(value for _, value in seen)
    return [key for key, _ in seen], [(key[:-8], value) for key, value in pending]


def test_the_floor_takes_the_head_of_a_queue(tmp_path: Path) -> None:
    rows = Rows()
    floor = Floor(tmp_path)
    floor.put([rows.of(f"https://{host}.test/{page}") for page in range(2) for host in "ab"])
    assert [floor.take(queue) for queue in (1, 2, 1, 1, 2, 3)] == [True, True, True, False, True, False]
    floor.close()


def test_calls_tell_those_with_a_commit_by_its_number() -> None:
    numbers = iter([7, 7, 8, 8])
    calls = Calls(lambda: next(numbers))
    for seconds in (0.1, 0.2, 0.3):
        calls.add(seconds)
    assert list(calls.plain) == [0.1, 0.3]
    assert list(calls.committing) == [0.2]
    assert calls.figures()["call_max"] == 0.3


def test_a_quantile_is_a_sample_that_few_are_above() -> None:
    samples = list(map(float, range(100, 0, -1)))
    assert [quantile(samples, part) for part in (0.5, 0.99, 1.0)] == [50.0, 99.0, 100.0]
    assert quantile([3.0], 0.5) == 3.0


ROUNDS: list[dict[str, dict[str, float]]] = [
    {"ours": {"per_second": 300.0}, "theirs": {"per_second": 100.0}},
    {"ours": {"per_second": 500.0}, "theirs": {"per_second": 100.0}, "late": {"seconds": 2.0}},
    {"ours": {"per_second": 100.0}, "theirs": {"per_second": 400.0}},
]


def test_a_figure_is_the_median_of_the_rounds_that_have_it() -> None:
    rows = [
        Row("ours", of("ours"), at_least=300),
        Row("late", of("late", "seconds"), "s", at_most=1),
        Row("none", of("none")),
    ]
    first, second = results(rows, ROUNDS)
    assert (first["median"], first["least"], first["most"], first["runs"]) == (300.0, 100.0, 500.0, 3)
    assert first["reached"] is True
    assert (second["median"], second["runs"], second["reached"]) == (2.0, 1, False)
    text = markdown([first, second]).splitlines()
    assert text[2].split("|")[1:-1] == [
        " ours   ",
        " 300/s   ",
        " 100/s   ",
        " 500/s   ",
        " 3    ",
        " >= 300/s   ",
        " yes     ",
    ]
    assert text[3].endswith("| <= 1.000 s | NO      |")


def test_every_line_of_the_table_is_of_something_that_is_measured() -> None:
    class Everything(dict[str, dict[str, float]]):
        """Any figure of what is measured."""

        def __missing__(self, name: str) -> dict[str, float]:
            assert name in {*EACH_ROUND, *SCRAPY, *QUEUELIB, *KUMO, *REDIS, "demo"}, name
            return defaultdict(lambda: 1.0)

    assert all(row.values([Everything()]) for row in ROWS)


def test_peers_are_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(redis_peer, "find_spec", lambda name: None)
    monkeypatch.setattr("benchmarks.__main__.find_spec", lambda name: True)
    assert available() == SCRAPY + QUEUELIB
    assert capsys.readouterr().err.splitlines() == [
        "redis-server and redis-py is not installed: Redis is left out",
        "cargo is not installed: kumo is left out",
    ]
    assert kumo_peer.missing() == "cargo"


def leg(size: int, seconds: float, **more: Any) -> dict[str, Any]:
    """What a contestant says of a leg that ended with so many URLs pending."""
    figures = {"pending": size, "links": size, "seconds": seconds, "peak": 50.0, "written": 9, "committing": [0.1, 0.2]}
    figures["committed"] = [int(seconds * (20 << 20)), 9]
    return figures | {"file": 200 * size, "live": {"pending": 90 * size, "seen": 30 * size}} | more


def grown() -> dict[str, Any]:
    """A record of `make growth` in which ours is twice as slow as the floor."""
    points: list[growth.Point] = []
    for end in growth.ends_of_legs(10, [1000, 4000]):
        point: growth.Point = {"hosts": 10, "size": end, "ours": leg(end, 2.0), "floor": leg(end, 1.0)}
        if end in (1000, 4000):
            point["drain"] = {"finished": 100, "seconds": 0.5, "reopen": 0.25, "peak": 60.0, "written": 5000}
            point["floor drain"] = {"taken": 100, "seconds": 0.1}
        points.append(point)
    sizes = [growth.summary(points, size) for size in (1000, 4000)]
    about = dict.fromkeys(
        ("commit", "processor", "cores", "memory", "file system", "python", "lmdb", "load before", "load after"), "1"
    )
    more = {"hosts": [sizes[1] | {"hosts": 100.0}], "stalls": {"wake": {"longest": 0.06, "reopen": 0.5}}, "reports": {}}
    return {"date": "2026-01-01T00:00Z", "machine": about, "sizes": sizes, "points": points, **more}


def test_the_rate_at_a_size_is_that_since_half_of_it() -> None:
    assert growth.ends_of_legs(10, [1000, 4000]) == [500, 750, 1000, 2000, 3000, 4000]
    assert growth.ends_of_legs(0, [2_000_000]) == [1_000_000, 1_500_000, 2_000_000]
    last = grown()["sizes"][1]
    assert (last["rate"], last["floor_rate"], last["share"]) == (7000 / 4, 7000 / 2, 0.5)
    assert (last["peak"], last["commit_p50"], last["commit_max"]) == (60.0, 100.0, 200.0)
    assert last["drain_written"] == 50.0
    assert (last["file"], last["live"], last["drain"], last["floor_drain"]) == (200.0, 120.0, 200.0, 1000.0)


def test_commits_are_compared_by_what_a_byte_takes_and_without_those_that_write_next_to_nothing() -> None:
    sizes = [2 << 20, 4 << 20, 9]
    ours, floor = ([leg(1, 1.0, committing=seconds, committed=sizes)] for seconds in ([3, 8, 9], [1, 1, 9]))
    assert growth.compared(ours, floor) == {"commit_p50_price": 3 / 2 / (1 / 4), "commit_max_price": 2 / (1 / 2)}
    assert growth.compared(ours, [leg(1, 1.0, committing=[1], committed=[9])]) == {}


def test_growth_says_which_targets_were_reached() -> None:
    reached = {row["figure"]: row["reached"] for row in growth.targets(grown())}
    assert reached["share of the floor, the least of all sizes and hosts"] is True
    assert reached["opening again, the slowest of all"] is True
    assert reached["250,000 snoozed queues fall due at once: longest call"] is False


def test_tables_take_their_place_in_a_page() -> None:
    page = "before\n<!-- table: one -->\nold\n<!-- end -->\n\n<!-- table: two -->\nold\n<!-- end -->\nafter\n"
    filled = publish.fill(page, {"one": "| new |"})
    assert filled == page.replace("one -->\nold\n", "one -->\n\n| new |\n\n")
    assert publish.fill(filled, {"one": "| new |"}) == filled


def test_the_pages_have_a_place_for_every_table() -> None:
    named = re.findall("<!-- table: (.*) -->", "".join((publish.PAGES / name).read_text() for name in publish.FILLED))
    assert set(publish.of_growth(grown())) == {name for name in named if name.startswith("growth")}
    bench = {name for name in named if name.startswith("bench")}
    assert bench == {"bench origin", "bench peers", "bench targets"}


def test_the_same_figures_give_the_same_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    first = plots.draw(grown(), tmp_path / "first")
    again = plots.draw(grown(), tmp_path / "again")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]
    shown = re.findall(r"figures/([\w-]+\.svg)", (publish.PAGES / "growth.md").read_text())
    assert {path.name for path in first} == set(shown)
    text = first[0].read_text()
    assert ">URLs pending (million)<" in text
    assert ">links (thousand a second)<" in text


def test_the_newest_record_of_this_format_is_put_into_the_documentation(tmp_path: Path) -> None:
    for name, record in (
        ("growth-1", {"format": machine.FORMAT, "date": "2026-01-02T00:00Z"}),
        ("growth-2", {"format": machine.FORMAT, "date": "2026-01-01T00:00Z"}),
        ("growth-3", {"date": "2026-01-03T00:00Z"}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps(record))
    found = publish.newest(tmp_path, "growth-*.json")
    assert found is not None
    assert found["date"] == "2026-01-02T00:00Z"
    assert publish.newest(tmp_path, "[0-9]*.json") is None


def test_records_without_the_newest_rows_make_tables() -> None:
    results = Path(publish.__file__).parent / "results"
    if not any(results.glob("*.json")):
        pytest.skip("a source distribution has no raw results")
    for pattern, made in publish.TABLES.items():
        record = publish.newest(results, pattern)
        assert record is not None, pattern
        assert all(made(record).values())


def test_what_is_finished_by_the_batch_has_a_line_where_it_was_measured() -> None:
    figures = {name: {"per_second": 1000.0} for name in EACH_ROUND}
    before = {name: found for name, found in figures.items() if not name.endswith(" many")}
    assert "`finish_many`" not in publish._peers([before])
    assert "| budgetfrontier, `finish_many` " in publish._peers([figures])
    titles = [row["figure"] for row in results(ROWS, [figures])]
    both = ["lease + finish, 64 at a time, ", "lease + finish_many, 64 at a time, "]
    for order in ("10,000 hosts in rotation", "one host after the other"):
        assert [start + order in titles for start in both] == [True, True]
