"""The Bloom filter of the URIs seen: folds, restarts, kills, damage, copies, repairs; and `duplicates: noop`."""

from __future__ import annotations

import errno
import gc
import os
import random
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from budgetfrontier import Admission, CorruptFrontier, CrawlUri, Frontier, Reader, Report, SettingsError
from budgetfrontier.core import uris
from budgetfrontier.core.model import Directive
from budgetfrontier.engine.commands.mailbox import Command
from budgetfrontier.engine.seen_filter import SeenFilter
from budgetfrontier.errors import FrontierError, MissingExtra, StorageFull
from budgetfrontier.reports.text import render
from budgetfrontier.rules.duplicates import bloom_error, bloom_size, most_unfolded
from budgetfrontier.settings import Settings
from budgetfrontier.settings.schema import BloomSettings
from budgetfrontier.storage import bloom_file, seed_list
from budgetfrontier.storage.backup import compact, copy
from budgetfrontier.storage.environment import Environment
from budgetfrontier.storage.repair.repair_steps import repair
from tests.support import make_settings

EXPECTED = 160
"""The size of the filters here: the table is folded when it has more than 10 fingerprints."""


def settings(expected: int = EXPECTED, **options: Any) -> Settings:
    return make_settings(duplicates="bloom", bloom={"expected": expected, "error": 1e-9}, **options)


def pages(first: int, last: int) -> list[str]:
    return [f"https://a.test/{number}" for number in range(first, last)]


def opened(path: Path, **options: Any) -> Frontier:
    return Frontier.open(path, settings(**options))


def generations(path: Path) -> list[str]:
    return sorted(file.name for file in path.glob("seen-*.bloom"))


@pytest.fixture
def folded(tmp_path: Path) -> Path:
    """A frontier with 20 URLs in its filter and 5 in the table."""
    path = tmp_path / "f"
    with opened(path) as frontier:
        frontier.schedule_many(pages(0, 20))
        frontier.commit()
        frontier.schedule_many(pages(20, 25))
    assert generations(path) == ["seen-1.bloom"]
    return path


