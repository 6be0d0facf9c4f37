"""Partitions whose own worker has no copy that fits the log go to the worker that has the latest one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from budgetfrontier import Settings
from budgetfrontier.cluster.directory import copy_offers
from budgetfrontier.cluster.directory.copy_offers import CopyNotice, CopyOffers
from budgetfrontier.cluster.log import entries
from budgetfrontier.cluster.log.entries import Claimed
from budgetfrontier.cluster.log.state import FRONTIER, place_in
from budgetfrontier.cluster.workers import worker
from budgetfrontier.cluster.workers.worker import ClusterWorker
from budgetfrontier.core import protocol
from budgetfrontier.core.protocol import Uris
from budgetfrontier.errors import SettingsError
from tests.cluster.memory_directory import MemoryDirectory
from tests.cluster.workers import LogBus, Logs
from tests.support import PATIENCE, until


class Table:
    """What workers have said, and the rules of each."""

    def __init__(self, *names: str) -> None:
        self.rows: dict[str, CopyNotice] = {}
        self.workers = {name: CopyOffers(name) for name in names}
        self.now = 0.0

    def turn(self, lacking: Mapping[str, set[int]], copies: Mapping[str, dict[int, int]]) -> dict[str, list[int]]:
        """Let each worker take a step; return what each takes."""
        taken = {}
        for name, offers in self.workers.items():
            here = copies.get(name, {})
            said, found = offers.step(
                self.now, dict.fromkeys(lacking.get(name, ()), "a gap"), [*self.rows.values()], here.get, {}
            )
            self.rows |= {notice.key: notice for notice in said}
            if found:
                taken[name] = found
        self.now += copy_offers.EVERY
        return taken


def test_the_latest_copy_that_fits_is_taken_once() -> None:
    table = Table("a", "b", "c", "d")
    copies = {"b": {3: 70}, "c": {3: 90, 4: 1}, "d": {3: 90}}
    taken = [table.turn({"a": {3}}, copies) for _ in range(8)]
    assert [one for one in taken if one] == [{"d": [3]}], "of two that are equal, one"


def test_nobody_takes_what_no_other_copy_fits_and_nothing_is_said_if_nothing_is_missing() -> None:
    table = Table("a", "b")
    assert all(table.turn({"a": {3}}, {"b": {4: 9}}) == {} for _ in range(20))
    assert {notice.key for notice in table.rows.values()} == {"3/search/a"}
    table.turn({}, {})
    rows = dict(table.rows)
    assert [notice.search for notice in rows.values()] == [b""]
    assert all(table.turn({}, {"b": {3: 9}}) == {} for _ in range(20))
    assert table.rows == rows


def test_a_search_of_a_worker_that_is_gone_is_none() -> None:
    table = Table("a", "b")
    table.turn({"a": {3}}, {})
    table.workers = {"b": CopyOffers("b"), "c": CopyOffers("c")}
    assert all(table.turn({}, {"b": {3: 9}}) == {} for _ in range(20))


def test_whoever_comes_after_the_one_that_took_it_takes_it_again() -> None:
    table = Table("a", "b", "c")
    copies = {"b": {3: 5}, "c": {3: 9}}
    taken = [table.turn({"a": {3}}, copies) for _ in range(2 * copy_offers._BEATS)]
    assert {name for one in taken for name in one} == {"c"}
    del table.workers["c"]
    taken = [table.turn({"a": {3}}, copies) for _ in range(2 * copy_offers._BEATS)]
    assert {name for one in taken for name in one} == {"b"}


def test_why_a_partition_is_closed_is_told_until_it_is_not() -> None:
    offers = CopyOffers("a")

    def told(lacking: dict[int, str], waiting: dict[int, str]) -> dict[int, str]:
        said, taken = offers.step(0.0, lacking, [], lambda number: None, waiting)
        assert taken == []
        return {notice.partition: notice.why for notice in said}

    assert told({3: "a gap"}, {4: "no store"}) == {3: "a gap", 4: "no store"}
    assert told({3: "a gap"}, {4: "no store"}) == {3: "a gap", 4: "no store"}, "again, as a sign of life"
    assert told({}, {4: "no store"}) == {3: "", 4: "no store"}
    assert told({4: "a gap"}, {}) == {4: "a gap"}
    assert told({}, {}) == {4: ""}
    assert told({}, {}) == {}


def test_nobody_offers_a_copy_of_what_another_waits_for() -> None:
    waits, other = CopyOffers("a"), CopyOffers("b")
    rows: list[CopyNotice] = []
    for turn in range(8):
        said, _ = waits.step(turn * copy_offers.EVERY, {}, rows, lambda number: None, {3: "no store"})
        rows = said
        assert other.step(turn * copy_offers.EVERY, {}, rows, lambda number: 9, {}) == ([], [])


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers look, speak and try again often."""
    for module, name, seconds in (
        (worker, "LOOK_EVERY", 0.01),
        (worker, "AGAIN", 0.5),
        (copy_offers, "EVERY", 0.05),
        (copy_offers, "_DECIDED", 0.2),
        (copy_offers, "_OVER", PATIENCE),
    ):
        monkeypatch.setattr(module, name, seconds)


