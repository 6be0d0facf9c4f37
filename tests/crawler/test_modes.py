"""Who may read a job's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from budgetfrontier import Frontier, Reader
from budgetfrontier.engine.commands.mailbox import Command, Mailbox
from budgetfrontier.tools.cli import main
from tests.crawler.site import Site, linking, run

PAGES = {"a.test/": linking("/1"), "a.test/1": "x"}


pytestmark = pytest.mark.usefixtures("usual_umask")


def modes(folder: Path) -> tuple[set[str], set[str]]:
    """The modes of all folders, and of all files."""
    paths = [folder, *folder.rglob("*")]
    folders = {oct(path.stat().st_mode & 0o777) for path in paths if path.is_dir()}
    return folders, {oct(path.stat().st_mode & 0o777) for path in paths if path.is_file()}


def crawled(folder: Path) -> Path:
    with Site(PAGES) as site:
        settings = site.settings("http://a.test/", output={"warc": True, "links": "jsonl"})
        assert run(settings, folder)[0] == 0
    names = {path.name for path in folder.rglob("*")}
    assert {"frontier", "mailbox", "crawl", "lock", "lock.mdb", "crawl.log", "frontier.json", "warcs"} <= names
    return folder


def test_a_job_is_its_owners_alone(tmp_path: Path) -> None:
    job = crawled(tmp_path / "above" / "job")
    assert modes(job) == ({"0o700"}, {"0o600"})
    assert (tmp_path / "above").stat().st_mode & 0o777 == 0o755
    for command in (["compact"], ["backup", str(tmp_path / "copy")]):
        assert main([command[0], str(job), *command[1:]]) == 0
    assert modes(job) == modes(tmp_path / "copy") == ({"0o700"}, {"0o600"})


def test_an_operator_who_lets_a_group_in_is_heeded(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    job.chmod(0o750)
    crawled(job)
    assert modes(job) == ({"0o750"}, {"0o640"})
    main(["verify", str(job), "--repair"])
    assert modes(job) == ({"0o750"}, {"0o640"})
    for path in (job / "frontier", job / "logs"):
        path.chmod(0o755)
    with Site(PAGES) as site:
        run(site.settings("http://a.test/"), job)
    assert (job / "frontier").stat().st_mode & 0o777 == 0o755
    assert (job / "reports" / "frontier.txt").stat().st_mode & 0o777 == 0o640


def test_a_frontier_and_its_mailbox_are_their_owners_alone(tmp_path: Path) -> None:
    with Frontier.open(tmp_path / "frontier") as frontier:
        frontier.schedule("http://a.test/")
        frontier.commit()
        mailbox = Mailbox(tmp_path / "frontier")
        mailbox.post(Command("pause", {}, "me", ""))
        mailbox.close()
        with Reader(tmp_path / "frontier") as reader:
            assert reader.summary().queued == 1
    assert modes(tmp_path / "frontier") == ({"0o700"}, {"0o600"})