def test_uris_are_admitted_once_across_folds_and_restarts(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for run in range(4):
        with opened(path) as frontier:
            for first in range(0, 100, 7):
                tally = frontier.schedule_many(pages(first, first + 7))
                assert (tally.added, tally.duplicate) == ((7, 0) if not run else (0, 7))
                frontier.commit()
                assert frontier.schedule(f"https://a.test/{first}") is Admission.DUPLICATE
            assert frontier.schedule(CrawlUri("https://a.test/3", force=True)) is Admission.ADDED
            assert frontier.summary().seen == 105
            frontier.check()
        assert generations(path) == ["seen-7.bloom"]
    with Reader(path) as reader:
        reader.check()
        assert reader.summary().seen == 105
        assert reader.find("https://a.test/1")["seen"] is True
        assert reader.find("https://a.test/104")["seen"] is True
        assert reader.find("https://a.test/105")["seen"] is False


def test_one_in_memory_has_no_file() -> None:
    with Frontier.open(":memory:", settings()) as frontier:
        frontier.schedule_many(pages(0, 20))
        frontier.commit()
        assert frontier.schedule_many(pages(0, 21)).added == 1
        assert frontier.summary().seen == 21
        frontier.check()


def test_a_closed_frontier_keeps_no_filter_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Filter(set[bytes]):  # of which there are weak references
        pass

    made: list[weakref.ref[Filter]] = []

    def new(bloom: BloomSettings) -> Filter:
        found = Filter()
        made.append(weakref.ref(found))
        return found

    monkeypatch.setattr(bloom_file, "new", new)
    gc.disable()
    try:
        with Frontier.open(":memory:", settings()) as frontier:
            frontier.schedule_many(pages(0, 20))
            assert made[0]() is not None
        assert made[0]() is None
    finally:
        gc.enable()


def test_new_uris_are_full_once_there_are_as_many_as_expected(tmp_path: Path) -> None:
    with opened(tmp_path / "f", expected=8) as frontier:
        tally = frontier.schedule_many(pages(0, 12))
        assert (tally.added, tally.full, tally.reasons) == (8, 4, {"bloom.expected": 4})
        frontier.commit()
        assert frontier.schedule("https://a.test/9") is Admission.FULL
        assert frontier.schedule("https://a.test/3") is Admission.DUPLICATE
        assert frontier.schedule(CrawlUri("https://a.test/9", force=True)) is Admission.ADDED
        assert not frontier.internals.has_room("https://a.test/9")
        assert frontier.summary().full_reasons == {"bloom.expected": 5}
        frontier.check()


def test_no_way_in_overfills_the_filter(tmp_path: Path) -> None:
    """What is marked as seen or buried beyond the expected number is FULL, leaves no trace, and may come again."""
    with opened(tmp_path / "f", expected=8) as frontier:
        frontier.schedule_many(pages(0, 5))
        given = ["https://a.test/6", "https://a.test/6#x", "ftp://a.test/", *pages(3, 10), "https://a.test/9"]
        tally = frontier.mark_seen(given, charge=True)
        assert (tally.added, tally.duplicate, tally.invalid, tally.full) == (3, 4, 1, 3)
        assert tally.reasons["bloom.expected"] == 3
        assert frontier.summary().expenditure == 3
        frontier.commit()
        assert frontier.schedule("https://a.test/9") is Admission.FULL
        seed = CrawlUri("https://b.test/", directive=Directive.MEDIUM)
        bury = {"uris": [*pages(8, 10), "https://a.test/1", "https://b.test/"], "reasons": ["gone"] * 4}
        assert frontier.mark_seen([seed]).full == 1
        entry = frontier.internals.apply(Command("bury", bury, "me", ""), number=1)
        assert not entry.error
        assert (frontier.summary().dead, frontier.summary().seen) == (0, 8)
        assert frontier.summary().full_reasons == {"bloom.expected": 8}
        frontier.check()
    with Reader(tmp_path / "f") as reader, reader.view() as view:
        assert not [*seed_list.rows(view)]


def test_the_measured_error_is_about_the_one_that_was_asked_for() -> None:
    bloom = BloomSettings(expected=20_000, error=0.01)
    found = bloom_file.new(bloom)
    found.update(uris.fingerprint(f"https://a.test/{number}") for number in range(20_000))
    wrong = sum(uris.fingerprint(f"https://a.test/-{number}") in found for number in range(20_000)) / 20_000
    bits, hashes = bloom_size(20_000, 0.01)
    assert found.size_in_bits == bits
    assert 0.005 < wrong < 0.02
    assert bloom_error(20_000, bits, hashes) == pytest.approx(0.01, rel=0.1)
    assert bloom_error(0, bits, hashes) == 0
    assert [most_unfolded(number) for number in (1, 160, 10**9)] == [1, 10, 1_000_000]


def test_the_report_says_how_full_the_filter_is(folded: Path) -> None:
    report = Report.read(folded)
    assert report.bloom is not None
    assert (report.bloom.recorded, report.bloom.expected, report.bloom.bytes) == (25, 160, 863)
    assert 0 < report.bloom.error < 1e-9
    assert report.to_dict()["bloom"]["recorded"] == 25
    assert "Already included size:     25 (15.6% of the Bloom filter's 160; its error is" in render(report)


# -- fixed at creation


def test_a_frontier_keeps_to_its_way(folded: Path) -> None:
    for other in (make_settings(), make_settings(duplicates="noop"), settings(expected=161)):
        with pytest.raises(SettingsError, match=r"was created with `duplicates: bloom` and .*expected: 160.*fixed"):
            Frontier.open(folded, other)
    with Frontier.open(folded) as frontier:
        assert frontier.schedule("https://a.test/3") is Admission.DUPLICATE


def test_one_that_is_exact_stays_so(tmp_path: Path) -> None:
    Frontier.open(tmp_path / "f", make_settings(bloom={"expected": 5})).close()
    with pytest.raises(SettingsError, match="was created with `duplicates: exact`, which is fixed at creation"):
        opened(tmp_path / "f")
    Frontier.open(tmp_path / "f", make_settings(bloom={"expected": 6})).close()


def test_the_extra_is_named_if_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rbloom", None)
    with pytest.raises(MissingExtra, match=r"budgetfrontier\[bloom\]"):
        opened(tmp_path / "f")
    assert not (tmp_path / "f" / "data.mdb").exists()
    Frontier.open(tmp_path / "f", make_settings()).close()


# -- kills and damage


def _dies(function: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def replaced(*args: Any, **options: Any) -> Any:
        if not before:
            function(*args, **options)
        os._exit(9)

    return replaced


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(
    ("where", "name", "folded"),
    [
        (bloom_file, "write", False),
        (bloom_file, "sync_folder", False),
        (SeenFilter, "_fold", False),
        (SeenFilter, "committed", True),
        (bloom_file, "remove_others", True),
    ],
)
def test_a_kill_at_any_instant_of_a_fold_loses_nothing(
    tmp_path: Path, where: Any, name: str, folded: bool, before: bool
) -> None:
    path = tmp_path / "f"
    with opened(path) as frontier:
        frontier.schedule_many(pages(0, 20))
    if not (child := os.fork()):
        try:
            frontier = opened(path)
            frontier.schedule_many(pages(20, 31))
            setattr(where, name, _dies(getattr(where, name), before=before))
            frontier.commit()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with opened(path) as frontier:
        frontier.check()
        assert frontier.schedule_many(pages(0, 20)).duplicate == 20
        assert frontier.schedule_many(pages(20, 31)).added == (0 if folded else 11)
        frontier.commit()
        frontier.check()
    with opened(path) as frontier:
        assert frontier.schedule_many(pages(0, 31)).duplicate == 31
    assert generations(path) == ["seen-2.bloom"]


def test_a_full_disk_leaves_the_frontier_as_it_was(folded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        size_in_bits = 8

        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def save(self, path: str) -> None:
            Path(path).write_bytes(b"part")
            raise OSError("No space left on device (os error 28)")

    with opened(folded) as frontier:
        frontier.schedule_many(pages(25, 40))
        with monkeypatch.context() as patched, pytest.raises(StorageFull, match="Bloom filter"):
            patched.setattr(bloom_file, "write", lambda folder, number, _: write(folder, number, Full()))  # type: ignore[arg-type]
            frontier.commit()
    assert generations(folded) == ["seen-1.bloom"]
    with opened(folded) as frontier:
        assert frontier.schedule_many(pages(0, 40)).added == 15


write = bloom_file.write


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_damaged_filter_is_told_and_repaired(folded: Path, damage: str) -> None:
    path = folded / "seen-1.bloom"
    whole = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(whole[:-1] if damage == "cut" else whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(CorruptFrontier, match=r"with 20 of the URIs seen: .*`budgetfrontier verify --repair`"):
        opened(folded)
    with Reader(folded) as reader, pytest.raises(CorruptFrontier, match="with 20 of the URIs seen"):
        reader.check()
    assert any("the Bloom filter is lost" in change for change in repair(folded).first_changes)
    with opened(folded) as frontier:
        frontier.check()
        assert frontier.schedule_many(pages(0, 25)).duplicate == 25, "they are pending, and were added again"


def test_a_repair_keeps_a_filter_that_is_whole(folded: Path) -> None:
    assert not repair(folded).changes
    with opened(folded) as frontier:
        frontier.check()
        assert frontier.schedule_many(pages(0, 26)).added == 1


def test_settings_that_are_lost_do_not_take_the_filter_for_nothing(folded: Path) -> None:
    env = Environment(folded)
    env.txn.delete(b"settings", db=env.db["meta"])
    env.commit()
    env.close()
    with pytest.raises(SettingsError, match="was created with a Bloom filter"):
        Frontier.open(folded, make_settings())


# -- copies


def test_a_backup_has_the_filter_and_a_compact_file_keeps_it(folded: Path, tmp_path: Path) -> None:
    with Reader(folded) as reader:
        reader.backup(tmp_path / "copy")
    compact(folded)
    for path in (folded, tmp_path / "copy"):
        with opened(path) as frontier:
            frontier.check()
            assert frontier.schedule_many(pages(0, 26)).added == 1


@pytest.mark.parametrize(("damage", "words"), [("missing", "No such file"), ("cut", "its bytes are not those")])
def test_a_frontier_with_a_damaged_filter_is_not_copied(folded: Path, tmp_path: Path, damage: str, words: str) -> None:
    data = (folded / "data.mdb").read_bytes()
    if damage == "missing":
        (folded / "seen-1.bloom").unlink()
    else:
        (folded / "seen-1.bloom").write_bytes(b"")
    with Reader(folded) as reader, pytest.raises(CorruptFrontier, match=words):
        reader.backup(tmp_path / "copy")
    with pytest.raises(CorruptFrontier, match=words):
        compact(folded)
    assert not (tmp_path / "copy").exists()
    assert (folded / "data.mdb").read_bytes() == data


def test_a_backup_taken_while_the_filter_grows_has_the_one_of_its_commit(
    folded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def slowly(*args: Any, **options: Any) -> None:
        copy(*args, **options)
        frontier.schedule_many(pages(25, 40))
        frontier.commit()
        assert generations(folded) == ["seen-2.bloom"]

    with opened(folded) as frontier:
        monkeypatch.setattr("budgetfrontier.storage.reader.copy", slowly)
        with Reader(folded) as reader:
            reader.backup(tmp_path / "copy")
    assert generations(tmp_path / "copy") == ["seen-1.bloom"]
    with opened(tmp_path / "copy") as frontier:
        frontier.check()
        assert frontier.schedule_many(pages(0, 40)).added == 15


def test_a_reader_whose_filter_was_replaced_reads_the_newer_one(folded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = bloom_file.read

    def late(*args: Any) -> Any:
        monkeypatch.setattr(bloom_file, "read", read)
        frontier.schedule_many(pages(25, 40))
        frontier.commit()
        return read(*args)

    with opened(folded) as frontier, Reader(folded) as reader:
        monkeypatch.setattr(bloom_file, "read", late)
        assert reader.find("https://a.test/3")["seen"] is True


# -- noop


def test_noop_admits_everything_and_records_nothing(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "f", make_settings(duplicates="noop")) as frontier:
        assert frontier.schedule("https://a.test/1") is Admission.ADDED
        assert frontier.schedule("https://a.test/1") is Admission.ADDED
        assert frontier.schedule_many(["https://a.test/1"] * 20 + [CrawlUri("https://a.test/1")] * 3).added == 23
        assert frontier.mark_seen(["https://a.test/2"]).added == 1
        assert frontier.schedule("https://a.test/2") is Admission.ADDED
        assert (frontier.summary().seen, frontier.summary().duplicates) == (0, 0)
        assert len({lease.id for lease in frontier.lease(30)}) == 1, "one URI of a host at a time"
        frontier.check()
    with Reader(tmp_path / "f") as reader:
        reader.check()
        assert reader.find("https://a.test/1")["seen"] is False
    repair(tmp_path / "f")
    with Frontier.open(tmp_path / "f") as frontier:
        assert frontier.summary().queued == 26


@pytest.mark.parametrize("seed", range(3))
def test_a_filter_gives_the_answers_of_the_exact_table(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    with opened(tmp_path / "f", expected=5000) as ours, Frontier.open(":memory:", make_settings()) as exact:
        for _ in range(100):
            batch = [
                f"https://{chosen.choice('abc')}.test/{chosen.randrange(2000)}" for _ in range(chosen.randrange(40))
            ]
            assert ours.schedule_each(batch) == exact.schedule_each(batch)
            if not chosen.randrange(5):
                ours.commit()
        ours.check()
        assert ours.summary().seen == exact.summary().seen


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_a_filter_that_may_not_be_read_is_not_damaged(
    folded: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Otherwise a repair would begin an empty one."""

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(bloom_file, "open", refused, raising=False)
        with Reader(folded) as reader, pytest.raises(OSError, match=os.strerror(number)):
            reader.check()
        for call in repair, opened, compact:
            with pytest.raises((OSError, FrontierError), match=os.strerror(number)) as caught:
                call(folded)
            assert not isinstance(caught.value, CorruptFrontier)
    assert not repair(folded).changes
    with opened(folded) as frontier:
        assert frontier.schedule_many(pages(0, 25)).duplicate == 25
