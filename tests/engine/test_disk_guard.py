"""The pause while a disk is nearly full: it ends by itself, and no pause of an operator does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from budgetfrontier import CrawlState, Frontier, Reader, SettingsError
from budgetfrontier.engine import disk_guard
from budgetfrontier.engine.remote import _apply_here, steer
from budgetfrontier.reports.explain import explain
from budgetfrontier.rules.verdict import verdict
from budgetfrontier.tools.cli import main
from tests.crash.disks import PAGE, disk_or_skip
from tests.support import START, make_settings, memory, on_disk, one, pages, post, whole

GUARDS = {"min_free": 1000, "resume_at": 1500}
Disk = Callable[..., None]


class Usage(NamedTuple):
    total: int
    used: int
    free: int


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """Sets how much is free on each disk, by the name of a folder on it, and lets each tick look at them."""
    free: dict[str, int] = {}

    def usage(folder: Path) -> Usage:
        if not Path(folder).exists():
            raise FileNotFoundError(folder)
        return Usage(0, 0, free.get(Path(folder).name, 10_000))

    def put(**sizes: int) -> None:
        free.update(sizes)

    monkeypatch.setattr("shutil.disk_usage", usage)
    monkeypatch.setattr(disk_guard, "LOOK_EVERY", 0.0)
    return put


def look(f: Frontier) -> CrawlState:
    """Let a commit interval end."""
    f._guard.commits.begin_interval(0.0)
    f.commit()
    return f.state


def test_a_crawl_pauses_at_little_room_and_resumes_at_more(tmp_path: Path, disk: Disk) -> None:
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("ab", 2))
        assert look(f) is CrawlState.RUNNING
        disk(frontier=999)
        assert look(f) is CrawlState.PAUSED
        assert f.lease() == []
        disk(frontier=1499)
        assert look(f) is CrawlState.PAUSED, "it would pause again at once"
        disk(frontier=1500)
        assert look(f) is CrawlState.RUNNING
        one(f)
        assert [(entry.command, entry.who) for entry in f.audit()] == [("pause", "guard"), ("resume", "guard")]
        whole(f)


def test_it_resumes_at_a_quarter_more_by_default(tmp_path: Path, disk: Disk) -> None:
    disk(frontier=999)
    with on_disk(tmp_path, guards={"min_free": 1000}) as f:
        f.schedule_many(pages("a", 2))
        assert look(f) is CrawlState.PAUSED
        disk(frontier=1249)
        assert look(f) is CrawlState.PAUSED
        disk(frontier=1250)
        assert look(f) is CrawlState.RUNNING


def test_what_is_out_may_be_finished(tmp_path: Path, disk: Disk) -> None:
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
        lease = one(f)
        disk(frontier=1)
        assert look(f) is CrawlState.PAUSING
        f.finish(lease)
        assert f.state is CrawlState.PAUSED
        disk(frontier=5000)
        assert look(f) is CrawlState.RUNNING


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_the_pause_of_an_operator_stays(tmp_path: Path, disk: Disk, when: str) -> None:
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
        if when == "before":
            f.pause(reason="mine")
        disk(frontier=1)
        assert look(f) is CrawlState.PAUSED
        if when == "meanwhile":
            f.pause(reason="mine")
        assert f.summary().pause_reason == "mine"
        disk(frontier=5000)
        assert look(f) is CrawlState.PAUSED
        f.resume()
        assert look(f) is CrawlState.RUNNING


def test_a_resume_at_too_little_room_is_followed_by_a_pause(tmp_path: Path, disk: Disk) -> None:
    disk(frontier=1)
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
        assert look(f) is CrawlState.PAUSED
        assert f.resume() is CrawlState.RUNNING
        assert look(f) is CrawlState.PAUSED


def test_the_opening_looks_at_the_disk(tmp_path: Path, disk: Disk) -> None:
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
    disk(frontier=1)
    with on_disk(tmp_path) as f:
        assert (f.state, f.lease()) == (CrawlState.PAUSED, [])
    disk(frontier=5000)
    with on_disk(tmp_path) as f:
        one(f)


def test_without_the_setting_a_pause_for_the_disk_ends_at_the_opening(tmp_path: Path, disk: Disk) -> None:
    disk(frontier=1)
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
        assert look(f) is CrawlState.PAUSED
    with on_disk(tmp_path, guards={"min_free": 0}) as f:
        assert (f.state, look(f)) == (CrawlState.RUNNING, CrawlState.RUNNING)


def test_further_folders_count_once_they_exist(tmp_path: Path, disk: Disk) -> None:
    disk(warcs=1)
    with Frontier.open(tmp_path / "frontier", make_settings(guards=GUARDS), disks=[str(tmp_path / "warcs")]) as f:
        f.schedule_many(pages("a", 2))
        assert look(f) is CrawlState.RUNNING
        (tmp_path / "warcs").mkdir()
        assert look(f) is CrawlState.PAUSED
        assert f.summary().pause_reason == (
            f"disk: 1 B free in {tmp_path / 'warcs'}, less than guards.min_free, 1000 B; "
            "at 1.5 KiB it resumes by itself"
        )


def test_the_opening_looks_at_further_folders(tmp_path: Path, disk: Disk) -> None:
    (tmp_path / "warcs").mkdir()
    disk(warcs=1)
    for _ in range(2):
        with Frontier.open(tmp_path / "frontier", make_settings(guards=GUARDS), disks=[tmp_path / "warcs"]) as f:
            f.schedule_many(pages("a", 2))
            assert look(f) is CrawlState.PAUSED
            assert [entry.command for entry in f.audit()] == ["pause"]


def test_further_folders_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="folders"):
        Frontier.open(tmp_path / "frontier", disks="warcs")
    assert not (tmp_path / "frontier").exists()


@pytest.mark.parametrize("free", [1, 5000])
def test_a_command_on_a_stopped_crawl_neither_pauses_nor_resumes_it(tmp_path: Path, disk: Disk, free: int) -> None:
    """It does not know at which other disks the crawl looks."""
    disk(frontier=5001 - free)
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("ab", 2))
        state = look(f)
    disk(frontier=free)
    steer(tmp_path / "frontier", "adjust", {"match": "*", "set": {"politeness.min_delay": 3}})
    post(tmp_path / "frontier", "delete", queue="b.test")
    assert _apply_here(tmp_path / "frontier", 1)
    main(["import", str(tmp_path), "https://a.test/9"])
    with Reader(tmp_path / "frontier") as reader:
        assert reader.summary().state is state
        assert "guard" not in [entry.who for entry in reader.audit()][state is CrawlState.PAUSED :]


def test_a_long_command_is_done_before_the_crawl_resumes(tmp_path: Path, disk: Disk) -> None:
    disk(frontier=1)
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(f"https://a.test/{n}" for n in range(2000))
        post(tmp_path / "frontier", "delete", queue="a.test")
        assert look(f) is CrawlState.PAUSED, "a pause does not wait for it"
        disk(frontier=5000)
        states = []
        while f.summary().queued and f.internals.is_busy:
            states.append(look(f))
        assert CrawlState.PAUSED in states
        assert look(f) in (CrawlState.FINISHED, CrawlState.RUNNING)
        whole(f)


def test_a_frontier_in_memory_needs_no_disk(disk: Disk) -> None:
    f = memory(guards=GUARDS)
    f.schedule_many(pages("a", 2))
    assert look(f) is CrawlState.RUNNING


def test_the_verdict_and_explain_say_so(tmp_path: Path, disk: Disk) -> None:
    disk(frontier=1)
    told = "The crawl is paused: 1 B free in"
    with on_disk(tmp_path, guards=GUARDS) as f:
        f.schedule_many(pages("a", 2))
        look(f)
        with Reader(tmp_path / "frontier") as reader:
            of_crawl = verdict(reader.standing(START))
            assert (of_crawl.slug, of_crawl.level, of_crawl.remedy) == ("disk", "warn", None)
            assert of_crawl.text.startswith(told)
            found = explain(reader, "a.test", job="JOB", now=START)
            assert [reason.command for reason in found.reasons if told in reason.text] == [None]
            assert found.text(now=START).endswith("When: once the reasons above no longer hold.\n")
    with Reader(tmp_path / "frontier") as reader:
        assert told in verdict(reader.standing(0.0)).text


def test_it_must_not_resume_below_the_threshold() -> None:
    with pytest.raises(SettingsError, match=r"frontier.guards: resume_at is less than min_free"):
        make_settings(guards={"min_free": 1000, "resume_at": 999})


def test_on_a_small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_guard, "LOOK_EVERY", 0.0)
    with (
        disk_or_skip(tmp_path, size=8 << 20) as small,
        on_disk(small.folder, guards={"min_free": 2 << 20, "resume_at": 3 << 20}) as f,
    ):
        f.schedule_many(pages("a", 2))
        assert look(f) is CrawlState.RUNNING
        small.fill((2 << 20) // PAGE + 8)
        assert look(f) is CrawlState.RUNNING
        small.fill((2 << 20) // PAGE - 8)
        assert (look(f), f.lease()) == (CrawlState.PAUSED, [])
        f.schedule_many(pages("b", 2))
        small.fill((3 << 20) // PAGE - 8)
        assert look(f) is CrawlState.PAUSED
        small.clear()
        assert look(f) is CrawlState.RUNNING
        assert [entry.who for entry in f.audit()] == ["guard", "guard"]
        whole(f)
        f.close()