@contextmanager
def running(folder: Path, logs: Logs, directory: MemoryDirectory, mine: tuple[int, ...]) -> Iterator[ClusterWorker]:
    """Run a worker that is given these partitions, with the copies in its folder."""
    settings = Settings.from_dict({"crawl": "test"})
    one = ClusterWorker(
        LogBus(logs, mine), directory, settings, folder,
        partitions=1, address=f"unix:{folder.name}", log_end=lambda number: len(logs.entries[number]),
    )  # fmt: skip
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        yield one
    finally:
        one.stop()
        thread.join()


def test_an_owner_has_a_partition_since_its_claim_by_the_clock_of_the_broker(tmp_path: Path) -> None:
    logs, directory = Logs(1), MemoryDirectory()
    logs.time = lambda: 1000.0
    with running(tmp_path / "one", logs, directory, (0,)):
        until(lambda: 0 in directory.read())
        owner = directory.read()[0]
    assert 1000.0 <= owner.since < 1000.0 + PATIENCE
    assert directory.read()[0] == replace(owner, address=""), "it has given it up"


def schedule(one: ClusterWorker, *urls: str) -> None:
    """Schedule URLs in the partition of a worker, once it has it."""
    until(lambda: one.owned == [0])
    answered = threading.Event()
    one.call(0, protocol.SCHEDULE_MANY.name, protocol.encode(Uris(list(urls))), lambda *_: answered.set())
    assert answered.wait(PATIENCE)


def noted(calls: list[int], call: Callable[[int], None]) -> Callable[[int], None]:
    """Return a function that notes its calls."""

    def called(number: int) -> None:
        calls.append(number)
        call(number)

    return called


def claims(logs: Logs, name: str) -> int:
    """The claims of a worker in the log."""
    bodies = [entries.decode(data, crawl="test") for data, _ in logs.entries[0]]
    return sum(isinstance(body, Claimed) and body.worker.startswith(f"unix:{name}#") for body in bodies)


@pytest.mark.usefixtures("fast")
def test_a_partition_goes_to_the_worker_that_has_a_copy_that_fits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, directory = Logs(1), MemoryDirectory()
    with running(tmp_path / "stale", logs, directory, (0,)) as stale:
        schedule(stale, "https://a.test/")
    with running(tmp_path / "good", logs, directory, (0,)) as good:
        schedule(good, *(f"https://a.test/{number}" for number in range(9)))
    place = place_in(tmp_path / "good" / "partition-0000" / FRONTIER)
    assert place is not None
    logs.begins[0] = place.position
    before = claims(logs, "stale")
    with (
        running(tmp_path / "stale", logs, directory, (0,)) as stale,
        running(tmp_path / "good", logs, directory, ()) as good,
    ):
        until(lambda: directory.read()[0].address == "unix:good")
        assert (stale.owned, good.owned) == ([], [0])
        schedule(good, "https://a.test/last")
        tried: list[int] = []
        monkeypatch.setattr(stale._opener, "begin", noted(tried, stale._opener.begin))
        until(lambda: len(tried) == 3)
        (search,) = (notice for notice in directory.copies() if notice.why)
        assert (search.partition, search.worker) == (0, stale.name)
    assert caplog.text.count(search.why) == 1, "it has logged the gap once"
    assert claims(logs, "stale") == before, "it has written nothing"
    with running(tmp_path / "good", logs, directory, (0,)) as good:
        schedule(good, "https://a.test/0")
        counted = threading.Event()
        found: list[int] = []
        good.look(0, lambda one: found.append(one.frontier.summary().seen), lambda *_: counted.set())
        assert counted.wait(PATIENCE) and found == [11]


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("version", [entries.VERSION - 1, entries.VERSION + 1])
def test_a_log_of_another_release_gets_no_claim(tmp_path: Path, version: int) -> None:
    """Whichever of the two is older: what it cannot read, a worker neither takes over nor disturbs."""
    logs, directory = Logs(1), MemoryDirectory()
    with running(tmp_path / "one", logs, directory, (0,)) as one:
        schedule(one, "https://a.test/")
    logs.entries[0].append((protocol.encode([version, "test", [0, "its worker", b"nonce", ""]]), 0.0))
    before = [*logs.entries[0]]
    settings = Settings.from_dict({"crawl": "test"})
    for folder in (tmp_path / "one", tmp_path / "new"):
        other = ClusterWorker(
            LogBus(logs, (0,)), directory, settings, folder,
            partitions=1, address="unix:other", log_end=lambda number: len(logs.entries[number]),
        )  # fmt: skip
        with pytest.raises(entries.OtherVersion, match=f"has an entry of version {version}, .* it has changed nothing"):
            other.run()
        assert logs.entries[0] == before


@pytest.mark.usefixtures("fast")
def test_a_worker_with_other_fixed_settings_claims_nothing(tmp_path: Path) -> None:
    """Else each of its starts would take all partitions away from the others, for nothing."""
    logs, directory = Logs(1), MemoryDirectory()
    with running(tmp_path / "one", logs, directory, (0,)) as one:
        schedule(one, "https://a.test/")
    before = [*logs.entries[0]]
    settings = Settings.from_dict({"crawl": "test", "frontier": {"keep_urls": True}})
    for folder in (tmp_path / "one", tmp_path / "new"):
        other = ClusterWorker(
            LogBus(logs, (0,)), directory, settings, folder,
            partitions=1, address="unix:other", log_end=lambda number: len(logs.entries[number]),
        )  # fmt: skip
        with pytest.raises(SettingsError, match=r"which are fixed: frontier\.keep_urls: False -> True"):
            other.run()
        assert logs.entries[0] == before


@pytest.mark.usefixtures("fast")
def test_an_owner_that_meets_the_claim_of_another_release_answers_no_more(tmp_path: Path) -> None:
    logs, directory = Logs(1), MemoryDirectory()
    settings = Settings.from_dict({"crawl": "test"})
    owner = ClusterWorker(
        LogBus(logs, (0,)), directory, settings, tmp_path / "one",
        partitions=1, address="unix:one", log_end=lambda number: len(logs.entries[number]),
    )  # fmt: skip
    raised: list[BaseException] = []

    def run() -> None:
        try:
            owner.run()
        except entries.OtherVersion as e:
            raised.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    schedule(owner, "https://a.test/")
    claim = protocol.encode([entries.VERSION + 1, "test", [0, "its worker", b"nonce", ""]])
    LogBus(logs, (0,)).producer(worker.log_stream("test", 1)).send(claim)
    thread.join(PATIENCE)
    assert raised and owner.owned == []
    assert logs.entries[0][-1][0] == claim


@pytest.mark.usefixtures("fast")
def test_a_partition_whose_log_cannot_be_read_is_closed_without_a_claim_until_a_copy_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, directory = Logs(1), MemoryDirectory()
    with running(tmp_path / "one", logs, directory, (0,)) as one:
        schedule(one, "https://a.test/")
    logs.entries[0].append((protocol.encode([entries.VERSION, "test", ["Nothing"]]), 0.0))
    count = len(logs.entries[0])
    with running(tmp_path / "new", logs, directory, (0,)) as new:
        until(lambda: f"the entry at offset {count - 1} is of this crawl" in caplog.text)
        until(lambda: any("cannot be read" in notice.why for notice in directory.copies()))
        tried: list[int] = []
        monkeypatch.setattr(new._opener, "begin", noted(tried, new._opener.begin))
        until(lambda: len(tried) > 1)
        assert new.owned == [] and len(logs.entries[0]) == count
        assert sum("cannot be read" in record.getMessage() for record in caplog.records) == 1
